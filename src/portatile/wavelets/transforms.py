"""Magic filter and wavelet transform, along one axis or three."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from portatile.device.buffer import Buffer
from portatile.errors import ArgumentError
from portatile.routines import convolve
from portatile.routines.arrays import Array
from portatile.routines.convolve import Boundary, convolve1d, convolve3d_separable, filter_bank1d
from portatile.wavelets.batch import AXES, each
from portatile.wavelets.filters import ANALYSIS, MAGICFILTER, SCALING, SYNTHESIS, SYNTHESIS_LOWER


def magicfilter(
    psi: Array, *, transpose: bool = False, boundary: Boundary = "periodic", transposed: bool = False, device: str | None = None
) -> Array:
    """The magic filter along the first axis of ``psi``, or its ``transpose``; see ``portatile.convolve1d`` for the rest.

    With free boundaries the filter is used with ``boundary="grow"`` and its transpose with ``"shrink"``.

    Examples:
        >>> import numpy as np
        >>> from portatile.wavelets import magicfilter
        >>> bool(np.allclose(magicfilter(np.ones((20, 3))), 1))
        True
    """
    chosen = MAGICFILTER.transposed if transpose else MAGICFILTER
    return convolve1d(psi, chosen.taps, lower=chosen.lower, boundary=boundary, transposed=transposed, device=device)


def magicfilter3d(
    array: Array,
    *,
    transpose: bool = False,
    boundary: Boundary | Sequence[Boundary] = "periodic",
    out: Buffer | None = None,
    device: str | None = None,
) -> Array:
    """The magic filter, or its ``transpose``, along all three axes; in the order of ``array``. ``out`` as for ``convolve3d_separable``.

    With four dimensions (orbitals, n1, n2, n3) each orbital of the batch is filtered by itself.

    Examples:
        >>> import numpy as np
        >>> from portatile.wavelets import magicfilter3d
        >>> bool(np.allclose(magicfilter3d(np.ones((3, 4, 5))), 1))
        True
    """
    chosen = MAGICFILTER.transposed if transpose else MAGICFILTER

    def one(orbital: Any) -> Any:
        return convolve3d_separable(orbital, chosen.taps, lower=chosen.lower, boundary=boundary, out=out, device=device)

    if out is not None and getattr(array, "ndim", AXES) != AXES:
        raise ArgumentError("out takes the result of one array of three dimensions, not of a batch")
    return cast(Array, each(array, one, (), device) if getattr(array, "ndim", AXES) == AXES + 1 else one(array))


def analysis(psi: Array, *, boundary: Boundary = "periodic", transposed: bool = False, device: str | None = None) -> Array:
    """One level of the wavelet transform along the first axis, of even length: scaling coefficients, then wavelet coefficients.

    c_i = sum of ch(l) psi(2i + l), d_i the same with cg. ``boundary="shrink"`` takes 2n + 14 points, from -7 on, to 2n.

    Examples:
        >>> import numpy as np
        >>> from portatile.wavelets import analysis
        >>> bool(np.allclose(analysis(np.ones((8, 1)))[:, 0], [2**0.5] * 4 + [0] * 4))
        True
    """
    _even(psi, 1)
    return filter_bank1d(psi, ANALYSIS, lower=SCALING.lower, bank="analysis", boundary=boundary, transposed=transposed, device=device)


def synthesis(psi: Array, *, boundary: Boundary = "periodic", transposed: bool = False, device: str | None = None) -> Array:
    """The inverse of ``analysis`` along the first axis: from scaling and wavelet coefficients back to values.

    x(2i) = sum over l of ch(2l) c(i - l) + cg(2l) d(i - l), x(2i + 1) the same with ch(2l + 1) and cg(2l + 1).
    ``boundary="grow"`` takes 2n coefficients to the 2n + 14 points that are not zero.

    Examples:
        >>> import numpy as np
        >>> from portatile.wavelets import analysis, synthesis
        >>> x = np.arange(12.0).reshape(6, 2)
        >>> bool(np.allclose(synthesis(analysis(x)), x))
        True
    """
    _even(psi, 1)
    if boundary not in ("periodic", "grow"):
        raise ArgumentError(f"boundary={boundary!r} is not one of periodic, grow")
    full = filter_bank1d(psi, SYNTHESIS, lower=SYNTHESIS_LOWER, bank="synthesis", boundary=boundary, transposed=transposed, device=device)
    if boundary == "periodic":
        return full
    trimmed: Array = full[..., 1:-1] if transposed else full[1:-1]  # type: ignore[index]
    return trimmed  # the first and the last of nine pairs reach one point further than the filters


def analysis3d(array: Array, *, out: Buffer | None = None, device: str | None = None) -> Array:
    """One level of the periodic wavelet transform along each of three axes of even length, in the order of ``array``.

    ``out`` as for ``convolve3d_separable``.
    """
    _even(array, 3)
    return convolve.passes3d(array, ANALYSIS, SCALING.lower, "analysis", "periodic", device, out)


def synthesis3d(array: Array, *, out: Buffer | None = None, device: str | None = None) -> Array:
    """The inverse of ``analysis3d``. ``out`` as for ``convolve3d_separable``."""
    _even(array, 3)
    return convolve.passes3d(array, SYNTHESIS, SYNTHESIS_LOWER, "synthesis", "periodic", device, out)


def _even(array: Array, axes: int) -> None:
    """Raise ArgumentError where one of the first ``axes``, which are transformed, has an odd number of points."""
    odd = [n for n in tuple(getattr(array, "shape", ()))[:axes] if n % 2]
    if odd:
        raise ArgumentError(f"an axis of {odd[0]} points: the wavelet transform halves it, so it must be even")
