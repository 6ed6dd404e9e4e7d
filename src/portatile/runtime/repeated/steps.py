"""The steps of a recorded call: where each operand lies in the call's arrays, and launches on operands of the device or the host."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from portatile.arguments.described import BUFFERS
from portatile.arguments.matrices import Matrix
from portatile.arguments.outputs import InitialContent
from portatile.device.base import Device, Memory, Queue, Ready
from portatile.device.buffer import Buffer
from portatile.execute import ready_together
from portatile.runtime.one_device.deferred import waiting
from portatile.runtime.one_device.engine import Engine, LoadedPlan
from portatile.runtime.one_device.in_flight import InFlight
from portatile.runtime.perform import start


class CallArray(NamedTuple):
    """An operand that lies in the call's array number ``at``: ``delta`` bytes after its first element, ``nbytes`` long.

    ``view`` is a key of ``_VIEWS``: which view of a host array the operand is.
    """

    at: int
    delta: int
    nbytes: int
    view: str = ""

    def memory(self, device: Device, arrays: Sequence[Any], places: Sequence[int]) -> Memory:
        """The operand's memory in this call."""
        array = arrays[self.at]
        place = places[self.at] + self.delta
        if type(array) is Buffer and (type(array.memory.handle) is not int or array.memory.handle == place):
            return array.memory  # the whole Buffer's memory where a device has no addresses
        return device.adopt(place, self.nbytes, array)

    def array(self, arrays: Sequence[Any]) -> Any:
        """The operand's host array."""
        return _VIEWS[self.view](arrays[self.at])

    def place(self, places: Sequence[int]) -> int:
        """The operand's address."""
        return places[self.at] + self.delta


_VIEWS: Mapping[str, Callable[[Any], Any]] = {
    "": lambda array: array,
    "transposed": lambda array: array.T,
    "column": lambda array: array[:, None] if array.ndim == 1 else array,
}


class Constant(NamedTuple):
    """An operand that is the same in every call: an array that belongs to the package, on the host or on a device."""

    kept: Any

    @property
    def nbytes(self) -> int:
        """Bytes of its memory."""
        return int(self.kept.memory.nbytes if type(self.kept) is Buffer else self.kept.nbytes)

    def memory(self, device: Device, arrays: Sequence[Any], places: Sequence[int]) -> Memory:
        """Its memory."""
        return self.kept.memory  # type: ignore[no-any-return]

    def array(self, arrays: Sequence[Any]) -> Any:
        """The array."""
        return self.kept

    def place(self, places: Sequence[int]) -> int:
        """The address of its memory."""
        return self.kept.memory.handle  # type: ignore[no-any-return]


Operand = CallArray | Constant


class DeviceProblem(NamedTuple):
    """A prepared problem on device arrays; ``fixed`` are the scalars that are not factors of the call."""

    prepared: LoadedPlan
    operands: Mapping[str, Operand]
    fixed: Mapping[str, Any]


class Launches:
    """Launches of prepared problems in order on device arrays, ``count`` of them per call; ``factors`` are the names of the call's factors.

    ``own``: the arrays are Buffers in memory that this device allocated. ``of`` tells which problems are combined.
    """

    def __init__(self, problems: Sequence[DeviceProblem], factors: tuple[str, ...], count: int, own: bool) -> None:
        self._problems, self._factors = problems, factors
        self._others: list[Operand] = []  # operands that are not whole arguments; their addresses follow the factors
        places = [self._places(problem, count) for problem in problems]
        values = count + len(factors) + len(self._others)
        numbers: list[Any] = []
        for problem, its_places in zip(problems, places, strict=True):
            its_places.update({name: values + len(numbers) + at for at, name in enumerate(problem.fixed)})
            numbers += problem.fixed.values()
        self._numbers = tuple(numbers)
        executables = [problem.prepared.executable for problem in problems]
        self._executable = executables[0]  # with several, none has temporaries
        self._ready: Ready | None = (
            self._executable.ready(places[0], values + len(numbers))
            if len(problems) == 1
            else ready_together(executables, places, values + len(numbers))
        )
        self._constants = [operand.kept for operand in self._others if isinstance(operand, Constant)]
        self._alike = not self._others and not numbers
        self._alone = not self._executable.plan.temporaries
        self.borrows = own
        self.plain = self._ready if self._alike and self._alone else None
        """The launches if they take exactly the call's addresses and factors; then a caller may run them directly, without ``run``."""

    @classmethod
    def of(cls, problems: Sequence[DeviceProblem], factors: tuple[str, ...], count: int, own: bool) -> list[Launches]:
        """All problems combined if the device can pack them, else separate launches for each."""
        together = cls(problems, factors, count, own)
        return [together] if len(problems) == 1 or together._ready is not None else [cls([one], factors, count, own) for one in problems]

    def _places(self, problem: DeviceProblem, count: int) -> dict[str, int]:
        """The position of each factor and operand of a problem among the values of a run."""
        places = {name: count + at for at, name in enumerate(self._factors)}
        for name, operand in problem.operands.items():
            if isinstance(operand, CallArray) and not operand.delta:
                places[name] = operand.at
            else:
                places[name] = count + len(self._factors) + len(self._others)
                self._others.append(operand)
        return places

    def run(self, queue: Queue, factors: tuple[Any, ...], arrays: Sequence[Any], places: Sequence[int]) -> bool:
        """Queue the launches; the caller holds the engine's lock. Returns whether they ran as one graph, which ``replay`` can repeat."""
        if self._ready is None:
            for prepared, operands, fixed in self._problems:
                memories = {name: operand.memory(queue.device, arrays, places) for name, operand in operands.items()}
                prepared.run(queue, memories, {**dict(zip(self._factors, factors, strict=True)), **fixed})
            return False
        if self._constants and queue.capturing:
            queue.keep_in_graph(self._constants)
        values = self._values(places, factors)
        if self._alone:
            return self._ready.run(queue, values, self.borrows)
        return self._executable.rerun(self._ready, queue, values, self.borrows)

    def replay(self, queue: Queue, factors: tuple[Any, ...], places: Sequence[int]) -> Callable[[], bool] | None:
        """A function that queues this graph again, see ``Ready.replay``; valid while this object lives, whose constants it uses."""
        if self._ready is None:
            return None
        return self._executable.replay(self._ready, queue, self._values(places, factors), self.borrows)

    def _values(self, places: Sequence[int], factors: tuple[Any, ...]) -> tuple[Any, ...]:
        """The values of a run, in the order that ``_ready`` expects."""
        if self._alike:
            return (*places, *factors)
        return (*places, *factors, *[operand.place(places) for operand in self._others], *self._numbers)


class HostProblem(NamedTuple):
    """A prepared problem on host arrays; ``operands`` are templates for the matrices of a call, scalars are as in ``Launches``."""

    engine: Engine
    prepared: LoadedPlan
    operands: Mapping[str, tuple[Operand, Matrix]]
    factors: tuple[str, ...]
    fixed: Mapping[str, Any]


class HostLaunches:
    """Launches on host arrays, which are shared with the device or copied. Arrays at the last call's addresses reuse their mapping."""

    def __init__(self, call: HostProblem) -> None:
        self._call = call
        # addresses of the last arrays, and their memory if the device keeps the mapping
        self._last: tuple[list[int], Mapping[str, Memory]] = [], {}
        self._given: tuple[tuple[Any, ...], Any] = (), None  # factors of the last call on these arrays, and its launches

    def run(self, queue: Queue, factors: tuple[Any, ...], arrays: Sequence[Any], places: Sequence[int]) -> None:
        """Compute; returns when the output is complete. The caller holds the engine's lock."""
        call = self._call
        last, memories = self._last
        if memories and places == last and None not in [memory.handle for memory in memories.values()]:
            given, launches = self._given
            with InFlight(call.engine.in_flight, queue, arrays):
                if launches is not None and given == factors:
                    waiting.calls += 1
                    for launch in launches:
                        queue.launch(*launch)
                else:
                    scalars = self._scalars(factors)
                    call.prepared.run(queue, memories, scalars)
                    self._given = factors, call.prepared.executable.launches(memories, scalars)
                queue.finish()
            return
        matrices = {name: model._replace(array=source.array(arrays)) for name, (source, model) in call.operands.items()}
        memories = start(call.engine, call.prepared, matrices, self._scalars(factors), arrays[-1])
        self._last = (list(places), memories) if memories else ([], {})
        self._given = (), None

    def _scalars(self, factors: tuple[Any, ...]) -> dict[str, Any]:
        return {**dict(zip(self._call.factors, factors, strict=True)), **self._call.fixed}


class _CopyEnd(NamedTuple):
    """An array of the call, which is copied whole; ``layout``: shape, dtype, strides and offset of an array on a device."""

    operand: CallArray
    layout: tuple[Any, ...] | None

    @classmethod
    def of(cls, operand: CallArray, array: Any) -> _CopyEnd:
        """For an operand that was this array in the recorded call."""
        on_host = isinstance(array, np.ndarray)
        return cls(operand, None if on_host else (array.shape, array.dtype, array.strides, array.offset))

    def array(self, device: Device, arrays: Sequence[Any], places: Sequence[int]) -> Any:
        """The NumPy array or Buffer in this call; what is known of another library's array is not asked for again."""
        array = self.operand.array(arrays)
        if self.layout is None or isinstance(array, Buffer):
            return array
        return Buffer.over(self.operand.memory(device, arrays, places), *self.layout)


class InitialContentStep:
    """A step before the launches that writes the output's initial values, such as those of C."""

    def __init__(self, begin: InitialContent, target: CallArray, source: CallArray | None) -> None:
        self._target, self._triangle = _CopyEnd.of(target, begin.array), begin.triangle
        self._source = None if source is None else _CopyEnd.of(source, begin.source)

    def run(self, queue: Queue, factors: tuple[Any, ...], arrays: Sequence[Any], places: Sequence[int]) -> None:
        """Write the initial values."""
        source = None if self._source is None else self._source.array(queue.device, arrays, places)
        InitialContent(self._target.array(queue.device, arrays, places), source, self._triangle).put(queue)


def source_of(array: Any, arrays: Sequence[Any], places: Sequence[int]) -> Operand | None:
    """The array of ``arrays`` in which an operand's array lies, as an operand of steps; None where that is not certain."""
    if isinstance(array, np.ndarray):
        if array.size == 0:
            return Constant(np.empty(array.shape, array.dtype))
        for index, candidate in enumerate(arrays):
            for name, view in _VIEWS.items():
                viewed = view(candidate)
                same_layout = array.shape == viewed.shape and array.strides == viewed.strides
                if same_layout and array.__array_interface__["data"][0] == places[index]:
                    return CallArray(index, 0, array.nbytes, name)
        return None
    memory = array.memory
    sources = [index for index, candidate in enumerate(arrays) if candidate is array]
    if not sources:  # a view of one of the arrays
        sources = [index for index, place in enumerate(places) if place == BUFFERS.place(array)][:1]
    if not sources:  # or a part that begins at another address
        owner = getattr(memory, "owner", None)
        sources = [at for at, other in enumerate(arrays) if other is owner or getattr(other, "memory", None) is memory]
    if not sources or any(arrays[index] is not arrays[sources[0]] for index in sources):
        return None
    base = memory.handle if type(memory.handle) is int else places[sources[0]]
    return CallArray(sources[0], base - places[sources[0]], memory.nbytes)


def entire(begin: InitialContent, arrays: Sequence[Any], target: CallArray, source: Operand | None) -> bool:
    """Whether both ends of a device copy are whole arrays of the call, so that it can be repeated on other arrays."""
    ends = [(begin.array, target), *([(begin.source, source)] if isinstance(source, CallArray) else [])]
    return all(end.size == Buffer.wrap(arrays[place.at]).size for end, place in ends)
