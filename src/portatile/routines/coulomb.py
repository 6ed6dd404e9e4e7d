"""coulomb_potential: the potential of point charges on a regular grid, on NumPy arrays, Buffers and CUDA arrays."""

from __future__ import annotations

from collections.abc import Sequence
from operator import index
from typing import Any

import numpy as np

from portatile.arguments import checks, outputs
from portatile.arguments.host_tensors import taken
from portatile.arguments.matrices import Array, matrix, unknown
from portatile.device import Selector
from portatile.device.buffer import Buffer
from portatile.device.dlpack import packed
from portatile.errors import ArgumentError
from portatile.runtime.repeated.recorded import Planned, Recorder
from portatile.runtime.request import Request, RoutineCall

_SCALARS = ("x0", "y0", "z0", "dx", "dy", "dz")
_FIRST = {"y_first": 0.0, "z_first": 0.0}
_MOST = float(np.finfo(np.float32).max)
_SEQUENCES = (tuple, list, Sequence, np.ndarray)  # the usual types first: checking an abstract class takes longer


@taken
def coulomb_potential(
    atoms: Array,
    shape: Sequence[int],
    spacing: float | Sequence[float],
    origin: Sequence[float] = (0.0, 0.0, 0.0),
    *,
    out: Array | None = None,
    device: Selector | None = None,
) -> Array:
    """The sum of q / |r - r_n| over all atoms n at every point r of a regular grid, without a factor for units.

    - ``atoms`` is n x 4, float32, with a row x, y, z, q for each atom.
    - ``shape`` is (ny, nx) for a slice, (nz, ny, nx) for a volume. The result is float32 of that shape. It goes to ``out`` if given, which
      must be row-major.
    - The point at index 0 is ``origin`` (x, y, z). Neighbours are ``spacing`` apart: one number, or one each for x, y, z.
    - At a point on an atom the potential is an infinity with the sign of the charge, or NaN where IEEE arithmetic gives that.
    - ``device`` selects a device by id, name or vendor, or several as a list.

    Errors stay below (n + 320) 2^-24 of the sum of the terms' magnitudes at the points that are computed. For these, ``origin`` and
    ``spacing`` are rounded to float32, and each coordinate is the float32 number nearest to origin + index * spacing. The bound does not
    include the effect of this rounding, which moves a point by up to half a unit in the last place of its coordinate: put the origin of
    coordinates in the middle of the atoms. Distances from 2e-19 to 1e19 are supported. A nearer atom counts as lying on the point, and a
    farther one may give an infinity, because its squared distance leaves the range of float32: choose the unit of length accordingly.

    NumPy arrays may be larger than the device's memory. Then the grid is computed in slabs, with the same bits. Where not even the atoms
    fit, the host adds the potentials of parts of them in float32, which rounds in another order, within the same bound.

    Raises ArgumentError for arguments that do not fit together, DeviceNotFoundError for an unknown device, DeviceError where no slab is
    small enough.

    Examples:
        >>> import numpy as np, portatile
        >>> atoms = np.array([[0.0, 0.0, 2.0, 1.0]], np.float32)
        >>> round(float(portatile.coulomb_potential(atoms, (4, 4), 0.5)[0, 0]), 4)
        0.5
    """
    points = _shape(shape)
    nz, ny, nx = (1, *points) if len(points) == 2 else points
    single = type(spacing) is float or not isinstance(spacing, _SEQUENCES) or getattr(spacing, "ndim", 1) == 0
    steps = _numbers((spacing,) * 3 if single else spacing, "spacing")
    start = _numbers(origin, "origin")
    rows = None if out is None else _rows(out, points)
    potential = _RECORDER.call(_plan, (atoms,), (*start, *steps), (nx, ny, nz), rows, device)
    return _reshaped(potential, points) if out is None else out


def _plan(call: RoutineCall) -> Planned:
    """The request for the potential on the rows of a grid. Raises ArgumentError for what does not fit."""
    (atoms,), (nx, ny, nz) = call.arrays, call.options
    checks.check_single(atoms, "atoms")
    stored = matrix(atoms, "atoms")
    checks.check_single(stored.array, "atoms")
    columns = stored.rows if stored.transposed else stored.columns
    if columns != 4:
        raise ArgumentError(f"atoms has {columns} columns; it must be n x 4 (x, y, z, q)")
    if stored.transposed:
        raise ArgumentError("atoms is column-major; copy it, for example with numpy.ascontiguousarray(atoms)")
    rows = outputs.new(atoms, (nz * ny, nx)) if call.out is None else call.out
    target = matrix(rows, "out")
    checks.check_single(target.array, "out")
    if target.transposed:
        raise ArgumentError("out is column-major; it must be row-major")
    checks.check_writable(rows, "out")
    outputs.check_apart(target, stored, "atoms")
    scalars = {**dict(zip(_SCALARS, call.factors, strict=True)), **_FIRST}
    operands = stored, target.read_if(False)
    return Planned(rows, [Request("coulomb", (stored.rows, nx, ny, nz), (), operands, rows, call.device, scalars)])


def _shape(shape: Sequence[int]) -> tuple[int, ...]:
    try:
        points = tuple(map(index, shape)) if isinstance(shape, _SEQUENCES) and getattr(shape, "ndim", 1) == 1 else ()
    except TypeError:  # not an integer
        points = ()
    if len(points) not in (2, 3) or min(points) < 0:
        raise ArgumentError(f"shape={shape!r} must be (ny, nx) or (nz, ny, nx), with non-negative integers")
    return points


def _numbers(values: Any, name: str) -> tuple[float, float, float]:
    try:
        x, y, z = map(float, values)
        if -_MOST <= x <= _MOST and -_MOST <= y <= _MOST and -_MOST <= z <= _MOST:
            return x, y, z
    except (TypeError, ValueError):  # not a number, or not three
        pass
    raise ArgumentError(f"{name}={values!r} must be three finite numbers, for x, y and z, in the range of float32")


def _rows(out: Any, points: tuple[int, ...]) -> Any:
    """``out`` as a matrix of its rows, in the same memory."""
    if not hasattr(out, "shape"):
        raise unknown(out, "out")
    if tuple(out.shape) != points:
        raise ArgumentError(f"out has shape {tuple(out.shape)}; it must have shape {points}")
    if len(points) == 2:
        return out
    contiguous = out.flags.c_contiguous if isinstance(out, np.ndarray) else _contiguous(Buffer.wrap(out))
    if not contiguous:
        raise ArgumentError("out has gaps or another order in memory; it must be contiguous, row-major")
    return _reshaped(out, (points[0] * points[1], points[2]))


def _contiguous(buffer: Buffer) -> bool:
    return buffer.size == 0 or buffer.strides == packed(buffer.shape, buffer.dtype.itemsize)


def _reshaped(array: Any, shape: tuple[int, ...]) -> Any:
    """A contiguous array with another shape, in the same memory."""
    if array.shape == shape:
        return array
    if isinstance(array, Buffer):
        return Buffer.over(array.memory, shape, array.dtype, packed(shape, array.dtype.itemsize), array.offset)
    return array.reshape(shape)


_RECORDER = Recorder(_SCALARS)
