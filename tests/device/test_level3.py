"""symm, syrk, syr2k and trmm beside NumPy in float64: every option and order, what must not be read or written, and mistakes."""

from __future__ import annotations

import itertools
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import portatile
from portatile import workloads
from portatile.device.base import Device
from portatile.device.buffer import Buffer
from portatile.errors import ArgumentError
from portatile.workloads.gemm import zeros
from portatile.workloads.gemm.forms.gpu.point import pipeline
from portatile.workloads.gemm.forms.gpu.triangle import doubled
from support.checking import check
from support.seeds import new_seed

pytestmark = [pytest.mark.thinned(1 / 3), pytest.mark.unoptimised]

M, N, K = 37, 21, 18


def triangle(a: NDArray, uplo: str) -> NDArray:
    """One triangle of a matrix, NaN beside it."""
    return np.where(np.tri(len(a), dtype=bool) if uplo == "L" else np.tri(len(a), dtype=bool).T, a, np.nan).astype(a.dtype)


def stored(a: NDArray, order: str) -> NDArray:
    return np.array(a, order=order)  # type: ignore[call-overload]


def close(got: NDArray, expected: NDArray) -> bool:
    return bool(np.abs(np.asarray(got, np.float64) - expected).max() <= 1e-4)


def draw(rng: np.random.Generator, *shape: int) -> NDArray:
    return rng.uniform(-1, 1, shape).astype(np.float32)


@pytest.mark.parametrize(("side", "uplo", "orders"), list(itertools.product("LR", "LU", ("CCC", "FCF", "CFC", "FFF", "CCF"))))
def test_symm(device: Device, side: str, uplo: str, orders: str) -> None:
    rng = np.random.default_rng(new_seed(side + uplo + orders))
    order = M if side == "L" else N
    a, b, c = draw(rng, order, order), draw(rng, M, N), draw(rng, M, N)
    a = (a + a.T) / 2
    half, right, out = stored(triangle(a, uplo), orders[0]), stored(b, orders[1]), stored(c, orders[2])
    result = portatile.symm(half, right, out, side=side, uplo=uplo, alpha=1.5, beta=-0.5, out=out, device=device.info.id)  # type: ignore[arg-type]
    assert result is out
    assert close(out, 1.5 * (a @ b if side == "L" else b @ a) - 0.5 * c)
    assert close(portatile.symm(half, right, side=side, uplo=uplo, device=device.info.id), a @ b if side == "L" else b @ a)  # type: ignore[arg-type]


@pytest.mark.parametrize(("uplo", "trans", "orders"), list(itertools.product("LU", "NT", ("CC", "FC", "CF"))))
def test_syrk(device: Device, uplo: str, trans: str, orders: str) -> None:
    rng = np.random.default_rng(new_seed(uplo + trans + orders))
    a, c = draw(rng, M, K), draw(rng, M, M)
    lower = np.tri(M, dtype=bool)
    written = lower if uplo == "L" else lower.T
    given, out = stored(a if trans == "N" else a.T, orders[0]), stored(c, orders[1])
    result = portatile.syrk(given, out, uplo=uplo, trans=trans, alpha=-1.0, beta=2.0, out=out, device=device.info.id)  # type: ignore[arg-type]
    assert result is out
    assert close(np.where(written, out, 0), np.where(written, 2.0 * c - a.astype(np.float64) @ a.T, 0))
    assert np.array_equal(out[~written], c[~written])
    fresh = portatile.syrk(given, uplo=uplo, trans=trans, device=device.info.id)  # type: ignore[arg-type]
    assert close(fresh, np.where(written, a.astype(np.float64) @ a.T, 0))


@pytest.mark.parametrize(("uplo", "trans", "orders"), list(itertools.product("LU", "NT", ("CCC", "FCC", "CFF", "FFC"))))
def test_syr2k(device: Device, uplo: str, trans: str, orders: str) -> None:
    """Inside larger arrays, A and B stored alike and not; a C of NaN without beta."""
    rng = np.random.default_rng(new_seed(uplo + trans + orders))
    a, b, c = draw(rng, M, K), draw(rng, M, K), draw(rng, M + 3, M + 5)
    lower = np.tri(M, dtype=bool)
    written = lower if uplo == "L" else lower.T
    given = [
        stored(np.pad(x if trans == "N" else x.T, 2, constant_values=np.nan), o)[2:-2, 2:-2] for x, o in zip((a, b), orders, strict=False)
    ]
    out = stored(c, orders[2])[3:, 5:]
    before, product = out.copy(), a.astype(np.float64) @ b.T
    options = {"uplo": uplo, "trans": trans, "alpha": -1.0, "device": device.info.id}
    assert portatile.syr2k(*given, out, beta=2.0, out=out, **options) is out  # type: ignore[arg-type]
    assert close(np.where(written, out, 0), np.where(written, 2.0 * before - product - product.T, 0))
    assert np.array_equal(out[~written], before[~written])
    out[written] = np.nan
    portatile.syr2k(*given, out=out, **options)  # type: ignore[arg-type]
    assert close(np.where(written, out, 0), np.where(written, -product - product.T, 0))
    assert np.array_equal(out[~written], before[~written])
    assert close(portatile.syr2k(*given, **options), np.where(written, -product - product.T, 0))  # type: ignore[arg-type]


def test_no_terms_leave_beta_times_c(device: Device) -> None:
    c, none = np.ones((5, 5), np.float32), np.empty((5, 0), np.float32)
    expected = np.where(np.tri(5), 3, 1)
    assert np.array_equal(portatile.syr2k(none, none, c, beta=3.0, device=device.info.id), expected)
    assert np.array_equal(portatile.syrk(none, c, beta=3.0, device=device.info.id), expected)
    assert portatile.syr2k(none.T, none.T, trans="N", device=device.info.id).shape == (0, 0)


@pytest.mark.parametrize("joined", [False, True])
@pytest.mark.parametrize(("uplo", "trans"), list(itertools.product("LU", ("N", "T", "NT", "TN"))))
def test_syr2k_in_blocks(device: Device, uplo: str, trans: str, joined: bool) -> None:
    """Several blocks and what is left of one, which defaults do not have; and the joined product, whatever the number of terms."""
    workload = workloads.get("syr2k")
    for problem in workload.awkward(workload.problem({"n": 1, "k": 1}, "float32", {"uplo": uplo, "trans": trans})):
        nb = 0 if joined or problem.sizes["n"] <= 16 else 32
        config = {"JOIN": joined, "NB": nb, "WGS": 32}
        if config in workload.space(problem, device.info):
            verdict = check(device, workload, problem, config, np.random.default_rng(new_seed(uplo + trans)))
            assert verdict.ok, f"{problem}: {verdict.message}"
        else:
            assert joined
            assert device.info.kind != "cpu"


@pytest.mark.parametrize(("side", "uplo", "trans", "diag"), list(itertools.product("LR", "LU", "NT", "NU")))
def test_trmm(device: Device, side: str, uplo: str, trans: str, diag: str) -> None:
    rng = np.random.default_rng(new_seed(side + uplo + trans + diag))
    order = M if side == "L" else N
    a, b = triangle(draw(rng, order, order), uplo), draw(rng, M, N)
    full = np.nan_to_num(a).astype(np.float64)
    if diag == "U":
        np.fill_diagonal(a, np.nan)
        np.fill_diagonal(full, 1)
    op = full if trans == "N" else full.T
    expected = 2.0 * (op @ b if side == "L" else b @ op)
    options = {"side": side, "uplo": uplo, "trans": trans, "diag": diag, "alpha": 2.0, "device": device.info.id}
    assert close(portatile.trmm(a, b, **options), expected)  # type: ignore[arg-type]
    in_place = stored(b, "F" if diag == "U" else "C")
    assert portatile.trmm(stored(a, "F"), in_place, out=in_place, **options) is in_place  # type: ignore[arg-type]
    assert close(in_place, expected)


def test_several_blocks_and_buffers(device: Device) -> None:
    """Orders past the default's blocks, on the device, in float64 where it has that."""
    rng = np.random.default_rng(new_seed("blocks"))
    dtype = "float64" if device.info.fp64 else "float32"
    a, b = (rng.uniform(-1, 1, shape).astype(dtype) / 16 for shape in ((300, 300), (300, 40)))
    on_device = [Buffer.from_numpy(x, device) for x in (a, b)]
    product = portatile.trmm(*on_device, uplo="U")
    assert isinstance(product, Buffer)
    assert close(product.numpy(), np.triu(a) @ b)
    assert close(portatile.syrk(on_device[1]).numpy(), np.tril(b @ b.T))
    assert close(portatile.syr2k(on_device[1], on_device[1], alpha=0.5).numpy(), np.tril(b @ b.T))
    assert close(portatile.symm(*on_device).numpy(), (np.tril(a) + np.tril(a, -1).T) @ b)


def test_alpha_zero_reads_nothing(device: Device) -> None:
    nothing, b = np.full((9, 9), np.nan, np.float32), np.full((9, 5), np.nan, np.float32)
    assert not portatile.trmm(nothing, b, alpha=0.0, device=device.info.id).any()
    assert not portatile.symm(nothing, b, alpha=0.0, device=device.info.id).any()
    assert not portatile.syrk(nothing, alpha=0.0, device=device.info.id).any()
    assert not portatile.syr2k(nothing, nothing, alpha=0.0, device=device.info.id).any()


F = np.float32
SQUARE = np.ones((4, 4), F)
MISTAKES = {
    "side": (lambda: portatile.symm(SQUARE, SQUARE, side="X"), "side"),  # type: ignore[arg-type]
    "uplo": (lambda: portatile.syrk(SQUARE, uplo="X"), "uplo"),  # type: ignore[arg-type]
    "order": (lambda: portatile.symm(SQUARE, np.ones((3, 4), F)), "needs"),
    "not square": (lambda: portatile.trmm(np.ones((4, 3), F), SQUARE), "needs"),
    "no c": (lambda: portatile.syrk(SQUARE, beta=1.0), "no c"),
    "dtypes": (lambda: portatile.symm(SQUARE, SQUARE.astype("float64")), "convert one"),
    "out": (lambda: portatile.syrk(SQUARE, out=np.empty((3, 3), F)), "must have shape"),
    "shapes": (lambda: portatile.syr2k(SQUARE, np.ones((4, 3), F)), "equal shapes"),
    "two dtypes": (lambda: portatile.syr2k(SQUARE, SQUARE.astype("float64")), "convert one"),
    "c is b": (lambda: portatile.syr2k(np.eye(4, dtype=F), SQUARE, out=SQUARE), "overlaps b"),
    "aliased": (lambda: portatile.symm(SQUARE, np.eye(4, dtype=F), out=SQUARE), "overlaps a"),
}


def test_a_complex_factor_of_real_matrices_is_refused_in_repeated_calls_too(device: Device) -> None:
    square = np.eye(9, dtype=np.float32)
    for routine in (portatile.trsm, portatile.trmm, portatile.symm, portatile.gemm):
        call = partial(routine, square, square, device=device.info.id)
        call(alpha=2.0)
        assert np.array_equal(call(alpha=0.5), 0.5 * square)
        with pytest.raises(ArgumentError, match="alpha=1j is not a real number"):
            call(alpha=1j)
    narrow = (square + 1j * square).astype(np.complex64)
    for device_id in (device.info.id, None):  # of small ones without a device NumPy may take care
        assert np.allclose(np.diag(portatile.herk(narrow, alpha=0.5, device=device_id)), 1.0)
        with pytest.raises(ArgumentError, match="alpha=1j is not a real number"):
            portatile.herk(narrow, alpha=1j, device=device_id)


@pytest.mark.parametrize("mistake", list(MISTAKES))
def test_mistakes_are_explained(mistake: str) -> None:
    call, message = MISTAKES[mistake]
    with pytest.raises(ArgumentError, match=message):
        call()


@pytest.mark.parametrize(("routine", "uplo", "orders"), list(itertools.product(("syrk", "syr2k"), "LU", ("CC", "CF", "FC"))))
def test_the_other_triangle_of_out_stays_with_beta_too(device: Device, routine: str, uplo: str, orders: str) -> None:
    rng = np.random.default_rng(new_seed(routine + uplo + orders))
    a, b, c = draw(rng, M, K), draw(rng, M, K), draw(rng, M, M)
    factors = (a,) if routine == "syrk" else (a, b)
    expected = 2 * (a @ a.T if routine == "syrk" else a @ b.T + b @ a.T) + 0.5 * c
    written = np.tri(M, dtype=bool) if uplo == "L" else np.tri(M, dtype=bool).T
    given, out = stored(c, orders[0]), stored(np.full((M, M), 7, np.float32), orders[1])
    compute = getattr(portatile, routine)
    for _ in range(4):  # the first call is prepared, the next are recorded, then done again
        out[~written] = 7
        assert compute(*factors, given, uplo=uplo, alpha=2, beta=0.5, out=out, device=device.info.id) is out
        assert np.all(out[~written] == 7)
        assert close(out[written], expected[written])
    assert np.array_equal(given, c)
    if orders == "CC":
        buffers = [Buffer.from_numpy(array, device) for array in (*factors, c, np.full((M, M), 7, np.float32))]
        for _ in range(4):
            compute(*buffers[:-1], uplo=uplo, alpha=2, beta=0.5, out=buffers[-1])
            result = buffers[-1].numpy()
            assert np.all(result[~written] == 7)
            assert close(result[written], expected[written])


_TILED = (
    pipeline(2, (8, 8), (2, 1), 8, 2, 4, double=0),
    replace(pipeline(4, (8, 8), (1, 1), 8, 2, 4, double=0), KG=2, PACK_A=True),
    replace(pipeline(4, (8, 8), (1, 1), 8, 2, 4, double=0), SPLIT_K=4, JOIN=True),
    replace(pipeline(2, (8, 8), (1, 2), 8, 2, 4, double=0), RASTER=8, PACK_B=True),
    replace(pipeline(2, (8, 8), (1, 1), 8, 3, 4, double=1), KEEP=True),
    replace(pipeline(4, (8, 8), (1, 1), 16, 2, 4), TURN=True),
    replace(pipeline(2, (8, 8), (2, 1), 8, 2, 4, double=0), PACK_A=True, PACK_B=True),
)
_STRUCTURED = [
    *(("syrk", {"uplo": uplo, "trans": trans}) for uplo, trans in itertools.product("LU", "NT")),
    *(
        ("trmm", dict(zip(("side", "uplo", "trans", "diag", "apart"), choice, strict=True)))
        for choice in itertools.product("LR", "LU", "NT", "NU", (False, True))
    ),
]


@pytest.mark.parametrize("place", range(len(_TILED)))
@pytest.mark.parametrize(("name", "options"), _STRUCTURED)
def test_tiles_of_a_gpu_leave_out_what_is_zero(
    device: Device, name: str, options: dict[str, Any], place: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plans that NVIDIA's GPUs get, on every device, with tiles that are small enough for a processor."""
    workload, config = workloads.get(name), {"NB": 0, "WGS": 32}
    monkeypatch.setattr(zeros, "point", lambda *_: _TILED[place].lowered(device.info))
    sizes = [{"n": 70, "k": 45}, {"n": 33, "k": 130}] if name == "syrk" else [{"m": 70, "n": 45}, {"m": 33, "n": 100}]
    rng = np.random.default_rng(new_seed(f"{name}{options}{place}"))
    for size in sizes:
        problem = workload.problem(size, "float32", options)
        plan = workload.plan(problem, config, replace(device.info, kind="gpu"))
        with monkeypatch.context() as patched:
            patched.setattr(type(workload), "plan", lambda *_, plan=plan: plan)
            verdict = check(device, workload, problem, config, rng)
        assert verdict.ok, f"{problem}: {verdict.message}"


_SQUARE = pipeline(4, (8, 8), (1, 1), 8, 2, 4)
_BOTH = (
    _SQUARE,
    replace(_SQUARE, DOUBLE=0, PAD=4),
    replace(_SQUARE, PACK_A=True, PACK_B=True),
    replace(_SQUARE, KEEP=True, STAGES=3, DOUBLE=1),
)


@pytest.mark.parametrize(("place", "uplo", "trans"), list(itertools.product(range(len(_BOTH)), "LU", "NT")))
def test_both_products_of_syr2k_at_once(device: Device, place: int, uplo: str, trans: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The plan that NVIDIA's GPUs get, without matrix units: tiles on the diagonal and beside it, whole ones and parts."""
    point, syr2k = _BOTH[place].lowered(device.info), workloads.get("syr2k")
    monkeypatch.setattr(zeros, "doubled", lambda called, *_: (point, doubled(called.sizes["n"], point.rows)))
    rng = np.random.default_rng(new_seed(f"{place}{uplo}{trans}"))
    config = {"JOIN": True, "NB": 0, "WGS": 32}
    for sizes in ({"n": 70, "k": 20}, {"n": 32, "k": 9}, {"n": 96, "k": 50}):
        problem = syr2k.problem(sizes, "float32", {"uplo": uplo, "trans": trans})
        plan = syr2k.plan(problem, config, replace(device.info, kind="gpu"))
        with monkeypatch.context() as patched:
            patched.setattr(type(syr2k), "plan", lambda *_, plan=plan: plan)
            verdict = check(device, syr2k, problem, config, rng)
        assert verdict.ok, f"{problem}: {verdict.message}"


@pytest.mark.parametrize("group", [32, 256])
@pytest.mark.parametrize(
    ("dtype", "mirror", "side", "uplo"),
    [*(("float32", "T", *ends) for ends in itertools.product("LR", "LU")), ("complex64", "C", "L", "U"), ("complex64", "R", "R", "L")],
)
def test_symm_expands_squares_of_a_triangle(
    device: Device, dtype: str, mirror: str, side: str, uplo: str, group: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel that GPUs get, on every device: even and odd numbers of squares, and parts of them."""
    monkeypatch.setattr("portatile.workloads.symm.reads_triangle", lambda *_: False)
    if group > device.info.max_work_group_size:
        pytest.skip("no such groups")
    symm = workloads.get("symm")
    rng = np.random.default_rng(new_seed(f"{dtype}{mirror}{side}{uplo}{group}"))
    for order in (1, 31, 64, 70, 97, 130):
        sizes = {"m": order, "n": 20} if side == "L" else {"m": 20, "n": order}
        problem = symm.problem(sizes, dtype, {"side": side, "uplo": uplo, "mirror": mirror})
        plan = symm.plan(problem, {"WGS": group}, replace(device.info, kind="gpu"))
        with monkeypatch.context() as patched:
            patched.setattr(type(symm), "plan", lambda *_, plan=plan: plan)
            verdict = check(device, symm, problem, {"WGS": group}, rng)
        assert verdict.ok, f"{problem}: {verdict.message}"
