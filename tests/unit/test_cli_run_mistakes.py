"""Wrong invocations of `portatile run`: each ends with code 2 and a sentence on what is wrong, before a device is opened."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from portatile.cli import main, run

TEXT = """
typedef struct { int n; float f; } pair;
kernel void saxpy(global const float *x, global float *y, float a) { int i = get_global_id(0); y[i] += a * x[i]; }
kernel void many(global int4 *v, local int *t, uint2 w, pair p, uchar c, long l) { v[get_global_id(0)] = (int4)(w.x); }
kernel void looks(read_only image2d_t a, sampler_t s, write_only image2d_t b)
{
    int2 p = (int2)(get_global_id(0), get_global_id(1));
    write_imagef(b, p, read_imagef(a, s, p));
}
enum side { LEFT, RIGHT = 5 };
kernel void turned(global enum side *y, enum side to, local pair *t) { y[get_global_id(0)] = to; }
kernel void fixed(global float *y) __attribute__((reqd_work_group_size(8, 1, 1)));
"""
SAXPY, MANY, LOOKS, TURNED = "saxpy --global 64", "many --global 64", "looks --global 8,8", "turned --global 64"
RIGHT = {
    TURNED: ["64", "5", "local:64"],
    SAXPY: ["64", "64", "1"],
    MANY: ["64", "64", "1,2", "@pair.npy", "7", "-5"],
    LOOKS: ["8x8", "nearest", "8x8"],
}


def replaced(head: str, place: int, words: list[str]) -> list[str]:
    """Invocations that are right but for one argument."""
    return [" ".join((head, *RIGHT[head][:place], word, *RIGHT[head][place + 1 :])) for word in words]


WRONG = [
    # what stands in for a buffer
    *replaced(SAXPY, 0, ["0", "-1", "many", "4x", "x4"]),
    *replaced(
        SAXPY,
        1,
        ["64=none", "64=random(1)", "64=random(a,b)", "64=1,2", "64=index=2", "64=", "64=1e39", "floot:64", "double2x:64", ":64", "64:64"],
    ),
    *replaced(
        SAXPY, 0, ["@nowhere.npy", "@", "@folder", "@text.npy", "@objects.npy", "@empty.npy", "@short.npy", "@ints.npy", "4.5", "1e3"]
    ),
    *replaced(
        SAXPY,
        0,
        [
            "99999999999999999999",
            "1000000000000",
            "30000000000=random",
            "4x-4",
            "64=random(1,2,3)",
            "64=random(2,1)",
            "64=random(0,inf)",
            "@packed.npz",
        ],
    ),
    # scalars of several types
    *replaced(SAXPY, 2, ["", "one", "1,2", "1.5.5", "0x", "1e39", "-1e400x", "@pair.npy"]),
    *replaced(TURNED, 1, ["LEFT", "1.5", "4294967296"]),
    *replaced(TURNED, 2, ["64"]),
    *replaced(MANY, 2, ["1,2,3", "1,x", "-1,2", "1.5,2", "4294967296,1"]),
    *replaced(MANY, 3, ["1", "@empty.npy", "@nowhere.npy", "1,2"]),
    *replaced(MANY, 4, ["256", "-1", "x", "1.5"]),
    *replaced(MANY, 5, ["9223372036854775808", "-9223372036854775809", "half"]),
    *replaced(MANY, 1, ["0", "-4", "some", "local:0", "lokal:64", "local:x", "@ints.npy"]),
    # images and samplers
    *replaced(LOOKS, 0, ["8", "8x8x8x8", "0x8", "8x-8", "8x8x3", "half2:8x8", "unorm32:8x8", "8x8=many", "@nowhere.npy", "@cube.npy"]),
    *replaced(LOOKS, 1, ["", "far", "nearest,linear", "edge,clamp", "nearest,nearest", "linear;edge"]),
    # sizes of the launch
    *(f"saxpy --global {size} 64 64 1" for size in ("0", "-64", "64,64,64,64", "64,", "x", "6.4", "64,0", "1e3")),
    *(f"{SAXPY} --local {size} 64 64 1" for size in ("0", "-8", "8,8,8,8", "eight", "8,")),
    # numbers and kinds of arguments, names
    SAXPY,
    f"{SAXPY} 64 64",
    f"{SAXPY} 64 64 1 1",
    "saxpi --global 64 64 64 1",
    "--global 64",
    "saxpy 64 64 1",
    # options
    f"{SAXPY} 64 64 1 --locol 8",
    f"{SAXPY} 64 64 1 --repeat -1",
    f"{SAXPY} 64 64 1 --repeat many",
    f"{SAXPY} 64 64 1 --timeout 0",
    f"{SAXPY} 64 64 1 --timeout soon",
    f"{SAXPY} 64 64 1 --timeout nan",
    f"{SAXPY} 64 64 1 --timeout 5days",
    f"{SAXPY} 64 64 1 --tolerance nan",
    f"{SAXPY} 64 64 1 --tolerance -1",
    f"{SAXPY} 64 64 1 --seed -1",
    f"{SAXPY} 64 64 1 -o z=z.npy",
    f"{SAXPY} 64 64 1 -o y",
    f"{SAXPY} 64 64 1 -o y=y.txt",
    f"{SAXPY} 64 64 1 -o a=a.npy",
    f"{SAXPY} 64 64 1 -o y=nowhere/y.npy",
    f"{SAXPY} 64 64 1 -D",
    f"{SAXPY} 64 64 1 -D 1=2",
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the kernels and files of many kinds; nothing may get as far as a device."""

    def reached(*given: object) -> None:
        raise AssertionError("it was to be run")

    monkeypatch.setattr(run, "run", reached)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "kernels.cl").write_text(TEXT)
    (tmp_path / "folder").mkdir()
    (tmp_path / "text.npy").write_text("no array at all")
    np.save("objects.npy", np.array([None, "x"], dtype=object), allow_pickle=True)
    np.savez("packed.npz", a=np.zeros(64, np.float32))
    np.save("empty.npy", np.zeros(0, np.float32))
    np.save("ints.npy", np.arange(64))
    np.save("cube.npy", np.zeros((2, 2, 2, 2, 2), np.float32))
    np.save("pair.npy", np.array([(3, 0.5)], [("n", "<i4"), ("f", "<f4")]))
    (tmp_path / "short.npy").write_bytes((tmp_path / "ints.npy").read_bytes()[:200])
    return tmp_path


def told(words: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    code = main(["run", "kernels.cl", *words])
    out = capsys.readouterr()
    return code, out.out, out.err


@pytest.mark.parametrize("line", WRONG)
def test_wrong_invocations_end_with_2_and_say_why(line: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = told(line.split(" "), capsys)
    assert code == 2, err
    assert out == ""
    assert "Traceback" not in err
    assert any(len(said.split()) >= 3 for said in err.splitlines()), "a sentence on what is wrong"
    assert not list(folder.glob("[yza].npy"))


def test_there_are_many() -> None:
    assert len(set(WRONG)) == len(WRONG) > 95


@pytest.mark.parametrize("head", RIGHT)
def test_the_right_ones_would_be_run(head: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(AssertionError, match="was to be run"):
        told([*head.split(" "), *RIGHT[head]], capsys)


FILES: dict[str, bytes] = {
    "nothing.cl": b"",
    "no kernel.cl": b"int helper(int a) { return a; }",
    "bytes.cl": bytes(range(256)) * 4,
    "cut.cl": b"kernel void saxpy(global float *x, ",
    "unclosed.cl": b"kernel void saxpy(global float *x) { /* for ever",
    "conditional.cl": b"#if 1\nkernel void saxpy(global float *x) { }",
    "recursive.cl": b'#include "recursive.cl"\nkernel void saxpy(global float *x) { }',
    "macro.cl": b"#define A(x) A(x A(x))\nkernel void saxpy(global float *x) { A(A(1)) }",
}


@pytest.mark.parametrize("name", FILES)
def test_hostile_files(name: str, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Read without harm: refused, or handed to the compiler, which has the last word."""
    (folder / name).write_bytes(FILES[name])
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(run, "run", lambda *given: (_ for _ in ()).throw(run.UsageError("the compiler would be asked")))
        code = main(["run", name, "saxpy", "--global", "1", "1"])
    out = capsys.readouterr()
    assert code in (1, 2)
    assert "Traceback" not in out.err
    assert out.err.strip()


def test_a_file_without_an_end_is_no_text(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "/dev/zero", "saxpy", "--global", "64", "64"]) == 2
    assert "has more than 64 MiB" in capsys.readouterr().err


def test_an_array_that_memory_does_not_hold_is_not_made(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("portatile.cli._arguments.available", lambda: 1 << 20)
    code, out, err = told(["saxpy", "--global", "64", "64", "500000=random", "1"], capsys)
    assert (code, out) == (2, "")
    assert "GiB are free; choose a smaller size" in err


def test_types_that_opencl_does_not_take_are_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "kernels.cl").write_text("kernel void count(global ulong *y, const size_t n) { y[0] = n; }")
    code, _, err = told(["count", "--global", "1", "1", "5"], capsys)
    assert code == 2
    assert "argument n (size_t): '5': OpenCL C does not take a size_t; declare it ulong" in err
