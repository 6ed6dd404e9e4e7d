"""Float32 products from terms of 16 bits: their bound where operands are as bad as can be, and what the native product computes of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

import portatile
from portatile import workloads
from portatile.device.base import Device
from portatile.records import Config
from portatile.workload import Inputs
from portatile.workloads.gemm_terms import error, points
from support.checking import run
from support.seeds import new_seed

pytestmark = [pytest.mark.thinned(1 / 2), pytest.mark.unoptimised]

WORKLOAD = workloads.get("gemm_terms")
U = 2.0**-24
K = 260


@pytest.fixture(autouse=True)
def _small(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """A device that has no units is given a tile with little for each work-item, which compiles sooner."""
    if not device.info.can.matrix_types:
        small = replace(points.TILES["matrix", "64x64"], TBR=4, TBC=4, TRR=1, TCR=1, STAGES=2)
        monkeypatch.setitem(points.TILES, ("matrix", "64x64"), small)


def configs(device: Device, split: int = 1) -> list[Config]:
    """A tile of each form that the device has."""
    forms = {"matrix": "64x64", "hopper": "128x128"} if device.info.can.warp_groups else {"matrix": "64x64"}
    return [points.config(form, tile, stages=2, split=split) for form, tile in forms.items()]


def product(
    device: Device,
    config: Config,
    a: NDArray[np.float32],
    b: NDArray[np.float32],
    trans: str = "NN",
    factors: tuple[float, float] = (1.0, 0.0),
    c: NDArray[np.float32] | None = None,
) -> NDArray[np.float32]:
    m, k = a.shape
    n = b.shape[1]
    problem = WORKLOAD.problem({"m": m, "n": n, "k": k}, "float32", {"trans_a": trans[0], "trans_b": trans[1]})
    stored = {name: x.T if how == "T" else x for name, x, how in zip("ab", (a, b), trans, strict=True)}
    memory = {name: np.ascontiguousarray(x).ravel() for name, x in stored.items()}
    memory["c"] = np.full(m * n, np.nan, np.float32) if c is None else c.ravel().copy()
    after, verdict = run(device, WORKLOAD, problem, config, Inputs(memory, {"alpha": factors[0], "beta": factors[1]}))
    assert verdict.ok, verdict.message
    return after["c"].reshape(m, n)


def kept(rows: NDArray[np.float32]) -> NDArray[np.bool_]:
    """Which rows two terms hold, as ``error`` says, in NumPy's float16."""
    finite = np.isfinite(rows).all(axis=1)
    held = np.where(finite[:, None], rows, 0).astype(np.float64)
    largest = np.abs(held).max(axis=1, keepdims=True, initial=2.0**-149)
    scaled = np.ldexp(held, np.minimum(15 - np.frexp(largest)[1], 126))
    missed = np.abs(scaled - scaled.astype(np.float16).astype(np.float64))
    found: NDArray[np.bool_] = finite & (missed <= error.dropped_share(rows.shape[1]) * np.abs(scaled)).all(axis=1)
    return found


def within(
    got: NDArray[np.float32],
    a: NDArray[np.float32],
    b: NDArray[np.float32],
    chunk: int,
    factors: tuple[float, float] = (1.0, 0.0),
    c: NDArray[np.float32] | None = None,
) -> None:
    """The terms' bound where they hold row and column, the native one elsewhere; infinities and NaN as they must be."""
    k = a.shape[1]
    left, right = a.astype(np.float64), b.astype(np.float64)
    old = np.zeros(got.shape) if c is None else c.astype(np.float64)
    with np.errstate(all="ignore"):
        sums = (left @ right).astype(np.float32)  # which overflow
        expected = np.where(np.isfinite(sums), factors[0] * (left @ right), factors[0] * sums) + factors[1] * old
        scale = abs(factors[0]) * (np.abs(left) @ np.abs(right)) + abs(factors[1] * old)
    special = ~np.isfinite(expected)
    terms = np.outer(kept(a), kept(b.T))
    finite = [np.abs(np.where(np.isfinite(x), x, 0)) for x in (left, right)]
    checked = terms | (finite[0] @ finite[1] < 2.0**127)  # else native sums may overflow on their way
    np.testing.assert_array_equal(got[special & checked], expected[special & checked].astype(np.float32))
    native = (k + 8) * U * 1.01
    bound = np.where(terms, error.bound(k, chunk, 2), native)
    bad = ~special & checked & ~(np.abs(got - np.where(special, 0, expected)) <= bound * scale + k * 2.0**-149)
    assert not bad.any(), f"{np.argwhere(bad)[:4]}: {got[bad][:4]} for {expected[bad][:4]}"


def awkward_rows(rng: np.random.Generator) -> dict[str, NDArray[np.float32]]:
    """Rows of an operand by what is bad of them."""
    plain = rng.standard_normal(K)
    grade = np.linspace(-1, 1, K)
    found = {
        "plain": plain,
        "positive": np.abs(plain),
        "graded": plain * 2.0 ** (8 * grade),
        "graded too far": plain * 2.0 ** (20 * grade),
        "graded the other way": plain * 2.0 ** (-8 * grade),
        "large": plain * 2.0**100,
        "small": plain * 2.0**-100,
        "tiny": plain * 2.0**-118,
        "denormal": np.round(plain * 1000) * 2.0**-149,
        "denormals in between": np.where(np.arange(K) % 3, plain, plain * 2.0**-135),
        "nothing": np.zeros(K),
        "infinity": np.where(np.arange(K) == 7, np.inf, plain),
        "both infinities": np.where(np.arange(K) % 100 == 7, np.copysign(np.inf, grade), plain),
        "NaN": np.where(np.arange(K) == K - 1, np.nan, plain),
        "overflow": np.full(K, 3e38),
        "cancellation": np.repeat(plain[: K // 2], 2) * np.where(np.arange(K) % 2, -1, 1 + 2.0**-20),
        "one large": np.where(np.arange(K) == 100, 2.0**40, plain),
        "whole": np.round(plain * 2**20),
        "powers of two": np.sign(plain) * 2.0 ** np.round(8 * plain),
        "the whole range": plain * 2.0 ** rng.integers(-120, 20, K),
        "few bits lost": np.where(np.arange(K) % 2, 1.0, 1 + np.abs(plain) / 64) * 2.0 ** -rng.choice([0, 27, 28, 29, 30], K),
    }
    with np.errstate(over="ignore"):
        return {name: row.astype(np.float32) for name, row in found.items()}


@pytest.mark.parametrize(("trans", "factors"), [("NN", (1.0, 0.0)), ("TT", (-0.5, 1.5))])
def test_operands_as_bad_as_can_be(device: Device, trans: str, factors: tuple[float, float]) -> None:
    """Every kind of row meets every kind of column."""
    rng = np.random.default_rng(new_seed(trans))
    a = np.array(list(awkward_rows(rng).values()) * 4)[:70]
    b = np.array(list(awkward_rows(rng).values()) * 4)[5:75].T
    held = kept(a[:21])
    names = list(awkward_rows(rng))
    assert {"graded", "tiny", "denormal", "overflow", "cancellation"} <= {
        name for name, is_held in zip(names, held, strict=True) if is_held
    }
    assert {"graded too far", "NaN", "one large"} <= {name for name, is_held in zip(names, held, strict=True) if not is_held}
    c = rng.standard_normal((70, 70)).astype(np.float32) if factors[1] else None
    for config in configs(device):
        result = product(device, config, a, b, trans, factors, c)
        within(result, a, b, 64 if config["FORM"] == "hopper" else 16, factors, c)


def test_more_accurate_than_the_native_bound_by_far(device: Device) -> None:
    """Random operands, whose sums are promoted so often that they hardly err; also where two groups share k."""
    rng = np.random.default_rng(new_seed("random"))
    k = 1100
    a, b = rng.random((64, k), np.float32), rng.random((k, 64), np.float32)
    exact = a.astype(np.float64) @ b.astype(np.float64)
    for config in configs(device, split=2):
        result = product(device, config, a, b)
        assert np.abs(result / exact - 1).max() < (40 if config["FORM"] == "hopper" else 24) * U


def test_factors_decide_what_is_read(device: Device) -> None:
    """beta = 0 ignores a C of NaN, alpha = 0 A and B of NaN."""
    nothing = np.full((64, K), np.nan, np.float32)
    c = np.arange(64 * 64, dtype=np.float32).reshape(64, 64)
    for config in configs(device):
        np.testing.assert_array_equal(product(device, config, nothing, nothing.T, "NN", (0.0, 2.0), c), 2 * c)
        assert not product(device, config, nothing, nothing.T, "NN", (0.0, 0.0)).any()


def test_a_routine_asks_for_it(device: Device) -> None:
    """The native product runs where it is better, and that is said."""
    rng = np.random.default_rng(new_seed("routine"))
    a, b = (rng.standard_normal((40, 40)).astype(np.float32) for _ in range(2))
    result = portatile.matmul(a, b, precision="emulated", device=device.info.id)
    np.testing.assert_allclose(result, a @ b, rtol=1e-4, atol=1e-4)
    explained = portatile.explain("gemm", m=40, n=40, k=40, precision="emulated", device=device.info.id)
    assert "the native product runs" in explained.explanation
