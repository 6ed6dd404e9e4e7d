"""Compile workers that one process forks: they compile and end as new processes do, and where there can be none, new processes serve."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from portatile import cache, program
from portatile.device.cuda import compiler
from portatile.records import Source
from portatile.tuning.protocol import Build, Built, DeviceOpened, Open, Reply
from portatile.tuning.search.worker_forks import WorkerForks
from portatile.tuning.search.worker_process import WorkerEnded, WorkerProcess
from support.devices import CPU, GPU

ABSENT = replace(GPU, backend="cuda", architecture="sm_90", id="cuda:7")
GOOD = Source("add.cl", "kernel void add(global float *x) { x[get_global_id(0)] += 1; }")
BAD = Source("add.cl", "kernel void add(global float *x) { y[0] = 1; }")
pytestmark = pytest.mark.skipif(compiler.available() is not None, reason=str(compiler.available()))


@pytest.fixture
def forks() -> Iterator[WorkerForks]:
    made = WorkerForks()
    assert made.begin(ABSENT)
    yield made
    made.end()


def replies(child: WorkerProcess, count: int) -> list[Reply]:
    found: list[Reply] = []
    while len(found) < count:
        found += child.receive()
    return found


def opened(forks: WorkerForks, folder: Path) -> WorkerProcess:
    child = WorkerProcess(forks=forks)
    child.open(Open(None, str(folder), 1 << 24, compiles=ABSENT), 60.0)
    return child


def is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_forks_compile_into_the_cache(forks: WorkerForks, tmp_path: Path) -> None:
    children = [opened(forks, tmp_path) for _ in range(2)]
    try:
        for child, source in zip(children, (GOOD, BAD), strict=True):
            child.send(Build(1, (source,)))
        built = [next(reply for reply in replies(child, 3) if isinstance(reply, Built)) for child in children]
    finally:
        fates = [child.end(grace=10) for child in children]
    assert [child.forked for child in children] == [True, True]
    assert [reply.failed for reply in built] == [False, True]
    assert "add.cl" in built[1].message
    assert fates == ["exit code 0"] * 2
    assert cache.Cache(tmp_path, 1 << 24).get(program.key(GOOD, compiler.target("sm_90"))) is not None


def test_how_a_fork_ended_is_told(forks: WorkerForks, tmp_path: Path) -> None:
    child = opened(forks, tmp_path)
    assert isinstance(replies(child, 1)[0], DeviceOpened)
    assert child.process.pid is not None
    os.kill(child.process.pid, signal.SIGKILL)
    with pytest.raises(WorkerEnded, match="the process ended"):
        child.receive()
    assert child.end(grace=10) == "SIGKILL"


def test_nothing_is_left_and_new_processes_serve(forks: WorkerForks, tmp_path: Path) -> None:
    """Also where a worker is under way."""
    child = opened(forks, tmp_path)
    replies(child, 1)
    forks.end()
    with pytest.raises(WorkerEnded):
        child.receive()
    assert child.end(grace=10) == "SIGKILL"
    assert child.process.pid is not None
    assert not is_there(child.process.pid)
    assert not forks.begin(ABSENT)
    instead = opened(forks, tmp_path)
    try:
        assert not instead.forked
        assert isinstance(replies(instead, 1)[0], DeviceOpened)
    finally:
        instead.end(grace=10)


def test_a_compiler_that_takes_a_device_is_not_forked(forks: WorkerForks) -> None:
    made = WorkerForks()
    assert not made.begin(CPU)
    made.end()


def test_where_the_process_that_forks_is_killed_new_processes_serve(forks: WorkerForks, tmp_path: Path) -> None:
    child = opened(forks, tmp_path)
    replies(child, 1)
    assert forks._server is not None
    forks._server[1].kill()
    with pytest.raises(WorkerEnded):
        child.receive()
    assert child.end(grace=10) == "SIGKILL"
    instead = opened(forks, tmp_path)
    try:
        assert not instead.forked
        assert isinstance(replies(instead, 1)[0], DeviceOpened)
    finally:
        instead.end(grace=10)


def test_workers_that_end_before_they_begin_leave_nothing(forks: WorkerForks) -> None:
    """Nor an open file: searches may be many."""
    before = len(list(Path("/proc/self/fd").iterdir()))
    children = [WorkerProcess(forks=forks) for _ in range(20)]
    for child in children:
        child.end(grace=0)
    assert [child.process.returncode is not None for child in children] == [True] * 20
    assert len(list(Path("/proc/self/fd").iterdir())) == before
