"""Code that one back end's compiler made, run by another back end of the same GPU: what is left of a difference is not the compiler's.

Both of NVIDIA's back ends take PTX, so a kernel that OpenCL's compiler made can be loaded by CUDA's driver: the times of that build and of
CUDA's own differ by the code alone, those of that build and of OpenCL's own by assembler, driver and launches alone.
"""

from __future__ import annotations

import re
from dataclasses import replace

from portatile import cache, program
from portatile.device.base import Device
from portatile.errors import DeviceError
from portatile.records import Binary, Source

_ENVIRONMENT = re.compile(r"(mov\.[bu]32\s+%r\w+,\s*)%envreg([345])\b")  # the offset of the NDRange, which is zero here
_OTHERS = re.compile(r"%envreg\d+")


def transplanted(source: Source, giver: Device) -> Binary:
    """PTX that ``giver``'s compiler makes of a text, as a binary for a device that loads PTX.

    Raises DeviceError where it is no PTX, or leans on what only its own driver supplies, and what building it raises.
    """
    built = program.build(source, giver.target, cache.default())
    text = giver.target.assembly(built)
    if any(parameter.kind in ("local", "image") for entry in built.entries for parameter in entry.parameters):
        raise DeviceError(f"{source.file} has arguments that back ends pass in their own ways")
    return replace(built, data=portable_ptx(text, source.file).encode(), kind="ptx")


def portable_ptx(text: str, file: str) -> str:
    """PTX without what ties it to the driver whose compiler made it; raises DeviceError where it cannot do without."""
    if ".version" not in text[:4096]:
        raise DeviceError(f"the compiler of {file} gives no PTX")
    text = _ENVIRONMENT.sub(r"\g<1>0", text).replace(", texmode_independent", "")
    if left := _OTHERS.search(text):
        raise DeviceError(f"{file} reads {left.group()}, which only its own driver sets")
    return text
