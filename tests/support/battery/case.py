"""The record of one kernel of the battery and short ways to write one."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from portatile.images import ImageForm, ImageType, Sampler
from portatile.records import SCALARS, Source

SEED = 20261120
Array = NDArray[Any]
_C = {dtype: name for name, dtype in SCALARS.items()}  # OpenCL C's names


@dataclass(frozen=True)
class In:
    """A buffer that the kernel reads."""

    array: Array


@dataclass(frozen=True)
class Out:
    """A buffer that must hold ``expected`` afterwards; it holds ``before``, or poison, at first.

    ``tolerance`` is relative to the expected magnitude, ``floor`` absolute; where both are 0 results must be equal (NaN equals NaN).
    """

    expected: Array
    before: Array | None = None
    tolerance: float = 0.0
    floor: float = 0.0


@dataclass(frozen=True)
class Picture:
    """An image of (height, width, channels) that the kernel reads, or writes so that it holds ``expected`` afterwards.

    Of another ``type`` the array has the shape that ``ImageForm`` says.
    """

    array: Array
    expected: Array | None = None
    type: ImageType = "image2d_t"
    normalized: bool = False

    @property
    def form(self) -> ImageForm:
        """What the device is asked for."""
        return ImageForm(self.type, self.array.shape, self.array.dtype.name, self.normalized)


@dataclass(frozen=True)
class Local:
    """A ``__local`` argument of that many bytes."""

    nbytes: int


@dataclass(frozen=True)
class Case:
    """Kernel ``k`` of ``text`` with its arguments in order. ``without`` maps a part of ``back end: platform`` to why it is not asked."""

    name: str
    text: str
    args: tuple[In | Out | Picture | Local | Sampler | np.generic, ...]
    size: tuple[int, int, int] = (32, 1, 1)
    group: tuple[int, int, int] = (32, 1, 1)
    defines: Mapping[str, str] = field(default_factory=dict)
    without: Mapping[str, str] = field(default_factory=dict)
    kernel: str = "k"
    options: tuple[str, ...] = ()

    @property
    def source(self) -> Source:
        """What is compiled."""
        return Source(f"{self.name}.cl", self.text, tuple(self.defines.items()), self.options)

    @property
    def fp64(self) -> bool:
        """Whether the case needs double precision."""
        return "double" in self.text

    @property
    def fp16(self) -> bool:
        """Whether the case needs arithmetic in half precision."""
        return "cl_khr_fp16" in self.text


def texts(name: str) -> dict[str, str]:
    """The kernels of a file beside this one, by the name in the line ``//// name`` above each."""
    parts = re.split(r"^//// (\w+)\n", (Path(__file__).parent / name).read_text(), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def floats(n: int, low: float = -4.0, high: float = 4.0, dtype: str = "float32", seed: int = 0) -> Array:
    """Random numbers of the seed of the whole battery; ``seed`` makes arrays differ."""
    return np.random.default_rng(SEED + seed).uniform(low, high, n).astype(dtype)


def integers(n: int, dtype: str = "int32", seed: int = 0) -> Array:
    """Random integers over the whole range of their type."""
    info = np.iinfo(dtype)
    return np.random.default_rng(SEED + seed).integers(info.min, info.max, n, dtype=dtype, endpoint=True)


def elementwise(name: str, body: str, inputs: Sequence[Array], out: Out, signature: str = "", **more: Any) -> Case:
    """A kernel over one index ``i`` whose body is given: pointers ``a``, ``b``, ... to the inputs and ``o`` to the output.

    ``signature`` gives the pointed-to types, output last, where they are not the arrays' own: ``float4 int4 float4``.
    """
    types = signature.split() or [_C[str(array.dtype)] for array in (*inputs, out.expected)]
    pointers = [f"__global const {t} *{p}" for t, p in zip(types[:-1], "abcdefgh", strict=False)] + [f"__global {types[-1]} *o"]
    text = f"__kernel void k({', '.join(pointers)})\n{{\n  int i = get_global_id(0);\n  {body}\n}}\n"
    return Case(name, text, (*map(In, inputs), out), **more)


def table(
    name: str, rows: Sequence[tuple[str, Array]], inputs: Sequence[Array], tolerance: float = 0.0, kind: str = "float", floor: float = 0.0
) -> Case:
    """A kernel of expressions over ``a`` and ``b``, each with what it must give for every element; a row of the output for each."""
    count = inputs[0].size
    pointers = [f"__global const {_C[str(array.dtype)]} *{p}_" for p, array in zip("abc", inputs, strict=False)]
    reads = [f"{_C[str(array.dtype)]} {p} = {p}_[i];" for p, array in zip("abc", inputs, strict=False)]
    lines = [f"  o[{j * count} + i] = {expression};" for j, (expression, _) in enumerate(rows)]
    text = f"__kernel void k({', '.join(pointers)}, __global {kind} *o)\n{{\n  int i = get_global_id(0);\n  {' '.join(reads)}\n"
    expected = np.stack([np.broadcast_to(values, count) for _, values in rows]).astype(SCALARS[kind]).reshape(-1)
    return Case(name, text + "\n".join(lines) + "\n}\n", (*map(In, inputs), Out(expected, tolerance=tolerance, floor=floor)))
