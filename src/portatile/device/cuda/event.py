"""Points in a CUDA stream, and the time between them."""

from __future__ import annotations

from typing import Any

from portatile.device.cuda.context import CudaContext
from portatile.device.cuda.driver import call, driver, failure, running
from portatile.device.event import Event
from portatile.device.exit_gate import inside
from portatile.errors import ArgumentError


class CudaEvent(Event):
    """A ``CUevent``; on a queue that profiles single commands also the event ``start``, recorded before the command.

    ``CudaEvent.over`` makes an event that has passed already, without a driver call.
    """

    __slots__ = ("_device", "_generation", "_profiling", "_start", "cu_event")

    def __init__(self, device: CudaContext, stream: Any, profiling: bool, start: CudaEvent | None = None) -> None:
        self.cu_event: Any = device.take_event(profiling)
        self._device, self._generation, self._profiling, self._start = device, device.generation, profiling, start
        call(driver.cuEventRecord, self.cu_event, stream)

    @classmethod
    def over(cls, device: CudaContext) -> CudaEvent:
        """An event that has passed."""
        event = cls.__new__(cls)
        event.cu_event = event._start = None
        event._device, event._generation, event._profiling = device, device.generation, False
        return event

    def wait(self) -> None:
        if self.cu_event is None:
            return
        with inside, self._device.relaxed():
            error = driver.cuEventSynchronize(self.cu_event)[0]
        if int(error):
            raise failure(error, "a command failed on the device")

    @property
    def done(self) -> bool:
        if self.cu_event is None:
            return True
        with self._device.relaxed():
            error = driver.cuEventQuery(self.cu_event)[0]
        if int(error) and error != driver.CUresult.CUDA_ERROR_NOT_READY:
            raise failure(error, "a command failed on the device")
        return not int(error)

    def seconds_since(self, earlier: Event) -> float:
        assert isinstance(earlier, CudaEvent)
        if not (self._profiling and earlier._profiling):
            raise ArgumentError("times need events of queues made with profiling=True")
        earlier.wait()
        self.wait()
        with self._device.current():
            return float(call(driver.cuEventElapsedTime, earlier.cu_event, self.cu_event)) * 1e-3

    @property
    def duration(self) -> float | None:
        return self.seconds_since(self._start) if self._start is not None else None

    def __del__(self) -> None:
        event = getattr(self, "cu_event", None)
        if running and event is not None and self._generation == self._device.generation:
            self._device.give_event(event, self._profiling)
