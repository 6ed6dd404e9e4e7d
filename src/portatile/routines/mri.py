"""mri_q and mri_fhd: sums over k-space samples for every voxel, on NumPy arrays, Buffers and CUDA arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from portatile.arguments import checks, outputs
from portatile.arguments.matrices import Array, Matrix, known, matrix, unknown
from portatile.device import Selector
from portatile.errors import ArgumentError
from portatile.runtime.repeated.recorded import Planned, Recorder
from portatile.runtime.request import Request, RoutineCall


def mri_q(
    kx: Array,
    ky: Array,
    kz: Array,
    phi_r: Array,
    phi_i: Array,
    x: Array,
    y: Array,
    z: Array,
    *,
    device: Selector | None = None,
) -> tuple[Array, Array]:
    """(Q_r, Q_i): the sum over samples of (phi_r^2 + phi_i^2) exp(2 pi i (kx x + ky y + kz z)) at every voxel.

    - ``kx``, ``ky``, ``kz`` (cycles per unit of length), ``phi_r`` and ``phi_i`` are vectors over the samples.
    - ``x``, ``y`` and ``z`` (units of length) are vectors over the voxels, and so are the two results.
    - All are float32, of any positive stride. ``device`` selects a device by id, name or vendor, or several as a list.

    NumPy arrays may be larger than the device's memory. Then voxels are computed in slabs, with the same bits. Where not even the samples
    fit, the host adds the sums over parts of them in float32, which rounds in another order, within the same error bound.

    Raises ArgumentError for vectors that do not fit together, DeviceNotFoundError for an unknown device, DeviceError where no slab is small
    enough.

    Examples:
        >>> import numpy as np, portatile
        >>> one, quarter = np.ones(1, np.float32), np.full(1, 0.25, np.float32)
        >>> q_r, q_i = portatile.mri_q(one, one, one, 2 * one, one, quarter, 0 * one, 0 * one)
        >>> round(float(q_i[0]), 4)
        5.0
    """
    samples = {"kx": kx, "ky": ky, "kz": kz, "phi_r": phi_r, "phi_i": phi_i}
    return _sums("q", samples, {"x": x, "y": y, "z": z}, device)


def mri_fhd(
    kx: Array,
    ky: Array,
    kz: Array,
    phi_r: Array,
    phi_i: Array,
    x: Array,
    y: Array,
    z: Array,
    d_r: Array,
    d_i: Array,
    *,
    device: Selector | None = None,
) -> tuple[Array, Array]:
    """(F_r, F_i): the sum over samples of conj(phi) d exp(2 pi i (kx x + ky y + kz z)) at every voxel, F^H d.

    As ``mri_q``, with the data ``d_r`` and ``d_i``, float32 vectors over the samples; if d equals phi, the result is Q. Errors are the
    same, too.

    Examples:
        >>> import numpy as np, portatile
        >>> one = np.ones(1, np.float32)
        >>> f_r, f_i = portatile.mri_fhd(one, one, one, one, one, one, one, one, 3 * one, 4 * one)
        >>> round(float(f_r[0]), 3), round(float(f_i[0]), 3)
        (7.0, 1.0)
    """
    samples = {"kx": kx, "ky": ky, "kz": kz, "phi_r": phi_r, "phi_i": phi_i, "d_r": d_r, "d_i": d_i}
    return _sums("fhd", samples, {"x": x, "y": y, "z": z}, device)


_SAMPLES = ("kx", "ky", "kz", "phi_r", "phi_i", "d_r", "d_i")
_VOXELS = ("x", "y", "z")


def _sums(kind: str, samples: dict[str, Array], voxels: dict[str, Array], device: Selector | None) -> tuple[Array, Array]:
    image: Any = _RECORDER.call(_plan, (*samples.values(), *voxels.values()), (), (kind,), None, device)
    return image[0], image[1]


def _plan(call: RoutineCall) -> Planned:
    """The request for the sums, whose two parts are the rows of an image. Raises ArgumentError for what does not fit."""
    (kind,) = call.options
    names = *_SAMPLES[: len(call.arrays) - len(_VOXELS)], *_VOXELS
    stored = {name: _vector(array, name) for name, array in zip(names, call.arrays, strict=True)}
    for group, first in ((_SAMPLES, "kx"), (_VOXELS, "x")):
        for name in group:
            if name in stored and stored[name].rows != stored[first].rows:
                raise ArgumentError(
                    f"{name} has {stored[name].rows} elements and {first} has {stored[first].rows}; they must have equally many"
                )
    count, size = stored["kx"].rows, stored["x"].rows
    image: Any = outputs.new(call.arrays[-len(_VOXELS)], (2, size))
    if kind == "q":  # the weights depend on phi alone: d is not read
        stored |= {name: stored["phi_r"]._replace(array=stored["phi_r"].array[:0], rows=0, read=False) for name in ("d_r", "d_i")}
    operands = *(stored[name] for name in (*_SAMPLES, *_VOXELS)), matrix(image, "image").read_if(False)
    return Planned(image, [Request("mri", (count, size), (kind,), operands, image, call.device)])


def _vector(array: Any, name: str) -> Matrix:
    """A vector as a matrix of one column, whose rows are the vector's stride apart."""
    if not known(array):
        raise unknown(array, name)
    if len(array.shape) != 1:
        raise ArgumentError(f"{name} has shape {tuple(array.shape)}; it must be a vector")
    checks.check_single(array, name)
    if isinstance(array, np.ndarray) and array.size > 1 and array.strides[0] < array.itemsize:
        raise ArgumentError(
            f"{name} has a stride of {array.strides[0]} bytes; its elements must not overlap, and be in ascending order: "
            f"copy it, for example with numpy.ascontiguousarray({name})"
        )
    column = matrix(array[:, None], name)
    checks.check_single(column.array, name)
    return column


_RECORDER = Recorder(())
