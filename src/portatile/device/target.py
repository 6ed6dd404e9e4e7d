"""The interface of compilers that every back end implements: a Target translates kernel text, compiles it, and reads the result."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Literal, Protocol

from portatile import dialect
from portatile.errors import UsageError
from portatile.records import Binary, Entry, Source

CARVEOUT = "-portatile-carveout="
"""A build option for the back end, not the compiler: the percentage of a multiprocessor's unified memory to be used as local memory."""


def carveout(options: Sequence[str]) -> int:
    """The value of the last ``CARVEOUT`` option; -1 without one. Raises UsageError for a value that is no percentage."""
    percents = [option.removeprefix(CARVEOUT) for option in options if option.startswith(CARVEOUT)]
    if not percents:
        return -1
    if not percents[-1].isdigit() or int(percents[-1]) > 100:
        raise UsageError(f"{CARVEOUT}{percents[-1]}: write a percentage, 0 to 100")
    return int(percents[-1])


EARLY_START = "-portatile-early-start"
"""A build option for the back end: kernels may start before earlier commands end, and wait for these at AFTER_PREVIOUS."""


def for_compiler(options: Sequence[str]) -> tuple[str, ...]:
    """The options that are meant for the compiler."""
    return tuple(option for option in options if not option.startswith(CARVEOUT) and option != EARLY_START)


class Instruction(Protocol):
    """One instruction of a compiled kernel: the function that contains it, its family (``load``, ``fma``, ...) and its kind."""

    @property
    def function(self) -> str: ...
    @property
    def family(self) -> str: ...
    @property
    def kind(self) -> str: ...


class Target(Protocol):
    """An architecture and a compiler, which needs no device where its back end is ``offline``."""

    backend: str
    architecture: str
    compiler: str
    draft: bool = False
    """Whether only this process uses the result, once, so that the driver need not make a binary."""
    defers: bool = False
    """Whether the driver has to compile a second time to make a binary; if so, ``defer`` postpones that."""

    prelude: Literal["opencl", "cuda"] = "opencl"
    """The prelude of the dialect that ``lower`` puts before a text."""

    def lower(self, source: Source) -> tuple[Source, tuple[Entry, ...]]:
        """Translate OpenCL C to what ``compile`` takes; also returns its kernels if they are known. This default prepends the prelude.

        Raises CompileError with file and line for what the dialect does not support.
        """
        defined, options = dialect.definitions(source.options)
        defines = tuple((defined | dict(source.defines)).items())
        return replace(source, text=dialect.opencl(source.text, source.file, defines), defines=(), options=options), ()

    def compile(self, source: Source, entries: tuple[Entry, ...] = ()) -> Binary:
        """Build a lowered source; raises CompileError with the compiler's log, expressed in lines and names of the original text.

        ``entries`` are what the dialect knows of the kernels; if they are empty, the back end finds them.
        """
        ...

    def payload(self, binary: Binary) -> bytes:
        """The driver's own binary, or the text, for programs that load it without portatile."""
        return binary.data

    def assembly(self, binary: Binary) -> str:
        """The compiled instructions as text; raises UsageError where the back end has none."""
        raise UsageError(f"{self.compiler} does not print its instructions; name an architecture that another compiler knows, with --arch")

    def instructions(self, assembly: str) -> Iterable[Instruction]:
        """The instructions of such a text."""
        return ()

    def defer(self, source: Source, entries: tuple[Entry, ...] = ()) -> tuple[Binary, Callable[[], Binary]]:
        """Compile to a binary that only this process can load; the second result is a function that makes the binary for the cache.

        The latter includes what the driver has compiled for launches until then. Devices can load the former as long as it is referenced.
        """
        binary = self.compile(source, entries)
        return binary, lambda: binary

    def settle(self, binary: Binary) -> None:
        """Let the driver do the work of a first load now, if it keeps the result for other processes."""
        return
