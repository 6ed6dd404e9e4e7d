"""The records of an evaluation: checks and certificate, the standing in the final comparison, the trial; and the budget of a search."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Literal

from portatile import notebooks
from portatile.errors import ArgumentError
from portatile.formatting import duration, spelled
from portatile.records import Config, DeviceInfo, Layout, Problem, Resources

Status = Literal["ok", "compile", "launch", "wrong", "timeout", "crash", "skipped"]


def now(precisely: bool = False) -> str:
    """The time of a record, in UTC, to the second, or to the millisecond."""
    return datetime.now(UTC).isoformat(timespec="milliseconds" if precisely else "seconds")


FLOPS, TRAFFIC, ARRAYS = "flops", "traffic_bytes", "arrays_bytes"
"""Keys of a trial's conditions for a user's own kernel: operations and least traffic of one run, or else the bytes of its arrays. They are
stored because no installation could derive them later.
"""


def own_speed(work: Mapping[str, float], seconds: float) -> tuple[float, str] | None:
    """The speed of a user's own kernel, by the work that its search stored: Gflop/s, else GB/s; None if unknown."""
    known = next((name for name in (FLOPS, TRAFFIC, ARRAYS) if work.get(name, 0.0) > 0), None)
    return None if known is None else (work[known] / seconds / 1e9, "Gflop/s" if known == FLOPS else "GB/s")


@dataclass(frozen=True)
class Check:
    """One problem on which a configuration was checked: ``error`` in units of ``bound``, the factor of the reference's scale.

    ``layout`` holds the operands that are not packed or do not start at the beginning of their memory.
    """

    sizes: Mapping[str, int]
    error: float
    bound: float
    layout: Mapping[str, Layout] = field(default_factory=dict)


@dataclass(frozen=True)
class Certificate:
    """The problems on which a configuration was checked, and the driver, compiler and kernel text (``source``, a hash) for which that is
    valid.

    ``failure`` says what was wrong; a certificate with a failure forbids the configuration. ``time``: when, in UTC. ``passing``: the device
    could not run it, perhaps because other programs used its memory, so that this is valid only for the process. ``partial``: not all
    shapes were checked, because the configuration was too slow to win; its time informs the search, but it may not be used.
    """

    driver: str
    compiler: str
    source: str
    checks: tuple[Check, ...] = ()
    failure: str = ""
    time: str = ""
    passing: bool = False
    partial: bool = False

    def __str__(self) -> str:
        """A line for each problem with its error, and for which driver, compiler and kernel text they are valid."""
        lines = [f"{spelled(check.sizes)}: error {check.error:.2g} of the allowed" for check in self.checks]
        marks = [mark for mark, said in (("partial", self.partial), (f"failed: {self.failure}", self.failure)) if said]
        holds = ", ".join((f"driver {self.driver}", self.compiler, f"kernel text {self.source[:12]}", self.time))
        return "\n".join((*(lines or ["checked on nothing"]), *marks, holds))

    def holds(self, device: DeviceInfo, source: str) -> bool:
        """Whether it applies to this kernel text on this device with its present driver, and covers all checks."""
        return not self.partial and (self.driver, self.compiler, self.source) == (device.driver, device.compiler, source)


@dataclass(frozen=True)
class Standing:
    """The result of a finalist in the final comparison.

    ``seconds`` is its time in comparisons: never less than the winner's, and scaled to the machine's speed during the search, so that it is
    comparable with trials that were not finalists. ``interval`` contains the median with 95 % confidence, or less for few samples.
    ``place`` 1 is the winner; ``tied``: shown to be as fast as the winner. ``race``: the time of the comparison, equal for all of its
    finalists.
    """

    seconds: float
    interval: tuple[float, float]
    place: int
    tied: bool
    race: str


UNRACED = 1.1
"""The factor on the time of a trial that was not a finalist: the fastest of many single measurements was lucky."""


@dataclass(frozen=True, repr=False)
class Trial:
    """One evaluation of one configuration. ``samples`` are seconds per run; ``error`` is in units of ``bound`` = 1.

    ``standing``: the result in the final comparison, in which case ``samples`` are from there. ``cold``: timed with operands that were not
    in any cache. ``conditions``: what the device reported right after the timing, if anything: ``clock_mhz``, ``memory_clock_mhz``,
    ``temperature_c``, ``power_w``, and ``power_seconds``, the duration of the load under which the power was measured; ``other_searches``,
    if there were any that timed on the device at that time; and ``FLOPS``, ``TRAFFIC`` and ``ARRAYS`` of a user's own kernel.
    """

    problem: Problem
    config: Config
    device: DeviceInfo
    source: str
    status: Status
    samples: tuple[float, ...] = ()
    event_samples: tuple[float, ...] = ()
    seconds: Mapping[str, float] = field(default_factory=dict)
    error: float | None = None
    message: str = ""
    resources: Mapping[str, Resources] = field(default_factory=dict)
    time: str = ""
    certificate: Certificate | None = None
    standing: Standing | None = None
    conditions: Mapping[str, float] = field(default_factory=dict)
    cold: bool = False

    def __repr__(self) -> str:
        """The trial in one line; the fields hold the rest."""
        return f"<{self._what}: {self._outcome}; {spelled(self.config)}>"

    def __str__(self) -> str:
        """A few lines: problem and device, time or failure, configuration."""
        return "\n".join(filter(None, (self._what, self._outcome, spelled(self.config), self.message)))

    def _repr_html_(self) -> str:
        """The trial as a table, for notebooks."""
        error = "" if self.error is None else f"{self.error:.2g} of the allowed"
        pairs = {"problem": self._what, "result": self._outcome, "error": error, **self.config, "message": self.message, "when": self.time}
        return notebooks.facts(pairs.items())

    @property
    def _what(self) -> str:
        sizes = spelled({**self.problem.sizes, **self.problem.options})
        return f"{self.problem.workload} {sizes} {self.problem.dtype} on {self.device.id}"

    @property
    def _outcome(self) -> str:
        if self.status != "ok":
            return f"failed ({self.status})"
        return f"{duration(self.comparable)}, {len(self.samples)} sample{'s' * (len(self.samples) != 1)}"

    @property
    def median(self) -> float:
        """Seconds per run, the median of the samples; infinite for a failed trial."""
        if self.status != "ok" or not self.samples:
            return math.inf
        ordered = sorted(self.samples)
        middle = len(ordered) // 2
        return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2

    @property
    def spread(self) -> float:
        """Half the interquartile range of the samples, as a fraction of the median."""
        ordered = sorted(self.samples)
        quarter = len(ordered) // 4
        return (ordered[-1 - quarter] - ordered[quarter]) / 2 / self.median

    @property
    def comparable(self) -> float:
        """Seconds per run at the machine's speed during the search, also for a finalist; infinite for a failed trial."""
        return self.standing.seconds if self.standing is not None and self.status == "ok" else self.median

    @property
    def interval(self) -> tuple[float, float] | None:
        """The interval of a finalist's median, at the machine's speed during the search as ``comparable``; None for other trials."""
        if self.standing is None or not math.isfinite(self.median):
            return None
        low, high = (self.comparable / self.median * end for end in self.standing.interval)
        return low, high

    @property
    def rank(self) -> float:
        """Seconds by which trials are ordered: ``comparable``, times ``UNRACED`` for a trial that was not a finalist."""
        return self.comparable if self.standing is not None else UNRACED * self.comparable

    @property
    def fully_checked(self) -> bool:
        """Whether it was checked on every shape on which a winner is checked."""
        return self.status == "ok" and not (self.certificate is not None and self.certificate.partial)

    @property
    def energy(self) -> float | None:
        """Joules per run, power times time; None if the device reports no power, or the trial failed."""
        power = self.conditions.get("power_w")
        return None if power is None or self.status != "ok" else power * self.median


_UNITS = {"ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}


@dataclass(frozen=True)
class Budget:
    """When a tuning run ends: after ``seconds`` or ``evaluations``, whichever comes first; ``None`` is no limit."""

    seconds: float | None = None
    evaluations: int | None = None

    @classmethod
    def parse(cls, text: str | float) -> Budget:
        """``"30s"``, ``"5m"``, ``"200"`` or ``200`` (evaluations), or ``"60s,200"``; a float is seconds.

        Raises ArgumentError for anything else.
        """
        if isinstance(text, float):
            return cls(seconds=text)._checked(str(text))
        seconds, evaluations = None, None
        for part in str(text).split(","):
            match = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*(ms|s|min|m|h)?\s*", part)
            if not match:
                raise ArgumentError(f"budget {text!r} is not understood; write for example '30s', '5m', '200' (evaluations) or '60s,200'")
            number, unit = match.groups()
            if unit:
                seconds = float(number) * _UNITS[unit]
            elif "." in number:
                raise ArgumentError(f"budget {text!r}: {number} evaluations is not a whole number; give seconds as '{number}s'")
            else:
                evaluations = int(number)
        return cls(seconds, evaluations)._checked(str(text))

    def _checked(self, text: str) -> Budget:
        if (self.seconds is not None and not 0 < self.seconds < math.inf) or self.evaluations == 0:
            raise ArgumentError(f"budget {text!r} allows no trial; it must be positive")
        return self
