"""Options of ``Kernel.tune``: metrics in what is told of a result, strategies' own options, and a timeout for each variant."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import numpy as np
import pytest

import portatile
from portatile.errors import ArgumentError, UnknownNameError

pytestmark = [pytest.mark.lengthy, pytest.mark.unoptimised]

TEXT = """
kernel void scale(global const float *x, global float *y, float factor, int n)
{
    for (int i = get_global_id(0) * work; i < min((int)(get_global_id(0) + 1) * work, n); i++) {
        float sum = 0;
        for (long turn = 0; turn < (work == 4 ? endless : 1); turn++) sum = sum * 0.999f + factor * x[i];
        y[i] = work == 4 ? sum : factor * x[i];
    }
}
"""
N = 999


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> portatile.Kernel:
    """One of whose three configurations takes days."""
    monkeypatch.setenv("PORTATILE_DATA_DIR", str(tmp_path))
    x, y = np.arange(N, dtype=np.float32), np.zeros(N, np.float32)
    return portatile.Kernel(
        TEXT,
        "scale",
        (x, y, 2, N),
        {"work": [1, 2, 4]},
        global_size="n / work",
        local_size=16,
        constants={"endless": 1 << 42},
        reference=lambda x, factor: factor * x,
    )


def test_metrics_timeout_and_options_of_the_strategy(kernel: portatile.Kernel) -> None:
    result = kernel.tune(
        "3",
        timeout=3,
        strategy="genetic",
        strategy_options={"population": 2},
        metrics={"GB/s": "8 * n / time / 1e9", "items": lambda n, work: n / work},
    )
    assert {trial.config["work"]: trial.status for trial in result.trials} == {1: "ok", 2: "ok", 4: "timeout"}
    told = result.metrics_of(result.best)
    assert told["items"] == N / result.best.config["work"]
    assert told["GB/s"] == pytest.approx(8 * N / result.best.comparable / 1e9)
    assert " items" in str(result)
    assert str(result).splitlines()[1].count("GB/s") == 1  # in place of the kernel's own speed
    rows = list(csv.DictReader(io.StringIO(result.to_csv())))
    assert [row["status"] for row in rows] == ["ok", "ok", "timeout"]
    assert float(rows[0]["items"]) == told["items"]
    assert rows[2]["items"] == ""
    assert result._repr_html_().count("<tr>") == 3


def test_what_is_wrong_is_refused_before_anything_runs(kernel: portatile.Kernel) -> None:
    with pytest.raises(UnknownNameError, match="population"):
        kernel.tune("3", strategy="genetic", strategy_options={"size": 2})
    with pytest.raises(ArgumentError, match="timeout=0"):
        kernel.tune("3", timeout=0)
    with pytest.raises(UnknownNameError, match="tiem"):
        kernel.tune("3", metrics={"rate": "n / tiem"})
