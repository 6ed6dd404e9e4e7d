"""Points in a queue of pyopencl, and the time between them."""

from __future__ import annotations

from typing import Any

from portatile.device.event import Event
from portatile.device.exit_gate import inside
from portatile.device.opencl.driver import cl, failure
from portatile.errors import ArgumentError


class ClEvent(Event):
    """A ``pyopencl.Event``; ``profiling`` tells whether its queue records times."""

    __slots__ = ("_profiling", "cl_event")

    def __init__(self, event: Any, profiling: bool) -> None:
        self.cl_event = event
        self._profiling = profiling

    def wait(self) -> None:
        try:
            with inside:
                self.cl_event.wait()
        except cl.Error as error:
            raise failure(error, "a command failed on the device") from None

    @property
    def done(self) -> bool:
        return bool(self.cl_event.command_execution_status <= cl.command_execution_status.COMPLETE)

    def seconds_since(self, earlier: Event) -> float:
        assert isinstance(earlier, ClEvent)
        if not (self._profiling and earlier._profiling):
            raise ArgumentError("times need events of queues made with profiling=True")
        earlier.wait()
        self.wait()
        return float(self.cl_event.profile.end - earlier.cl_event.profile.end) * 1e-9

    @property
    def duration(self) -> float | None:
        if not self._profiling:
            return None
        self.wait()
        return float(self.cl_event.profile.end - self.cl_event.profile.start) * 1e-9
