"""The amdgcn back end: kernels compiled for AMD's GPUs by the distribution's Clang and libclc; no kernel runs here."""

from portatile.device.backend import BackEnd, CompilerProduct

BACKEND = BackEnd(
    "amdgcn",
    "AMD GCN",
    rank=-1,
    products=(CompilerProduct("isa", ".s", readable=True), CompilerProduct("object", ".o")),
    offline=True,
    usual="gfx942",
)
