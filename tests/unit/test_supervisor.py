"""The watch over the workers: where no worker ever comes to life, how long a launch may take, and what is compiled first."""

from __future__ import annotations

import os
import selectors
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from portatile import processes
from portatile.errors import DeviceError
from portatile.records import Plan, Source
from portatile.tuning.protocol import Build
from portatile.tuning.search.deadlines import PhaseLimits
from portatile.tuning.search.supervisor import Setup, Supervisor
from portatile.tuning.search.worker_process import Variant, WorkerProcess
from support.devices import GPU


@pytest.mark.usefixtures("earlier_children")
def test_workers_that_end_at_once_are_an_error_of_the_device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = shutil.which("false")
    if program is None:
        pytest.skip("there is no program that only fails")
    monkeypatch.setattr(sys, "executable", program)
    with pytest.raises(DeviceError, match="ended 3 times before it could"), Supervisor(Setup(None, tmp_path, 1 << 20, -1)) as supervisor:
        supervisor.info()


@pytest.mark.parametrize(("budget", "launch"), [(None, 60), (1.0, 20), (15.0, 30), (600.0, 60)])
def test_a_launch_takes_no_longer_than_the_budget_lets_expect(budget: float | None, launch: float) -> None:
    limits = PhaseLimits().within(budget)
    assert (limits.launch, limits.run) == (launch, launch)
    assert limits.compile == (60 if budget in (1.0, 15.0) else PhaseLimits().compile)
    assert PhaseLimits(launch=3).within(budget).launch == 3


class Compiler:
    """A compile worker that never ends what it is at."""

    ready, variant = True, None

    def __init__(self) -> None:
        self.given: list[str] = []

    def give(self, variant: Variant, message: Build, limit: float) -> None:
        self.given += [source.text for source in message.sources]


def test_the_proof_of_a_rival_is_compiled_before_other_variants(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    supervisor, worker = Supervisor(Setup(None, tmp_path, 1 << 20, -1)), Compiler()
    compilers: list[WorkerProcess] = [worker]  # type: ignore[list-item]
    monkeypatch.setattr(supervisor, "_compilers", compilers)
    dispatch = supervisor._dispatch
    monkeypatch.setattr(supervisor, "_dispatch", lambda: None)
    supervisor.submit(Variant(1, (Source("a.cl", "one"), Source("a.cl", "shared")), ()))
    supervisor.submit(Variant(2, (Source("a.cl", "shared"), Source("a.cl", "two")), ()))
    supervisor.submit(Variant(3, (Source("a.cl", "proof"),), (), timed=False))
    for _ in range(4):
        dispatch()
    assert worker.given == ["proof", "one", "shared", "two"]
    monkeypatch.setattr(supervisor, "_compilers", [])
    supervisor.close()


@pytest.mark.parametrize(("kind", "free"), [("cpu", True), ("gpu", False)])
def test_a_processors_worker_that_stays_busy_makes_way_for_the_race(
    kind: str, free: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    supervisor, worker = Supervisor(Setup(None, tmp_path, 1 << 20, -1)), Compiler()
    monkeypatch.setattr(worker, "variant", Variant(1, (), ()), raising=False)
    ended: list[object] = []
    monkeypatch.setattr(supervisor, "_timer", worker)
    monkeypatch.setattr(supervisor, "_info", replace(GPU, kind=kind))
    monkeypatch.setattr(supervisor, "_step", lambda until: None)
    monkeypatch.setattr(supervisor, "_end", ended.append)
    assert supervisor.drain(0.01) is free
    assert ended == [worker] * free
    monkeypatch.setattr(supervisor, "_timer", None)
    supervisor.close()


@pytest.mark.parametrize(("backend", "gibibytes", "workers"), [("opencl", 6, 3), ("opencl", 1, 1), ("opencl", 80, 14), ("cuda", 6, 14)])
def test_few_contexts_on_a_gpu_with_little_memory(
    backend: str, gibibytes: int, workers: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    supervisor, started = Supervisor(Setup(None, tmp_path, 1 << 20, -1)), []
    monkeypatch.setattr(supervisor, "_info", replace(GPU, backend=backend, global_memory=gibibytes << 30))
    monkeypatch.setattr(supervisor, "_start", started.append)
    monkeypatch.setattr(processes, "cores", lambda: 64)
    supervisor.compile_ahead(Plan(()))
    assert len(started) == workers


def test_the_parent_of_a_gpus_workers_loads_no_driver(tmp_path: Path) -> None:
    text = f"""
import sys
from dataclasses import replace
from support.devices import GPU
from portatile.records import Plan
from portatile.tuning.search.supervisor import Setup, Supervisor
supervisor = Supervisor(Setup(None, {str(tmp_path)!r}, 1 << 20, -1))
supervisor._info = GPU
supervisor._start = lambda info: None
supervisor.compile_ahead(Plan(()))
print([name for name in sys.modules if name.startswith(("pyopencl", "cuda"))])
"""
    completed = subprocess.run([sys.executable, "-c", text], cwd=Path(__file__).parents[1], capture_output=True, text=True, timeout=60)
    assert completed.returncode == 0, completed.stderr
    assert completed.stdout.strip() == "[]"


class Interrupted:
    """A worker whose end is interrupted so many times."""

    variant = None

    def __init__(self, interrupts: int) -> None:
        self.replies, self.other_end = os.pipe()
        self.interrupts, self.ended = interrupts, 0

    def end(self, grace: float) -> None:
        if self.interrupts:
            self.interrupts -= 1
            raise KeyboardInterrupt
        self.ended += 1


def test_an_interrupt_while_workers_are_ended_leaves_none_and_hides_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    children = [Interrupted(2), Interrupted(0), Interrupted(1)]
    supervisor = Supervisor(Setup(None, tmp_path, 1 << 20, -1))
    for child in children:
        supervisor._selector.register(child.replies, selectors.EVENT_READ, child)
    monkeypatch.setattr(supervisor, "_compilers", children)
    with pytest.raises(KeyboardInterrupt), supervisor:
        supervisor.drain(0.0)
    assert [child.ended for child in children] == [0, 1, 0]
    assert [child.interrupts for child in children] == [0, 0, 0]
    supervisor.close()  # a second call does nothing
    for child in children:
        os.close(child.replies)
        os.close(child.other_end)


def test_a_worker_is_ended_twice_without_harm() -> None:
    worker = WorkerProcess(-1)
    worker.end(grace=0)
    reused, other = os.pipe()  # with the number that the worker's pipe had
    worker.end(grace=0)
    os.write(other, b"still open")
    assert os.read(reused, 20) == b"still open"
    os.close(reused)
    os.close(other)
