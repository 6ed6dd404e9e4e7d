"""Compile any OpenCL C file for CUDA, with no GPU needed, or for an OpenCL device: kernels, registers, spills, the compiler's messages."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import click

from portatile import device, program
from portatile.cli import _console, _options
from portatile.cli._kernels import KernelFile, kernel_file, without_kernels
from portatile.device.base import Target
from portatile.errors import UsageError
from portatile.records import Binary, Entry, Resources, duration, to_json

Emit = Literal["cuda", "ptx", "cubin", "opencl"]
_ARCHITECTURE = "sm_90"
_COLUMNS = ("kernel", "parameters", "work-group", "registers", "spill stores", "spill loads", "local bytes", "stack")


@click.command()
@kernel_file
@click.option("--backend", type=click.Choice(["cuda", "opencl"]), default="cuda", show_default=True, help="What to compile for.")
@click.option("--arch", help=f"CUDA architecture. Default: that of the GPU here, else {_ARCHITECTURE}.")
@click.option("--device", "selector", help="OpenCL device, as `portatile devices` names it; implies --backend opencl.")
@click.option("--emit", type=click.Choice(["cuda", "ptx", "cubin", "opencl"]), help="What to write; text goes to the terminal without -o.")
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="Where to write it. Default of --emit: by the ending."
)
@_options.document("Print kernels, parameters and resources as JSON.")
def command(
    file: KernelFile, backend: str, arch: str | None, selector: str | None, emit: Emit | None, output: Path | None, as_json: bool
) -> None:
    """Compile FILE and say what its kernels take of the chip.

    \b
    portatile compile scan.cl -D BLOCK=256
    portatile compile scan.cl --arch sm_80 -o scan.cubin
    portatile compile scan.cl --emit cuda          the CUDA C++ that NVRTC is given
    portatile compile scan.cl --device opencl:0:0

    Messages name the file and its lines. Exit code 1: it does not build.
    """
    if selector is not None:
        backend = "opencl"
    kind = _kind(emit, output, backend)
    if kind == "cuda":
        _write(program.lower(file.source, _target(backend, arch, selector, "ptx"))[0].text.encode(), output)
        return
    target = _target(backend, arch, selector, "ptx" if kind == "ptx" else "cubin")
    _console.say(f"compiling for {target.architecture}")
    binary = program.build(file.source, target, None)
    if not binary.entries:
        raise without_kernels(file.source)
    if kind is not None:
        _write(binary.data.rstrip(b"\0") if kind == "ptx" else binary.data, output)
        if output is None:
            return
    if as_json:
        click.echo(to_json(_document(file, target, binary)))
        return
    rows = [_row(entry, binary.resources.get(entry.name, Resources())) for entry in binary.entries]
    title = f"{file.source.file} for {target.architecture} ({target.compiler}), {duration(sum(binary.seconds.values()))}"
    _console.out.print(_console.table(title, _COLUMNS, rows, left=3), markup=False)
    if any("?" in row for row in rows):
        _console.err.print("? : this compiler does not say", markup=False)
    warnings = "\n".join(line for line in binary.log.splitlines() if "warning #" in line or "warning:" in line)
    if warnings:
        _console.err.print(warnings, markup=False, soft_wrap=True)


def _kind(emit: Emit | None, output: Path | None, backend: str) -> Emit | None:
    """What is to be written, or nothing."""
    if emit is None and output is not None:
        known: dict[str, Emit] = {".cu": "cuda", ".ptx": "ptx", ".cubin": "cubin"}
        emit = "opencl" if backend == "opencl" else known.get(output.suffix)
        if emit is None:
            raise UsageError(f"-o {output}: the ending is none of {', '.join(known)}; say with --emit what to write")
    if emit is not None and (emit == "opencl") != (backend == "opencl"):
        raise UsageError(f"--emit {emit} does not go with --backend {backend}")
    if emit in ("cubin", "opencl") and output is None:
        raise UsageError(f"--emit {emit} is no text: name a file with -o")
    return emit


def _target(backend: str, arch: str | None, selector: str | None, kind: str) -> Target:
    if backend == "opencl":
        if arch is not None:
            raise UsageError("--arch names a CUDA architecture; an OpenCL device is named with --device")
        found = device.get(selector or "opencl")
        if found.info.backend != "opencl":
            raise UsageError(f"{found.info.id} is no OpenCL device; leave out --device to compile for CUDA")
        return found.target
    if arch is None:
        here = [found.info.architecture for found in device.devices() if found.info.backend == "cuda"]
        arch = here[0] if here else _ARCHITECTURE
    target: Target = device.backends()["cuda"].target(arch, kind)
    return target


def _write(data: bytes, output: Path | None) -> None:
    if output is None:
        click.echo(data.decode())
        return
    try:
        output.write_bytes(data)
    except OSError as error:
        raise UsageError(f"-o {output}: {error.strerror}") from None


def _row(entry: Entry, used: Resources) -> tuple[str, ...]:
    parameters = ", ".join(f"{'local ' if p.kind == 'local' else ''}{p.type} {p.name}" for p in entry.parameters)
    group = "x".join(map(str, entry.work_group)) if entry.work_group else "any"
    figures = (used.registers, used.spill_stores, used.spill_loads, used.local_memory, used.stack)
    return entry.name, parameters, group, *("?" if figure < 0 else str(figure) for figure in figures)


def _document(file: KernelFile, target: Target, binary: Binary) -> dict[str, object]:
    kernels = [{"entry": entry, "resources": binary.resources.get(entry.name, Resources())} for entry in binary.entries]
    return {
        "file": file.source.file,
        "backend": target.backend,
        "architecture": target.architecture,
        "compiler": target.compiler,
        "kernels": kernels,
        "seconds": dict(binary.seconds),
        "log": binary.log,
    }
