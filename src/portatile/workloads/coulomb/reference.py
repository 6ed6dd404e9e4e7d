"""The float64 reference of the Coulomb potential at float32 grid coordinates."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

_BLOCK = 2**20  # pairs of atom and point that are computed at a time


def coordinates(index: NDArray[np.int64], origin: float, spacing: float) -> NDArray[np.float64]:
    """The float32 nearest to ``origin + index * spacing``, both float32: the result of a fused multiply-add.

    Float64 rounds the sum a first time. If that produces a tie for float32, the lost part tells to which side the exact sum lies.
    """
    product = index.astype(np.float64) * np.float64(np.float32(spacing))  # exact: 24 and 24 bits
    start = np.float64(np.float32(origin))
    total = product + start
    back = total - product
    lost = (product - (total - back)) + (start - back)  # Knuth's exact error of the sum
    even = (total.view(np.int64) & 1) == 0
    odd = np.where((lost != 0) & even, np.nextafter(total, np.copysign(np.inf, lost)), total)
    return odd.astype(np.float32).astype(np.float64)


def potential(
    atoms: NDArray[np.float64], points: Sequence[NDArray[np.int64]], grid: Sequence[float]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The sums of q / r and of |q| / r, as rows x columns.

    ``points``: the indices of the columns along x, and of the rows along y and z. ``grid``: x0, y0, z0, dx, dy, dz.
    """
    x, y, z = (coordinates(index, grid[axis], grid[axis + 3]) for axis, index in enumerate(points))
    values = np.zeros((y.size, x.size))
    scale = np.zeros_like(values)
    step = max(_BLOCK // max(values.size, 1), 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        for first in range(0, len(atoms), step):
            block = atoms[first : first + step, :, None]
            across = (y - block[:, 1]) ** 2 + (z - block[:, 2]) ** 2
            terms = block[:, 3, :, None] / np.sqrt((x - block[:, 0])[:, None, :] ** 2 + across[:, :, None])
            values += terms.sum(0)
            scale += np.abs(terms).sum(0)
    return values, scale
