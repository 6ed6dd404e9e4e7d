"""Potentials, energies and densities of orbitals in Daubechies' basis on every device, against dense matrices of the filter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from portatile.device.base import Device
from portatile.device.buffer import Buffer
from portatile.errors import ArgumentError
from portatile.wavelets import MAGICFILTER, apply_potential, density, kinetic, magicfilter3d, pointwise, potential_energy
from support.orbitals import WAYS, giver, host
from support.seeds import new_seed

pytestmark = pytest.mark.thinned(1 / 3)  # what it computes is asked of PoCL for other cases every time

SHAPE = (9, 6, 7)
FREE = 15


def dense(n: int, boundary: str) -> NDArray[np.float64]:
    """The magic filter along one axis of n points."""
    rows = n + (FREE if boundary == "grow" else 0)
    matrix = np.zeros((rows, n))
    for row in range(rows):
        i = row - (MAGICFILTER.upper if boundary == "grow" else 0)
        for place in range(MAGICFILTER.lower, MAGICFILTER.upper + 1):
            column = (i + place) % n if boundary == "periodic" else i + place
            if 0 <= column < n:
                matrix[row, column] += MAGICFILTER(place)
    return matrix


def filtered(psi: NDArray[Any], boundaries: tuple[str, ...], transpose: bool = False) -> NDArray[Any]:
    """The dense filters along the last three axes; ``transpose`` takes the values back."""
    for axis, boundary in enumerate(boundaries, psi.ndim - 3):
        n = psi.shape[axis] - (FREE if transpose and boundary == "grow" else 0)
        matrix = dense(n, boundary).T if transpose else dense(n, boundary)
        psi = np.moveaxis(np.tensordot(matrix, psi, (1, axis)), 0, axis)
    return psi


@pytest.fixture(params=WAYS)
def given(request: pytest.FixtureRequest, device: Device, monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], Any]:
    """Arrays as a caller has them."""
    return giver(request.param, device, monkeypatch)


@pytest.mark.parametrize("boundaries", [("periodic",) * 3, ("grow",) * 3, ("periodic", "grow", "zero")])
def test_potential_energy_and_density(device: Device, given: Any, boundaries: tuple[Any, ...]) -> None:
    """A batch of orbitals, in one dtype for each kind of array."""
    rng = np.random.default_rng(new_seed(str(boundaries)))
    dtype = "float64" if device.info.fp64 else "float32"
    psi = rng.uniform(-1, 1, (3, *SHAPE)).astype(dtype)
    values = filtered(psi.astype(np.float64), boundaries)
    potential = rng.uniform(-1, 1, values.shape[1:]).astype(dtype)
    close = {"rtol": 0, "atol": 1e-12 if dtype == "float64" else 1e-4}
    name = device.info.id
    applied = host(apply_potential(given(psi), given(potential), boundary=boundaries, device=name))
    assert applied.shape == psi.shape
    assert np.allclose(applied, filtered(potential * values, boundaries, transpose=True), **close)
    assert np.allclose(host(magicfilter3d(given(psi), boundary=boundaries, device=name)), values, **close)
    energies = potential_energy(given(psi), given(potential), boundary=boundaries, device=name)
    assert np.allclose(energies, (potential * values**2).sum((1, 2, 3)), rtol=0, atol=100 * close["atol"])
    weights = [2.0, 0.5, 1.0]
    rho = host(density(given(psi), occupation=weights, boundary=boundaries, device=name))
    assert np.allclose(rho, np.tensordot(weights, values**2, 1), **close)


def test_one_orbital_is_a_batch_of_one(device: Device, given: Any) -> None:
    rng = np.random.default_rng(new_seed("one"))
    psi, potential = rng.uniform(-1, 1, SHAPE).astype(np.float32), rng.uniform(-1, 1, SHAPE).astype(np.float32)
    name = device.info.id
    one = host(apply_potential(given(psi), given(potential), device=name))
    batch = host(apply_potential(given(psi[None]), given(potential), device=name))
    assert one.shape == SHAPE
    assert np.array_equal(one, batch[0])
    assert potential_energy(given(psi), given(potential), device=name) == pytest.approx(np.vdot(psi, one), rel=1e-4)
    assert np.array_equal(host(density(given(psi), device=name)), host(density(given(psi[None]), device=name)))


def test_orbitals_of_a_buffer_take_one_plan_each(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch that begins in the middle of its memory; no array is made between the steps."""
    rng = np.random.default_rng(new_seed("plans"))
    psi, potential = rng.uniform(-1, 1, (3, *SHAPE)).astype(np.float32), rng.uniform(-1, 1, SHAPE).astype(np.float32)
    name = device.info.id
    there = Buffer.from_numpy(psi, device)[1:], Buffer.from_numpy(potential, device)
    with monkeypatch.context() as patched:
        for step in ("product", "add_square", "add"):
            patched.setattr(pointwise, step, None)
        at_once = [apply_potential(*there), density(there[0], occupation=[0.5, 2.0]), kinetic(there[0])]
        several = [apply_potential(there[0][1], there[1]), density(there[0][1]), kinetic(there[0][1])]
    expected = [apply_potential(psi[1:], potential, device=name), density(psi[1:], occupation=[0.5, 2.0], device=name)]
    expected += [kinetic(psi[1:], device=name), apply_potential(psi[2], potential, device=name), density(psi[2], device=name)]
    for found, right in zip([*at_once, *several], [*expected, kinetic(psi[2], device=name)], strict=True):
        assert np.allclose(found.numpy(), right, rtol=0, atol=1e-4)


def test_mistakes_are_told(device: Device) -> None:
    psi, name = np.zeros((2, *SHAPE)), device.info.id
    with pytest.raises(ArgumentError, match="of shape"):
        apply_potential(psi, np.zeros((9, 6, 8)), device=name)
    with pytest.raises(ArgumentError, match="of shape"):
        apply_potential(psi, np.zeros(SHAPE), boundary="grow", device=name)
    with pytest.raises(ArgumentError, match="float64"):
        apply_potential(psi, np.zeros(SHAPE, np.float32), device=name)
    with pytest.raises(ArgumentError, match="Buffer"):
        apply_potential(psi, Buffer.from_numpy(np.zeros(SHAPE), device), device=name)
    with pytest.raises(ArgumentError, match="batch"):
        apply_potential(psi[0, 0], np.zeros(SHAPE), device=name)
    with pytest.raises(ArgumentError, match="boundary"):
        apply_potential(psi, np.zeros(SHAPE), boundary="shrink", device=name)
    with pytest.raises(ArgumentError, match="without orbitals"):
        apply_potential(psi[:0], np.zeros(SHAPE), device=name)
    with pytest.raises(ArgumentError, match="occupations"):
        density(psi, occupation=[1.0], device=name)
    with pytest.raises(ArgumentError, match="masked array"):
        density(psi, occupation=np.ma.masked_less([1.0] * len(psi), 2.0), device=name)
