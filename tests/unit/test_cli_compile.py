"""`portatile compile`: any OpenCL C file for CUDA without a GPU, its messages, what it writes; reading a file for both commands."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from portatile.cli import main
from portatile.cli._kernels import read
from portatile.device.cuda import compiler as cuda_compiler
from portatile.errors import ArgumentError

needs_nvrtc = pytest.mark.skipif(cuda_compiler.available() is not None, reason=str(cuda_compiler.available()))
TEXT = """#include "scale.h"
__kernel __attribute__((reqd_work_group_size(32, 1, 1)))
void first(__global float4 *a, __local int *t, float f) { a[get_global_id(0)] *= f * SCALE; }
__kernel void second(__global int *o) { o[0] = get_global_id(0); }
"""


@pytest.fixture
def kernels(tmp_path: Path) -> Path:
    """A file with a header in another folder."""
    (tmp_path / "include").mkdir()
    (tmp_path / "include" / "scale.h").write_text("#pragma once\n#define SCALE FACTOR\n")
    path = tmp_path / "kernels.cl"
    path.write_text(TEXT)
    return path


def compiled(kernels: Path, *more: str) -> int:
    return main(["compile", str(kernels), "-I", str(kernels.parent / "include"), "-D", "FACTOR=2.0f", *more])


@needs_nvrtc
def test_table_names_kernels_and_what_they_take(kernels: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert compiled(kernels, "--arch", "sm_80") == 0
    out = capsys.readouterr().out
    assert "sm_80" in out
    row = next(line for line in out.splitlines() if line.startswith("first"))
    assert "float4* a, local int* t, float f" in row
    assert "32x1x1" in row
    assert int(row.split()[-5]) > 0 or "?" in row  # registers


@needs_nvrtc
def test_json_has_parameters_and_resources(kernels: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert compiled(kernels, "--json", "--arch", "sm_90", "--option=-cl-fast-relaxed-math") == 0
    output = json.loads(capsys.readouterr().out)
    assert output["architecture"] == "sm_90"
    assert [kernel["entry"]["name"] for kernel in output["kernels"]] == ["first", "second"]
    assert output["kernels"][0]["entry"]["work_group"] == [32, 1, 1]
    assert output["kernels"][0]["entry"]["parameters"][1] == {"name": "t", "kind": "local", "type": "int*"}
    assert set(output["kernels"][0]["resources"]) >= {"registers", "spill_stores", "stack"}


@needs_nvrtc
def test_what_is_written(kernels: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Text to the terminal or a file, a cubin to a file only."""
    assert compiled(kernels, "--emit", "ptx", "--arch", "sm_90") == 0
    assert ".visible .entry first" in capsys.readouterr().out
    assert compiled(kernels, "--emit", "cuda") == 0
    assert 'extern "C" __global__' in capsys.readouterr().out
    assert compiled(kernels, "-o", str(tmp_path / "k.cubin"), "--arch", "sm_90") == 0
    assert (tmp_path / "k.cubin").read_bytes()[:4] == b"\x7fELF"
    assert compiled(kernels, "-o", str(tmp_path / "k.ptx"), "--arch", "sm_90") == 0
    assert "first" in capsys.readouterr().out
    assert ".target sm_90" in (tmp_path / "k.ptx").read_text()


@needs_nvrtc
@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("\n__kernel void k(__global int *o) {\n  o[0] = missing;\n}\n", "bad.cl(3)"),
        ("\n\n#error not this way\n", "bad.cl:3: #error not this way"),
        ("__kernel void k(__global int *o) { (o[0]; }\n", "bad.cl:1: "),
        ('#include "nowhere.h"\n', "bad.cl:1: #include 'nowhere.h'"),
        ("int twice(int x) { return 2 * x; }\n", "has no kernel"),
    ],
)
def test_what_does_not_build_ends_with_1(text: str, place: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "bad.cl").write_text(text)
    assert main(["compile", str(tmp_path / "bad.cl"), "--arch", "sm_90"]) == 1
    assert place in capsys.readouterr().err


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--emit", "cubin"], "-o"),
        (["-o", "k.bin"], "--emit"),
        (["--emit", "ptx", "--backend", "opencl"], "does not go with"),
        (["--backend", "opencl", "--arch", "sm_90"], "--device"),
        (["-D", "1=2"], "has no name"),
        (["-I", "nowhere"], "no such folder"),
        (["--arch", "sm_9x"], "architecture"),
        (["--arch", "sm_999"], "sm_90"),
        (["--arch", "sm_35"], "NVRTC"),
    ],
)
def test_mistakes_end_with_2(args: list[str], message: str, kernels: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert compiled(kernels, *args) == 2
    assert message in capsys.readouterr().err


def test_a_file_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compile", "nowhere.cl"]) == 2
    assert "nowhere.cl" in capsys.readouterr().err


def test_reading(tmp_path: Path) -> None:
    """Definitions in order, without a value 1; a file that is no text is the caller's mistake."""
    (tmp_path / "k.cl").write_text("__kernel void k(const int n, __global float *o) {}")
    file = read(tmp_path / "k.cl", ("A", "B=2", "C="), (), ("-cl-mad-enable",))
    assert file.source.defines == (("A", "1"), ("B", "2"), ("C", ""))
    assert file.source.options == ("-cl-mad-enable",)
    assert [entry.name for entry in file.entries()] == ["k"]
    (tmp_path / "h.h").write_text("#define SIZE 7\n")
    (tmp_path / "m.cl").write_text("#include NAME(h.h)\n__kernel void m(__global int *o) { o[0] = TWICE(SIZE); }")
    macros = read(tmp_path / "m.cl", ("TEXT(x)=#x", "NAME(x)=TEXT(x)", "TWICE(x)=(2 * (x))"), (), ())
    assert "2 * (7)" in cuda_compiler.CudaTarget("sm_90", "ptx").lower(macros.source)[0].text
    (tmp_path / "b.cl").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ArgumentError, match="not text"):
        read(tmp_path / "b.cl", (), (), ())
