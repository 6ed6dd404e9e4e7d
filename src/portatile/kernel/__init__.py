"""A user's own kernel as a workload: tuned like portatile's own, then called like a function."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any

from portatile import device as devices
from portatile import strategies
from portatile.arguments.host_tensors import taken
from portatile.device.base import Device
from portatile.errors import ArgumentError, SpaceError
from portatile.formats import t1
from portatile.formatting import duration, rate, spelled
from portatile.kernel.cases import of_values
from portatile.kernel.definition import PREFIX, Definition
from portatile.kernel.early_stop import StopIfNothingCompiles
from portatile.kernel.expression import Given
from portatile.kernel.from_t1 import constructor_arguments
from portatile.kernel.metrics import Metrics
from portatile.kernel.recheck import Recheck
from portatile.kernel.runner import Runner, device_of
from portatile.measure import first_ceilings
from portatile.records import Config, canonical
from portatile.select import Choice
from portatile.store import ResultStore, known_results
from portatile.trials import Budget, Trial
from portatile.tuning.search import tuner, watching
from portatile.tuning.search.deadlines import PhaseLimits
from portatile.tuning.search.objective import Objective
from portatile.user_warnings import warn

__all__ = ["PREFIX", "Kernel", "TunedKernel"]

_MAX_REMEMBERED = 1024  # problems whose runner is kept
_COUNTED = 100_000  # combinations of values, up to which the legal ones are counted for a printed result


class Kernel(Definition):
    """One OpenCL C kernel with tunable parameters, the arguments to time and check it with, and the expected results.

    The kernel:

    - ``source``: the text, or the path of a ``.cl`` file. ``name``: the name of the kernel in it.
    - ``arguments``: a value for each parameter of the kernel, in order or by name. A pointer takes a contiguous NumPy array or CPU tensor:
      float16 to float64, integers of 8 to 64 bits, complex numbers (for ``float2`` and ``double2``) or structures. An image takes an array
      of pixels, for ``image2d_t`` of shape (height, width, channels), with 1, 2 or 4 channels of 8 to 32 bits; without the last axis it has
      one channel. A scalar takes a number, a vector a sequence of numbers, a structure by value an element of a structured array, a sampler
      a ``Sampler``, and a ``__local`` pointer its number of elements.
    - ``normalized``: images whose 8- or 16-bit integers the kernel reads as fractions.
    - ``parameters``: names and their values (int, float, bool, str). Each becomes a ``#define``. ``constants``: further definitions, equal
      in all configurations. ``options``: compiler options (``-cl-...``, ``-I`` folders), in
      which ``{name}`` stands for the value of a parameter, which may be options too.
    - ``roles``: ``in``, ``out`` or ``inout`` by argument. By default pointers to const and ``__constant``, and images that are read, are
      ``in``. All others are ``inout``: they are reset to the array's content before every run. ``out`` promises that every element is
      written and none is read; the check is then stricter, and the timing simpler.

    The launch:

    - ``global_size``: the work-items that the problem needs, one number or up to three. Fractions and incomplete work-groups are rounded
      up, so the kernel must guard its edges. ``local_size``: the work-group size; not needed if the text has ``reqd_work_group_size``.
    - Sizes, ``flops`` (operations of one run, for Gflop/s) and numbers of ``__local`` elements are numbers, expressions (``"n / work"``) or
      callables. The names of a callable's arguments say what it reads: parameters, scalar arguments, ``constants``, and properties of the
      device such as ``max_work_group_size``.
    - ``constraints``: such expressions or callables, which must be true for a legal configuration: ``"tile or not pad"`` allows ``pad``
      only together with ``tile``. ``default``: the configuration to compare with; by default the first legal one.

    The check:

    - ``reference``: the expected outputs, or a callable whose argument names say what it reads and which returns them: an array, a tuple or
      a dict, with None for an output that is not checked. Masked elements of a masked array are not checked. Without a reference, results
      are labelled unverified.
    - A result is right if ``|result - expected| <= atol + rtol * |expected|``; integers must be equal. By default ``rtol`` is 1e-4 for
      float32, 1e-10 for float64 and 1e-2 for float16, and ``atol`` is a tenth of rtol times the largest value.
    - ``reductions``: outputs of which only the ``sum``, ``min`` or ``max`` of all elements is compared, such as partial sums.
    - ``awkward``: edge cases, which are further sets of arguments as for a call, such as arrays of a length that no tile divides. Every
      variant is checked on them before it is timed; the reference must then be a callable. Without them a variant is checked only on
      ``arguments``.

    Raises ArgumentError, UnknownNameError or SpaceError for invalid arguments, CompileError if the text cannot be parsed.

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

    @classmethod
    def from_t1(cls, file: str | Path | t1.Specification) -> Kernel:
        """The kernel that a T1 JSON file describes, the input format that Kernel Tuner and KTT share; see ``formats.t1``.

        Raises ArgumentError for a file that is not T1, or that asks for unsupported features.
        """
        return cls(**constructor_arguments(file if isinstance(file, t1.Specification) else t1.read(Path(file))))

    def tune(
        self,
        budget: str | float = "60s",
        *,
        device: str | None = None,
        strategy: str = "auto",
        seed: int = 0,
        resume: bool = True,
        objective: Objective = "time",
        timeout: float | None = None,
        metrics: Mapping[str, Given] = MappingProxyType({}),
        strategy_options: Mapping[str, float] = MappingProxyType({}),
        listen: Callable[[tuner.Progress], None] | None = None,
    ) -> TunedKernel:
        """Search for the fastest configuration on a device; ``budget``, ``strategy``, ``objective``, ``listen`` as in ``portatile.tune``.

        ``timeout``: the seconds that the first launch of a configuration with its check may take, and its timing; by default 60 each.
        ``metrics``: further figures of each valid configuration, by name: numbers, expressions or callables as for ``flops``, which may
        also read ``time``, in seconds (``{"GB/s": "8 * n / time / 1e9"}``). ``strategy_options`` replace a strategy's defaults, such as
        ``{"population": 40}`` for ``genetic``; the error for an unknown name lists the options. Every variant runs in a separate process
        and is checked before it is timed. All trials go to the result store, and a later search of the same kernel reuses them (with
        ``resume``; wrong ones are evaluated again). Warns if there is no reference. Raises NoValidVariantError when every variant failed,
        CompileError when the first ten all fail to compile for the same reason (unless the text has ``#error``, which is a way to exclude
        configurations).
        """
        if not self.verified:
            warn(f"{self.entry} has no reference: it is timed, but its results are not checked", UserWarning)
        shown = Metrics.of(metrics, [*self.names, "time"])
        request = replace(self.request(Budget.parse(budget), device, strategy, seed, resume), objective=objective)
        if strategy_options:
            request = replace(request, strategy=strategies.get(strategy, strategy_options))
        if timeout is not None:
            request = replace(request, limits=PhaseLimits.running(timeout))
        with watching.shown(listen) as listener, ResultStore.default() as store:
            first_ceilings.ensure(devices.get(device).info)
            return replace(self.tune_as(request, store, listener), metrics=shown)

    def request(self, budget: Budget, device: str | None, strategy: str, seed: int, resume: bool) -> tuner.TuningRequest:
        """The request of ``tune`` to the tuner."""
        return tuner.TuningRequest(self.problem(), device, budget, strategy, seed, workload=self, resume=resume, again=frozenset({"wrong"}))

    def tune_as(self, request: tuner.TuningRequest, store: ResultStore, listen: tuner.Listener | None = None) -> TunedKernel:
        """Tune by a request made by ``request``."""
        result = tuner.tune(request, store, listen if "#error" in self._text.text else StopIfNothingCompiles(listen))
        self._results = known_results()
        self._by_arguments.clear()
        self._by_trial.clear()
        self._recheck.forget()
        return TunedKernel(**{entry.name: getattr(result, entry.name) for entry in fields(result)}, kernel=self)

    @taken
    def __call__(self, *arguments: Any, device: str | None = None, **named: Any) -> Any:
        """Launch with the best configuration known for these arguments: tuned, tuned for a near problem, or the default.

        A configuration that was tuned with another text, definition or driver is first checked as in tuning, once on each machine. If it
        fails, or cannot be checked, a RuntimeWarning says so and the default runs.

        Arguments are given in the kernel's order or by name, without samplers and local memory. Arrays have the dtypes of the definition;
        their sizes are not compared with what the kernel accesses. Outputs are written in place: ``inout`` starts from the array's content,
        ``out`` overwrites every element. Returns the written array, several as a tuple.

        With NumPy arrays the call returns when the result is complete. With arrays on one device (Buffers, CuPy, PyTorch) the kernel is
        queued on the caller's stream and runs asynchronously. Raises ArgumentError for invalid arguments.
        """
        values = self.arguments.bind(arguments, named, self.entry)
        opened = self._device_of(values, device)
        integers = self.arguments.integers(values)
        places = of_values(self.arguments, values)
        key = (opened, *integers.values(), *places.values())
        if key not in self._by_arguments:
            if len(self._by_arguments) >= _MAX_REMEMBERED:
                self._by_arguments.clear()
            problem = self._problem(integers, places)
            self.warn_of_short_arrays(values)
            self.cases.keep(values)
            self._by_arguments[key] = self.runner(self._recheck.choose(problem, opened, self._results(self.name)).config, opened)
        return self._by_arguments[key].run(values)

    @taken
    def run(self, config: Config, /, *arguments: Any, device: str | None = None, **named: Any) -> Any:
        """Launch in the configuration ``config``, whatever was tuned; arguments and result as for a call.

        For looking at a variant: what a wrong one writes, what one parameter is worth. Nothing is checked, and the kernel runs in this
        process, which one that crashes ends. Raises SpaceError for a configuration that is not legal with these arguments on the device.
        """
        values = self.arguments.bind(arguments, named, self.entry)
        opened = self._device_of(values, device)
        space = self.space(self._problem(self.arguments.integers(values), of_values(self.arguments, values)), opened.info)
        if reason := space.violated(config):
            raise SpaceError(f"{self.entry}: {spelled(config)} is not legal on {opened.info.name}: {reason}")
        self.warn_of_short_arrays(values)
        return self.runner(config, opened).run(values)

    def configurations(self, device: str | None = None) -> Iterator[Config]:
        """The legal configurations on a device with arguments like the definition's, one after another."""
        yield from self.space(self.problem(), devices.get(device).info)

    def _device_of(self, values: Mapping[str, Any], device: str | None) -> Device:
        """The device where the arrays lie, or of host arrays the one that is asked for; raises ArgumentError where these differ."""
        opened = device_of(values, tuple(array.name for array in self.arguments.arrays))
        if opened is None:
            return devices.get(device)
        if device is not None and devices.get(device) is not opened:
            raise ArgumentError(f"device={device!r} is not {opened.info.id}, where the arrays are; leave device out or move them")
        return opened

    def warn_of_short_arrays(self, values: Mapping[str, Any]) -> None:
        """Warn of an array that is smaller than in the definition although all integers, and so the launch, are as in the definition."""
        for array in self.arguments.arrays:
            size = math.prod(getattr(values[array.name], "shape", array.value.shape))
            if size >= array.value.size or array.form is not None:
                continue
            integers = self.arguments.integers(values)
            if integers == self.arguments.integers(self.arguments.scalars):
                same = f" for the same {spelled(integers)}" if integers else ""
                sizes = f"{array.name} has {size} elements, in the definition {array.value.size}{same}"
                warn(f"{self.entry}: {sizes}: the kernel may reach outside of the array")

    def explain(self, device: str | None = None) -> Choice:
        """The configuration of a call with arguments like the definition's, and where it comes from; it is checked if necessary."""
        return self._recheck.choose(self.problem(), devices.get(device), self._results(self.name))

    def checked_choice(self, trial: Trial, device: Device) -> Choice:
        """A trial's configuration if it may be used on the device, else the default with a warning; see ``__call__``."""
        choice = Choice(trial.config, "tuned", "tuned for this problem", trial)
        return self._recheck.checked(self.problem(trial.problem.sizes), device, choice)

    def runner_of_trial(self, trial: Trial, device: Device, values: Mapping[str, Any]) -> Runner:
        """The runner of a trial's ``checked_choice``, which is made before the first call; ``values`` are that call's arguments."""
        key = (device, canonical(trial.config), trial.time)
        if key not in self._by_trial:
            self.cases.keep(values)
            self._by_trial[key] = self.runner(self.checked_choice(trial, device).config, device)
        return self._by_trial[key]

    def runner(self, config: Config, device: Device) -> Runner:
        """The kernel in one configuration, loaded on a device at its first call; made once."""
        key = (device, canonical(config))
        if key not in self._runners:
            self._runners[key] = Runner(device, self.arguments, lambda scalars: self.planned(config, device.info, scalars))
        return self._runners[key]

    def __getstate__(self) -> dict[str, Any]:
        """Only the definition: loaded kernels and cached results belong to this process."""
        return {name: value for name, value in vars(self).items() if not isinstance(getattr(type(self), name, None), cached_property)}

    @cached_property
    def _results(self) -> Callable[[str], Sequence[Trial]]:
        return known_results()

    @cached_property
    def _recheck(self) -> Recheck:
        return Recheck(self)

    @cached_property
    def _runners(self) -> dict[tuple[Device, str], Runner]:
        return {}

    @cached_property
    def _by_arguments(self) -> dict[tuple[object, ...], Runner]:
        return {}

    @cached_property
    def _by_trial(self) -> dict[tuple[Device, str, str], Runner]:
        return {}


@dataclass(frozen=True, repr=False)
class TunedKernel(tuner.TuningResult):
    """A ``TuningResult`` of a user's own kernel. ``print`` shows a summary; calling it launches the winner on its device.

    ``kernel`` is the tuned kernel, ``metrics`` are the further figures that were passed to ``tune``.
    """

    kernel: Kernel = field(kw_only=True)
    metrics: Metrics = field(kw_only=True, default=Metrics())

    def metrics_of(self, trial: Trial) -> dict[str, float]:
        """The values of ``metrics`` for a valid trial."""
        return self.metrics.of_trial(self.kernel.known(trial), trial)

    @property
    def verified(self) -> bool:
        """Whether the winner's outputs were compared with a reference; without one only writes outside of its arrays were detected."""
        return self.kernel.verified

    @property
    def checked(self) -> str:
        """A phrase that says on how many sets of arguments the winner was compared with the reference, and its error."""
        if not self.verified:
            return "UNVERIFIED: the kernel has no reference, its outputs were not checked"
        count = 0 if self.best.certificate is None else len(self.best.certificate.checks)
        where = f"on {count} sets of arguments" if count > 1 else "only on the arguments of its definition"
        return f"verified {where}: error {self.best.error or 0.0:.2g} of the allowed"

    @property
    def text(self) -> str:
        """The kernel's OpenCL C with the winner's parameters prepended as definitions, for use elsewhere."""
        source = self.kernel.source(self.best.config)
        return "".join(f"#define {name} {value}\n" for name, value in source.defines) + source.text

    @taken
    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Launch the winner on the device on which it was tuned; arguments and result as for ``Kernel.__call__``."""
        bound = self.kernel.arguments.bind(arguments, named, self.kernel.entry)
        self.kernel.warn_of_short_arrays(bound)
        return self.kernel.runner_of_trial(self.best, devices.get(self.device.id), bound).run(bound)

    def __str__(self) -> str:
        """Winner and default, the number of trials, and whether results were verified."""
        device = self.device
        failed = ", ".join(f"{count} {kind}" for kind, count in sorted(self.failures.items())) or "none"
        return "\n".join(
            (
                f"{self.kernel.describe()} on {device.name} ({device.platform}, {device.id})",
                f"winner   {self._line(self.best)}",
                f"default  {self._line(self.default)}",
                f"{self._tried()} in {self.seconds:.1f} s, failed: {failed}",
                *self.failure_lines,
                self.checked,
            )
        )

    def __repr__(self) -> str:
        """The winner in one line, for notebooks."""
        return f"TunedKernel({self.kernel.describe()}: {self._line(self.best)})"

    def _tried(self) -> str:
        """The number of configurations that were tried, and of a small space that of all legal ones."""
        tried, space = len(self.trials), self.kernel.space(self.problem, self.device)
        count = space.count() if space.size <= _COUNTED else 0
        share = f"all {tried}" if tried == count > 1 else f"{tried} of {count}" if tried < count else str(tried)
        return f"{share} configuration{'s' * (max(tried, count) != 1)}"

    def _line(self, trial: Trial) -> str:
        config = spelled(trial.config)
        if trial.status != "ok":
            return f"failed ({trial.status})  {config}"
        faster = f"  {self.default.comparable / trial.comparable:.2f} x" if self.default.status == "ok" else ""
        metrics = self.metrics_of(trial)
        speed, unit = self.kernel.speed(trial.problem, trial.comparable)
        figures = [duration(trial.comparable), *([] if unit in metrics else [rate(speed, unit)])]
        figures += [f"{value:.4g} {name}" for name, value in metrics.items()]
        return f"{'  '.join(figures)}{faster}  {config}".rstrip()
