"""Sums whose terms exceed the memory they may take: their parts are added up, to the same value within the bound."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import portatile
from portatile.device.base import Device
from portatile.runtime import perform
from portatile.runtime.in_parts import slabs
from support.seeds import new_seed
from support.slabs import Case, Meter, compared

pytestmark = [pytest.mark.thinned(1 / 3), pytest.mark.unoptimised]


@pytest.fixture(autouse=True)
def nothing_remembered() -> Iterator[None]:
    perform.forget()
    yield
    perform.forget()


def many_atoms(rng: np.random.Generator, device: str) -> np.ndarray:
    return portatile.coulomb_potential(rng.random((60_000, 4), np.float32), (41, 53), 0.0437, (0.31, -0.2, 1.5), device=device)


def many_atoms_in_a_table(rng: np.random.Generator, device: str) -> np.ndarray:
    """Atoms whose rows have gaps, and planes that are too large for the memory that the atoms leave."""
    atoms = rng.random((9001, 7), np.float32)[:, 1:5]
    return portatile.coulomb_potential(atoms, (2, 90, 301), (0.1, 0.037, 0.0711), (0.3, 0.2, -1.5), device=device)


def many_samples(rng: np.random.Generator, device: str) -> np.ndarray:
    samples, voxels = rng.random((5, 60_000), np.float32), rng.random((3, 1003), np.float32)
    return np.stack(portatile.mri_q(*samples, *voxels, device=device))


def many_strided_samples(rng: np.random.Generator, device: str) -> np.ndarray:
    samples, voxels = rng.random((60_001, 7), np.float32).T, rng.random((3, 1003), np.float32)
    return np.stack(portatile.mri_fhd(*samples[:5], *voxels, *samples[5:], device=device))


# Limit; and the sum of the terms' magnitudes: charges over distances of 1 to 3, products of two weights of 1/2 or 1/3 on average.
MANY: dict[Case, tuple[int, float]] = {
    many_atoms: (500_000, 60_000 / 3),
    many_atoms_in_a_table: (100_000, 9001 / 4),
    many_samples: (500_000, 60_000 / 3),
    many_strided_samples: (500_000, 60_000 / 4),
}


@pytest.mark.parametrize("case", MANY, ids=lambda case: case.__name__)
def test_sums_are_cut_where_nothing_else_helps(device: Device, case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """Atoms or samples that take more than the limit: their parts are added up, which rounds differently, within the bound.

    That is 60 000 2^-24 = 3.6e-3 of the terms' magnitudes; sums rounded in two orders differ by far less.
    """
    seed, (limit, magnitude) = new_seed(case.__name__), MANY[case]
    whole = case(np.random.default_rng(seed), device.info.id)
    perform.forget()
    meter = Meter(device, monkeypatch)
    with portatile.memory_limit(limit):
        cut = case(np.random.default_rng(seed), device.info.id)
    assert meter.slabs >= 2
    assert 0 < meter.most <= limit
    assert cut.shape == whole.shape
    assert np.abs(cut - whole).max() <= 1e-4 * magnitude


def test_sums_stay_whole_where_another_cut_is_enough(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """Atoms that leave a slab of a few rows: the bits of the whole."""
    added: list[object] = []
    monkeypatch.setattr(slabs, "_terms", lambda *given: added.append(given))

    def atoms(rng: np.random.Generator, selector: str) -> np.ndarray:
        return portatile.coulomb_potential(rng.random((6000, 4), np.float32), (201, 53), 0.0437, (0.31, -0.2, 1.5), device=selector)

    compared(device, atoms, 120_000, monkeypatch)
    assert not added


def test_infinities_of_two_parts_meet(device: Device) -> None:
    """A positive and a negative charge on one point, in different parts: NaN, as in one piece; infinities elsewhere, and no warning."""
    atoms = np.zeros((3000, 4), np.float32)
    atoms[:, 2], atoms[:, 3] = 5, 1
    atoms[0], atoms[1], atoms[-1] = (1, 1, 0, 1), (2, 1, 0, 1), (1, 1, 0, -1)
    with portatile.memory_limit(20_000):
        result = portatile.coulomb_potential(atoms, (4, 4), 1.0, device=device.info.id)
    assert np.isnan(result[1, 1])
    assert result[1, 2] == np.inf
    assert np.isfinite(result).sum() == 14
