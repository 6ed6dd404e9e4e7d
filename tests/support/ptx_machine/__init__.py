"""An interpreter of the PTX that NVRTC makes: kernels run, slowly and exactly enough, where there is no GPU."""

from support.ptx_machine.machine import Machine
from support.ptx_machine.thread import GlobalMemory, TooLongError, UnsupportedInstructionError

__all__ = ["GlobalMemory", "Machine", "TooLongError", "UnsupportedInstructionError"]
