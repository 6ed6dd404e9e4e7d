"""`portatile run` on every device: results, saved arrays, comparison with another device, mistakes."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from portatile import processes
from portatile.cli import main
from portatile.device.base import Device

pytestmark = pytest.mark.lengthy
TEXT = """
__kernel void saxpy(__global const float *x, __global float *y, float a) { int i = get_global_id(0); y[i] += a * x[i]; }
__kernel void turn(__global int4 *v, __local int4 *t, uint2 w)
{
  int l = get_local_id(0);
  t[l] = v[get_global_id(0)];
  barrier(CLK_LOCAL_MEM_FENCE);
  v[get_global_id(0)] = t[get_local_size(0) - 1 - l] + (int)w.y;
}
__kernel void brighter(read_only image2d_t a, write_only image2d_t b)
{
  const sampler_t s = CLK_ADDRESS_CLAMP | CLK_FILTER_NEAREST;
  int2 p = (int2)(get_global_id(0), get_global_id(1));
  write_imagef(b, p, read_imagef(a, s, p) * 2.0f);
}
__kernel void slice(read_only image3d_t v, sampler_t s, int z, write_only image2d_t b)
{
  int2 p = (int2)(get_global_id(0), get_global_id(1));
  write_imagef(b, p, read_imagef(v, s, (int4)(p, z, 0)));
}
#ifdef __OPENCL_C_VERSION__
__kernel void broken(__global int *o) { o[0] = nowhere; }
#endif
"""


@pytest.fixture
def kernels(tmp_path: Path) -> Path:
    path = tmp_path / "kernels.cl"
    path.write_text(TEXT.partition("#ifdef")[0])
    return path


def result(capsys: pytest.CaptureFixture[str], device: Device, kernels: Path, *args: str) -> dict[str, Any]:
    """The JSON of a run that succeeds."""
    code = main(["run", str(kernels), *args, "--device", device.info.id, "--json", "--repeat", "2"])
    out = capsys.readouterr()
    assert code == 0, out.err
    document: dict[str, Any] = json.loads(out.out)
    assert document["device"] == device.info.id
    assert len(document["seconds"]) == 2
    return document


def test_outputs_are_found_and_saved(device: Device, kernels: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    x = np.random.default_rng(3).normal(size=64).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    args = ["saxpy", "--global", "64", "--local", "16", f"@{tmp_path}/x.npy", "64=index", "-2.5", "-o", f"y={tmp_path}/y.npy"]
    found = result(capsys, device, kernels, *args)
    expected = np.arange(64) - 2.5 * x.astype(float)
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), expected, rtol=1e-6, atol=1e-5)
    first, second = found["operands"]
    assert (first["name"], first["changed"]) == ("x", False)
    assert second["changed"]
    assert second["sum"] == pytest.approx(expected.sum(), rel=1e-5)
    np.testing.assert_allclose(second["first"], expected[:4], rtol=1e-6, atol=1e-5)


def test_local_memory_vectors_and_a_chosen_work_group(device: Device, kernels: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = result(capsys, device, kernels, "turn", "--global", "24", "24=index", "24", "1,2")
    assert found["local"] == [8, 1, 1]
    assert found["operands"][0]["first"] == [28 + 2, 29 + 2, 30 + 2, 31 + 2]
    assert found["operands"][0]["shape"] == [24, 4]


def test_a_volume_and_a_sampler(device: Device, kernels: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if not device.info.images:
        pytest.skip("no images")
    volume = np.random.default_rng(4).integers(0, 256, (3, 4, 8, 4), np.uint8)
    np.save(tmp_path / "v.npy", volume)
    args = ["slice", "--global", "8,4", f"unorm:@{tmp_path}/v.npy", "nearest,edge", "5", "8x4x4", "-o", f"b={tmp_path}/b.npy"]
    result(capsys, device, kernels, *args)
    np.testing.assert_allclose(np.load(tmp_path / "b.npy"), volume[2] / 255, rtol=1e-6)


def test_images(device: Device, kernels: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if not device.info.images:
        pytest.skip("no images")
    found = result(capsys, device, kernels, "brighter", "--global", "8,4", "8x4x4=1.5", "8x4x4")
    assert found["operands"][1]["sum"] == 3.0 * 8 * 4 * 4


def test_check_compares_with_another_device(device: Device, kernels: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = result(capsys, device, kernels, "saxpy", "--global", "64", "64=random", "64=random", "2", "--check", device.info.id)
    assert found["agrees"]
    assert [row["difference"] for row in found["operands"]] == [0, 0]
    args = ["run", str(kernels), "saxpy", "--global", "64", "64=random", "64=random", "2", "--device", device.info.id]
    assert main([*args, "--check", device.info.id]) == 0
    assert "agrees" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("args", "code", "message"),
    [
        (["saxpy", "--global", "64", "--locol", "8", "64", "64", "1"], 2, "no option --locol"),
        (["saxpz", "--global", "64"], 2, "Did you mean 'saxpy'?"),
        (["saxpy", "--global", "64", "64"], 2, "takes 3 arguments, not 1"),
        (["saxpy", "--global", "none", "64", "64", "1"], 2, "--global"),
        (["saxpy", "--global", "64", "--local", "7", "64", "64", "1"], 2, "multiple"),
        (["saxpy", "--global", "99990", "--local", "99990", "9", "9", "1"], 2, "--local: "),
        (["saxpy", "--global", "64", "64", "64", "many"], 2, "argument a (float)"),
        (["saxpy", "--global", "64", "64", "64", "1", "-o", "z=z.npy"], 2, "z"),
        (["saxpy", "--global", "64", "64", "64", "1", "-o", "y=y.txt"], 2, "NAME=FILE.npy"),
        (["saxpy", "--global", "64", "64", "64", "1", "--check", "no such device"], 2, "no device matches"),
    ],
)
def test_mistakes(device: Device, kernels: Path, args: list[str], code: int, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", str(kernels), *args, "--device", device.info.id]) == code
    assert message in capsys.readouterr().err


def test_a_kernel_that_does_not_build(device: Device, kernels: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kernels.write_text(TEXT)
    assert main(["run", str(kernels), "saxpy", "--global", "64", "64", "64", "1", "--device", device.info.id]) == 1
    assert "nowhere" in capsys.readouterr().err


def test_a_macro_may_be_empty(device: Device, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "macro.cl"
    path.write_text("__kernel void macro(__global int *o) { o[get_global_id(0)] = 7 EMPTY + ONE; }")
    found = result(capsys, device, path, "macro", "--global", "4", "4", "-D", "EMPTY=", "-D", "ONE")
    assert found["operands"][0]["first"] == [8, 8, 8, 8]


def test_names_of_built_in_functions_are_as_good_as_others(device: Device, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """PoCL's headers give them a prefix, which nobody wants to know."""
    path = tmp_path / "names.cl"
    path.write_text("__kernel void dot(__global const int *sign, __global int *step, int mix) { step[get_global_id(0)] = mix * sign[0]; }")
    found = result(capsys, device, path, "dot", "--global", "4", "1=3", "4", "5", "-o", f"step={tmp_path / 'step.npy'}")
    assert [operand["name"] for operand in found["operands"]] == ["sign", "step"]
    assert np.load(tmp_path / "step.npy").tolist() == [15] * 4


HOSTILE = """
kernel void beyond(global float *a, global const float *b, int first, int count) { for (int i = 0; i < count; i++) a[first + i] = b[0]; }
kernel void endless(global volatile int *a) { while (a[0] == 0) ; }
kernel void far(global float *a, long place) { a[place] = 1.0f; }
"""


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["beyond", "--global", "1", "100", "4=ones", "100", "28"], "wrote 28 elements behind a"),
        (["beyond", "--global", "1", "100", "4=ones", "-4", "4"], "wrote 4 elements before a"),
        (["beyond", "--global", "1", "4", "4=ones", "1000000", "5"], "wrote 5 elements behind a, as far as a[1000004]"),
        (
            ["endless", "--global", "1", "4", "--timeout", "1000ms"],
            "with global size (1, 1, 1) and local size (1, 1, 1) did not end within 1 s",
        ),
        (["far", "--global", "1", "100", "1000000000000000"], "local size (1, 1, 1): the process that ran it ended by SIG"),
    ],
)
def test_a_hostile_kernel_is_told_of_and_harms_nobody(
    device: Device, tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], complaint: str
) -> None:
    if "far" in arguments and device.info.kind != "cpu":
        pytest.skip("a GPU faults in its driver's words, and some drivers let such a write pass")
    path = tmp_path / "hostile.cl"
    path.write_text(HOSTILE)
    assert main(["run", str(path), *arguments, "--device", device.info.id, "--repeat", "0"]) == 1
    assert complaint in capsys.readouterr().err


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no signal at the parent's end")
def test_an_endless_kernel_ends_with_a_command_that_is_killed(device: Device, tmp_path: Path) -> None:
    path = tmp_path / "hostile.cl"
    path.write_text(HOSTILE)
    words = ["run", str(path), "endless", "--global", "1", "4", "--device", device.info.id]
    command = subprocess.Popen([sys.executable, "-m", "portatile", *words], env=processes.environment())
    children: list[psutil.Process] = []
    until = time.monotonic() + 120
    while not children and time.monotonic() < until:
        time.sleep(0.05)
        children = [child for child in psutil.Process(command.pid).children() if "isolated_run" in " ".join(child.cmdline())]
    assert children
    time.sleep(1)  # at any moment, also while the kernel runs
    command.kill()
    command.wait()
    while (going := [child for child in children if _runs(child)]) and time.monotonic() < until:
        time.sleep(0.05)
    assert not going


def _runs(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
