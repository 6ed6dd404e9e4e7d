"""Untuned problems at their first use: a few configurations are timed by turns, and the fastest is kept for later calls and processes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from statistics import median

import msgspec

from portatile import dialect, settings, workloads
from portatile.cache import Cache
from portatile.device.base import Device, Memory, Queue
from portatile.device.clock import back_to_back
from portatile.dtypes import itemsize
from portatile.errors import PortatileError
from portatile.execute import Executable, sources
from portatile.records import Binary, Config, Plan, Problem, Source, canonical, digest, duration, from_json, to_json
from portatile.runtime import memory_limit
from portatile.select import Choice
from portatile.store import device_key

_FORMAT = "first use 1"
_MOST_FLOPS = 1e11  # of a problem that is timed: two milliseconds of a large GPU
_MOST_BYTES = 1 << 29  # of its operands
_PART = 8  # of the device's memory that they may take
_HEATS = (3, 0), (7, 4)  # bursts of each configuration; and, after the first heat, for how many of the fastest
_BURST = 1.5e-4  # seconds: short, for all of them together take milliseconds, and long beside the clock's resolution
_MOST_RUNS = 24  # in a burst
_AHEAD = 1 << 28  # bytes that the device fills while the host queues a burst: its launches then follow each other without gaps
_GAIN = 0.98  # of the time of what would run without: noise alone makes one of several a little faster
_ONE = b"\x00\x00\x80\x3f"  # in operands: 1.0 in float32, and finite in every other type


class FirstUse:
    """Times configurations on one device. ``cache`` keeps the outcome, ``build`` compiles, ``plan`` gives a configuration's flat plan.

    A problem is timed that is small enough for its operands to be allocated a second time; the caller's own are not touched.
    """

    def __init__(self, device: Device, cache: Cache, build: Callable[[Source], Binary], plan: Callable[[Problem, Choice], Plan]) -> None:
        self._device, self._cache, self._build, self._plan = device, cache, build, plan
        self._known: dict[str, Choice] = {}

    def forget(self) -> None:
        """Look at the cache again."""
        self._known.clear()

    def known(self, problem: Problem, choice: Choice) -> Choice:
        """The fastest configuration if the problem was timed before, else ``choice``: what is used where nothing is timed."""
        return self._decided(problem, choice, lambda configs: [])

    def measured(self, problem: Problem, choice: Choice) -> Choice:
        """The fastest configuration, timed now if it was not before; ``choice`` where that is tuned, or nothing else may be faster."""
        return self._decided(problem, choice, partial(self._race, problem))

    def _decided(self, problem: Problem, choice: Choice, race: Callable[[Sequence[Choice]], list[float]]) -> Choice:
        if choice.reason == "tuned" or not settings.measures_at_first_use():
            return choice
        found = self._known.get(problem.key)
        if found is not None:
            return found
        configs = self._contenders(problem, choice)
        if len(configs) < 2:
            return choice
        info = self._device.info
        key = digest(_FORMAT, device_key(info), info.driver, info.compiler, dialect.VERSION, problem.key, *(canonical(c) for c in configs))
        seconds = self._kept(key, len(configs))
        if not seconds:
            others = (Choice(config, "default", "") for config in configs[1:])
            seconds = race([choice, *others])
            if not seconds:
                return choice
            self._cache.put(key, to_json(seconds))
        found = self._known[problem.key] = _fastest(choice, configs, seconds)
        return found

    def _contenders(self, problem: Problem, choice: Choice) -> list[Config]:
        """The configuration of ``choice``, and what its workload would try beside it; nothing for problems that are too large."""
        workload, info = workloads.get(problem.workload), self._device.info
        nbytes = sum(self._sizes(problem).values())
        limit = min(_MOST_BYTES, info.global_memory // _PART, memory_limit.asked() or _MOST_BYTES)
        if workload.flops(problem) > _MOST_FLOPS or nbytes > limit or 0 in problem.sizes.values():
            return []
        return [choice.config, *(config for config in workload.contenders(problem, info) if config != choice.config)]

    def _kept(self, key: str, count: int) -> list[float]:
        """The seconds of each configuration in an earlier process; none where there was none."""
        try:
            found = from_json(self._cache.get(key) or b"[]", list[float])
        except (msgspec.MsgspecError, ValueError):
            return []
        return found if len(found) == count and all(map(math.isfinite, found)) else []

    def _race(self, problem: Problem, choices: Sequence[Choice]) -> list[float]:
        """Seconds of a run of each, 0 for those that this device refuses; empty where nothing could be timed."""
        try:
            plans = [self._plan(problem, one) for one in choices]
            texts = list(dict.fromkeys(source for plan in plans for source in sources(plan)))
            with ThreadPoolExecutor(len(texts)) as threads:  # compilers let Python go on
                made = dict(zip(texts, threads.map(self._built, texts), strict=True))
            with ExitStack() as stack:
                queue = stack.enter_context(self._device.queue())
                clock = stack.enter_context(self._device.queue(profiling=True))
                stack.callback(queue.finish)  # before anything that it uses is given back
                memories = {name: self._filled(stack, clock, nbytes) for name, nbytes in self._sizes(problem).items()}
                ahead = self._filled(stack, clock, min(_AHEAD, self._device.info.global_memory // 64))
                clock.finish()
                runs = [self._run_of(stack, problem, plan, made, queue, memories) for plan in plans]
                return _by_turns(queue, clock, runs, lambda: clock.fill(ahead, _ONE))
        except PortatileError:  # no memory for a second set of operands: the choice stands
            return []

    def _built(self, text: Source) -> Binary | None:
        try:
            return self._build(text)
        except PortatileError:
            return None

    def _filled(self, stack: ExitStack, queue: Queue, nbytes: int) -> Memory:
        memory = self._device.allocate(max(nbytes + 3 & -4, 4))
        stack.callback(memory.release)
        queue.fill(memory, _ONE)
        return memory

    def _run_of(
        self, stack: ExitStack, problem: Problem, plan: Plan, made: dict[Source, Binary | None], queue: Queue, memories: dict[str, Memory]
    ) -> Callable[[], object] | None:
        """What queues a run of a plan; None where it cannot be built or loaded."""
        if any(made[source] is None for source in sources(plan)):
            return None
        try:
            executable = stack.enter_context(Executable(self._device, plan, lambda source: _there(made[source])))
        except PortatileError:
            return None
        scalars = workloads.get(problem.workload).scalars
        values = {**{name: memory.handle for name, memory in memories.items()}, **{name: float(value) for name, value in scalars.items()}}
        ready = executable.ready({name: place for place, name in enumerate(values)}, len(values))
        if ready is None:
            return partial(executable.run, queue, memories, scalars)
        return partial(executable.rerun, ready, queue, tuple(values.values()), True)

    def _sizes(self, problem: Problem) -> dict[str, int]:
        """Bytes of the memory of each operand."""
        workload = workloads.get(problem.workload)
        shapes = workload.shapes(problem)
        return {name: layout.extent(shapes[name]) * itemsize(workload.element(problem, name)) for name, layout in problem.layout.items()}


def _by_turns(queue: Queue, clock: Queue, runs: Sequence[Callable[[], object] | None], ahead: Callable[[], object]) -> list[float]:
    """The median of bursts of each run, which take turns: of all, then of the first and the fastest; 0 for what cannot run."""
    counts: dict[int, int] = {}
    for place, run in enumerate(runs):
        if run is not None:
            back_to_back(queue, clock, run, 1)  # the first one loads
            once = back_to_back(queue, clock, run, 1)
            counts[place] = min(max(math.ceil(_BURST / max(once, 1e-7)), 1), _MOST_RUNS)
    samples: dict[int, list[float]] = {place: [] for place in counts}
    for rounds, fastest in _HEATS:
        order = sorted(samples, key=lambda place: median(samples[place] or [0.0]))
        entering = sorted({0, *order[: fastest or len(order)]} & counts.keys())
        for _ in range(rounds):
            for place in entering:
                run = runs[place]
                assert run is not None
                ahead()
                samples[place].append(back_to_back(queue, clock, run, counts[place]))
    if not counts or min(map(min, samples.values())) <= 0:
        return []  # the clock does not advance
    return [median(samples[place]) if place in samples else 0.0 for place in range(len(runs))]


def _fastest(choice: Choice, configs: Sequence[Config], seconds: Sequence[float]) -> Choice:
    """The configuration with the least time, of ``choice``'s own only if none is clearly faster."""
    timed = [place for place, taken in enumerate(seconds) if taken > 0]
    best = min(timed, key=lambda place: seconds[place])
    if best == 0 or (seconds[0] > 0 and seconds[best] > _GAIN * seconds[0]):
        return choice
    usual = f", where {choice.reason} takes {duration(seconds[0])}" if seconds[0] > 0 else ""
    said = f"the fastest of {len(timed)} that were timed when it was first computed here: {duration(seconds[best])}{usual}"
    return Choice(configs[best], "first use", said)


def _there(binary: Binary | None) -> Binary:
    assert binary is not None
    return binary
