"""The filters of BigDFT's wavelet code by name, and what it does with them on grids of one and three dimensions.

Coefficients: BigDFT's sources (convolut_simple_per.f90 for the magic filter; Daubechies' least asymmetric wavelets of
length 16; the second derivative in the same basis), as double-precision numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

from portatile import device as devices
from portatile.device.buffer import Buffer, refuse_masks
from portatile.errors import ArgumentError
from portatile.routines import arrays, convolve, limit, pointwise
from portatile.routines.arrays import Array
from portatile.routines.convolve import Boundary, convolve1d, convolve3d_separable, filter_bank1d

_AXES = 3
_SYNTHESIS_LOWER = -8  # places in c_0 d_0 c_1 d_1 ...: the first pair that an output needs lies four before its own


@dataclass(frozen=True)
class Filter:
    """Taps f(l) for l = ``lower``, lower + 1, ...: the output i is the sum of f(l) x(i + l).

    Examples:
        >>> from portatile.wavelets import Filter
        >>> Filter((1.0, 2.0, 3.0), -1).transposed
        Filter(taps=(3.0, 2.0, 1.0), lower=-1)
    """

    taps: tuple[float, ...]
    lower: int

    @property
    def upper(self) -> int:
        """The l of the last tap."""
        return self.lower + len(self.taps) - 1

    @property
    def transposed(self) -> Filter:
        """The filter of the transposed matrix: f(-l)."""
        return Filter(self.taps[::-1], -self.upper)

    def __call__(self, place: int) -> float:
        """f(l), zero outside the taps."""
        return self.taps[place - self.lower] if self.lower <= place <= self.upper else 0.0


MAGICFILTER = Filter(
    (
        8.433424733352934e-07,
        -1.290557201342061e-05,
        8.76298447621056e-05,
        -0.00030158038132690465,
        0.001747237136729939,
        -0.009420470302010804,
        0.023738214637249424,
        0.0612625895831208,
        0.9940415697834004,
        -0.06048952891969835,
        -0.021030251609303816,
        0.013372634148547948,
        -0.0034412814449349387,
        0.0004944322768868992,
        -5.185986881173433e-05,
        2.7273449291197967e-06,
    ),
    -8,
)
"""From the coefficients of a function in Daubechies' basis to its values on the grid."""

SCALING = Filter(
    (
        -0.0033824159510050025955,
        -0.00054213233180001068935,
        0.031695087811525991431,
        0.0076074873249766081919,
        -0.14329423835127266284,
        -0.061273359067811077843,
        0.48135965125905339159,
        0.77718575169962802862,
        0.36444189483617893676,
        -0.051945838107881800736,
        -0.027219029917103486322,
        0.049137179673730286787,
        0.0038087520138944894631,
        -0.014952258337062199118,
        -0.00030292051472413308126,
        0.0018899503327676891843,
    ),
    -7,
)
"""The low-pass filter ch of Daubechies' least asymmetric wavelets of length 16."""

WAVELET = Filter(tuple((-1.0) ** place * SCALING(1 - place) for place in range(-7, 9)), -7)
"""The high-pass filter beside it: cg(l) = (-1)^l ch(1 - l)."""

_HALF = (
    -3.5536922899131901941296809374,
    2.2191465938911163898794546405,
    -0.6156141465570069496314853949,
    0.2371780582153805636239247476,
    -0.0822663999742123340987663521,
    0.02207029188482255523789911295638968409,
    -0.409765689342633823899327051188315485e-2,
    0.45167920287502235349480037639758496e-3,
    -0.2398228524507599670405555359023135e-4,
    2.0904234952920365957922889447361e-6,
    -3.7230763047369275848791496973044e-7,
    -1.05857055496741470373494132287e-8,
    -5.813879830282540547959250667e-11,
    2.70800493626319438269856689037647576e-13,
    -6.924474940639200152025730585882e-18,
)

KINETIC = Filter((*_HALF[:0:-1], *_HALF), -14)
"""The second derivative on a grid of spacing 1; the kinetic energy is -1/2 of it."""

_ANALYSIS = np.array([SCALING.taps, WAVELET.taps])
# An output takes pairs (c, d) in turn; both filters stand over the same nine pairs, one of which each leaves out.
_SYNTHESIS = np.array([[half(e + 8 - 2 * pair) for pair in range(9) for half in (SCALING, WAVELET)] for e in (0, 1)])


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

    if out is not None and getattr(array, "ndim", _AXES) != _AXES:
        raise ArgumentError("out takes the result of one array of three dimensions, not of a batch")
    return cast(Array, _each(array, one, (), device) if getattr(array, "ndim", _AXES) == _AXES + 1 else one(array))


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
    return filter_bank1d(psi, _ANALYSIS, lower=SCALING.lower, bank="analysis", boundary=boundary, transposed=transposed, device=device)


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
    full = filter_bank1d(psi, _SYNTHESIS, lower=_SYNTHESIS_LOWER, bank="synthesis", boundary=boundary, transposed=transposed, device=device)
    if boundary == "periodic":
        return full
    trimmed: Array = full[..., 1:-1] if transposed else full[1:-1]  # type: ignore[index]
    return trimmed  # the first and the last of nine pairs reach one point further than the filters


def analysis3d(array: Array, *, out: Buffer | None = None, device: str | None = None) -> Array:
    """One level of the periodic wavelet transform along each of three axes of even length, in the order of ``array``.

    ``out`` as for ``convolve3d_separable``.
    """
    _even(array, 3)
    return convolve.passes3d(array, _ANALYSIS, SCALING.lower, "analysis", "periodic", device, out)


def synthesis3d(array: Array, *, out: Buffer | None = None, device: str | None = None) -> Array:
    """The inverse of ``analysis3d``. ``out`` as for ``convolve3d_separable``."""
    _even(array, 3)
    return convolve.passes3d(array, _SYNTHESIS, _SYNTHESIS_LOWER, "synthesis", "periodic", device, out)


def apply_potential(
    psi: Array, potential: Array, *, boundary: Boundary | Sequence[Boundary] = "periodic", device: str | None = None
) -> Array:
    """The local potential in Daubechies' basis: the magic filter along three axes, times ``potential``, the transposed filter.

    ``psi`` is one orbital (n1, n2, n3) or a batch (orbitals, n1, n2, n3); ``potential`` lies on the points that the filter gives, which
    are n along a ``periodic`` or ``zero`` axis and n + 15 along a ``grow``, free one. NumPy arrays, or Buffers of one device; the
    result is of the shape and library of ``psi``. Raises ArgumentError for what does not fit.

    Examples:
        >>> import numpy as np
        >>> from portatile.wavelets import apply_potential
        >>> psi = np.ones((2, 8, 8, 8))
        >>> bool(np.allclose(apply_potential(psi, np.full((8, 8, 8), 3.0)), 3.0))
        True
    """
    back = tuple({"grow": "shrink"}.get(kind, kind) for kind in _boundaries(boundary))
    _on_grid(psi, potential, boundary)
    field = _on_device(potential, device) if _moved(psi, (potential,), device) else potential

    def apply(orbital: Any) -> Any:
        values: Any = pointwise.product(magicfilter3d(orbital, boundary=boundary, device=device), field)
        return magicfilter3d(values, transpose=True, boundary=cast(Sequence[Boundary], back), device=device)

    return cast(Array, _each(psi, apply, (potential,), device))


def potential_energy(
    psi: Array, potential: Array, *, boundary: Boundary | Sequence[Boundary] = "periodic", device: str | None = None
) -> NDArray[np.float64]:
    """<psi| V |psi>, the sum over the grid of ``potential`` times an orbital squared: one number, or one for each orbital of a batch.

    Arguments as for ``apply_potential``; to be multiplied with a grid cell's volume.

    Examples:
        >>> import numpy as np
        >>> from portatile.wavelets import potential_energy
        >>> float(potential_energy(np.ones((4, 4, 4)), np.full((4, 4, 4), 0.5)).round(6))
        32.0
    """
    given: Any = psi
    arrays.check_orbitals(given, _AXES)
    applied: Any = apply_potential(psi, potential, boundary=boundary, device=device)
    pairs = [(given, applied)] if given.ndim == _AXES else [(given[place], applied[place]) for place in range(given.shape[0])]
    sums = np.array([float(pointwise.dot(one, other)) for one, other in pairs])
    return sums[0] if given.ndim == _AXES else sums


def density(
    psi: Array,
    *,
    occupation: Sequence[float] | None = None,
    boundary: Boundary | Sequence[Boundary] = "periodic",
    device: str | None = None,
) -> Array:
    """The density of the orbitals on the grid: the sum over orbitals of ``occupation`` (1 each) times the magic filter's values squared.

    ``psi`` is one orbital or a batch, as for ``apply_potential``; the result lies on the points that the filter gives.

    Examples:
        >>> import numpy as np
        >>> from portatile.wavelets import density
        >>> bool(np.allclose(density(np.ones((2, 8, 8, 8)), occupation=[2.0, 1.0]), 3.0))
        True
    """
    given: Any = psi
    arrays.check_orbitals(given, _AXES)
    orbitals = [given] if given.ndim == _AXES else [given[place] for place in range(given.shape[0])]
    many = [1.0] * len(orbitals) if occupation is None else np.atleast_1d(np.asarray(occupation, object)).ravel()
    weights = [arrays.factor(weight, "occupation") for weight in many]
    if not orbitals or len(weights) != len(orbitals):
        raise ArgumentError(
            f"psi has shape {tuple(given.shape)} and there are {len(weights)} occupations; one orbital or a batch, one for each"
        )
    moved = _moved(psi, (), device)
    total: Any = None
    for orbital, weight in zip(orbitals, weights, strict=True):
        values: Any = magicfilter3d(_on_device(orbital, device) if moved else orbital, boundary=boundary, device=device)
        if total is None:
            zeros = np.zeros(values.shape, values.dtype)
            total = Buffer.from_numpy(zeros, values.device) if isinstance(values, Buffer) else zeros
        total = pointwise.add_square(total, values, weight)
    return cast(Array, total.numpy() if moved and isinstance(total, Buffer) else total)


def kinetic(
    psi: Array, *, spacing: float | Sequence[float] = 1.0, boundary: Literal["periodic", "zero"] = "periodic", device: str | None = None
) -> Array:
    """-1/2 of the Laplacian of ``psi`` in Daubechies' basis, on a grid of ``spacing`` along each of its axes (or one for all).

    ``psi`` is a NumPy array or a C-contiguous Buffer of one or more dimensions, and so is the result, in the same order.

    Examples:
        >>> import numpy as np
        >>> from portatile.wavelets import kinetic
        >>> x = np.sin(2 * np.pi * np.arange(32) / 32)
        >>> bool(np.allclose(kinetic(x, spacing=2 * np.pi / 32), x / 2))
        True
    """
    if boundary not in ("periodic", "zero"):
        raise ArgumentError(f"boundary={boundary!r}: the kinetic operator keeps the size; use periodic or zero")
    if not isinstance(psi, (np.ndarray, Buffer)) or psi.ndim == 0:
        raise ArgumentError("kinetic takes a NumPy array or a Buffer of one or more dimensions")
    try:
        spacings = np.asarray(spacing, np.float64)
    except (TypeError, ValueError):
        spacings = np.empty(0)
    spacings = np.broadcast_to(spacings, (psi.ndim,)) if spacings.ndim == 0 else spacings
    if spacings.shape != (psi.ndim,) or not (spacings > 0).all():
        raise ArgumentError(f"spacing={spacing!r}: give one positive number, or one for each of {psi.ndim} axes")
    filters = [np.array(KINETIC.taps) * (-0.5 / step**2) for step in spacings]
    return convolve.sum_over_axes(psi, filters, KINETIC.lower, boundary, device)


def _even(array: Array, axes: int) -> None:
    """Raise ArgumentError where one of the first ``axes``, which are transformed, has an odd number of points."""
    odd = [n for n in tuple(getattr(array, "shape", ()))[:axes] if n % 2]
    if odd:
        raise ArgumentError(f"an axis of {odd[0]} points: the wavelet transform halves it, so it must be even")


def _boundaries(boundary: Boundary | Sequence[Boundary]) -> tuple[Boundary, ...]:
    if isinstance(boundary, str) or not isinstance(boundary, Sequence):
        return (boundary,) * _AXES
    return tuple(cast(Sequence[Boundary], boundary))


def _on_grid(psi: Any, potential: Any, boundary: Boundary | Sequence[Boundary]) -> None:
    """Raise ArgumentError where the potential does not lie on the points that the magic filter gives."""
    arrays.check_orbitals(psi, _AXES)
    refuse_masks(potential, "potential")
    kinds = _boundaries(boundary)
    if len(kinds) != _AXES or not set(kinds) <= {"periodic", "zero", "grow"}:
        raise ArgumentError(f"boundary={boundary!r}: periodic, zero or grow, one for all axes or one for each of three")
    free = len(MAGICFILTER.taps) - 1
    shape = tuple(n + (free if kind == "grow" else 0) for n, kind in zip(psi.shape[-_AXES:], kinds, strict=True))
    kind, named = (Buffer, "Buffer") if isinstance(psi, Buffer) else (np.ndarray, "NumPy array")
    if not isinstance(potential, kind) or tuple(potential.shape) != shape or potential.dtype != psi.dtype:
        have = convolve.described(potential)
        raise ArgumentError(f"the potential is {have}; with this psi it must be a {named} of shape {shape} and dtype {psi.dtype}")


def _moved(psi: Any, others: tuple[Any, ...], device: str | None) -> bool:
    """Whether NumPy arrays are better worked on in the device's memory: it has its own, and they fit."""
    if not isinstance(psi, np.ndarray):
        return False
    chip = devices.get(device)
    orbital = psi.nbytes if psi.ndim == _AXES else psi.nbytes // max(psi.shape[0], 1)
    return not chip.info.unified_memory and not limit.too_large(chip, (*(other.nbytes for other in others), *[4 * orbital] * 4))


def _on_device(array: Any, device: str | None) -> Any:
    return Buffer.from_numpy(array, devices.get(device)) if isinstance(array, np.ndarray) else array


def _each(psi: Any, apply: Callable[[Any], Any], others: tuple[Any, ...], device: str | None) -> Any:
    """``apply`` to one orbital, or to each of a batch; on a device with memory of its own nothing comes back in between."""
    orbitals = [psi] if psi.ndim == _AXES else [psi[place] for place in range(psi.shape[0])]
    if not orbitals:
        raise ArgumentError("a batch of no orbitals has no result")
    if isinstance(psi, np.ndarray):
        moved = _moved(psi, others, device)
        found = [apply(_on_device(orbital, device) if moved else orbital) for orbital in orbitals]
        host = [one.numpy() if isinstance(one, Buffer) else one for one in found]
        return host[0] if psi.ndim == _AXES else np.stack(host)
    if psi.ndim == _AXES:
        return apply(psi)
    first = apply(orbitals[0])
    whole = Buffer.empty((len(orbitals), *first.shape), first.dtype, first.device)
    for place, orbital in enumerate(orbitals):
        part = first if place == 0 else apply(orbital)
        first.device.default_queue().copy(whole.memory, part.memory, part.nbytes, whole[place].offset, part.offset)
    return whole
