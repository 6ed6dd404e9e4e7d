"""The CUDA back end: NVIDIA's GPUs through cuda-bindings, compiled by NVRTC, which needs none."""

from portatile.device.backend import BackEnd, CompilerProduct

BACKEND = BackEnd(
    "cuda",
    "CUDA",
    rank=1,
    products=(
        CompilerProduct("cubin", ".cubin"),
        CompilerProduct("ptx", ".ptx", readable=True),
        CompilerProduct("cuda", ".cu", readable=True, compiled=False),
    ),
    offline=True,
    usual="sm_90",
)
