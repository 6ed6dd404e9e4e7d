"""What tests of every folder share: directories of their own, the run's seed in the header, and shards of the collection."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from support import seeds

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # of NumPy, which is not loaded yet: beside other processes its threads wait busily
os.environ.setdefault("PORTATILE_CEILINGS", "off")  # else each search of a test with a data directory of its own would measure them
os.environ.setdefault("PORTATILE_TIME_UNTUNED", "off")  # else each product of a test on a GPU would be timed in several configurations
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # hundreds of interpreters start, each in half the time where bytecode is kept
sys.dont_write_bytecode = False
gc.set_threshold(20_000, 20, 10)  # by default new objects are searched for garbage thirty times as often

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as a shell starts what runs in the background; tests interrupt children of theirs
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    shard = os.environ.get("PORTATILE_TEST_SHARD", "")
    parser.addoption("--shard", default=shard, metavar="I/N", help="only part I of N of the tests, by a hash of their ids")


def pytest_configure(config: pytest.Config) -> None:
    """Every other worker of pytest-xdist collects from the last folder on: pytest rewrites each file once for two of them, not twice."""
    worker = os.environ.get("PYTEST_XDIST_WORKER", "")[2:]
    if config.args == ["tests"] and worker.isdigit() and int(worker) % 2:
        parts = (path for path in Path(__file__).parent.iterdir() if path.match("test_*.py") or any(path.glob("test_*.py")))
        config.args = sorted(map(str, parts), reverse=True)


def pytest_report_header(config: pytest.Config) -> str:
    """The seed that repeats this run, and how to run what it leaves out."""
    shard = config.getoption("shard")
    drawn = "" if seeds.DRAWS else " draws some of many alike tests, PORTATILE_DRAWS=all runs all"
    return f"{seeds.VARIABLE}={seeds.run_seed()}{drawn}" + (f", shard {shard}" if shard else "")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Under ``--quiet``, which shows no header."""
    if config.get_verbosity() < 0:
        terminalreporter.write_line(pytest_report_header(config))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Every function with cases runs one of them on each device, of those marked so a share; then a shard is what it is of all.

    The order is that of the files, whichever was collected first.
    """
    items.sort(key=lambda item: item.path)
    cases = defaultdict[tuple[str, str], list[str]](list)
    for item in items:
        if (spec := getattr(item, "callspec", None)) is not None:
            cases[item.nodeid.partition("[")[0], str(spec.params.get("device", ""))].append(item.nodeid)
    seeds.keep_one_of_each(cases.values())
    seeds.leave_out(config, items, _undrawn)
    if shard := config.getoption("shard"):
        try:
            seeds.leave_out(config, items, lambda item: not seeds.in_shard(item.nodeid, shard))
        except ValueError as error:
            raise pytest.UsageError(f"--shard: {error}") from None


def _undrawn(item: pytest.Item) -> bool:
    """Of tests marked ``drawn(share)``, a share runs; on a machine with a GPU all, or ``beside_a_gpu`` of them."""
    marker = item.get_closest_marker("drawn")
    if marker is None:
        return False
    if seeds.on_gpu_machine() and "beside_a_gpu" in marker.kwargs:
        return not seeds.drawn(marker.kwargs["beside_a_gpu"], item.nodeid, beside_a_gpu=True)
    return not seeds.drawn(marker.args[0], item.nodeid)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Thousands of tests stay until the end: no search for garbage need look at them."""
    gc.collect()
    gc.freeze()


def pytest_sessionfinish() -> None:
    """pytest ends with several searches for garbage, in all that thousands of tests have left."""
    gc.freeze()


@pytest.fixture
def own_directories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No result and no binary is known yet, and the user's stay as they are."""
    monkeypatch.setenv("PORTATILE_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("PORTATILE_CACHE_DIR", str(tmp_path / "cache"))


@pytest.fixture
def earlier_children() -> Iterator[frozenset[psutil.Process]]:
    """Child processes that earlier tests still run, a browser perhaps. At its end the test has left no others behind.

    What earlier tests left to be compiled later is compiled before: PoCL's linker would be a child of this test.
    """
    from portatile.runtime.one_device import deferred  # most tests take less time to start than portatile to import

    deferred.waiting.flush()
    before = frozenset(psutil.Process().children())
    yield before
    assert frozenset(psutil.Process().children()) <= before
