"""One kernel text for every back end: OpenCL C with two preludes, and its translation to CUDA C++."""

from portatile.dialect.opencl_to_cuda import NVRTC_OPTIONS, PRELUDE_OPENCL, VERSION, Translation, translate

__all__ = ["NVRTC_OPTIONS", "PRELUDE_OPENCL", "VERSION", "Translation", "translate"]
