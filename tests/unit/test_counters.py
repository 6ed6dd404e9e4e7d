"""Hardware counters: what ncu and the kernel say, and the reasons where they say nothing."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from portatile import workloads
from portatile.errors import DeviceError
from portatile.measure import processor_counters, profiler_counters
from portatile.measure.profiler_counters import CountedRun
from portatile.records import to_json
from portatile.studies import counters

PROBLEM = workloads.get("matmul").problem({"m": 16, "n": 16, "k": 16})
RUN = CountedRun(PROBLEM, "cuda:0", {"ALGORITHM": "local"})
TABLE = """==PROF== Connected to process 4242
"ID","Process ID","Kernel Name","Block Size","dram__bytes_read.sum","lts__t_sector_hit_rate.pct","smsp__inst_executed.sum"
"","","","","byte","%",""
"0","4242","transpose(int, float*)","(16, 16, 1)","1,048,576","50.5","12"
"1","4242","matmul_local(int)","(16, 16, 1)","2048","n/a","34"
"""


def profiler(folder: Path, log: str, code: int = 0) -> None:
    """An ``ncu`` that writes ``log`` and does not start the child."""
    (folder / "log").write_text(log)
    script = folder / "ncu"
    text = f"""#!{sys.executable}
import shutil, sys
shutil.copy({str(folder / "log")!r}, sys.argv[sys.argv.index("--log-file") + 1])
print("first line\\nno device", file=sys.stderr)
sys.exit({code})
"""
    script.write_text(text)
    script.chmod(script.stat().st_mode | stat.S_IXUSR)


@pytest.fixture
def found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    return tmp_path


def test_every_launch_has_its_counts(found: Path) -> None:
    profiler(found, TABLE)
    told = [(one.place, one.kernel, one.count.name, one.count.value, one.count.unit) for one in profiler_counters.counted(RUN)]
    assert told == [
        (0, "transpose", "read from memory", 1048576.0, "byte"),
        (0, "transpose", "L2 hits", 50.5, "%"),
        (0, "transpose", "instructions of warps", 12.0, ""),
        (1, "matmul_local", "read from memory", 2048.0, "byte"),
        (1, "matmul_local", "instructions of warps", 34.0, ""),
    ]


@pytest.mark.parametrize(
    ("log", "reason"),
    [
        ("==ERROR== ERR_NVGPUCTRPERM - The user does not have permission", "only administrators"),
        ("==ERROR== Failed to connect", "Failed to connect"),
        ("", "no device"),
    ],
)
def test_a_refusal_is_told(found: Path, log: str, reason: str) -> None:
    profiler(found, log, 1)
    with pytest.raises(DeviceError, match=reason):
        profiler_counters.counted(RUN)


def test_without_a_profiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profiler_counters, "profiler", lambda: None)
    with pytest.raises(DeviceError, match="not installed"):
        profiler_counters.counted(RUN)


def test_the_child_says_what_is_wrong() -> None:
    child = [sys.executable, "-m", "portatile.measure.profiler_counters"]
    run = CountedRun(PROBLEM, "a device of nobody", {})
    completed = subprocess.run(child, input=to_json(run), capture_output=True, check=False)
    assert completed.returncode == 1
    assert b"a device of nobody" in completed.stderr


def test_runs_are_counted_where_the_system_lets_it() -> None:
    calls: list[int] = []
    try:
        told, missing = processor_counters.counted(lambda: calls.append(sum(range(20_000))))
    except DeviceError as refused:
        pytest.skip(str(refused))
    assert {one.name for one in told} | {name for why in missing for name in why.partition(":")[0].split(", ")} == set(
        processor_counters.EVENTS
    )
    assert all(one.value >= 0 for one in told)
    assert len(calls) > len(told)
    for one in told:
        if one.name == "processor time":
            assert one.value > 1000  # ns: twenty thousand sums


def test_reasons_of_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise OSError(errno.EACCES, "")

    monkeypatch.setattr(processor_counters, "_open", refuse)
    with pytest.raises(DeviceError, match=r"perf_event_paranoid|need Linux"):
        processor_counters.counted(lambda: None)
    monkeypatch.setattr(processor_counters.platform, "system", lambda: "Plan 9")
    with pytest.raises(DeviceError, match="need Linux"):
        processor_counters.counted(lambda: None)


def test_the_table() -> None:
    row = counters.CountersRow("x", "X", "1", "matmul", "m=8", "float32", "{}", 0, "k", "L2 hits", 50.0, "%", None, "ok", "")
    bytes_read = replace(row, counter="read from memory", value=8.0, unit="byte", per_flop=0.5)
    refused = replace(row, counter="", value=None, unit="", status="not allowed")
    shares, per_flop = counters.figures([row, bytes_read, refused])
    assert (shares.values, per_flop.values) == (((0.5,),), ((0.5,),))
    assert counters.notes([row, refused]) == ["x: not allowed"]
    timed = replace(bytes_read, counter="processor time", value=865_624.0, unit="ns")
    assert (
        counters.answer([timed, replace(timed, counter="barriers", value=12.0, unit="")])
        == "matmul on x: processor time 866 us, 12 barriers"
    )
