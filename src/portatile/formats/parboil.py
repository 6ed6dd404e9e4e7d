"""Parboil's files for MRI-Q and MRI-FHD: k-space samples with voxels as input, real and imaginary images as output.

Both are little-endian without padding. Input: int32 samples, int32 voxels, then float32 kx, ky, kz of the samples, x, y, z of the
voxels, phi_r, phi_i of the samples, and for FHD d_r, d_i of the samples. Output: uint32 voxels, then float32 real and imaginary parts.
"""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from portatile.errors import ArgumentError

Vector = NDArray[np.float32]
_HEADER = np.dtype("<i4")
_COUNT = np.dtype("<u4")
_REAL = np.dtype("<f4")


@dataclass(frozen=True)
class MriData:
    """Samples of k-space (kx, ky, kz in cycles per unit of length; phi; d, only for FHD) and voxel coordinates x, y, z.

    All are float32 vectors: x, y, z over the voxels, the others over the samples. ``mri_q`` and ``mri_fhd`` compute with them.
    """

    kx: Vector
    ky: Vector
    kz: Vector
    x: Vector
    y: Vector
    z: Vector
    phi_r: Vector
    phi_i: Vector
    d_r: Vector | None = None
    d_i: Vector | None = None


def read_mri(path: str | PathLike[str]) -> MriData:
    """An input file of MRI-Q, or of MRI-FHD if it holds d; raises ArgumentError if it is neither."""
    raw = Path(path).read_bytes()
    header = np.frombuffer(raw, _HEADER, 2) if len(raw) >= 8 else np.zeros(2, np.int32) - 1
    samples, voxels = int(header[0]), int(header[1])
    floats = {3 * voxels + n * samples: n for n in (7, 5)}
    if min(samples, voxels) < 0 or len(raw) % 4 or (len(raw) - 8) // 4 not in floats:
        raise ArgumentError(
            f"{path} is not an input of Parboil's MRI: {samples} samples and {voxels} voxels would be "
            f"{8 + 4 * (3 * voxels + 5 * samples)} bytes, or {8 + 4 * (3 * voxels + 7 * samples)} with d, and it has {len(raw)}"
        )
    counts = [samples] * 3 + [voxels] * 3 + [samples] * (floats[(len(raw) - 8) // 4] - 3)
    body = np.frombuffer(raw, _REAL, offset=8).astype(np.float32)
    return MriData(*np.split(body, np.cumsum(counts)[:-1]))


def write_mri(path: str | PathLike[str], data: MriData) -> None:
    """Write an input file, of MRI-FHD if ``data`` has d; raises ArgumentError if its vectors do not fit together."""
    samples, voxels = len(data.kx), len(data.x)
    if (data.d_r is None) != (data.d_i is None):
        raise ArgumentError("d has a real and an imaginary part; give both d_r and d_i, or neither")
    vectors = [data.kx, data.ky, data.kz, data.x, data.y, data.z, data.phi_r, data.phi_i]
    counts = [samples] * 3 + [voxels] * 3 + [samples] * 2
    if data.d_r is not None and data.d_i is not None:
        vectors, counts = [*vectors, data.d_r, data.d_i], [*counts, samples, samples]
    wrong = next((vector for vector, count in zip(vectors, counts, strict=True) if np.shape(vector) != (count,)), None)
    if wrong is not None:
        raise ArgumentError(f"a vector has shape {np.shape(wrong)}; samples have {(samples,)} like kx, voxels {(voxels,)} like x")
    header = np.array([samples, voxels], _HEADER).tobytes()
    Path(path).write_bytes(header + b"".join(np.asarray(vector, _REAL).tobytes() for vector in vectors))


def read_image(path: str | PathLike[str]) -> tuple[Vector, Vector]:
    """Real and imaginary part from an output file; raises ArgumentError if it is not one."""
    raw = Path(path).read_bytes()
    voxels = int(np.frombuffer(raw, _COUNT, 1)[0]) if len(raw) >= 4 else 0
    if len(raw) != 4 + 8 * voxels:
        raise ArgumentError(
            f"{path} is not an output of Parboil's MRI: {voxels} voxels would be {4 + 8 * voxels} bytes, and it has {len(raw)}"
        )
    real, imaginary = np.frombuffer(raw, _REAL, offset=4).astype(np.float32).reshape(2, voxels)
    return real, imaginary


def write_image(path: str | PathLike[str], real: Vector, imaginary: Vector) -> None:
    """Write an output file from two vectors of the same length; raises ArgumentError for others."""
    if np.ndim(real) != 1 or np.shape(real) != np.shape(imaginary):
        raise ArgumentError(f"the parts have shapes {np.shape(real)} and {np.shape(imaginary)}; they must be vectors of the same length")
    parts = [np.asarray(part, _REAL).tobytes() for part in (real, imaginary)]
    Path(path).write_bytes(np.array([len(real)], _COUNT).tobytes() + b"".join(parts))
