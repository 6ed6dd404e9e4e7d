"""Sums of filters along axes on every device: each form and boundary, taps before, around and behind the point, padded rows, SciPy."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy import ndimage

from portatile import wavelets, workloads
from portatile.device.base import Device
from portatile.device.buffer import Buffer
from portatile.errors import ArgumentError
from portatile.records import Config, Value
from portatile.runtime.one_device.memory_limit import memory_limit
from portatile.wavelets import KINETIC, axis_sums
from portatile.workloads import operands
from support.checking import check, maybe
from support.seeds import new_seed

pytestmark = [pytest.mark.thinned(1 / 3), pytest.mark.unoptimised]

WORKLOAD = workloads.get("stencil")
MARCH: Config = {"FORM": "march", "T1": 16, "T2": 32, "WINDOW": 4, "VECTOR": 1, "RESIDENT": 0}
FORMS: dict[str, Config] = {
    "march": MARCH,
    "march by eight": {**MARCH, "T1": 32, "T2": 64, "WINDOW": 8},
    "vectors": {"FORM": "vectors", "T1": 4, "T2": 16, "WINDOW": 2, "VECTOR": 4, "RESIDENT": 0},
}
REACHES = [(29, -14), (1, 0), (3, -1), (4, -9), (5, 2)]
"""Taps and the place of the first: those of the kinetic operator, the point alone, around it, before it, behind it."""


@pytest.mark.parametrize(("taps", "lower"), REACHES)
@pytest.mark.parametrize("form", FORMS)
def test_forms_and_reaches(device: Device, form: str, taps: int, lower: int) -> None:
    """With two axes and three, and boundaries drawn for each axis; more rows and planes than one work-group's, and gaps between rows."""
    maybe(device)
    rng = np.random.default_rng(new_seed(f"{form} {taps} from {lower}"))
    for axes, shape in product((2, 3), ((20, 37, 70), (67, 5, 33))):
        kinds: dict[str, Value] = {f"boundary{axis}": ("periodic", "zero")[int(rng.integers(2))] for axis in (1, 2, 3)}
        sizes = dict(zip(WORKLOAD.sizes, shape, strict=True))
        bare = WORKLOAD.problem(sizes, "float32", {"axes": axes, "taps": taps, "lower": lower, **kinds})
        gaps = {name: operands.padded(whole, int(rng.integers(3)), 3) for name, whole in WORKLOAD.shapes(bare).items()}
        problem = WORKLOAD.problem(sizes, "float32", bare.options, gaps)
        if form == "vectors" and device.info.kind != "cpu":
            pytest.skip("a GPU's items have no such private memory")  # the other form is slow on a CPU, and as right
        verdict = check(device, WORKLOAD, problem, FORMS[form], rng)
        assert verdict.ok, f"{verdict.message}\n{problem}"


@pytest.mark.parametrize("boundary", [("periodic", "zero"), ("zero", "periodic")])
def test_a_plane_as_scipy_has_it(device: Device, boundary: tuple[Any, Any]) -> None:
    """NumPy arrays, Buffers, one that begins within its memory."""
    psi = np.random.default_rng(new_seed("plane")).uniform(-1, 1, (3, 45, 31)).astype(np.float32)
    modes, steps = {"periodic": "wrap", "zero": "constant"}, (0.5, 0.7)
    expected = sum(
        ndimage.correlate1d(psi[1].astype(np.float64), np.array(KINETIC.taps) * (-0.5 / step**2), axis, mode=modes[kind])
        for axis, (step, kind) in enumerate(zip(steps, boundary, strict=True))
    )
    name = device.info.id
    there = Buffer.from_numpy(psi, device)
    result = wavelets.kinetic(psi[1], spacing=steps, boundary=boundary, device=name)
    assert np.allclose(result, expected, rtol=0, atol=1e-4)
    assert np.array_equal(wavelets.kinetic(there[1], spacing=steps, boundary=boundary).numpy(), result)
    assert np.array_equal(wavelets.kinetic(psi[1].T.copy().T, spacing=steps, boundary=boundary, device=name), result)
    with pytest.raises(ArgumentError, match="not C-contiguous"):
        wavelets.kinetic(there[1].T)


def test_what_is_too_large_takes_passes(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once the limit is less than the array and its result; in one piece no pass is asked for."""
    passes: list[str] = []
    by_passes = axis_sums._by_passes
    monkeypatch.setattr(axis_sums, "_by_passes", lambda *given: passes.append("asked") or by_passes(*given))
    psi = np.random.default_rng(new_seed("limit")).uniform(-1, 1, (24, 20, 28)).astype(np.float32)
    whole = wavelets.kinetic(psi, device=device.info.id)
    assert not passes
    with memory_limit(psi.nbytes):
        assert np.allclose(wavelets.kinetic(psi, device=device.info.id), whole, rtol=0, atol=1e-4)
    assert passes


def test_nothing_of_nothing(device: Device) -> None:
    for shape in ((0, 4, 4), (4, 0, 4), (4, 4, 0)):
        there = Buffer.empty(shape, np.float32, device)
        assert wavelets.kinetic(there).shape == wavelets.kinetic(np.empty(shape, np.float32), device=device.info.id).shape == shape
