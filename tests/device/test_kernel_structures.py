"""Structures that a user's kernel reads, in arrays and by value, and vectors by value: laid out as in C, seen by the reference with
their members, exported as bytes.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import portatile
from portatile.device.base import Device
from portatile.errors import ArgumentError

pytestmark = [pytest.mark.lengthy, pytest.mark.unoptimised]

TEXT = """
typedef struct { float factor; short shift; double bias; int pair[2]; } rule_t;
kernel void apply(constant rule_t *rules, global const float *x, global float *y, int n, int count) {
    for (int i = get_global_id(0); i < n; i += get_global_size(0)) {
        constant rule_t *rule = &rules[i % count];
        y[i] = rule->factor * x[(i + rule->shift) % n] + (float)rule->bias + rule->pair[1];
    }
}
"""
MEMBERS = [("factor", "f4"), ("shift", "i2"), ("bias", "f8"), ("pair", "i4", (2,))]
N = 333


def rules(seed: int) -> np.ndarray:
    rng, made = np.random.default_rng(seed), np.zeros(3, np.dtype(MEMBERS, align=True))
    made["factor"], made["shift"], made["bias"] = rng.random(3), rng.integers(0, 9, 3), rng.random(3)
    made["pair"] = rng.integers(0, 9, (3, 2))
    return made


def expected(rules: Any, x: Any) -> Any:
    each = rules[np.arange(x.size) % len(rules)]
    return each["factor"] * x[(np.arange(x.size) + each["shift"]) % x.size] + each["bias"] + each["pair"][:, 1]


def kernel(**changes: Any) -> portatile.Kernel:
    x = np.random.default_rng(1).random(N, np.float32)
    arguments = {"rules": rules(2), "x": x, "y": np.zeros_like(x), "n": N, "count": 3} | changes
    return portatile.Kernel(TEXT, "apply", arguments, {"block": [8, 16]}, local_size="block", global_size="n", reference=expected)


def test_tuned_called_and_exported(device: Device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PORTATILE_DATA_DIR", str(tmp_path / "data"))
    apply = kernel()
    result = apply.tune("2", device=device.info.id)
    assert result.verified
    assert not result.failures
    other, x, y = rules(3), np.random.default_rng(4).random(N, np.float32), np.zeros(N, np.float32)
    result(other, x, y, N, 3)
    assert np.allclose(y, expected(other, x), rtol=1e-5)
    with pytest.raises(ArgumentError, match="the kernel was defined with"):
        apply(other.view(np.uint8), x, y, N, 3, device=device.info.id)
    with pytest.raises(ArgumentError, match="the kernel was defined with"):
        apply(np.zeros(3, np.dtype([("another", "f4")], align=True)), x, y, N, 3, device=device.info.id)
    if device.info.backend == "opencl":
        portatile.export(tmp_path / "folder", result)
        np.save(tmp_path / "rules.npy", other)
        np.save(tmp_path / "x.npy", x)
        user = "import loader, numpy\nr, x = numpy.load('../rules.npy'), numpy.load('../x.npy')\n"
        user += "numpy.save('../y.npy', loader.load('kernel:apply')(r, x, x))"  # y is inout
        subprocess.run([sys.executable, "-c", user], cwd=tmp_path / "folder", check=True, timeout=120)
        assert np.allclose(np.load(tmp_path / "y.npy"), expected(other, x), rtol=1e-5)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rules": rules(1).astype(np.dtype(MEMBERS))}, r"C lays out in another way: make it by numpy.dtype\(..., align=True\)"),
        ({"rules": np.zeros(3, np.dtype([("z", "f16")], align=True))}, "argument rules.'z'. has dtype float128"),
        ({"rules": np.zeros(3, np.dtype([("z", ">f4")], align=True))}, "argument rules.'z'. has dtype >f4"),
        ({"x": np.zeros(N, [("value", "f4")])}, r"the kernel declares float\*: pass one of its fields"),
        ({"rules": rules(1)[0]}, "pass a NumPy array, not a void"),
    ],
)
def test_structures_that_do_not_fit(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        kernel(**changes)


@pytest.mark.parametrize("number", ["f4x2", "c8"])
def test_vectors_are_aligned_as_in_c(device: Device, number: str) -> None:
    text = """typedef struct { int shift; float2 at; float4 weights; char last; } point_t;
    kernel void sums(global const point_t *p, global float *y, int n) {
        for (int i = get_global_id(0); i < n; i += get_global_size(0)) y[i] = p[i].shift + p[i].at.y + p[i].weights.w + p[i].last;
    }"""
    at = ("f4", (2,)) if number == "f4x2" else "c8"
    layout = {
        "names": ["shift", "at", "weights", "last"],
        "formats": ["i4", at, ("f4", (4,)), "i1"],
        "offsets": [0, 8, 16, 32],
        "itemsize": 48,
    }
    points = np.zeros(5, np.dtype(layout))  # type: ignore[call-overload]
    points["shift"], points["weights"][:, 3], points["last"] = np.arange(5), 100, 10
    points["at"] = np.array([0, 0.5], np.float32) if number == "f4x2" else 0.5j
    sums = portatile.Kernel(text, "sums", (points, np.zeros(5, np.float32), 5), {"block": [1]}, local_size="block", global_size="n")
    y = np.zeros(5, np.float32)
    sums.run({"block": 1}, points, y, 5, device=device.info.id)
    assert (y == np.arange(5) + 110.5).all()
    layout["offsets"] = [0, 8, 20, 36]
    with pytest.raises(ArgumentError, match="lays out in another way"):
        portatile.Kernel(text, "sums", (np.zeros(5, np.dtype(layout)), y, 5), {"block": [1]}, local_size="block", global_size="n")


def test_structures_that_are_written_are_refused() -> None:
    text = "typedef struct { float a; int b; } two_t;\nkernel void f(global two_t *given, global float *y) { y[0] = given[0].a; }"
    arguments = {"given": np.zeros(3, np.dtype([("a", "f4"), ("b", "i4")], align=True)), "y": np.zeros(4, np.float32)}
    with pytest.raises(ArgumentError, match="declare it const, or use an array for each"):
        portatile.Kernel(text, "f", arguments, {}, global_size=1)


BY_VALUE = """
typedef struct { int rows; float factor; short pair[2]; double bias; } params_t;
kernel void scale(params_t p, global const float *x, global float *y, float3 weights, int2 span, float2 z) {
    for (int i = get_global_id(0); i < p.rows; i += get_global_size(0))
        y[i] = i < span.x || i >= span.y ? 0 : p.factor * x[i] * weights.z + p.pair[1] + (float)p.bias + z.x * z.y * block / block;
}
"""
PARAMS = np.dtype([("rows", "i4"), ("factor", "f4"), ("pair", "i2", (2,)), ("bias", "f8")], align=True)


def scaled(p: Any, x: Any, weights: Any, span: Any, z: Any) -> Any:
    i = np.arange(x.size)
    values = p["factor"] * x * weights[2] + p["pair"][1] + p["bias"] + z[0] * z[1]
    return np.where((i >= span[0]) & (i < span[1]) & (i < p["rows"]), values, 0)


def params(rows: int, factor: float) -> Any:
    return np.array([(rows, factor, (1, 2), 0.25)], PARAMS)[0]


def by_value(**changes: Any) -> portatile.Kernel:
    x = np.random.default_rng(1).random(N, np.float32)
    values = {"p": params(N, 3.0), "x": x, "y": np.zeros_like(x), "weights": (1, 2, 3), "span": np.array([5, 300], np.int32), "z": 2 + 1j}
    awkward = [values | {"p": params(N - 9, 2.0), "span": (0, 7)}, values | {"z": [0.5, 1], "span": (1, 2)}]
    return portatile.Kernel(
        BY_VALUE,
        "scale",
        values | changes,
        {"block": [8, 16]},
        local_size="block",
        global_size=N,
        reference=scaled,
        awkward=awkward,
    )


def test_structures_and_vectors_by_value(device: Device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PORTATILE_DATA_DIR", str(tmp_path / "data"))
    scale = by_value()
    result = scale.tune("2", device=device.info.id)
    assert "3 sets of arguments" in result.checked
    assert not result.failures
    x, y = np.random.default_rng(4).random(N, np.float32), np.zeros(N, np.float32)
    for call, factor in ((result, 1.0), (result, 1.5), (scale, 2.0), *[(result, 0.5 * time) for time in range(6)]):
        y[:] = 0
        others = {"weights": np.float32([4, 5, factor]), "span": (3, 44), "z": np.float32([factor, 2])}
        call(p=params(40, factor), x=x, y=y, **others, **({} if call is result else {"device": device.info.id}))
        assert np.allclose(y, scaled(params(40, factor), x, **others), rtol=1e-5)
    if device.info.backend == "opencl":
        portatile.export(tmp_path / "folder", result)
        np.save(tmp_path / "x.npy", x)
        user = "import loader, numpy\nx = numpy.load('../x.npy')\nnumpy.save('../y.npy', loader.load('kernel:scale')(x, 0 * x))"
        subprocess.run([sys.executable, "-c", user], cwd=tmp_path / "folder", check=True, timeout=120)
        assert np.allclose(np.load(tmp_path / "y.npy"), scaled(params(N, 3.0), x, (1, 2, 3), (5, 300), (2, 1)), rtol=1e-5)


def test_a_problem_has_the_integers_of_what_is_passed_by_value() -> None:
    """They may say how much there is to do; other numbers do not, as among the scalars."""
    own = by_value().problem()
    assert by_value(p=params(N, 4.0), weights=[3, 2, 1]).problem() == own
    for changes in ({"p": params(N + 1, 3.0)}, {"span": (1, 3)}):
        other = by_value(**changes).problem()
        assert other != own
        assert other.options["version"] == own.options["version"]
    assert by_value().distance(own, other) < 1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"p": 3}, r"p is a params_t by value: pass one structure, .*align=True\), not 3"),
        ({"p": np.zeros(2, PARAMS)}, "pass one structure"),
        ({"p": np.zeros(1, np.dtype([("rows", "i4"), ("bias", "f8")]))}, "C lays out in another way"),
        ({"weights": (1, 2, 3, 4)}, "the kernel takes 3 numbers of type float32, as a list or an array"),
        ({"weights": 1.0}, "takes 3 numbers"),
        ({"weights": (1, "two", 3)}, r"weights\[1\] is 'two'"),
        ({"span": (1, 2.5)}, r"span\[1\] is 2.5"),
        ({"span": 1 + 2j}, "span"),
    ],
)
def test_what_does_not_fit_by_value(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        by_value(**changes)


def test_calls_with_other_structures_are_refused() -> None:
    scale, x = by_value(), np.zeros(N, np.float32)
    other = np.zeros(1, np.dtype([("rows", "i4"), ("other", "f4")], align=True))
    with pytest.raises(ArgumentError, match=r"p has dtype .*; the kernel was defined with"):
        scale(other, x, x.copy(), (1, 2, 3), (1, 2), (1, 2))


@pytest.mark.parametrize(("declared", "instead"), [("size_t", "ulong"), ("ptrdiff_t", "long"), ("bool", "int")])
def test_types_that_opencl_does_not_take(declared: str, instead: str) -> None:
    text = f"kernel void f(global float *y, const {declared} n) {{ y[0] = n; }}"
    with pytest.raises(ArgumentError, match=f"n of f is a {declared}, which OpenCL C does not allow: declare it {instead}"):
        portatile.Kernel(text, "f", (np.zeros(4, np.float32), 1), {}, global_size=1)
