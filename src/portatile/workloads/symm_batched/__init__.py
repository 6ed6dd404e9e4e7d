"""Batched SYMM: C_i = alpha A_i B_i + beta C_i or alpha B_i A_i + beta C_i for symmetric A_i, of small matrices."""

from __future__ import annotations

from collections.abc import Mapping

from portatile.records import Config, DeviceInfo, Plan, Problem, Value
from portatile.workloads import blocks, symm
from portatile.workloads.batched import Batched, Strides, native, one_of, stack_of


class SymmBatched(Batched, symm.Symm):
    """A stack of ``symm`` problems, ``batch`` of one shape; options are those of ``symm``.

    The operands are stacks with any stride along the batch; with a stride of 0 all problems share one matrix that is read.
    """

    name = "symm_batched"
    sizes: Mapping[str, str] = {"batch": "problems", **symm.Symm.sizes}
    options: Mapping[str, tuple[Value, ...]] = native(symm.Symm.options)
    single = symm.workload

    def default(self, problem: Problem, device: DeviceInfo) -> Config:
        """As for one problem; without effect if the product reads the triangle itself."""
        return super().default(problem, device) if self.products_alone(problem, device) else self.single.default(problem, device)

    def products_alone(self, problem: Problem, device: DeviceInfo) -> bool:
        """Whether the products read the triangles themselves."""
        return symm.reads_triangle(one_of(problem), device, problem.sizes["batch"])

    def plan(self, problem: Problem, config: Config, device: DeviceInfo) -> Plan:
        """One launch for all products if it reads the triangles itself, otherwise as for any stack."""
        if not self.products_alone(problem, device):
            return super().plan(problem, config, device)

        def made(first: Problem, steps: Strides, count: int) -> Plan:
            stacks = {name: (name, stack_of(layout, steps[name])) for name, layout in first.layout.items()}
            return blocks.small_stack(first, *symm.product_of(first, stacks), device, count)

        return self.in_parts(problem, made)


workload = SymmBatched()
