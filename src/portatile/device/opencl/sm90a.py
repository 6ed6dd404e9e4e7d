"""Instructions that NVIDIA's OpenCL C compiler does not know: inline comments in its PTX output are turned into instructions for sm_90a."""

from __future__ import annotations

import re

MARK = "//portatile: "
"""The prefix of a comment that holds such an instruction, as the prelude writes it."""

_TARGET = re.compile(r"^\.target\s+sm_90\b", re.MULTILINE)
_VERSION = re.compile(r"^\.version\s+(\d+)\.(\d+)", re.MULTILINE)
_SHAPE = re.compile(r"^(\s*\.reqntid\b[^\n]*)$", re.MULTILINE)
_PARAMETER = re.compile(r"^\s*\.param\s+\.align\s+\d+\s+\.b8\s+(\w+)\[128\]", re.MULTILINE)
_ADDRESS = re.compile(rf"{MARK}parameter (\d+) (%\w+);")
_LEAST = (8, 6)  # the first PTX ISA version in which strides of tensor maps are in bytes


def instructions(text: str) -> str:
    """The driver's PTX for sm_90 with such comments, as PTX for sm_90a; any other text unchanged.

    ``parameter 0 %rd1`` becomes the address of the kernel's first parameter of 128 bytes. Each kernel is declared to need only one
    work-group per multiprocessor, which is a condition for moving registers between its sub-groups.
    """
    if MARK not in text:
        return text
    version = _VERSION.search(text)
    if version is not None and tuple(map(int, version.groups())) < _LEAST:
        text = _VERSION.sub(f".version {_LEAST[0]}.{_LEAST[1]}", text, count=1)
    parameters = _PARAMETER.findall(text)
    text = _ADDRESS.sub(lambda match: f"cvta.param.u64 {match[2]}, {parameters[int(match[1])]};", text)
    return _SHAPE.sub(r"\1\n.minnctapersm 1", _TARGET.sub(".target sm_90a", text)).replace(MARK, "")
