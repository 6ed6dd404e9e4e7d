"""Arguments of a kernel from the command line: words such as 4096=random, read by the kernel's own parameter types."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from portatile.errors import ArgumentError, LaunchError
from portatile.images import Addressing, ImageForm, ImageType, Sampler
from portatile.measure.isolated_run import KernelArgument
from portatile.records import ELEMENT, SCALARS, UNPASSED, Entry, Parameter
from portatile.tuning.search.host_memory import available

Array = NDArray[Any]
SYNTAX = """\b
buffer   COUNT[=FILL]         elements of the declared type: 4096, 64x64=random; TYPE:COUNT[=FILL] for another type
         @FILE.npy            an array from a file
local    COUNT                elements of the declared type; local:BYTES
scalar   VALUE                5, 1.5, 0x10; a vector's components with commas: 1,2,3,4; a structure as @FILE.npy
image    WxH[xCHANNELS][=FILL]   float pixels; W, WxLAYERS, WxHxLAYERS or WxHxDEPTH before the channels as the type asks;
         TYPE:WxH..., or unorm8, unorm16, snorm8, snorm16 for TYPE, whose kernels see fractions; @FILE.npy, unorm:@FILE.npy
sampler  WORD[,WORD[,WORD]]   nearest or linear; none, edge, clamp, repeat or mirror; normalized
FILL     zeros (default), ones, index (0, 1, 2, ...), random, random(LOW,HIGH), or a number"""

_FILLS = ("zeros", "ones", "index", "random", "random(LOW,HIGH)")
_MAGIC = b"\x93NUMPY"  # the first bytes of a .npy file
_DRAWN = 8  # bytes of a random number before it has its type
_COPIES = 3  # copies of an array: here, on the way to the process that runs the kernel, and there
_FRACTION = re.compile(r"(u|s)norm(8|16)?")
_RANDOM = re.compile(r"random(?:\(([^,()]+),([^,()]+)\))?")


def arguments(entry: Entry, words: tuple[str, ...], seed: int) -> list[KernelArgument]:
    """The arguments in order. Raises ArgumentError with the kernel's signature where the words do not match it."""
    if len(words) != len(entry.parameters):
        hint = "; several sizes of --global or --local are one word: 64,32" if len(words) > len(entry.parameters) else ""
        count = len(entry.parameters)
        raise ArgumentError(f"{entry.signature} takes {count} argument{'s' if count != 1 else ''}, not {len(words)}{hint}")
    rng = np.random.default_rng(seed)
    parsed = []
    for parameter, word in zip(entry.parameters, words, strict=True):
        try:
            parsed.append(_argument(parameter, word, rng))
        except (ValueError, OverflowError, OSError, LaunchError) as error:
            raise ArgumentError(f"argument {parameter.name} ({parameter.spelled}): {word!r}: {error}") from None
    return parsed


def _argument(parameter: Parameter, word: str, rng: np.random.Generator) -> KernelArgument:
    if parameter.kind == "local":
        prefix, colon, count = word.rpartition(":")
        if colon:
            if prefix != "local":
                raise ValueError("local memory is COUNT elements or local:BYTES")
            return KernelArgument(parameter, value=_count(count))
        return KernelArgument(parameter, value=_count(word) * _element(parameter.type, "local:BYTES, such as local:64").itemsize)
    if parameter.kind == "scalar":
        return KernelArgument(parameter, value=_sampler(word) if parameter.type == "sampler_t" else _scalar(parameter.type, word))
    if parameter.kind == "image":
        return _image(parameter, word, rng)
    return KernelArgument(parameter, array=_buffer(parameter.type, word, rng))


def _element(kind: str, instead: str = "another type, as in uchar:4096, or a file") -> np.dtype[Any]:
    """The element type of a buffer (three components take the memory of four). ``instead``: the suggestion for an unknown type."""
    match = ELEMENT.fullmatch(kind.removesuffix("*").removeprefix("const ").strip())
    if match is None and kind in UNPASSED:
        raise ValueError(f"OpenCL C does not take a {kind}; declare it {UNPASSED[kind]}")
    if match is None:
        raise ValueError(f"the size of {kind.removesuffix('*')} is not known here; give {instead}")
    width = int(match[2] or 1)
    return np.dtype((SCALARS[match[1]], (4 if width == 3 else width,)) if width > 1 else SCALARS[match[1]])


def _count(text: str) -> int:
    try:
        count = math.prod(int(part) for part in text.split("x"))
    except ValueError:
        hint = f"; the array of that file is @{text}" if text.endswith(".npy") else ""
        raise ValueError(f"{text!r} is no count of elements, such as 4096 or 64x64{hint}") from None
    if count < 1:
        raise ValueError("sizes must be positive")
    return count


def _buffer(declared: str, word: str, rng: np.random.Generator) -> Array:
    if word.startswith("@"):
        return _loaded(word, declared)
    size = word.partition("=")[0]
    kind, colon, size = size.rpartition(":")
    element = _element(kind if colon else declared)
    return _filled((_count(size), *element.shape), element.base, _fill(word), rng)


def _fill(word: str) -> str:
    """The value after COUNT=; zeros if there is none."""
    _, given, fill = word.partition("=")
    return fill if given else "zeros"


def _image(parameter: Parameter, word: str, rng: np.random.Generator) -> KernelArgument:
    """An image of the declared type; its array has the shape that ``ImageForm`` says, without channels where there is one."""
    kinds = get_args(ImageType)
    if parameter.type not in kinds:
        raise ValueError(f"images of that type are not supported; there are {', '.join(kinds)}")
    kind: ImageType = parameter.type  # type: ignore[assignment]
    dimensions = {"1": 1, "2": 2, "3": 3}[kind[5]] + ("array" in kind)
    prefix, _, rest = word.rpartition(":")
    fraction = _FRACTION.fullmatch(prefix)
    if prefix and prefix not in SCALARS and not fraction:
        raise ValueError(f"{prefix!r} is not a pixel type; write one of {', '.join(SCALARS)}, unorm8, unorm16, snorm8, snorm16")
    if rest.startswith("@"):
        array = _loaded(rest, f"{prefix}*" if prefix in SCALARS else "")
        if array.ndim not in (dimensions, dimensions + 1):
            raise ValueError(f"an {kind} of {dimensions} dimensions, with or without channels, is not {array.shape}")
        array = array.reshape(*array.shape[:dimensions], -1)
    else:
        size = rest.partition("=")[0]
        extents = [int(part) for part in size.split("x")]
        if len(extents) not in (dimensions, dimensions + 1):
            raise ValueError(f"an {kind} is written as {dimensions} sizes, and its channels where there are several")
        channels = extents.pop() if len(extents) > dimensions else 1
        dtype = f"{'uint' if fraction[1] == 'u' else 'int'}{fraction[2] or 8}" if fraction else SCALARS[prefix or "float"]
        array = _filled((*extents[::-1], channels), np.dtype(dtype), _fill(rest), rng)
    return KernelArgument(parameter, array=array, form=ImageForm(kind, array.shape, array.dtype.name, fraction is not None))


def _sampler(word: str) -> Sampler:
    """A sampler from its words: at most one of each pair of alternatives."""
    addressing: Addressing = "clamp"
    words = word.split(",")
    known = get_args(Addressing)
    for part in words:
        if part in known:
            addressing = part  # type: ignore[assignment]
        elif part not in ("nearest", "linear", "normalized"):
            raise ValueError(f"{part!r} does not belong to a sampler; write for example linear,edge,normalized")
    if len(set(words)) < len(words) or {"nearest", "linear"} <= set(words) or len(set(words) & set(known)) > 1:
        raise ValueError("a sampler has one filter and one addressing mode")
    return Sampler(addressing, "linear" in words, "normalized" in words)


def _check_memory(elements: int, itemsize: int) -> None:
    """Raise ValueError for an array too large for this machine: the system kills a process that uses too much, without a message."""
    needed, free = elements * max(_DRAWN + itemsize, _COPIES * itemsize), available()
    if free is not None and needed > free:
        raise ValueError(
            f"it takes {needed / 2**30:.1f} GiB of this machine's memory with what is passed to the process that runs the kernel, "
            f"and {free / 2**30:.1f} GiB are free; choose a smaller size"
        )


def _filled(shape: tuple[int, ...], dtype: np.dtype[Any], fill: str, rng: np.random.Generator) -> Array:
    _check_memory(math.prod(shape), dtype.itemsize)
    if match := _RANDOM.fullmatch(fill):
        integral = dtype.kind in "iu"
        low, high = (float(match[1]), float(match[2])) if match[1] else (0.0, 100.0 if integral else 1.0)
        if not (math.isfinite(high - low) and low <= high):
            raise ValueError(f"{fill}: LOW and HIGH must be finite, and LOW the smaller one")
        return rng.integers(int(low), int(high), shape, dtype) if integral else rng.uniform(low, high, shape).astype(dtype)
    if fill == "index":
        return np.arange(math.prod(shape)).reshape(shape).astype(dtype)
    if fill in ("zeros", "ones"):
        return np.full(shape, fill == "ones", dtype)
    return np.full(shape, _number(fill, dtype, f", and none of {', '.join(_FILLS)}"), dtype)


def _number(text: str, dtype: np.dtype[Any], nor: str = "") -> Any:
    """A number of the type. ``nor`` ends the message where it is none."""
    try:
        number = float(text) if dtype.kind == "f" else int(text, 0)
    except ValueError:
        raise ValueError(f"{text!r} is no {'number' if dtype.kind == 'f' else 'whole number'}{nor}") from None
    if dtype.kind == "f" and math.isfinite(number) and abs(number) > float(np.finfo(dtype).max):
        raise ValueError(f"{text} is beyond the largest {dtype}, {np.finfo(dtype).max:.4g}; inf means infinity")
    if dtype.kind in "iu" and not np.iinfo(dtype).min <= number <= np.iinfo(dtype).max:
        raise ValueError(f"{text} is beyond {dtype}, from {np.iinfo(dtype).min} to {np.iinfo(dtype).max}")
    return dtype.type(number)


def _loaded(word: str, declared: str) -> Array:
    path = Path(word[1:])
    if not path.is_file():
        raise ValueError("there is no such file" if not path.exists() else "that is no file with an array")
    with path.open("rb") as file:
        if file.read(len(_MAGIC)) != _MAGIC:
            raise ValueError("the file is not what numpy.save writes: one array")
    array: Array = np.ascontiguousarray(np.load(path, allow_pickle=False))
    if ELEMENT.fullmatch(declared.removesuffix("*")) and array.dtype != _element(declared).base:
        raise ValueError(f"the file has elements of {array.dtype}, not of {_element(declared).base}")
    if not array.size:
        raise ValueError("the file has no elements")
    return array


def _scalar(kind: str, word: str) -> np.generic:
    if word.startswith("@"):
        array = _loaded(word, "")
        if ELEMENT.fullmatch(kind) and array.nbytes != _element(kind).itemsize:
            raise ValueError(f"the file has {array.nbytes} bytes, a {kind} {_element(kind).itemsize}")
        return _bytes(array)
    element = _element(kind, "a structure as @FILE.npy")
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
    """A structure in the form in which a kernel takes it."""
    structure: np.generic = np.frombuffer(array.tobytes(), f"V{array.nbytes}")[0]
    return structure
