"""Which devices are tuned at the same time, and how the cores are divided."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from portatile.records import Problem
from portatile.trials import Budget
from portatile.tuning.search import agreement, many_devices
from portatile.tuning.search.request import TuningRequest
from support.devices import CPU, GPU
from support.trials import trial


def test_gpus_at_once_processors_one_by_one() -> None:
    gpus = [replace(GPU, id=f"cuda:{place}", physical_id=f"gpu {place}") for place in range(3)]
    again = replace(GPU, id="opencl:0:0", physical_id="gpu 1")
    cpus = [replace(CPU, id=f"opencl:{place}:0", physical_id="cpu") for place in (1, 2)]
    infos = [cpus[0], *gpus, again, cpus[1]]
    assert many_devices.rounds(infos) == [[1, 2, 3], [4], [0], [5]]
    assert many_devices.rounds([]) == []


def test_searches_at_once_share_the_cores() -> None:
    request = TuningRequest(Problem("gemm", {"m": 1, "n": 1, "k": 1}, "float32"), None, Budget(1.0))
    assert many_devices._jobs(request, 1) is None
    assert (many_devices._jobs(request, 64) or 0) >= 1
    assert many_devices._jobs(replace(request, jobs=0), 2) == 0


def test_devices_of_a_kind_whose_times_differ_are_named() -> None:
    problem = Problem("gemm", {"m": 1}, "float32")
    same = {name: trial(1, seconds, problem=problem) for name, seconds in (("a", 1.0), ("b", 1.02), ("c", 2.5))}
    assert agreement.disagreeing(same) == {"c"}
    assert agreement.disagreeing({"a": same["a"]}) == set()
    assert agreement.disagreeing({"a": same["a"], "x": trial(1, status="crash", problem=problem)}) == set()
    results = [
        SimpleNamespace(device=replace(GPU, id=f"cuda:{place}"), default=trial(1, seconds))
        for place, seconds in enumerate((1.0, 1.01, 2.0))
    ]
    with pytest.warns(RuntimeWarning, match="cuda:2 does not run the default as others of its kind do"):
        many_devices._compare(results)  # type: ignore[arg-type]
