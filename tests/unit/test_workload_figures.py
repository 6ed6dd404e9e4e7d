"""The table of a device, and the page that is made of the newest recorded ones."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

BENCH = Path(__file__).parents[2] / "bench"


@pytest.fixture
def figures(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    monkeypatch.syspath_prepend(BENCH)
    import workload_figures

    yield workload_figures
    for name in ("workload_figures", "measure"):
        sys.modules.pop(name, None)


def row(form: str, seconds: float, device: str = "cuda:0", **more: Any) -> dict[str, Any]:
    return {"problem": "mri q 8x8 float32", "device": device, "form": form, "samples": [seconds], "work": 2.0, "unit": "Gpairs/s", **more}


def lines(figures: ModuleType, rows: list[dict[str, Any]]) -> dict[str, list[str]]:
    table: dict[str, Any] = {}
    for problem, device, form, reading in figures.readings(rows, {"cuda:0": {"special": 8e9}, "opencl:0:0": {}}):
        figures.add(table, problem, device.partition(":")[0], form, reading)
    return {text[0]: text[1:] for text in figures.cells(table)}


def test_the_page_is_the_newest_readings(figures: ModuleType) -> None:
    want = figures.page(figures.tables())
    assert (figures.DOCS / "measurements" / "workloads.md").read_text() == want, (
        "older than bench/results: run python3 bench/workload_figures.py"
    )


def test_back_ends_stand_beside_each_other(figures: ModuleType) -> None:
    usual = {"ceiling": "special", "share": 0.5, "config": {"P": 1}}
    rows = [row("peer", 4.0, "Torch"), row("as it comes", 2.0, **usual), row("as it comes", 4.0, "opencl:0:0", **usual)]
    (text,) = lines(figures, rows).values()
    assert text == ["2000000 / 4000000", "1 / 0.5", "Gpairs/s", "0.50 / 0.50 special", "2.00 / 1.00", "= / =", ""]


def test_shares_follow_from_the_ceilings_where_they_were_not_recorded(figures: ModuleType) -> None:
    (text,) = lines(figures, [row("as it comes", 1.0, ceiling="special")]).values()
    assert text[3] == "0.50 special"  # 2e9 pairs of two functions a second, of 8e9


@pytest.mark.parametrize(
    ("rows", "sides"),
    [
        ([], ["=", ""]),
        ([row("default", 1.0, config={"P": 2})], ["2", ""]),
        ([row("default", 1.0, config={"P": 2}), row("tuned", 1.0, config={"P": 2}, searched=9)], ["2", "default 2"]),
        ([row("tuned", 0.5, config={"P": 3}, searched=9)], ["=", "4"]),
    ],
)
def test_default_and_tuned_are_told_apart(figures: ModuleType, rows: list[dict[str, Any]], sides: list[str]) -> None:
    (text,) = lines(figures, [row("as it comes", 2.0, config={"P": 1}), *rows]).values()
    assert text[5:] == sides


def test_a_search_that_found_nothing_better_is_told(figures: ModuleType) -> None:
    (text,) = lines(figures, [row("as it comes", 2.0, config={"P": 1}, searched=5)]).values()
    assert text[5:] == ["=", "="]


def test_other_forms_have_lines_of_their_own(figures: ModuleType) -> None:
    rows = [
        row("as it comes", 2.0, config={"P": 1}),
        row("16 x 16", 4.0, config={"P": 4}),
        {"problem": "x", "device": "cuda:0", "error": "no"},
    ]
    assert list(lines(figures, rows)) == ["mri q 8x8 float32", "mri q 8x8 float32, 16 x 16"]
    assert lines(figures, rows)["mri q 8x8 float32, 16 x 16"][5:] == ["", ""]


def test_a_newer_reading_takes_the_place(figures: ModuleType, tmp_path: Path) -> None:
    """And with it goes what stood beside the older one."""
    device = {"id": "cuda:0", "name": "NVIDIA Fast", "driver": "1"}
    for name, time, seconds in (("a", "2026-02", 1.0), ("b", "2026-01", 4.0)):
        rows = [row("as it comes", seconds, config={"P": 1}), *([row("tuned", 3.0, config={"P": 2}, searched=3)] if name == "b" else [])]
        (tmp_path / f"workloads-{name}.json").write_text(json.dumps({"time": time, "commit": name * 9, "devices": [device], "rows": rows}))
    text = figures.page(figures.tables(tmp_path))
    assert "| mri q 8x8 float32 | 1000000 | 2 | Gpairs/s |  |  | = |  | aaaaaaa |" in text
    assert "## NVIDIA Fast" in text
