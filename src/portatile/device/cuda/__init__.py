"""The CUDA back end, through cuda-bindings and NVRTC: what `portatile.device` asks of it."""

from portatile.device.cuda.device import BACKEND, ordinal, survey, target

__all__ = ["BACKEND", "ordinal", "survey", "target"]
