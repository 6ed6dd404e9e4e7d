"""One case's operands in the memory of a timing worker's device: poisoned, between canaries, restored, and compared."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from portatile.device.base import Device, Memory, Queue
from portatile.errors import DeviceError
from portatile.guarded_memory import MARGIN, GuardedMemory
from portatile.tuning.protocol import Case
from portatile.tuning.shared_arrays import SharedArraysView
from portatile.verify import GUARD_BYTES, GUARD_WORD, Verdict, compare, unchanged, worst
from portatile.workload import Expected

_COMPARED_BYTES = 1 << 24  # inputs up to this size are compared in full after a run, of larger ones this much


@dataclass(frozen=True)
class CanaryMargin:
    """The memory around operands: ``margin`` bytes of canary on either side, in words of ``word``."""

    margin: int = MARGIN
    word: int = GUARD_WORD


OTHER_MEMORY = CanaryMargin(8 * MARGIN, 0x5AC3F00D)
"""Wider canaries of another word, so that far writes and reads hit something else. As a float32 it is 2.8e16, which shows in any sum."""


@dataclass
class DeviceOperand:
    """One operand's memory on the device and its initial content; unless it is an image, it lies between the canaries of ``guard``."""

    name: str
    writable: bool
    initial: NDArray[Any]
    memory: Memory
    guard: GuardedMemory | None
    pristine: Memory | None
    host: NDArray[Any]

    def restore(self, queue: Queue) -> None:
        """Queue copies of the canaries and of the initial content, also where that is kept on the device."""
        if self.guard is not None:
            self.guard.restore(queue)
        for memory in filter(None, (self.memory, self.pristine)):
            if self.initial.size:
                queue.upload(memory, self.initial)

    def release(self) -> None:
        """Give the device's memory back."""
        self.memory.release()
        if self.guard is not None:
            self.guard.release()
        if self.pristine is not None:
            self.pristine.release()


class CaseOperands:
    """One case's operands on the device. A context manager, which releases them at its end."""

    def __init__(self, device: Device, queue: Queue, case: Case, arena: SharedArraysView, around: CanaryMargin | None = None) -> None:
        self.case = case
        self.queue = queue
        self._arena, self._around = arena, around or CanaryMargin()
        self.expected: dict[str, Expected] = {name: arena.get_expected(at) for name, at in case.expected.items()}
        self.operands: list[DeviceOperand] = []
        with ExitStack() as stack:  # releases what was allocated if the memory does not suffice for all
            stack.callback(self.release)
            for name, at in case.operands.items():
                self.operands.append(self._operand(device, name, arena.get(at)))
            stack.pop_all()
        self.bindings: dict[str, Memory] = {operand.name: operand.memory for operand in self.operands}
        self.repeats = "inout" not in case.roles.values()
        self.repeats_known = self.repeats
        self.restore()

    def in_other_memory(self) -> CaseOperands:
        """A second copy of the operands, in other memory with other canaries. Raises DeviceError if there is not enough memory."""
        return CaseOperands(self.queue.device, self.queue, self.case, self._arena, OTHER_MEMORY)

    def restore(self) -> None:
        """Restore every operand and canary from the shared arrays: a variant may have written anywhere."""
        for operand in self.operands:
            operand.restore(self.queue)
        self.queue.finish()

    def reset(self, queue: Queue) -> None:
        """Queue copies that restore the outputs' initial content, poison included."""
        for operand in self.operands:
            if operand.pristine is not None:
                queue.copy(operand.memory, operand.pristine, operand.initial.nbytes)
            elif operand.writable and operand.initial.size:
                queue.upload(operand.memory, operand.initial, blocking=False)

    def outputs(self, bound: float) -> Verdict:
        """Compare every output with its expected content."""
        verdicts = []
        for operand in self.operands:
            if operand.name in self.expected:
                if operand.host.size:
                    self.queue.download(operand.host, operand.memory)
                verdicts.append(compare(operand.host, self.expected[operand.name], bound, operand.name))
        return worst(verdicts)

    def check_canaries(self, far: bool = False) -> Verdict:
        """Whether canaries and inputs are unchanged; ``far``: all of the canaries, not only what is next to the operands."""
        verdicts = []
        for operand in self.operands:
            if operand.guard is None:
                continue  # a kernel cannot write an image that it reads
            wrote = operand.guard.out_of_bounds(self.queue, operand.name, operand.initial.itemsize, None if far else GUARD_BYTES)
            verdicts.append(Verdict(True) if wrote is None else Verdict(False, float("inf"), wrote))
            if not operand.writable:
                part = operand.initial[: _COMPARED_BYTES // operand.initial.itemsize]
                now = operand.host[: part.size]
                if part.size:
                    self.queue.download(now, operand.memory)
                verdicts.append(unchanged(operand.name, part, now))
        return worst(verdicts)

    def release(self) -> None:
        """Give the device's memory back."""
        for operand in self.operands:
            operand.release()

    def __enter__(self) -> CaseOperands:
        return self

    def __exit__(self, *exc: object) -> None:
        self.release()

    def _operand(self, device: Device, name: str, initial: NDArray[Any]) -> DeviceOperand:
        form = self.case.forms.get(name)
        writable = self.case.roles[name] != "in"
        guard, pristine = None, None
        if form is not None:
            memory: Memory = device.image_of(form)
        else:
            guard = GuardedMemory(device, self.queue, initial.nbytes, self._around.margin, self._around.word)
            memory = guard.memory
        if writable:
            try:
                pristine = device.allocate(initial.nbytes)
            except DeviceError:
                pristine = None  # no memory for a second copy: the initial content comes from the host every time
        host = device.pinned(initial.nbytes)[: initial.nbytes].view(initial.dtype) if writable and initial.size else np.empty_like(initial)
        return DeviceOperand(name, writable, initial, memory, guard, pristine, host)
