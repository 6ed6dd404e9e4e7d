"""Batched SYRK: a triangle of C_i = alpha op(A_i) op(A_i)^T + beta C_i, of small matrices."""

from __future__ import annotations

from collections.abc import Mapping

from portatile.records import Config, DeviceInfo, Plan, Problem, Value
from portatile.workloads import blocks, syrk
from portatile.workloads.batched import Batched, Strides, native, stack_of


class SyrkBatched(Batched, syrk.Syrk):
    """A stack of ``syrk`` problems, ``batch`` of one shape; options are those of ``syrk``.

    The operands are stacks with any stride along the batch; with a stride of 0 all problems share one matrix that is read.
    """

    name = "syrk_batched"
    sizes: Mapping[str, str] = {"batch": "problems", **syrk.Syrk.sizes}
    options: Mapping[str, tuple[Value, ...]] = native(syrk.Syrk.options)
    single = syrk.workload

    def products_alone(self, problem: Problem, device: DeviceInfo) -> bool:
        """Whether products are the only launches: on NVIDIA's GPUs, where they skip the other triangle."""
        return device.nvidia and problem.sizes["k"] > 0

    def plan(self, problem: Problem, config: Config, device: DeviceInfo) -> Plan:
        """On NVIDIA's GPUs one launch for all products, which skips the other triangle; otherwise as for any stack."""
        if not self.products_alone(problem, device):
            return super().plan(problem, config, device)

        def made(first: Problem, steps: Strides, count: int) -> Plan:
            n, k, a = first.sizes["n"], first.sizes["k"], ("a", stack_of(first.layout["a"], steps["a"]))
            operands = {"a": a, "b": a, "c": ("c", stack_of(first.layout["c"], steps["c"]))}
            product = blocks.BlockProduct((n, n, k), operands, syrk.op_of(first, ("a", "a")), ("alpha", "beta"))
            return blocks.small_stack(first, product, syrk.unwanted(first), device, count)

        return self.in_parts(problem, made)


workload = SyrkBatched()
