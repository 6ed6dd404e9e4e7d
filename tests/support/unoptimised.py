"""PoCL without its optimiser, which takes most of the time of a test whose kernels run for microseconds.

For tests of what a text computes, not of how fast. The defaults of all workloads, and what users see first, are tested as they ship;
``PORTATILE_TESTS_OPTIMISED=1`` has everything compiled that way.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from portatile import processes, program
from portatile.device.target import Target
from portatile.errors import CompileError
from portatile.records import Binary, Source
from portatile.runtime import perform
from portatile.runtime.one_device import deferred
from support import checking

_OPTION = "-cl-opt-disable"
WANTED = os.environ.get("PORTATILE_TESTS_OPTIMISED", "0") == "0"


def built(source: Source, target: Target, *more: Any, build: Callable[..., Binary] = program.build) -> Binary:
    """As ``program.build``; of a compiler that defers, which is PoCL's, a binary that the cache tells from an optimised one."""
    if target.backend == "opencl" and target.defers:
        try:
            return build(replace(source, options=(*source.options, _OPTION)), target, *more)
        except CompileError:  # PoCL links only what it has inlined
            pass
    return build(source, target, *more)


def use(monkeypatch: pytest.MonkeyPatch) -> None:
    """Build so during a test, and keep no binary for other processes."""
    monkeypatch.setattr(program, "build", built)
    keep_no_binaries(monkeypatch)


def keep_no_binaries(monkeypatch: pytest.MonkeyPatch) -> None:
    """What routines compile here is not compiled once more, into binaries that other processes load: nobody asks for them."""
    monkeypatch.setattr(deferred.waiting, "_add", lambda *draft: None)


def flags(folder: Path) -> dict[str, str]:
    """Variables for processes whose binaries nobody else uses; ``folder`` is for PoCL's own, whose names do not tell the flags."""
    if not WANTED:
        return {}
    (_of_run(folder) / "pocl").mkdir(exist_ok=True)
    return {"POCL_EXTRA_BUILD_FLAGS": _OPTION, "POCL_CACHE_DIR": str(_of_run(folder) / "pocl")}


def _of_run(folder: Path) -> Path:
    """The folder that all workers of pytest-xdist share, where it is that of one."""
    return folder.parent if folder.name.startswith("popen-") else folder


def environment(folder: Path) -> dict[str, str]:
    """This process's variables for another one that keeps its results in ``folder``, and what it compiles beside it, for others like it."""
    places = {"PORTATILE_DATA_DIR": str(folder / "data"), "PORTATILE_CACHE_DIR": str(_of_run(folder.parent) / "cache")}
    return {**os.environ, **places, **flags(folder.parent)}


_unoptimised = False  # what this process has loaded


@pytest.fixture(autouse=True)
def optimiser(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels as they ship, or, for a test marked ``unoptimised``, compiled quickly; none is left from a test of the other kind."""
    global _unoptimised
    expected = WANTED and request.node.get_closest_marker("unoptimised") is not None
    if expected:
        use(monkeypatch)
    elif WANTED:
        keep_no_binaries(monkeypatch)
    if "own_directories" in request.fixturenames:  # what is built by the processes that tune stays there
        usual, more = processes.environment, flags(request.getfixturevalue("tmp_path").parent)
        monkeypatch.setattr(processes, "environment", lambda: usual() | more)
    if expected != _unoptimised:
        perform.forget()
        checking.forget()
        _unoptimised = expected
