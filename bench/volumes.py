"""Filters of volumes and of batches of orbitals as a user calls them: the bytes that they move, and the same by SciPy and NumPy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from portatile import wavelets
from portatile.wavelets.filters import ANALYSIS, KINETIC, MAGICFILTER, SCALING, SYNTHESIS, SYNTHESIS_LOWER, Filter

Array = NDArray[Any]
Along = Callable[[Array, Any, int, int], Array]  # (x, taps, lower, axis): the sum of taps[t] x[i + lower + t], periodic
ORBITALS = 4
_SPACING = 0.4


@dataclass(frozen=True)
class Volume:
    """One function of ``portatile.wavelets``: ``call`` on arrays of the device, ``plain`` the same of NumPy arrays with another's filter.

    ``moves``: how often a point crosses the memory bus in axis-by-axis passes; ``multiplies``: multiply-adds for a point.
    """

    name: str
    moves: int
    multiplies: int
    call: Callable[..., Any]
    plain: Callable[[Along, Array, Array], Array]
    orbitals: int = 0
    potential: bool = False
    in_place: bool = False

    def shape(self, side: int) -> tuple[int, ...]:
        """Of what is filtered: one volume, or a batch of them."""
        return (self.orbitals,) * (self.orbitals > 0) + (side,) * 3


def _each_axis(along: Along, x: Array, taps: Filter) -> Array:
    for axis in (-3, -2, -1):
        x = along(x, taps.taps, taps.lower, axis)
    return x


def _magic(along: Along, x: Array, field: Array) -> Array:
    return _each_axis(along, x, MAGICFILTER)


def _potential(along: Along, x: Array, field: Array) -> Array:
    return _each_axis(along, field * _each_axis(along, x, MAGICFILTER), MAGICFILTER.transposed)


def _density(along: Along, x: Array, field: Array) -> Array:
    return (_each_axis(along, x, MAGICFILTER) ** 2).sum(0)


def _kinetic(along: Along, x: Array, field: Array) -> Array:
    taps = np.array(KINETIC.taps) * (-0.5 / _SPACING**2)
    return along(x, taps, KINETIC.lower, -3) + along(x, taps, KINETIC.lower, -2) + along(x, taps, KINETIC.lower, -1)


def _analysis(along: Along, x: Array, field: Array) -> Array:
    """Both filters at every point, of which half is kept: SciPy has no step."""
    for axis in (-3, -2, -1):
        kept = (slice(None),) * (x.ndim + axis) + (slice(None, None, 2),)
        x = np.concatenate([along(x, taps, SCALING.lower, axis)[kept] for taps in ANALYSIS], axis)
    return x


def _synthesis(along: Along, x: Array, field: Array) -> Array:
    for axis in (-3, -2, -1):
        pairs = np.stack(np.split(x, 2, axis), axis % x.ndim + 1).reshape(x.shape)  # c_0 d_0 c_1 d_1 ...
        rows = [slice(None)] * x.ndim
        out = np.empty_like(x)
        for first, taps in enumerate(SYNTHESIS):
            rows[axis] = slice(first, None, 2)
            kept = (slice(None),) * (x.ndim + axis) + (slice(None, None, 2),)
            out[tuple(rows)] = along(pairs, taps, SYNTHESIS_LOWER, axis)[kept]
        x = out
    return x


VOLUMES = {
    volume.name: volume
    for volume in (
        Volume("magicfilter3d", 6, 48, wavelets.magicfilter3d, _magic, in_place=True),
        Volume("analysis3d", 6, 48, wavelets.analysis3d, _analysis, in_place=True),
        Volume("synthesis3d", 6, 48, wavelets.synthesis3d, _synthesis, in_place=True),
        Volume("kinetic", 6, 87, lambda psi: wavelets.kinetic(psi, spacing=_SPACING), _kinetic),
        Volume("apply_potential", 15, 97, wavelets.apply_potential, _potential, ORBITALS, potential=True),
        Volume("density", 9, 49, wavelets.density, _density, ORBITALS),
    )
}
"""The magic filter and the transforms in three passes; a potential in six and a product; a density in three and a weighted square."""


def by_scipy(x: Array, taps: Any, lower: int, axis: int) -> Array:
    """``scipy.ndimage.convolve1d``, whose filters run the other way and begin where their origin says."""
    from scipy import ndimage

    flipped = np.asarray(taps, x.dtype)[::-1]
    found: Array = ndimage.convolve1d(x, flipped, axis=axis, mode="wrap", origin=lower + (len(flipped) - 1) // 2)
    return found


def by_numpy(x: Array, taps: Any, lower: int, axis: int) -> Array:
    """The definition, for small arrays."""
    return np.sum([tap * np.roll(x, -(lower + place), axis) for place, tap in enumerate(taps)], 0)


def right(volume: Volume, got: Array, x: Array, field: Array) -> bool:
    """Whether a result is what the definition gives, within rounding."""
    want = volume.plain(by_numpy, x.astype(np.float64), field.astype(np.float64))
    return bool(np.abs(got - want).max() <= 500 * np.finfo(x.dtype).eps * np.abs(want).max())
