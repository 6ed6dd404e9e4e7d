"""Trials of a problem on a device on paper, for the tests of what stores, reads, ranks and prints trials."""

from __future__ import annotations

import numpy as np

from portatile.records import DeviceInfo, Problem, Resources
from portatile.trials import Status, Trial
from support.devices import CPU

DEVICE = CPU
PROBLEM = Problem("gemm", {"m": 64, "n": 32, "k": 16}, "float32", {"trans_a": "N"})


def trial(tile: int, seconds: float = 1.0, status: Status = "ok", problem: Problem = PROBLEM, device: DeviceInfo = DEVICE) -> Trial:
    samples = (seconds, seconds * 1.1, seconds * 0.9) if status == "ok" else ()
    return Trial(problem, {"TILE": tile, "FORM": "cpu", "PAD": False}, device, f"source {tile}", status, samples, message="é")


STATUSES: tuple[Status, ...] = ("ok", "compile", "launch", "wrong", "timeout", "crash", "skipped")


def some(seed: int, count: int = 20) -> list[Trial]:
    """Trials of every status with every field set to something."""
    rng = np.random.default_rng(seed)
    made = []
    for place in range(count):
        status = STATUSES[place % len(STATUSES)]
        samples = tuple(rng.uniform(1e-6, 1e-3, 3).tolist()) if status == "ok" else ()
        seconds = {"compile": float(rng.random()), "run": float(rng.random())}
        config = {"TILE": place, "RATE": float(rng.random()), "PAD": bool(place % 2), "FORM": "é, 1"}
        resources = {"kernel": Resources(32, 0, 0)}
        extra = {"error": float(rng.random()), "message": f"line\n{place}", "time": f"2026-11-21T19:16:{place:02}+00:00"}
        made.append(Trial(PROBLEM, config, DEVICE, "source", status, samples, samples[:1], seconds, resources=resources, **extra))  # type: ignore[arg-type]
    return made
