"""The amdgcn back end: kernels compiled for AMD's GPUs by the distribution's Clang and libclc; nothing runs here."""

from portatile.device.backend import BackEnd, Product

BACKEND = BackEnd(
    "amdgcn",
    "AMD GCN",
    rank=-1,
    products=(Product("isa", ".s", readable=True), Product("object", ".o")),
    offline=True,
    usual="gfx942",
)
