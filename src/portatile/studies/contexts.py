"""How much faster is one context for several devices, with shared memory and events, than one context for each device?

The host side of Videau's port of BigDFT: devices of one platform in one context or in one each, queues in order or out of order, programs
from source and from binary, pinned buffers, asynchronous copies that depend on events, and the release of everything. The work is a
filter of 16 taps along the rows of a matrix, applied twice, in chunks: one device computes the first pass of a chunk, the next device the
second pass. In one context the second device waits for an event of the first and reads its output; with a context for each device every
chunk is copied through the host.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from portatile import program
from portatile.device.base import Device, Memory, Queue
from portatile.device.event import Event
from portatile.device.module import LoadedKernel
from portatile.errors import DeviceError, PortatileError
from portatile.figures.bars import BarChart
from portatile.figures.svg import Figure
from portatile.records import Binary, Source
from portatile.studies.framework.study import Column, Option, Run, Study, StudyRequest, option
from portatile.trials import now

ONE_EACH, SHARED = "one each", "one for all"
IN_ORDER, TWO, OUT_OF_ORDER = "one in order", "two in order", "one out of order"
_QUEUES = {IN_ORDER: "one in-order queue", TWO: "two in-order queues", OUT_OF_ORDER: "one out-of-order queue"}
PAGEABLE, PINNED = "pageable", "pinned"

_LENGTH = 1024  # elements of a row; a power of two for the kernel's mask
_TAPS = 16
_CHECKED = 16  # rows of a chunk that are compared with NumPy
_FILTER = Source(
    "filter.cl",
    """
__kernel void filter(__global const float *restrict in, __global float *restrict out)
{
    const int i = get_global_id(0);
    const int row = get_global_id(1) * LENGTH;
    float sum = 0.0f;
    for (int tap = 0; tap < TAPS; tap++)
        sum += in[row + ((i + tap) & (LENGTH - 1))] * (float)(tap + 1);
    out[row + i] = sum / (float)(TAPS * (TAPS + 1) / 2);
}
""",
    (("LENGTH", str(_LENGTH)), ("TAPS", str(_TAPS))),
)


@dataclass(frozen=True)
class ContextsRow:
    """One way to use the devices of a platform. If it did not run, seconds are None and ``status`` says why.

    ``create``: contexts and queues; ``from_source`` and ``from_binary``: the program on every device; ``run``: all chunks from host memory
    and back, the fastest; ``release``: of everything. ``relative``: the time of a run over that with one context per device, one in-order
    queue and pageable memory.
    """

    devices: str
    count: int
    platform: str
    contexts: str
    queues: str
    memory: str
    mebibytes: int
    chunks: int
    create: float | None = None
    from_source: float | None = None
    from_binary: float | None = None
    run: float | None = None
    release: float | None = None
    relative: float | None = None
    rate: float | None = None
    status: str = "ok"
    samples: int = 0
    time: str = ""


@dataclass(frozen=True)
class ContextsOptions:
    """The size of the matrix, the number of chunks, and the number of runs."""

    mebibytes: int = option(16, Option("Size of the matrix in MiB.", least=1))
    chunks: int = option(8, Option("Number of chunks that pass through the devices.", least=1))
    repeat: int = option(4, Option("Runs of each way after the first.", least=1))


def measure(run: Run) -> Iterator[ContextsRow]:
    """Every way on the devices of each platform, by turns, so that a study that is ended early has rows of each platform."""
    asked: ContextsOptions = run.options
    platforms: dict[str, list[Device]] = {}
    for device in run.devices:
        platforms.setdefault(f"{device.info.backend} {device.info.platform}", []).append(device)
    ways = [(contexts, *rest) for rest in product((IN_ORDER, TWO, OUT_OF_ORDER), (PAGEABLE, PINNED)) for contexts in (ONE_EACH, SHARED)]
    run.expect(len(platforms) * len(ways))
    programs: dict[tuple[str, str], Built] = {}
    for contexts, queues, memory in ways:
        for members in platforms.values():
            names = ", ".join(device.info.id for device in members)
            columns = contexts, queues, memory, asked.mebibytes, asked.chunks
            row = ContextsRow(names, len(members), members[0].info.platform, *columns)
            if not run.known(row):
                run.say(f"{names}: contexts {contexts}, queues {queues}, {memory} memory")
                yield _measured(row, members, asked.repeat, programs)


Built = tuple[list[Binary], float]
"""The binaries of all devices, and the seconds in which they were compiled from source and loaded."""


def _measured(
    row: ContextsRow, members: Sequence[Device], repeat: int, programs: dict[tuple[str, str], Built] | None = None
) -> ContextsRow:
    """One way. ``programs`` are those of other ways by devices and contexts, for queues and memory do not change them."""
    try:
        with ExitStack() as stack:
            row, done = _prepared(row, members, stack, {} if programs is None else programs)
            samples = [done() for _ in range(1 + repeat)]
            began = time.perf_counter()
        took = min(samples)
        row = replace(row, run=took, samples=len(samples), release=time.perf_counter() - began)
        return replace(row, rate=2 * (row.mebibytes << 20) / took / 1e9, time=now())
    except PortatileError as error:
        return replace(row, status=str(error).splitlines()[0], time=now())


@dataclass(frozen=True)
class _Member:
    """A device with its queues, which are the same one unless there are two, and the filter."""

    device: Device
    copies: Queue
    kernels: Queue
    filter: LoadedKernel

    def filtered(self, source: Memory, target: Memory, rows: int, after: Event) -> Event:
        """Queue a pass; the event of its end."""
        done = self.kernels.launch(self.filter, (_LENGTH, rows, 1), (64, 1, 1), [source, target], [after])
        self.kernels.flush()
        return done if done is not None else self.kernels.marker()

    def upload(self, target: Memory, array: NDArray[Any]) -> Event:
        """Queue a copy from the host."""
        event = self.copies.upload(target, array, blocking=False)
        self.copies.flush()
        return event

    def download(self, array: NDArray[Any], source: Memory, after: Event) -> Event:
        """Queue a copy to the host."""
        event = self.copies.download(array, source, blocking=False, wait=[after])
        self.copies.flush()
        return event


@dataclass(frozen=True)
class _Chunk:
    """Rows on their way: host memory before, between and after the passes, and device memory of both members.

    ``passed`` is where the second member finds what the first wrote: the same memory in one context, its own elsewhere.
    """

    first: _Member
    second: _Member
    host: tuple[NDArray[Any], NDArray[Any], NDArray[Any]]
    given: Memory
    middle: Memory
    passed: Memory
    result: Memory

    @property
    def rows(self) -> int:
        """The number of rows in the chunk."""
        return self.host[0].size // _LENGTH


def _prepared(
    row: ContextsRow, members: Sequence[Device], stack: ExitStack, programs: dict[tuple[str, str], Built]
) -> tuple[ContextsRow, Callable[[], float]]:
    """Contexts, queues, programs and memory, and a function that filters once and checks the result."""
    began = time.perf_counter()
    devices = list(members[0].together(members[1:])) if row.contexts == SHARED else [_alone(one) for one in members]
    for device, member in zip(devices, members, strict=True):
        if device is not member:
            stack.callback(device.release)
    queues = [_queues(device, row.queues, stack) for device in devices]
    created = time.perf_counter() - began
    known = row.devices, row.contexts
    if known not in programs:
        began = time.perf_counter()
        compiled = [program.build(_FILTER, device.target, None) for device in devices]
        built = [device.load(binary) for device, binary in zip(devices, compiled, strict=True)]
        programs[known] = compiled, time.perf_counter() - began
        for module in built:
            module.release()
    binaries, from_source = programs[known]
    began = time.perf_counter()
    modules = [stack.enter_context(device.load(binary)) for device, binary in zip(devices, binaries, strict=True)]
    from_binary = time.perf_counter() - began
    filters = [module.kernel("filter") for module in modules]
    workers = [_Member(device, *queue, kernel) for device, queue, kernel in zip(devices, queues, filters, strict=True)]
    chunks, given, result = _chunks(row, workers, stack)
    means, places = given.mean(axis=-1, dtype=np.float64), _checked(given.shape[1])
    expected = _filtered_by_numpy(_filtered_by_numpy(given[:, places]))

    def once() -> float:
        result[...] = 0
        started = time.perf_counter()
        _filter(chunks, row.contexts == SHARED)
        for worker in workers:
            worker.kernels.finish()
            worker.copies.finish()
        took = time.perf_counter() - started
        row_means = result.mean(axis=-1, dtype=np.float64)
        if not (np.allclose(result[:, places], expected, rtol=1e-4, atol=1e-5) and np.allclose(row_means, means, rtol=1e-5, atol=0)):
            raise DeviceError(f"{row.devices} filter wrongly with {row.contexts}, {row.queues}, {row.memory}")
        return took

    once()
    return replace(row, create=created, from_source=from_source, from_binary=from_binary), once


def _alone(device: Device) -> Device:
    """The device in a new context of its own, or as it is where the back end makes none."""
    try:
        return device.together()[0]
    except DeviceError:
        return device


def _queues(device: Device, kind: str, stack: ExitStack) -> tuple[Queue, Queue]:
    """The queues for copies and for kernels, which are the same one unless ``kind`` is TWO."""
    first = stack.enter_context(device.queue(out_of_order=kind == OUT_OF_ORDER))
    return first, stack.enter_context(device.queue()) if kind == TWO else first


def _chunks(row: ContextsRow, workers: Sequence[_Member], stack: ExitStack) -> tuple[list[_Chunk], NDArray[Any], NDArray[Any]]:
    """The chunks, each from one member to the next, and all of the host's memory before and after."""
    rows = max((row.mebibytes << 20) // (4 * _LENGTH) // row.chunks, 1)
    sizes = (row.chunks, rows, _LENGTH)
    given, between, result = (_host(workers[0].device, sizes, row.memory) for _ in range(3))
    drawn = np.random.default_rng(0)
    for at in range(row.chunks):  # drawing one chunk is enough: the others are the first plus their number, so that all differ
        given[at] = drawn.random(sizes[1:], np.float32) if at == 0 else given[0] + at
    made = []
    for number in range(row.chunks):
        first, second = workers[number % len(workers)], workers[(number + 1) % len(workers)]
        nbytes = given[number].nbytes
        source, middle = (stack.enter_context(first.device.allocate(nbytes)) for _ in range(2))
        passed = middle if row.contexts == SHARED else stack.enter_context(second.device.allocate(nbytes))
        target = stack.enter_context(second.device.allocate(nbytes))
        made.append(_Chunk(first, second, (given[number], between[number], result[number]), source, middle, passed, target))
    return made, given, result


def _host(device: Device, sizes: tuple[int, ...], memory: str) -> NDArray[Any]:
    nbytes = 4 * int(np.prod(sizes))
    raw = device.pinned(nbytes) if memory == PINNED else np.empty(nbytes, np.uint8)
    return raw.view(np.float32).reshape(sizes)


def _filter(chunks: Sequence[_Chunk], shared: bool) -> None:
    """Queue everything. Only without a common context does the host wait, for each chunk that it copies to the next device."""
    handed = []
    for chunk in chunks:
        before, between, after = chunk.host
        done = chunk.first.filtered(chunk.given, chunk.middle, chunk.rows, chunk.first.upload(chunk.given, before))
        if shared:
            last = chunk.second.filtered(chunk.passed, chunk.result, chunk.rows, done)
            chunk.second.download(after, chunk.result, last)
        else:
            handed.append(chunk.first.download(between, chunk.middle, done))
    for chunk, event in zip(chunks if handed else (), handed, strict=True):
        _, between, after = chunk.host
        event.wait()
        last = chunk.second.filtered(chunk.passed, chunk.result, chunk.rows, chunk.second.upload(chunk.passed, between))
        chunk.second.download(after, chunk.result, last)


def _checked(rows: int) -> list[int]:
    """The rows of a chunk that NumPy filters too; of the others the mean is compared, which the filter keeps."""
    return sorted({row * (rows - 1) // max(_CHECKED - 1, 1) for row in range(_CHECKED)})


def _filtered_by_numpy(array: NDArray[Any]) -> NDArray[Any]:
    """A pass of the filter by NumPy, periodic along the rows."""
    total = sum((tap + 1.0) * np.roll(array, -tap, axis=-1) for tap in range(_TAPS))
    return np.asarray(total / (_TAPS * (_TAPS + 1) / 2), np.float32)


def finish(rows: Sequence[ContextsRow]) -> list[ContextsRow]:
    """Times relative to one context per device, one in-order queue and pageable memory."""
    plain = {row.devices: row.run for row in rows if (row.contexts, row.queues, row.memory) == (ONE_EACH, IN_ORDER, PAGEABLE) and row.run}
    return [replace(row, relative=row.run / plain[row.devices]) if row.run and row.devices in plain else row for row in rows]


def figures(rows: Sequence[ContextsRow]) -> list[Figure]:
    """The time of a run by queues and memory, a series for each kind of context."""
    made: list[Figure] = []
    for devices in dict.fromkeys(row.devices for row in rows if row.run):
        few = [row for row in rows if row.devices == devices]
        kinds = tuple(dict.fromkeys(row.contexts for row in few if row.run))
        ways = tuple(dict.fromkeys((row.queues, row.memory) for row in few))
        took = {(row.contexts, row.queues, row.memory): row.run for row in few}
        values = tuple(tuple(took.get((kind, *way)) for kind in kinds) for way in ways)
        names = tuple(", ".join(way) for way in ways)
        caption = f"Two passes over {few[0].mebibytes} MiB in {few[0].chunks} chunks, from host memory and back, each chunk by two devices."
        made.append(BarChart(f"A context for all, or one each: {devices}", caption, "time of a run", "s", names, kinds, values))
    return made


def notes(rows: Sequence[ContextsRow]) -> list[str]:
    """The fastest way on each platform, and how a platform gets several devices."""
    lines = []
    for devices in dict.fromkeys(row.devices for row in rows):
        valid = [row for row in rows if row.devices == devices and row.run]
        if not valid:
            continue
        best = min(valid, key=lambda row: row.run or 0.0)
        lines.append(f"{devices}: fastest with contexts {best.contexts}, queues {best.queues}, {best.memory} memory")
        if best.count == 1:
            lines.append(f"{devices} is alone on its platform, and does both passes; POCL_DEVICES='pthread pthread' makes PoCL show two")
    return lines


def answer(rows: Sequence[ContextsRow]) -> str:
    """The fastest way on each platform, relative to one context per device, one in-order queue and pageable memory."""
    parts = []
    for devices in dict.fromkeys(row.devices for row in rows if row.run):
        best = min((row for row in rows if row.devices == devices and row.run), key=lambda row: row.run or 0.0)
        contexts = "one context per device" if best.contexts == ONE_EACH else "one context for all"
        queues = f"{_QUEUES[best.queues]} per device"
        gain = f": {1 / best.relative:.3g} times as fast as the simplest way" if best.relative and best.relative < 0.995 else ""
        parts.append(f"on {devices} with {contexts}, {queues}, {best.memory} memory{gain}")
    return f"Fastest {'; '.join(parts)}" if parts else ""


def _sample(given: tuple[Device, ...]) -> StudyRequest:
    return StudyRequest(given, ContextsOptions(64 if any(device.info.kind == "gpu" for device in given) else 16))


STUDY = Study(
    name="contexts",
    answers=("D4.4",),
    question="How much faster is one context for several devices, and how much do out-of-order queues and pinned memory help?",
    minutes=0.3,
    timed="a run: every chunk from host memory through both passes and back, by the host's clock, the fastest; the rest once.",
    row=ContextsRow,
    key=("devices", "contexts", "queues", "memory", "mebibytes", "chunks"),
    columns=(
        Column("devices", "devices"),
        Column("context", "contexts"),
        Column("queues of a device", "queues"),
        Column("host memory", "memory"),
        Column("create", "create", "s"),
        Column("from source", "from_source", "s"),
        Column("from binary", "from_binary", "s"),
        Column("run", "run", "s"),
        Column("GB/s", "rate"),
        Column("relative", "relative"),
        Column("release", "release", "s"),
        Column("", "status"),
    ),
    measure=measure,
    figures=figures,
    answer=answer,
    options=ContextsOptions,
    finish=finish,
    notes=notes,
    devices="all",
    sample=_sample,
)
