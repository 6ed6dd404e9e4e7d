"""Problems of GEMM and the launches of their plans, for the tests of its forms without a device."""

from __future__ import annotations

from portatile import workloads
from portatile.records import Launch, Plan, Problem, Value
from support.devices import DEVICES

WORKLOAD = workloads.get("gemm")
CPU, GPU = DEVICES["cpu"], DEVICES["gpu"]


def problem(m: int, n: int, k: int, dtype: str = "float32", options: dict[str, Value] | None = None) -> Problem:
    """A product with packed operands."""
    return WORKLOAD.problem({"m": m, "n": n, "k": k}, dtype, options)


def launches(plan: Plan) -> list[Launch]:
    """The launches among a plan's steps."""
    return [step for step in plan.steps if isinstance(step, Launch)]
