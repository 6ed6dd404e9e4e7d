"""Launches whose parameter blocks are laid out once: a run writes addresses and numbers in place and calls the driver for each launch.

This halves the host time of a launch whose arguments are examined one by one. Launches that run again with the same values become a graph.
A graph of many launches takes the host little longer than a single launch, and even a graph of one launch takes less time than
`cuLaunchKernel`, which copies the parameters each time. Launches whose values change at every run are queued one by one, because updating a
graph takes as long.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Sequence
from functools import partial
from operator import itemgetter
from threading import Lock
from typing import Any, NamedTuple

import numpy as np

from portatile.device.base import Argument, Memory, Ready, ReadyLaunch
from portatile.device.cuda.context import CudaContext
from portatile.device.cuda.driver import call, driver, failure
from portatile.device.cuda.graph import GraphNode, LaunchGraph, may_keep_another
from portatile.device.cuda.kernel import LOCAL_ALIGNMENT, CudaKernel, parameter_block
from portatile.device.cuda.memory import CudaMemory
from portatile.device.cuda.queue import CudaQueue
from portatile.device.cuda.tensor_map import SIZE, encoded
from portatile.device.launches import Repeat, Slot
from portatile.errors import PortatileError
from portatile.images import Sampler
from portatile.records import TensorMap

_RUNS = 2  # runs with the same values before a graph is made: making it takes as long as several runs
_STREAMS = 4  # streams on which the same launches have graphs, so that they can overlap
_LESS = 4  # a launch that starts early is spread if it has at least this many times the local memory of the launch before
_LARGEST = float(np.finfo(np.float32).max)  # numbers up to this magnitude fit every floating-point type
_COUNTED = 64  # sets of values whose occurrences are counted


class PackedLaunches(Ready):
    """Ready launches of one device.

    Each run writes to the same parameter blocks, so the caller holds a lock. ``replayed``: runs with the same values become a graph.
    """

    def __init__(self, device: CudaContext, launches: Sequence[ReadyLaunch], replayed: bool = True) -> None:
        self._device, self._replayed = device, replayed
        self._number = device.context[1]
        with device.current():
            packed = [_packed(device, launch, before) for before, launch in zip([*launches[-1:], *launches], launches, strict=False)]
        self._steps = tuple(one.step for one in packed)
        self._pointers = [one.pointers for one in packed]  # kept alive: the driver only has their address
        self.nodes = [one.node for one in packed]
        self._exactly = exactly(launches)
        self._replays: dict[int, _Replays] = {}

    def run(self, queue: Any, values: Sequence[float], borrows: bool) -> bool:  # a CudaQueue; an assertion would cost every launch
        borrows = borrows and queue.last is not None  # a stream of our own has already waited for our memory
        if borrows:
            queue.enter()
        stream = queue.stream
        as_graph = self._replayed and self._again(self._exactly(values), values, queue)
        capturing = False
        if not as_graph:
            if capturing := queue.capturing:
                queue.keep_in_graph(node.kernel for node in self.nodes)
            for write, pick, launch, address in self._steps:
                write(*pick(values))
                error = launch(stream, address, 0)[0]
                if error:
                    return self._run_here(error, address, queue, values, borrows)
        if borrows and not capturing:
            self._mark_foreign_use(queue)
        return as_graph

    def _run_here(self, error: Any, address: int, queue: Any, values: Sequence[float], borrows: bool) -> bool:
        """If the first launch failed in another device's context, run again in the device's own context; else raise the launch's error."""
        place = [step[-1] for step in self._steps].index(address)
        if place == 0 and self._elsewhere():
            with self._device.current():
                return self.run(queue, values, borrows)
        kernel, grid, *_ = self.nodes[place]
        raise failure(error, f"kernel {kernel.name!r}, {grid[:3]} work-groups of {grid[3:]}")

    def replay(self, queue: Any, values: Sequence[float], borrows: bool) -> Callable[[], bool] | None:
        replays = self._replays.get(queue.number)
        graph = None if replays is None else replays.graphs.get(self._exactly(values))
        if graph is None:
            return None
        launch, stream, capturable = driver.cuGraphLaunch, queue.stream, queue.capturable
        alone, current = self._device.alone, self._device.current

        def again() -> bool:
            executable = graph.executable
            if executable is None or (capturable and queue.capturing):
                return False
            graph.launched = True
            if alone or not self._elsewhere():
                return not launch(executable, stream)[0]  # ``run`` will meet the same error and report it
            with current():
                return not launch(executable, stream)[0]

        if not borrows or queue.last is None:
            return again

        def lending() -> bool:
            queue.enter()
            if not again():
                return False
            self._mark_foreign_use(queue)
            return True

        return lending

    def _mark_foreign_use(self, queue: CudaQueue) -> None:
        """Note that another library's stream uses our memory, after commands that were not captured: as ``CudaQueue.leave``."""
        call(driver.cuEventRecord, queue.last, queue.stream)
        self._device.foreign_use = object()

    def _elsewhere(self) -> bool:
        """Whether another context is current in this thread. Launches fail then; asking afterwards is cheaper than before each."""
        return int(driver.cuCtxGetCurrent()[1]) != self._number

    def _again(self, bits: bytes, values: Sequence[float], queue: CudaQueue) -> bool:
        """Run the launches as a graph if they ran with these values often enough; else return False, with nothing queued."""
        replays = self._replays.get(queue.number)
        if replays is None:
            if len(self._replays) >= _STREAMS:
                self._replays.pop(next(iter(self._replays)))
            replays = self._replays[queue.number] = _Replays()
        graph = replays.graphs.get(bits)
        if graph is not None and graph.executable is None:
            graph = None
        if graph is None and not replays.came_often(bits):
            return False
        if queue.capturable and queue.capturing:
            return False
        # With several devices, a graph launch in another device's context may succeed, but at a higher cost.
        if (graph is None or not self._device.alone) and self._elsewhere():
            with self._device.current():
                return self._replay(graph, replays, bits, values, queue)
        return self._replay(graph, replays, bits, values, queue)

    def _replay(self, graph: LaunchGraph | None, replays: _Replays, bits: bytes, values: Sequence[float], queue: CudaQueue) -> bool:
        """Launch ``graph``, or a new graph if that is None; returns False if none can be made."""
        if graph is None:
            graph = self._graph(replays, bits, values) if may_keep_another(self._device) else None
            if graph is None:
                return False
        graph.launched = True
        error = driver.cuGraphLaunch(graph.executable, queue.stream)[0]
        if error and self._device.alone and self._elsewhere():
            with self._device.current():
                error = driver.cuGraphLaunch(graph.executable, queue.stream)[0]
        if error:
            raise failure(error, f"{len(self._steps)} kernels from {self.nodes[0].kernel.name!r} on, as a graph")
        return True

    def _graph(self, replays: _Replays, bits: bytes, values: Sequence[float]) -> LaunchGraph | None:
        """A graph with these values; None if the driver cannot make it."""
        try:
            for write, pick, *_ in self._steps:
                write(*pick(values))
            graph = LaunchGraph(self._device, self.nodes)
        except PortatileError:
            replays.refused = True
            return None
        replays.add(bits, graph)
        return graph


class RepeatedLaunches(Repeat):
    """Launches of one plan that are repeated, queued one by one so that each may start early: consecutive launches of graphs would wait for
    each other. Thread-safe.
    """

    def __init__(self, device: CudaContext, launches: Sequence[ReadyLaunch]) -> None:
        self._device, self._lock = device, Lock()
        self._packed = PackedLaunches(device, launches, replayed=False)

    def run(self, queue: Any, values: Sequence[Any]) -> bool:  # a CudaQueue
        if queue.tells:
            return False
        given: list[float] = []
        ours = False
        for value in values:
            if type(value) is CudaMemory and value.device is self._device and value.handle is not None:
                ours = ours or value.is_own
                given.append(value.handle)
            elif isinstance(value, float | int) and -_LARGEST < value < _LARGEST:
                given.append(value)
            else:  # left to the usual launch, which converts or refuses the value
                return False
        with self._lock:
            if ours and queue.capturing:
                queue.keep_in_graph(value for value in values if type(value) is CudaMemory and value.is_own)
            self._packed.run(queue, given, ours)
        return True

    def release(self) -> None:
        """Nothing to release: the blocks are freed with this object."""


def repeated(device: CudaContext, launches: Sequence[ReadyLaunch]) -> RepeatedLaunches | None:
    """Repeated launches; None where they take other arguments than memory, tensor maps and real numbers."""
    kinds = [arg.kind for launch in launches for arg in launch.args if isinstance(arg, Slot)]
    if all(isinstance(kind, TensorMap) or kind is Memory or issubclass(kind, np.floating) for kind in kinds):
        return RepeatedLaunches(device, launches)
    return None


class _Replays:
    """The graphs of some launches on one queue, by the values of their arguments, and how often other values occurred."""

    __slots__ = ("_counts", "graphs", "refused")

    def __init__(self) -> None:
        self.graphs: dict[bytes, LaunchGraph] = {}
        self.refused = False  # whether the driver failed to make a graph; it is not asked again
        self._counts: dict[bytes, int] = {}

    def came_often(self, bits: bytes) -> bool:
        """Whether these values occurred often enough, this time included, for a graph to be worth it."""
        if self.refused:
            return False
        count = self._counts.get(bits, 0)
        if count >= _RUNS:
            return True
        if len(self._counts) >= _COUNTED:
            self._counts.pop(next(iter(self._counts)))
        self._counts[bits] = count + 1
        return False

    def add(self, bits: bytes, graph: LaunchGraph) -> None:
        """Keep a graph for these values, and drop released graphs."""
        self.graphs = {bits: graph for bits, graph in self.graphs.items() if graph.executable is not None}
        self.graphs[bits] = graph
        self._counts.pop(bits, None)


_Step = tuple[Callable[..., None], Callable[[Sequence[float]], Sequence[Any]], Callable[..., Any], int]
"""Three functions, which write the slots, pick their values, and launch on a stream; and the address of the parameter pointers."""


class _Packed(NamedTuple):
    """A launch as a run needs it. ``pointers`` keeps the addresses of its parameters alive; ``node`` describes the launch for graphs."""

    step: _Step
    pointers: Any
    node: GraphNode


def _packed(device: CudaContext, launch: ReadyLaunch, before: ReadyLaunch) -> _Packed:
    """A launch with its constants written; the slots lie first in the block, so that one call writes them. ``before`` is the launch that
    precedes it when runs are repeated.
    """
    kernel, args = launch.kernel, launch.args
    assert isinstance(kernel, CudaKernel)
    gaps = [i for i, arg in enumerate(args) if isinstance(arg, Slot)]
    constant = [i for i, arg in enumerate(args) if not isinstance(arg, Slot)]
    formats = kernel.formats([_stand_in(device, arg) for arg in args])
    packing, block, pointers = parameter_block(formats, [*gaps, *constant])
    settled: list[Any] = []
    dynamic = 0
    for arg in (args[i] for i in constant):
        if type(arg) is int:  # the offset of a __local argument
            settled.append(dynamic)
            dynamic += -(-arg // LOCAL_ALIGNMENT) * LOCAL_ALIGNMENT
        else:
            settled.append(arg.bits if isinstance(arg, Sampler) else arg.tobytes() if isinstance(arg, np.void) else arg)
    packing.pack_into(block, 0, *(b"" if formats[i].endswith("s") else 0 for i in gaps), *settled)
    kernel.opt_in(dynamic)
    grid = kernel.grids.get((launch.global_size, launch.local_size)) or kernel.grid(launch.global_size, launch.local_size)
    slots = [arg for arg in args if isinstance(arg, Slot)]
    write = partial(struct.Struct("".join(formats[i] for i in gaps)).pack_into, block, 0)
    spread = _LESS * _local_bytes(before) <= _local_bytes(launch) > 0
    launching = kernel.start(grid, kernel.spread(grid, dynamic) if spread else dynamic)
    address = ctypes.addressof(pointers)
    return _Packed((write, _writing(device, slots), launching, address), pointers, GraphNode(kernel, grid, dynamic, address))


def _local_bytes(launch: ReadyLaunch) -> int:
    """Bytes of local memory per work-group, which decides how a multiprocessor's memory is divided between local memory and cache."""
    assert isinstance(launch.kernel, CudaKernel)
    return launch.kernel.static + sum(arg for arg in launch.args if type(arg) is int)


def exactly(launches: Sequence[ReadyLaunch]) -> Callable[[Sequence[float]], bytes]:
    """A function that returns, from the values of a run, all bits of those that the launches take."""
    slots = {arg.place: arg.kind for launch in launches for arg in launch.args if isinstance(arg, Slot)}
    pack, pick = (
        struct.Struct("".join("Q" if kind is Memory or isinstance(kind, TensorMap) else "d" for kind in slots.values())).pack,
        _picking(list(slots)),
    )
    return lambda values: pack(*pick(values))


def _stand_in(device: CudaContext, arg: Argument | Slot) -> Argument:
    """A value of an argument's type, to check the type against the kernel's parameters."""
    if not isinstance(arg, Slot):
        return arg
    if isinstance(arg.kind, TensorMap):
        return np.void(bytes(SIZE))
    return CudaMemory(device, 0, 0, owner="nobody") if arg.kind is Memory else arg.kind(0)


def _writing(device: CudaContext, slots: Sequence[Slot]) -> Callable[[Sequence[float]], Sequence[Any]]:
    """A function that returns the contents of these slots: numbers, integer ones as int, and tensor maps as bytes, which are encoded again
    if the address has changed since the last run. Not thread-safe.
    """
    pick = _picking([slot.place for slot in slots])
    maps = [(at, slot.kind) for at, slot in enumerate(slots) if isinstance(slot.kind, TensorMap)]
    integers = [at for at, slot in enumerate(slots) if slot.kind is np.int32]
    if not maps and not integers:
        return pick
    last: dict[int, tuple[float, bytes]] = {}

    def written(values: Sequence[float]) -> Sequence[Any]:
        given: list[Any] = list(pick(values))
        for at, form in maps:
            known = last.get(at)
            if known is None or known[0] != given[at]:
                with device.current():  # the caller's thread may not have a context yet
                    known = last[at] = given[at], encoded(int(given[at]), form)
            given[at] = known[1]
        for at in integers:
            given[at] = int(given[at])
        return given

    return written


def _picking(places: Sequence[int]) -> Callable[[Sequence[float]], Sequence[float]]:
    """A function that picks the values at these places."""
    if len(places) > 1:
        return itemgetter(*places)
    return lambda values: [values[place] for place in places]
