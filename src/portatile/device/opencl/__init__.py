"""The OpenCL back end: every device of every platform, through pyopencl, compiled by its driver."""

from portatile.device.backend import BackEnd, Product

BACKEND = BackEnd("opencl", "OpenCL", rank=0, products=(Product("opencl", ".bin"),))
