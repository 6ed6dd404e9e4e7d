"""The translation from OpenCL C to CUDA C++: preprocessor, passes over tokens, prelude. The user's lines keep their numbers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType

from portatile.dialect.options import definitions
from portatile.dialect.passes import array_literals, declarations, expressions
from portatile.dialect.passes.designated_initialisers import Initialisers
from portatile.dialect.passes.function_forms import modernise
from portatile.dialect.passes.nested_types import hoist
from portatile.dialect.passes.struct_layouts import lay_out
from portatile.dialect.passes.swizzles import accessor
from portatile.dialect.places import Places, quoted
from portatile.dialect.preprocess import preprocess
from portatile.dialect.tokens import Tokens, UnbalancedError
from portatile.dialect.version import headers, is_switch, spelt
from portatile.errors import CompileError
from portatile.records import Entry

_PRELUDES = Path(__file__).parent / "preludes"
PRELUDE = "portatile/"
_HEADERS = ("cuda_types.h", "cuda_work.h", "cuda_convert.h", "cuda_common.h")
# Headers that are included only if the text calls such a name: all of them take a third of NVRTC's time for a short kernel.
_OF_CALLS = {
    "cuda_relational.h": re.compile(
        r"is(?:equal|notequal|greater|greaterequal|less|lessequal|lessgreater|ordered|unordered|nan|inf|finite|normal)|signbit|any|all|bitselect"
    ),
    "cuda_integer.h": re.compile(r"(?:mul|mad)_hi|(?:add|sub|mad)_sat|(?:mul|mad)24|abs|abs_diff|r?hadd|c[lt]z|popcount|rotate|upsample"),
    "cuda_math.h": re.compile(
        r"a?(?:sin|cos|tan)(?:h|pi)?|atan2(?:pi)?|sincos|exp(?:2|10|m1)?|log(?:2|10|1p|b)?|pow[nr]?|r?sqrt|cbrt|rootn|hypot|erfc?|[lt]gamma"
        r"|lgamma_r|ceil|floor|rint|round|trunc|fract|modf|fmod|remainder|remquo|frexp|ldexp|ilogb|nan|nextafter|copysign|fabs|fdim|f(?:min|max)"
        r"|m(?:in|ax)mag|(?:native|half)_\w+|degrees|radians|sign|mix|(?:smooth)?step|dot|cross|(?:fast_)?(?:length|distance|normalize)"
    ),
}
# Headers that are included only if such a name is in the text.
_ON_DEMAND = {
    "cuda_half.h": re.compile(r"half(?:2|3|4|8|16)?|v(?:load|store)a?_half\w*|(?:convert|as)_half\w*"),
    "cuda_image.h": re.compile(r"image[123]d_(?:array_|buffer_)?t|sampler_t"),
    "cuda_atomic.h": re.compile(
        r"atomic_(?:u?int|u?long|float|double|\w+_t|flag|init|load|store|exchange|fetch|compare_exchange|work_item_fence)\w*"
        r"|memory_(?:order|scope)\w*"
    ),
    "cuda_groups.h": re.compile(r"work_group_(?:barrier|all|any|broadcast|reduce|scan)\w*|\w+_sub_groups?_\w+|sub_group_\w+"),
    "cuda_tensor.h": re.compile(r"mbarrier_(?:init|expect|wait)|tensor_(?:map|copy)|wgmma_\w+"),
    "cuda_printf.h": re.compile(r"printf"),
    "cuda_builtins.h": re.compile(r"__builtin_(?!astype|expect|assume|unreachable|bit_cast|offsetof)\w+"),
}
_NEED = {
    "cuda_math.h": ("cuda_relational.h",),
    "cuda_half.h": ("cuda_math.h", "cuda_relational.h"),
    "cuda_image.h": ("cuda_math.h", "cuda_relational.h"),
}
"""Headers and the others that they use."""

_STANDARD = re.compile(r"-cl-std=CL(\d)\.(\d)")
_UNCONTRACTED = re.compile(r"^[ \t]*#[ \t]*pragma[ \t]+(?:OPENCL|STDC)[ \t]+FP_CONTRACT[ \t]+OFF\b", re.MULTILINE)
_NOT_HERE = {
    **dict.fromkeys(("pipe", "read_pipe", "write_pipe"), "no pipes: pass the values in a buffer"),
    "enqueue_kernel": "no kernels that start kernels: launch once more from the host",
    "_Generic": "no selections by type on CUDA: functions with __attribute__((overloadable)) make them everywhere",
}


@dataclass(frozen=True)
class Translation:
    """Self-contained CUDA C++ for NVRTC, its kernels, and the options for NVRTC that its pragmas require beside ``nvrtc_options``."""

    text: str
    entries: tuple[Entry, ...]
    options: tuple[str, ...] = ()


@cache
def _prelude(headers: tuple[str, ...]) -> str:
    """The prelude's headers, followed by ``#undef`` of their own macros."""
    text = "\n".join(f'#line 1 "{PRELUDE}{name}"\n{(_PRELUDES / name).read_text()}' for name in headers)
    macros = sorted(set(re.findall(r"^#define (\w+)", text, re.MULTILINE)))
    return text + "".join(f"#undef {name}\n" for name in macros)


def _asked(tokens: Tokens) -> tuple[str, ...]:
    """The headers that a text needs, by the names in it, in the order of inclusion."""
    names = {token.text for token in tokens if token.kind == "name"}
    called = {token.text for place, token in enumerate(tokens) if token.kind == "name" and tokens.text_at(place + 1) == "("}
    asked = {header for header, pattern in _OF_CALLS.items() if any(map(pattern.fullmatch, called))}
    asked |= {header for header, pattern in _ON_DEMAND.items() if any(map(pattern.fullmatch, names))}
    asked.update(*(_NEED.get(header, ()) for header in asked))
    return (*_HEADERS, *(header for header in (*_OF_CALLS, *_ON_DEMAND) if header in asked))


def _refuse(tokens: Tokens, places: Places) -> None:
    """Raise CompileError for the first construct that CUDA cannot express."""
    for i, token in enumerate(tokens):
        if token.kind == "name" and token.text in _NOT_HERE and (tokens.text_at(i + 1) == "(" or token.text == "pipe"):
            raise CompileError(f"{places.at(token.line)}: {token.text}: portatile has {_NOT_HERE[token.text]}")


def _preprocessed(text: str, file: str, standards: Mapping[str, str], defines: Mapping[str, str]) -> str:
    """The text without macros, after the headers that it needs; the text's own definitions do not affect these headers."""
    before = headers(text)
    if not before:
        return preprocess(text, file, {**standards, **defines})
    switches = {name: value for name, value in defines.items() if is_switch(name)}
    own = spelt(pair for pair in defines.items() if pair[0] not in switches)
    return preprocess(f"{before}{own}#line 1 {quoted(file)}\n{text}", file, {**standards, **switches})


def translate(
    text: str, *, file: str = "kernel.cl", defines: Mapping[str, str] = MappingProxyType({}), options: Sequence[str] = ()
) -> Translation:
    """Translate OpenCL C to CUDA C++.

    NVRTC's options come from ``nvrtc_options`` and from the translation; of OpenCL's ``options`` only ``-D``, ``-U``,
    ``-cl-single-precision-constant``, ``-cl-fast-relaxed-math`` and ``-cl-std`` change the text. A ``__local`` argument of a kernel becomes
    a 32-bit unsigned byte offset into dynamic shared memory, aligned to what the host promises. Raises CompileError, with file and line,
    for what is not supported; errors that NVRTC finds have the lines of ``file``.
    """
    standards = [("__OPENCL_C_VERSION__", match[1] + match[2] + "0") for option in options if (match := _STANDARD.fullmatch(option))]
    if "-cl-fast-relaxed-math" in options:
        standards.append(("__FAST_RELAXED_MATH__", "1"))
    plain = _preprocessed(text, file, dict(standards), {**definitions(options)[0], **defines})
    places = Places(plain, file)
    try:
        tokens = modernise(Tokens(plain), places)
    except UnbalancedError as error:
        raise CompileError(f"{places.at(error.line)}: {error}") from None
    _refuse(tokens, places)
    names = expressions.declared(tokens)
    if "-cl-single-precision-constant" in options:
        expressions.shorten_constants(tokens)
    ambiguous = expressions.rewrite(tokens, names)
    lay_out(tokens, places)
    initialisers = Initialisers(tokens, names)
    initialisers.rewrite()
    array_literals.declare(tokens, places, initialisers.lengths)
    walk = declarations.Declarations(tokens, names, places)
    walk.rewrite()
    hoist(tokens)
    accessors = "".join(map(accessor, ambiguous))
    opening = f"namespace ocl {{ namespace prog {{ namespace {{ {accessors}\n#line 1 {quoted(file)}\n"
    # NVRTC contracts multiply-adds in the whole text or nowhere.
    fused = ("-fmad=false",) if _UNCONTRACTED.search(plain) else ()
    return Translation(f"{_prelude(_asked(tokens))}{opening}{tokens.emit()}\n}} }} }}\n", tuple(walk.entries), fused)
