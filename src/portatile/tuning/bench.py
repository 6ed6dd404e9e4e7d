"""The measuring bench of a timing worker: operands on the device, variants checked on every case and timed on the last."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from portatile.device.base import Device, Event, Memory, Module, Queue
from portatile.errors import CompileError, DeviceError, LaunchError, PortatileError
from portatile.execute import Executable
from portatile.records import Binary, Resources, Source
from portatile.tuning.arena import ArenaView
from portatile.tuning.protocol import Case, Evaluate, Evaluated, Phase, thick
from portatile.verify import GUARD_BYTES, POISON_BYTE, Verdict, compare, guard, guard_verdict, unchanged, worst
from portatile.workload import Expected

_COMPARED_BYTES = 1 << 24  # inputs up to this size are compared in full after a run, of larger ones this much
_PROFILES = 3  # runs of a variant that are timed by their events
_LONGEST_BURST = 1000  # runs; of a shorter kernel the launches are timed, not the kernel

Announce = Callable[[Phase, float], None]


@dataclass
class _Operand:
    """One operand's memory on the device, with a canary behind it, and what it held at first."""

    name: str
    writable: bool
    initial: NDArray[Any]
    memory: Memory
    pristine: Memory | None
    host: NDArray[Any]

    @property
    def body(self) -> int:
        """Bytes before the canary."""
        return -(-self.initial.nbytes // 4) * 4


class Table:
    """One case's operands on the device."""

    def __init__(self, device: Device, queue: Queue, case: Case, arena: ArenaView) -> None:
        self.case = case
        self.queue = queue
        self.expected: dict[str, Expected] = {name: arena.get_expected(at) for name, at in case.expected.items()}
        self.operands = [self._operand(device, name, arena.get(at)) for name, at in case.operands.items()]
        self.bindings: dict[str, Memory] = {operand.name: operand.memory for operand in self.operands}
        self.repeats = "inout" not in case.roles.values()
        self.repeats_known = self.repeats
        self.restore()

    def restore(self) -> None:
        """Bring every operand and canary back from the arena: a variant may have written anywhere."""
        for operand in self.operands:
            tail = np.concatenate([np.full(operand.body - operand.initial.nbytes, POISON_BYTE, np.uint8), guard()])
            for memory in filter(None, (operand.memory, operand.pristine)):
                if operand.initial.size:
                    self.queue.upload(memory, operand.initial)
                self.queue.upload(memory, tail, offset=operand.initial.nbytes)
        self.queue.finish()

    def reset(self, queue: Queue) -> None:
        """Queue what brings the outputs back to what they held at first, poison included."""
        for operand in self.operands:
            if operand.pristine is not None:
                queue.copy(operand.memory, operand.pristine, operand.body + GUARD_BYTES)
            elif operand.writable and operand.initial.size:
                queue.upload(operand.memory, operand.initial, blocking=False)

    def outputs(self, bound: float) -> Verdict:
        """Whether every output holds what it must."""
        verdicts = []
        for operand in self.operands:
            if operand.name in self.expected:
                if operand.host.size:
                    self.queue.download(operand.host, operand.memory)
                verdicts.append(compare(operand.host, self.expected[operand.name], bound, operand.name))
        return worst(verdicts)

    def surroundings(self) -> Verdict:
        """Whether canaries and inputs are as they were."""
        verdicts = []
        tail = np.empty(GUARD_BYTES, np.uint8)
        for operand in self.operands:
            self.queue.download(tail, operand.memory, offset=operand.body)
            verdicts.append(guard_verdict(operand.name, tail))
            if not operand.writable:
                part = operand.initial[: _COMPARED_BYTES // operand.initial.itemsize]
                now = np.empty_like(part)
                if part.size:
                    self.queue.download(now, operand.memory)
                verdicts.append(unchanged(operand.name, part, now))
        return worst(verdicts)

    def _operand(self, device: Device, name: str, initial: NDArray[Any]) -> _Operand:
        size = -(-initial.nbytes // 4) * 4 + GUARD_BYTES
        writable = self.case.roles[name] != "in"
        pristine = None
        memory = device.allocate(size)
        if writable:
            try:
                pristine = device.allocate(size)
            except DeviceError:
                pristine = None  # no room for a second copy: the first content comes from the host every time
        host = device.pinned(initial.nbytes)[: initial.nbytes].view(initial.dtype) if writable and initial.size else np.empty_like(initial)
        return _Operand(name, writable, initial, memory, pristine, host)


@dataclass
class _Record:
    """What is known of a variant so far."""

    samples: list[float] = field(default_factory=list)
    event_samples: list[float] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    resources: dict[str, Resources] = field(default_factory=dict)

    def charge_compiler(self, run: float) -> None:
        """Count what the first launches took beyond a run on the timed case as compile time: drivers finish kernels when launching."""
        launched = self.seconds["launch"]
        self.seconds["launch"] = min(launched, run)
        self.seconds["compile"] += launched - self.seconds["launch"]

    def took(self, phase: str, since: float) -> float:
        """Add the seconds since ``since`` to a phase; returns now."""
        now = time.perf_counter()
        self.seconds[phase] = self.seconds.get(phase, 0.0) + now - since
        return now


class Bench:
    """A device with the operands of every case on it.

    Variants run on a plain queue, as they do when they are used: profiling costs microseconds at each launch. The second
    queue takes the times.
    """

    def __init__(
        self, device: Device, cases: tuple[Case, ...], arena: ArenaView, build: Callable[[Source], Binary], announce: Announce
    ) -> None:
        self.device = device
        self.queue = device.queue()
        self.clock = device.queue(profiling=True)
        self.build = build
        self.announce = announce
        self.tables = [Table(device, self.queue, case, arena) for case in cases]

    def evaluate(self, job: Evaluate) -> Evaluated:
        """Compile, check and time one variant. What fails is data; after a driver's failure ``broken`` is set."""
        record = _Record()
        modules: dict[Source, Module] = {}
        executables: list[Executable] = []

        def outcome(status: Any, message: str = "", error: float | None = None, broken: bool = False) -> Evaluated:
            return Evaluated(
                job.number,
                status,
                tuple(record.samples),
                tuple(record.event_samples),
                record.seconds,
                error,
                message,
                record.resources,
                broken,
            )

        try:
            self.announce("compile", 0.0)
            started = time.perf_counter()
            for part in job.parts:
                executables.append(Executable(self.device, thick(part.plan, job.sources), self.build, guard=True, modules=modules))
                record.resources.update(executables[-1].resources)
            record.took("compile", started)
            self.announce("launch", 0.0)
            verdict = self._check(job, executables, record)
            if not verdict.ok:
                return outcome("wrong", verdict.message, verdict.error if math.isfinite(verdict.error) else None)
            again = self._time(job, executables[-1], record)
            if not again.ok:
                return outcome("wrong", f"right at first, wrong when run again: {again.message}")
            return outcome("ok", error=max(verdict.error, again.error))
        except CompileError as error:
            return outcome("compile", str(error))
        except LaunchError as error:
            return outcome("launch", str(error), broken=not self._alive())
        except DeviceError as error:
            return outcome("crash", str(error), broken=True)
        finally:
            for executable in executables:
                executable.release()
            for module in modules.values():
                module.release()

    def _alive(self) -> bool:
        """Whether the device still runs commands: one faulting kernel may have spoilt the context."""
        try:
            for table in self.tables:
                table.restore()
        except PortatileError:
            return False
        return True

    def _check(self, job: Evaluate, executables: list[Executable], record: _Record) -> Verdict:
        """Run every part once on poisoned outputs; a failure is looked at again with fresh operands, lest it be another variant's."""
        verdicts = []
        for part, executable in zip(job.parts, executables, strict=True):
            table = self.tables[part.case]
            verdict = self._check_once(table, executable, part.bound, record)
            if not verdict.ok:
                table.restore()
                verdict = self._check_once(table, executable, part.bound, record)
                if not verdict.ok:
                    for other in self.tables:
                        other.restore()
                    return Verdict(False, verdict.error, f"{table.case.label}: {verdict.message}")
            verdicts.append(verdict)
        return worst(verdicts)

    def _check_once(self, table: Table, executable: Executable, bound: float, record: _Record) -> Verdict:
        table.reset(self.queue)
        self.queue.finish()
        started = time.perf_counter()
        executable.run(self.queue, table.bindings, table.case.scalars)
        self.queue.finish()
        started = record.took("launch", started)
        verdict = worst([table.surroundings(), executable.check_temporaries(self.queue), table.outputs(bound)])
        record.took("check", started)
        return verdict

    def _time(self, job: Evaluate, executable: Executable, record: _Record) -> Verdict:
        """Fill the record's samples and look at the output once more."""
        timing, part = job.timing, job.parts[-1]
        table = self.tables[part.case]
        started = time.perf_counter()
        if not table.repeats_known:
            executable.run(self.queue, table.bindings, table.case.scalars)
            table.repeats = table.outputs(part.bound).ok
            table.repeats_known = True
        first = self._burst(table, executable, 1)
        record.charge_compiler(first)
        if first < timing.burst / 5:  # of a single short run the launch was timed
            first = self._burst(table, executable, _runs(timing.burst / 5, first))
        if job.best is not None and first > timing.give_up * job.best:
            again = self._burst(table, executable, _runs(timing.burst / 5, first))  # lest it was only disturbed
            if again > timing.give_up * job.best:
                record.samples += [first, again]
                record.took("run", started)
                return table.outputs(part.bound)
            first = again
        self.announce("run", timing.samples * max(first, timing.burst) + timing.most)
        runs = _runs(timing.burst, first)
        enough = time.perf_counter() + timing.most
        while len(record.samples) < timing.samples and (len(record.samples) < 2 or time.perf_counter() < enough):
            record.samples.append(self._burst(table, executable, runs))
            if len(record.event_samples) < _PROFILES:
                record.event_samples.append(self._profile(table, executable))
        record.took("run", started)
        return table.outputs(part.bound)

    def _burst(self, table: Table, executable: Executable, runs: int) -> float:
        """Device seconds per run, back to back; where a run destroys its own input, each has its input anew and is timed alone."""
        queue, clock = (self.queue if table.repeats else self.clock), self.clock
        bindings, scalars = table.bindings, table.case.scalars
        if table.repeats:
            table.reset(queue)
            queue.finish()
            start = clock.marker()
            clock.flush()
            queue.wait_for(start)
            for _ in range(runs):
                executable.run(queue, bindings, scalars)
            last = queue.marker()
            queue.flush()
            clock.wait_for(last)
            end = clock.marker()
            end.wait()
            return end.seconds_since(start) / runs
        marks: list[tuple[Event, Event]] = []
        for _ in range(runs):
            table.reset(clock)
            start = clock.marker()
            executable.run(clock, bindings, scalars)
            marks.append((start, clock.marker()))
        clock.finish()
        return math.fsum(end.seconds_since(start) for start, end in marks) / runs

    def _profile(self, table: Table, executable: Executable) -> float:
        """Device seconds of one run, by the events of its launches where the back end profiles them, else between two markers."""
        table.reset(self.clock)
        events: list[Event] = []
        start = self.clock.marker()
        executable.run(self.clock, table.bindings, table.case.scalars, events)
        end = self.clock.marker()
        end.wait()
        durations = [event.duration for event in events]
        if durations and None not in durations:
            return math.fsum(duration for duration in durations if duration is not None)
        return end.seconds_since(start)


def _runs(seconds: float, run: float) -> int:
    """How many runs of ``run`` seconds take ``seconds``."""
    return min(max(math.ceil(seconds / max(run, 1e-7)), 1), _LONGEST_BURST)
