"""The benches run from end to end on small problems and write what they promise; no time is asserted."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from portatile import device

BENCH = Path(__file__).parents[2] / "bench"


def run(script: str, folder: Path, *args: str, selector: str = "") -> tuple[dict[str, Any], str]:
    """The document that a bench writes, and what it prints; on the first OpenCL device unless another is named."""
    env = {**os.environ, "PORTATILE_DATA_DIR": str(folder / "data"), "PORTATILE_CACHE_DIR": str(folder / "cache")}
    selector = selector or device.get("opencl").info.id
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


def test_level3_compares_every_routine_with_the_blas(tmp_path: Path) -> None:
    host = next((chip.info.id for chip in device.devices() if chip.info.kind == "cpu"), None)
    if host is None:
        pytest.skip("no OpenCL device is a processor")
    args = ("--sizes", "24x40", "--rounds", "2", "--burst", "0.001", "--dtype", "float64")
    document, shown = run("level3.py", tmp_path, *args, selector=host)
    assert {row["routine"] for row in document["rows"]} == {"trsm", "trmm", "symm", "syrk", "syr2k"}
    for row in document["rows"]:
        assert min(*row["samples"]["portatile"], *row["samples"]["BLAS"], row["ratio"]) > 0
        assert max(row["errors"].values()) < 1e-13
    assert "symm RU 24 x 40 float64" in shown


def test_cold_warm_measures_every_phase_in_every_state(tmp_path: Path) -> None:
    document, shown = run("cold_warm.py", tmp_path, "--gemm", "24x16x40", "--trsm", "", "--repeat", "1")
    (program,) = document["programs"]
    states = {(row["own"], row["driver"]): row for row in program["rows"]}
    assert set(states) == {(own, driver) for own in ("cold", "warm") for driver in ("cold", "warm")}
    for (own, _), row in states.items():
        assert (row["compiled"] == 0) == (own == "warm")
        assert {"import", "platform", "context", "build", "kernel", "transfer", "execution", "again", "read-back", "keep"} == set(
            row["median"]
        )
        (sample,) = row["samples"]
        assert row["first_result"] == pytest.approx(sum(sample.values()) - sample["again"] - sample["keep"])
    assert "cache warm, driver warm" in shown


def test_workloads_measures_every_form_and_peer(tmp_path: Path) -> None:
    args = ("--scale", "4096", "--quick", "--seconds", "0", "--only", "stream,convolution,coulomb,mri,magicfilter3d")
    document, shown = run("workloads.py", tmp_path, *args)
    rows = document["rows"]
    assert not [row for row in rows if "error" in row and isinstance(row["error"], str)]
    forms = {(row["problem"].split()[0], row["form"]) for row in rows}
    for name in ("stream", "convolution", "coulomb", "mri", "magicfilter3d"):
        assert (name, "as it comes") in forms
    assert {("convolution", "16 x 16"), ("convolution", "peer"), ("magicfilter3d", "16 x 16, 3 passes")} <= forms
    assert {("coulomb", "peer"), ("mri", "peer")} <= forms or device.get("opencl").info.kind == "gpu"
    for row in rows:
        assert min(row["samples"]) > 0
        assert row.get("error", 0) <= 1
        assert "ceiling" not in row or row["ceiling"] in document["ceilings"][row["device"]]
    assert all("copy" in known for known in document["ceilings"].values())  # arithmetic may be refused on a busy machine
    assert "Ceilings" in shown


def test_warm_start_compares_searches(tmp_path: Path) -> None:
    document, shown = run("warm_start.py", tmp_path, "--workload", "matmul", "--shapes", "24x16x40,32x16x40", "--budget", "6")
    first, second = document["shapes"]
    assert (first["warm"]["warm_starts"], second["cold"]["warm_starts"]) == (0, 0)
    assert second["warm"]["warm_starts"] > 0
    assert any(second[name]["near_at"] for name in ("cold", "warm"))
    assert "24x16x40" in shown


def test_portability_writes_matrix_and_map(tmp_path: Path) -> None:
    args = ("--workload", "matmul", "--sizes", "24x16x40", "--map", "ALGORITHM,TRANSPOSE", "--tries", "1")
    document, shown = run("portability.py", tmp_path, *args)
    (row,) = document["rows"]
    assert (row["winner_of"], row["loss"], row["status"]) == (row["device"], 1.0, "ok")
    assert {row["down_value"] for row in document["maps"]} == {"sequential", "global", "local"}
    assert any(row["relative"] == 1.0 for row in document["maps"])
    assert "own Gflop/s" in shown


def test_held_out_compares_what_is_chosen(tmp_path: Path) -> None:
    document, shown = run("held_out.py", tmp_path, "--workload", "matmul", "--sizes", "24x16x40", "--tune", "4")
    rows = {row["rule"]: row for row in document["rows"]}
    assert set(rows) == {"tuned", "problem held out", "device held out", "chip held out", "default"}
    assert (rows["tuned"]["reason"], rows["tuned"]["loss"]) == ("tuned", 1.0)
    assert rows["device held out"]["reason"] == rows["default"]["reason"] == "default"
    assert all(row["loss"] > 0 for row in rows.values() if row["status"] == "ok")
    assert "geometric mean" in shown
