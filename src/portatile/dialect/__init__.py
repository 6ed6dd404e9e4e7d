"""One kernel text for every back end: OpenCL C with two preludes, and its translation to CUDA C++."""

from portatile.dialect.includes import gather, read_text
from portatile.dialect.messages import readable
from portatile.dialect.opencl_to_cuda import PRELUDE_OPENCL, VERSION, Translation, translate
from portatile.dialect.options import NVRTC_OPTIONS, nvrtc_options

__all__ = ["NVRTC_OPTIONS", "PRELUDE_OPENCL", "VERSION", "Translation", "gather", "nvrtc_options", "read_text", "readable", "translate"]
