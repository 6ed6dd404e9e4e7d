"""The records that modules exchange: frozen data, each convertible to JSON and back."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, TypeVar

import msgspec

from portatile.capabilities import WIDE_PROCESSORS, Capabilities, recorded
from portatile.dtypes import itemsize
from portatile.errors import ArgumentError

Value = bool | int | float | str
Config = Mapping[str, Value]

Role = Literal["in", "out", "inout", "temporary"]
ArgKind = Literal["buffer", "image", "scalar", "local", "view", "tensor_map"]
Size3 = tuple[int, int, int]

ITEMSIZE = {"float16": 2, "float32": 4, "float64": 8, "int32": 4, "uint32": 4, "int64": 8, "uint64": 8}
ITEMSIZE |= {"int8": 1, "uint8": 1, "int16": 2, "uint16": 2}

SCALARS = {"char": "int8", "uchar": "uint8", "short": "int16", "ushort": "uint16", "int": "int32", "uint": "uint32"}
SCALARS |= {"long": "int64", "ulong": "uint64", "half": "float16", "float": "float32", "double": "float64"}
"""OpenCL C's scalar types, and the dtypes that they are."""
UNPASSED = {"size_t": "ulong", "uintptr_t": "ulong", "ptrdiff_t": "long", "intptr_t": "long", "bool": "int"}
"""Types that OpenCL C does not allow for arguments, because host and device may differ in them, and what to declare instead."""
ELEMENT = re.compile(rf"({'|'.join(SCALARS)})(2|3|4|8|16)?")
"""A scalar or vector type of OpenCL C: the scalar, and the number of components."""

R = TypeVar("R")


def to_json(record: Any) -> bytes:
    """A record as JSON."""
    return msgspec.json.encode(record)


def from_json(data: bytes | str, kind: type[R]) -> R:
    """A record of type ``kind`` from JSON; raises ``msgspec.ValidationError`` with the path of what is wrong."""
    return msgspec.json.decode(data, type=kind)


def canonical(data: Any) -> str:
    """The canonical JSON of ``data``: keys sorted, so that equal data gives equal text."""
    return msgspec.json.encode(data, order="sorted").decode()


def digest(*parts: str | bytes) -> str:
    """A hexadecimal content hash of ``parts``, which depends on their boundaries."""
    state = hashlib.blake2b(digest_size=16)
    for part in parts:
        raw = part.encode() if isinstance(part, str) else part
        state.update(len(raw).to_bytes(8, "little"))
        state.update(raw)
    return state.hexdigest()


@dataclass(frozen=True)
class DeviceInfo:
    """The properties of a device that are known without running anything on it. Sizes are in bytes.

    - ``architecture``: the code that runs on it (``sm_90``, ``x86_64-znver3``). ``compiler`` and ``driver`` belong to every binary's key.
    - ``local_memory``: what a launch may ask for. ``constant_memory``: the largest ``__constant`` argument; by default OpenCL's minimum.
    - ``image_row_max``: bytes of an image's row, 0 if only ``image_2d_max`` bounds it. ``image_buffer_max``: pixels of an image over a
      buffer, 0 if there are no such images.
    - ``physical_id``: equal for one device reached through two back ends. Older records call it ``chip``.
    - ``capabilities``: read them through ``can``, which also knows those of older records.
    - ``caches``: data caches of a processor's core, the nearest first; empty if unknown.
    """

    id: str
    backend: str
    name: str
    vendor: str
    platform: str
    kind: Literal["cpu", "gpu", "accelerator"]
    architecture: str
    driver: str
    compiler: str
    compute_units: int
    local_memory: int
    global_memory: int
    max_allocation: int
    max_work_group_size: int
    max_work_item_sizes: Size3
    fp64: bool
    fp16: bool
    images: bool
    image_2d_max: tuple[int, int]
    unified_memory: bool
    physical_id: str = ""
    clock_mhz: int = 0
    constant_memory: int = 65536
    image_row_max: int = 0
    image_buffer_max: int = 0
    capabilities: Capabilities | None = None
    chip: str = ""
    caches: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        """Take ``physical_id`` from older records that call it ``chip``, a name that is no longer written."""
        older = self.__dict__.pop("chip", "")
        if older and not self.physical_id:
            object.__setattr__(self, "physical_id", older)

    @cached_property
    def can(self) -> Capabilities:
        """The capabilities of the device; for a record without them, those that its back end had at the time."""
        if self.capabilities is not None:
            return self.capabilities
        return recorded(self.backend, self.kind, self.vendor, self.architecture, self.local_memory)

    @property
    def static_local(self) -> int:
        """Bytes of local memory that kernel text may declare."""
        return self.can.static_local or self.local_memory

    @property
    def wide_vectors(self) -> bool:
        """Whether the compiler targets a processor with 512-bit registers, which has twice as many of these as others have of 256 bits."""
        return self.architecture.removeprefix("x86_64-") in WIDE_PROCESSORS and self.can.wide_arithmetic

    @property
    def nvidia(self) -> bool:
        """Whether it is an NVIDIA GPU."""
        return self.kind == "gpu" and "nvidia" in self.vendor.lower()

    def facts(self) -> dict[str, Value]:
        """The names that a constraint of a parameter space may use besides parameters and the problem's facts."""
        return {
            "backend": self.backend,
            "device_kind": self.kind,
            "vendor": self.vendor,
            "compute_units": self.compute_units,
            "local_memory": self.local_memory,
            "constant_memory": self.constant_memory,
            "max_work_group_size": self.max_work_group_size,
            "fp64": self.fp64,
            "fp16": self.fp16,
            "images": self.images,
            "sub_group": self.can.sub_group,
            "assembly": self.can.assembly,
            "launch_bounds": self.can.launch_bounds,
            "wide_arithmetic": self.can.wide_arithmetic,
            "wide_functions": self.can.wide_functions,
        }


@dataclass(frozen=True)
class Layout:
    """The layout of an operand in its memory, in elements: element (i, j) is at ``offset + i*strides[0] + j*strides[1]``.

    ``alignment`` is the guaranteed alignment, in bytes, of the memory's first byte (before ``offset``).
    """

    strides: tuple[int, ...]
    offset: int = 0
    alignment: int = 128

    def extent(self, shape: tuple[int, ...]) -> int:
        """Elements from the start of the memory to one past the last element of an array of ``shape``."""
        if 0 in shape:
            return self.offset
        return self.offset + 1 + sum((n - 1) * s for n, s in zip(shape, self.strides, strict=True))

    def vector_width(self, itemsize: int, limit: int = 16) -> int:
        """The widest power of two, in elements, at which every row of a row-major operand is aligned."""
        aligned = math.gcd(self.alignment, self.offset * itemsize) // itemsize
        width = math.gcd(max(aligned, 1), *self.strides[:-1]) if len(self.strides) > 1 else max(aligned, 1)
        return min(width & -width, limit)


@dataclass(frozen=True)
class Problem:
    """One instance of a computation: its workload, sizes, element type, options and the layout of every operand.

    ``dtype`` is one type for all operands, or two, as ``float16:float32``, if the result of a product has another type (see ``dtypes``).
    """

    workload: str
    sizes: Mapping[str, int]
    dtype: str
    options: Mapping[str, Value] = field(default_factory=dict)
    layout: Mapping[str, Layout] = field(default_factory=dict)

    @cached_property
    def key(self) -> str:
        """Canonical text; equal for equal problems."""
        return canonical(self)

    @property
    def itemsize(self) -> int:
        """Bytes of one element; for a product whose result has another type, of an operand's element."""
        return ITEMSIZE.get(self.dtype) or itemsize(self.dtype)

    def facts(self) -> dict[str, Value]:
        """The names that a constraint of a parameter space may use."""
        return {**self.sizes, **self.options, "dtype": self.dtype, "itemsize": self.itemsize}


@dataclass(frozen=True)
class Source:
    """Kernel text with expanded templates, and its preprocessor definitions. ``file`` names it in compiler messages."""

    file: str
    text: str
    defines: tuple[tuple[str, str], ...] = ()
    options: tuple[str, ...] = ()

    @cached_property
    def digest(self) -> str:
        """Content hash of everything that a compiler would see."""
        return digest(self.file, self.text, canonical(self.defines), canonical(self.options))


@dataclass(frozen=True)
class TensorMap:
    """A matrix in memory as the TMA sees it: ``rows`` x ``columns`` elements of ``itemsize`` bytes (1, 2 or 4).

    Rows are ``pitch`` bytes apart, the first at byte ``offset`` of a buffer. Each copy moves a box of ``high`` rows of ``wide`` elements
    (128 bytes). ``planes`` > 0 makes it a stack of this many matrices, ``step`` bytes apart. Pitch, step and offset are multiples of 16.
    """

    itemsize: int
    columns: int
    rows: int
    pitch: int
    wide: int
    high: int
    offset: int = 0
    planes: int = 0
    step: int = 0


@dataclass(frozen=True)
class Arg:
    """One argument of a kernel. Its ``kind`` says which fields apply:

    - ``buffer``, ``image``: ``name`` is an operand or a temporary of the plan.
    - ``scalar``: ``value`` is the literal; if None, the caller's scalar called ``name`` is passed. ``dtype`` is its type; ``sampler_t`` for
      the ``bits`` of a Sampler; or ``V`` and the number of bytes of a vector or structure, whose bytes ``value`` holds in hexadecimal
      digits.
    - ``local``: ``value`` is the number of bytes.
    - ``view``: the buffer ``name``, read in place as an ``image1d_buffer_t`` of ``value`` pixels, each with ``channels`` of ``dtype``.
    - ``tensor_map``: the tensor map that ``map`` describes, of the buffer ``name``.
    """

    name: str
    kind: ArgKind = "buffer"
    role: Role = "in"
    dtype: str = ""
    value: int | float | str | None = None
    channels: int = 0
    map: TensorMap | None = None


class Launch(msgspec.Struct, frozen=True, tag=True):  # a Struct, because its tag tells steps apart when they are decoded
    """A step of a plan: one kernel over an NDRange. ``global_size`` counts work-items and is a multiple of ``local_size``."""

    source: Source
    kernel: str
    global_size: Size3
    local_size: Size3
    args: tuple[Arg, ...]


class Call(msgspec.Struct, frozen=True, tag=True):
    """A step of a plan: another problem, whose configuration ``select`` resolves.

    ``operands`` maps the callee's operands to operands or temporaries of this plan (the callee's layout holds offsets);
    ``scalars`` maps its scalars to a literal or to the name of a scalar of this plan.
    """

    problem: Problem
    operands: Mapping[str, str]
    scalars: Mapping[str, float | str]


@dataclass(frozen=True)
class Temporary:
    """Workspace that lives while a plan runs, in bytes; for an image, ``width``, ``height`` in pixels of ``channels`` x ``dtype``.

    ``exact``: the memory must not be larger, as for a ``__constant`` argument. ``zeroed``: it holds zeros when a launch that uses it
    begins, and a launch that writes to it restores the zeros; so it is zeroed only once, and shared only with other zeroed temporaries.
    """

    name: str
    nbytes: int
    kind: Literal["buffer", "image"] = "buffer"
    width: int = 0
    height: int = 0
    channels: int = 0
    dtype: str = ""
    exact: bool = False
    zeroed: bool = False


@dataclass(frozen=True)
class Plan:
    """The steps of a computation in order, each of which may read what earlier ones wrote, and their temporaries."""

    steps: tuple[Launch | Call, ...]
    temporaries: tuple[Temporary, ...] = ()

    @property
    def workspace(self) -> int:
        """Bytes of all temporaries."""
        return sum(t.nbytes for t in self.temporaries)


@dataclass(frozen=True)
class Parameter:
    """One parameter of a compiled kernel, as the text declares it."""

    name: str
    kind: ArgKind
    type: str

    @property
    def spelled(self) -> str:
        """The type as the text declares it, with ``__local``."""
        return f"__local {self.type}" if self.kind == "local" else self.type


@dataclass(frozen=True)
class Entry:
    """A kernel inside a binary: its name in the text, its symbol in the binary, parameters and required work-group."""

    name: str
    symbol: str
    parameters: tuple[Parameter, ...] = ()
    work_group: Size3 | None = None

    @property
    def signature(self) -> str:
        """The kernel's signature: ``k(float* a, __local int* t)``."""
        return f"{self.name}({', '.join(f'{parameter.spelled} {parameter.name}' for parameter in self.parameters)})"


@dataclass(frozen=True)
class Resources:
    """The resources that one kernel uses; -1 if the compiler does not report them. Spills and stack are in bytes per work-item.

    ``scalar_registers`` are shared by a whole sub-group. ``occupancy``: sub-groups that one scheduler can hold at a time, as limited by
    registers and local memory.
    """

    registers: int = -1
    spill_stores: int = -1
    spill_loads: int = -1
    local_memory: int = -1
    stack: int = -1
    scalar_registers: int = -1
    occupancy: int = -1


@dataclass(frozen=True)
class Binary:
    """Compiled kernels. ``kind`` is the name of a back end's ``CompilerProduct``; ``seconds``: how long each phase of the compilation took.

    ``carveout``: the percentage of a multiprocessor's unified memory to be used as local memory, -1 to let the driver decide.
    ``early_start``: kernels may start before earlier commands have ended, because they wait for these themselves.
    """

    data: bytes
    kind: str
    entries: tuple[Entry, ...] = ()
    resources: Mapping[str, Resources] = field(default_factory=dict)
    log: str = ""
    seconds: Mapping[str, float] = field(default_factory=dict)
    carveout: int = -1
    early_start: bool = False

    def entry(self, kernel: str) -> Entry:
        """The entry of the kernel called ``kernel`` in the text. Raises ArgumentError if there is no such kernel."""
        for entry in self.entries:
            if entry.name == kernel:
                return entry
        raise ArgumentError(f"no kernel {kernel!r} in the program; it has {', '.join(e.name for e in self.entries) or 'none'}")
