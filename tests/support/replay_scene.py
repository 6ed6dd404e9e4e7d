"""Random calls on few addresses, which come again with other shapes, strides and types: what is known of an address must never be believed.

Blocks of memory are few, and so are the operands that are drawn in them, so that most calls come again until they are known by their
addresses; in between the very same tensors are described otherwise.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

import portatile
from portatile.runtime import perform
from portatile.runtime.one_device.engine import engine_of
from portatile.runtime.repeated.replayed import Replays

Array = NDArray[Any]
_BYTES = 1 << 12  # of a block
_LOOKS = 3  # problems of which one is drawn
_UNIT = {"float32": 2.0**-24, "float64": 2.0**-53}


class Tensors(ABC):
    """A library of arrays, whose memory lies in blocks."""

    @abstractmethod
    def block(self, nbytes: int) -> Any:
        """New memory."""

    @abstractmethod
    def bytes_of(self, block: Any) -> Array:
        """A copy of what is there, as bytes."""

    @abstractmethod
    def fill(self, block: Any, values: Array) -> None:
        """Put bytes there."""

    @abstractmethod
    def tensor(self, block: Any, layout: Layout) -> Any:
        """A tensor that lies there."""

    @abstractmethod
    def become(self, tensor: Any, block: Any, layout: Layout) -> None:
        """Have the very same tensor lie otherwise."""

    def modes(self) -> Sequence[Callable[[], AbstractContextManager[Any]]]:
        """What calls are made in: streams, modes of the library."""
        return (nullcontext,)


@dataclass(frozen=True)
class Layout:
    """How a tensor lies in a block: the strides and the offset are in elements."""

    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int

    def over(self, raw: Array) -> Array:
        """The elements in a block's bytes."""
        itemsize = np.dtype(self.dtype).itemsize
        strides = tuple(step * itemsize for step in self.strides)
        return np.ndarray(self.shape, self.dtype, raw, self.offset * itemsize, strides)


@dataclass(frozen=True)
class Look:
    """A problem: its routine, layouts by operand (the output last), and alpha."""

    routine: str
    layouts: tuple[Layout, ...]
    alpha: float


def _layout(rng: random.Random, dtype: str, rows: int, columns: int) -> Layout:
    wide = rng.choice((0, 0, 0, 1, 4))
    offset = rng.choice((0, 0, 0, 0, 1, 32))
    if rng.random() < 0.35:
        return Layout(dtype, (rows, columns), (1, rows + wide), offset)
    return Layout(dtype, (rows, columns), (columns + wide, 1), offset)


def _shapes(routine: str, m: int, n: int, k: int) -> tuple[tuple[int, int], ...]:
    return {"trsm": ((m, m), (m, n)), "syrk": ((m, k), (m, m))}.get(routine, ((m, k), (k, n), (m, n)))


def _sizes(rng: random.Random, largest: int) -> list[int]:
    sizes = [rng.choice((1, 4, largest, rng.randint(1, largest))) for _ in range(3)]
    return [sizes[0]] * 3 if rng.random() < 0.4 else sizes


def _look(rng: random.Random, largest: int) -> Look:
    dtype = rng.choice(("float32", "float32", "float64"))
    routine = rng.choice(("matmul", "matmul", "gemm", "new", "new", "accumulate", "trsm", "syrk"))
    layouts = tuple(_layout(rng, dtype, *shape) for shape in _shapes(routine, *_sizes(rng, largest)))
    return Look(routine, layouts, rng.choice((1.0, 1.0, -0.5, 2.0)))


def _another(rng: random.Random, look: Look, largest: int) -> Look:
    """A look with the same addresses and factors, in other shapes, strides or another type."""
    layouts = list(look.layouts)
    what = rng.choice(("shapes", "strides", "strides", "type"))
    if what == "shapes":
        shapes = _shapes(look.routine, *_sizes(rng, largest))
        layouts = [replace(_layout(rng, old.dtype, *shape), offset=old.offset) for old, shape in zip(layouts, shapes, strict=True)]
    elif what == "strides":
        at = rng.randrange(len(layouts))
        layouts[at] = replace(_layout(rng, layouts[at].dtype, *layouts[at].shape), offset=layouts[at].offset)
    else:
        dtype = "float64" if layouts[0].dtype == "float32" else "float32"
        layouts = [replace(old, dtype=dtype, offset=0) for old in layouts]
    return replace(look, layouts=tuple(layouts))


def _expected(look: Look, given: Sequence[Array]) -> tuple[Array, Array]:
    """The result, and the sums of moduli that its error is relative to, in float64."""
    wide = [array.astype(np.float64) for array in given]
    if look.routine == "trsm":
        triangle = np.tril(wide[0])
        return np.linalg.solve(triangle, look.alpha * wide[1]), 100 * np.abs(wide[1]) + 100
    if look.routine == "syrk":
        return np.tril(look.alpha * wide[0] @ wide[0].T) + np.triu(wide[1], 1), np.abs(wide[0]) @ np.abs(wide[0]).T + 1
    product, moduli = wide[0] @ wide[1], np.abs(wide[0]) @ np.abs(wide[1])
    if look.routine in ("matmul", "new"):
        return product, moduli
    return look.alpha * product + (wide[2] if look.routine == "accumulate" else 0), 2 * moduli + 1


def _call(look: Look, tensors: Sequence[Any]) -> Any:
    if look.routine == "new":
        return portatile.matmul(tensors[0], tensors[1])
    if look.routine == "matmul":
        return portatile.matmul(tensors[0], tensors[1], out=tensors[2])
    if look.routine == "gemm":
        return portatile.gemm(tensors[0], tensors[1], alpha=look.alpha, out=tensors[2])
    if look.routine == "accumulate":
        return portatile.gemm(tensors[0], tensors[1], tensors[2], alpha=look.alpha, beta=1.0, out=tensors[2])
    if look.routine == "syrk":
        return portatile.syrk(tensors[0], tensors[1], alpha=look.alpha, beta=0.0, out=tensors[1])
    return portatile.trsm(tensors[0], tensors[1], alpha=look.alpha, out=tensors[1])


class Scene:
    """Calls that follow from a seed; ``outcomes`` counts those that were known by their addresses, and others."""

    def __init__(self, library: Tensors, seed: str, device: Any, largest: int = 8) -> None:
        self._rng, self._library, self._device, self._largest = random.Random(seed), library, device, largest
        self._numbers = np.random.default_rng(self._rng.getrandbits(64))
        self._blocks = [library.block(_BYTES) for _ in range(3)]
        self._looks = [_look(self._rng, largest) for _ in range(_LOOKS)]
        self._looks[1:] = [_another(self._rng, self._looks[0], largest) for _ in self._looks[1:]]
        self._tensors: list[Any] = []
        self.outcomes: Counter[str] = Counter()

    def run(self, calls: int, read: Callable[[Any], Array]) -> None:
        """So many calls, each checked; ``read`` gives a new result as a NumPy array."""
        run, make = Replays.run, Replays.make

        def counted(replays: Replays, *args: Any) -> bool:
            known = run(replays, *args)
            self.outcomes["known" if known else "long way"] += 1
            return known

        def counted_new(replays: Replays, *args: Any) -> Any:
            result = make(replays, *args)
            self.outcomes["new, long way" if result is None else "new, known"] += 1
            return result

        Replays.run, Replays.make = counted, counted_new  # type: ignore[method-assign,assignment]
        try:
            for _ in range(calls):
                self._disturb()
                self._one(self._rng.choice(self._looks), read)
        finally:
            Replays.run, Replays.make = run, make  # type: ignore[method-assign]

    def _disturb(self) -> None:
        """Now and then something else happens first."""
        rng = self._rng
        chance = rng.random()
        if chance < 0.04:
            first = rng.choice(self._looks)
            self._looks[rng.randrange(_LOOKS)] = _another(rng, first, self._largest) if rng.random() < 0.8 else _look(rng, self._largest)
        elif chance < 0.05:
            self._blocks[rng.randrange(3)] = self._library.block(_BYTES)
        elif chance < 0.06:
            engine_of(self._device).free_workspaces()
        elif chance < 0.065:
            perform.forget()

    def _one(self, look: Look, read: Callable[[Any], Array]) -> None:
        rng, library = self._rng, self._library
        raws: list[Array] = []
        for block, layout in zip(self._blocks, look.layouts, strict=False):
            raw = self._numbers.integers(0, 256, _BYTES, np.uint8)
            values = layout.over(raw)
            values[...] = self._numbers.uniform(-1, 1, layout.shape)
            if look.routine == "trsm" and not raws:
                values += 4 * np.eye(len(values), dtype=values.dtype)
            raws.append(raw)
            library.fill(block, raw)
        if len(self._tensors) < len(look.layouts) or rng.random() < 0.2:
            self._tensors = [library.tensor(block, layout) for block, layout in zip(self._blocks, look.layouts, strict=False)]
        tensors = self._tensors[: len(look.layouts)]
        for tensor, block, layout in zip(tensors, self._blocks, look.layouts, strict=False):
            library.become(tensor, block, layout)
        given = [layout.over(raw).copy() for layout, raw in zip(look.layouts, raws, strict=True)]
        expected, moduli = _expected(look, given)
        with rng.choice(library.modes())():
            result = _call(look, tensors)
            got = read(result)
            after = [library.bytes_of(block) for block in self._blocks[: len(raws)]]
        bound = 64 * (sum(look.layouts[0].shape) + 8) * _UNIT[look.layouts[0].dtype] * moduli
        assert got.shape == expected.shape, f"{look}: {got.shape}"
        assert (np.abs(got - expected) <= bound).all(), f"{look}: off by {np.abs(got - expected).max()}"
        last = look.layouts[-1]
        if look.routine != "new":
            assert result is tensors[-1]
            last.over(raws[-1])[...] = last.over(after[-1])
        for place, (before, now) in enumerate(zip(raws, after, strict=True)):
            assert (before == now).all(), f"{look}: bytes of operand {place} that are none of the output's were written"
