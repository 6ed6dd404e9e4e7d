"""The tables of products in other precisions, of made-up results: which row says what, and the newest of two."""

from __future__ import annotations

import gzip
import json
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

BENCH = Path(__file__).parents[2] / "bench"
HISTOGRAM = {"-3": 1, "-2": 3}


@pytest.fixture
def tables(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Makes the tables and pictures of a module of bench/tables by name, of the results in the test's folder."""
    monkeypatch.syspath_prepend(str(BENCH))

    def made(module: str) -> dict[str, str]:
        return {one.name: one.text for one in import_module(f"tables.{module}").from_results(tmp_path)}

    yield made
    for name in [name for name in sys.modules if name.split(".")[0] == "tables"]:
        del sys.modules[name]


def stored(folder: Path, bench: str, day: int, rows: list[dict[str, Any]], **more: Any) -> None:
    """A result of that day of November."""
    document = {
        "bench": bench,
        "device": "GPU",
        "peer": "PyTorch",
        "time": f"2026-11-{day:02}",
        "commit": "0123456789",
        "rows": rows,
        **more,
    }
    (folder / f"{bench}-{day}.json.gz").write_bytes(gzip.compress(json.dumps(document).encode()))


def cells(text: str, first: str) -> list[str]:
    """The cells of the row that begins so."""
    (line,) = (line for line in text.splitlines() if line.startswith(f"| {first}"))
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_a_glance_names_the_least_and_the_greatest_of_the_newest(tables: Any, tmp_path: Path) -> None:
    def rates(size: int, ours: float) -> list[dict[str, Any]]:
        base = {"kind": "int8", "trans": "NT", "sizes": [size] * 3}
        values = {"cuBLAS": (100, 50), "default": (ours, 75), "OpenCL": (140, 0)}
        return [{**base, "name": name, "tflops": burst, "sustained": long} for name, (burst, long) in values.items()]

    stored(tmp_path, "matrix_units", 1, rates(4096, 100.0))
    stored(tmp_path, "matrix_units", 2, [*rates(4096, 160.0), *rates(8192, 170.0)])
    row = cells(tables("precisions_overview")["precisions-overview-gpu"], "int8")
    assert row[1:] == ["100", "160 to 170", "1.60 to 1.70", "1.50", "1.5", "140", "1.40", "", "1.3", "0123456"]
    shown = tables("precisions")["matrix-units-gpu"]
    assert cells(shown, "int8 | 4096")[3:] == ["160 (75)", "100 (50)", "1.60 (1.50)", "140", "1.40", "", "0123456"]


def test_where_emulation_begins_and_how_errors_are_distributed(tables: Any, tmp_path: Path) -> None:
    took = {"cuBLAS": 20e-6, "native": 18e-6, "default": 18.5e-6, "hopper 64x128": 30e-6, "hopper 128x128": 24e-6}
    base = {"sizes": [4096] * 3, "trans": "NN", "data": "normal", "sustained": 0, "largest": 1.0, "mean": 0.1, "histogram": HISTOGRAM}
    stored(tmp_path, "float32_terms", 3, [{**base, "name": name, "burst": seconds} for name, seconds in took.items()])
    made = tables("emulation")
    assert cells(made["emulation-begins-gpu"], "4096") == ["4096", "20.0", "18.0", "24.0", "18.5", "0.75", "0123456"]
    errors = made["emulation-errors-gpu"]
    assert cells(errors, "2^-3")[1:] == ["25.0 %"] * 3
    assert "float32, emulated" in errors
    assert made["emulation-errors.svg"].startswith("<svg")


def test_level_3_keeps_rows_of_older_runs(tables: Any, tmp_path: Path) -> None:
    base = {"routine": "syrk", "case": "LN", "m": 64, "n": 64, "dtype": "float32"}
    blas = {"blas": {"name": "cuBLAS"}, "through": "cuda"}
    stored(tmp_path, "level3", 1, [{**base, "precision": "native", "ratio": 1.1}], **blas)
    stored(tmp_path, "level3", 2, [{**base, "precision": "emulated", "ratio": 2.5}], **blas)
    assert cells(tables("emulation")["emulation-level3-gpu"], "syrk")[3:] == ["float32", "2.50", "", "1.10", "0123456"]
    text = tables("level3")["level3-gpu"]
    assert "| native | 1.10 |" in text
    assert "| emulated | 2.50 |" in text
