"""Arrays of structures that a user's kernel reads: laid out as in C, seen by the reference with their members, exported as bytes."""

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

pytestmark = pytest.mark.unoptimised

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


def test_structures_that_are_written_or_passed_by_value_are_refused() -> None:
    head = "typedef struct { float a; int b; } two_t;\n"
    arguments = {"given": np.zeros(3, np.dtype([("a", "f4"), ("b", "i4")], align=True)), "y": np.zeros(4, np.float32)}
    cases = {
        "kernel void f(global two_t *given, global float *y) { y[0] = given[0].a; }": "declare it const, or use an array for each",
        "kernel void f(two_t given, global float *y) { y[0] = given.a; }": r"`constant two_t \*given` and pass a structured array",
    }
    for text, message in cases.items():
        with pytest.raises(ArgumentError, match=message):
            portatile.Kernel(head + text, "f", arguments, {}, global_size=1)
