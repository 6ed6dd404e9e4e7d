"""NVRTC: CUDA C++ to machine code or PTX for any architecture that it knows, without driver or GPU."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from portatile import dialect
from portatile.device import ptx, ptxas
from portatile.device.target import EARLY_START, Instruction, Target, carveout, for_compiler
from portatile.errors import CompileError, DeviceNotFoundError, UsageError
from portatile.records import ArgKind, Binary, Entry, Parameter, Source

_ELF_NO_BITS = 8  # ELF's SHT_NOBITS: a section that occupies memory but no bytes of the file
_CACHES = (12, 9)  # the first NVRTC that caches what it compiled
_ARCHITECTURE_OPTIONS = ("-arch", "--gpu-architecture")
REMEDY = "install the CUDA extra: pip install 'portatile[cuda]', in a clone '.[cuda]'"
_ENTRY = re.compile(r"\.visible\s+\.entry\s+([\w$]+)\s*\((.*?)\)(.*?)\{", re.DOTALL)
_PARAMETER = re.compile(r"\.param\s+(?:\.align\s+\d+\s+)?\.(\w+)\s+(?:\.ptr\s+[\w.\s]*?)?([\w$]+)(?:\[(\d+)\])?")
_WORK_GROUP = re.compile(r"\.reqntid\s+(\d+)(?:\s*,\s*(\d+))?(?:\s*,\s*(\d+))?")


def target(architecture: str, product: str = "cubin") -> CudaTarget:
    """NVRTC for an architecture such as ``sm_90``, for which no GPU is needed; ``product="ptx"`` gives readable text.

    Raises DeviceNotFoundError where NVRTC is missing or does not know the architecture.
    """
    made = CudaTarget(architecture, product)
    check_architecture(architecture)
    return made


def available() -> str | None:
    """Why NVRTC cannot be used, or None when it can."""
    try:
        nvrtc()
    except (ImportError, OSError, RuntimeError) as error:
        return f"cuda-bindings cannot be imported: {error}"
    try:
        _version()
    except Exception as error:  # the loader's own exception types differ between versions
        return f"NVRTC cannot be loaded: {str(error).splitlines()[0]}"
    return None


@lru_cache(maxsize=1)
def nvrtc() -> Any:
    """NVRTC's bindings, imported when the first kernel is compiled: without a GPU, most processes compile none for CUDA."""
    from cuda.bindings import nvrtc

    return nvrtc


@lru_cache(maxsize=1)
def _version() -> tuple[int, int]:
    _, major, minor = nvrtc().nvrtcVersion()
    return int(major), int(minor)


def check_architecture(architecture: str) -> None:
    """Raise DeviceNotFoundError for an architecture that NVRTC does not know, with those that it knows."""
    known = _checked(nvrtc().nvrtcGetSupportedArchs())
    if architecture.removeprefix("sm_").rstrip("af") not in map(str, known):
        listed = ", ".join(f"sm_{number}" for number in sorted(known))
        raise DeviceNotFoundError(f"NVRTC {'.'.join(map(str, _version()))} does not compile for {architecture!r}; it knows {listed}")


class CudaTarget(Target):
    """NVRTC for one architecture, such as ``sm_90``; ``kind`` is its output: ``cubin`` (default) or ``ptx``."""

    backend = "cuda"
    prelude = "cuda"

    def __init__(self, architecture: str, kind: str = "cubin") -> None:
        reason = available()
        if reason is not None:
            raise DeviceNotFoundError(f"CUDA kernels cannot be compiled: {reason} - {REMEDY}")
        if not re.fullmatch(r"sm_\d+[af]?", architecture):
            raise DeviceNotFoundError(f"{architecture!r} is not a CUDA architecture; write for example sm_90")
        self.architecture = architecture
        self.kind = kind
        major, minor = _version()
        self.compiler = f"NVRTC {major}.{minor}" + (" to PTX" if kind == "ptx" else "")

    def lower(self, source: Source) -> tuple[Source, tuple[Entry, ...]]:
        """OpenCL C translated to CUDA C++, and its kernels."""
        translation = dialect.translate(source.text, file=source.file, defines=dict(source.defines), options=source.options)
        options = dialect.nvrtc_options((*dialect.definitions(source.options)[1], *translation.options))
        return Source(source.file, translation.text, (), options), translation.entries

    def compile(self, source: Source, entries: tuple[Entry, ...] = ()) -> Binary:
        """Compile CUDA C++. An architecture among the source's own options (``-arch=sm_90a``) takes precedence over the target's."""
        return self.compile_with_ptx(source, entries)[0]

    def compile_with_ptx(self, source: Source, entries: tuple[Entry, ...] = ()) -> tuple[Binary, str]:
        """As ``compile``; also returns the PTX from which NVRTC makes the machine code."""
        bindings = nvrtc()
        program = _checked(bindings.nvrtcCreateProgram(source.text.encode(), source.file.encode(), 0, [], []))
        try:
            options = _options(source, self.architecture)
            (failed,) = bindings.nvrtcCompileProgram(program, len(options), [option.encode() for option in options])
            log = (
                _text(program, bindings.nvrtcGetProgramLogSize, bindings.nvrtcGetProgramLog)
                .decode(errors="replace")
                .replace("\0", "")
                .strip()
            )
            if int(failed):
                raise CompileError(f"{source.file} does not build for {self.architecture}: {failed.name}", dialect.readable(log))
            ptx = _text(program, bindings.nvrtcGetPTXSize, bindings.nvrtcGetPTX)
            data = ptx if self.kind == "ptx" else _text(program, bindings.nvrtcGetCUBINSize, bindings.nvrtcGetCUBIN)
        finally:
            bindings.nvrtcDestroyProgram(program)
        declared = entries or _entries(ptx.decode(errors="replace"))
        by_symbol = ptxas.parse(log)
        resources = {entry.name: by_symbol[entry.symbol] for entry in declared if entry.symbol in by_symbol}
        early = EARLY_START in source.options
        binary = Binary(data, self.kind, declared, resources, log, carveout=carveout(source.options), early_start=early)
        return binary, ptx.rstrip(b"\0").decode()

    def payload(self, binary: Binary) -> bytes:
        return binary.data.rstrip(b"\0") if binary.kind == "ptx" else binary.data

    def assembly(self, binary: Binary) -> str:
        if binary.kind != "ptx":
            raise UsageError(f"a {binary.kind} is not text: compile to PTX")
        return self.payload(binary).decode()

    def instructions(self, assembly: str) -> Iterable[Instruction]:
        return ptx.instructions(assembly)


def _options(source: Source, architecture: str) -> list[str]:
    options = [f"-D{name}={value}" for name, value in source.defines]
    options += for_compiler(source.options)
    if not any(option.split("=")[0] in _ARCHITECTURE_OPTIONS for option in source.options):
        options.append(f"--gpu-architecture={architecture}")
    if _version() >= _CACHES:  # its cached results, used if there is a driver, lack register counts and would falsify compile times
        options.append("--no-cache")
    return [*options, "--ptxas-options=-v"]


def _checked(result: tuple[Any, ...]) -> Any:
    if int(result[0]):
        raise CompileError(f"NVRTC reports {result[0].name}")
    return result[1]


def _text(program: Any, size: Any, get: Any) -> bytes:
    buffer = bytearray(_checked(size(program)))
    if buffer:
        (failed,) = get(program, buffer)
        if int(failed):
            raise CompileError(f"NVRTC reports {failed.name}")
    return bytes(buffer)


def _entries(ptx: str) -> tuple[Entry, ...]:
    """The kernels of a PTX text, for sources that were not translated; its parameters have widths, and pointers look like integers."""
    entries = []
    for symbol, parameters, directives in _ENTRY.findall(ptx):
        listed = tuple(Parameter(name, _kind(kind, length), kind) for kind, name, length in _PARAMETER.findall(parameters))
        required = _WORK_GROUP.search(directives)
        group = tuple(int(n or 1) for n in required.groups()) if required else None
        entries.append(Entry(symbol, symbol, listed, (group[0], group[1], group[2]) if group else None))
    return tuple(entries)


def _kind(kind: str, length: str) -> ArgKind:
    return "buffer" if kind == "u64" and not length else "scalar"


def is_whole(cubin: bytes) -> bool:
    """Whether an ELF file is as long as its headers say: the driver would read past the end of a truncated file."""
    if len(cubin) < 64 or cubin[:5] != b"\x7fELF\x02":
        return False
    number = struct.unpack_from
    segments, sections = number("<QQ", cubin, 32)
    segment_size, segment_count, section_size, section_count = number("<4H", cubin, 54)
    if max(segments + segment_size * segment_count, sections + section_size * section_count) > len(cubin):
        return False
    for at in range(sections, sections + section_size * section_count, section_size):
        (kind,) = number("<I", cubin, at + 4)
        offset, length = number("<QQ", cubin, at + 24)
        if kind != _ELF_NO_BITS and offset + length > len(cubin):
            return False
    return True
