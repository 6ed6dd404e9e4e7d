"""Products by residues: within a native product's bound whatever the operands hold, and the same bits however they lie."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

import portatile
from portatile import workloads
from portatile.device.base import Device
from portatile.errors import ArgumentError
from portatile.workload import Inputs
from portatile.workloads.gemm_residues import plan
from portatile.workloads.gemm_residues.numbers import STRETCH
from support.checking import check, run
from support.seeds import new_seed

pytestmark = pytest.mark.unoptimised

M, N, K = 37, 29, 48
Matrix = NDArray[np.floating]


@pytest.fixture(autouse=True)
def double(device: Device) -> None:
    if not device.info.fp64:
        pytest.skip(f"{device.info.name} has no double precision")


def product(a: Matrix, b: Matrix, device: Device) -> Matrix:
    """By residues; b is stored transposed, as a is, so that one kernel text makes bytes of both."""
    result = portatile.gemm(a, np.ascontiguousarray(b.T), trans_b="T", precision="reproducible", device=device.info.id)
    assert result.dtype == a.dtype
    return result


def operands(dtype: str, rng: np.random.Generator) -> dict[str, tuple[Matrix, Matrix]]:
    """What rounding to integers of one scale could spoil."""
    a, b = rng.standard_normal((M, K)), rng.standard_normal((K, N))
    spread = 300.0 if dtype == "float64" else 40.0
    far, near = (2.0 ** rng.uniform(-s, s, (M, K)).round() for s in (spread, 12.0))
    rows, columns = 2.0 ** np.linspace(-spread, spread, M).round()[:, None], 2.0 ** np.linspace(spread, -spread, N).round()
    sparse = np.where(rng.random((M, K)) < 0.1, a, 0)
    sparse[3] = 0
    cases = {
        "normal": (a, b),
        "uniform": (rng.random((M, K)), rng.random((K, N))),
        "rows and columns graded": (a * rows, b * columns),
        "elements of a row graded": (a * near, b),
        "any exponents": (a * far, b * far.T[:, :N]),
        "large meets small": (a * np.where(np.arange(K) % 2, 1e-9, 1), b * np.where(np.arange(K) % 2, 1, 1e-9)[:, None]),
        "cancellation": (np.hstack([a[:, : K // 2], -a[:, : K // 2]]), np.vstack([b[: K // 2], b[: K // 2] * (1 + 2.0**-18)])),
        "few elements, a row of zeros": (sparse, b),
        "triangles": (np.tril(a), np.triu(b)),
    }
    return {name: (left.astype(dtype), right.astype(dtype)) for name, (left, right) in cases.items()}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_errors_are_within_a_native_products_bound(device: Device, dtype: str) -> None:
    """Against sums in extended precision, whose own rounding is allowed for; and random matrices come out better than natively."""
    rng = np.random.default_rng(new_seed(f"residues {dtype}"))
    unit = float(np.finfo(dtype).eps) / 2
    for name, (a, b) in operands(dtype, rng).items():
        wide_a, wide_b = a.astype(np.longdouble), b.astype(np.longdouble)
        exact, scale = wide_a @ wide_b, np.abs(wide_a) @ np.abs(wide_b)
        error = np.abs(product(a, b, device) - exact)
        assert (error <= (K + 3) * unit * scale).all(), f"{name}: {np.max(error / scale) / unit} units of |A| |B|"
        if name in ("normal", "uniform"):
            native = np.abs(a @ b - exact)
            assert np.mean(error / scale) <= np.mean(native / scale)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_integers_are_exact_and_symmetry_is_kept(device: Device, dtype: str) -> None:
    rng = np.random.default_rng(new_seed(f"whole {dtype}"))
    largest = 2**8 if dtype == "float32" else 2**23
    a, b = (rng.integers(-largest, largest, shape).astype(dtype) for shape in ((M, K), (K, N)))
    assert (product(a, b, device) == a.astype(np.float64) @ b).all()
    gram = product(a, np.ascontiguousarray(a.T), device)
    assert (gram == gram.T).all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_infinities_nan_and_the_ends_of_the_range_come_out_as_natively(device: Device, dtype: str) -> None:
    rng = np.random.default_rng(new_seed(f"special {dtype}"))
    a, b = rng.standard_normal((M, K)).astype(dtype), rng.standard_normal((K, N)).astype(dtype)
    limits = np.finfo(dtype)
    a[0, 3], a[1, 5], a[2, 2:4] = np.inf, np.nan, (np.inf, -np.inf)
    b[7, 1], b[4, 2], b[3, 4] = -np.inf, np.nan, 0
    a[4], a[5], a[6], a[7] = limits.max / 1024, limits.smallest_normal, limits.smallest_subnormal, limits.max
    b[:, 5], b[:, 6] = np.abs(b[:, 5]) + 1, limits.smallest_normal * 4
    result = product(a, b, device)
    with np.errstate(all="ignore"):
        native = a @ b
    assert np.isinf(result[7, 5])
    result[7] = native[7] = 0  # elsewhere sums overflow, or not, by the order of their terms
    assert (np.isnan(result) == np.isnan(native)).all()
    assert (np.isinf(result) == np.isinf(native)).all()
    assert (np.sign(result[np.isinf(native)]) == np.sign(native[np.isinf(native)])).all()
    usual = np.isfinite(native)
    usual[5:7] = False  # what is denormal is rounded to the next such number
    with np.errstate(all="ignore"):
        bound = 2 * (K + 3) * limits.eps * (np.abs(np.where(np.isfinite(a), a, 0)) @ np.abs(np.where(np.isfinite(b), b, 0)))
        error = np.abs(result - native)
    assert (error[usual] <= np.maximum(bound, limits.smallest_subnormal)[usual]).all()
    assert (error[5:7, [0, 3, 6]] <= 4 * K * limits.smallest_subnormal).all()


def test_the_bits_are_the_same_however_operands_lie(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """Transposed, in parts, in another configuration, with other sizes around."""
    rng = np.random.default_rng(new_seed("same bits"))
    a, b = operands("float64", rng)["elements of a row graded"]
    plain = product(a, b, device)
    again = portatile.matmul(np.asfortranarray(a), b, out=np.empty((M, N), order="F"), precision="emulated", device=device.info.id)
    assert again.tobytes("C") == plain.tobytes("C")
    assert product(a[5:20], b[:, 3:], device).tobytes() == plain[5:20, 3:].tobytes()
    stack = portatile.matmul(np.stack([a, a[::-1]]), b, precision="reproducible", device=device.info.id)
    assert stack.tobytes() == np.stack([plain, plain[::-1]]).tobytes()


@pytest.mark.parametrize("n", [N, pytest.param(64, marks=pytest.mark.drawn(1 / 2))])
def test_remainders_give_the_same_bits_as_sums(device: Device, n: int) -> None:
    workload, rng = workloads.get("gemm_residues"), np.random.default_rng(new_seed("remainders"))
    a, b = operands("float32", rng)["rows and columns graded"]
    problem = workload.problem({"m": M, "n": n, "k": K}, "float32", {"trans_b": "T"})
    memory = {"a": a.ravel(), "b": np.resize(b.T, (n, K)).ravel(), "c": np.full(M * n, np.nan, np.float32)}
    found = []
    for reduce in (0, 1):
        config = {**workload.default(problem, device.info), "REDUCE": reduce}
        after, verdict = run(device, workload, problem, config, Inputs(memory, {"alpha": 1.0, "beta": 0.0}))
        assert verdict.ok, verdict.message
        found.append(after["c"].tobytes())
    assert found[0] == found[1]


def test_complex_products_are_as_exact_as_natively(device: Device) -> None:
    """Also where the sum of real and imaginary part would cancel all that a product of three terms could lose."""
    rng = np.random.default_rng(new_seed("complex"))
    a, b = (rng.standard_normal(shape) + 1j * rng.standard_normal(shape) for shape in ((M, K), (K, N)))
    a = a.real + 1e-9j * a.imag
    result = portatile.gemm(a, b.conj().T.copy(), trans_b="C", alpha=0.5 - 1j, precision="emulated", device=device.info.id)
    exact = np.complex128(0.5 - 1j) * (a.astype(np.clongdouble) @ b)
    assert (np.abs(result - exact) <= np.sqrt(2) * (K + 7) * 2.0**-53 * abs(0.5 - 1j) * (np.abs(a) @ np.abs(b))).all()
    stack = portatile.gemm(np.stack([a, a[::-1]]), b.conj().T.copy(), trans_b="C", precision="reproducible", device=device.info.id)
    assert (stack[0] == stack[1][::-1]).all()
    few = np.array([[1 + 1j, 1j], [np.inf, np.nan * 1j]])
    one = np.eye(2) * (1 + 0j)
    special = portatile.gemm(few, one, trans_b="C", precision="reproducible", device=device.info.id)
    assert (special[0] == few[0]).all()
    assert not np.isfinite(special[1]).any()


def test_what_is_computed_again_are_multiply_adds_one_after_the_other(device: Device) -> None:
    """Each rounded once, in the order of k: by matrix units too. Every element is marked, since large ones meet small ones."""
    m, n, k = 19, 11, 37
    rng = np.random.default_rng(new_seed("again"))
    a, b = rng.standard_normal((m, k)), rng.standard_normal((k, n))
    a[:, ::2] *= 1e-9
    b[1::2] *= 1e-9
    sums = np.zeros((m, n))
    for i, j in np.ndindex(m, n):
        for h in range(k):
            sums[i, j] = float(Fraction(a[i, h]) * Fraction(b[h, j]) + Fraction(sums[i, j]))
    assert (product(a, b, device) == sums).all()


def test_long_rows_are_judged_by_every_fourth_step(device: Device) -> None:
    rng = np.random.default_rng(new_seed("long rows"))
    a, b = rng.standard_normal((5, 1100)), rng.standard_normal((1100, 7))
    a[0, 1::4] *= 1e9  # what is not looked at
    a[1] = 0
    a[1, 5], b[5] = 1, 1e-12
    result = product(a, b, device)
    exact = a.astype(np.longdouble) @ b
    assert (np.abs(result - exact) <= 1103 * 2.0**-53 * (np.abs(a) @ np.abs(b))).all()


def test_zeros_in_blocks_leave_nothing_out(device: Device) -> None:
    """Where rows and columns have no step of k in common every term is 0, unless an infinity or NaN meets zeros."""
    k = 2 * STRETCH + 40
    rng = np.random.default_rng(new_seed("blocks"))
    a, b = rng.standard_normal((40, k)), rng.standard_normal((k, 70))
    a[:20, STRETCH:], a[20:, :STRETCH] = 0, 0
    b[:STRETCH, 35:], b[STRETCH:, :35] = 0, 0
    b[2 * STRETCH :, 66] = 1e-9  # large meets small
    a[25, : 2 * STRETCH], a[25, 2 * STRETCH :] = 0, 1
    a[30, 7] = np.inf
    result = product(a, b, device)
    with np.errstate(invalid="ignore"):
        assert (np.isnan(result) == np.isnan(a @ b)).all()
    a[30] = result[30] = 0
    assert (result[:20, 35:] == 0).all()
    assert (result[20:, :35] == 0).all()
    exact, scale = a.astype(np.longdouble) @ b, np.abs(a) @ np.abs(b)
    assert (np.abs(result - exact) <= (k + 3) * 2.0**-53 * scale).all()
    assert product(a[3:, :], b[:, 9:], device).tobytes() == result[3:, 9:].tobytes()


def test_long_sums_and_large_operands_go_in_pieces(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    workload = workloads.get("gemm_residues")
    rng = np.random.default_rng(new_seed("pieces"))
    problem = workload.problem({"m": 45, "n": 70, "k": 70}, "float64", {"trans_b": "T"})
    whole = workload.plan(problem, workload.default(problem, device.info), device.info)
    monkeypatch.setattr(plan, "LONGEST", 32)
    monkeypatch.setattr(plan, "_WORKSPACE", 16 * 32 * 32)
    parts = workload.plan(problem, workload.default(problem, device.info), device.info)
    assert len(parts.steps) > 3 * len(whole.steps)
    assert parts.workspace < whole.workspace
    verdict = check(device, workload, problem, workload.default(problem, device.info), rng)
    assert verdict.ok, verdict.message


def test_what_cannot_be_reproduced_is_refused(device: Device) -> None:
    half = np.ones((4, 4), np.float16)
    with pytest.raises(ArgumentError, match="reproducible"):
        portatile.matmul(half, half, precision="reproducible", device=device.info.id)
    assert (portatile.matmul(half, half, precision="emulated", device=device.info.id) == 4).all()
