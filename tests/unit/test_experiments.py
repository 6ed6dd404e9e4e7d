"""The list of experiments: every row of the documents has its command, and every study is named by one."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from portatile.cli import portatile as group
from portatile.studies.framework import discover
from support.trials import DEVICE

BENCH = Path(__file__).parents[2] / "bench"
ROWS = {f"D{document}.{row}" for document, rows in ((1, 12), (2, 8), (3, 6), (4, 6), (5, 3)) for row in range(1, rows + 1)}


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.syspath_prepend(BENCH)
    yield import_module("experiments")
    for name in ("experiments", "gallery", "measure"):
        sys.modules.pop(name, None)


def test_every_row_has_its_command(bench: Any) -> None:
    listed = bench.experiments()
    assert {name for one in listed for name in one.ids.split(", ")} == ROWS
    words = [one.words.split() for one in listed]
    assert {word[0] for word in words} <= set(group.commands) | set(group.list_commands(None))  # type: ignore[arg-type]
    named = {word[1] for word in words if word[0] == "study"}
    assert set(discover.studies()) - named == {"recorded-portability"}  # which is `portability` of files
    told = {name for study in discover.studies().values() for name in study.answers}
    assert told <= ROWS
    assert all(one.prints or one.words.startswith("study ") for one in listed)


def test_sizes_and_devices_of_a_command(bench: Any, tmp_path: Path) -> None:
    def named(name: str, kind: str, hardware: str) -> Any:
        return SimpleNamespace(info=SimpleNamespace(id=name, kind=kind, physical_id=hardware, platform="", name=DEVICE.name))

    cuda, other, host = named("cuda:0", "gpu", "a"), named("opencl:0:0", "gpu", "a"), named("opencl:1:0", "cpu", "b")
    gap = bench.Experiment("D3.2", "study gap matmul", "-m 8", "-m 64", between="BLOCK=8")
    assert bench.command(gap, [cuda, other, host], tmp_path)[-4:] == ["64", "--between", "cuda:0", "opencl:0:0"]
    assert bench.command(gap, [cuda, host], tmp_path)[-3:] == ["64", "--device", "cuda:0"]
    assert bench.command(gap, [host], tmp_path)[-4:] == ["8", "--between", "opencl:1:0", "opencl:1:0/BLOCK=8"]
    assert bench.usual(cuda, [host, cuda, other]) == [cuda, other, host]
    assert bench.usual(host, [host]) == [host]
    only = bench.Experiment("D5.3", "study ladder", several=True)
    assert bench.command(only, [cuda, other, host], tmp_path)[2:] == ["--device", "cuda:0", "--device", "opencl:0:0"]
    wide = bench.Experiment("D4.6", "study hybrid gemm", several=True, hosts=True)
    assert bench.command(wide, [cuda, host], tmp_path).count("--device") == 2
    once = bench.Experiment("D4.6", "study hybrid gemm", several=True, hosts=True, once=True)
    assert bench.command(once, [cuda, other, host], tmp_path)[3:] == ["--device", "cuda:0", "--device", "opencl:1:0"]
    alone = bench.Experiment("D4.6", "study strategies {recording}", no_device=True)
    assert bench.command(alone, [cuda], tmp_path) == ["study", "strategies", str(tmp_path / "recording.json")]


def test_what_hangs_is_killed_and_what_crashed_is_a_row(bench: Any, tmp_path: Path) -> None:
    """A child that ignores the interrupt, and its own child that holds the output, end; nothing is waited for."""
    text = "import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)']); time.sleep(60)"
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # as the child finds it
    try:
        ended = bench.supervised([sys.executable, "-c", text], 0.5, 0.1)
    finally:
        signal.signal(signal.SIGINT, before)
    assert ended.ended == "killed"
    assert ended.code < 0
    assert "killed" in bench._error(ended)
    one = bench.Experiment("D9.9", "study no-such-study")
    row = bench.run(one, ["study", "no-such-study"], tmp_path, 60.0, 1.0)
    assert (row["code"], row["rows"], row["ended"]) == (2, 0, "")
    assert "no-such-study" in row["error"]
    assert bench.gallery.chapter(bench.kept(row, tmp_path), ()) is None


def test_results_are_on_disk_after_each_command_and_the_budget_is_kept(bench: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keeper = bench.Keeper(tmp_path / "result.json", {"rows": []}, tmp_path / "page.html")
    keeper.add({"ids": "D1.1"}, {"command": "portatile devices", "rows": []}, ())
    assert bench.json.loads(keeper.result.read_text()) == {"rows": [{"ids": "D1.1"}]}
    assert not keeper.page.exists()
    many = [bench.Experiment("D1.1", "devices", minutes=1.0)] * 4
    monkeypatch.setattr(bench.time, "monotonic", lambda: 100.0)
    assert bench.Clock(140.0).share(many[0], many) == (10.0, 20.0)
    assert bench.Clock(140.0).share(many[0], many[3:]) == (40.0, bench._SPARE / 2)
    assert bench.Clock(104.0).share(many[0], many)[0] == 4.0
    assert bench.Clock(100.5).share(many[0], many) == (0.0, 0.0)
    assert bench.Clock(None).share(many[0], many)[0] > 600


def test_pages_of_several_runs_are_joined(bench: Any, tmp_path: Path) -> None:
    """Of each command a complete run, then one on the preferred device, then the newer one; its rows can be joined again."""

    def kept(place: int, name: str, *commands: tuple[str, bool]) -> Path:
        made = [{"words": words, "command": f"portatile {words}", "seconds": float(place), "complete": done} for words, done in commands]
        page = tmp_path / f"{place}.html"
        bench.gallery.keep(page, [({**one, "rows": []}, [replace(DEVICE, name=name)]) for one in made])
        return page.with_suffix(".rows.json.gz")

    files = [
        kept(1, "NVIDIA H200", ("study phases", True), ("study images", False), ("study packing", True), ("study gone", True)),
        kept(2, "NVIDIA H100", ("study phases", True), ("study images", True), ("study packing", False), ("study memory", False)),
    ]
    chosen = {command["words"]: (command["seconds"], infos[0].name) for command, infos in bench.gallery.newest(files, "H200")}
    h200, h100 = (1.0, "NVIDIA H200"), (2.0, "NVIDIA H100")
    assert chosen == {"study phases": h200, "study images": h100, "study packing": h200, "study memory": h100}
    again = tmp_path / "again.html"
    bench.gallery.keep(again, bench.gallery.newest(files))
    assert [command["seconds"] for command, _ in bench.gallery.kept([again.with_suffix(".rows.json.gz")])] == [2.0, 2.0, 1.0, 2.0]
