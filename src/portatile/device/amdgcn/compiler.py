"""Clang and libclc: compile OpenCL C to the instructions of an AMD architecture, without driver or GPU."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Sequence

from portatile.device.amdgcn import isa, toolchain
from portatile.device.target import Instruction, Target
from portatile.dialect.places import quoted
from portatile.errors import CompileError, DeviceNotFoundError, UsageError
from portatile.records import Binary, Entry, Source

_TRIPLE = "amdgcn--amdhsa"
_LANGUAGE = ("-x", "cl", "-cl-std=CL1.2", "-cl-kernel-arg-info", "-target", _TRIPLE, "-nogpulib", "-O3")


def target(architecture: str, product: str = "isa") -> AmdTarget:
    """Clang for an architecture such as ``gfx942``; ``product="object"`` gives an unlinked object file.

    Raises DeviceNotFoundError where Clang or libclc is missing, or where Clang does not know the architecture.
    """
    known = toolchain.architectures()
    if architecture not in known:
        raise DeviceNotFoundError(f"{toolchain.version()} does not compile for {architecture!r}; it knows {', '.join(sorted(known))}")
    return AmdTarget(architecture, product)


class AmdTarget(Target):
    """Clang for one architecture; ``kind`` is its output: ``isa`` (assembly text, the default) or ``object``."""

    backend = "amdgcn"

    def __init__(self, architecture: str, kind: str = "isa") -> None:
        self.architecture, self.kind = architecture, kind
        self.compiler = toolchain.version() + ("" if kind == "isa" else f" to an {kind}")

    def compile(self, source: Source, entries: tuple[Entry, ...] = ()) -> Binary:
        """Compile OpenCL C; registers, spills and occupancy are read from Clang's comments in the assembly."""
        clang, library = toolchain.paths()
        # definitions are part of the text, whose line numbers are kept, as for a driver's compiler
        text = "".join(f"#define {name} {value}\n" for name, value in source.defines) + f"#line 1 {quoted(source.file)}\n{source.text}"
        builtins = ("-Xclang", "-mlink-builtin-bitcode", "-Xclang", str(library))
        arguments = [clang, *_LANGUAGE, f"-mcpu={self.architecture}", *builtins, *_options(source.options), "-S", "-o", "-", "-"]
        message = f"{source.file} does not build for {self.architecture}"
        assembly, log = _run(arguments, text, message)
        if missing := isa.undefined(assembly):
            raise CompileError(f"{message}: libclc has no {', '.join(missing)}", log)
        data = assembly.encode()
        if self.kind == "object":
            command = [clang, "-x", "assembler", "-target", _TRIPLE, f"-mcpu={self.architecture}", "-c", "-o", "-", "-"]
            data = _bytes(command, data, message)
        return Binary(data, self.kind, entries or isa.entries(assembly), isa.resources(assembly), log)

    def assembly(self, binary: Binary) -> str:
        if binary.kind != "isa":
            raise UsageError(f"an {binary.kind} is no text: compile to isa")
        return binary.data.decode()

    def instructions(self, assembly: str) -> Iterable[Instruction]:
        return isa.instructions(assembly)


def _options(options: Sequence[str]) -> list[str]:
    """The build options that Clang knows: OpenCL's standard ones and those of the preprocessor."""
    return [option for option in options if option.startswith(("-cl-", "-D", "-U", "-I", "-W")) and not option.startswith("-cl-nv-")]


def _run(arguments: list[str], text: str, message: str) -> tuple[str, str]:
    """The output of a compiler, and its messages."""
    done = subprocess.run(arguments, input=text, capture_output=True, text=True, check=False)
    log = done.stderr.strip()
    if done.returncode:
        raise CompileError(message, log)
    return done.stdout, log


def _bytes(arguments: list[str], data: bytes, message: str) -> bytes:
    done = subprocess.run(arguments, input=data, capture_output=True, check=False)
    if done.returncode:
        raise CompileError(message, done.stderr.decode(errors="replace").strip())
    return done.stdout
