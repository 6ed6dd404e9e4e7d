"""The contract of a tunable computation: everything that portatile needs to run, check, tune and explain it."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from portatile.dtypes import factor
from portatile.errors import ArgumentError, UnknownNameError
from portatile.images import ImageForm
from portatile.records import Config, DeviceInfo, Layout, Plan, Problem, Value
from portatile.space import ParameterSpace

_LARGEST = 2**63  # bytes: no address goes further

Operands = dict[str, NDArray[np.generic]]
Scalars = dict[str, Any]
"""Factors by name: real numbers, or complex ones of complex operands."""


@dataclass(frozen=True)
class Operand:
    """An array that a computation reads or writes. ``role``: ``in``, ``out`` (old content never read) or ``inout``.

    ``form`` describes the image where kernels take it as one.
    """

    name: str
    role: str = "in"
    form: ImageForm | None = None


@dataclass(frozen=True)
class Inputs:
    """Operands and scalars of one problem.

    ``operands`` maps a name to its memory: a one-dimensional array that an operand's Layout indexes. Elements outside the layout are
    NaN, and so are operands of role ``out``.
    """

    operands: Operands
    scalars: Scalars = field(default_factory=dict)


@dataclass(frozen=True)
class Expected:
    """The expected content of an output: ``values`` at ``indices`` of its memory (``None``: everywhere), in float64 or complex128.

    ``scale`` is the magnitude of the rounding error at each place; a result is right when
    ``|result - value| <= bound * scale``. Where ``scale`` is 0 the result must be equal (NaN equals NaN): padding is untouched.
    With a ``reduction`` (``sum``, ``min`` or ``max``) only that of all elements is compared, with the one number in ``values``.
    """

    values: NDArray[Any]
    scale: NDArray[np.float64]
    indices: NDArray[np.int64] | None = None
    reduction: str = ""


@dataclass(frozen=True)
class Cut:
    """A size along which a problem may be split into parts that are computed one by one.

    - ``pieces``: the operands of which a part takes a piece: ``rows`` or ``columns`` of the stored matrix, or ``matrices`` of a stack.
      Other operands are taken whole. ``unit``: rows or columns for each step of the size.
    - ``first``: the scalar that takes the index of a part's first step, if there is one.
    - ``period``: a part that begins at a multiple of it computes every element with the same roundings as the whole does.
    - ``sums``: the parts are terms. Each computes the whole output, and the host adds the results. This rounds in another order and
      needs an output of role ``out`` whose bound allows that, so it is used only if no other split makes the parts small enough.
    """

    size: str
    pieces: Mapping[str, str]
    unit: int = 1
    first: str = ""
    period: int = 1
    sums: bool = False


CONJUGATE = "*"
"""A suffix to the name of a scalar in a ``Member``: the scalar's conjugate is passed."""


@dataclass(frozen=True)
class Member:
    """One of the problems that together compute some rows of a triangular output.

    ``operands`` maps each operand to one of the whole problem's and the ranges of its rows and columns, as stored. ``scalars`` are
    numbers, or names of the whole problem's scalars.
    """

    workload: str
    dtype: str
    sizes: Mapping[str, int]
    options: Mapping[str, Value]
    operands: Mapping[str, tuple[str, tuple[int, int], tuple[int, int]]]
    scalars: Mapping[str, float | str]


class Workload(ABC):
    """A computation that can be tuned. One folder in ``workloads``, found by its name.

    Class attributes:

    - ``name``, and ``aliases``: other names that users may write.
    - ``sizes``: name -> meaning. ``scalars``: name -> default value. ``dtypes``. ``operands``, the output last.
    - ``options``: name -> allowed values, the default first. ``implied``: options that a problem leaves out at their default.
    - ``presets``: name of a published configuration -> what it is.
    - ``meanings``: parameter -> what it does, a sentence or two for users; see ``explained``.
    - ``products``: whether its operations are those of matrix products, which matrix units may do.
    - ``triangle``: where only a triangle of the output is computed, the size that is its order; see ``members``.
    - ``hint``: a sentence that ``portatile tune`` prints for users who may mean another workload.
    """

    name: str
    sizes: Mapping[str, str]
    options: Mapping[str, tuple[Value, ...]] = {}
    dtypes: tuple[str, ...] = ("float32", "float64")
    operands: tuple[Operand, ...] = ()
    scalars: Mapping[str, float] = {}
    products: bool = False
    triangle: str = ""
    implied: frozenset[str] = frozenset()
    presets: Mapping[str, str] = {}
    meanings: Mapping[str, str] = {}
    aliases: tuple[str, ...] = ()
    hint: str = ""

    def problem(
        self,
        sizes: Mapping[str, int],
        dtype: str = "float32",
        options: Mapping[str, Value] | None = None,
        layout: Mapping[str, Layout] | None = None,
    ) -> Problem:
        """A checked problem. Defaults: the first value of each option, packed row-major operands.

        Raises ArgumentError or UnknownNameError, which say what is allowed.
        """
        options = options or {}
        self._check_known(sizes, self.sizes, "size")
        self._check_known(options, self.options, "option")
        self._check_sizes(sizes)
        if isinstance(dtype, (type, np.dtype)):  # as NumPy's users write it: np.float32
            dtype = np.dtype(dtype).name
        if dtype not in self.dtypes:
            raise ArgumentError(f"{self.name} does not support dtype {dtype!r}; it supports {', '.join(self.dtypes)}")
        chosen = self._option_values(self.normalised(dtype, options))
        bare = Problem(self.name, {name: int(sizes[name]) for name in self.sizes}, dtype, chosen)
        shapes = self.shapes(bare)
        for name, shape in shapes.items():
            if math.prod(shape) * bare.itemsize >= _LARGEST:
                raise ArgumentError(f"{self.name}: {name} would be an array of shape {shape}, larger than any memory; choose smaller sizes")
        packed = {name: packed_layout(shape) for name, shape in shapes.items()}
        self._check_known(layout or {}, packed, "operand")
        return Problem(bare.workload, bare.sizes, dtype, chosen, {**packed, **(layout or {})})

    def _check_known(self, names: Iterable[str], known: Mapping[str, object], kind: str) -> None:
        """Raise UnknownNameError for a name that is not ``known``."""
        for name in names:
            if name not in known:
                raise UnknownNameError(f"{self.name} {kind}", name, known)

    def _check_sizes(self, sizes: Mapping[str, Any]) -> None:
        """Raise ArgumentError for a size that is missing, or is no whole number."""
        for name, meaning in self.sizes.items():
            size = sizes.get(name)
            if size is None:
                raise ArgumentError(f"{self.name} needs the size {name!r} ({meaning})")
            if not isinstance(size, (int, float, np.number)) or not math.isfinite(size) or int(size) != size or size < 0:
                raise ArgumentError(f"{self.name}: size {name}={size!r} must be a whole number, 0 or more")

    def normalised(self, dtype: str, options: Mapping[str, Value]) -> Mapping[str, Value]:
        """The given options of a problem of this dtype, each by the one of its values that stands for all of the same effect."""
        return options

    def _option_values(self, options: Mapping[str, Any]) -> dict[str, Value]:
        """A value for each option, without the ``implied`` ones at their default. Raises ArgumentError for a value that is not allowed."""
        values = {name: allowed[0] for name, allowed in self.options.items()}
        values |= {name: value.item() if isinstance(value, np.generic) else value for name, value in options.items()}
        values = {name: value for name, value in values.items() if name not in self.implied or value != self.options[name][0]}
        for name, value in values.items():
            if value not in self.options[name]:
                raise ArgumentError(f"{self.name}: {name}={value!r} is not one of {self.options[name]}")
        return values

    def operands_of(self, options: Mapping[str, Value]) -> tuple[Operand, ...]:
        """The operands of problems with these options, the output last: ``operands``, where options add none."""
        return self.operands

    @abstractmethod
    def shapes(self, problem: Problem) -> dict[str, tuple[int, ...]]:
        """The shape of each operand in memory."""

    def element(self, problem: Problem, operand: str) -> str:
        """The dtype of an operand's elements."""
        return problem.dtype

    @abstractmethod
    def space(self, problem: Problem, device: DeviceInfo) -> ParameterSpace:
        """The configurations that are legal for the problem on the device."""

    @abstractmethod
    def default(self, problem: Problem, device: DeviceInfo) -> Config:
        """A configuration that is always legal and correct, and reasonably fast."""

    def contenders(self, problem: Problem, device: DeviceInfo) -> Sequence[Config]:
        """Configurations that are worth timing beside the default when an untuned problem is first computed: legal ones, the most
        promising first. None where the default is as good as known.
        """
        return ()

    @abstractmethod
    def plan(self, problem: Problem, config: Config, device: DeviceInfo) -> Plan:
        """The steps that compute the problem."""

    def preset(self, name: str, problem: Problem) -> Config:
        """The configuration that one of ``presets`` names, for the problem; raises UnknownNameError for any other name."""
        raise UnknownNameError(f"preset of {self.name}", name, self.presets)

    def canonical(self, config: Config) -> Config:
        """``config``, perhaps recorded by an earlier version, in the space's present names; raises UsageError where that fails."""
        return config

    def translated(self, config: Config) -> Mapping[str, Value]:
        """A configuration of another program, in this workload's parameters; empty where it belongs to another computation."""
        return {}

    def explained(self, config: Config) -> Mapping[str, str]:
        """The meaning of each parameter of ``config``, for users: by default ``meanings``."""
        return self.meanings

    def wins(self, problem: Problem, device: DeviceInfo) -> bool:
        """For an emulation of a product: whether it is expected to be faster than the native one, with an error bound that is no larger."""
        return False

    def note(self, problem: Problem, config: Config, device: DeviceInfo) -> str:
        """A sentence for ``explain`` where another computation runs than the workload's name says; else empty."""
        return ""

    def lowered(self, config: Config, device: DeviceInfo) -> Config:
        """``config`` of another device, without the instructions that ``device`` lacks, so that it compiles there."""
        return config

    @abstractmethod
    def inputs(self, problem: Problem, rng: np.random.Generator) -> Inputs:
        """Random operands and scalars in the problem's layout."""

    def usual_inputs(self, problem: Problem, rng: np.random.Generator) -> Inputs:
        """Inputs with the default scalars, for timing: a factor of 0, for instance, would save work that is counted."""
        inputs = self.inputs(problem, rng)
        return replace(inputs, scalars={**inputs.scalars, **{name: factor(problem.dtype, value) for name, value in self.scalars.items()}})

    @abstractmethod
    def reference(self, problem: Problem, inputs: Inputs, sample: np.random.Generator | None = None) -> dict[str, Expected]:
        """The expected content of each output, computed in float64 (for float64 problems too; the bound allows for both errors).

        With ``sample``, only at random places drawn from it, so that large problems are checked quickly.
        """

    @abstractmethod
    def bound(self, problem: Problem, config: Config) -> float:
        """The factor of ``Expected.scale`` that rounding explains for this configuration, with its source in the docstring."""

    @abstractmethod
    def flops(self, problem: Problem) -> float:
        """Floating-point operations by the field's convention, stated in the docstring."""

    def functions(self, problem: Problem) -> float:
        """Special functions (inverse roots, sines and cosines, exponentials) that a run needs, however they are computed."""
        return 0.0

    @abstractmethod
    def traffic(self, problem: Problem) -> float:
        """The fewest bytes that must cross the memory bus: each input read once, each output written once."""

    def speed(self, problem: Problem, seconds: float) -> tuple[float, str]:
        """The speed of a run that took ``seconds``, with its unit: Gflop/s, or GB/s of ``traffic`` without arithmetic."""
        flops = self.flops(problem)
        return (flops / seconds / 1e9, "Gflop/s") if flops > 0 else (self.traffic(problem) / seconds / 1e9, "GB/s")

    def waste(self, problem: Problem, config: Config, device: DeviceInfo) -> float:
        """The work of a configuration over the useful work, as far as the shape determines it: partial tiles, a last wave of groups.

        1 where nothing is known. ``predict`` transfers times between problems with it.
        """
        return 1.0

    def loss(self, problem: Problem, device: DeviceInfo) -> float:
        """An estimate of the default's time over the best one's where neither was measured; used by ``predict``."""
        return 1.25

    def loads(self, problem: Problem, config: Config) -> float:
        """The bytes that work-items load from local memory or the nearest cache, not from registers; 0 where nothing is known.

        The model ranks configurations by it before any is compiled.
        """
        return 0.0

    def reads(self, problem: Problem, scalars: Mapping[str, float]) -> frozenset[str]:
        """The operands whose old content matters with these scalars: by default all but outputs."""
        return frozenset(operand.name for operand in self.operands_of(problem.options) if operand.role != "out")

    def cuts(self, problem: Problem, config: Config) -> tuple[Cut, ...]:
        """The ways to split a problem that is too large for a device, for a configuration; by default none."""
        return ()

    def members(self, problem: Problem, first: int, past: int) -> tuple[Member, ...]:
        """The problems that compute the rows from ``first`` up to, not including, ``past`` of a triangular output, in order; by default
        none.
        """
        return ()

    def awkward(self, problem: Problem) -> list[Problem]:
        """Small edge-case problems, whose sizes no tile divides, with the options of ``problem``: variants are checked on them first."""
        return []

    def distance(self, one: Problem, other: Problem) -> float:
        """The distance of two problems: 0 for equal ones, infinite where a configuration of one is not used for the other."""
        if one.dtype != other.dtype:
            return float("inf")
        distance = sum(abs(np.log2((abs(one.sizes[s]) + 1) / (abs(other.sizes[s]) + 1))) for s in self.sizes)
        return float(distance + 2 * sum(one.options.get(o) != other.options.get(o) for o in self.options))


def packed_layout(shape: tuple[int, ...]) -> Layout:
    """Row-major strides without padding."""
    strides, step = [], 1
    for n in reversed(shape):
        strides.append(step)
        step *= max(n, 1)
    return Layout(tuple(reversed(strides)))
