"""Capabilities of devices, regardless of back end: workloads ask for these, never for a back end's name."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

Language = Literal["OpenCL C", "CUDA C++"]

MOST_GROUPS = 65535
"""Work-groups along the second or third axis of a launch: CUDA's limit."""

WIDE_PROCESSORS = frozenset(
    [
        "knl",
        "knm",
        "skylake-avx512",
        "cascadelake",
        "cooperlake",
        "cannonlake",
        "icelake-client",
        "icelake-server",
        "tigerlake",
        "rocketlake",
        "sapphirerapids",
        "emeraldrapids",
        "graniterapids",
        "graniterapids-d",
        "diamondrapids",
        "znver4",
        "znver5",
        "x86-64-v4",
    ]
)
"""Processors with 512-bit registers (AVX-512), by LLVM's names."""

_SINCE_80 = ("float16", "bfloat16", "tfloat32", "int8")  # operand types of matrix units since this compute capability
_SINCE_89 = ("float8_e4m3fn", "float8_e5m2")
_STATIC_LOCAL = 48 << 10  # bytes that CUDA C++ may declare; more must be requested at the launch
_DECLARED = {"sm_80": 162 << 10, "sm_90": 226 << 10, "sm_100": 226 << 10}  # see ``declared_by_nvidia``


@dataclass(frozen=True)
class Capabilities:
    """Facts that decide which kernels are legal and which are fast. Unknown ones are 0, empty or False.

    - ``language``: the language of the device's compiler. ``assembly``: the instruction set that kernel text may use inline (``ptx``).
    - ``sub_group``: work-items that run in lockstep. ``registers``: 32-bit registers of one compute unit.
    - ``static_local``: bytes of local memory that kernel text may declare, 0 for as many as a launch may ask for.
    - ``matrix_shapes``: m x n x k of the float64 products that one instruction computes faster than plain instructions do.
    - ``matrix_types``: operand types of which a sub-group multiplies fragments in one instruction.
    - ``dot_types``: operand types for which a processor has a dot-product instruction, usable inline: it adds the products of two or four
      neighbours along k to each lane of a vector.
    - ``half_vectors``: a processor has an instruction, usable inline, that converts vectors of float16 to float32.
    - ``warp_groups``: four sub-groups together multiply tiles in local memory that the TMA fills. ``tensor_maps``: the host may encode its
      tensor maps.
    - ``read_only_loads``: there is a separate load path for data that no work-item writes.
    - ``ordered_groups``: a work-group that reads an atomic counter sees what the groups before it wrote, so that the last one can finish
      their work.
    - ``clusters``: neighbouring work-groups can wait for each other and read each other's local memory.
    - ``launch_bounds``: the compiler accepts the number of work-groups that should be resident. ``carveout``: a kernel may set the fraction
      of a multiprocessor's unified memory that is local memory.
    - ``addresses``: memory has addresses that other libraries share, and their arrays may begin anywhere.
    - ``launch_us``: microseconds of host time per launch.
    - ``wide_arithmetic``, ``wide_functions``, ``relaxed_math``: the driver's compiler was seen to survive arithmetic and casts of 512-bit
      vectors; fma, library functions and selections of them; and ``-cl-fast-relaxed-math``.
    """

    language: Language = "OpenCL C"
    assembly: str = ""
    sub_group: int = 0
    registers: int = 0
    static_local: int = 0
    matrix_shapes: tuple[str, ...] = ()
    matrix_types: tuple[str, ...] = ()
    dot_types: tuple[str, ...] = ()
    half_vectors: bool = False
    warp_groups: bool = False
    tensor_maps: bool = False
    read_only_loads: bool = False
    ordered_groups: bool = False
    clusters: bool = False
    launch_bounds: bool = False
    carveout: bool = False
    addresses: bool = False
    launch_us: float = 12.0
    wide_arithmetic: bool = True
    wide_functions: bool = False  # PoCL 3.0 aborts the process when it compiles them, on some processors
    relaxed_math: bool = True


def of_nvidia(architecture: str) -> Capabilities:
    """The capabilities of an NVIDIA GPU such as ``sm_90`` through any back end, from the tables of the CUDA programming guide."""
    plain = architecture.rstrip("af")
    digits = plain.removeprefix("sm_")
    generation = int(digits) if digits.isdigit() else 0
    shapes = {"sm_80": ("8x8x4",), "sm_90": ("8x8x4", "16x8x4", "16x8x8", "16x8x16")}
    return Capabilities(
        assembly="ptx",
        sub_group=32,
        registers=1 << 16,
        matrix_shapes=shapes.get("sm_90" if plain == "sm_100" else plain, ()),
        matrix_types=_SINCE_80 * (generation >= 80) + _SINCE_89 * (generation >= 89),
        read_only_loads=True,
        ordered_groups=generation >= 70,
    )


def with_warp_groups(known: Capabilities, architecture: str) -> Capabilities:
    """``known``, completed with the capabilities of warp groups on an architecture."""
    has = architecture.rstrip("af") == "sm_90"  # including sm_90a
    return replace(known, warp_groups=has, tensor_maps=has)


def clusters(architecture: str) -> bool:
    """Whether CUDA C++ supports clusters of work-groups on a GPU of this compute capability: from 9.0 on."""
    digits = architecture.removeprefix("sm_").rstrip("af")
    return digits.isdigit() and int(digits) >= 90


def declared_by_nvidia(architecture: str, local_memory: int) -> int:
    """Bytes of local memory that NVIDIA's OpenCL C compiler accepts in kernel text, 0 if that is no more than a launch may ask for.

    The driver reports 48 KB, but it accepts arrays of nearly CUDA's limit: measured, 226 KB instead of 227 at compute capability 9.0; in
    proportion, 162 KB at 8.0.
    """
    return _DECLARED.get(architecture.rstrip("af"), 0) if local_memory >= _STATIC_LOCAL else 0


def recorded(backend: str, kind: str, vendor: str, architecture: str, local_memory: int) -> Capabilities:
    """The capabilities of a device whose record has none, as they were when there were two back ends."""
    nvidia = kind == "gpu" and "nvidia" in vendor.lower()
    known = of_nvidia(architecture) if nvidia else Capabilities(ordered_groups=kind == "cpu")
    if backend == "cuda":
        bounds = replace(known, language="CUDA C++", static_local=_STATIC_LOCAL)
        bounds = replace(bounds, launch_bounds=True, carveout=True, addresses=True, launch_us=5.0, clusters=clusters(architecture))
        return with_warp_groups(bounds, architecture)
    return replace(known, static_local=declared_by_nvidia(architecture, local_memory) if nvidia else 0)
