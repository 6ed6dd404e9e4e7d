"""Deferred compilation for the cache: where other processes need another binary, it is compiled when this process is idle or ends.

PoCL needs tens of seconds for the binary of a long kernel, because it compiles it for any work-group size. If PoCL's own cache is on, it
keeps the kernels that were launched, later processes start as fast without binaries, and none is compiled.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from portatile import delays, program, settings
from portatile.cache import Cache
from portatile.device import exit_gate  # noqa: F401 - imported before flush is registered, so that its own handler runs after flush
from portatile.device.base import Device
from portatile.errors import PortatileError
from portatile.records import Binary, Source

_MOST = 8  # binaries that wait at once, so that the end of a process is not delayed for long
_REST = 2.0  # seconds without a call before a binary is compiled: a call during the compilation would have to wait for the driver


_Name = tuple[str, int, Path, str]  # device, its generation, the cache's folder, key in the cache


@dataclass(frozen=True)
class _DraftBinary:
    """A Binary that only this process can load, and a function that compiles and caches the one for other processes."""

    binary: Binary
    keep: Callable[[], None]


class Deferred:
    """The queue of deferred compilations. Safe to use from several threads. ``calls`` counts calls, to tell when the process is idle.

    ``needless`` tells that other processes need no binaries. Then none is compiled, and programs are kept for this process only.
    """

    def __init__(self, rest: float = _REST, needless: Callable[[], bool] = lambda: False) -> None:
        self.calls = 0
        self._rest, self._needless = rest, needless
        self._drafts: dict[_Name, _DraftBinary] = {}
        self._abandoned: list[object] = []
        self._open()

    def _open(self) -> None:
        self._lock = threading.Lock()
        self._one = threading.Lock()  # held while one binary is compiled
        self._watching = False

    def build(self, source: Source, device: Device, cache: Cache) -> Binary:
        """As ``program.build`` for a device, but without waiting for the compilation that only other processes need."""
        self.calls += 1
        with delays.noticed(f"compiling {source.file} for {device.info.name}; this is done once"):
            return self._build(source, device, cache)

    def _build(self, source: Source, device: Device, cache: Cache) -> Binary:
        target = device.target
        if not target.defers:
            return program.build(source, target, cache)
        name = device.info.id, device.generation, cache.root, program.key(source, target)
        known = self._drafts.get(name)
        if known is not None:
            return known.binary
        return program.build(source, target, cache, lambda binary, keep: self._add(name, _DraftBinary(binary, keep)))

    def flush(self) -> None:
        """Compile all waiting binaries now."""
        if self._needless():
            self._drafts.clear()
        try:
            while self._make_one():
                pass
        except KeyboardInterrupt:  # the process is ending: the next one compiles again
            self._drafts.clear()

    def abandon(self) -> None:
        """Forget everything in a forked child, but keep the objects: releasing them would call a driver that does not work there."""
        self._abandoned.append(self._drafts)
        self._drafts = {}
        self._open()

    def _add(self, name: _Name, draft: _DraftBinary) -> None:
        with self._lock:
            self._drafts[name] = draft
            crowded = len(self._drafts) > _MOST
            if self._needless():
                if crowded:
                    del self._drafts[next(iter(self._drafts))]
                return
            start, self._watching = not self._watching, True
        if start:
            threading.Thread(target=self._watch, name="portatile-deferred", daemon=True).start()
        if crowded:
            self._make_one()

    def _make_one(self) -> bool:
        """Compile the binary that has waited longest; returns whether there was one."""
        with self._one:
            with self._lock:
                first = next(iter(self._drafts.items()), None)
            if first is None:
                return False
            name, draft = first
            try:
                draft.keep()
            except PortatileError:
                pass  # the device is gone or refuses: a later process compiles
            finally:
                self._drafts.pop(name, None)
            return True

    def _watch(self) -> None:
        while True:
            calls_before = self.calls
            time.sleep(self._rest)
            while calls_before == self.calls and self._make_one():
                pass
            with self._lock:
                if not self._drafts:
                    self._watching = False
                    return


waiting = Deferred(needless=settings.pocl_keeps_kernels)
"""The deferred compilations of this process."""

atexit.register(waiting.flush)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=waiting.abandon)
