"""Batched SYRK: a triangle of C_i = alpha op(A_i) op(A_i)^T + beta C_i, of small matrices."""

from __future__ import annotations

from collections.abc import Mapping

from portatile.records import Value
from portatile.workloads import syrk
from portatile.workloads.batched import Batched, native


class SyrkBatched(Batched, syrk.Syrk):
    """A stack of ``syrk`` problems, ``batch`` of one shape; options are those of ``syrk``.

    The operands are stacks, their matrices any number of elements apart; a stride of 0 along the batch shares one matrix that is read.

    Parameters: WGS: work-group of the kernels beside the product, of no account on a processor. The product is a problem of
    ``gemm_batched``.
    """

    name = "syrk_batched"
    sizes: Mapping[str, str] = {"batch": "problems", **syrk.Syrk.sizes}
    options: Mapping[str, tuple[Value, ...]] = native(syrk.Syrk.options)
    single = syrk.workload


workload = SyrkBatched()
