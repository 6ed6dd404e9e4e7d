"""Hostile kernels in a search: writes at random places around their arrays, and results that are wrong somewhere, never win."""

from __future__ import annotations

import random
from dataclasses import dataclass

from attack import AttackError, Place
from portatile import device
from portatile.errors import NoValidVariantError
from portatile.records import Arg, Config, DeviceInfo, Launch, Plan, Problem, Source
from portatile.store import ResultStore
from portatile.trials import Budget
from portatile.tuning.protocol import Timing
from portatile.tuning.search.tuner import TuningRequest, tune
from support.faulty import Faulty

_TEXT = """
__kernel void twice(__global const float *x, __global float *y, int n) {
    const int i = get_global_id(0);
    if (i < n) y[i] = 2.0f * x[i];
    if (i == 0 && n >= LEAST) EVIL;
}
"""
_REACH = 2**18 - 1  # elements of four bytes within the margins


@dataclass(eq=False)
class _Hostile(Faulty):
    """As Faulty, with one statement that does harm in problems of at least so many elements."""

    evil: str
    least: int

    def __post_init__(self) -> None:
        super().__init__(("evil",), (32,), default="evil")

    def plan(self, problem: Problem, config: Config, device: DeviceInfo) -> Plan:
        n = problem.sizes["n"]
        source = Source("hostile.cl", _TEXT, (("EVIL", self.evil), ("LEAST", str(self.least))))
        args = (Arg("x"), Arg("y", role="out"), Arg("n", "scalar", dtype="int32", value=n))
        return Plan((Launch(source, "twice", (-(-n // 32) * 32, 1, 1), (32, 1, 1), args),))


def attempt(rng: random.Random, place: Place) -> str:
    """One hostile kernel is tuned; that it is found out is the only good end."""
    reach = rng.choice((1, 4, 64, 1000, _REACH))
    distance = rng.randint(1, reach)
    statements = {
        "before": f"y[-{distance}] = 1.0f",
        "behind": f"y[n + {distance - 1}] = 1.0f",
        "its input": "((__global float *)x)[n - 1] = 3.0f",
        "wrong": f"y[0] += {rng.choice(('1.0f', '1e-3f', 'NAN'))}",
    }
    name = rng.choice(list(statements))
    workload = _Hostile(statements[name], rng.choice((0, 1003)))
    chosen = device.get(place.device).info.id
    request = TuningRequest(workload.problem({"n": 1003}), chosen, Budget(seconds=60), workload=workload, timing=Timing(3, 0.0005, 0.05))
    try:
        with ResultStore(place.folder / "results.sqlite") as store:
            tune(request, store)
    except NoValidVariantError:
        return name
    raise AttackError(f"{statements[name]} at n >= {workload.least} was taken for right")
