"""Untuned problems that are repeated: a few configurations are timed by turns, and the fastest is kept for later calls and processes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache, partial
from statistics import median

import msgspec
import numpy as np
from numpy.typing import NDArray

from portatile import dialect, settings, workloads
from portatile.cache import Cache
from portatile.device.base import Device, Memory, Queue
from portatile.device.clock import back_to_back
from portatile.dtypes import itemsize
from portatile.errors import PortatileError
from portatile.execute import Executable
from portatile.flat_plans import sources
from portatile.formatting import duration
from portatile.records import Binary, Config, Plan, Problem, Source, canonical, digest, from_json, to_json
from portatile.runtime.one_device import memory_limit
from portatile.select import Choice
from portatile.store import device_key
from portatile.workload import Workload

_FORMAT = "timed 2"
_KINDS = ("gpu",)  # kinds of devices
_MOST_KNOWN = 4096
_MOST_FLOPS = 1e12  # of a problem that is timed: twenty milliseconds on a large GPU
_MOST_BYTES = 1 << 30  # of its operands
_PART = 8  # the operands may take 1/8 of the device's memory
_HEATS = (3, 0), (7, 4)  # two heats: rounds, and how many of the fastest configurations take part (0: all)
_LONG = 1e-3  # seconds of a run, from which on bursts scatter little: then there are fewer, because the caller waits
_LONG_HEATS = (1, 0), (3, 4)
_BURST = 4e-4  # seconds of a burst of consecutive runs: short, because there are many; long compared with the clock's resolution
_FEW, _MOST_RUNS = 5, 40  # runs in a burst: of the estimate of how many fit, and at most
# bytes that the device fills, and how often, while the host queues a burst, so that launches follow without gaps
_AHEAD, _FILLS = 1 << 28, 6
_GAIN = 0.98  # a contender must take less than this fraction of the untimed choice's time, so that noise does not decide
_ONE = b"\x00\x00\x80\x3f"  # the bytes of the fill
_DRAWN = 1 << 18  # words of random bits, repeated to fill operands


@dataclass(frozen=True)
class _Timed:
    """A configuration and the seconds of a run; 0 for a configuration that the device cannot run."""

    config: Config
    seconds: float


class Untuned:
    """Times configurations on one device. ``cache`` keeps the results, ``build`` compiles, and ``plan`` gives a configuration's flat plan.

    Only problems whose operands can be allocated a second time are timed; the caller's own arrays are not touched.
    """

    def __init__(self, device: Device, cache: Cache, build: Callable[[Source], Binary], plan: Callable[[Problem, Choice], Plan]) -> None:
        self._device, self._cache, self._build, self._plan = device, cache, build, plan
        self._known: dict[str, Choice] = {}
        self._unknown: set[str] = set()  # problems that the cache does not have: computations over several devices ask at each call

    def forget(self) -> None:
        """Have the cache read again."""
        self._known.clear()
        self._unknown.clear()

    def known(self, problem: Problem, choice: Choice) -> Choice:
        """The fastest configuration if the problem was timed before, else ``choice``, which then runs untimed."""
        if not self._may_be_timed(problem, choice):
            return choice
        key = problem.key
        if (known := self._known.get(key)) is not None:
            return known
        if key in self._unknown:
            return choice
        if (ran := self._stored_timings(problem, choice)) is not None:
            return self._remember(problem, choice, ran)
        if len(self._unknown) >= _MOST_KNOWN:
            self._unknown.clear()
        self._unknown.add(key)
        return choice

    def waits(self, problem: Problem, choice: Choice) -> bool:
        """Whether the problem would be timed when repeated: it has not been yet, and is small enough."""
        return self._may_be_timed(problem, choice) and problem.key not in self._known and self._is_small(problem)

    def timed(self, problem: Problem, choice: Choice) -> Choice:
        """The fastest configuration, timed now unless it was before; ``choice`` where that is tuned or has no contenders."""
        known = self.known(problem, choice)
        if not self.waits(problem, choice):
            return known
        configs = [choice.config, *workloads.get(problem.workload).contenders(problem, self._device.info)]
        configs = [config for place, config in enumerate(configs) if config not in configs[:place]]
        seconds = self._race(problem, [choice, *(Choice(config, "default", "") for config in configs[1:])]) if len(configs) > 1 else []
        ran = tuple(_Timed(dict(config), taken) for config, taken in zip(configs, seconds or [0.0] * len(configs), strict=True))
        if seconds:
            self._cache.put(self._key(problem, choice), to_json(ran))
        return self._remember(problem, choice, ran)

    def _may_be_timed(self, problem: Problem, choice: Choice) -> bool:
        return choice.reason != "tuned" and self._device.info.kind in _KINDS and settings.times_untuned()

    def _is_small(self, problem: Problem) -> bool:
        """Whether a run is short, and a second set of operands is small compared with the device's memory."""
        workload = workloads.get(problem.workload)
        if type(workload).contenders is Workload.contenders or 0 in problem.sizes.values() or workload.flops(problem) > _MOST_FLOPS:
            return False
        limit = min(_MOST_BYTES, self._device.info.global_memory // _PART, memory_limit.asked() or _MOST_BYTES)
        return sum(self._sizes(problem).values()) <= limit

    def _remember(self, problem: Problem, choice: Choice, ran: Sequence[_Timed]) -> Choice:
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()
        self._unknown.discard(problem.key)
        fastest = self._known[problem.key] = _fastest(choice, ran)
        return fastest

    def _key(self, problem: Problem, choice: Choice) -> str:
        info = self._device.info
        return digest(_FORMAT, device_key(info), info.driver, info.compiler, dialect.VERSION, problem.key, canonical(choice.config))

    def _stored_timings(self, problem: Problem, choice: Choice) -> tuple[_Timed, ...] | None:
        """The timings of an earlier process, if all of their configurations are legal now; else None."""
        try:
            timed = from_json(self._cache.get(self._key(problem, choice)) or b"", tuple[_Timed, ...])
        except (msgspec.MsgspecError, ValueError):
            return None
        space = workloads.get(problem.workload).space(problem, self._device.info)
        legal = all(one.config in space for one in timed if one.config != choice.config)
        return timed if timed and timed[0].config == choice.config and legal and all(math.isfinite(one.seconds) for one in timed) else None

    def _race(self, problem: Problem, choices: Sequence[Choice]) -> list[float]:
        """Seconds of a run of each choice, 0 for those that the device cannot run; empty where nothing could be timed."""
        try:
            plans = [self._plan(problem, one) for one in choices]
            texts = list(dict.fromkeys(source for plan in plans for source in sources(plan)))
            with ThreadPoolExecutor(len(texts)) as threads:  # compilers release the GIL
                made = dict(zip(texts, threads.map(self._built_or_none, texts), strict=True))
            with ExitStack() as stack:
                queue = stack.enter_context(self._device.queue())
                clock = stack.enter_context(self._device.queue(profiling=True))
                stack.callback(queue.finish)  # runs before any memory that the queue uses is released
                memories = {name: self._filled(stack, clock, nbytes) for name, nbytes in self._sizes(problem).items()}
                ahead = self._filled(stack, clock, min(_AHEAD, self._device.info.global_memory // 64))
                clock.finish()
                runs = [self._run_of(stack, problem, plan, made, queue, memories) for plan in plans]
                return _by_turns(queue, clock, runs, lambda: [clock.fill(ahead, _ONE) for _ in range(_FILLS)])
        except PortatileError:  # no memory for a second set of operands: the choice stands
            return []

    def _built_or_none(self, text: Source) -> Binary | None:
        try:
            return self._build(text)
        except PortatileError:
            return None

    def _filled(self, stack: ExitStack, queue: Queue, nbytes: int) -> Memory:
        """Memory filled with ``_random_words``: realistic operands, since constant bits save power and so raise the clock rate."""
        size = max(nbytes + 3 & -4, 4)
        memory = self._device.allocate(size)
        stack.callback(memory.release)
        queue.upload(memory, _random_words()[: size // 4])
        done = min(size, 4 * _DRAWN)
        while done < size:
            more = min(done, size - done)
            queue.copy(memory, memory, more, done)
            done += more
        return memory

    def _run_of(
        self, stack: ExitStack, problem: Problem, plan: Plan, made: dict[Source, Binary | None], queue: Queue, memories: dict[str, Memory]
    ) -> Callable[[], object] | None:
        """A function that queues one run of a plan; None where the plan cannot be built or loaded."""
        if any(made[source] is None for source in sources(plan)):
            return None
        try:
            executable = stack.enter_context(Executable(self._device, plan, lambda source: _present(made[source])))
        except PortatileError:
            return None
        scalars = workloads.get(problem.workload).scalars
        values = {**{name: memory.handle for name, memory in memories.items()}, **{name: float(value) for name, value in scalars.items()}}
        ready = executable.ready({name: place for place, name in enumerate(values)}, len(values))
        if ready is None:
            return partial(executable.run, queue, memories, scalars)
        return partial(executable.rerun, ready, queue, tuple(values.values()), True)

    def _sizes(self, problem: Problem) -> dict[str, int]:
        """Bytes of each operand's memory."""
        workload = workloads.get(problem.workload)
        shapes = workload.shapes(problem)
        return {name: layout.extent(shapes[name]) * itemsize(workload.element(problem, name)) for name, layout in problem.layout.items()}


@cache
def _random_words() -> NDArray[np.uint32]:
    """Random words that are finite numbers below two in every operand type: as float32 they are 1 to 1.5 with either sign."""
    return np.random.default_rng(0).integers(0, 1 << 32, _DRAWN, np.uint32) & np.uint32(0x803FBFBF) | np.uint32(0x3F800000)


def _by_turns(queue: Queue, clock: Queue, runs: Sequence[Callable[[], object] | None], ahead: Callable[[], object]) -> list[float]:
    """The median seconds of each run, from bursts by turns: first of all, then of the first run and the fastest; 0 for what cannot run."""
    took = {place: _seconds(queue, clock, run, ahead) for place, run in enumerate(runs) if run is not None}
    counts = {place: min(max(math.ceil(_BURST / max(each, 1e-7)), 1), _MOST_RUNS) for place, each in took.items()}
    samples: dict[int, list[float]] = {place: [] for place in counts}
    for rounds, fastest in _LONG_HEATS if min(took.values(), default=0.0) > _LONG else _HEATS:
        order = sorted(samples, key=lambda place: min(samples[place], default=0.0))  # the minimum, because a busy host only adds time
        entering = sorted({0, *order[: fastest or len(order)]} & counts.keys())
        for _ in range(rounds):
            for place in entering:
                run = runs[place]
                assert run is not None
                ahead()
                samples[place].append(back_to_back(queue, clock, run, counts[place]))
    if not counts or min(map(min, samples.values())) <= 0:
        return []  # the clock's resolution is too coarse
    return [median(samples[place]) if place in samples else 0.0 for place in range(len(runs))]


def _seconds(queue: Queue, clock: Queue, run: Callable[[], object], ahead: Callable[[], object]) -> float:
    """About the seconds of a run; of a short one the time per additional run, because the fixed cost of a burst exceeds that."""
    back_to_back(queue, clock, run, 1)  # the first run loads kernels
    ahead()
    once = back_to_back(queue, clock, run, 1)
    if once > _LONG:
        return once
    ahead()
    return (_FEW * back_to_back(queue, clock, run, _FEW) - once) / (_FEW - 1)


def _fastest(choice: Choice, timed: Sequence[_Timed]) -> Choice:
    """The choice with the least time; ``choice``, which is the first of ``timed``, unless another one is clearly faster."""
    ran = [one for one in timed if one.seconds > 0]
    best = min(ran, key=lambda one: one.seconds, default=timed[0])
    usual = timed[0].seconds
    if best is timed[0] or (usual > 0 and best.seconds > _GAIN * usual):
        return choice
    beside = f", where {choice.reason} takes {duration(usual)}" if usual > 0 else ""
    explanation = f"the fastest of {len(ran)} that were timed when it first came again: {duration(best.seconds)}{beside}"
    return Choice(best.config, "timed", explanation)


def _present(binary: Binary | None) -> Binary:
    assert binary is not None
    return binary
