"""Wavelet transforms and the kinetic operator of volumes on every device: each boundary on each axis, batches, and what undoes what."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import ndimage

from portatile.device.base import Device
from portatile.device.buffer import Buffer
from portatile.errors import ArgumentError
from portatile.wavelets import KINETIC, analysis, analysis3d, kinetic, synthesis, synthesis3d
from support.orbitals import WAYS, giver, host
from support.seeds import new_seed

pytestmark = [pytest.mark.thinned(1 / 3), pytest.mark.unoptimised]

KINDS = ("periodic", "grow", "shrink")
OTHER = {"periodic": "periodic", "grow": "shrink", "shrink": "grow"}
SHAPE = (16, 22, 18)
STEPS = (0.5, 1.0, 2.0)


@pytest.fixture
def dtype(device: Device) -> str:
    return "float64" if device.info.fp64 else "float32"


def within(dtype: str) -> float:
    """The relative error that is allowed, in norms."""
    return 1e-13 if dtype == "float64" else 1e-5


def near(got: NDArray[Any], expected: NDArray[Any], dtype: str) -> bool:
    return got.shape == expected.shape and bool(np.linalg.norm(got - expected) <= within(dtype) * np.linalg.norm(expected))


@pytest.fixture(params=WAYS)
def given(request: pytest.FixtureRequest, device: Device, monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], Any]:
    """Arrays as a caller has them."""
    return giver(request.param, device, monkeypatch)


def matrix(n: int, boundary: str, dtype: str, device: str) -> NDArray[Any]:
    """What ``analysis`` does along an axis of n points."""
    return analysis(np.eye(n, dtype=dtype), boundary=boundary, device=device)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", KINDS)
def test_one_axis_and_its_inverse(device: Device, dtype: str, kind: Any) -> None:
    """Synthesis is the transpose of analysis with the other boundary, to the bit, and undoes what loses nothing."""
    forward = matrix(46, kind, dtype, device.info.id)
    back = synthesis(np.eye(forward.shape[0], dtype=dtype), boundary=OTHER[kind], device=device.info.id)  # type: ignore[arg-type]
    assert np.array_equal(back, forward.T)
    rows, columns = forward.shape
    unit = forward @ back if kind == "shrink" else back @ forward
    assert near(unit, np.eye(min(rows, columns)), dtype)
    kept = synthesis(np.eye(rows, dtype=dtype), boundary=OTHER[kind], transposed=True, device=device.info.id)  # type: ignore[arg-type]
    assert np.array_equal(kept, back.T)


@pytest.mark.parametrize("boundaries", [case for case in product(KINDS, repeat=3) if "shrink" not in case])
def test_synthesis_undoes_analysis(device: Device, dtype: str, boundaries: Any) -> None:
    """Periodic, free and semi-periodic volumes; and analysis that shrinks undoes synthesis that grows."""
    x = np.random.default_rng(new_seed(str(boundaries))).uniform(-1, 1, SHAPE).astype(dtype)
    back = tuple(OTHER[kind] for kind in boundaries)
    there = analysis3d(x, boundary=boundaries, device=device.info.id)
    assert there.shape == tuple(n + 14 * (kind == "grow") for n, kind in zip(SHAPE, boundaries, strict=True))
    assert near(np.linalg.norm(there, keepdims=True), np.linalg.norm(x, keepdims=True), dtype)
    assert near(synthesis3d(there, boundary=back, device=device.info.id), x, dtype)
    values = synthesis3d(x, boundary=boundaries, device=device.info.id)
    assert values.shape == there.shape
    assert near(analysis3d(values, boundary=back, device=device.info.id), x, dtype)


@pytest.mark.parametrize("boundaries", [("grow", "periodic", "shrink"), ("shrink", "shrink", "periodic"), ("periodic", "grow", "grow")])
def test_volumes_are_axis_by_axis(device: Device, dtype: str, given: Any, boundaries: Any) -> None:
    """Of one orbital and of a batch; the transpose of either transform is the other one."""
    rng = np.random.default_rng(new_seed(str(boundaries)))
    x = rng.uniform(-1, 1, (2, *SHAPE)).astype(dtype)
    matrices = [matrix(n, kind, dtype, device.info.id) for n, kind in zip(SHAPE, boundaries, strict=True)]
    expected = np.einsum("ai,bj,ck,oijk->oabc", *matrices, x, optimize=True)
    there = host(analysis3d(given(x), boundary=boundaries, device=device.info.id))
    assert near(there, expected, dtype)
    assert np.array_equal(host(analysis3d(given(x[1]), boundary=boundaries, device=device.info.id)), there[1])
    y = rng.uniform(-1, 1, there.shape).astype(dtype)
    adjoint = host(synthesis3d(given(y), boundary=tuple(OTHER[kind] for kind in boundaries), device=device.info.id))
    assert adjoint.shape == x.shape
    norms = np.linalg.norm(x) * np.linalg.norm(y)
    assert abs(np.vdot(there, y) - np.vdot(x, adjoint)) <= within(dtype) * norms


def test_into_a_buffer(device: Device, dtype: str) -> None:
    x = np.random.default_rng(new_seed("out")).uniform(-1, 1, (8, 6, 10)).astype(dtype)
    there = Buffer.from_numpy(x, device)
    result, back = Buffer.empty((22, 6, 24), dtype, device), Buffer.empty(x.shape, dtype, device)
    assert analysis3d(there, boundary=("grow", "wrap", "grow"), out=result) is result
    assert synthesis3d(result, boundary=("shrink", "grid-wrap", "shrink"), out=back) is back
    assert near(back.numpy(), x, dtype)
    with pytest.raises(ArgumentError, match="not of a batch"):
        analysis3d(Buffer.empty((2, 4, 4, 4), dtype, device), out=result)


@pytest.mark.parametrize("boundaries", [("periodic",) * 3, ("periodic", "zero", "periodic"), ("zero", "periodic", "zero")])
def test_kinetic_energy_of_a_batch(device: Device, dtype: str, given: Any, boundaries: Any) -> None:
    """Each orbital by itself, on periodic, semi-periodic and isolated grids of different spacings."""
    psi = np.random.default_rng(new_seed(str(boundaries))).uniform(-1, 1, (4, 16, 15, 17)).astype(dtype)
    modes = {"periodic": "wrap", "zero": "constant"}
    expected = np.zeros(psi.shape)
    for axis, (step, kind) in enumerate(zip(STEPS, boundaries, strict=True), 1):
        expected += ndimage.correlate1d(psi.astype(np.float64), np.array(KINETIC.taps) * (-0.5 / step**2), axis, mode=modes[kind])
    result = host(kinetic(given(psi), spacing=STEPS, boundary=boundaries, device=device.info.id))
    assert result.dtype == psi.dtype
    assert near(result, expected, dtype)
    alone = host(kinetic(given(psi[2]), spacing=STEPS, boundary=boundaries, device=device.info.id))
    assert np.array_equal(alone, result[2])
    same = host(kinetic(given(psi[2]), spacing=STEPS, boundary=[modes[kind] for kind in boundaries], device=device.info.id))
    assert np.array_equal(same, alone)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: kinetic(x, boundary=("periodic", "zero")), "2 boundaries for 3 axes"),
        (lambda x: kinetic(x, boundary=("periodic", "zero", "grow")), "keeps the size"),
        (lambda x: kinetic(x, boundary="reflect"), "is not one of periodic"),
        (lambda x: kinetic(x[None], spacing=(1.0,) * 4), "one for each of 3 axes"),
        (lambda x: kinetic(x[None, None]), "a batch of orbitals"),
        (lambda x: kinetic(x[:0][None][:0]), "without orbitals"),
        (lambda x: kinetic(x.tolist()), "psi is a list"),
        (lambda x: analysis3d(x, boundary="zero"), "the wavelet transform takes periodic"),
        (lambda x: synthesis3d(x, boundary=("grow", "periodic", "constant")), "the wavelet transform takes periodic"),
        (lambda x: analysis3d(x[:, :3]), "must be even"),
        (lambda x: synthesis3d(x, boundary="shrink"), "too few"),
        (lambda x: analysis3d(x[0]), "3 dimensions"),
    ],
)
def test_mistakes_are_told(call: Callable[[Any], object], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        call(np.ones((4, 4, 4), np.float32))
