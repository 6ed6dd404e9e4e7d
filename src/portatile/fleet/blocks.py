"""Routines on Dask arrays, for data larger than one machine's memory: each block is computed on the device of the worker that holds it.

A block is a NumPy array in its worker's memory, which the routine reads in place. Filters need some elements of the neighbouring blocks,
and only these are sent; products need a row of blocks of one operand and a column of blocks of the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from portatile.arguments import axes
from portatile.arguments.axes import AXES, Boundary
from portatile.errors import ArgumentError, UsageError
from portatile.routines.convolve import convolve1d as filter_block
from portatile.routines.convolve import convolve3d_separable as filter_volume
from portatile.routines.gemm import gemm
from portatile.routines.mri import mri_q as image_of

Collection = Any
"""A dask.array.Array."""
_KEEP_SIZE: dict[str, Any] = {"periodic": "periodic", "zero": 0}  # and what Dask puts around the whole array


def matmul(a: Collection, b: Collection) -> Collection:
    """The product of two matrices, m x k and k x n, block by block; the result has the rows of ``a``'s blocks and the columns of ``b``'s.

    A task holds one row of ``a``'s blocks and one column of ``b``'s, so choose smaller blocks along m and n to use less memory.
    Raises ArgumentError for
    shapes and dtypes that do not fit.

    Examples:
        >>> import dask.array as da, numpy as np
        >>> from portatile.fleet import blocks
        >>> a, b = da.ones((6, 4), chunks=(3, 2)), da.ones((4, 5), chunks=(2, 5))
        >>> bool((blocks.matmul(a, b).compute() == 4).all())
        True
    """
    da = _dask_array()
    for name, array in (("a", a), ("b", b)):
        _check(array, name, 2)
    if a.shape[1] != b.shape[0] or a.dtype != b.dtype:
        raise ArgumentError(f"a is {a.shape} {a.dtype} and b is {b.shape} {b.dtype}: a's columns must be b's rows, of one dtype")
    return da.blockwise(_product, "ij", a, "ik", b.rechunk({0: a.chunks[1]}), "kj", dtype=a.dtype, concatenate=False)


def convolve1d(psi: Collection, taps: ArrayLike, *, lower: int, boundary: Boundary = "periodic") -> Collection:
    """``portatile.convolve1d`` along the first axis of an array of any number of dimensions; ``boundary`` is ``periodic`` or ``zero``.

    The blocks stay as they are. Raises ArgumentError for what does not fit.

    Examples:
        >>> import dask.array as da
        >>> from portatile.fleet import blocks
        >>> blocks.convolve1d(da.from_array([[1.0], [2.0], [4.0]], chunks=(2, 1)), [-1.0, 1.0], lower=0).compute()[:, 0]
        array([ 1.,  2., -3.])
    """
    _check(psi, "psi")
    return _filtered(psi, [axes.one_filter(taps)], [lower], [axes.kind_of(boundary)])


def convolve3d_separable(
    array: Collection,
    taps: ArrayLike | Sequence[ArrayLike],
    *,
    lower: int | Sequence[int],
    boundary: Boundary | Sequence[Boundary] = "periodic",
) -> Collection:
    """``portatile.convolve3d_separable`` of a volume: one filter for each axis; ``boundary`` is ``periodic`` or ``zero``.

    The blocks stay as they are; each is computed once, from itself and what it needs of its neighbours. Raises ArgumentError for what does
    not fit.
    """
    _check(array, "array", AXES)
    return _filtered(array, list(axes.filters(taps)), list(axes.for_each(lower, "values of lower")), list(axes.kinds(boundary)))


def mri_q(
    kx: ArrayLike, ky: ArrayLike, kz: ArrayLike, phi_r: ArrayLike, phi_i: ArrayLike, x: Collection, y: Collection, z: Collection
) -> tuple[Collection, Collection]:
    """``portatile.mri_q`` for voxels in blocks: every block is summed over all samples. The real and the imaginary part come back."""
    da = _dask_array()
    for name, voxels in (("x", x), ("y", y), ("z", z)):
        _check(voxels, name, 1)
    samples = [np.ascontiguousarray(vector, np.float32) for vector in (kx, ky, kz, phi_r, phi_i)]
    same = [voxels.rechunk(x.chunks) for voxels in (x, y, z)]
    image = da.map_blocks(
        _image, *same, samples=samples, dtype=np.float32, new_axis=0, chunks=((2,), x.chunks[0]), meta=np.empty((0, 0), np.float32)
    )
    return image[0], image[1]


def _filtered(array: Collection, filters: list[NDArray[Any]], lower: list[int], kinds: list[str]) -> Collection:
    """The filters along the first axes, each block from itself and a border of its neighbours."""
    wrong = [kind for kind in kinds if kind not in _KEEP_SIZE]
    if wrong:
        raise ArgumentError(f"boundary={wrong[0]!r} changes the size of the blocks; use periodic or zero")
    reach = [(-first, first + taps.shape[1] - 1) for taps, first in zip(filters, lower, strict=True)]
    depth = {axis: max(0, *sides) for axis, sides in enumerate(reach)}
    for axis, needed in depth.items():
        least = min(array.chunks[axis])
        if least < needed:
            raise ArgumentError(
                f"blocks of {least} along axis {axis} are thinner than the filter, which reaches {needed}: rechunk the array"
            )
    da = _dask_array()
    around = {axis: _KEEP_SIZE[kind] for axis, kind in enumerate(kinds)}
    return da.map_overlap(
        _filter,
        array,
        depth=depth,
        boundary=around,
        trim=False,
        dtype=array.dtype,
        chunks=array.chunks,
        meta=np.empty((0,) * array.ndim, array.dtype),
        filters=filters,
        reach=reach,
        border=depth,
    )


def _filter(block: NDArray[Any], filters: list[NDArray[Any]], reach: list[tuple[int, int]], border: dict[int, int]) -> NDArray[Any]:
    """Filter one block with its border; only the results inside the block are returned."""
    needed = tuple(slice(border[axis] - before, block.shape[axis] - border[axis] + after) for axis, (before, after) in enumerate(reach))
    inner = np.ascontiguousarray(block[needed])
    taps = [row[0] for row in filters]
    lower = [-before for before, _ in reach]
    if len(filters) == 1:
        return np.asarray(filter_block(inner, taps[0], lower=lower[0], boundary="shrink"))
    return np.asarray(filter_volume(inner, taps, lower=lower, boundary="shrink"))


def _product(a: list[NDArray[Any]], b: list[NDArray[Any]]) -> NDArray[Any]:
    """The sum of the products of a row of blocks and a column of blocks, in one output."""
    out = np.empty((a[0].shape[0], b[0].shape[1]), a[0].dtype)
    for place, (left, right) in enumerate(zip(a, b, strict=True)):
        gemm(_stored(left), _stored(right), out if place else None, beta=1.0 if place else 0.0, out=out)
    return out


def _stored(block: NDArray[Any]) -> NDArray[Any]:
    """The block; copied if its elements share memory, as those of Dask's ones and zeros do."""
    return block if 0 not in block.strides else np.ascontiguousarray(block)


def _image(x: NDArray[Any], y: NDArray[Any], z: NDArray[Any], samples: list[NDArray[Any]]) -> NDArray[Any]:
    kx, ky, kz, phi_r, phi_i = samples
    return np.stack(image_of(kx, ky, kz, phi_r, phi_i, *map(_stored, (x, y, z))))


def _check(array: Any, name: str, dimensions: int | None = None) -> None:
    """Raise ArgumentError for what is no Dask array of that many dimensions."""
    da = _dask_array()
    if not isinstance(array, da.Array):
        raise ArgumentError(f"{name} is a {type(array).__name__}; pass a dask.array, or call the routine of portatile itself")
    if dimensions is not None and array.ndim != dimensions:
        raise ArgumentError(f"{name} has {array.ndim} dimensions; it must have {dimensions}")


def _dask_array() -> Any:
    try:
        import dask.array
    except ImportError:
        raise UsageError("arrays in blocks need Dask: pip install 'portatile[cluster]', in a clone '.[cluster]'") from None
    return dask.array
