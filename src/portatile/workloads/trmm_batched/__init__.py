"""Batched TRMM: B_i = alpha op(A_i) B_i or alpha B_i op(A_i) for triangular A_i, of small matrices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from portatile.records import Config, DeviceInfo, Plan, Problem, Value
from portatile.workloads import blocks, trmm
from portatile.workloads.batched import Batched, Strides, native, spread_over, stack_of
from portatile.workloads.structured import result


class TrmmBatched(Batched, trmm.Trmm):
    """A stack of ``trmm`` problems, ``batch`` of one shape; options are those of ``trmm``.

    The operands are stacks with any stride along the batch; with a stride of 0 all problems share one matrix that is read.
    """

    name = "trmm_batched"
    sizes: Mapping[str, str] = {"batch": "problems", **trmm.Trmm.sizes}
    options: Mapping[str, tuple[Value, ...]] = native(trmm.Trmm.options, apart=True)
    single = trmm.workload

    def products_alone(self, problem: Problem, device: DeviceInfo) -> bool:
        """Whether products are the only launches: on NVIDIA's GPUs, where they skip zeros, unless B is copied first."""
        return device.nvidia and bool(problem.options.get("apart"))

    def plan(self, problem: Problem, config: Config, device: DeviceInfo) -> Plan:
        """On NVIDIA's GPUs one launch for all products, which skips zeros and reads a copy of B if that is overwritten; otherwise as for
        any stack.
        """
        if not device.nvidia or 0 in problem.sizes.values():
            return super().plan(problem, config, device)

        def made(first: Problem, steps: Strides, count: int) -> Plan:
            given, copied = ("b", stack_of(first.layout["b"], steps["b"])), Plan(())
            if not first.options.get("apart"):
                one = replace(first, sizes={**first.sizes, "batch": count})
                copy = trmm.copy_of_b(one, int(config["WGS"]))
                copied = spread_over(Plan((copy.launch,), (copy.temporary,)), one, steps)
                given = (copy.temporary.name, stack_of(copy.layout, copy.temporary.nbytes // first.itemsize))
            product, zeros = trmm.product_of(first, ("a", stack_of(first.layout["a"], steps["a"])), given)
            c = (product.operands["c"][0], stack_of(product.operands["c"][1], steps[result(first)]))
            found = blocks.small_stack(first, replace(product, operands={**product.operands, "c": c}), zeros, device, count)
            return Plan((*copied.steps, *found.steps), (*copied.temporaries, *found.temporaries))

        return self.in_parts(problem, made)


workload = TrmmBatched()
