"""The picture of searches shows the newest that are recorded."""

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
def curves(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    monkeypatch.syspath_prepend(BENCH)
    import curves

    yield curves
    for name in ("curves", "measure"):
        sys.modules.pop(name, None)


def recorded(folder: Path, time: str, shares: list[list[tuple[float, float]]]) -> None:
    device = {"name": "Fast", "platform": "NVIDIA CUDA", "id": "cuda:0"}
    task = {"workload": "gemm", "dtype": "float32", "sizes": {"m": 8, "n": 8, "k": 9}}
    series: dict[str, Any] = {"task": task, "runs": [{"device": device, "seconds": 12.0} for _ in shares], "curves": shares}
    (folder / f"convergence-{time}.json").write_text(json.dumps({"time": time, "series": [series]}))


def test_the_picture_is_of_the_newest_searches(curves: ModuleType) -> None:
    assert curves.PICTURE.read_text() == curves.picture(curves.panels()), "older than bench/results: run python3 bench/curves.py"


def test_a_newer_run_takes_the_place(curves: ModuleType, tmp_path: Path) -> None:
    recorded(tmp_path, "2026-02", [[(1.5, 0.71), (9.0, 1.0)], [(2.0, 0.9)]])
    recorded(tmp_path, "2026-01", [[(1.0, 0.2)]])
    (panel,) = curves.panels(tmp_path)
    assert panel.title == "Fast, CUDA: gemm 8 x 8 x 9 float32"
    drawn = curves.picture([panel])
    assert "search 1: first trial after 1.5 s with 0.71 of the best, 1.00 at the end" in drawn
    assert drawn.count('class="run"') == 2
    assert ">0.7<" in drawn  # the axis reaches the lowest share
