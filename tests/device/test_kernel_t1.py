"""Kernels that a T1 file describes, through the command line: tune, show and export."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from portatile.cli import main
from portatile.device import devices

pytestmark = pytest.mark.usefixtures("own_directories")

AXPY = """kernel void axpy(global const float *x, global float *y, float a, int n) {
    for (int k = 0, i = get_global_id(0) * work; k < work && i < n; k++, i++) y[i] = OPERATION;
}
"""
N = 1003


def t1(folder: Path, **changes: Any) -> Path:
    """A T1 file for axpy, and its text beside it."""
    (folder / "axpy.cl").write_text(AXPY.replace("OPERATION", "a * x[i] + y[i]"))
    vector = {"Type": "float", "MemoryType": "Vector", "FillType": "Constant", "Size": "ProblemSize[0]"}
    specification = {
        "Language": "OpenCL",
        "KernelName": "axpy",
        "KernelFile": "axpy.cl",
        "LocalSize": {"X": "block"},
        "GlobalSize": {"X": "1"},
        "ProblemSize": [N],
        "GridDivX": ["block", "work"],
        "Arguments": [
            {"Name": "in", "AccessType": "ReadOnly", "FillValue": 3.0, **vector},
            {"Name": "out", "AccessType": "ReadWrite", "FillValue": 1.0, **vector},
            {"Name": "factor", "Type": "float", "MemoryType": "Scalar", "FillValue": 2.0},
            {"Name": "count", "Type": "int32", "MemoryType": "Scalar", "FillValue": N},
        ],
        "ReferenceArguments": [{"Name": "right", "TargetName": "out", "FillType": "Constant", "FillValue": 7.0}],
        **changes,
    }
    space = {"TuningParameters": [{"Name": n, "Type": "int", "Values": v} for n, v in (("block", "[16, 64]"), ("work", "[1, 4]"))]}
    budget = [{"Type": "ConfigurationCount", "BudgetValue": 1}]
    path = folder / "axpy.json"
    path.write_text(json.dumps({"ConfigurationSpace": space, "KernelSpecification": specification, "Budget": budget}))
    return path


def test_tune_takes_a_t1_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = t1(tmp_path)
    assert main(["tune", str(path)]) == 0
    out = capsys.readouterr().out
    assert "kernel:axpy n=1003 float32" in out
    assert "1 configuration in" in out  # the file's own budget
    assert "UNVERIFIED" not in out
    assert "verified only on the arguments of its definition" in out
    assert main(["tune", str(path), "--budget", "2", "--json"]) == 0
    captured = capsys.readouterr()
    document = json.loads(captured.out)
    assert len(document["trials"]) == 2
    assert "1 from the store" in captured.err
    assert main(["results", "--workload", "kernel:axpy"]) == 0
    assert "kernel:axpy n=1003" in capsys.readouterr().out
    assert main(["cache", "warm"]) == 0  # what it cannot compile is none of its business


def test_a_t1_file_without_a_reference_is_unverified(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tune", str(t1(tmp_path, ReferenceArguments=[]))]) == 0
    assert "UNVERIFIED" in capsys.readouterr().out


def test_mistakes_in_a_t1_file_end_with_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, message in ((str(tmp_path / "none.json"), "cannot be read"), (str(t1(tmp_path, Language="CUDA")), "takes OpenCL C")):
        assert main(["tune", name]) == 2
        assert message in capsys.readouterr().err


def test_show_and_export_take_a_t1_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, folder = t1(tmp_path), tmp_path / "exported"
    assert main(["show", str(path), "--config", "work=4", "--stage", "template"]) == 0
    shown = capsys.readouterr()
    assert "#define work 4" in shown.out
    assert "kernel:axpy for" in shown.err
    assert main(["show", str(path), "--stage", "parameters"]) == 0
    assert main(["export", str(folder), str(path)]) == 0
    assert "axpy n=1003: " in capsys.readouterr().out
    (problem,) = json.loads((folder / "kernels.json").read_text())["problems"]
    assert problem["workload"] == "kernel:axpy"
    assert main(["export", str(folder), str(path), "--workload", "gemm"]) == 2
    assert "only --device goes with it" in capsys.readouterr().err


@pytest.mark.parametrize("stage", ["ptx", "resources", "instructions"])
def test_show_compiles_a_t1_kernel_for_a_gpu_that_is_not_here(stage: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("cuda.bindings")
    absent = ({"sm_80", "sm_90"} - {one.info.architecture for one in devices()}).pop()
    assert main(["show", str(t1(tmp_path)), "--stage", stage, "--arch", absent]) == 0
    captured = capsys.readouterr()
    assert "axpy" in captured.out
    assert f"kernel:axpy for {absent} on paper" in captured.err


def test_show_knows_the_definitions_among_a_files_options(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = t1(tmp_path, CompilerOptions=["-DSCALE=23"])
    (tmp_path / "axpy.cl").write_text(AXPY.replace("OPERATION", "SCALE * a * x[i] + y[i]"))
    assert main(["show", str(path), "--stage", "preprocessed"]) == 0
    assert "23 * a * x[i]" in capsys.readouterr().out
