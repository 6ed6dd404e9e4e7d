"""What NVRTC makes of OpenCL C, for tests that read it."""

from __future__ import annotations

from portatile import dialect
from portatile.device.cuda import compiler as cuda_compiler
from portatile.records import Source


def ptx(text: str, architecture: str = "sm_90", **defines: str) -> str:
    """The PTX of OpenCL C with these macros."""
    translation = dialect.translate(text, file="user.cl", defines=defines)
    target = cuda_compiler.CudaTarget(architecture, "ptx")
    return target.compile(Source("user.cl", translation.text, (), dialect.NVRTC_OPTIONS), translation.entries).data.decode()
