"""What is passed to a kernel from the command line: words such as 4096=random, read by the kernel's own parameter types."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from portatile.errors import ArgumentError
from portatile.records import Entry, Parameter

Array = NDArray[Any]
SYNTAX = """\b
buffer   COUNT[=FILL]         elements of the declared type: 4096, 64x64=random; TYPE:COUNT[=FILL] for another type
         @FILE.npy            an array from a file
local    COUNT                elements of the declared type; local:BYTES
scalar   VALUE                5, 1.5, 0x10; a vector's components with commas: 1,2,3,4; a structure as @FILE.npy
image    WxH[xCHANNELS][=FILL]   float32; @FILE.npy for another type
FILL     zeros (default), ones, index (0, 1, 2, ...), random, random(LOW,HIGH), or a number"""

_SCALARS = {
    "char": "int8",
    "uchar": "uint8",
    "short": "int16",
    "ushort": "uint16",
    "int": "int32",
    "uint": "uint32",
    "long": "int64",
    "ulong": "uint64",
    "half": "float16",
    "float": "float32",
    "double": "float64",
}
_TYPE = re.compile(rf"({'|'.join(_SCALARS)})(2|3|4|8|16)?")
_RANDOM = re.compile(r"random(?:\(([^,()]+),([^,()]+)\))?")


@dataclass(frozen=True)
class Operand:
    """One argument: ``array`` for buffers and images, ``value`` for scalars and, as bytes, for local memory."""

    parameter: Parameter
    array: Array | None = None
    value: np.generic | int = 0

    def seen(self, array: Array) -> Array:
        """``array`` without the fourth component that vectors of three have in memory and nobody writes."""
        return array[..., :3] if array.ndim and re.search(r"[a-z]3\*?$", self.parameter.type) and array.shape[-1] == 4 else array


def operands(entry: Entry, words: tuple[str, ...], seed: int) -> list[Operand]:
    """The arguments in order. Raises ArgumentError with the kernel's signature where words do not fit it."""
    if len(words) != len(entry.parameters):
        raise ArgumentError(f"{signature(entry)} takes {len(entry.parameters)} arguments, not {len(words)}")
    rng = np.random.default_rng(seed)
    made = []
    for parameter, word in zip(entry.parameters, words, strict=True):
        try:
            made.append(_operand(parameter, word, rng))
        except (ValueError, OverflowError, OSError) as error:
            raise ArgumentError(f"argument {parameter.name} ({_spelled(parameter)}): {word!r}: {error}") from None
    return made


def signature(entry: Entry) -> str:
    """The kernel as one would call it."""
    return f"{entry.name}({', '.join(f'{_spelled(p)} {p.name}' for p in entry.parameters)})"


def _spelled(parameter: Parameter) -> str:
    return f"__local {parameter.type}" if parameter.kind == "local" else parameter.type


def _operand(parameter: Parameter, word: str, rng: np.random.Generator) -> Operand:
    if parameter.kind == "local":
        prefix, colon, count = word.rpartition(":")
        if colon:
            if prefix != "local":
                raise ValueError("local memory is COUNT elements or local:BYTES")
            return Operand(parameter, value=_count(count))
        return Operand(parameter, value=_count(word) * _element(parameter.type).itemsize)
    if parameter.kind == "scalar":
        return Operand(parameter, value=_scalar(parameter.type, word))
    if parameter.kind == "image":
        return Operand(parameter, array=_image(word, rng))
    return Operand(parameter, array=_buffer(parameter.type, word, rng))


def _element(kind: str) -> np.dtype[Any]:
    """The element of a buffer of that type; three components take the room of four."""
    match = _TYPE.fullmatch(kind.removesuffix("*").removeprefix("const ").strip())
    if match is None:
        raise ValueError(f"the size of {kind.removesuffix('*')} is not known here; give another type, as in uchar:4096, or a file")
    width = int(match[2] or 1)
    return np.dtype((_SCALARS[match[1]], (4 if width == 3 else width,)) if width > 1 else _SCALARS[match[1]])


def _count(text: str) -> int:
    count = math.prod(int(part) for part in text.split("x"))
    if count < 1:
        raise ValueError("sizes are positive")
    return count


def _buffer(declared: str, word: str, rng: np.random.Generator) -> Array:
    if word.startswith("@"):
        return _loaded(word, declared)
    size, _, fill = word.partition("=")
    kind, colon, size = size.rpartition(":")
    element = _element(kind if colon else declared)
    return _filled((_count(size), *element.shape), element.base, fill or "zeros", rng)


def _image(word: str, rng: np.random.Generator) -> Array:
    if word.startswith("@"):
        array = _loaded(word, "")
        if array.ndim not in (2, 3):
            raise ValueError(f"an image is (height, width[, channels]), not {array.shape}")
        return array.reshape(*array.shape[:2], -1)
    size, _, fill = word.partition("=")
    width, height, *channels = map(int, size.split("x"))
    return _filled((height, width, *(channels or [1])), np.dtype("float32"), fill or "zeros", rng)


def _filled(shape: tuple[int, ...], dtype: np.dtype[Any], fill: str, rng: np.random.Generator) -> Array:
    if match := _RANDOM.fullmatch(fill):
        whole = dtype.kind in "iu"
        low, high = (float(match[1]), float(match[2])) if match[1] else (0.0, 100.0 if whole else 1.0)
        return rng.integers(int(low), int(high), shape, dtype) if whole else rng.uniform(low, high, shape).astype(dtype)
    if fill == "index":
        return np.arange(math.prod(shape)).reshape(shape).astype(dtype)
    if fill in ("zeros", "ones"):
        return np.full(shape, fill == "ones", dtype)
    return np.full(shape, _number(fill, dtype), dtype)


def _number(text: str, dtype: np.dtype[Any]) -> Any:
    return dtype.type(float(text) if dtype.kind == "f" else int(text, 0))


def _loaded(word: str, declared: str) -> Array:
    path = Path(word[1:])
    if not path.is_file():
        raise ValueError("there is no such file")
    array: Array = np.ascontiguousarray(np.load(path, allow_pickle=False))
    if _TYPE.fullmatch(declared.removesuffix("*")) and array.dtype != _element(declared).base:
        raise ValueError(f"the file has elements of {array.dtype}, not of {_element(declared).base}")
    return array


def _scalar(kind: str, word: str) -> np.generic:
    if word.startswith("@"):
        return _bytes(_loaded(word, ""))
    if kind == "sampler_t":
        raise ValueError("samplers are written in the kernel's text")
    element = _element(kind)
    if not element.shape:
        number: np.generic = _number(word, element)
        return number
    values = [_number(part, element.base) for part in word.split(",")]
    width = int(kind.lstrip("abcdefghijklmnopqrstuvwxyz"))
    if len(values) not in (1, width):
        raise ValueError(f"{kind} has {width} components")
    values = values * width if len(values) == 1 else values
    vector = np.zeros(element.shape, element.base)
    vector[: len(values)] = values
    return _bytes(vector)


def _bytes(array: Array) -> np.generic:
    """A structure as a kernel takes it."""
    structure: np.generic = np.frombuffer(array.tobytes(), f"V{array.nbytes}")[0]
    return structure
