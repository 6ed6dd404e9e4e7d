"""Code from the compiler of one back end, run by another back end of the same GPU: a difference that remains is not due to the compiler.

Both of NVIDIA's back ends take PTX. So CUDA's driver can load PTX from the OpenCL compiler, and also PTX from CUDA's own compiler, which
usually uses its own assembler. Comparing builds separates the causes of a difference:

- OpenCL's PTX and CUDA's PTX, both loaded by CUDA's driver: the compilers' code.
- OpenCL's PTX loaded by CUDA's driver, and by OpenCL's own: driver and launches.
- CUDA's PTX loaded by the driver, and CUDA's usual binary: the assemblers.
"""

from __future__ import annotations

import re
from dataclasses import replace

from portatile import cache, program
from portatile import device as devices
from portatile.device.base import Device
from portatile.errors import DeviceError
from portatile.records import Binary, Source

_ENVIRONMENT = re.compile(r"(mov\.)[bu]32(\s+%\w+,\s*)%envreg(\d+)\b")
_OTHERS = re.compile(r"%envreg\d+")
# the meaning of OpenCL's environment registers: offsets of work-groups and of the NDRange, which are 0 here, and the number of work-groups
_MEANT = {
    **dict.fromkeys("012345", "0"),
    **dict(zip("678", ("%nctaid.x", "%nctaid.y", "%nctaid.z"), strict=True)),
}


def transplanted(source: Source, giver: Device) -> Binary:
    """PTX that ``giver``'s compiler makes of a text, as a binary for a device that loads PTX.

    Raises DeviceError if the result is not PTX or depends on what only its own driver provides, and whatever building it raises.
    """
    built = program.build(source, giver.target, cache.default())
    text = giver.target.assembly(built)
    if any(parameter.kind in ("local", "image") for entry in built.entries for parameter in entry.parameters):
        raise DeviceError(f"{source.file} has arguments that each back end passes in its own way")
    return replace(built, data=portable_ptx(text, source.file).encode(), kind="ptx", resources={})  # another assembler allocates registers


def portable_ptx(text: str, file: str) -> str:
    """PTX without dependencies on the driver whose compiler made it; raises DeviceError if they cannot be removed."""
    if ".version" not in text[:4096]:
        raise DeviceError(f"the compiler of {file} produces no PTX")
    text = _ENVIRONMENT.sub(_meaning_of, text).replace(", texmode_independent", "")
    if left := _OTHERS.search(text):
        raise DeviceError(f"{file} reads {left.group()}, which only its own driver sets")
    return text


def _meaning_of(move: re.Match[str]) -> str:
    """An environment register replaced by its meaning; unchanged if that is unknown. Whoever times the code checks its results."""
    meant = _MEANT.get(move[3])
    return move.group() if meant is None else f"{move[1]}u32{move[2]}{meant}"


def own_assembly(source: Source, device: Device) -> Binary:
    """The assembly that the device's own compiler makes of a text, which the driver assembles when it loads it.

    Raises whatever building raises.
    """
    target = devices.target(device.info, devices.backends()[device.info.backend].assembly)
    return replace(program.build(source, target, cache.default()), resources={})
