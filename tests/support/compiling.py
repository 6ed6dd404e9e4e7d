"""What NVRTC makes of OpenCL C, for tests that read it or run it without a GPU."""

from __future__ import annotations

from dataclasses import replace

from portatile import dialect
from portatile.device.cuda import compiler as cuda_compiler
from portatile.records import Binary, Entry, Source


class Interpreted(cuda_compiler.CudaTarget):
    """NVRTC for tests of calls, whose PTX is interpreted or noted: a third quicker, as it makes no machine code beside the PTX."""

    def __init__(self, architecture: str) -> None:
        super().__init__(architecture, "ptx")

    def compile(self, source: Source, entries: tuple[Entry, ...] = ()) -> Binary:
        own = [option for option in source.options if option.startswith("-arch=")]
        virtual = [option.replace("sm_", "compute_") for option in own or [f"-arch={self.architecture}"]]
        others = [option for option in source.options if option not in own]
        return super().compile(replace(source, options=(*others, *virtual)), entries)


def ptx(text: str, architecture: str = "sm_90", **defines: str) -> str:
    """The PTX of OpenCL C with these macros."""
    translation = dialect.translate(text, file="user.cl", defines=defines)
    source = Source("user.cl", translation.text, (), dialect.NVRTC_OPTIONS)
    return Interpreted(architecture).compile(source, translation.entries).data.decode()
