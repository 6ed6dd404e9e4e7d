"""Kernels of one's own in a folder: six that everybody knows run there without portatile, in their own types, and mistakes are told."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import portatile
from portatile.cli import main
from portatile.device.base import Device
from portatile.device.opencl import icd
from portatile.errors import UsageError
from support.seeds import new_seed

KERNELS = """
kernel void total(global const int *x, global int *sum, local int *part, int n) {
    int here = 0, l = get_local_id(0);
    for (int i = get_global_id(0); i < n; i += get_global_size(0)) here += x[i];
    part[l] = here;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int s = block / 2; s > 0; s /= 2) {
        if (l < s) part[l] += part[l + s];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (l == 0) atomic_add(sum, part[0]);
}
kernel void turned(global const float *a, global float *b, int rows, int columns, float by) {
    local float tile[block][block + 1];
    int x = get_group_id(0) * block + get_local_id(0), y = get_group_id(1) * block + get_local_id(1);
    if (x < columns && y < rows) tile[get_local_id(1)][get_local_id(0)] = a[y * columns + x];
    barrier(CLK_LOCAL_MEM_FENCE);
    x = get_group_id(1) * block + get_local_id(0), y = get_group_id(0) * block + get_local_id(1);
    if (x < rows && y < columns) b[y * rows + x] = by * tile[get_local_id(0)][get_local_id(1)];
}
kernel void counted(global const uchar *x, global uint *bins, int n) {
    local uint mine[256];
    for (int i = get_local_id(0); i < 256; i += block) mine[i] = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int i = get_global_id(0); i < n; i += get_global_size(0)) atomic_inc(&mine[x[i]]);
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int i = get_local_id(0); i < 256; i += block) atomic_add(&bins[i], mine[i]);
}
kernel void product(global const int *first, global const int *column, global const float *value, global const float *x,
                    global float *y, int rows) {
    for (int row = get_global_id(0); row < rows; row += get_global_size(0)) {
        float sum = 0;
        for (int j = first[row]; j < first[row + 1]; j++) sum += value[j] * x[column[j]];
        y[row] = sum;
    }
}
kernel void conjugated(global const float2 *z, global float2 *w) {
    w[get_global_id(0)] = (float2)(z[get_global_id(0)].x, -z[get_global_id(0)].y);
}
"""

# Runs in a process of its own, where portatile cannot be imported.
USER = """
import sys
class Nowhere:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "portatile":
            raise ImportError(name)
folder, given, made, *sites = sys.argv[1:]
sys.path[:] = [folder, *sys.path, *sites]
sys.meta_path.insert(0, Nowhere())
import loader
import numpy as np
arrays, out = np.load(given), {}
for problem in loader.problems():
    name = problem["workload"]
    run = loader.load(name, **problem["sizes"])
    read = [arrays[f"{name}/{o['name']}"] for o in problem["operands"] if o["role"] == "in"]
    named = {"by": 2.0} if "by" in problem["scalars"] else {}
    for _ in range(2):
        out[name] = run(*read, **named)
np.savez(made, **out)
"""


@pytest.fixture(autouse=True)
def own_directories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PORTATILE_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("PORTATILE_CACHE_DIR", str(tmp_path / "cache"))


def own(name: str, arguments: dict[str, Any], **more: Any) -> portatile.Kernel:
    """A kernel of the text above, a work-group of ``block`` along each of its axes."""
    sizes = {"local_size": "block", "global_size": "256"} | more
    return portatile.Kernel(KERNELS, name, arguments, {"block": [8, 16]}, **sizes)


def test_what_everybody_knows(device: Device, tmp_path: Path) -> None:
    if device.info.backend != "opencl":
        pytest.skip("OpenCL's loader; CUDA's is tested on a fake driver")
    rng = np.random.default_rng(new_seed(f"own kernels on {device.info.id}"))
    whole, matrix = rng.integers(0, 99, 1000, np.int32), rng.random((37, 21), np.float32)
    letters, spinning = rng.integers(0, 256, 999, np.uint8), (rng.random(64) + 1j * rng.random(64)).astype(np.complex64)
    dense = np.where(rng.random((30, 40)) < 0.2, rng.random((30, 40)), 0).astype(np.float32)
    first = np.append(0, np.cumsum((dense != 0).sum(1))).astype(np.int32)
    column, value = np.nonzero(dense)[1].astype(np.int32), dense[dense != 0]
    x = rng.random(40, np.float32)
    square = {"local_size": "block, block", "global_size": "columns, rows"}
    turned = {"a": matrix, "b": np.zeros((21, 37), np.float32), "rows": 37, "columns": 21, "by": 1.0}
    sparse = {"first": first, "column": column, "value": value, "x": x, "y": np.zeros(30, np.float32), "rows": 30}
    kernels = {
        "total": own("total", {"x": whole, "sum": np.zeros(1, np.int32), "part": "block", "n": 1000}),
        "turned": own("turned", turned, **square, roles={"b": "out"}),
        "counted": own("counted", {"x": letters, "bins": np.zeros(256, np.uint32), "n": 999}),
        "product": own("product", sparse),
        "conjugated": own("conjugated", {"z": spinning, "w": np.zeros_like(spinning)}, global_size=64),
    }
    wanted = {
        "total": whole.sum(),
        "turned": 2 * matrix.T,
        "counted": np.bincount(letters, minlength=256),
        "product": dense.astype(float) @ x,
        "conjugated": spinning.conj(),
    }
    folder = portatile.export(tmp_path / "kernels", *kernels.values(), device=device.info.id)
    read = {
        f"{kernel.name}/{array.name}": array.value for kernel in kernels.values() for array in kernel.arguments.arrays if array.role == "in"
    }
    np.savez(tmp_path / "given.npz", **read)
    (tmp_path / "user.py").write_text(USER)
    words = [str(folder), str(tmp_path / "given.npz"), str(tmp_path / "made.npz"), *sys.path]
    with icd.vendors():
        command = [sys.executable, str(tmp_path / "user.py"), *words]
        completed = subprocess.run(command, capture_output=True, text=True, timeout=240, env=dict(os.environ))
    assert completed.returncode == 0, completed.stderr
    loaded = np.load(tmp_path / "made.npz")
    for name, expected in wanted.items():
        result = loaded[f"kernel:{name}"]
        assert np.allclose(result, expected, rtol=1e-5), name
        assert result.dtype == kernels[name].arguments.outputs[0].value.dtype


def test_a_winner_goes_with_its_configuration_and_its_trial(device: Device, tmp_path: Path) -> None:
    x = np.arange(64, dtype=np.float32)
    text = "kernel void twice(global const float *x, global float *y) { y[get_global_id(0)] = 2 * x[get_global_id(0)]; }"
    twice = portatile.Kernel(
        text, "twice", (x, 0 * x), {"block": [8]}, local_size="block", global_size=64, roles={"y": "out"}, reference=lambda x: 2 * x
    )
    tuned = twice.tune(budget="1", device=device.info.id)
    (tmp_path / "kernels" / "programs").mkdir(parents=True)  # an export that was interrupted
    folder = portatile.export(tmp_path / "kernels", tuned)
    (problem,) = json.loads((folder / "kernels.json").read_text())["problems"]
    assert problem["config"] == {"block": 8}
    assert problem["why"] == "tuned for this problem"
    assert problem["seconds_per_run"] == tuned.best.median
    assert main(["import", str(folder), "--store", str(tmp_path / "other.sqlite")]) == 0
    assert portatile.export(folder, twice, device=device.info.id) == folder  # again, over what is there
    for binary in folder.glob("programs/*.bin"):  # as many a .gitignore has it
        binary.unlink()
    if device.info.backend == "opencl":
        text = "import loader, numpy; assert (loader.load('kernel:twice')(numpy.ones(64)) == 2).all()"
        with icd.vendors():
            completed = subprocess.run(
                [sys.executable, "-c", text], cwd=folder, capture_output=True, text=True, timeout=120, env=dict(os.environ)
            )
        assert completed.returncode == 0, completed.stderr


def test_mistakes(device: Device, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UsageError, match="nothing to export"):
        portatile.export(tmp_path / "kernels")
    with pytest.raises(UsageError, match="a str cannot be exported"):
        portatile.export(tmp_path / "kernels", "gemm")  # type: ignore[arg-type]
    if device.info.images:
        text = "kernel void k(read_only image2d_t a, global float *b) { b[0] = get_image_width(a); }"
        pixels = np.zeros((4, 4, 4), np.float32)
        kernel = portatile.Kernel(text, "k", (pixels, np.zeros(1, np.float32)), {"n": [1]}, local_size=1, global_size=1)
        with pytest.raises(UsageError, match="with images cannot be exported"):
            portatile.export(tmp_path / "kernels", kernel, device=device.info.id)
    assert main(["export", str(tmp_path / "others"), "--workload", "kernel:mine"]) == 2
    assert "with portatile.export(folder, kernel)" in capsys.readouterr().err


def test_masks_of_arguments_are_not_lost() -> None:
    text = "kernel void k(global float *a) { a[get_global_id(0)] += 1; }"
    masked = np.ma.masked_greater(np.arange(8, dtype=np.float32), 3)
    with pytest.raises(portatile.ArgumentError, match=r"a\.filled\(0\)"):
        portatile.Kernel(text, "k", (masked,), {"n": [1]}, local_size=1, global_size=8)
    kernel = portatile.Kernel(text, "k", (masked.data,), {"n": [1]}, local_size=1, global_size=8)
    with pytest.raises(portatile.ArgumentError, match=r"a\.filled\(0\)"):
        kernel(masked)
