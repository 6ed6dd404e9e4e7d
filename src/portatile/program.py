"""Kernel text + target -> Binary, through the cache."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import msgspec

from portatile import dialect
from portatile.cache import Cache
from portatile.device import excerpts
from portatile.device.advice import advice
from portatile.device.target import Target
from portatile.errors import CompileError
from portatile.records import Binary, Source, canonical, digest

PutOff = Callable[[Binary, Callable[[], None]], None]
"""Receives a Binary that only this process can load, and a function that makes the one for the cache."""

_lowering = threading.RLock()
"""Lowering is Python code, so threads gain nothing by running it at once: one text at a time, so that the first can be compiled sooner."""

_decode = msgspec.msgpack.Decoder(Binary).decode
_encode = msgspec.msgpack.Encoder().encode


def key(source: Source, target: Target) -> str:
    """Content hash of everything that determines the binary."""
    return digest(source.digest, dialect.VERSION, target.backend, target.architecture, target.compiler)


def build(source: Source, target: Target, cache: Cache | None, put_off: PutOff | None = None) -> Binary:
    """Compile ``source`` (OpenCL C) for ``target``, or take it from ``cache``.

    ``Binary.seconds`` has the phases ``cache``, ``lower`` and ``compile``. With ``put_off``, and if the target defers, only this process
    can load the result, and ``put_off`` receives it with a function that will fill the cache. Raises CompileError with the log.
    """
    started = time.perf_counter()
    name = key(source, target)
    if cache is not None and (raw := cache.get(name)) is not None:
        try:
            cached = _decode(raw)
        except msgspec.DecodeError:
            cached = None  # written by another version of the record
        if cached is not None and cached.entries:
            return replace(cached, seconds={"cache": time.perf_counter() - started})
    looked = time.perf_counter()
    deferred = put_off is not None and cache is not None and target.defers
    try:
        with _lowering:
            lowered, entries = target.lower(source)
        ready = time.perf_counter()
        binary, finish = target.defer(lowered, entries) if deferred else (target.compile(lowered, entries), None)
    except CompileError as error:
        raise _explained(error, source) from None
    if not binary.entries:  # some compilers fail without any other sign
        raise _explained(CompileError(f"{source.file} has no kernel: no function is declared __kernel", _messages(binary.log)), source)
    done = time.perf_counter()
    if cache is not None and put_off is not None and finish is not None:
        put_off(binary, partial(_put, cache, name, finish))
    elif cache is not None:
        cache.put(name, _encode(binary))
    return replace(binary, seconds={"cache": looked - started, "lower": ready - looked, "compile": done - ready})


def _messages(log: str) -> str:
    """A build log without the assembler's statistics."""
    return "\n".join(line for line in log.splitlines() if not line.startswith("ptxas"))


def _explained(error: CompileError, source: Source) -> CompileError:
    """The error with the user's lines, and with advice in its first lines if there is any."""
    advised = advice(source, f"{error.message}\n{error.log}")
    message = f"{error.message}\n{advised}" if advised else error.message
    return CompileError(message, excerpts.restored(error.log, source.text, source.file))


def _put(cache: Cache, name: str, finish: Callable[[], Binary]) -> None:
    cache.put(name, _encode(finish()))


def source_hash(sources: tuple[Source, ...]) -> str:
    """Content hash of a plan's kernel texts: with problem and configuration it decides whether a result is still valid."""
    return digest(dialect.VERSION, *sorted({canonical(source) for source in sources}))
