"""A batch of orbitals as a problem that several devices may share: its description, its expected time, and the routines that take one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from portatile.arguments.axes import AXES
from portatile.device.base import Device
from portatile.errors import ArgumentError, UnknownNameError
from portatile.records import Problem, Value
from portatile.runtime.several_devices import forecast, rates, several, splits
from portatile.runtime.several_devices.splits import Split

ORBITALS = "orbitals"
SIZES = (ORBITALS, "n1", "n2", "n3")
ROUTINES: Mapping[str, str] = {
    **{name: f"orbitals by {bank} filters" for name, bank in (("magicfilter3d", "single"), ("analysis3d", "analysis"))},
    "synthesis3d": "orbitals by synthesis filters",
    **{name: f"orbitals {name}" for name in ("apply_potential", "density", "kinetic")},
    "potential_energy": "orbitals apply_potential",
}
"""The name under which rates and times of a routine's batches are kept."""
_FLOPS = 96  # flops per point: filters of 16 taps along three axes


def problem(what: str, shape: Sequence[int], dtype: str) -> Problem:
    """A batch of this shape; ``what`` is one of the values of ``ROUTINES``."""
    return Problem(what, dict(zip(SIZES, shape, strict=True)), dtype)


def task(batch: Problem, devices: Sequence[Device], own: Device | None, in_place: bool = False) -> forecast.Shared:
    """A batch that lies on the device ``own``, or on the host (None), there page-locked if ``in_place``. Its work is counted in points."""
    orbitals, *grid = batch.sizes.values()
    points = orbitals
    for n in grid:
        points *= n
    here = {device.info.id: forecast.LOCKED if in_place and not device.info.unified_memory else "" for device in devices}
    places = {device.info.id: here[device.info.id] if own is None else "local" if device is own else forecast.REMOTE for device in devices}

    def shown(device: Device) -> float:
        return rates.of(device.info, batch, points, places[device.info.id], least=points) or 0.0

    tiny = forecast.tiny(_FLOPS * points, places, [own])
    return forecast.Shared(
        batch, max(points, 1), places, forecast.together_of(devices, [own], in_place), shown, lambda: (orbitals, 1), tiny
    )


def explained(routine: str, dtype: str, devices: Sequence[Device], sizes: Mapping[str, Value]) -> Split:
    """How these devices shared such a batch the last time in this process, or how they are expected to share one that lies on the host.

    Raises UnknownNameError for an unknown size, ArgumentError for a missing one.
    """
    for name in sizes:
        if name not in SIZES:
            raise UnknownNameError(f"size of {routine}", name, SIZES)
    if missing := [name for name in SIZES if not isinstance(sizes.get(name), int)]:
        raise ArgumentError(f"{routine} of a batch needs the sizes {', '.join(SIZES)}; give {', '.join(missing)} as whole numbers")
    batch = problem(ROUTINES[routine], [int(sizes[name]) for name in SIZES], dtype)
    assert len(SIZES) == AXES + 1
    return splits.last(batch, devices) or _expected(devices, batch)


def _expected(devices: Sequence[Device], batch: Problem) -> Split:
    count = batch.sizes[ORBITALS]
    if count < len(devices):
        return Split(batch, "", 0.0, (), f"too few orbitals to share; {devices[0].info.id} computes them alone", True)
    devices, left_out = forecast.worthwhile(devices, task(batch, devices, None))
    shared = task(batch, devices, None)
    per_second = {device.info.id: shared.shown(device) * count / shared.work for device in devices}
    return several.expected_split(forecast.of(devices, shared), batch, (ORBITALS, count, 1), per_second, left_out)
