"""From a request to its launches: the first call prepares the problem, later calls with the same shapes reuse it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from portatile import device as devices
from portatile import settings, workloads
from portatile.arguments.matrices import Matrix
from portatile.arguments.placement import Placed, place
from portatile.device.base import Device, Memory, Queue
from portatile.device.buffer import Buffer
from portatile.device.foreign_arrays import caller_stream
from portatile.device.page_locked import locked
from portatile.dtypes import name_of, product_name
from portatile.errors import ArgumentError, UsageError
from portatile.records import Plan, Problem
from portatile.runtime.in_parts import slabs, tasks
from portatile.runtime.one_device import memory_limit, scratch
from portatile.runtime.one_device.engine import BoundProblem, Engine, LoadedPlan, Prepared, engine_of, forget_engines
from portatile.runtime.one_device.in_flight import InFlight, drain
from portatile.runtime.request import Request
from portatile.runtime.several_devices import at_once, several
from portatile.workloads import precisions

_MAX_REMEMBERED = 4096
_LAYOUT = slice(Matrix._fields.index("stride"), Matrix._fields.index("read"))  # the fields of a Matrix that describe its memory layout
_remembered: dict[tuple[object, ...], BoundProblem] = {}
forgetting: list[Callable[[], None]] = []
"""Functions of other modules with memos, called by ``forget``."""
forgetting.append(at_once.forget)
_preferences: dict[tuple[object, ...], Problem] = {}  # by problem and devices: estimating the times takes milliseconds
forgetting.append(_preferences.clear)
_devices: dict[object, Device] = {}  # by selector, or by the selection of the environment


def perform(request: Request) -> BoundProblem | None:
    """Compute a request. With operands on the host, this returns when the result is in the caller's array.

    With operands on a device, the work is queued on the current stream of the library that owns ``request.result``, or on the device's
    default queue. The result is the prepared problem that ran, so that a caller can run it again; None where there was more than one
    (slabs, several devices).
    """
    operands = request.operands
    bound = request.bound or _bound_problem(request)
    if bound is None:
        return None
    engine, prepared, names = bound
    if request.begin is not None:
        request.begin.put(_queue(engine.device, request.result))
    if operands[-1].on_device:  # then all operands that are read are on the device, too
        memories = {name: stored.array.memory for name, stored in zip(names, operands, strict=True) if stored.on_device}
        launch(engine, prepared, memories, request.scalars, request.result)
    else:
        start(engine, prepared, dict(zip(names, operands, strict=True)), request.scalars, request.result)
    return bound


def _bound_problem(request: Request) -> BoundProblem | None:
    """The prepared problem of a request, memoised by devices, sizes, options, types and layouts.

    A problem that is too large for the device, or shared by several devices, is computed here; then the result is None.
    """
    operands = request.operands
    devices.check(request.selector, (list, tuple))
    if isinstance(request.selector, (list, tuple)) or request.selector == devices.EVERY:
        return _by_several(request, request.selector)
    device = _device(request)
    layouts = tuple([stored[_LAYOUT] for stored in operands])
    dtype = operands[0].array.dtype, operands[-1].array.dtype
    wanted = request.workload, request.precision, request.sizes, request.options
    key = (device, device.generation, *wanted, dtype, memory_limit.asked(), layouts)
    bound = _remembered.get(key)
    if bound is not None and not bound.waits:
        return bound
    if bound is not None and operands[-1].on_device and capturing(device, request.result):
        return bound
    again = bound is not None
    asked = problem = _problem(request)
    engine, names = engine_of(device), tuple(problem.layout)
    if precisions.chosen_by_device(request.precision):
        problem = _preferred(engine, problem, operands)
    crosses = not operands[-1].on_device and sum(stored.extent * stored.array.itemsize for stored in operands) >= slabs.BESIDE
    if crosses or (not operands[-1].on_device and _too_large(engine, problem, operands)):
        task = tasks.task(engine, problem, dict(zip(names, operands, strict=True)), request.scalars)
        large = _too_large(engine, problem, operands)
        if task.cuts and (large or slabs.overlaps(task, device)):
            if request.begin is not None:
                request.begin.put(device.default_queue())
            if large:
                engine.free_workspaces()
            slabs.run(engine, task)
            return None
    bound = BoundProblem(engine, _prepared(engine, problem, request, None if problem is asked else asked, again), names)
    if len(_remembered) >= _MAX_REMEMBERED:
        _remembered.clear()
    _remembered[key] = bound
    return bound


def _by_several(request: Request, selector: str | Sequence[str]) -> BoundProblem | None:
    """Compute on all selected devices. Where one should compute alone, return what ``_bound_problem`` returns for it, else None."""
    chosen = devices.several(selector)
    if len(chosen) == 1:
        return _bound_problem(request._replace(selector=chosen[0].info.id))
    key = _kind(request, chosen)
    if key is not None and at_once.again(key, [stored.array for stored in request.operands], request.scalars):
        return None
    problem = _problem(request)
    matrices = dict(zip(problem.layout, request.operands, strict=True))
    participants = several.participants(chosen, problem, matrices)
    if precisions.chosen_by_device(request.precision):  # the participants decide which precision is faster
        problem = _preferred_by(participants[0], problem)
    share_forecast = several.share_forecast(chosen, problem, matrices, participants)._replace(key=key)
    if alone := several.device_alone(share_forecast):
        return _bound_problem(request._replace(selector=alone))
    _begin_and_wait(request, chosen)

    def compute(engine: Engine, prepared: Prepared, operands: Mapping[str, Matrix], scalars: Mapping[str, float]) -> None:
        start(engine, prepared, operands, scalars, request.result)
        if request.operands[-1].on_device:
            _queue(engine.device, request.result).finish()  # the caller times this function, so it has to include the work

    several.perform(share_forecast, matrices, request.scalars, compute)
    return None


def parts_known(request: Request) -> Hashable:
    """The key of the known parts in which several devices share such a call; None where no parts are known."""
    if not isinstance(request.selector, (list, tuple)) and request.selector != devices.EVERY:
        return None
    key = _kind(request, devices.several(request.selector))
    return key if at_once.knows(key) else None


def _kind(request: Request, chosen: Sequence[Device]) -> tuple[object, ...] | None:
    """The key of calls on host arrays that these devices share in the same way; None for a call whose split is decided each time.

    The alignment of host operands does not matter, because they are packed for the transfer.
    """
    operands = request.operands
    if request.begin is not None or any(stored.on_device for stored in operands):
        return None
    wanted = request.workload, request.precision, request.sizes, request.options, memory_limit.asked()
    named = tuple((device.info.id, device.generation) for device in chosen)
    lie = tuple((one.array.dtype, one.transposed, one.rows, one.columns, one.stride, one.number, one.step, one.read) for one in operands)
    return *wanted, named, lie, locked.hold_all([stored.array for stored in operands])


def _begin_and_wait(request: Request, chosen: Sequence[Device]) -> None:
    """Initialise the output, and wait for all pending work on the operands, so that other devices may read them.

    Raises ArgumentError where only some operands are on the host, UsageError where a stream is being captured into a graph.
    """
    places = dict.fromkeys(stored.array.memory.device if stored.on_device else None for stored in request.operands)
    if None in places and len(places) > 1:
        raise _mixed_places_error(places)
    if request.begin is not None:
        request.begin.put(chosen[0].default_queue() if None in places else _queue(request.operands[-1].array.device, request.result))
    if None in places:
        return
    for stored in request.operands:
        buffer: Buffer = stored.array
        device, owner = buffer.device, getattr(buffer.memory, "owner", None)
        queue = device.default_queue() if owner is None else engine_of(device).queue_of(caller_stream(owner))
        if queue.capturing:
            raise UsageError(f"several devices cannot be captured into a graph of {device.info.id}: call this before or after it")
        device.default_queue().finish()
        queue.finish()


def _mixed_places_error(places: Collection[Device | None]) -> ArgumentError:
    named = ", ".join("the host" if place is None else place.info.id for place in places)
    advice = "move them to one, by Buffer.from_numpy or .numpy()"
    if None not in places:
        advice = "move them to one by .to_device, or name several devices: device=[...]"
    return ArgumentError(f"the arrays lie in different places ({named}); {advice}")


def start(
    engine: Engine, prepared: LoadedPlan, operands: Mapping[str, Matrix], scalars: Mapping[str, float], result: Any
) -> Mapping[str, Memory]:
    """Run a prepared problem on ``operands`` (by name, the output last), wherever they lie; waits if the output is on the host.

    If kernels access all operands directly in host memory, and the device keeps that mapping, returns the memory by name, so that the next
    call on the same arrays can skip the look-up; else an empty mapping.
    """
    if not prepared.executable.plan.steps:
        return {}
    with engine.lock:
        queue = _queue(engine.device, result)
        placed: dict[str, Placed] = {}
        with InFlight(engine.in_flight, queue, tuple(operands.values())):
            try:
                for name, stored in operands.items():
                    placed[name] = place(engine.device, queue, stored)
                prepared.run(queue, {name: operand.memory for name, operand in placed.items()}, scalars)
                *_, output = placed.values()
                if not output.stored.on_device:
                    output.collect(queue)
            except BaseException:
                drain(queue)
                raise
            finally:
                for operand in placed.values():
                    operand.release()
        lasting = all(operand.own and not operand.made and not operand.stored.on_device for operand in placed.values())
        return {name: operand.memory for name, operand in placed.items()} if lasting else {}


def launch(engine: Engine, prepared: LoadedPlan, operands: Mapping[str, Memory], scalars: Mapping[str, float], result: Any) -> None:
    """Queue a prepared problem on ``operands`` that all lie in the device's memory; does not wait."""
    if prepared.executable.plan.steps:
        with engine.lock:
            prepared.run(_queue(engine.device, result), operands, scalars)


def forget() -> None:
    """Drop all memos, so that the next call uses new tuning results and a new default device."""
    forget_engines()
    scratch.forget()
    _remembered.clear()
    for listener in forgetting:
        listener()
    _devices.clear()


def assembled(engine: Engine, key: Hashable, make: Callable[[], Plan], result: Any, what: str) -> LoadedPlan:
    """``Engine.assembled`` for work on the stream of ``result``; raises UsageError if that is being captured and the plan is not loaded."""
    if not engine.knows(key):
        refuse_new(engine.device, result, what)
    return engine.assembled(key, make)


def constant(device: Device, array: NDArray[Any], result: Any) -> Buffer:
    """``Scratch.constant`` for work on the stream of ``result``; raises UsageError if that is being captured and the constant is new."""
    kept = scratch.scratch(device)
    if not kept.has(array):
        refuse_new(device, result, f"a filter of {array.shape[-1]} taps")
    return kept.constant(array)


def refuse_new(device: Device, result: Any, what: str) -> None:
    """Raise UsageError while the stream of ``result`` is being captured: drivers refuse to load, allocate and wait then."""
    if capturing(device, result):
        raise UsageError(f"{what} was not called before this capture: call it once before, which compiles and loads it")


def capturing(device: Device, result: Any) -> bool:
    """Whether work queued for ``result`` is being captured into a graph by its library."""
    return not isinstance(result, np.ndarray) and _queue(device, result).capturing


def _preferred(engine: Engine, problem: Problem, operands: tuple[Matrix, ...]) -> Problem:
    """``precisions.preferred``, unless the workspace of the preferred problem alone would force it to be cut into slabs."""
    preferred = _preferred_by([engine.device], problem)
    if preferred is problem or operands[-1].on_device:
        return preferred
    return problem if _too_large(engine, preferred, operands) and not _too_large(engine, problem, operands) else preferred


def _preferred_by(participants: Sequence[Device], problem: Problem) -> Problem:
    """``precisions.preferred`` for several devices; memoised."""
    key = problem.key, *((device.info.id, device.generation) for device in participants)
    found = _preferences.get(key)
    if found is None:
        if len(_preferences) >= _MAX_REMEMBERED:
            _preferences.clear()
        found = _preferences[key] = precisions.preferred(problem, *(device.info for device in participants))
    return found


def _prepared(engine: Engine, problem: Problem, request: Request, instead: Problem | None, again: bool) -> Prepared:
    """The problem, compiled and loaded; ``instead`` is computed where there is no memory for its workspace. A repeated problem (``again``)
    may be timed first. Raises UsageError while the caller's stream is being captured.
    """
    if request.operands[-1].on_device:
        sizes = " ".join(f"{name}={size}" for name, size in problem.sizes.items())
        refuse_new(engine.device, request.result, f"{problem.workload} with {sizes}")
    return engine.prepare_again(problem, instead) if again else engine.prepare(problem, instead=instead)


def _too_large(engine: Engine, problem: Problem, operands: tuple[Matrix, ...]) -> bool:
    """Whether the operands, with or without the workspace, cannot all lie on the device at once."""
    nbytes = tuple(stored.extent * stored.array.itemsize for stored in operands)
    if memory_limit.too_large(engine.device, nbytes):
        return True
    temporaries = engine.prepare(problem).executable.plan.temporaries
    return memory_limit.too_large(engine.device, (*nbytes, *(temporary.nbytes for temporary in temporaries)))


def _device(request: Request) -> Device:
    """The device that holds the operands, else the selected one; raises ArgumentError for a conflict."""
    selector = request.selector
    assert selector is None or isinstance(selector, str)  # several devices were handled before
    places = [stored.array.memory.device if isinstance(stored.array, Buffer) else None for stored in request.operands]
    device: Device | None = places[0]
    if places.count(device) < len(places):
        raise _mixed_places_error(dict.fromkeys(places))
    if device is None:
        return _selected(selector)
    if selector is not None and _selected(selector) is not device:
        raise ArgumentError(f"device={selector!r} is not {device.info.id}, where the arrays are; leave device out or move them")
    return device


def _selected(selector: str | None) -> Device:
    key = selector or settings.selection()  # read at each call, because a program may change its environment
    return _devices.get(key) or _devices.setdefault(key, devices.get(selector))


def _queue(device: Device, result: Any) -> Queue:
    """The queue on which the library that owns ``result`` expects the work."""
    if isinstance(result, (np.ndarray, Buffer)):
        return device.default_queue()
    return engine_of(device).queue_of(caller_stream(result))


def _problem(request: Request) -> Problem:
    """The problem of a request: its sizes and options by name, with the memory layouts of its operands."""
    workload = workloads.get(request.workload)
    options = dict(zip((name for name in workload.options if name != "precision"), request.options, strict=True))
    operands = workload.operands_of(options)
    layout = {operand.name: stored.layout for operand, stored in zip(operands, request.operands, strict=True)}
    sizes = dict(zip(workload.sizes, request.sizes, strict=True))
    first, last = (name_of(request.operands[place].array.dtype) for place in (0, -1))
    dtype = last if first == last else product_name(first, last)
    computed = precisions.computed(request.precision, request.workload, dtype)
    return workloads.get(computed.workload).problem(sizes, computed.dtype, {**options, **computed.options}, layout)
