"""Which devices are tuned at the same time, and how the cores are divided."""

from __future__ import annotations

from dataclasses import replace

from portatile.records import Problem
from portatile.trials import Budget
from portatile.tuning.search import many_devices
from portatile.tuning.search.request import TuningRequest
from support.devices import CPU, GPU


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
