"""Batched SYR2K: a triangle of C_i = alpha op(A_i) op(B_i)^T + alpha op(B_i) op(A_i)^T + beta C_i, of small matrices."""

from __future__ import annotations

from collections.abc import Mapping

from portatile.records import Value
from portatile.workloads import syr2k
from portatile.workloads.batched import Batched, native


class Syr2kBatched(Batched, syr2k.Syr2k):
    """A stack of ``syr2k`` problems, ``batch`` of one shape; options are those of ``syr2k``.

    The operands are stacks with any stride along the batch; with a stride of 0 all problems share one matrix that is read.
    """

    name = "syr2k_batched"
    sizes: Mapping[str, str] = {"batch": "problems", **syr2k.Syr2k.sizes}
    options: Mapping[str, tuple[Value, ...]] = native(syr2k.Syr2k.options)
    single = syr2k.workload


workload = Syr2kBatched()
