"""PoCL's machine code as text: the shared objects in its binaries, disassembled by the ``objdump`` that comes with PoCL's ``ld``."""

from __future__ import annotations

import re
import shutil
import struct
import subprocess
import tempfile
from pathlib import Path

from portatile.errors import UsageError

_ELF = b"\x7fELF"
_FORM = re.compile(rb"/([\w$]+)/(\d+)-(\d+)-(\d+)[\w-]*/[\w$]+\.so")
_SECONDS = 120.0


def disassembled(binary: bytes) -> str:
    """The listing of every kernel: of the variant for its required work-group size if there is one, else of the general variant.

    Raises UsageError where there is no machine code, or no objdump.
    """
    objects = shared_objects(binary)
    if not objects:
        raise UsageError(
            "this driver's binary holds no machine code that can be read; name an architecture that another compiles for: --arch"
        )
    tool = shutil.which("objdump")
    if tool is None:
        raise UsageError("objdump, which prints machine code, is not on PATH; it comes with binutils, as the ld that PoCL needs")
    listings = []
    with tempfile.TemporaryDirectory(prefix="portatile-") as folder:
        for name, data in objects.items():
            path = Path(folder) / f"{name}.so"
            path.write_bytes(data)
            command = [tool, "--disassemble", "--no-show-raw-insn", str(path)]
            done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
            if done.returncode:
                raise UsageError(f"objdump cannot read the code of {name}: {done.stderr.strip()[:200]}")
            listings.append(f"# {name}\n{_without_copies(name, done.stdout.partition('Disassembly of section .text:')[2].lstrip())}")
    return "\n".join(listings)


def shared_objects(binary: bytes) -> dict[str, bytes]:
    """The shared object of each kernel: of the variant for its required work-group size if the binary has it, else of the general one."""
    objects: dict[str, tuple[bool, bytes]] = {}
    for form in _FORM.finditer(binary):
        start = binary.find(_ELF, form.end())
        if start < 0:
            continue
        name, general = form.group(1).decode(), not any(map(int, form.groups()[1:]))
        if name not in objects or (objects[name][0] and not general):
            objects[name] = general, binary[start : start + _length(binary, start)]
    return {name: data for name, (_, data) in objects.items()}


def _without_copies(kernel: str, listing: str) -> str:
    """A listing without the copies of a kernel's body that PoCL makes: one for small grids, and one inlined elsewhere."""
    functions = re.split(r"\n(?=[0-9a-f]+ <)", listing)
    body = f"_pocl_kernel_{kernel}"
    groups = next((text for text in functions if f"<{body}_workgroup>:" in text), None)
    if groups is None:
        return listing
    copies = {f"{body}_workgroup_fast", *(() if re.search(rf"<{re.escape(body)}(?:@plt)?>$", groups, re.MULTILINE) else (body,))}
    first = [text for text in functions if text.partition("<")[2].partition(">")[0] not in copies]
    return "\n".join(first).replace(f"<{body}_workgroup>:", f"<{kernel}>:")


def _length(binary: bytes, start: int) -> int:
    """Bytes of the ELF file at ``start``, whose section headers are at its end."""
    (sections,) = struct.unpack_from("<Q", binary, start + 40)
    size, count = struct.unpack_from("<2H", binary, start + 58)
    return int(sections + size * count)
