"""What NVRTC makes of OpenCL C, for tests that read it or run it without a GPU."""

from __future__ import annotations

from dataclasses import replace

from portatile import dialect
from portatile.device.cuda import compiler as cuda_compiler
from portatile.records import Binary, Entry, Source


def ptx(text: str, architecture: str = "sm_90", **defines: str) -> str:
    """The PTX of OpenCL C with these macros."""
    translation = dialect.translate(text, file="user.cl", defines=defines)
    target = cuda_compiler.CudaTarget(architecture, "ptx")
    return target.compile(Source("user.cl", translation.text, (), dialect.NVRTC_OPTIONS), translation.entries).data.decode()


class Interpreted(cuda_compiler.CudaTarget):
    """NVRTC for tests of calls, whose PTX is interpreted or noted: a third quicker, as it makes no machine code beside the PTX."""

    def __init__(self, architecture: str) -> None:
        super().__init__(architecture, "ptx")

    def compile(self, source: Source, entries: tuple[Entry, ...] = ()) -> Binary:
        if not any(option.startswith("-arch=") for option in source.options):
            virtual = "-arch=" + self.architecture.replace("sm_", "compute_")
            source = replace(source, options=(*source.options, virtual))
        return super().compile(source, entries)
