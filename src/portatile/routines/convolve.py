"""Convolutions along the first axis, and along all three: the separable filters of signals and wave functions on grids."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import ArrayLike

from portatile.arguments import axes
from portatile.arguments.axes import Boundary, described
from portatile.arguments.host_tensors import taken
from portatile.arguments.matrices import Array
from portatile.device import Selector
from portatile.errors import ArgumentError
from portatile.routines import convolve_host_volumes, convolve_volumes
from portatile.routines.convolve_host_volumes import IntermediateVolumes as IntermediateVolumes  # an argument of passes3d
from portatile.routines.convolve_lines import LineFilter, filter_lines
from portatile.routines.convolve_volumes import SeparableFilter

Bank = Literal["analysis", "synthesis"]


@taken
def convolve1d(
    psi: Array, taps: ArrayLike, *, lower: int, boundary: Boundary = "periodic", transposed: bool = False, device: Selector | None = None
) -> Array:
    """The sums over l of ``taps[l - lower] * psi[i + l]`` along the first axis: a correlation, like BigDFT's filters.

    ``psi`` is float32 or float64. NumPy arrays and Buffers may have any number of dimensions, arrays of other libraries two. A NumPy array
    that is not C-contiguous is copied; other such arrays are refused. ``taps`` is one-dimensional, with at most 64 numbers, which are
    rounded to the dtype of ``psi``; they belong to l = lower, lower + 1, ...

    ``boundary`` says which values are used outside of ``psi``:

    - ``periodic`` (SciPy's ``wrap``, ``grid-wrap``): those at i + l modulo the length.
    - ``zero`` (SciPy's ``constant``, ``grid-constant`` with cval 0): zeros.
    - ``grow``: zeros, and the result has every element that may differ from zero, taps - 1 more than ``psi``.
    - ``shrink``: none. The result only has the elements whose sums lie inside, taps - 1 fewer than ``psi``.

    SciPy's reflect, mirror and nearest are not supported. The result has the axes of ``psi``, but kernels write it transposed: it is a view
    whose first axis is contiguous. With ``transposed`` it is that memory itself, C-contiguous with the filtered axis last.

    Raises ArgumentError for arrays, taps or a boundary that do not fit, DeviceNotFoundError for an unknown device.

    Examples:
        >>> import numpy as np, portatile
        >>> portatile.convolve1d(np.array([[1.0], [2.0], [4.0]]), [-1.0, 1.0], lower=0)[:, 0]
        array([ 1.,  2., -3.])
    """
    return cast(Array, filter_lines(psi, LineFilter.of(axes.one_filter(taps), lower, axes.kind_of(boundary), "single"), transposed, device))


@taken
def filter_bank1d(
    psi: Array,
    filters: ArrayLike,
    *,
    lower: int,
    bank: Bank,
    boundary: Boundary = "periodic",
    transposed: bool = False,
    device: Selector | None = None,
) -> Array:
    """Two filters along the first axis: the even outputs 2q are those of ``filters[0]``, the odd ones those of ``filters[1]``.

    ``filters`` has two rows of taps; both begin at 2q + ``lower``. ``bank="analysis"`` stores the even outputs in the first half of the
    result and the odd ones in the second half. ``"synthesis"`` reads such halves as its input, and its outputs stay in order. ``grow`` and
    ``shrink`` change the length by taps - 2. Dtypes, boundaries, layout and errors are as for ``convolve1d``.

    Examples:
        >>> import numpy as np, portatile
        >>> haar = np.array([[0.5, 0.5], [0.5, -0.5]])
        >>> portatile.filter_bank1d(np.array([[1.0], [3.0], [4.0], [8.0]]), haar, lower=0, bank="analysis")[:, 0]
        array([ 2.,  6., -1., -2.])
    """
    if bank not in ("analysis", "synthesis"):
        raise ArgumentError(f"bank={bank!r} is not one of analysis, synthesis")
    pair = axes.numbers(filters, "filters")
    if pair.ndim != 2 or pair.shape[0] != 2 or pair.dtype.kind not in "fiu":
        raise ArgumentError(f"filters is {described(pair)}; a filter bank has two rows of taps, real numbers")
    return cast(Array, filter_lines(psi, LineFilter.of(pair, lower, axes.kind_of(boundary), bank), transposed, device))


def convolve3d_separable(
    array: Array,
    taps: ArrayLike | Sequence[ArrayLike],
    *,
    lower: int | Sequence[int],
    boundary: Boundary | Sequence[Boundary] = "periodic",
    out: Array | None = None,
    device: Selector | None = None,
) -> Array:
    """``convolve1d`` along each of three axes in turn: a separable filter. The result is C-contiguous, with the axes of ``array``.

    Each pass filters the first axis and makes it the last, so that three passes restore the order; in between no data leaves the device.
    ``taps``, ``lower`` and ``boundary`` are given once for all axes, or three times, once for each; the three filters may have different
    lengths. The result goes to ``out`` if given, which belongs to the library of ``array`` and is C-contiguous unless it is a NumPy array;
    it may be ``array`` itself if the shapes agree. Raises ArgumentError for what does not fit.

    Examples:
        >>> import numpy as np, portatile
        >>> portatile.convolve3d_separable(np.ones((4, 3, 2)), [0.5, 0.5], lower=0).shape
        (4, 3, 2)
        >>> portatile.convolve3d_separable(np.ones((4, 3, 2)), ([1.0, -1.0], [1.0], [0.5, 0.5]), lower=0, boundary="grow").shape
        (5, 3, 3)
    """
    return passes3d(array, SeparableFilter.of(axes.filters(taps), lower, "single", boundary), device, out)


@taken
def passes3d(
    array: Array,
    separable_filter: SeparableFilter,
    device: Selector | None,
    out: Any = None,
    between: IntermediateVolumes | None = None,
) -> Array:
    """One transposing pass for each of three axes. ``between`` keeps the intermediate arrays for another NumPy array."""
    if isinstance(array, np.ndarray):
        return cast(Array, convolve_host_volumes.filter_volume(array, separable_filter, device, out, between))
    return cast(Array, convolve_volumes.filter_volume(array, separable_filter, device, out))


def batch3d(array: Any, separable_filter: SeparableFilter, device: str | None) -> Any:
    """``passes3d`` of each volume of a batch on a device, as one plan; None where each has to be filtered separately."""
    return convolve_volumes.filter_volume(array, separable_filter, device, None, batch=True)
