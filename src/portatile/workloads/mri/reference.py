"""The float64 reference of the sums over k-space, with the scale of their rounding errors."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

_BLOCK = 2**20  # pairs of sample and voxel that are computed at a time


def image(
    vectors: Mapping[str, NDArray[np.float64]], voxels: NDArray[np.int64], additions: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Real and imaginary part (2 x voxels) at some voxels, and the scale of ``Mri.bound``.

    ``vectors`` holds kx, ky, kz, phi_r, phi_i, d_r, d_i, x, y, z; if d is empty the sums are those of Q, else of F^H d. ``additions``: the
    roundings of a sum, to which the three of a phase are related.
    """
    k = np.stack([vectors[name] for name in ("kx", "ky", "kz")], 1)
    r = np.stack([vectors[name] for name in ("x", "y", "z")])[:, voxels]
    phi = vectors["phi_r"] + 1j * vectors["phi_i"]
    data = vectors["d_r"] + 1j * vectors["d_i"] if vectors["d_r"].size else phi
    weight = np.conj(phi) * data
    magnitude = (np.abs(phi.real) + np.abs(phi.imag)) * (np.abs(data.real) + np.abs(data.imag))
    values = np.zeros(voxels.size, np.complex128)
    scale = np.zeros(voxels.size)
    step = max(_BLOCK // max(voxels.size, 1), 1)
    for first in range(0, len(k), step):
        block = slice(first, first + step)
        values += weight[block] @ np.exp(2j * np.pi * (k[block] @ r))
        scale += magnitude[block] @ (1 + 6 * np.pi / additions * (np.abs(k[block]) @ np.abs(r)))
    return np.stack([values.real, values.imag]), np.stack([scale, scale])
