"""The page and the pictures of figures are what the recorded readings say."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

BENCH = Path(__file__).parents[2] / "bench"


@pytest.fixture
def figures(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    monkeypatch.syspath_prepend(BENCH)
    import figures

    yield figures
    for name in ("figures", "measure"):
        sys.modules.pop(name, None)


def test_figures_are_the_newest_readings(figures: ModuleType) -> None:
    for path, text in figures.files().items():
        assert path.read_text() == text, f"{path.name} is older than bench/results: run python3 bench/figures.py"


def test_a_newer_reading_takes_the_place(figures: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    device = {"kind": "gpu", "name": "Fast", "backend": "opencl"}
    row = {"place": "portatile opencl:1:0", "name": "tuned", "peer": "Torch 2, cuBLAS 13"}
    product = {"sizes": {"m": 8, "n": 8, "k": 8}, "trans": "NN", "dtype": "float64"}
    for name, time, ratio in (("a", "2026-02", 1.25), ("b", "2026-01", 0.5)):
        problem = {**product, "rows": [{**row, "ratio": ratio}, {**row, "place": "torch", "ratio": 1.0}]}
        run = {"time": time, "commit": name * 9, "cpu": "", "options": {}, "devices": {"opencl:1:0": device}, "problems": [problem]}
        (tmp_path / f"gemm-{name}.json").write_text(json.dumps(run))
    monkeypatch.setattr(figures, "RESULTS", tmp_path)
    texts = {path.name: text for path, text in figures.files().items()}
    assert "| 8 | 1.25 | aaaaaaa |" in texts["gemm.md"]
    assert "8, float64, OpenCL: 1.25" in texts["gemm-fast.svg"]
    assert "0.50" not in "".join(texts.values())


def test_shares_are_shown_where_they_were_measured(figures: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Columns of tables whose readings have none stay as they are, and so do rows of older readings beside newer ones."""
    info = {"kind": "gpu", "name": "Fast"}
    devices = {"cuda:0": {**info, "backend": "cuda"}, "opencl:1:0": {**info, "backend": "opencl"}}
    row = {"name": "tuned", "peer": "Torch 2, cuBLAS 13", "ratio": 1.0}
    shared = [("cuda:0", 0.9312, "mma"), ("opencl:1:0", 0.887, "mma")]
    problems = [
        {"sizes": {"m": 8, "n": 8, "k": 8}, "trans": "NN", "dtype": "float64", "rows": [{**row, "place": "portatile cuda:0"}]},
        {
            **{"sizes": {"m": 9, "n": 9, "k": 9}, "trans": "NN", "dtype": "float64"},
            "rows": [{**row, "place": f"portatile {place}", "share": share, "ceiling": name} for place, share, name in shared],
        },
    ]
    monkeypatch.setattr(figures, "RESULTS", tmp_path)
    for count, expected in ((1, "| 8 | 1.00 | aaaaaaa |\n"), (2, "| 8 | 1.00 |  | aaaaaaa |  |\n")):
        run = {"time": "2026", "commit": "a" * 9, "cpu": "", "options": {}, "devices": devices, "problems": problems[:count]}
        (tmp_path / "gemm-a.json").write_text(json.dumps(run))
        text = figures.files()[figures.DOCS / "measurements" / "gemm.md"]
        assert expected in text
        assert ("share" in text) == (count == 2)
    assert "| 9 | 1.00 | 1.00 | aaaaaaa | 93 % of mma CUDA, 89 % of mma OpenCL |" in text


def test_names(figures: ModuleType) -> None:
    assert figures.Product((("m", 8), ("n", 8), ("k", 8)), "NN").name == "8"
    assert figures.Product((("m", 8), ("n", 9), ("k", 8)), "TN").name == "8 x 9 x 8, A^T B"
    assert figures.Product((("batch", 3), ("m", 8), ("n", 8), ("k", 8)), "NN").name == "3 of 8^3"
