"""The bench of a timing worker: it loads variants, checks them on every case and times them on the last."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

from portatile import model
from portatile.device.base import Device, Memory, Queue
from portatile.device.clock import back_to_back
from portatile.device.event import Event
from portatile.device.module import Module
from portatile.errors import CompileError, DeviceError, LaunchError, PortatileError
from portatile.execute import Executable
from portatile.records import Binary, Plan, Resources, Source
from portatile.trials import Status
from portatile.tuning.protocol import Case, Evaluate, Evaluated, Phase, Timing, restore_sources
from portatile.tuning.sensors import Sensors, cache_bytes
from portatile.tuning.shared_arrays import SharedArraysView
from portatile.tuning.worker.operands import CaseOperands
from portatile.verify import Verdict, worst

_PROFILES = 3  # runs of a variant that are timed by their events
_LONG = 0.05  # seconds; a run of this length does not become several times as long by a disturbance
_HOPELESS = 10.0  # a variant this many times as slow as the best when checked is not run again
_BEHIND, _FEW = 1.25, 3  # a variant that is 1.25 times as slow as the best in 3 samples is not sampled further
_LONGEST_BURST = 1000  # runs; with more the launches would be timed, not the kernel

Announce = Callable[[Phase, float], None]


@dataclass
class Record:
    """The measurements of a variant so far."""

    samples: list[float] = field(default_factory=list)
    event_samples: list[float] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    resources: dict[str, Resources] = field(default_factory=dict)
    errors: tuple[float, ...] = ()
    conditions: Mapping[str, float] = field(default_factory=dict)
    remark: str = ""
    first: float | None = None  # device seconds of the timed part's check, where the device reports them

    def charge_compiler(self, run: float) -> None:
        """Count the first launches' time beyond a timed run as compile time: drivers finish compiling when they launch."""
        launched = self.seconds["launch"]
        self.seconds["launch"] = min(launched, run)
        self.seconds["compile"] += launched - self.seconds["launch"]

    def took(self, phase: str, since: float) -> float:
        """Add the seconds since ``since`` to a phase; returns the present time."""
        now = time.perf_counter()
        self.seconds[phase] = self.seconds.get(phase, 0.0) + now - since
        return now

    def outcome(self, job: Evaluate, status: Status, message: str = "", error: float | None = None, broken: bool = False) -> Evaluated:
        """The reply to the parent."""
        return Evaluated(
            job.number,
            status,
            tuple(self.samples),
            tuple(self.event_samples),
            self.seconds,
            error,
            message,
            self.resources,
            broken,
            self.errors,
            self.conditions,
        )


class LoadedVariant:
    """A variant's kernels on the device, one executable for each of its parts. A context manager."""

    def __init__(self, device: Device, build: Callable[[Source], Binary], job: Evaluate, record: Record) -> None:
        self.job, self.record = job, record
        self.plans: list[Plan] = [restore_sources(part.plan, job.sources) for part in job.parts]
        self.executables: list[Executable] = []
        self._modules: dict[Source, Module] = {}
        started = time.perf_counter()
        try:
            for plan in self.plans:
                self.executables.append(Executable(device, plan, build, guard=True, modules=self._modules))
                record.resources.update(self.executables[-1].resources)
        except BaseException:
            self.release()
            raise
        record.took("compile", started)

    def release(self) -> None:
        """Unload everything; a second call does nothing."""
        for executable in self.executables:
            executable.release()
        for module in self._modules.values():
            module.release()

    def __enter__(self) -> LoadedVariant:
        return self

    def __exit__(self, *exc: object) -> None:
        self.release()


class Bench:
    """A device with the operands of every case in its memory.

    Variants run on a queue without profiling, as in use: profiling costs microseconds at each launch. A second, profiling queue
    takes the times.
    """

    def __init__(
        self, device: Device, cases: tuple[Case, ...], arena: SharedArraysView, build: Callable[[Source], Binary], announce: Announce
    ) -> None:
        self.device = device
        self.queue = device.queue()
        self.clock = device.queue(profiling=True)
        self.build = build
        self.announce = announce
        self.case_operands = [CaseOperands(device, self.queue, case, arena) for case in cases]
        self.sensors = Sensors.of(device.info)
        self._scrub: tuple[Memory, Memory] | None = None

    def evaluate(self, job: Evaluate) -> Evaluated:
        """Compile and check one variant, and time it if the job says so. Failures are data; after a driver's failure ``broken`` is set."""
        record = Record()
        try:
            self.announce("compile", 0.0)
            with self.load(job, record) as loaded:
                if job.screen is not None:
                    reason = model.hopeless(loaded.plans[-1], record.resources, self.device.info, job.screen)
                    if reason is not None:
                        return record.outcome(job, "skipped", f"{model.COMPILED}: {reason}")
                self.announce("launch", 0.0)
                clocked = self.device.info.kind == "cpu" and job.timed and job.best is not None and not job.timing.cold
                verdict = self.check(loaded, clocked)
                if not verdict.ok:
                    return record.outcome(job, "wrong", verdict.message, verdict.error if math.isfinite(verdict.error) else None)
                if not job.timed:
                    return record.outcome(job, "ok", error=verdict.error)
                if self._too_slow(loaded):
                    return record.outcome(job, "ok", record.remark, max(record.errors))
                again = self._time(loaded)
                if not again.ok:
                    return record.outcome(job, "wrong", f"the first run was right, a later one wrong: {again.message}")
                if job.best is None or min(record.samples) < _BEHIND * job.best:  # it may win
                    around = self.check_canaries(loaded)
                    if not around.ok:
                        return record.outcome(job, "wrong", around.message)
                record.errors = (*record.errors[:-1], max(record.errors[-1], again.error))
                return record.outcome(job, "ok", record.remark, max(record.errors))
        except CompileError as error:
            return record.outcome(job, "compile", str(error))
        except LaunchError as error:
            return record.outcome(job, "launch", str(error), broken=not self.alive())
        except DeviceError as error:
            return record.outcome(job, "crash", str(error), broken=True)

    def load(self, job: Evaluate, record: Record) -> LoadedVariant:
        """Compile and load a variant."""
        return LoadedVariant(self.device, self.build, job, record)

    def check(self, loaded: LoadedVariant, clocked: bool = False) -> Verdict:
        """Run every part once on poisoned outputs; a failure is checked again with fresh operands, in case another variant caused it.

        ``clocked``: the timed part's run is timed by its events, which on a CPU exclude what is compiled at a first launch.
        """
        verdicts = []
        for part, executable in zip(loaded.job.parts, loaded.executables, strict=True):
            operands = self.case_operands[part.case]
            queue = self.clock if clocked and part is loaded.job.parts[-1] else self.queue
            verdict = self._check_once(operands, executable, part.bound, loaded.record, queue)
            if not verdict.ok:
                operands.restore()
                verdict = self._check_once(operands, executable, part.bound, loaded.record, queue)
                if not verdict.ok:
                    self.restore()
                    return Verdict(False, verdict.error, f"{operands.case.label}: {verdict.message}")
            verdicts.append(verdict)
        loaded.record.errors = tuple(verdict.error for verdict in verdicts)
        return worst(verdicts)

    def check_canaries(self, loaded: LoadedVariant) -> Verdict:
        """Whether all canaries around the operands are unchanged, to their full width, also those of the timed case."""
        verdict = worst([self.case_operands[part.case].check_canaries(far=True) for part in loaded.job.parts])
        if not verdict.ok:
            self.restore()
        return verdict

    def restore(self) -> None:
        """Restore all operands and canaries, to their full width."""
        for operands in self.case_operands:
            operands.restore()

    def in_other_memory(self, loaded: LoadedVariant) -> Verdict:
        """Whether the timed part is also right with its operands in other memory, between other and wider canaries.

        A write far outside an array may hit unchecked memory in one place and a canary in the other, and a read from there returns
        another value. If there is no memory for a second set of operands, the result is True.
        """
        part = loaded.job.parts[-1]
        try:
            other = self.timed(loaded).in_other_memory()
        except DeviceError:
            return Verdict(True)
        with other:
            loaded.executables[-1].run(self.queue, other.bindings, other.case.scalars)
            self.queue.finish()
            # its far writes may hit the usual operands, for which the next variant must not be blamed
            return worst([other.check_canaries(far=True), other.outputs(part.bound), self.check_canaries(loaded)])

    def timed(self, loaded: LoadedVariant) -> CaseOperands:
        """The operands on which a variant is timed."""
        return self.case_operands[loaded.job.parts[-1].case]

    def outputs(self, loaded: LoadedVariant) -> Verdict:
        """Whether the timed case's outputs are right at present."""
        return self.timed(loaded).outputs(loaded.job.parts[-1].bound)

    def burst(self, loaded: LoadedVariant, runs: int) -> float:
        """Device seconds per run, for runs back to back.

        If a run overwrites its own input, the input is restored before each run, and each run is timed separately. The same holds if
        caches must be cold.
        """
        operands, executable, cold = self.timed(loaded), loaded.executables[-1], loaded.job.timing.cold
        together = operands.repeats and not cold
        queue, clock = (self.queue if together else self.clock), self.clock
        bindings, scalars = operands.bindings, operands.case.scalars
        if together:
            operands.reset(queue)
            queue.finish()
            return back_to_back(queue, clock, partial(executable.run, queue, bindings, scalars), runs)
        marks: list[tuple[Event, Event]] = []
        for _ in range(runs):
            operands.reset(clock)
            if cold:
                self._flush_caches()
            start = clock.marker()
            executable.run(clock, bindings, scalars)
            marks.append((start, clock.marker()))
        clock.finish()
        return math.fsum(end.seconds_since(start) for start, end in marks) / runs

    def alive(self) -> bool:
        """Whether the device still runs commands: a faulting kernel may have broken the context."""
        try:
            self.restore()
        except PortatileError:
            return False
        return True

    def _check_once(self, operands: CaseOperands, executable: Executable, bound: float, record: Record, queue: Queue) -> Verdict:
        operands.reset(queue)
        queue.finish()
        events: list[Event] | None = [] if queue is self.clock else None
        started = time.perf_counter()
        executable.run(queue, operands.bindings, operands.case.scalars, events)
        queue.finish()
        started = record.took("launch", started)
        record.first = _event_seconds(events or [])
        verdict = worst([operands.check_canaries(), executable.check_temporaries(queue), operands.outputs(bound)])
        record.took("check", started)
        return verdict

    def _too_slow(self, loaded: LoadedVariant) -> bool:
        """Whether the check's run was too slow to run the variant again; its seconds are then the only sample."""
        record, best = loaded.record, loaded.job.best
        if record.first is None or best is None or record.first <= max(_LONG, max(_HOPELESS, loaded.job.timing.give_up) * best):
            return False
        record.charge_compiler(record.first)
        record.samples.append(record.first)
        record.remark = f"{model.SLOW}: {record.first / best:.3g} times as slow as the best when checked, not run again"
        return True

    def _time(self, loaded: LoadedVariant) -> Verdict:
        """Take the samples, then check the output once more."""
        record, timing = loaded.record, loaded.job.timing
        operands, executable = self.timed(loaded), loaded.executables[-1]
        started = time.perf_counter()
        if not operands.repeats_known:
            executable.run(self.queue, operands.bindings, operands.case.scalars)
            operands.repeats = self.outputs(loaded).ok
            operands.repeats_known = True
        first = self._first_timing(loaded)
        if first is None:
            record.conditions = self.sensors.read() if self.sensors is not None else {}
        else:
            self.announce("run", timing.samples * max(first, timing.burst) + timing.most + timing.power)
            runs = runs_within(timing, timing.burst, first)
            self._sample(loaded, runs)
            if self.sensors is not None:
                record.conditions = self.sensors.under_load(lambda: self.burst(loaded, runs), timing.power)
        record.took("run", started)
        return self.outputs(loaded)

    def _first_timing(self, loaded: LoadedVariant) -> float | None:
        """Seconds of a run, from a first short burst; None for a variant that is too slow to be sampled further."""
        job, record, timing = loaded.job, loaded.record, loaded.job.timing
        first = self.burst(loaded, 1)
        record.charge_compiler(first)
        if first < timing.burst / 5:  # a single short run times the launch rather than the kernel
            first = self.burst(loaded, runs_within(timing, timing.burst / 5, first))
        if job.best is None or first <= timing.give_up * job.best:
            return first
        certain = first > max(_LONG, 2 * timing.give_up * job.best)
        again = first if certain else self.burst(loaded, runs_within(timing, timing.burst / 5, first))  # the first may have been disturbed
        if again <= timing.give_up * job.best:
            return again
        record.samples += [again] if certain else [first, again]
        record.remark = f"{model.SLOW}: {again / job.best:.3g} times as slow as the best, not sampled further"
        return None

    def _sample(self, loaded: LoadedVariant, runs: int) -> None:
        """Take the samples, bursts of so many runs, until there are enough or the variant is clearly behind."""
        job, record, timing = loaded.job, loaded.record, loaded.job.timing
        enough = time.perf_counter() + timing.most
        behind = math.inf if job.best is None else _BEHIND * job.best
        while len(record.samples) < timing.samples and (len(record.samples) < 2 or time.perf_counter() < enough):
            if len(record.samples) == _FEW and min(record.samples) > behind:
                break
            record.samples.append(self.burst(loaded, runs))
            if len(record.event_samples) < _PROFILES:
                record.event_samples.append(self._profile(loaded))

    def _profile(self, loaded: LoadedVariant) -> float:
        """Device seconds of one run: by the events of its launches where the back end profiles them, else between two markers."""
        operands = self.timed(loaded)
        operands.reset(self.clock)
        if loaded.job.timing.cold:
            self._flush_caches()
        events: list[Event] = []
        start = self.clock.marker()
        loaded.executables[-1].run(self.clock, operands.bindings, operands.case.scalars, events)
        end = self.clock.marker()
        end.wait()
        lasted = _event_seconds(events)
        return end.seconds_since(start) if lasted is None else lasted

    def _flush_caches(self) -> None:
        """Queue a copy larger than every cache, which evicts the operands. It reads too, because large writes may bypass the caches."""
        if self._scrub is None:
            info = self.device.info
            size = min(cache_bytes(info), info.max_allocation, info.global_memory // 8)
            self._scrub = self.device.allocate(size), self.device.allocate(size)
        target, source = self._scrub
        self.clock.copy(target, source, source.nbytes)


def _event_seconds(events: list[Event]) -> float | None:
    """Device seconds of launches by their events; None if these do not report any."""
    durations = [event.duration for event in events]
    if not durations or None in durations:
        return None
    return math.fsum(duration for duration in durations if duration is not None)


def runs_within(timing: Timing, seconds: float, run: float) -> int:
    """The number of runs of ``run`` seconds that fill ``seconds``; one where each run is timed alone."""
    return 1 if timing.cold else min(max(math.ceil(seconds / max(run, 1e-7)), 1), _LONGEST_BURST)
