"""The benches run from end to end on small problems and write what they promise; no time is asserted."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from portatile import device

BENCH = Path(__file__).parents[2] / "bench"


def run(script: str, folder: Path, *args: str) -> tuple[dict[str, Any], str]:
    """The document that a bench writes, and what it prints."""
    env = {**os.environ, "PORTATILE_DATA_DIR": str(folder / "data"), "PORTATILE_CACHE_DIR": str(folder / "cache")}
    selector = device.get("opencl").info.id
    command = [sys.executable, str(BENCH / script), "--device", selector, "--out", str(folder / "out"), *args]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr
    (written,) = (folder / "out").glob("*.json")
    return json.loads(written.read_text()), done.stdout


def test_gemm_measures_every_participant(tmp_path: Path) -> None:
    document, shown = run("gemm.py", tmp_path, "--sizes", "40x24x56", "--trans", "NN,TN", "--rounds", "2", "--sustained", "0")
    assert {"time", "commit", "python", "cpu", "versions", "devices", "options"} <= set(document)
    assert [problem["trans"] for problem in document["problems"]] == ["NN", "TN"]
    for problem in document["problems"]:
        names = {row["name"] for row in problem["rows"]}
        assert {"tuned", "default"} <= names
        assert ({"course local", "course global"} <= names) == (problem["trans"] == "NN")
        for row in problem["rows"]:
            assert row["error"] <= 1
            assert len(row["burst"]) == 2
            assert min(row["burst"]) > 0
            assert row["version"]
            assert row["name"] in shown


def test_cold_warm_measures_every_phase_in_every_state(tmp_path: Path) -> None:
    document, shown = run("cold_warm.py", tmp_path, "--gemm", "24x16x40", "--trsm", "", "--repeat", "1")
    (program,) = document["programs"]
    states = {(row["own"], row["driver"]): row for row in program["rows"]}
    assert set(states) == {(own, driver) for own in ("cold", "warm") for driver in ("cold", "warm")}
    for (own, _), row in states.items():
        assert (row["compiled"] == 0) == (own == "warm")
        assert {"import", "platform", "context", "build", "kernel", "transfer", "execution", "again", "read-back"} == set(row["median"])
    assert "cache warm, driver warm" in shown


def test_warm_start_compares_searches(tmp_path: Path) -> None:
    document, shown = run("warm_start.py", tmp_path, "--workload", "matmul", "--shapes", "24x16x40,32x16x40", "--budget", "6")
    first, second = document["shapes"]
    assert (first["warm"]["warm_starts"], second["cold"]["warm_starts"]) == (0, 0)
    assert second["warm"]["warm_starts"] > 0
    assert any(second[name]["near_at"] for name in ("cold", "warm"))
    assert "24x16x40" in shown
