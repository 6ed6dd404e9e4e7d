"""Batched TRMM: B_i = alpha op(A_i) B_i or alpha B_i op(A_i) for triangular A_i, of small matrices."""

from __future__ import annotations

from collections.abc import Mapping

from portatile.records import Value
from portatile.workloads import trmm
from portatile.workloads.batched import Batched, native


class TrmmBatched(Batched, trmm.Trmm):
    """A stack of ``trmm`` problems, ``batch`` of one shape; options are those of ``trmm``.

    The operands are stacks, their matrices any number of elements apart; a stride of 0 along the batch shares one matrix that is read.

    Parameters: WGS: work-group of the kernels beside the product, of no account on a processor. The product is a problem of
    ``gemm_batched``.
    """

    name = "trmm_batched"
    sizes: Mapping[str, str] = {"batch": "problems", **trmm.Trmm.sizes}
    options: Mapping[str, tuple[Value, ...]] = native(trmm.Trmm.options)
    single = trmm.workload


workload = TrmmBatched()
