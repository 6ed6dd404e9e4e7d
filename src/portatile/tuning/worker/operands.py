"""One case's operands in the memory of a timing worker's device: poisoned, between canaries, restored, and compared."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from portatile.device.base import PART_ALIGNMENT, Device, Image, Memory, Queue
from portatile.errors import DeviceError
from portatile.tuning.protocol import Case
from portatile.tuning.shared_arrays import SharedArraysView
from portatile.verify import GUARD_BYTES, GUARD_WORD, POISON_BYTE, Verdict, compare, guard, margin_verdict, unchanged, worst
from portatile.workload import Expected

MARGIN = 256 * PART_ALIGNMENT  # bytes of canary on either side; those next to the operand are looked at after each check
_COMPARED_BYTES = 1 << 24  # inputs up to this size are compared in full after a run, of larger ones this much

_WORD = GUARD_WORD.to_bytes(4, "little")


@dataclass
class DeviceOperand:
    """One operand's memory on the device and its initial content; unless it is an image, it lies in ``whole`` between canaries."""

    name: str
    writable: bool
    initial: NDArray[Any]
    memory: Memory
    whole: Memory
    pristine: Memory | None
    host: NDArray[Any]

    @property
    def body(self) -> int:
        """Bytes before the canary."""
        return -(-self.initial.nbytes // 4) * 4

    @property
    def image(self) -> bool:
        """Whether it is an image: then it has no canary and is copied as a whole."""
        return isinstance(self.memory, Image)


class CaseOperands:
    """One case's operands on the device."""

    def __init__(self, device: Device, queue: Queue, case: Case, arena: SharedArraysView) -> None:
        self.case = case
        self.queue = queue
        self.expected: dict[str, Expected] = {name: arena.get_expected(at) for name, at in case.expected.items()}
        self.operands = [self._operand(device, name, arena.get(at)) for name, at in case.operands.items()]
        self.bindings: dict[str, Memory] = {operand.name: operand.memory for operand in self.operands}
        self.repeats = "inout" not in case.roles.values()
        self.repeats_known = self.repeats
        self.restore()

    def restore(self) -> None:
        """Restore every operand and canary from the shared arrays: a variant may have written anywhere."""
        for operand in self.operands:
            tail = np.concatenate([np.full(operand.body - operand.initial.nbytes, POISON_BYTE, np.uint8), guard()])
            for memory in filter(None, (operand.memory, operand.pristine)):
                if operand.initial.size:
                    self.queue.upload(memory, operand.initial)
                if not operand.image:
                    self.queue.upload(memory, tail, offset=operand.initial.nbytes)
            if not operand.image:
                for start in (0, MARGIN + operand.body):
                    self.queue.fill(operand.whole, _WORD, start, MARGIN)
        self.queue.finish()

    def reset(self, queue: Queue) -> None:
        """Queue copies that restore the outputs' initial content, poison included."""
        for operand in self.operands:
            if operand.pristine is not None:
                queue.copy(operand.memory, operand.pristine, operand.initial.nbytes if operand.image else operand.body + GUARD_BYTES)
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

    def surroundings(self, far: bool = False) -> Verdict:
        """Whether canaries and inputs are unchanged; ``far``: all of the canaries, not only what is next to the operands."""
        verdicts = []
        reach = MARGIN if far else GUARD_BYTES
        before, behind = np.empty(reach, np.uint8), np.empty(reach, np.uint8)
        for operand in self.operands:
            if not operand.image:
                self.queue.download(before, operand.whole, offset=MARGIN - reach)
                self.queue.download(behind, operand.whole, offset=MARGIN + operand.body)
                verdicts.append(margin_verdict(operand.name, before, behind))
            if not operand.writable and not operand.image:  # what a kernel reads as an image it cannot write
                part = operand.initial[: _COMPARED_BYTES // operand.initial.itemsize]
                now = np.empty_like(part)
                if part.size:
                    self.queue.download(now, operand.memory)
                verdicts.append(unchanged(operand.name, part, now))
        return worst(verdicts)

    def _operand(self, device: Device, name: str, initial: NDArray[Any]) -> DeviceOperand:
        form = self.case.forms.get(name)
        body = -(-initial.nbytes // 4) * 4
        size = initial.nbytes if form is not None else body + GUARD_BYTES
        writable = self.case.roles[name] != "in"
        pristine = None
        whole = device.allocate(body + 2 * MARGIN) if form is None else device.image_of(form)
        memory = whole if form is not None else device.part(whole, MARGIN, size)
        if writable:
            try:
                pristine = device.allocate(size)
            except DeviceError:
                pristine = None  # no memory for a second copy: the initial content comes from the host every time
        host = device.pinned(initial.nbytes)[: initial.nbytes].view(initial.dtype) if writable and initial.size else np.empty_like(initial)
        return DeviceOperand(name, writable, initial, memory, whole, pristine, host)
