"""Compile any OpenCL C file, for CUDA and AMD also without a GPU, and show its kernels, their registers and spills."""

from __future__ import annotations

from pathlib import Path

import click

from portatile import device, output_files, program
from portatile.cli import _console, _options
from portatile.cli._kernels import KernelFile, kernel_file, without_kernels
from portatile.cli._resources import cells, reported_columns
from portatile.device.backend import BackEnd, CompilerProduct
from portatile.device.target import Target
from portatile.errors import DeviceNotFoundError, UsageError
from portatile.formatting import duration
from portatile.records import Binary, Entry, Resources, to_json

_COLUMNS = ("kernel", "parameters", "work-group")
_BACKENDS = device.backends()
_FIRST = next(backend for backend in _BACKENDS.values() if backend.offline)
_PRODUCTS = list(dict.fromkeys(product.name for backend in _BACKENDS.values() for product in backend.products))


@click.command()
@kernel_file
@click.option(
    "--backend",
    type=_options.OneOf(list(_BACKENDS)),
    help=f"What to compile for. Default: by --arch or --device, else {_FIRST.name}, else the driver here.",
)
@click.option("--arch", help=f"Architecture, such as sm_90 or gfx942. Default: that of the GPU here, else {_FIRST.usual}.")
@click.option("--device", "selector", help="Device whose driver compiles, as `portatile devices` names it.")
@click.option("--emit", type=_options.OneOf(_PRODUCTS), help="What to write; text goes to the terminal without -o.")
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="Where to write it. Default of --emit: by the ending."
)
@_options.document("Print kernels, parameters and resources as JSON.")
def command(
    file: KernelFile, backend: str | None, arch: str | None, selector: str | None, emit: str | None, output: Path | None, as_json: bool
) -> None:
    """Compile FILE and show its kernels and the resources that they need.

    \b
    portatile compile scan.cl -D BLOCK=256
    portatile compile scan.cl --arch sm_80 -o scan.cubin
    portatile compile scan.cl --emit cuda          the CUDA C++ that NVRTC is given
    portatile compile scan.cl --arch gfx1100 --emit isa
    portatile compile scan.cl --device opencl:0:0

    Messages name the file and its lines. Exit code 1: it does not build.
    """
    backend_of_options = _backend_of(backend, arch, selector)
    product = _product(emit, output, backend_of_options)
    try:
        target = _target(backend_of_options, arch, selector, product)
    except DeviceNotFoundError as missing:
        if (backend, arch, selector, emit, output) != (None,) * 5:
            raise
        here = device.get()
        _console.note(f"compiled by the driver of {here.info.name} ({here.info.id}); {missing}")
        target = here.target
    if product is not None and not product.compiled:
        _write(target.lower(file.source)[0].text.encode(), output)
        return
    _console.say(f"compiling for {target.architecture}")
    binary = program.build(file.source, target, None)
    if not binary.entries:
        raise without_kernels(file.source)
    if product is not None:
        _write(target.payload(binary) if product.readable else binary.data, output)
        if output is None:
            return
    if as_json:
        click.echo(to_json(_document(file, target, binary)))
        return
    used = [binary.resources.get(entry.name, Resources()) for entry in binary.entries]
    columns = reported_columns(used)
    rows = [(*_named(entry), *cells(resources, columns)) for entry, resources in zip(binary.entries, used, strict=True)]
    title = f"{file.source.file} for {target.architecture} ({target.compiler}), {duration(sum(binary.seconds.values()))}"
    _console.out.print(_console.table(title, (*_COLUMNS, *columns), rows, left=3), markup=False)
    if any("?" in row for row in rows):
        _console.err.print("? : this compiler does not say", markup=False)
    warnings = "\n".join(line for line in binary.log.splitlines() if "warning #" in line or "warning:" in line)
    if warnings:
        _console.err.print(warnings, markup=False, soft_wrap=True)


def _backend_of(backend: str | None, arch: str | None, selector: str | None) -> BackEnd:
    """The back end that is meant."""
    if selector is not None:
        return _BACKENDS[device.get(selector).info.backend]
    if backend is not None:
        return _BACKENDS[backend]
    if arch is not None and (known := [candidate for candidate in _BACKENDS.values() if candidate.offline and candidate.datasheet(arch)]):
        return known[0]
    return _FIRST


def _product(emit: str | None, output: Path | None, backend: BackEnd) -> CompilerProduct | None:
    """The product that is to be written, or None."""
    if emit is None:
        if output is None:
            return None
        if len(backend.products) == 1:
            return backend.products[0]
        product = next((product_kind for product_kind in backend.products if product_kind.ending == output.suffix), None)
        if product is None:
            endings = ", ".join(product_kind.ending for product_kind in backend.products)
            raise UsageError(f"-o {output}: the ending is none of {endings}; say with --emit what to write")
    else:
        product = backend.product(emit)
        if product is None:
            raise UsageError(f"--emit {emit} does not go with --backend {backend.name}")
    if not product.readable and output is None:
        raise UsageError(f"--emit {product.name} is not text: name a file with -o")
    return product


def _target(backend: BackEnd, arch: str | None, selector: str | None, product: CompilerProduct | None) -> Target:
    if not backend.offline:
        if arch is not None:
            raise UsageError(f"--arch goes with a compiler that needs no device; an {backend.title} device is named with --device")
        opened = device.get(selector or backend.name)
        if opened.info.backend != backend.name:
            raise UsageError(f"{opened.info.id} is no {backend.title} device; leave out --device to compile for {_FIRST.title}")
        return opened.target
    if arch is None:
        here = device.get(selector).info if selector is not None else None
        found_here = [here] if here else [each.info for each in device.devices() if each.info.backend == backend.name]
        arch = found_here[0].architecture if found_here else backend.usual
    name = product.name if product is not None and product.compiled else ""
    return backend.target(arch, name)


def _write(data: bytes, output: Path | None) -> None:
    if output is None:
        click.echo(data.decode())
        return
    try:
        output_files.write(output, data)
    except OSError as error:
        raise UsageError(f"-o {output}: {error.strerror}") from None


def _named(entry: Entry) -> tuple[str, str, str]:
    parameters = ", ".join(f"{'local ' if p.kind == 'local' else ''}{p.type} {p.name}" for p in entry.parameters)
    return entry.name, parameters, "x".join(map(str, entry.work_group)) if entry.work_group else "any"


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
