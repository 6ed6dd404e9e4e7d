"""The OpenCL back end, through pyopencl: what `portatile.device` asks of it."""

from portatile.device.opencl.device import BACKEND, payload, survey

__all__ = ["BACKEND", "payload", "survey"]
