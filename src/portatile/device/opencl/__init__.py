"""The OpenCL back end, through pyopencl: what ``portatile.device`` asks of it."""

from portatile.device.opencl.compiler import payload
from portatile.device.opencl.survey import survey

__all__ = ["payload", "survey"]
