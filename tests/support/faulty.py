"""A workload whose variants fail in every way that a variant can, for the tests of tuning."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from portatile.records import Arg, Config, DeviceInfo, Launch, Plan, Problem, Source
from portatile.space import ParameterSpace
from portatile.workload import Expected, Inputs, Operand, Workload

FAULTS = ("none", "slow", "wrong", "behind", "before", "far", "compile", "local", "group", "hang", "abort")
FARTHER = "farther"  # than a search looks; a final comparison does
RACE = "race"  # between work-items, which no result shows

TEXT = """
#if FAULT == COMPILE
#error this variant does not build
#endif
__kernel void twice(__global const float *x, __global float *y, int n) {
    int i = get_global_id(0);
#if FAULT == LOCAL
    __local float tile[1 << 24];
    tile[get_local_id(0)] = x[0];
    barrier(CLK_LOCAL_MEM_FENCE);
    if (tile[0] > 1e30f) return;
#endif
#if FAULT == HANG
    while (*(volatile __global const float *)x < 1e30f);
#endif
#if FAULT == ABORT
    *(volatile __global float *)(x + ((size_t)1 << 46)) = 1.0f;
#endif
    float v = 0.0f;
#if FAULT == SLOW
    for (int j = 0; j < 2000; j++) v += *(volatile __global const float *)(x + i % n) * 1e-20f;
#endif
    if (i < n) y[i] = FAULT == WRONG && i == n - 1 ? 0.0f : 2.0f * x[i] + v;
    if (FAULT == BEHIND && i == 0) y[n + 3] = 1.0f;
    if (FAULT == BEFORE && i == 0) y[-3] = 1.0f;
    if (FAULT == FAR && i == 0) y[-100000] = y[n + 100000] = 1.0f;
#if FAULT == RACE
    __local volatile int shared[64];
    shared[get_local_id(0)] = i;
    if (shared[(get_local_id(0) + 1) % get_local_size(0)] == -1) y[i] = 0.0f;
#endif
    if (FAULT == FARTHER && i == 0) y[n + 300000] = 1.0f;
}
"""


class Faulty(Workload):
    """y = 2 x in n elements; the parameter ``fault`` chooses what goes wrong, ``group`` the work-group size."""

    name = "faulty"
    sizes = {"n": "elements"}
    dtypes = ("float32",)
    operands = (Operand("x"), Operand("y", "out"))

    def __init__(self, faults: tuple[str, ...] = FAULTS, groups: tuple[int, ...] = (16, 32, 64), default: str = "none") -> None:
        self.faults, self.groups, self.usual = faults, groups, default

    def shapes(self, problem: Problem) -> dict[str, tuple[int, ...]]:
        return {"x": (problem.sizes["n"],), "y": (problem.sizes["n"],)}

    def space(self, problem: Problem, device: DeviceInfo) -> ParameterSpace:
        return ParameterSpace({"fault": self.faults, "group": self.groups}, ["group <= max_work_group_size"], device.facts())

    def default(self, problem: Problem, device: DeviceInfo) -> Config:
        return {"fault": self.usual, "group": self.groups[0]}

    def plan(self, problem: Problem, config: Config, device: DeviceInfo) -> Plan:
        n, group = problem.sizes["n"], int(config["group"])
        names = tuple((fault.upper(), str(number)) for number, fault in enumerate((*FAULTS, FARTHER, RACE)))
        source = Source("faulty.cl", TEXT, (*names, ("FAULT", str(config["fault"]).upper())))
        args = (Arg("x"), Arg("y", role="out"), Arg("n", "scalar", dtype="int32", value=n))
        local = group if config["fault"] != "group" else 1 << 20
        return Plan((Launch(source, "twice", (-(-n // local) * local, 1, 1), (local, 1, 1), args),))

    def inputs(self, problem: Problem, rng: np.random.Generator) -> Inputs:
        n = problem.sizes["n"]
        return Inputs({"x": rng.random(n, np.float32), "y": np.full(n, np.nan, np.float32)})

    def reference(self, problem: Problem, inputs: Inputs, sample: np.random.Generator | None = None) -> dict[str, Expected]:
        values = 2 * inputs.operands["x"].astype(np.float64)
        return {"y": Expected(values, np.abs(values))}

    def bound(self, problem: Problem, config: Config) -> float:
        return 2.0**-20

    def flops(self, problem: Problem) -> float:
        return float(problem.sizes["n"])

    def traffic(self, problem: Problem) -> float:
        return 8.0 * problem.sizes["n"]

    def awkward(self, problem: Problem) -> list[Problem]:
        return [replace(problem, sizes={"n": n}, layout={}) for n in (1, 37)]
