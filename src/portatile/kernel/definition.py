"""A user's definition of a kernel as a workload: its text, arguments, parameters, launch and expected results."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from portatile.arguments.host_tensors import as_arrays
from portatile.errors import ArgumentError, LaunchError, SpaceError, UnknownNameError
from portatile.kernel import text as texts
from portatile.kernel.arguments import Arguments, Array, Packed, match
from portatile.kernel.cases import KernelCases, shapes, spell_shapes
from portatile.kernel.checks import Checks, Reference, Tolerance
from portatile.kernel.expression import Expression, Given
from portatile.kernel.geometry import Geometry
from portatile.records import Config, DeviceInfo, Launch, Layout, Plan, Problem, Source, Value, canonical, digest
from portatile.space import ParameterSpace
from portatile.space.constraint import Predicate
from portatile.trials import Trial
from portatile.user_warnings import warn
from portatile.workload import Expected, Inputs, Operand, Workload, packed_layout

PREFIX = "kernel:"
"""The prefix of the workload names of users' kernels, which distinguishes them from portatile's own."""


class Definition(Workload):
    """The data of a ``Kernel``; nothing here opens a device. ``Kernel`` documents the arguments of the constructor."""

    def __init__(
        self,
        source: str | Path,
        name: str,
        arguments: Sequence[Any] | Mapping[str, Any],
        parameters: Mapping[str, Sequence[Value]],
        *,
        global_size: Given,
        local_size: Given | None = None,
        constraints: Sequence[str | Predicate] | str | Predicate = (),
        reference: Reference | None = None,
        rtol: Tolerance = None,
        atol: Tolerance = None,
        roles: Mapping[str, str] | None = None,
        constants: Mapping[str, Value] | None = None,
        default: Config | None = None,
        flops: Given | None = None,
        options: Sequence[str] = (),
        normalized: Sequence[str] = (),
        awkward: Sequence[Sequence[Any] | Mapping[str, Any]] = (),
        reductions: Mapping[str, str] | None = None,
    ) -> None:
        self.entry, self.name = name, f"{PREFIX}{name}"
        self._parameters = texts.values(parameters)
        self._constants = texts.constants(constants or {}, self._parameters)
        self._text = texts.KernelText.of(source, name, options, self._constants, texts.first_and_last(self._parameters, default))
        self.arguments = match(self._text.head, as_arrays(arguments), roles or {}, normalized)
        self._checks = Checks(reference, rtol, atol, dict(reductions or {}), (*self._constants, *self.arguments.called))
        if not self.arguments.outputs:
            raise ArgumentError(f"{name} writes none of its arguments: every pointer is const")
        self._geometry = Geometry.of(global_size, local_size, self._text)
        self._flops = None if flops is None else Expression.of(flops, "flops")
        self._default = None if default is None else dict(default)
        rules = (constraints,) if isinstance(constraints, str) or callable(constraints) else tuple(constraints or ())
        self._constraints = (*rules, *self._geometry.constraints)
        self.cases = KernelCases(self.arguments, awkward, name)
        if awkward and self.verified and not callable(reference):
            raise ArgumentError("awkward arguments need a callable as the reference: arrays are the expected outputs of a single call")
        self._check_names()
        self.operands = tuple(Operand(array.name, array.role, array.form) for array in self.arguments.arrays)
        self.sizes = dict.fromkeys(self.arguments.integers(self.arguments.scalars), "scalar argument")
        self.dtypes = (self.arguments.outputs[0].dtype,)
        self.cases.make_problems(self._problem)

    @property
    def verified(self) -> bool:
        """Whether there is a reference."""
        return self._checks.reference is not None

    def source(self, config: Config) -> Source:
        """The text with the definitions of a configuration."""
        return self._text.source({**self._constants, **config})

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.describe()})"

    def describe(self) -> str:
        """Name and sizes in one line."""
        sizes = " ".join(f"{name}={self.arguments.scalars[name]}" for name in self.sizes)
        return f"{self.entry} {sizes or spell_shapes(shapes(self.arguments))}"

    def speed(self, problem: Problem, seconds: float) -> tuple[float, str]:
        """Gflop/s if the user gave ``flops``, else GB/s on the assumption that each array is read or written once."""
        if self._flops is not None:
            return super().speed(problem, seconds)
        return sum(array.value.nbytes for array in self.arguments.arrays) / seconds / 1e9, "GB/s"

    def problem(
        self,
        sizes: Mapping[str, int] | None = None,
        dtype: str = "",
        options: Mapping[str, Value] | None = None,
        layout: Mapping[str, Layout] | None = None,
    ) -> Problem:
        """The kernel with the arguments of its definition; ``sizes`` replaces integer arguments, nothing else can be changed.

        Raises ArgumentError for any other difference.
        """
        if dtype not in ("", *self.dtypes) or options or layout:
            raise ArgumentError(f"{self.name}: only integer arguments may differ from the definition ({', '.join(self.sizes) or 'none'})")
        return self._problem(self.arguments.integers({**self.arguments.scalars, **(sizes or {})}), shapes(self.arguments))

    def shapes(self, problem: Problem) -> dict[str, tuple[int, ...]]:
        """The shape of each array's memory."""
        return {array.name: (array.memory.size,) for array in self.cases.of(problem).arrays}

    def awkward(self, problem: Problem) -> list[Problem]:
        """The problems of the user's edge cases."""
        return self.cases.problems

    def space(self, problem: Problem, device: DeviceInfo) -> ParameterSpace:
        """The user's parameters with the user's constraints, and the device's limits on the work-group.

        Raises LaunchError for images on a device that has none.
        """
        if not device.images and any(array.form is not None for array in self.arguments.arrays):
            raise LaunchError(f"{self.entry} takes images, and {device.name} has none")
        return ParameterSpace(
            self._parameters, self._constraints, self._facts(self._numbers(problem), device.facts() | texts.limits(device))
        )

    def default(self, problem: Problem, device: DeviceInfo) -> Config:
        """The user's default, else the first legal configuration.

        Raises SpaceError if no configuration is legal, or the user's default is not.
        """
        space = self.space(problem, device)
        if self._default is not None:
            if reason := space.violated(self._default):
                raise SpaceError(f"{self.entry}: the default configuration is not legal on {device.name}: {reason}")
            return self._default
        first = next(iter(space), None)
        if first is None:
            rules = "; ".join(rule.words or rule.text for rule in space.constraints)
            limit = f"{device.max_work_group_size} work-items ({' x '.join(map(str, device.max_work_item_sizes))})"
            raise SpaceError(
                f"{self.entry}: no configuration is legal on {device.name}, whose work-groups have at most {limit}; "
                f"none of {space.size} fulfils all of: {rules}"
            )
        return first

    def plan(self, problem: Problem, config: Config, device: DeviceInfo) -> Plan:
        """The plan: one launch."""
        return self.planned(config, device, self._numbers(problem), self.cases.of(problem))

    def inputs(self, problem: Problem, rng: np.random.Generator) -> Inputs:
        """The user's arrays; an ``out`` array is poisoned."""
        return self.cases.inputs(problem)

    def reference(self, problem: Problem, inputs: Inputs, sample: np.random.Generator | None = None) -> dict[str, Expected]:
        """The expected outputs, with the tolerance as their scale; empty for a kernel without a reference."""
        expected = self.expected(problem)
        if names := self.cases.already_right(problem, expected):
            warn(
                f"{names} held the expected values before {self.entry} ran, so that a kernel that does nothing would pass: "
                f"clear the array, or say roles={{'{names.split(',')[0]}': 'out'}}",
                UserWarning,
            )
        return expected

    def expected(self, problem: Problem) -> dict[str, Expected]:
        """The expected content of the outputs after a run on the arguments of a problem."""
        reads, arrays = self._checks.reads, self.cases.arrays(problem)
        values: dict[str, Any] = {**self._constants, **self._numbers(problem)}
        passed: list[Array | Packed] = [*arrays, *self.cases.of(problem).packed]
        values |= {argument.name: argument.value.copy() for argument in passed if argument.name in reads}
        try:
            return self._checks.expected([array for array in arrays if array.role != "in"], values)
        except Exception as error:
            which = "the edge case" if self.cases.of(problem) is not self.arguments else "the arguments of the definition,"
            error.add_note(f"in the reference of {self.entry}, on {which} {spell_shapes({a.name: a.value.shape for a in arrays})}")
            raise

    def bound(self, problem: Problem, config: Config) -> float:
        """1: the tolerance is the scale of the expected values."""
        return 1.0

    def flops(self, problem: Problem) -> float:
        """The user's ``flops``; 0 if not given."""
        return 0.0 if self._flops is None else float(self._flops(self._facts(problem.sizes, {})))

    def traffic(self, problem: Problem) -> float:
        """0: how many bytes a kernel must access is unknown."""
        return 0.0

    def distance(self, one: Problem, other: Problem) -> float:
        """The distance by ratios of the integer arguments, as for every workload; plus 1 for another text, a quarter for other arrays."""
        if one.dtype != other.dtype or set(one.sizes) != set(other.sizes):
            return math.inf
        pairs = [(abs(one.sizes[name]) + 1, abs(other.sizes[name]) + 1) for name in one.sizes]
        distance = sum(abs(math.log2(a / b)) for a, b in pairs)
        same_text, same_arrays = (one.options.get(key) == other.options.get(key) for key in ("version", "arrays"))
        return distance + (not same_text) + 0.25 * (not same_arrays)

    def planned(self, config: Config, info: DeviceInfo, scalars: Mapping[str, int | float], passed: Arguments | None = None) -> Plan:
        """The launch. Without ``passed``, numbers, vectors and structures are passed at the launch, and only the numbers that the sizes
        read are needed here.
        """
        values = {**info.facts(), **texts.limits(info), **self._constants, **scalars, **config}
        source = self.source(config)
        global_size, local_size = self._geometry.sizes(values, self._text.work_group(source))
        arguments = self.arguments.args(values, None) if passed is None else passed.args(values, scalars)
        return Plan((Launch(source, self.entry, global_size, local_size, arguments),))

    def _check_names(self) -> None:
        """Raise for unknown names in expressions, constraints and the reference; warn of parameters that nothing reads."""
        scalars = self.arguments.scalars
        nominal = self._facts({}, dict.fromkeys(texts.DEVICE_FACTS, 1))
        known = [*self._parameters, *nominal]
        for argument in self.arguments.valued:
            if argument.name in self._geometry.reads:
                raise ArgumentError(
                    f"the sizes of {self.entry} read {argument.name}, which is more than a number; "
                    f"pass the number that they need to the kernel as a separate argument"
                )
        self._geometry.check(known)
        ParameterSpace(self._parameters, self._constraints, nominal)  # raises for undefined names
        for name in self._default or ():
            if name not in self._parameters:
                raise UnknownNameError("parameter in the default", name, self._parameters)
        for local in self.arguments.locals:
            local.elements.check(known, f"elements of {local.name}")
        if self._flops is not None:
            self._flops.check([*self._constants, *scalars], "flops")
        if read := [name for name in self._checks.reads if name in self._parameters]:
            raise ArgumentError(f"the reference reads the parameter {read[0]!r}; expected results may not depend on tunable parameters")
        self._checks.check(self.arguments.outputs)
        sizes = (*self._geometry.reads, *(name for local in self.arguments.locals for name in local.elements.reads))
        if unused := [name for name in self._parameters if name not in sizes and not self._text.mentions(name, self._constants.values())]:
            which = f"parameter{'s' * (len(unused) != 1)} {', '.join(unused)}"
            warn(f"{self.entry}: neither the text nor a size depends on the {which}; is a name misspelt?", UserWarning)

    def _numbers(self, problem: Problem) -> dict[str, int | float]:
        """The numbers among the arguments of a problem."""
        return {**self.cases.of(problem).scalars, **problem.sizes}

    @property
    def names(self) -> list[str]:
        """The names that expressions about a configuration may read: parameters, scalar arguments and constants."""
        return [*self._parameters, *self._facts({}, {})]

    def known(self, trial: Trial) -> dict[str, Value]:
        """The values of ``names`` in a trial."""
        return {**self._facts(self._numbers(trial.problem), {}), **trial.config}

    def _facts(self, sizes: Mapping[str, int | float], device: Mapping[str, Value]) -> dict[str, Value]:
        """The names that expressions and constraints may read besides parameters; the user's names hide properties of the device."""
        return {**{k: v for k, v in device.items() if k not in self._parameters}, **self._constants, **self.arguments.scalars, **sizes}

    def _problem(self, sizes: Mapping[str, int], shapes: Mapping[str, tuple[int, ...]]) -> Problem:
        """The problem under which results are stored: ``version`` covers text, launch and checks; shapes and integers are separate.

        ``shapes``: as returned by ``cases.shapes``.
        """
        parts = (*self._text.identity, *self._geometry.identity, *(local.elements.identity for local in self.arguments.locals))
        types = ((array, array.value.dtype) for array in self.arguments.arrays)
        roles = ((array.name, array.role, kind.name if kind.names is None else str(kind)) for array, kind in types)
        names = canonical([sorted(self._parameters), self._constants, list(roles)])
        further = (canonical([[integers, array_shapes] for integers, array_shapes in self.cases.sizes]),) if self.cases.sizes else ()
        version = digest(*parts, self._checks.identity(), names, *self.arguments.sampled, *self.arguments.layouts, *further)
        options: dict[str, Value] = {"arrays": spell_shapes(shapes), "version": version[:16]}
        options["checked"] = "reference" if self.verified else "unverified"
        arrays = {array.name for array in self.arguments.arrays}
        layout = {name: packed_layout((math.prod(shape),)) for name, shape in shapes.items() if name in arrays}
        return Problem(self.name, sizes, self.dtypes[0], options, layout)
