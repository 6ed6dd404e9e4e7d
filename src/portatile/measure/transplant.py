"""Code that one back end's compiler made, run by another back end of the same GPU: what is left of a difference is not the compiler's.

Both of NVIDIA's back ends take PTX. So CUDA's driver can load what OpenCL's compiler made, and also PTX of CUDA's own compiler, which
usually brings its own assembler. Comparing builds separates the causes of a difference:

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
_MEANT = {  # what OpenCL's driver sets: offsets of work-groups and of the NDRange, which are zero here, and the number of work-groups
    **dict.fromkeys("012345", "0"),
    **dict(zip("678", ("%nctaid.x", "%nctaid.y", "%nctaid.z"), strict=True)),
}


def transplanted(source: Source, giver: Device) -> Binary:
    """PTX that ``giver``'s compiler makes of a text, as a binary for a device that loads PTX.

    Raises DeviceError where it is no PTX, or leans on what only its own driver supplies, and what building it raises.
    """
    built = program.build(source, giver.target, cache.default())
    text = giver.target.assembly(built)
    if any(parameter.kind in ("local", "image") for entry in built.entries for parameter in entry.parameters):
        raise DeviceError(f"{source.file} has arguments that back ends pass in their own ways")
    return replace(built, data=portable_ptx(text, source.file).encode(), kind="ptx", resources={})  # another assembler allocates registers


def portable_ptx(text: str, file: str) -> str:
    """PTX without what ties it to the driver whose compiler made it; raises DeviceError where it cannot do without."""
    if ".version" not in text[:4096]:
        raise DeviceError(f"the compiler of {file} gives no PTX")
    text = _ENVIRONMENT.sub(_plain, text).replace(", texmode_independent", "")
    if left := _OTHERS.search(text):
        raise DeviceError(f"{file} reads {left.group()}, which only its own driver sets")
    return text


def _plain(move: re.Match[str]) -> str:
    """A register of the environment by what it means; as it is where nobody knows that. Whoever times the code checks its results."""
    meant = _MEANT.get(move[3])
    return move.group() if meant is None else f"{move[1]}u32{move[2]}{meant}"


def own_assembly(source: Source, device: Device) -> Binary:
    """The assembly that the device's own compiler makes of a text, which the driver assembles when it loads it.

    Raises what building raises.
    """
    target = devices.target(device.info, devices.backends()[device.info.backend].assembly)
    return replace(program.build(source, target, cache.default()), resources={})
