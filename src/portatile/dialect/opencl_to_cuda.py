"""OpenCL C to CUDA C++: preprocessor, rewriting of tokens, prelude. The user's lines keep their numbers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from types import MappingProxyType

from portatile.dialect import declarations, expressions
from portatile.dialect.initialisers import Initialisers
from portatile.dialect.names import SPACES
from portatile.dialect.nested import hoist
from portatile.dialect.preprocess import Places, preprocess, quoted
from portatile.dialect.swizzles import accessor
from portatile.dialect.tokens import Tokens, UnbalancedError
from portatile.errors import CompileError
from portatile.records import Entry, digest

_HERE = Path(__file__).parent
PRELUDE = "portatile/"
_HEADERS = ("cuda_types.h", "cuda_work.h", "cuda_convert.h", "cuda_math.h")
# Headers that only texts with such a name in them pay for.
_ON_DEMAND = {
    "cuda_half.h": re.compile(r"half(?:2|3|4|8|16)?|v(?:load|store)a?_half\w*|(?:convert|as)_half\w*"),
    "cuda_image.h": re.compile(r"image[123]d_(?:array_|buffer_)?t|sampler_t"),
    "cuda_groups.h": re.compile(
        r"(?:sub|work)_group_(?:barrier|all|any|broadcast|shuffle|reduce|scan)\w*|\w+_sub_groups?_\w+|intel_sub_group_\w+"
    ),
    "cuda_printf.h": re.compile(r"printf"),
    "cuda_builtins.h": re.compile(r"__builtin_(?!astype|expect|assume|unreachable|bit_cast|offsetof)\w+"),
}


_NOT_HERE = {"pipe": "pipes", "enqueue_kernel": "kernels that start kernels", "read_pipe": "pipes", "write_pipe": "pipes"}
_QUALIFIERS = SPACES | {"const", "struct", "union"}
_HEADS = frozenset({"if", "while", "for", "switch"})


@dataclass(frozen=True)
class Translation:
    """CUDA C++ for NVRTC, complete in itself, and the kernels in it."""

    text: str
    entries: tuple[Entry, ...]


@cache
def _prelude(headers: tuple[str, ...]) -> str:
    """The prelude's headers; their own macros end with them."""
    text = "\n".join(f'#line 1 "{PRELUDE}{name}"\n{(_HERE / name).read_text()}' for name in headers)
    macros = sorted(set(re.findall(r"^#define (\w+)", text, re.MULTILINE)))
    return text + "".join(f"#undef {name}\n" for name in macros)


@cache
def _version() -> str:
    files = sorted(p for p in _HERE.iterdir() if p.suffix in (".h", ".py"))
    return digest(version("pcpp"), *(p.read_bytes() for p in files))


def _refuse(tokens: Tokens, places: Places) -> None:
    """Raise CompileError for the first construct that has no form in CUDA."""
    for i, token in enumerate(tokens):
        if token.kind == "name" and token.text in _NOT_HERE and (tokens.text_at(i + 1) == "(" or token.text == "pipe"):
            raise CompileError(f"{places.at(token.line)}: {token.text}: {_NOT_HERE[token.text]} are not supported on CUDA")
        if token.text == "{" and tokens.text_at(i - 1) == ")" and tokens.text_at(i - 2) == "]":
            first = tokens.partner[i - 1]
            kind = [tokens[j].text for j in range(first + 1, tokens.partner[i - 2]) if tokens[j].text not in _QUALIFIERS]
            if len(kind) == 1 and kind[0].isidentifier() and tokens.text_at(first - 1) not in _HEADS:
                where = places.at(token.line)
                raise CompileError(f"{where}: an array literal is not supported on CUDA; declare an array with these values")


VERSION = _version()
PRELUDE_OPENCL = (_HERE / "opencl.h").read_text()


def translate(
    text: str, *, file: str = "kernel.cl", defines: Mapping[str, str] = MappingProxyType({}), options: Sequence[str] = ()
) -> Translation:
    """Translate OpenCL C to CUDA C++.

    The options that NVRTC needs come from ``nvrtc_options``; of OpenCL's ``options`` only ``-cl-single-precision-constant`` changes the
    translation. A ``__local`` argument of a kernel becomes a 32-bit unsigned byte offset into
    dynamic shared memory, aligned to what the host promises. Raises CompileError, which names file and line, for what is not
    supported; what NVRTC finds wrong it reports with the lines of ``file``.
    """
    plain = preprocess(text, file, defines)
    places = Places(plain, file)
    try:
        tokens = Tokens(plain)
    except UnbalancedError as error:
        raise CompileError(f"{places.at(error.line)}: {error}") from None
    _refuse(tokens, places)
    names = expressions.declared(tokens)
    if "-cl-single-precision-constant" in options:
        expressions.shorten_constants(tokens)
    ambiguous = expressions.rewrite(tokens, names)
    Initialisers(tokens, names).rewrite()
    walk = declarations.Declarations(tokens, names, places)
    walk.rewrite()
    hoist(tokens)
    accessors = "".join(map(accessor, ambiguous))
    opening = f"namespace ocl {{ namespace prog {{ namespace {{ {accessors}\n#line 1 {quoted(file)}\n"
    words = {token.text for token in tokens if token.kind == "name"}
    headers = (*_HEADERS, *(name for name, wanted in _ON_DEMAND.items() if any(map(wanted.fullmatch, words))))
    return Translation(f"{_prelude(headers)}{opening}{tokens.emit()}\n}} }} }}\n", tuple(walk.entries))
