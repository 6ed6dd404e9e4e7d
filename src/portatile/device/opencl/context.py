"""An OpenCL device and its context: the part that memory, kernels and queues use."""

from __future__ import annotations

import threading
from typing import Any

from portatile.device.base import Device
from portatile.device.opencl.driver import cl
from portatile.device.opencl.image import sampling
from portatile.device.opencl.info import describe
from portatile.errors import DeviceError, LaunchError
from portatile.images import Sampler


class ClContext(Device):
    """One device of one OpenCL platform, whose ``pyopencl.Context`` is created at first use."""

    peers: tuple[ClContext, ...] = ()
    """The other devices of its context, whose memory its kernels can use."""

    def __init__(self, identity: str, device: Any) -> None:
        self.cl_device = device
        self.info = describe(identity, device)
        self.nvidia = "cl_nv_device_attribute_query" in device.extensions
        self._lock = threading.RLock()
        self._context: Any = None
        self._samplers: dict[Sampler, Any] = {}

    @property
    def context(self) -> Any:
        """The ``pyopencl.Context``, created at first use."""
        if self._context is None:
            self.check_own()
            with self._lock:
                if self._context is None:
                    try:
                        self._context = cl.Context([self.cl_device])
                    except cl.Error as error:
                        raise DeviceError(f"{self.info.id}: no context: {error}") from None
        return self._context

    @property
    def alike(self) -> list[Any]:
        """The ``pyopencl.Device`` and those of its context that take the same binaries.

        Programs are built for all of them: NVIDIA's driver lists no kernels for a program that lacks an executable for one of them.
        """
        alike = [one for one in self.peers if one.info.architecture == self.info.architecture and one.info.driver == self.info.driver]
        return [self.cl_device, *(one.cl_device for one in alike)]

    def sampler(self, requested: Sampler) -> Any:
        """The ``pyopencl.Sampler``, made once per context."""
        sampler = self._samplers.get(requested)
        if sampler is None:
            try:
                sampler = self._samplers[requested] = cl.Sampler(self.context, *sampling(requested))
            except cl.Error as error:
                raise LaunchError(f"{self.info.id} has no {requested}: {error}") from None
        return sampler
