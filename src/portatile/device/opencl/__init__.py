"""The OpenCL back end: every device of every platform, through pyopencl, compiled by its driver."""

from portatile.device.backend import BackEnd, CompilerProduct

BACKEND = BackEnd("opencl", "OpenCL", rank=0, products=(CompilerProduct("opencl", ".bin"),))
