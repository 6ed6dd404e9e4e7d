"""Advice on kernel text that does not compile, where the compiler's messages imply the cause but do not name it."""

from __future__ import annotations

import re

from portatile import dialect
from portatile.records import Source

_ABSENT = r"(?:implicit declaration of function|use of undeclared identifier|unknown type name|identifier)"
_CAUSES = (
    (
        r"requires cl_khr_fp16|half' is not allowed|undeclared identifier 'half\d+'|unknown type name 'half\d*'",
        "this compiler does not calculate with half: keep half in memory, read and written by vload_half and vstore_half, or use a device "
        "that `portatile devices` shows with fp16",
    ),
    (
        r"requires cl_khr_fp64|double\d*' (?:is not allowed|requires)|undeclared identifier 'double\d+'",
        "this device has no double precision: `portatile devices` shows which have",
    ),
    (
        r"changes address space of pointer|program scope variable must reside in constant address space",
        "before OpenCL C 2.0 a pointer names its address space (global, local, constant), and variables outside of functions are constant; "
        "--option -cl-std=CL2.0 asks for more where the driver has it",
    ),
    (
        rf"{_ABSENT} [\"'](?:intel_|get_|qcom_)?(?:num_)?sub_group\w*[\"']",
        "this compiler does not have these functions of sub-groups; through CUDA there are those of the standard's extensions",
    ),
    (
        rf"{_ABSENT} [\"']image2d_(?:array_)?(?:depth|msaa|msaa_depth|array_msaa\w*)_t[\"']|image2d_depth",
        "images of depth and with several samples are not supported: pass the values as an image of one channel, or as a buffer",
    ),
)
_AMBIGUOUS = re.compile(r"call to '((?!vload|vstore)\w+)' is ambiguous|more than one instance of overloaded function \"(\w+)\" matches")
_UNKNOWN = re.compile(r"(?:use of undeclared identifier '|identifier \")([A-Z][A-Z0-9_]*)(?:'|\" is undefined)")
_HALF = re.compile(r"\bhalf\d*\b")
_NO_HALF_FUNCTIONS = re.compile(r"'as_half\d*'|call to '\w+' is ambiguous|no matching function for call to")


def advice(source: Source, log: str) -> str:
    """A sentence of advice for the user whose text failed with ``log``; empty where the compiler's messages suffice."""
    if found := dialect.other_language(source.text, source.file, dict(source.defines)):
        return found
    for pattern, sentence in _CAUSES:
        if re.search(pattern, log):
            return sentence
    if _NO_HALF_FUNCTIONS.search(log) and _HALF.search(source.text):
        return "this compiler lacks functions of half: calculate in float between vload_half and vstore_half, or use CUDA, which has them"
    if ambiguous := _AMBIGUOUS.search(log):
        name = ambiguous[1] or ambiguous[2]
        return (
            f"{name}: these arguments fit several of its types, as integers do and a float beside a double; give all of them one type, "
            "as in pow(x, 2.0f) or pow(x, (float)n)"
        )
    if names := list(dict.fromkeys(_UNKNOWN.findall(log))):
        listed = ", ".join(names[:4])
        return (
            f"{listed}: undefined; if the text expects a macro, give it with -D {names[0]}=..., or as a parameter or constant of a Kernel"
        )
    return ""
