"""A workload whose configurations are chosen and predicted, but never run: for tests of the selection."""

from __future__ import annotations

import numpy as np

from portatile.records import Config, DeviceInfo, Plan, Problem
from portatile.workload import Expected, Inputs, Workload


class NeverRun(Workload):
    """What running a problem takes is empty; a test defines names, shapes, space, default and costs."""

    def plan(self, problem: Problem, config: Config, device: DeviceInfo) -> Plan:
        return Plan(())

    def inputs(self, problem: Problem, rng: np.random.Generator) -> Inputs:
        return Inputs({})

    def reference(self, problem: Problem, inputs: Inputs, sample: np.random.Generator | None = None) -> dict[str, Expected]:
        return {}

    def bound(self, problem: Problem, config: Config) -> float:
        return 0.0
