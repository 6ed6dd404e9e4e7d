"""Magic filter and wavelet transform, along one axis or three."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, cast

from portatile.arguments import axes, foreign
from portatile.arguments.axes import AXES, Boundary, kind_of, kinds
from portatile.arguments.host_tensors import taken
from portatile.arguments.matrices import Array
from portatile.device import Selector
from portatile.device.buffer import Buffer
from portatile.device.page_locked import locked
from portatile.errors import ArgumentError
from portatile.routines import convolve
from portatile.routines.convolve_lines import LineFilter, filter_lines
from portatile.routines.convolve_volumes import SeparableFilter
from portatile.wavelets.batch import for_each, moved_to, one_device, selected
from portatile.wavelets.filters import ANALYSIS, FREE_SYNTHESIS, MAGICFILTER, SCALING, SYNTHESIS, SYNTHESIS_LOWER
from portatile.wavelets.flow import Into
from portatile.wavelets.over_devices import over_devices

_INVERTIBLE = "periodic (SciPy's wrap, grid-wrap), grow, shrink"


@taken
def magicfilter(
    psi: Array, *, transpose: bool = False, boundary: Boundary = "periodic", transposed: bool = False, device: Selector | None = None
) -> Array:
    """The magic filter along the first axis of ``psi``, or its ``transpose``; everything else is as for ``portatile.convolve1d``.

    With free boundaries the filter is used with ``boundary="grow"`` and its transpose with ``"shrink"``.

    Examples:
        >>> import numpy as np
        >>> from portatile.wavelets import magicfilter
        >>> bool(np.allclose(magicfilter(np.ones((20, 3))), 1))
        True
    """
    return cast(Array, filter_lines(psi, _magic_line(bool(transpose), kind_of(boundary)), transposed, device))


def magicfilter3d(
    array: Array,
    *,
    transpose: bool = False,
    boundary: Boundary | Sequence[Boundary] = "periodic",
    out: Array | None = None,
    device: Selector | None = None,
) -> Array:
    """The magic filter, or its ``transpose``, along all three axes, with the axes of ``array``. ``out`` is as for ``convolve3d_separable``.

    With four dimensions (orbitals, n1, n2, n3) each orbital of the batch is filtered separately.

    Examples:
        >>> import numpy as np
        >>> from portatile.wavelets import magicfilter3d
        >>> bool(np.allclose(magicfilter3d(np.ones((3, 4, 5))), 1))
        True
    """
    filters = _magic_filters(bool(transpose), kinds(boundary))
    return cast(Array, _filter_each(array, filters, out, device))


@taken
def analysis(psi: Array, *, boundary: Boundary = "periodic", transposed: bool = False, device: Selector | None = None) -> Array:
    """One level of the wavelet transform along the first axis, of even length: scaling coefficients, then wavelet coefficients.

    c_i = sum of ch(l) psi(2i + l), and d_i the same with cg. On free axes psi begins at an odd point: ``boundary="shrink"`` maps the 2n +
    14 points from -7 on to 2n coefficients, ``"grow"`` maps 2n points to the 2n + 14 coefficients that are not zero.

    Examples:
        >>> import numpy as np
        >>> from portatile.wavelets import analysis
        >>> bool(np.allclose(analysis(np.ones((8, 1)))[:, 0], [2**0.5] * 4 + [0] * 4))
        True
    """
    _check_even(psi, 1)
    return cast(Array, filter_lines(psi, _analysis_line(kind_of(boundary)), transposed, device))


@taken
def synthesis(psi: Array, *, boundary: Boundary = "periodic", transposed: bool = False, device: Selector | None = None) -> Array:
    """The inverse of ``analysis`` along the first axis: from scaling and wavelet coefficients back to values.

    x(2i) = sum over l of ch(2l) c(i - l) + cg(2l) d(i - l), and x(2i + 1) the same with ch(2l + 1) and cg(2l + 1). ``boundary="grow"`` maps
    2n coefficients to the 2n + 14 points that are not zero; ``"shrink"`` maps the 2n + 14 coefficients of an ``analysis`` with ``"grow"``
    back to 2n points.

    Examples:
        >>> import numpy as np
        >>> from portatile.wavelets import analysis, synthesis
        >>> x = np.arange(12.0).reshape(6, 2)
        >>> bool(np.allclose(synthesis(analysis(x)), x))
        True
    """
    _check_even(psi, 1)
    kind = kind_of(boundary)
    if kind == "zero":
        raise ArgumentError(f"boundary={boundary!r} is not one of {_INVERTIBLE}")
    full: Any = filter_lines(psi, _synthesis_line(kind), transposed, device)
    if kind != "grow":
        return cast(Array, full)
    trimmed: Array = full[..., 1:-1] if transposed else full[1:-1]
    return trimmed  # the first and the last of nine pairs extend one point beyond the filters


def analysis3d(
    array: Array, *, boundary: Boundary | Sequence[Boundary] = "periodic", out: Array | None = None, device: Selector | None = None
) -> Array:
    """One level of the wavelet transform along each of three axes of even length, with the axes of ``array``.

    ``boundary`` is one for all axes or one for each: ``periodic``, or, for free boundaries, ``shrink`` (2n + 14 points to 2n) or ``grow``
    (2n points to 2n + 14), as for ``analysis``. With four dimensions (orbitals, n1, n2, n3) each orbital of the batch is transformed
    separately. ``out`` is as for ``convolve3d_separable``. Raises ArgumentError for what does not fit.

    Examples:
        >>> import numpy as np
        >>> from portatile.wavelets import analysis3d
        >>> analysis3d(np.ones((8, 6, 4)), boundary=("grow", "periodic", "periodic")).shape
        (22, 6, 4)
    """
    filters = _analysis_filters(_invertible(boundary))
    _check_even(array, AXES)
    return cast(Array, _filter_each(array, filters, out, device))


def synthesis3d(
    array: Array, *, boundary: Boundary | Sequence[Boundary] = "periodic", out: Array | None = None, device: Selector | None = None
) -> Array:
    """The inverse of ``analysis3d``: with ``shrink`` for an axis on which that used ``grow``. After ``shrink``, ``grow`` gives what is left
    of the values.

    It is also the transpose, and ``analysis3d`` with ``shrink`` is the inverse of its ``grow``. Everything else is as for ``analysis3d``.

    Examples:
        >>> import numpy as np
        >>> from portatile.wavelets import analysis3d, synthesis3d
        >>> x = np.arange(64.0).reshape(4, 4, 4)
        >>> bool(np.allclose(synthesis3d(analysis3d(x, boundary="grow"), boundary="shrink"), x))
        True
    """
    filters = _synthesis_filters(_invertible(boundary))
    _check_even(array, AXES)
    return cast(Array, _filter_each(array, filters, out, device))


@cache
def _magic_line(transpose: bool, kind: str) -> LineFilter:
    """The magic filter along one axis, or its transpose. It and the filters below are kept, since their keys take time to compute."""
    chosen = MAGICFILTER.transposed if transpose else MAGICFILTER
    return LineFilter.of(chosen.row[None, :], chosen.lower, kind, "single")


@cache
def _analysis_line(kind: str) -> LineFilter:
    """The wavelet transform along one axis."""
    return LineFilter.of(ANALYSIS, SCALING.lower, kind, "analysis")


@cache
def _synthesis_line(kind: str) -> LineFilter:
    """Its inverse."""
    taps, lower = (FREE_SYNTHESIS, 0) if kind == "shrink" else (SYNTHESIS, SYNTHESIS_LOWER)
    return LineFilter.of(taps, lower, kind, "synthesis")


@cache
def _magic_filters(transpose: bool, along: tuple[Any, ...]) -> SeparableFilter:
    """The magic filter along three axes, or its transpose."""
    chosen = MAGICFILTER.transposed if transpose else MAGICFILTER
    return SeparableFilter.of(axes.filters(chosen.row), chosen.lower, "single", along)


@cache
def _analysis_filters(along: tuple[Any, ...]) -> SeparableFilter:
    """The wavelet transform along three axes."""
    return SeparableFilter.of(ANALYSIS, SCALING.lower, "analysis", along)


@cache
def _synthesis_filters(along: tuple[Any, ...]) -> SeparableFilter:
    """Its inverse."""
    banks = [SYNTHESIS if kind == "periodic" else FREE_SYNTHESIS for kind in along]
    lowers = [SYNTHESIS_LOWER if kind == "periodic" else 0 for kind in along]
    return SeparableFilter.of(banks, lowers, "synthesis", along)


@taken
def _filter_each(array: Any, separable_filter: SeparableFilter, out: Any, device: Selector | None, into: Into = locked.empty) -> Any:
    """The passes of ``convolve.passes3d`` over a three-dimensional array, or over each orbital of a batch."""
    if getattr(array, "ndim", AXES) != AXES + 1:
        return convolve.passes3d(array, separable_filter, device, out)
    if out is not None:
        raise ArgumentError("out is for the result of one three-dimensional array, not of a batch")
    if device is not None and one_device(device) is None:
        if foreign.is_foreign(array):
            return foreign.through(lambda there: _filter_each(there, separable_filter, None, device), array)

        def part(orbitals: slice, on: str, into: Into) -> Any:
            return _filter_each(moved_to(selected(array, orbitals), on), separable_filter, None, on, into)

        return over_devices(array, device, part, f"orbitals by {separable_filter.bank} filters")
    device = one_device(device)
    others = foreign.is_foreign(array)
    if others or isinstance(array, Buffer):
        done = convolve.batch3d(array, separable_filter, device)
        if done is not None:
            return done
    between = convolve.IntermediateVolumes()

    def one(orbital: Any, target: Any) -> Any:
        return convolve.passes3d(orbital, separable_filter, device, target, between)

    if others:
        return foreign.through(lambda there: for_each(there, one, (), device), array)
    return for_each(array, one, (), device, into, lambda there: convolve.batch3d(there, separable_filter, None))


def _invertible(boundary: Boundary | Sequence[Boundary]) -> tuple[Any, ...]:
    """Each axis's boundary; raises ArgumentError for one that loses what the inverse would need."""
    found = kinds(boundary)
    if "zero" in found:
        raise ArgumentError(f"boundary={boundary!r}: the wavelet transform takes {_INVERTIBLE}")
    return found


def _check_even(array: Array, axes: int) -> None:
    """Raise ArgumentError if an axis that is transformed, the first or the last three, has an odd number of points."""
    shape = tuple(getattr(array, "shape", ()))
    odd = [n for n in (shape[-axes:] if axes > 1 else shape[:1]) if n % 2]
    if odd:
        raise ArgumentError(f"an axis of {odd[0]} points: the wavelet transform halves it, so it must be even")
