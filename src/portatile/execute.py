"""Runs a Plan: the one executor, for tuning and for use, so that what was tuned is what runs.

There are four ways to run the same launches, each with less host time than the one before:

- ``run`` sets every argument and queues every launch.
- From the third run on, ``run`` uses separate kernel objects that keep their arguments (a ``Repeat``), where the back end has them.
- ``launches`` returns the launches of a run whose arguments are all known, for callers that queue them themselves.
- ``ready`` packs the arguments for the driver once, with slots, and ``rerun`` fills the slots with addresses and numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from portatile.device.base import Device, Image, Memory, Queue, Ready, ReadyLaunch
from portatile.device.event import Event
from portatile.device.launches import Repeat, Slot
from portatile.device.module import Module
from portatile.errors import ArgumentError, DeviceError, UsageError
from portatile.guarded_memory import GuardedMemory
from portatile.images import ImageForm
from portatile.launch_arguments import BoundLaunch, GapValues, LoadedLaunch, constant_or_gap
from portatile.records import Binary, Launch, Plan, Resources, Source, Temporary, TensorMap
from portatile.verify import POISON_BYTE, Verdict, worst, zeros_verdict
from portatile.workspaces import Workspaces, round_up

_REPEATED = 3  # the first run that uses separate kernel objects: making these takes longer than they save in a few runs


class Executable:
    """A flat plan, loaded on a device and ready to run any number of times.

    - ``build``: compiles a Source for the device, or finds it in the cache.
    - ``guard``: every temporary is poisoned and lies between canaries, which ``check_temporaries`` inspects.
    - ``modules``: loaded modules that executables share. Each executable keeps those that it runs alive; they are unloaded by whoever made
      the mapping, or with the last executable.
    - ``workspaces``: memory for temporaries that executables share; not together with ``guard``.
    - ``instead``: makes the executable that runs if there is not enough memory for the temporaries.

    Temporaries belong to the queue that uses them: on an in-order queue consecutive runs can share one workspace.
    """

    def __init__(
        self,
        device: Device,
        plan: Plan,
        build: Callable[[Source], Binary],
        guard: bool = False,
        modules: MutableMapping[Source, Module] | None = None,
        workspaces: Workspaces | None = None,
        instead: Callable[[], Executable] | None = None,
    ) -> None:
        self.device = device
        self.plan = plan
        self.guard = guard
        self.seconds: dict[str, float] = {}
        self._modules: MutableMapping[Source, Module] = {} if modules is None else modules
        self._kept: list[Module] = []
        self._shared = modules is not None
        self._workspaces: WeakKeyDictionary[Queue, dict[str, Memory]] = WeakKeyDictionary()
        self._guards: WeakKeyDictionary[Queue, dict[str, GuardedMemory]] = WeakKeyDictionary()
        self._common = workspaces
        self._instead = instead
        # the arguments of ``ready``, for ``instead``
        self._places: WeakKeyDictionary[Ready, tuple[Mapping[str, int], int]] = WeakKeyDictionary()
        self._steps: list[LoadedLaunch] = []
        self._runs = 0
        self._repeat: tuple[Repeat, tuple[str, ...]] | None = None  # with the names of the values that each run passes
        self._values = GapValues(device)
        self.resources: dict[str, Resources] = {}
        for step in plan.steps:
            if not isinstance(step, Launch):
                raise ArgumentError("an Executable runs launches only: flatten the plan first")
            self._steps.append(self._load(step, build))

    def run(self, queue: Queue, operands: Mapping[str, Memory], scalars: Mapping[str, float], events: list[Event] | None = None) -> None:
        """Queue every launch in order; does not wait. ``operands`` binds the plan's buffers, ``scalars`` its scalars.

        ``events`` receives the launches' events if the queue makes them.
        """
        if not self.plan.temporaries:
            self._launch(queue, operands, scalars, events)
        elif queue.capturing:
            self._launch(queue, {**operands, **self._in_graph(queue)}, scalars, events)
        else:
            workspace = self._workspaces.get(queue) or self._workspace(queue)
            if workspace is None:
                assert self._instead is not None
                self._instead().run(queue, operands, scalars, events)
            elif self._common is None:
                self._launch(queue, {**operands, **workspace}, scalars, events)
            else:
                self._common.users += 1
                try:
                    self._launch(queue, {**operands, **workspace}, scalars, events)
                finally:
                    self._common.users -= 1

    def launches(self, operands: Mapping[str, Memory], scalars: Mapping[str, float]) -> list[BoundLaunch] | None:
        """The launches of ``run``, to be queued any number of times; None if they take anything but memory and numbers.

        None also for a plan with temporaries, whose memory may differ in the next run.
        """
        if self.plan.temporaries:
            return None
        launches: list[BoundLaunch] = []
        for kernel, global_size, local_size, constants, gaps in self._steps:
            args = constants.copy()
            for place, name, kind, _ in gaps:
                if kind is None or kind is ImageForm or kind is TensorMap:
                    return None
                args[place] = operands[name] if kind is Memory else kind(scalars[name])
            launches.append((kernel, global_size, local_size, args))
        return launches

    def ready(self, values: Mapping[str, int], count: int) -> Ready | None:
        """The launches with their arguments packed, for ``rerun``. None if the back end cannot pack them.

        ``values`` gives the index of each operand and scalar among the ``count`` values of a rerun. Only addresses, tensor maps, real
        numbers and 32-bit integers can be packed.
        """
        launches = self._with_slots(values, count)
        ready = None if launches is None else self.device.ready(launches)
        if ready is not None and self._instead is not None:
            self._places[ready] = values, count
        return ready

    def _with_slots(self, values: Mapping[str, int], count: int) -> list[ReadyLaunch] | None:
        """The launches of ``ready``; the values of temporaries follow the ``count`` of a rerun."""
        places = {**values, **{temporary.name: count + place for place, temporary in enumerate(self.plan.temporaries)}}
        if any(temporary.kind == "image" for temporary in self.plan.temporaries):
            return None
        launches = []
        for kernel, global_size, local_size, constants, gaps in self._steps:
            args = constants.copy()
            for place, name, kind, form in gaps:
                if name not in places or kind is None or not (kind in (Memory, TensorMap, np.int32) or issubclass(kind, np.floating)):
                    return None
                args[place] = Slot(places[name], form if isinstance(form, TensorMap) else kind)
            launches.append(ReadyLaunch(kernel, global_size, local_size, args))
        return launches

    def rerun(self, ready: Ready, queue: Queue, values: tuple[float, ...], borrows: bool) -> bool:
        """Run what ``ready`` returned, with new addresses and numbers in ``values``; returns whether it ran as one graph, as ``Ready.run``
        does.

        ``borrows``: the addresses belong to memory of the device itself, not to other libraries' arrays.
        """
        temporaries = self.plan.temporaries
        if not temporaries:
            return ready.run(queue, values, borrows)
        if queue.capturing:
            ready.run(queue, (*values, *[memory.handle for memory in self._in_graph(queue).values()]), borrows)
            return False
        workspace = self._workspaces.get(queue) or self._workspace(queue)
        if workspace is None:
            self._rerun_instead(ready, queue, values, borrows)
            return False
        try:
            return ready.run(queue, (*values, *[memory.handle for memory in workspace.values()]), True)
        except BaseException:
            self._discard_zeroed(queue)
            raise

    def replay(self, ready: Ready, queue: Queue, values: tuple[float, ...], borrows: bool) -> Callable[[], bool] | None:
        """As ``Ready.replay``, for a ``rerun`` with these values; its function returns False once the workspace has been replaced."""
        if not self.plan.temporaries:
            return ready.replay(queue, values, borrows)
        kept = self._workspaces
        workspace = kept.get(queue)
        again = None
        if workspace is not None:
            again = ready.replay(queue, (*values, *[memory.handle for memory in workspace.values()]), True)
        if again is None:
            return None
        return lambda: kept.get(queue) is workspace and again()

    def _rerun_instead(self, planned: Ready, queue: Queue, values: tuple[float, ...], borrows: bool) -> None:
        """Run the executable that needs less memory, with the values of this executable's run."""
        assert self._instead is not None
        other, (places, count) = self._instead(), self._places[planned]
        ready = other.ready(places, count)
        if ready is None:
            raise DeviceError(f"{self.device.info.id} does not have enough memory for the workspace of this computation")
        other.rerun(ready, queue, values, borrows)

    def _launch(
        self, queue: Queue, memories: Mapping[str, Memory], scalars: Mapping[str, float], events: list[Event] | None = None
    ) -> None:
        launch, values, numbers = queue.launch, self._values, self._values.numbers
        try:
            if events is None and self._repeat_launches(queue, memories, scalars):
                return
            for kernel, global_size, local_size, constants, gaps in self._steps:
                args = constants.copy()
                for place, name, kind, form in gaps:
                    if kind is Memory:
                        args[place] = memories[name]
                    elif kind is ImageForm:
                        args[place] = values.image(queue, memories[name], form)
                    elif kind is TensorMap:
                        args[place] = values.tensor_map(memories[name], form)
                    else:
                        value, last = scalars[name], numbers.get(name)
                        same = last is not None and last[0] is value and type(last[1]) is kind
                        args[place] = last[1] if same else values.number(name, value, kind)  # type: ignore[index]
                event = launch(kernel, global_size, local_size, args)
                if events is not None and event is not None:
                    events.append(event)
        except BaseException:
            self._discard_zeroed(queue)
            raise

    def _repeat_launches(self, queue: Queue, memories: Mapping[str, Memory], scalars: Mapping[str, float]) -> bool:
        """Run repeated launches through the ``Repeat``; False, with nothing queued, if the back end or the queue has none."""
        if self._repeat is None:
            self._runs += 1
            if self._runs == _REPEATED:
                self._repeat = self._repeated(memories)
        if self._repeat is None:
            return False
        repeat, names = self._repeat
        return repeat.run(queue, [memories[name] if name in memories else scalars[name] for name in names])

    def _repeated(self, memories: Mapping[str, Memory]) -> tuple[Repeat, tuple[str, ...]] | None:
        """The launches that ``_repeat_launches`` runs, and the names of the values that they take in each run, as in this one.

        None if these are not only memory, tensor maps and numbers, but for example images.
        """
        if any(isinstance(memory, Image) for memory in memories.values()):
            return None
        names: dict[str, int] = {}
        launches = []
        for kernel, global_size, local_size, settled, unsettled in self._steps:
            args = settled.copy()
            for place, name, kind, form in unsettled:
                if kind not in (Memory, TensorMap) and not issubclass(kind, np.generic):
                    return None
                args[place] = Slot(names.setdefault(name, len(names)), form if isinstance(form, TensorMap) else kind)
            launches.append(ReadyLaunch(kernel, global_size, local_size, args))
        repeat = self.device.repeat(launches)
        return None if repeat is None else (repeat, tuple(names))

    def check_temporaries(self, queue: Queue) -> Verdict:
        """Whether the canaries around the temporaries are intact, and zeroed temporaries hold zeros; waits for the queue."""
        verdicts = []
        for temporary in self.plan.temporaries:
            guard = self._guards.get(queue, {}).get(temporary.name)
            if guard is not None:
                wrote = guard.out_of_bounds(queue, f"temporary {temporary.name}", 1)
                verdicts.append(Verdict(True) if wrote is None else Verdict(False, float("inf"), wrote))
                if temporary.zeroed:
                    left = np.empty(round_up(temporary.nbytes), np.uint8)
                    queue.download(left, guard.memory)
                    verdicts.append(zeros_verdict(f"temporary {temporary.name}", left))
        return worst(verdicts)

    def release(self) -> None:
        """Unload the kernels, and free the workspaces that are not shared."""
        for workspace in self._workspaces.values() if self._common is None else ():
            for memory in workspace.values():
                memory.release()
        for guards in self._guards.values():
            for guard in guards.values():
                guard.release()
        self._workspaces.clear()
        self._guards.clear()
        if self._repeat is not None:
            self._repeat[0].release()
        self._repeat = None
        self._steps.clear()
        self._kept.clear()
        if not self._shared:
            for module in self._modules.values():
                module.release()
            self._modules.clear()

    def give_up(self, queue: Queue) -> None:
        """Stop using the workspace of a queue: the next run asks for another."""
        self._workspaces.pop(queue, None)

    def __enter__(self) -> Executable:
        return self

    def __exit__(self, *exc: object) -> None:
        self.release()

    def _discard_zeroed(self, queue: Queue) -> None:
        """Discard zeroed temporaries after a failed run, which may have left other values there; the next run zeroes new ones."""
        if any(temporary.zeroed for temporary in self.plan.temporaries):
            own = self._workspaces.pop(queue, {})
            queue.forget_graph()
            if self._common is not None:
                self._common.discard_zeroed(queue)
            else:
                for memory in own.values():
                    memory.release()

    def _load(self, step: Launch, build: Callable[[Source], Binary]) -> LoadedLaunch:
        module = self._modules.get(step.source)
        if module is None:
            binary = build(step.source)
            for phase, seconds in binary.seconds.items():
                self.seconds[phase] = self.seconds.get(phase, 0.0) + seconds
            self.resources.update(binary.resources)
            module = self._modules[step.source] = self.device.load(binary)
        self._kept.append(module)
        slots = [constant_or_gap(arg) for arg in step.args]
        constants: list[Any] = [constant for _, _, constant in slots]
        gaps = tuple((place, name, kind, form) for place, (name, kind, form) in enumerate(slots) if kind is not None)
        kernel = module.kernel(step.kernel)
        if kernel.name not in self.resources and kernel.resources.registers >= 0:  # the driver compiled it when it was loaded
            self.resources[kernel.name] = kernel.resources
        return kernel, step.global_size, step.local_size, constants, gaps

    def _in_graph(self, queue: Queue) -> dict[str, Memory]:
        """A workspace that belongs to the graph that the queue captures."""
        if any(temporary.kind == "image" for temporary in self.plan.temporaries):
            raise UsageError("this computation needs an image as its workspace, which cannot be captured into a graph")
        return {
            temporary.name: queue.of_graph(
                (place, temporary.exact and temporary.nbytes), max(round_up(temporary.nbytes), 4), temporary.zeroed
            )
            for place, temporary in enumerate(self.plan.temporaries)
        }

    def _workspace(self, queue: Queue) -> dict[str, Memory] | None:
        """Allocate the workspace of a queue; None if there is not enough memory for it and ``instead`` can run."""
        try:
            workspace = self._allocate(queue) if self._common is None else self._common.give(self, queue)
        except DeviceError:
            if self._instead is None:
                raise
            return None
        self._workspaces[queue] = workspace
        return workspace

    def _guarded(self, temporary: Temporary, queue: Queue, size: int) -> Memory:
        guard = GuardedMemory(self.device, queue, max(size, 4))
        self._guards.setdefault(queue, {})[temporary.name] = guard
        return guard.memory

    def _allocate(self, queue: Queue) -> dict[str, Memory]:
        workspace: dict[str, Memory] = {}
        for temporary in self.plan.temporaries:
            if temporary.kind == "image":
                workspace[temporary.name] = self.device.image(temporary.width, temporary.height, temporary.channels, temporary.dtype)
                continue
            size = round_up(temporary.nbytes)
            memory = self._guarded(temporary, queue, size) if self.guard else self.device.allocate(max(size, 4))
            if self.guard or temporary.zeroed:
                queue.fill(memory, bytes(4) if temporary.zeroed else bytes([POISON_BYTE]) * 4, 0, size)
            workspace[temporary.name] = memory
        return workspace


def ready_together(executables: Sequence[Executable], values: Sequence[Mapping[str, int]], count: int) -> Ready | None:
    """``Executable.ready`` for several executables of one device, each with its own positions among the ``count`` values of a run.

    None if one has temporaries, or launches that cannot be packed.
    """
    launches: list[ReadyLaunch] = []
    for executable, places in zip(executables, values, strict=True):
        own = None if executable.plan.temporaries else executable._with_slots(places, count)
        if own is None:
            return None
        launches += own
    return executables[0].device.ready(launches)
