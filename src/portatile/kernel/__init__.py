"""A user's own kernel as a workload: tuned like portatile's own, then called like a function."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from portatile import device as devices
from portatile.device.base import Device
from portatile.errors import ArgumentError, LaunchError, SpaceError, UnknownNameError
from portatile.formats import t1
from portatile.kernel import text as texts
from portatile.kernel.arguments import match
from portatile.kernel.cases import Cases, shapes, spell_shapes
from portatile.kernel.checks import Checks, Reference, Tolerance
from portatile.kernel.early_stop import Impatient
from portatile.kernel.expression import Expression, Given
from portatile.kernel.from_t1 import terms
from portatile.kernel.geometry import Geometry
from portatile.kernel.recheck import Trust
from portatile.kernel.runner import Runner, home
from portatile.kernel.tuned import TunedKernel
from portatile.records import Config, DeviceInfo, Launch, Layout, Plan, Problem, Source, Value, canonical, digest
from portatile.select import Choice
from portatile.space import ParameterSpace
from portatile.space.constraint import Predicate
from portatile.store import ResultStore, known_results
from portatile.trials import Budget, Trial
from portatile.tuning.search import tuner
from portatile.tuning.search.objective import Objective
from portatile.workload import Expected, Inputs, Operand, Workload, packed_layout

__all__ = ["PREFIX", "Kernel", "TunedKernel"]

PREFIX = "kernel:"
"""What the names of users' kernels as workloads begin with, so that none is taken for one of portatile's own."""

_MAX_REMEMBERED = 1024  # problems whose configuration is known without looking


class Kernel(Workload):
    """One OpenCL C kernel with tunable parameters, the arguments it is timed and checked with, and what is right.

    ``source``: the text, or the path of a ``.cl`` file. ``name``: the kernel in it. ``arguments``: for each parameter of the kernel, in
    order or by name, a NumPy array (contiguous; float16 to float64, 8 to 64 bit integers, complex for ``float2`` and ``double2``), a
    number, a Sampler, or for a ``__local`` pointer its count of elements. An image takes an array of pixels: (height, width, channels)
    for an ``image2d_t``, with 1, 2 or 4 channels of 8 to 32 bits; without the last axis there is one. ``normalized`` names the
    images whose 8 or 16-bit integers the kernel sees as fractions. ``parameters``: names and their values (int, float, bool, str), each
    a ``#define`` in the text.

    ``global_size``: work-items that the problem needs, one number or up to three; fractions and incomplete work-groups are rounded
    up, so the kernel must guard its edges. ``local_size``: the work-group; not needed where the text has
    ``reqd_work_group_size``. Both, ``flops`` (operations of one run, for Gflop/s), and counts of ``__local`` elements may be numbers,
    expressions (``"n / work"``) or callables that name what they read: parameters, scalar arguments, ``constants`` and facts of the
    device such as ``max_work_group_size``. So may ``constraints``, which say what is legal: ``"tile or not pad"`` keeps a parameter at 0
    where it means nothing.

    ``reference``: the expected outputs, or a callable that names the arguments that it reads and returns them: an array, a
    tuple or a dict, None for an output that need not be checked; elements that a masked array masks are not. A result is right when
    ``|result - expected| <= atol + rtol * |expected|``, by default rtol 1e-4 for float32, 1e-10 for float64, 1e-2 for float16, and atol
    a tenth of rtol of the largest value; integers must be equal. Without a reference results are labelled unverified.

    ``awkward``: further arguments as for a call, such as arrays of a length that nothing divides, on which every variant is checked
    before it is timed; a reference must be a callable then. Without them a variant is checked on ``arguments`` alone.

    ``roles``: ``in``, ``out`` or ``inout`` by argument; by default pointers to const and ``__constant`` and images that are read are
    ``in`` and all others ``inout``, which have the content of the array before every run. ``out`` promises that every element is written
    and none is read: the check is stricter, the timing simpler. ``constants``: further definitions, the same in all configurations.
    ``default``: the configuration to compare with, else the first that is legal. ``options``: for the compiler (``-cl-...``, ``-I``
    folders).

    Raises ArgumentError, UnknownNameError or SpaceError for what does not fit, CompileError where the text cannot be read.

    Examples:
        >>> import numpy as np, portatile
        >>> text = '''kernel void scale(global const float *x, global float *y, float factor, int n) {
        ...     for (int i = get_global_id(0) * work; i < min((int)(get_global_id(0) + 1) * work, n); i++) y[i] = factor * x[i];
        ... }'''
        >>> x, y = np.arange(999, dtype=np.float32), np.zeros(999, np.float32)
        >>> scale = portatile.Kernel(text, "scale", (x, y, 2, 999), {"block": [16, 64], "work": [1, 4]},
        ...     global_size="n / work", local_size="block", reference=lambda x, factor: factor * x)
        >>> result = scale.tune(budget="3")
        >>> float(result(x, y, 3, 999)[2])
        6.0
    """

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
    ) -> None:
        self.entry, self.name = name, f"{PREFIX}{name}"
        self._parameters = texts.values(parameters)
        self._constants = texts.constants(constants or {}, self._parameters)
        self._text = texts.Text.of(source, name, options, self._constants, texts.corners(self._parameters, default))
        self.arguments = match(self._text.head, arguments, roles or {}, normalized)
        self._checks = Checks(reference, rtol, atol)
        if not self.arguments.outputs:
            raise ArgumentError(f"{name} writes none of its arguments: every pointer is const")
        self._geometry = Geometry.of(global_size, local_size, self._text)
        self._flops = None if flops is None else Expression.of(flops, "flops")
        self._default = None if default is None else dict(default)
        rules = (constraints,) if isinstance(constraints, str) or callable(constraints) else tuple(constraints or ())
        self._constraints = (*rules, *self._geometry.constraints)
        self.cases = Cases(self.arguments, awkward, name)
        if awkward and self.verified and not callable(reference):
            raise ArgumentError("awkward arguments need a callable as the reference: arrays say what is right for one call")
        self._results = known_results()
        self._runners: dict[tuple[Device, str], Runner] = {}
        self._chosen: dict[tuple[object, ...], Runner] = {}
        self._trusted: dict[tuple[Device, str, str], Runner] = {}
        self._trust = Trust(self)
        self._settle()
        self.operands = tuple(Operand(array.name, array.role, array.form) for array in self.arguments.arrays)
        self.sizes = dict.fromkeys(self.arguments.integers(self.arguments.scalars), "scalar argument")
        self.dtypes = (self.arguments.outputs[0].dtype,)
        self.cases.settle(self._problem)

    @classmethod
    def from_t1(cls, file: str | Path | t1.Specification) -> Kernel:
        """The kernel that a T1 JSON file describes, the input format that Kernel Tuner and KTT share; see ``formats.t1``.

        Raises ArgumentError for a file that is not one or asks for what is not supported.
        """
        return cls(**terms(file if isinstance(file, t1.Specification) else t1.read(Path(file))))

    @property
    def verified(self) -> bool:
        """Whether there is a reference."""
        return self._checks.reference is not None

    def tune(
        self,
        budget: str | float = "60s",
        *,
        device: str | None = None,
        strategy: str = "auto",
        seed: int = 0,
        resume: bool = True,
        objective: Objective = "time",
        listen: Callable[[tuner.Progress], None] | None = None,
    ) -> TunedKernel:
        """Search for the fastest configuration on a device; ``budget``, ``strategy``, ``objective``, ``listen`` as in ``portatile.tune``.

        Every variant runs in a process of its own and is checked before it is timed; all trials go to the result store, from which
        the same kernel goes on later (with ``resume``; results that were wrong are looked at again). Warns where there is no
        reference. Raises NoValidVariantError when every variant failed, CompileError when the first ten do not compile, all for the same
        reason (unless the text has ``#error``, which is a way to say what is not legal).
        """
        if not self.verified:
            warnings.warn(f"{self.entry} has no reference: its results are timed, but nothing says that they are right", stacklevel=2)
        request = replace(self.request(Budget.parse(budget), device, strategy, seed, resume), objective=objective)
        with ResultStore.default() as store:
            return self.tune_as(request, store, listen)

    def request(self, budget: Budget, device: str | None, strategy: str, seed: int, resume: bool) -> tuner.Request:
        """What ``tune`` asks of the tuner."""
        return tuner.Request(self.problem(), device, budget, strategy, seed, workload=self, resume=resume, again=frozenset({"wrong"}))

    def tune_as(self, request: tuner.Request, store: ResultStore, listen: tuner.Listener | None = None) -> TunedKernel:
        """Tune by a request that is this kernel's own."""
        result = tuner.tune(request, store, listen if "#error" in self._text.text else Impatient(listen))
        self._results = known_results()
        self._chosen.clear()
        self._trusted.clear()
        self._trust.forget()
        return TunedKernel(**{entry.name: getattr(result, entry.name) for entry in fields(result)}, kernel=self)

    def __call__(self, *arguments: Any, device: str | None = None, **named: Any) -> Any:
        """Launch with the best configuration known for these arguments: tuned, tuned for something near, or the default.

        What was tuned with another text, definition or driver is first checked as tuning would, once on each machine; where it fails, or
        cannot be checked, a RuntimeWarning says so and the default runs.

        Arguments in the kernel's order or by name, without samplers and those for local memory. Arrays have the dtypes they were defined
        with; their sizes are the kernel's business: nothing checks here that it stays inside. Outputs are written in place: ``inout``
        starts from what the array holds, of ``out`` every element is overwritten. Returns the written array, several as a tuple.

        NumPy arrays: returns when the result is there. Arrays on a device (Buffers, CuPy, PyTorch), all on the same: the kernel
        is queued there, on the caller's stream, and runs asynchronously. Raises ArgumentError for what does not fit.
        """
        values = self.arguments.bind(arguments, named, self.entry)
        chip = home(values, tuple(array.name for array in self.arguments.arrays))
        if chip is None:
            chip = devices.get(device)
        elif device is not None and devices.get(device) is not chip:
            raise ArgumentError(f"device={device!r} is not {chip.info.id}, where the arrays are; leave device out or move them")
        integers = self.arguments.integers(values)
        places = {array.name: tuple(getattr(values[array.name], "shape", ())) for array in self.arguments.arrays}
        key = (chip, *integers.values(), *places.values())
        if key not in self._chosen:
            if len(self._chosen) >= _MAX_REMEMBERED:
                self._chosen.clear()
            problem = self._problem(integers, places)
            self.cases.keep(values)
            self._chosen[key] = self.runner(self._trust.choose(problem, chip, self._results(self.name)).config, chip)
        return self._chosen[key].run(values)

    def explain(self, device: str | None = None) -> Choice:
        """The configuration that a call with arguments like the kernel's own uses, and where it comes from; checked if need be."""
        return self._trust.choose(self.problem(), devices.get(device), self._results(self.name))

    def settled(self, trial: Trial, device: Device) -> Choice:
        """A trial's configuration, where it may be used on the device, else the default with a warning; see ``__call__``."""
        choice = Choice(trial.config, "tuned", "tuned for this problem", trial)
        return self._trust.settle(self.problem(trial.problem.sizes), device, choice)

    def trusted(self, trial: Trial, device: Device, values: Mapping[str, Any]) -> Runner:
        """What runs a trial's configuration, ``settled`` at its first call, which is about to be with ``values``."""
        key = (device, canonical(trial.config), trial.time)
        if key not in self._trusted:
            self.cases.keep(values)
            self._trusted[key] = self.runner(self.settled(trial, device).config, device)
        return self._trusted[key]

    def runner(self, config: Config, device: Device) -> Runner:
        """The kernel in one configuration, loaded on a device at its first call; made once."""
        key = (device, canonical(config))
        if key not in self._runners:
            self._runners[key] = Runner(device, self.arguments, lambda scalars: self._plan(config, device.info, scalars, runtime=True))
        return self._runners[key]

    def source(self, config: Config) -> Source:
        """The text with the definitions of a configuration."""
        return self._text.source({**self._constants, **config})

    def __repr__(self) -> str:
        return f"Kernel({self.describe()})"

    def describe(self) -> str:
        """Name and sizes in one line."""
        sizes = " ".join(f"{name}={self.arguments.scalars[name]}" for name in self.sizes)
        return f"{self.entry} {sizes or spell_shapes(shapes(self.arguments))}"

    def speed(self, problem: Problem, seconds: float) -> tuple[float, str]:
        """Gflop/s where the user said ``flops``, else GB/s if each array is read or written once."""
        if self._flops is not None:
            return super().speed(problem, seconds)
        return sum(array.value.nbytes for array in self.arguments.arrays) / seconds / 1e9, "GB/s"

    # What a workload says

    def problem(
        self,
        sizes: Mapping[str, int] | None = None,
        dtype: str = "",
        options: Mapping[str, Value] | None = None,
        layout: Mapping[str, Layout] | None = None,
    ) -> Problem:
        """The kernel with the arguments it was defined with; ``sizes`` replaces integer arguments, the rest cannot be changed."""
        if dtype not in ("", *self.dtypes) or options or layout:
            raise ArgumentError(f"{self.name}: only integer arguments may differ from the definition ({', '.join(self.sizes) or 'none'})")
        return self._problem(self.arguments.integers({**self.arguments.scalars, **(sizes or {})}), shapes(self.arguments))

    def shapes(self, problem: Problem) -> dict[str, tuple[int, ...]]:
        """Each array's memory."""
        return {array.name: (array.memory.size,) for array in self.cases.of(problem).arrays}

    def awkward(self, problem: Problem) -> list[Problem]:
        """What the user's awkward arguments are."""
        return self.cases.problems

    def space(self, problem: Problem, device: DeviceInfo) -> ParameterSpace:
        """The user's parameters under the user's constraints, and the device's limits on the work-group."""
        if not device.images and any(array.form is not None for array in self.arguments.arrays):
            raise LaunchError(f"{self.entry} takes images, and {device.name} has none")
        return ParameterSpace(
            self._parameters, self._constraints, self._facts(self._numbers(problem), device.facts() | texts.limits(device))
        )

    def default(self, problem: Problem, device: DeviceInfo) -> Config:
        """The user's, else the first that is legal."""
        space = self.space(problem, device)
        if self._default is not None:
            if reason := space.violated(self._default):
                raise SpaceError(f"{self.entry}: the default configuration is not legal on {device.name}: {reason}")
            return self._default
        first = next(iter(space), None)
        if first is None:
            rules = "; ".join(rule.text for rule in space.constraints)
            raise SpaceError(f"{self.entry}: no configuration is legal on {device.name}; none of {space.size} fulfils all of: {rules}")
        return first

    def plan(self, problem: Problem, config: Config, device: DeviceInfo) -> Plan:
        """One launch."""
        return self._plan(config, device, self._numbers(problem))

    def inputs(self, problem: Problem, rng: np.random.Generator) -> Inputs:
        """The user's arrays; an ``out`` array is poisoned."""
        return self.cases.inputs(problem)

    def reference(self, problem: Problem, inputs: Inputs, sample: np.random.Generator | None = None) -> dict[str, Expected]:
        """What the user expects, the tolerance as its scale; nothing for a kernel without a reference."""
        expected = self.expected(problem)
        if names := self.cases.foregone(problem, expected):
            warnings.warn(
                f"{names} held the expected values before {self.entry} ran, so that a kernel that does nothing would pass: "
                f"clear the array, or say roles={{'{names.split(',')[0]}': 'out'}}",
                stacklevel=2,
            )
        return expected

    def expected(self, problem: Problem) -> dict[str, Expected]:
        """What the outputs must hold after a run on the arguments of a problem."""
        reads, arrays = self._checks.reads, self.cases.arrays(problem)
        values: dict[str, Any] = {**self._constants, **self._numbers(problem)}
        values |= {array.name: array.value.copy() for array in arrays if array.name in reads}
        return self._checks.expected([array for array in arrays if array.role != "in"], values)

    def bound(self, problem: Problem, config: Config) -> float:
        """1: the tolerance is the scale of what is expected."""
        return 1.0

    def flops(self, problem: Problem) -> float:
        """What the user says; 0 where nothing is said."""
        return 0.0 if self._flops is None else float(self._flops(self._facts(problem.sizes, {})))

    def traffic(self, problem: Problem) -> float:
        """0: how much of its arrays a kernel must touch is not known, and what it does touch is no ceiling's business."""
        return 0.0

    def distance(self, one: Problem, other: Problem) -> float:
        """Ratios of the integer arguments, as for every workload; 1 more for another text, a quarter for other arrays."""
        if one.dtype != other.dtype or set(one.sizes) != set(other.sizes):
            return math.inf
        pairs = [(abs(one.sizes[name]) + 1, abs(other.sizes[name]) + 1) for name in one.sizes]
        apart = sum(abs(math.log2(a / b)) for a, b in pairs)
        same_text, same_arrays = (one.options.get(key) == other.options.get(key) for key in ("version", "arrays"))
        return apart + (not same_text) + 0.25 * (not same_arrays)

    # Inside

    def _settle(self) -> None:
        """Raise what is wrong with the names in expressions, constraints and the reference, before anything is opened."""
        scalars = self.arguments.scalars
        nominal = self._facts({}, dict.fromkeys(texts.DEVICE_FACTS, 1))
        known = [*self._parameters, *nominal]
        self._geometry.check(known)
        ParameterSpace(self._parameters, self._constraints, nominal)  # raises for names that nothing defines
        for name in self._default or ():
            if name not in self._parameters:
                raise UnknownNameError("parameter in the default", name, self._parameters)
        for local in self.arguments.locals:
            local.elements.check(known, f"elements of {local.name}")
        if self._flops is not None:
            self._flops.check([*self._constants, *scalars], "flops")
        if read := [name for name in self._checks.reads if name in self._parameters]:
            raise ArgumentError(f"the reference reads the parameter {read[0]!r}; what is right may not depend on what is tuned")
        self._checks.settle(self.arguments.outputs, [*self._constants, *self.arguments.called])

    def _numbers(self, problem: Problem) -> dict[str, int | float]:
        """The numbers among the arguments of a problem."""
        return {**self.cases.of(problem).scalars, **problem.sizes}

    def _facts(self, sizes: Mapping[str, int | float], device: Mapping[str, Value]) -> dict[str, Value]:
        """What expressions and constraints may read beside parameters; a fact of the device gives way to a name of the user's."""
        return {**{k: v for k, v in device.items() if k not in self._parameters}, **self._constants, **self.arguments.scalars, **sizes}

    def _plan(self, config: Config, info: DeviceInfo, scalars: Mapping[str, int | float], runtime: bool = False) -> Plan:
        """The launch; with ``runtime`` the numbers are passed when it runs, and only what the sizes read matters here."""
        values = {**info.facts(), **texts.limits(info), **self._constants, **scalars, **config}
        source = self.source(config)
        global_size, local_size = self._geometry.sizes(values, self._text.work_group(source))
        arguments = self.arguments.args(values, None if runtime else scalars)
        return Plan((Launch(source, self.entry, global_size, local_size, arguments),))

    def _problem(self, sizes: Mapping[str, int], shapes: Mapping[str, tuple[int, ...]]) -> Problem:
        """The key that results are stored under: text, launch and checks in ``version``, shapes and integers beside it."""
        parts = (*self._text.identity, *self._geometry.identity, *(local.elements.identity for local in self.arguments.locals))
        roles = ((array.name, array.role, array.value.dtype.name) for array in self.arguments.arrays)
        names = canonical([sorted(self._parameters), self._constants, list(roles)])
        further = (canonical([[one, two] for one, two in self.cases.sizes]),) if self.cases.sizes else ()
        version = digest(*parts, self._checks.identity(), names, *self.arguments.sampled, *further)
        options: dict[str, Value] = {"arrays": spell_shapes(shapes), "version": version[:16]}
        options["checked"] = "reference" if self.verified else "unverified"
        layout = {name: packed_layout((math.prod(shape),)) for name, shape in shapes.items()}
        return Problem(self.name, sizes, self.dtypes[0], options, layout)
