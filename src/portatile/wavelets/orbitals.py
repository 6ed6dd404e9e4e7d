"""BigDFT's operations on orbitals in Daubechies' basis: potential, kinetic operator, density."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from portatile.arguments import checks, foreign
from portatile.arguments.axes import AXES, Boundary, described, kinds, numbers
from portatile.arguments.host_tensors import taken
from portatile.arguments.matrices import Array
from portatile.device import Selector
from portatile.device.buffer import Buffer
from portatile.device.masked_arrays import refuse_masks
from portatile.errors import ArgumentError
from portatile.wavelets import axis_sums, batch, on_grid, pointwise
from portatile.wavelets.filters import KINETIC, MAGICFILTER, Filter
from portatile.wavelets.flow import Into
from portatile.wavelets.over_devices import over_devices
from portatile.wavelets.transforms import magicfilter3d


@taken
def apply_potential(
    psi: Array, potential: Array, *, boundary: Boundary | Sequence[Boundary] = "periodic", device: Selector | None = None
) -> Array:
    """The local potential in Daubechies' basis: the magic filter along three axes, times ``potential``, the transposed filter.

    ``psi`` is one orbital (n1, n2, n3) or a batch (orbitals, n1, n2, n3). ``potential`` is given on the points that the filter produces: n
    along a ``periodic`` or ``zero`` axis, and n + 15 along a free one (``grow``). Arrays are NumPy arrays, or Buffers or CUDA arrays of one
    device; the result has the shape and library of ``psi``. Raises ArgumentError for what does not fit.

    Examples:
        >>> import numpy as np
        >>> from portatile.wavelets import apply_potential
        >>> psi = np.ones((2, 8, 8, 8))
        >>> bool(np.allclose(apply_potential(psi, np.full((8, 8, 8), 3.0)), 3.0))
        True
    """
    if device is not None and batch.one_device(device) is None:
        return _potential_shared(psi, potential, boundary, device)
    device = batch.one_device(device)
    there, back = _filter_and_transpose(kinds(boundary))

    def check(x: Any, v: Any) -> None:
        _check_potential(x, v, boundary)

    others = foreign.is_foreign(psi), foreign.is_foreign(potential)
    if all(others) or (isinstance(psi, Buffer) and isinstance(potential, Buffer)):  # most calls
        done = on_grid.times_field(psi, potential, there, back, check, device)
        if done is not None:
            return cast(Array, done)
    if any(others):
        return cast(Array, foreign.through(lambda x, v: apply_potential(x, v, boundary=boundary, device=device), psi, potential))
    check(psi, potential)
    field: Any = batch.on_device(potential, device) if batch.in_device_memory(psi, (potential,), device) else potential

    def at_once(orbitals: Any) -> Any:
        return on_grid.times_field(orbitals, field, there, back, check, device) if isinstance(orbitals, Buffer) else None

    def apply(orbital: Any, out: Any) -> Any:
        if (done := at_once(orbital)) is not None:
            return done
        values: Any = pointwise.product(magicfilter3d(orbital, boundary=boundary, device=device), field)
        return magicfilter3d(values, transpose=True, boundary=cast(Sequence[Boundary], back.boundary), device=device)

    return cast(Array, batch.for_each(psi, apply, (potential,), device, batched=at_once))


def _potential_shared(psi: Array, potential: Array, boundary: Boundary | Sequence[Boundary], device: Selector) -> Array:
    """``apply_potential`` on several devices, each with some of the orbitals."""
    if foreign.is_foreign(psi) or foreign.is_foreign(potential):
        return cast(Array, foreign.through(lambda x, v: apply_potential(x, v, boundary=boundary, device=device), psi, potential))
    given: Any = psi

    def part(orbitals: slice, one: str, into: Into) -> Any:
        field: Any = batch.moved_to(potential, one)
        return apply_potential(batch.moved_to(batch.selected(given, orbitals), one), field, boundary=boundary, device=one)

    return cast(Array, over_devices(given, device, part, "orbitals apply_potential"))


@taken
def potential_energy(
    psi: Array, potential: Array, *, boundary: Boundary | Sequence[Boundary] = "periodic", device: Selector | None = None
) -> NDArray[np.float64]:
    """<psi| V |psi>, the sum over the grid of ``potential`` times an orbital squared: one number, or one for each orbital of a batch.

    Arguments as for ``apply_potential``; multiply the result by the volume of a grid cell.

    Examples:
        >>> import numpy as np
        >>> from portatile.wavelets import potential_energy
        >>> float(potential_energy(np.ones((4, 4, 4)), np.full((4, 4, 4), 0.5)).round(6))
        32.0
    """
    if foreign.is_foreign(psi) or foreign.is_foreign(potential):
        sums = foreign.through(lambda x, v: potential_energy(x, v, boundary=boundary, device=device), psi, potential)
        return cast(NDArray[np.float64], sums)
    given: Any = psi
    checks.check_orbitals(given, AXES)
    applied: Any = apply_potential(psi, potential, boundary=boundary, device=device)
    if given.ndim == AXES:
        return cast(NDArray[np.float64], pointwise.dots(given[None], applied[None])[0])
    return pointwise.dots(given, applied)


@taken
def density(
    psi: Array,
    *,
    occupation: Sequence[float] | None = None,
    boundary: Boundary | Sequence[Boundary] = "periodic",
    device: Selector | None = None,
) -> Array:
    """The density of the orbitals on the grid: the sum over orbitals of ``occupation`` (1 each) times the magic filter's values squared.

    ``psi`` is one orbital or a batch, as for ``apply_potential``; the result is given on the points that the filter produces.

    Examples:
        >>> import numpy as np
        >>> from portatile.wavelets import density
        >>> bool(np.allclose(density(np.ones((2, 8, 8, 8)), occupation=[2.0, 1.0]), 3.0))
        True
    """
    others = foreign.is_foreign(psi)
    given: Any = psi
    if not others:
        checks.check_orbitals(given, AXES)
    weights = _weights(given, occupation)
    if device is not None and batch.one_device(device) is None:
        if others:
            return cast(Array, foreign.through(lambda x: density(x, occupation=occupation, boundary=boundary, device=device), psi))

        def part(orbitals: slice, one: str, into: Into) -> Any:
            own = weights if given.ndim == AXES else weights[orbitals]
            return density(batch.moved_to(batch.selected(given, orbitals), one), occupation=own, boundary=boundary, device=one)

        return cast(Array, over_devices(given, device, part, "orbitals density", add=True))
    device = batch.one_device(device)
    if others or isinstance(psi, Buffer):
        done = on_grid.squares(psi, weights, _filtering(MAGICFILTER, kinds(boundary)), device)
        if done is not None:
            return cast(Array, done)
    if others:
        return cast(Array, foreign.through(lambda x: density(x, occupation=occupation, boundary=boundary, device=device), psi))
    moved = batch.in_device_memory(psi, (), device)
    total: Any = None
    orbitals = [given] if given.ndim == AXES else [given[place] for place in range(len(weights))]
    for orbital, weight in zip(orbitals, weights, strict=True):
        values: Any = magicfilter3d(batch.on_device(orbital, device) if moved else orbital, boundary=boundary, device=device)
        if total is None:
            zeros = np.zeros(values.shape, values.dtype)
            total = Buffer.from_numpy(zeros, values.device) if isinstance(values, Buffer) else zeros
        total = pointwise.add_square(total, values, weight)
    return cast(Array, total.numpy() if moved and isinstance(total, Buffer) else total)


def _weights(given: Any, occupation: Sequence[float] | None) -> list[Any]:
    """The occupation of each orbital, by default 1; raises ArgumentError if their number differs from that of the orbitals."""
    count = given.shape[0] if len(given.shape) > AXES else 1
    if occupation is None and count:
        return [1.0] * count
    many = np.atleast_1d(numbers([] if occupation is None else occupation, "occupation")).ravel().astype(object)
    weights = [checks.factor(weight, "occupation") for weight in many]
    if not count or len(weights) != count:
        raise ArgumentError(
            f"psi has shape {tuple(given.shape)} but there are {len(weights)} occupations; pass one orbital or a batch, with one for each"
        )
    return weights


@taken
def kinetic(
    psi: Array,
    *,
    spacing: float | Sequence[float] = 1.0,
    boundary: Boundary | Sequence[Boundary] = "periodic",
    device: Selector | None = None,
) -> Array:
    """-1/2 of the Laplacian of ``psi`` in Daubechies' basis, on a grid of ``spacing`` along each of its axes (or one for all).

    ``psi`` has one to three axes, or is a batch of orbitals (orbitals, n1, n2, n3), each of which is filtered separately; ``boundary``,
    ``periodic`` or ``zero``, is one for all axes or one for each. NumPy arrays, C-contiguous Buffers and CUDA arrays are supported; the
    result has the shape and library of ``psi``. Raises ArgumentError for what does not fit.

    Examples:
        >>> import numpy as np
        >>> from portatile.wavelets import kinetic
        >>> x = np.sin(2 * np.pi * np.arange(32) / 32)
        >>> bool(np.allclose(kinetic(x, spacing=2 * np.pi / 32), x / 2))
        True
    """
    given: Any = psi
    others = foreign.is_foreign(psi)
    along = _kinetic_boundaries(psi, others, boundary)
    if device is not None and batch.one_device(device) is None:
        if others:
            return cast(Array, foreign.through(lambda x: kinetic(x, spacing=spacing, boundary=boundary, device=device), psi))

        def part(orbitals: slice, on: str, into: Into) -> Any:
            return kinetic(batch.moved_to(batch.selected(given, orbitals), on), spacing=spacing, boundary=boundary, device=on)

        return cast(Array, over_devices(given, device, part, "orbitals kinetic"))
    device = batch.one_device(device)
    filters = _second_derivatives(_spacings(spacing, len(along)))
    if others or isinstance(psi, Buffer):
        done = axis_sums.by_one_call(psi, filters, KINETIC.lower, along, device)
        if done is not None:
            return cast(Array, done)
    if others:
        return cast(Array, foreign.through(lambda x: kinetic(x, spacing=spacing, boundary=boundary, device=device), psi))

    def one(orbital: Any, out: Any) -> Any:
        return axis_sums.sum_over_axes(orbital, filters, KINETIC.lower, along, device)

    if given.ndim <= AXES:
        return cast(Array, one(psi, None))
    checks.check_orbitals(psi, AXES)
    return cast(
        Array, batch.for_each(psi, one, (), device, batched=lambda there: axis_sums.by_one_call(there, filters, KINETIC.lower, along, None))
    )


def _kinetic_boundaries(psi: Any, others: bool, boundary: Boundary | Sequence[Boundary]) -> tuple[str, ...]:
    """The boundary of each axis. Raises ArgumentError for one that would change the size of ``psi``, and for an unsupported ``psi``."""
    if not (others or isinstance(psi, (np.ndarray, Buffer))) or not 0 < len(psi.shape) <= AXES + 1:
        have = described(psi)
        raise ArgumentError(f"psi is {have}; kinetic takes an array of one to three dimensions, or a batch of orbitals (four)")
    along = kinds(boundary, min(len(psi.shape), AXES))
    if not set(along) <= {"periodic", "zero"}:
        raise ArgumentError(f"boundary={boundary!r}: the kinetic operator keeps the size; use periodic or zero")
    return along


def _spacings(spacing: Any, axes: int) -> tuple[float, ...]:
    """The spacing along each axis; raises ArgumentError unless it is one positive number or one for each."""
    single = isinstance(spacing, (int, float)) or getattr(spacing, "ndim", 1) == 0
    try:
        steps = (float(spacing),) * axes if single else tuple(map(float, spacing))
    except (TypeError, ValueError):
        steps = ()
    if len(steps) != axes or not all(step > 0 for step in steps):
        raise ArgumentError(f"spacing={spacing!r}: give one positive number, or one for each of {axes} axes")
    return steps


@lru_cache(maxsize=64)
def _second_derivatives(steps: tuple[float, ...]) -> NDArray[np.float64]:
    """A filter for each axis: -1/2 of the second derivative."""
    filters = np.outer(-0.5 / np.array(steps) ** 2, KINETIC.taps)
    filters.flags.writeable = False
    return filters


@lru_cache(maxsize=256)
def _filtering(one: Filter, along: tuple[str, ...]) -> on_grid.Filtering:
    return on_grid.Filtering(one.row, one.lower, along)


@lru_cache(maxsize=64)
def _filter_and_transpose(along: tuple[str, ...]) -> tuple[on_grid.Filtering, on_grid.Filtering]:
    """The magic filter with these boundaries, and its transpose, which removes the points that it added."""
    back = tuple({"grow": "shrink"}.get(kind, kind) for kind in along)
    return _filtering(MAGICFILTER, along), _filtering(MAGICFILTER.transposed, back)


def _check_potential(psi: Any, potential: Any, boundary: Boundary | Sequence[Boundary]) -> None:
    """Raise ArgumentError unless the potential is given on the points that the magic filter produces."""
    checks.check_orbitals(psi, AXES)
    refuse_masks(potential, "potential")
    along = kinds(boundary)
    if not set(along) <= {"periodic", "zero", "grow"}:
        raise ArgumentError(f"boundary={boundary!r}: periodic, zero or grow, one for all axes or one for each of three")
    free = len(MAGICFILTER.taps) - 1
    shape = tuple(n + (free if kind == "grow" else 0) for n, kind in zip(psi.shape[-AXES:], along, strict=True))
    kind, named = (Buffer, "Buffer") if isinstance(psi, Buffer) else (np.ndarray, "NumPy array")
    if not isinstance(potential, kind) or tuple(potential.shape) != shape or potential.dtype != psi.dtype:
        have = described(potential)
        raise ArgumentError(f"the potential is {have}; with this psi it must be a {named} of shape {shape} and dtype {psi.dtype}")
    if isinstance(potential, Buffer):
        checks.check_alive(potential, "the potential")
