"""How commands write: files that cannot be written are told first, progress off a terminal is in lines, tables fit the terminal."""

from __future__ import annotations

import io
from itertools import count
from pathlib import Path

import pytest
from rich.console import Console

from portatile.cli import _console, _files, main
from portatile.errors import UsageError
from portatile.measure.products import MatrixProduct


def test_a_file_that_can_be_written_is_left_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "old.npy").write_bytes(b"old")
    for name in ("old.npy", "new.npy"):
        assert _files.writable(tmp_path / name) == tmp_path / name
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("old.npy", b"old")]


@pytest.mark.parametrize("name", ["", "missing/c.npy", "file/c.npy"])
def test_a_file_that_cannot_be_written_is_told(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(UsageError, match="cannot be written"):
        _files.writable(tmp_path / name)


@pytest.mark.parametrize("rest", [["--size", "8"], ["--size", "8", "--algorithm", "host"]])
def test_nothing_is_multiplied_for_a_file_that_cannot_be_written(
    rest: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("portatile.cli._bench_matmul.split", lambda plea: pytest.fail("it was multiplied"))
    monkeypatch.setattr(MatrixProduct, "on_the_host", lambda *given: pytest.fail("it was multiplied"))
    assert main(["bench", "matmul", *rest, "-o", str(tmp_path / "missing" / "c.npy")]) == 2
    assert "cannot be written" in capsys.readouterr().err


def test_nothing_runs_for_a_file_that_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("portatile.cli.run.run", lambda *given: pytest.fail("it ran"))
    (tmp_path / "one.cl").write_text("__kernel void one(__global float *y) { y[get_global_id(0)] = 1; }")
    assert main(["run", str(tmp_path / "one.cl"), "one", "--global", "4", "4", "-o", f"y={tmp_path}/missing/y.npy"]) == 2
    assert "cannot be written" in capsys.readouterr().err


@pytest.mark.parametrize(("step", "lines"), [(0.001, 0), (0.3, 2), (5.0, 10)])
def test_progress_off_a_terminal(step: float, lines: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A line for each step of those that take long, fewer for others, none where all is done at once."""
    clock = count(100.0, step)
    monkeypatch.setattr(_console.time, "monotonic", lambda: next(clock))
    assert list(_console.track(range(10), "counting")) == list(range(10))
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.count("counting") == lines
    if lines == 10:
        assert "  50.0 s  counting: 10 of 10" in output.err


@pytest.mark.parametrize("width", [20, 40, 200])
def test_a_table_shows_every_cell_on_a_terminal_of_any_width(width: int) -> None:
    shown = io.StringIO()
    cells = [["opencl:0:0 *", "a device of a long name", "[red]"], ["cuda:0", "another device", ""]]
    Console(file=shown, width=width, soft_wrap=True).print(_console.table("Devices", ("id", "name", "mark"), cells, left=2))
    text = shown.getvalue()
    assert all(cell in text for row in cells for cell in row)
    assert text.count("id ") == (1 if width == 200 else 2)


def test_a_table_wraps_its_widest_text_and_leaves_out_what_is_empty() -> None:
    shown = io.StringIO()
    said = "a question of many words that no narrow terminal has in one line"
    rows = [["map", "", said, "3 min"], ["gap", "", "short", "10 min"]]
    Console(file=shown, width=60).print(_console.table("", ("study", "nothing", "question", "usually"), rows, left=3))
    lines = shown.getvalue().splitlines()
    assert lines[0].split() == ["study", "question", "usually"]
    assert all(len(line) <= 60 and line == line.rstrip() for line in lines)
    assert " ".join(line[7:51].strip() for line in lines[1:3]).split() == said.split()
    assert [line.split()[-2:] for line in (lines[1], lines[3])] == [["3", "min"], ["10", "min"]]
