"""A user's own OpenCL C file on the command line: its options, its text with the headers in it, its kernels."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from portatile.dialect import cuda_word, definitions, gather, read_text, translate
from portatile.errors import ArgumentError, CompileError, UnknownNameError
from portatile.records import Entry, Source

_MACRO = re.compile(r"[A-Za-z_]\w*(?:\([\w ,.]*\))?")


@dataclass(frozen=True)
class KernelFile:
    """An OpenCL C file as the compiler receives it."""

    source: Source

    def entries(self) -> tuple[Entry, ...]:
        """The kernels in it, without a compiler; raises CompileError with file and line, and for CUDA C."""
        if foreign := cuda_word(self.source.text, self.source.file, dict(self.source.defines)):
            raise CompileError(foreign)
        return translate(self.source.text, file=self.source.file, defines=dict(self.source.defines), options=self.source.options).entries


def kernel_file(command: Callable[..., Any]) -> Callable[..., Any]:
    """Gives a command the argument FILE and the options -D, -I and --option, as one ``KernelFile`` called ``file``."""

    def call(path: Path, defines: tuple[str, ...], folders: tuple[Path, ...], flags: tuple[str, ...], **rest: Any) -> Any:
        return command(file=read(path, defines, folders, flags), **rest)

    call.__doc__ = command.__doc__
    call.__click_params__ = getattr(command, "__click_params__", [])  # type: ignore[attr-defined]
    for add in (
        click.option("--option", "flags", multiple=True, metavar="OPTION", help="A build option, such as -cl-fast-relaxed-math; repeat."),
        click.option("-I", "folders", multiple=True, type=click.Path(path_type=Path), help="Look for headers in this folder; repeat."),
        click.option("-D", "defines", multiple=True, metavar="NAME[=VALUE]", help="Define a macro; repeat."),
        click.argument("path", metavar="FILE", type=click.Path(path_type=Path)),
    ):
        call = add(call)
    return call


def read(path: Path, defines: tuple[str, ...], folders: tuple[Path, ...], flags: tuple[str, ...]) -> KernelFile:
    """The file with its headers in place.

    Raises ArgumentError for a definition without a name, a missing folder, and a file that is missing or not text.
    """
    for folder in folders:
        if not folder.is_dir():
            raise ArgumentError(f"-I {folder}: there is no such folder")
    pairs: dict[str, str] = {}
    for define in defines:
        name, equals, value = define.partition("=")
        if not _MACRO.fullmatch(name):
            raise ArgumentError(f"-D {define!r} has no name; write -D NAME, -D NAME=VALUE or -D 'NAME(x)=VALUE'")
        pairs[name] = value if equals else "1"
    try:
        text = read_text(path)
    except OSError as error:
        raise ArgumentError(f"{path} cannot be read: {error.strerror}") from None
    gathered = gather(text, path, folders, definitions(flags)[0] | pairs)
    return KernelFile(Source(str(path), gathered, tuple(pairs.items()), flags))


def entry_called(entries: tuple[Entry, ...], name: str) -> Entry:
    """The kernel of that name; raises UnknownNameError, which lists the known ones."""
    for entry in entries:
        if entry.name == name:
            return entry
    raise UnknownNameError("kernel", name, [entry.name for entry in entries])


def without_kernels(source: Source) -> CompileError:
    """The error for a file that builds but has no kernel."""
    return CompileError(f"{source.file} has no kernel: no function is declared __kernel")
