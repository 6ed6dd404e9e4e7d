"""The CUDA back end: NVIDIA's GPUs through cuda-bindings, compiled by NVRTC, which needs none."""

from portatile.device.backend import BackEnd, Product

BACKEND = BackEnd(
    "cuda",
    "CUDA",
    rank=1,
    products=(
        Product("cubin", ".cubin"),
        Product("ptx", ".ptx", readable=True),
        Product("cuda", ".cu", readable=True, compiled=False),
    ),
    offline=True,
    usual="sm_90",
)
