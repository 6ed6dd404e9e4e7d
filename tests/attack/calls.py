"""Random problems of every routine on NumPy arrays, with the result that each must have and how far it may be from it.

A form is a routine with options, sizes, dtype and layouts. Problems of one form differ in their numbers.
They are drawn and checked together.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from portatile import dtypes
from portatile.runtime.host import numpy_products

if TYPE_CHECKING:
    from attack.libraries import Library

Array = NDArray[Any]

REAL, BOTH = ("float32", "float64"), ("float32", "float64", "complex64", "complex128")
_LINE = 64  # bytes: problems of a form begin alike in them
_LEAST_LAUNCH = numpy_products.LEAST_LAUNCH
_POISON = 255  # of each byte: NaN in every type of floats, -1 in integers


class Block:
    """Arrays of one shape, dtype and layout, one for each problem: ``views[i]`` lies somewhere in row i of ``raw``.

    Matrices are row- or column-major, with a wider row at times, and begin at a multiple of their elements' size. What ``block[i]`` gives
    is that view, or an array of another library that holds row i of ``raw`` and lies alike in it.
    """

    def __init__(
        self, rng: random.Random, count: int, shape: tuple[int, ...], dtype: str, row_major: bool = False, library: Library | None = None
    ) -> None:
        self.library = library
        self.carried: dict[int, Any] = {}
        kind = dtypes.ELEMENTS[dtype].numpy
        wide = [n + rng.choice((0, 0, 3)) if at >= len(shape) - 2 else n for at, n in enumerate(shape)]
        order = list(range(len(shape)))
        if len(shape) > 1 and not row_major and rng.random() < 0.4:
            order[-2:] = order[:-3:-1]
        strides, size = [0] * len(shape), kind.itemsize
        for axis in reversed(order):
            strides[axis], size = size, size * wide[axis]
        begin = kind.itemsize * rng.choice((0, 0, 0, 1, 2, 4, rng.randint(0, 16)))
        pitch = -(-(begin + size + 1) // _LINE) * _LINE
        memory = np.full(count * pitch + _LINE, _POISON, np.uint8)
        first = -memory.ctypes.data % _LINE
        self.raw = memory[first : first + count * pitch].reshape(count, pitch)
        self.views: Array = np.ndarray((count, *shape), kind, self.raw, begin, (pitch, *strides))

    def __getitem__(self, key: Any) -> Any:
        """The array of a problem; with a tuple, arrays that are such parts of these."""
        if isinstance(key, tuple):
            part = copy.copy(self)
            part.views, part.carried = self.views[key], {}
            return part
        if self.library is None:
            return self.views[key]
        if key not in self.carried:
            self.carried[key] = self.library.carry(self.raw[key], self.views[key])
        return self.carried[key]

    def intact(self) -> bool:
        """Whether nothing was written around the arrays; their elements are poisoned after it."""
        self.views.view(f"V{self.views.itemsize}")[...] = np.full(self.views.itemsize, _POISON, np.uint8).view(f"V{self.views.itemsize}")[0]
        return bool((self.raw == _POISON).all())


@dataclass(frozen=True)
class Problems:
    """Problems of one form: ``run(i, out)`` computes the one of number i into ``out``, an array like ``outputs.views[i]``.

    ``exact`` and ``allowed`` are of float64 or complex128, element by element, with the number first.
    """

    name: str
    outputs: Block
    run: Callable[[int, Array], object]
    exact: Array
    allowed: Array
    inputs: tuple[Block, ...] = ()

    def __len__(self) -> int:
        return len(self.exact)

    def wrong(self, number: int, out: Array) -> Array:
        """Which elements of a result lie outside their bound."""
        with np.errstate(invalid="ignore"):
            return ~(np.abs(wide(out) - self.exact[number]) <= self.allowed[number])  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Draw:
    """How a form is drawn: with sizes up to ``largest``, and so many problems."""

    rng: random.Random
    device: str | None
    largest: int
    count: int
    library: Library | None = None

    @property
    def numbers(self) -> np.random.Generator:
        """Random numbers that follow from ``rng``."""
        return np.random.default_rng(self.rng.getrandbits(64))

    def sizes(self, count: int, least: int = 1) -> list[int]:
        """Sizes, small ones more often; at times all the same."""
        rng = self.rng
        if count > 1 and rng.random() < 0.1:
            return self.sizes(1, least) * count
        return [
            max(least, min(self.largest, rng.choice((1, 2, 3, rng.randint(1, 16), rng.randint(1, self.largest))))) for _ in range(count)
        ]

    def empty(self, shape: tuple[int, ...], dtype: str, row_major: bool = False) -> Block:
        """Poisoned arrays."""
        return Block(self.rng, self.count, shape, dtype, row_major, self.library)

    def filled(self, shape: tuple[int, ...], dtype: str, row_major: bool = False) -> Block:
        """Arrays of random numbers between -1 and 1, or of any integers."""
        block = self.empty(shape, dtype, row_major)
        block.views[...] = random_numbers(self.numbers, block.views.shape, dtype)
        return block


def random_numbers(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> Array:
    """Random numbers of a type between -1 and 1, complex ones beside i too, or any integers."""
    kind = dtypes.ELEMENTS[dtype].numpy
    if kind.kind == "i":
        return rng.integers(-128, 128, shape, kind)
    real = rng.uniform(-1, 1, shape)
    return (real + 1j * rng.uniform(-1, 1, shape) if kind.kind == "c" else real).astype(kind)


def wide(array: Array) -> Array:
    """The numbers in float64 or complex128."""
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)


def bound(terms: Array, k: int, dtype: str, more: int = 8) -> Array:
    """(k + some) u of the magnitudes of the terms: any order of the sum; Higham, Accuracy and Stability, section 3.1, twice that.

    Four times of complex numbers, whose products are two sums each (lemma 3.5 there).
    """
    times = 4 if dtypes.ELEMENTS[dtype].components == 2 else 2
    return times * (k + more) * dtypes.ELEMENTS[dtype].unit * terms + 1e-300


def routines() -> list[str]:
    """The names of all that ``draw`` draws."""
    return list(_all())


def draw(
    rng: random.Random,
    device: str | None,
    largest: int = 96,
    count: int = 1,
    name: str | None = None,
    library: Library | None = None,
) -> Problems:
    """So many problems of a random form, of any routine or of one, with sizes up to ``largest``, on arrays of a library."""
    known = _all()
    if device is None:  # then NumPy may compute small products, in every second attempt
        numpy_products.forget()
        numpy_products.LEAST_LAUNCH = rng.choice((0.0, _LEAST_LAUNCH))
    return known[name or rng.choice(list(known))](Draw(rng, device, largest, count, library))


def _all() -> dict[str, Callable[[Draw], Problems]]:
    from attack import grids, products

    return {**products.ROUTINES, **grids.ROUTINES}
