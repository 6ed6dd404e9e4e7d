"""Batched SYMM: C_i = alpha A_i B_i + beta C_i or alpha B_i A_i + beta C_i for symmetric A_i, of small matrices."""

from __future__ import annotations

from collections.abc import Mapping

from portatile.records import Config, DeviceInfo, Problem, Value
from portatile.workloads import symm
from portatile.workloads.batched import Batched, native


class SymmBatched(Batched, symm.Symm):
    """A stack of ``symm`` problems, ``batch`` of one shape; options are those of ``symm``.

    The operands are stacks, their matrices any number of elements apart; a stride of 0 along the batch shares one matrix that is read.
    """

    name = "symm_batched"
    sizes: Mapping[str, str] = {"batch": "problems", **symm.Symm.sizes}
    options: Mapping[str, tuple[Value, ...]] = native(symm.Symm.options)
    single = symm.workload

    def default(self, problem: Problem, device: DeviceInfo) -> Config:
        """As for one problem."""
        return self.single.default(problem, device)


workload = SymmBatched()
