"""The variants that wait for the device, and the texts that must be compiled before."""

from __future__ import annotations

from collections import deque

from portatile.records import Source
from portatile.tuning.search.worker_process import Variant


class Backlog:
    """Submitted work that no worker has begun: ``texts`` for the compile workers, ``variants`` for the timing worker."""

    def __init__(self) -> None:
        self.texts: deque[Source] = deque()
        self.variants: deque[Variant] = deque()
        self._uncompiled: dict[int, tuple[Variant, set[str]]] = {}  # variants by number, with the digests of their missing texts
        self._requested: set[str] = set()  # digests of texts that wait for a compiler, or are being compiled
        self._compiled: set[str] = set()
        self._first: int | None = None  # the variant that is timed before all others
        self._seconds: dict[int, float] = {}  # seconds of compiling, by variant number

    @property
    def uncompiled(self) -> int:
        """The number of variants that lack a text."""
        return len(self._uncompiled)

    @property
    def first_is_uncompiled(self) -> bool:
        """Whether the variant that is timed before all others lacks a text."""
        return self._first in self._uncompiled

    def add(self, variant: Variant, compilers: bool) -> None:
        """Add a variant. With ``compilers`` its texts are compiled first, those that variants share once."""
        if self._first is None:
            self._first = variant.number
        missing = {source.digest: source for source in variant.sources if source.digest not in self._compiled}
        if not compilers or not missing:
            self._queue(variant)
            return
        self._uncompiled[variant.number] = variant, set(missing)
        fresh = [source for name, source in missing.items() if name not in self._requested]
        (self.texts.extend if variant.timed else self.texts.extendleft)(fresh)
        self._requested |= missing.keys()

    def compiled(self, source: Source, seconds: float, failed: bool) -> list[int]:
        """Note that a text was compiled, or ``failed``. Returns the numbers of the variants that fail with it."""
        self._requested.discard(source.digest)
        if not failed:
            self._compiled.add(source.digest)
        failures = []
        for number, (variant, missing) in list(self._uncompiled.items()):
            if source.digest not in missing:
                continue
            missing.discard(source.digest)
            self._seconds[number] = self._seconds.get(number, 0.0) + seconds
            if failed:
                failures.append(number)
            elif not missing:
                self._queue(variant)
            if failed or not missing:
                del self._uncompiled[number]
        return failures

    def compile_seconds(self, number: int) -> float:
        """The seconds in which compilers worked for a variant; asked once, when it is done."""
        return self._seconds.pop(number, 0.0)

    def clear(self) -> None:
        """Forget everything that waits."""
        self.texts.clear()
        self.variants.clear()
        self._uncompiled.clear()

    def _queue(self, variant: Variant) -> None:
        """Queue a variant for the device: the very first, and what is only checked, go to the front."""
        (self.variants.appendleft if variant.number == self._first or not variant.timed else self.variants.append)(variant)
