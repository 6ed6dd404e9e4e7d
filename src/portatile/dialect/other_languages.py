"""Finds words of CUDA C, C++ and template engines in a text that should be OpenCL C, and says what to write instead."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

from portatile.dialect.places import Places
from portatile.dialect.preprocess import comments_and_strings, preprocess
from portatile.errors import CompileError

_CUDA = re.compile(r"\b(__global__|__device__|__shared__|__syncthreads)\b|\b(blockIdx|blockDim|threadIdx)\s*\.\s*[xyz]\b")
_DECLARED = r"(?:\b(?!return\b)[A-Za-z_]\w*[\s*]+|,\s*){}\s*[=;,)\[]"  # a variable of that name, which is legal in OpenCL C
_INSTEAD = "is CUDA C; write OpenCL C (__kernel, __global, __local, get_global_id), which portatile runs through CUDA too"
_OTHERS = (
    (re.compile(r"\$\{\s*\w+\s*\}|\{\{\s*\w+\s*\}\}|\{%-?\s*\w+"), "is for a template engine: fill it in before the text is compiled"),
    (
        re.compile(r"\b(template)\s*<"),
        "is C++, and OpenCL C has none: let a macro be the type, as -D T=float or as the parameter \"T\": ['float', 'double'] of a Kernel",
    ),
    (re.compile(r"\b(namespace)\s+\w+\s*\{|\b(static_cast|reinterpret_cast)\s*<|\b(\w+::\w+)"), "is C++; kernels are written in OpenCL C"),
)


def cuda_word(text: str, file: str, defines: Mapping[str, str] = MappingProxyType({})) -> str:
    """A sentence about the first word of CUDA C that is left after OpenCL's preprocessor; empty if there is none."""
    if _CUDA.search(text) is None:
        return ""
    try:
        text = preprocess(text, file, defines, "opencl")
    except CompileError:
        text = _blanked(text)
    for match in _CUDA.finditer(text):
        word = match[1] or match[2]
        if re.search(_DECLARED.format(word), text) is None:
            return f"{_place(text, file, match)}: {word} {_INSTEAD}"
    return ""


def other_language(text: str, file: str, defines: Mapping[str, str] = MappingProxyType({})) -> str:
    """A sentence about the first word of another language in a text that does not compile; empty if there is none."""
    if found := cuda_word(text, file, defines):
        return found
    plain = _blanked(text)
    for pattern, sentence in _OTHERS:
        if match := pattern.search(plain):
            return f"{_place(plain, file, match)}: {next(filter(None, match.groups()), match[0])} {sentence}"
    return ""


def _blanked(text: str) -> str:
    """The text without comments and strings, except the file names in its line directives."""
    parts, end = [], 0
    for match in comments_and_strings(text):
        line = text[text.rfind("\n", 0, match.start()) + 1 : match.start()]
        kept = match.group() if line.lstrip().startswith("#") and "line" in line else "\n" * match.group().count("\n")
        parts += [text[end : match.start()], kept]
        end = match.end()
    return "".join((*parts, text[end:]))


def _place(text: str, file: str, match: re.Match[str]) -> str:
    return Places(text, file).at(text.count("\n", 0, match.start()) + 1)
