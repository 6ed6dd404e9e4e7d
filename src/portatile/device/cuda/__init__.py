"""The CUDA back end, through cuda-bindings and NVRTC: what ``portatile.device`` asks of it."""

from portatile.device.cuda.compiler import target
from portatile.device.cuda.survey import ordinal, survey

__all__ = ["ordinal", "survey", "target"]
