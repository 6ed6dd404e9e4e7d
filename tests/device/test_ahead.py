"""Compiling ahead of timing, as on a GPU: here on every device, for a processor could do it too if it did not disturb the clock."""

from __future__ import annotations

from collections import Counter

import pytest

from portatile import processes, program, workloads
from portatile.device.base import Device
from portatile.errors import CompileError
from portatile.records import Source, canonical
from portatile.store import ResultStore
from portatile.trials import Budget
from portatile.tuning.protocol import Build, Evaluate, Timing
from portatile.tuning.search.supervisor import Supervisor
from portatile.tuning.search.tuner import TuningRequest, tune
from portatile.tuning.search.worker_process import WorkerProcess

pytestmark = pytest.mark.usefixtures("own_directories")

ADD = "kernel void add(global float *x) { x[get_global_id(0)] += 1; }"
QUICK = Timing(samples=3, burst=0.0005, most=0.05, race=0.0)


@pytest.mark.thinned(1 / 3)
@pytest.mark.parametrize("strategy", ["auto", "local"])
@pytest.mark.usefixtures("earlier_children")
def test_sources_are_compiled_once_and_the_default_is_timed_first(device: Device, strategy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: Counter[str] = Counter()
    waiting: list[int] = []
    give = WorkerProcess.give

    def spy(self: WorkerProcess, variant: object, message: object, limit: float) -> None:
        if isinstance(message, Build):
            compiled.update(source.digest for source in message.sources)
        elif isinstance(message, Evaluate):
            waiting.append(message.number)
        give(self, variant, message, limit)  # type: ignore[arg-type]

    monkeypatch.setattr(WorkerProcess, "give", spy)
    monkeypatch.setattr(Supervisor, "alternates", property(lambda self: False))
    monkeypatch.setattr(processes, "cores", lambda: 4)
    workload = workloads.get("stream")
    problem = workload.problem(dict.fromkeys(workload.sizes, 4096))
    with ResultStore(None) as store:
        result = tune(TuningRequest(problem, device.info.id, Budget(evaluations=8), strategy, timing=QUICK, resume=False), store)
    assert result.trials[0].config == workload.default(problem, device.info)
    assert waiting[0] == 1
    assert sum(trial.status != "skipped" for trial in result.trials) >= 8 or result.stopped == "exhausted"
    assert len({canonical(trial.config) for trial in result.trials}) == len(result.trials)
    assert max(compiled.values()) == 1


def test_a_draft_is_loaded_once_and_is_no_binary_for_others(device: Device) -> None:
    if device.info.backend != "opencl":
        pytest.skip("CUDA's compiler makes nothing but binaries")
    device.target.draft = True
    try:
        draft = program.build(Source("add.cl", ADD), device.target, None)
    finally:
        device.target.draft = False
    assert len(draft.data) < len(program.build(Source("add.cl", ADD), device.target, None).data)
    device.load(draft).release()
    with pytest.raises(CompileError, match="damaged"):
        device.load(draft)
