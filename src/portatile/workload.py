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

_LARGEST = 2**63  # bytes: the end of the address space

Operands = dict[str, NDArray[np.generic]]
Scalars = dict[str, Any]
"""Scalar factors such as alpha, by name: real numbers, or complex numbers if the operands are complex."""


@dataclass(frozen=True)
class Operand:
    """An array that a computation reads or writes. ``role`` is ``in``, ``out`` (its old content is never read) or ``inout``.

    ``form`` describes the image if the kernels read the operand as one.
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
    With a ``reduction`` (``sum``, ``min`` or ``max``) only that reduction over all elements is compared, with the one number in ``values``.
    """

    values: NDArray[Any]
    scale: NDArray[np.float64]
    indices: NDArray[np.int64] | None = None
    reduction: str = ""


@dataclass(frozen=True)
class Cut:
    """A size along which a problem may be split into parts that are computed one by one.

    - ``pieces``: the operands that are cut with the problem, and what a part receives of each: ``rows`` or ``columns`` of the stored
      matrix, or ``matrices`` of a stack. Every part receives all other operands whole. ``unit``: rows or columns for each step of the size.
    - ``first``: the scalar that receives the index of a part's first step; empty if there is none.
    - ``period``: a part that begins at a multiple of it rounds every element exactly as the uncut problem does.
    - ``sums``: the parts are terms of a sum. Each computes the whole output, and the host adds the results. This rounds in another order
      and needs an output of role ``out`` whose bound allows that, so it is used only if no other split makes the parts small enough.
    """

    size: str
    pieces: Mapping[str, str]
    unit: int = 1
    first: str = ""
    period: int = 1
    sums: bool = False


CONJUGATE = "*"
"""Appended to the name of a scalar in a ``Member``, it means that the scalar's conjugate is passed."""


@dataclass(frozen=True)
class Member:
    """One of the problems that together compute some rows of a triangular output.

    ``operands`` maps each of its operands to an operand of the whole problem, with the ranges of rows and columns (as stored) that it
    covers. ``scalars`` are numbers, or names of the whole problem's scalars.
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
    - ``options``: name -> allowed values, the default first. ``implied``: options that a problem omits while they have their default.
    - ``presets``: name of a published configuration -> what it is.
    - ``meanings``: parameter -> what it does, a sentence or two for users; see ``explained``.
    - ``products``: whether its operations are those of matrix products, so that matrix units may compute them.
    - ``triangle``: if only a triangle of the output is computed, the size that is the triangle's order; see ``members``.
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
        """The given options, where each value is replaced by the one that represents all values of the same effect for this dtype."""
        return options

    def _option_values(self, options: Mapping[str, Any]) -> dict[str, Value]:
        """A value for each option, except ``implied`` options that have their default. Raises ArgumentError for a value that is not
        allowed.
        """
        values = {name: allowed[0] for name, allowed in self.options.items()}
        values |= {name: value.item() if isinstance(value, np.generic) else value for name, value in options.items()}
        values = {name: value for name, value in values.items() if name not in self.implied or value != self.options[name][0]}
        for name, value in values.items():
            if value not in self.options[name]:
                raise ArgumentError(f"{self.name}: {name}={value!r} is not one of {self.options[name]}")
        return values

    def operands_of(self, options: Mapping[str, Value]) -> tuple[Operand, ...]:
        """The operands of problems with these options, the output last: ``operands``, unless an option adds one."""
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
        """Configurations that are worth timing beside the default when an untuned problem is first computed: all legal, the most promising
        first. Empty if the default is as good as any that is known.
        """
        return ()

    @abstractmethod
    def plan(self, problem: Problem, config: Config, device: DeviceInfo) -> Plan:
        """The steps that compute the problem."""

    def preset(self, name: str, problem: Problem) -> Config:
        """The configuration of the preset called ``name`` for the problem; raises UnknownNameError if there is no such preset."""
        raise UnknownNameError(f"preset of {self.name}", name, self.presets)

    def canonical(self, config: Config) -> Config:
        """``config``, which an earlier version may have recorded, with today's parameter names; raises UsageError if that is impossible."""
        return config

    def translated(self, config: Config) -> Mapping[str, Value]:
        """The configuration of another program, in this workload's parameters; empty if it belongs to another computation."""
        return {}

    def explained(self, config: Config) -> Mapping[str, str]:
        """The meaning of each parameter of ``config``, for users: by default ``meanings``."""
        return self.meanings

    def wins(self, problem: Problem, device: DeviceInfo) -> bool:
        """For an emulated product: whether it is expected to be faster than the native one at an error bound that is no larger."""
        return False

    def note(self, problem: Problem, config: Config, device: DeviceInfo) -> str:
        """A sentence for ``explain`` if the computation differs from what the workload's name says; otherwise empty."""
        return ""

    def lowered(self, config: Config, device: DeviceInfo) -> Config:
        """``config``, chosen for another device, without instructions that ``device`` lacks, so that it compiles there."""
        return config

    @abstractmethod
    def inputs(self, problem: Problem, rng: np.random.Generator) -> Inputs:
        """Random operands and scalars in the problem's layout."""

    def usual_inputs(self, problem: Problem, rng: np.random.Generator) -> Inputs:
        """Inputs with the default scalars, for timing: a factor of 0, for instance, would skip work that ``flops`` counts."""
        inputs = self.inputs(problem, rng)
        return replace(inputs, scalars={**inputs.scalars, **{name: factor(problem.dtype, value) for name, value in self.scalars.items()}})

    @abstractmethod
    def reference(self, problem: Problem, inputs: Inputs, sample: np.random.Generator | None = None) -> dict[str, Expected]:
        """The expected content of each output, computed in float64 (also for float64 problems: the bound allows for both errors).

        With ``sample``, only at random places drawn with it, so that large problems are checked quickly.
        """

    @abstractmethod
    def bound(self, problem: Problem, config: Config) -> float:
        """How many times ``Expected.scale`` the rounding error of this configuration may be; the docstring names the formula's source."""

    @abstractmethod
    def flops(self, problem: Problem) -> float:
        """Floating-point operations as the field counts them; the docstring states the convention."""

    def functions(self, problem: Problem) -> float:
        """Special functions (inverse roots, sines and cosines, exponentials) that a run needs, however they are computed."""
        return 0.0

    @abstractmethod
    def traffic(self, problem: Problem) -> float:
        """The fewest bytes that must cross the memory bus: each input read once, each output written once."""

    def speed(self, problem: Problem, seconds: float) -> tuple[float, str]:
        """The speed of a run that took ``seconds``, with its unit: Gflop/s, or GB/s of ``traffic`` if there is no arithmetic."""
        flops = self.flops(problem)
        return (flops / seconds / 1e9, "Gflop/s") if flops > 0 else (self.traffic(problem) / seconds / 1e9, "GB/s")

    def waste(self, problem: Problem, config: Config, device: DeviceInfo) -> float:
        """The work that a configuration does over the useful work, as far as the shape determines it: partial tiles, a partial last wave.

        1 if nothing is known. ``predict`` uses it to transfer times from one problem to another.
        """
        return 1.0

    def loss(self, problem: Problem, device: DeviceInfo) -> float:
        """An estimate of the default's time over the best configuration's if neither was measured; used by ``predict``."""
        return 1.25

    def loads(self, problem: Problem, config: Config) -> float:
        """Bytes that the work-items load from local memory or the nearest cache, not from registers; 0 if nothing is known.

        The performance model ranks configurations by it before any of them is compiled.
        """
        return 0.0

    def reads(self, problem: Problem, scalars: Mapping[str, float]) -> frozenset[str]:
        """The operands whose old content matters with these scalars; by default all but those of role ``out``."""
        return frozenset(operand.name for operand in self.operands_of(problem.options) if operand.role != "out")

    def cuts(self, problem: Problem, config: Config) -> tuple[Cut, ...]:
        """The ways to split a problem that is too large for a device, in this configuration; by default none."""
        return ()

    def members(self, problem: Problem, first: int, past: int) -> tuple[Member, ...]:
        """The problems that compute rows ``first`` to ``past`` (exclusive) of a triangular output, in order; by default none."""
        return ()

    def awkward(self, problem: Problem) -> list[Problem]:
        """Small edge cases with the options of ``problem`` and sizes that no tile divides. Every variant is checked on them first."""
        return []

    def distance(self, one: Problem, other: Problem) -> float:
        """The distance between two problems: 0 if they are equal, infinite if a configuration of one must not be used for the other."""
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
