"""`portatile run` on CUDA's path without a GPU: the kernels of a file run in the interpreter of PTX."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from portatile.cli import main, run
from portatile.device.cuda import compiler as cuda_compiler
from portatile.measure import isolated_run
from portatile.records import Entry, Source
from support.ptx_machine.device import PtxDevice

pytestmark = pytest.mark.skipif(cuda_compiler.available() is not None, reason=str(cuda_compiler.available()))
TEXT = """
typedef struct { int n; float f; } pair;
__kernel void mix_up(__global int4 *v, __local int4 *t, uint2 w, pair p, __global float *o)
{
  int l = get_local_id(0);
  t[l] = v[get_global_id(0)];
  barrier(CLK_LOCAL_MEM_FENCE);
  v[get_global_id(0)] = t[get_local_size(0) - 1 - l] + (int)w.y;
  o[get_global_id(0)] = p.n + p.f;
}
__kernel void halve(read_only image2d_t a, write_only image2d_t b)
{
  const sampler_t s = CLK_ADDRESS_CLAMP | CLK_FILTER_NEAREST;
  int2 p = (int2)(get_global_id(0), get_global_id(1));
  write_imagef(b, p, read_imagef(a, s, p) * 0.5f);
}
"""


@pytest.mark.parametrize(
    ("args", "sums"),
    [
        (["mix_up", "--global", "16", "--local", "8", "16=index", "8", "1,2", "@pair.npy", "16"], {"v": 64 * 63 / 2 + 128, "o": 16 * 3.5}),
        (["halve", "--global", "4,2", "4x2x4=3", "4x2x4"], {"b": 4 * 2 * 4 * 1.5}),
    ],
)
def test_a_run_in_the_interpreter(
    args: list[str], sums: dict[str, float], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(run, "run", lambda task, selector, timeout: isolated_run.measured(task, PtxDevice()))  # here, not in a child
    monkeypatch.chdir(tmp_path)
    np.save("pair.npy", np.array([(3, 0.5)], [("n", "<i4"), ("f", "<f4")]))
    Path("kernels.cl").write_text(TEXT)
    assert main(["run", "kernels.cl", *args, "--json", "--repeat", "1", "--check", "again"]) == 0
    output = json.loads(capsys.readouterr().out)
    assert output["device"] == "ptx:0"
    assert output["agrees"]
    assert {row["name"]: row["sum"] for row in output["operands"] if row["changed"]} == sums


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint32", "int64", "uint64", "float32"])
def test_sums_of_integers_are_exact(dtype: str) -> None:
    values = np.random.default_rng(1).integers(np.iinfo(dtype).min, np.iinfo(dtype).max, 999, dtype) if dtype != "float32" else np.ones(9)
    assert run._sum(values) == sum(values.tolist())


def test_integers_are_shown_with_all_digits() -> None:
    assert [run._spelled(value, 6) for value in (3499211612, -(2**60), 3499211612.0)] == ["3499211612", str(-(2**60)), "3.49921e+09"]


def test_what_may_keep_a_kernel_from_ending_is_told() -> None:
    def hint(text: str, group: int) -> str:
        task = isolated_run.KernelRun(Source("k.cl", text), Entry("k", "k"), [], (8, 1, 1), (group, 1, 1), 0)
        return isolated_run._hint_on_hang(task)

    waits = "barrier(CLK_LOCAL_MEM_FENCE);"
    assert [hint(waits, 8), hint(waits, 1), hint("for (;;) {}", 8)] == ["does every work-item of a group reach each barrier? ", "", ""]


def test_the_array_of_a_file_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "one.cl"
    path.write_text("kernel void one(global float *x) { x[0] = 1; }")
    assert main(["run", str(path), "one", "--global", "1", "a.npy"]) == 2
    assert "the array of that file is @a.npy" in capsys.readouterr().err
    assert main(["run", str(path), "one", "--global", "1"]) == 2
    assert "takes 1 argument, not 0" in capsys.readouterr().err


def test_a_function_that_is_no_kernel_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "none.cl"
    path.write_text("void f(global float *x) { x[0] = 1; }")
    assert main(["run", str(path), "f", "--global", "1", "1"]) == 1
    assert "has no kernel: no function is declared __kernel" in capsys.readouterr().err
