"""A space as a search sees it: configurations as tuples of positions and as points with coordinates, and ways to draw more of them."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from portatile.records import Config, Value
from portatile.space import ParameterSpace

Code = tuple[int, ...]  # for each parameter, the position of its value
Array = NDArray[np.float64]

LISTED = 20_000  # combinations up to which a space is enumerated rather than sampled


class Encoding:
    """Configurations of ``space`` as codes, and codes as points in the unit cube.

    A numeric parameter becomes the mean of its logarithm and its rank, each scaled to 0..1: sizes act by their ratio, but lists of
    values are chosen so that each step matters. If divisibility varies over its values apart from their size, the
    number of factors of two is a second coordinate, because vector widths, banks and work-groups depend on it.
    A text becomes one coordinate per value, with distance 1 between two values.
    """

    def __init__(self, space: ParameterSpace) -> None:
        self.space = space
        self.values = tuple(space.parameters.values())
        self.names = tuple(space.parameters)
        self._places = [{(type(value), value): place for place, value in enumerate(values)} for values in self.values]
        tables = [_coordinates(values) for values in self.values]
        self.dimensions = sum(table.shape[1] for table in tables)
        self._tables = [(column, table) for column, table in enumerate(tables) if table.shape[1]]

    def code(self, config: Config) -> Code:
        """The positions of the values of ``config``, or of the values that stand for those it lacks."""
        values = self.space.full(config).values()
        try:
            return tuple([places[type(value), value] for places, value in zip(self._places, values, strict=True)])
        except KeyError:  # a value of another type, equal to one of the space's
            return tuple(known.index(value) for known, value in zip(self.values, values, strict=True))

    def config(self, code: Code) -> dict[str, Value]:
        """The configuration of ``code``."""
        return self.space.named({name: values[place] for name, values, place in zip(self.names, self.values, code, strict=True)})

    def points(self, codes: Sequence[Code] | NDArray[np.int64]) -> Array:
        """The coordinates, [codes, dimensions]."""
        positions = np.asarray(codes, dtype=np.int64).reshape(len(codes), len(self.names))
        blocks = [table[positions[:, column]] for column, table in self._tables]
        return np.concatenate(blocks, axis=1) if blocks else np.zeros((len(codes), 0))


class SearchDomain:
    """The configurations that a search considers: all of them if the space can be enumerated, otherwise random draws and neighbours.

    ``listed`` holds the codes of all legal configurations, [count, parameters], or is None.
    """

    def __init__(self, space: ParameterSpace, rng: np.random.Generator) -> None:
        self.space, self.rng = space, rng
        self.encoding = Encoding(space)
        self.listed: NDArray[np.int64] | None = None
        self._legal: frozenset[Code] | None = None
        if space.recorded or space.size <= LISTED:
            codes = [self.encoding.code(config) for config in space]
            self.listed = np.array(codes, dtype=np.int64).reshape(len(codes), len(self.encoding.names))
            self._legal = frozenset(codes)
        self._around: dict[Code, list[Code]] = {}

    def draw(self, count: int, known: Collection[Code] = ()) -> list[Code]:
        """Up to ``count`` different random codes that are not ``known``; for a space that is not listed perhaps none although some are
        left.
        """
        if self.listed is not None:
            order = self.rng.permutation(len(self.listed))[: count + len(known)]
            fresh = (code for code in map(tuple, self.listed[order].tolist()) if code not in known)
            return list(islice(fresh, count))
        scattered = map(self.encoding.code, self.space.scatter(self.rng, count))
        return list(dict.fromkeys(code for code in scattered if code not in known))

    def around(self, code: Code) -> list[Code]:
        """The legal codes that differ from ``code`` in one parameter."""
        if code not in self._around:
            if self._legal is None:
                config = self.encoding.config(code)
                self._around[code] = [self.encoding.code(other) for other in self.space.neighbours(config)]
            else:
                self._around[code] = [other for other in self._one_off(code) if other in self._legal]
        return self._around[code]

    def legal(self, code: Code) -> bool:
        """Whether the code is a legal configuration of the space."""
        if self._legal is not None:
            return code in self._legal
        config = self.encoding.config(code)
        return config in self.space and self.encoding.code(config) == code

    def fresh(self, count: int, known: Collection[Code]) -> list[Code]:
        """Like ``draw``, but certain to find what is left: if draws find nothing new, the space is enumerated."""
        drawn = self.draw(count, known)
        return drawn or list(islice(self.rest(known), count))

    def rest(self, known: Collection[Code]) -> Iterable[Code]:
        """Every legal code that is not ``known``, enumerated lazily."""
        return (code for code in map(self.encoding.code, self.space) if code not in known)

    def spread(self, count: int, known: Collection[Code] = ()) -> list[Code]:
        """Up to ``count`` drawn codes, each as far as possible from those before it and from ``known``."""
        drawn = self.draw(8 * count, known)
        if not drawn:
            return []
        points = self.encoding.points(drawn)
        if known:
            far = np.min([((points - point) ** 2).sum(axis=1) for point in self.encoding.points(list(known))], axis=0)
            chosen: list[int] = []
        else:
            far = ((points - points[0]) ** 2).sum(axis=1)
            chosen = [0]
        while len(chosen) < min(count, len(drawn)):
            far[chosen] = -1.0
            chosen.append(int(np.argmax(far)))
            far = np.minimum(far, ((points - points[chosen[-1]]) ** 2).sum(axis=1))
        return [drawn[i] for i in chosen]

    def _one_off(self, code: Code) -> Iterable[Code]:
        for parameter, values in enumerate(self.encoding.values):
            for place in range(len(values)):
                if place != code[parameter]:
                    yield (*code[:parameter], place, *code[parameter + 1 :])


def _coordinates(values: Sequence[Value]) -> Array:
    """The coordinates of each value, [values, coordinates]; none for a constant."""
    if len(values) < 2:
        return np.zeros((len(values), 0))
    if any(isinstance(value, str) for value in values):
        return np.identity(len(values)) / math.sqrt(2.0)
    numbers = np.array([float(value) for value in values])
    shifted: Array = numbers if numbers.min() > 0 else numbers - numbers.min() + 1.0
    size = (_unit(np.log(shifted)) + _unit(np.argsort(np.argsort(numbers)).astype(float))) / 2
    twos = np.array([_factors_of_two(value) for value in values], dtype=float)
    if len(values) > 3 and np.ptp(twos) > 0 and abs(np.corrcoef(size, twos)[0, 1]) < 0.95:
        return np.stack([size, _unit(twos)], axis=1)
    return size[:, None]


def _unit(numbers: Array) -> Array:
    scaled: Array = (numbers - numbers.min()) / max(float(np.ptp(numbers)), 1e-300)
    return scaled


def _factors_of_two(value: Value) -> int:
    integer = int(value)
    return (integer & -integer).bit_length() - 1 if integer == value and integer else 0
