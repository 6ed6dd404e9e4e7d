"""The rows of ``study gap``: builds as they were measured, then the steps, shares and differences that their times give."""

from __future__ import annotations

import math
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

from portatile.studies.framework import attribution
from portatile.studies.framework.attribution import Step

NOTHING = "nothing"
RELAXED_TOO = "all, relaxed"
EMPTY_LAUNCH = "launches of nothing"
SWAPPED = "the other's code"
OTHERS_PLAN = "the other's launches"
DRIVERS_OWN = "its own code by the driver's assembler"
TAKEN_OVER = (OTHERS_PLAN, DRIVERS_OWN, SWAPPED)
"""The builds in which one side takes over the other's launches, and in the last one its code too."""
PESSIMISED = "(none)"
REST = "builds without any"
THEIR_CODE, THEIR_DRIVERS = "code of the compilers", "assembler, driver, launches"
PLANS, ASSEMBLERS, ONLY_DRIVERS = "configurations of what is called", "the compiler's own assembler", "drivers: their assemblers, launches"
LEVEL = "what then remains"
DOCUMENT, GREEDY, AVERAGED, BETWEEN, BY_CODE = "document", "greedy", "all orders", "difference", "code or driver"
LEVELLED = "until equal"
COMPARED = (BETWEEN, BY_CODE, LEVELLED)
"""The orders whose rows are parts of a ratio of two times, which save nothing."""
_EQUAL = 0.02  # a ratio of times this close to 1 needs no explanation


@dataclass(frozen=True)
class GapRow:
    """One build, or one step or share that follows from builds: the optimisations ``on`` of those ``offered``, its time, and static
    counts of its code (-1: not known).

    ``code`` is a hash of its instructions: builds with equal code get the time of the fastest of them. ``order`` is empty for a measured
    build. In the orders ``document`` and ``greedy`` a row is a step that has ``added`` one optimisation; ``saved`` is a share of the time
    before, ``explained`` a share of the logarithm of the whole ratio. ``all orders``: an optimisation's share averaged over all orders.
    ``difference``: its share in the ratio of the two sides' times, negative if it reduces the ratio. ``until equal``: the optimisations
    removed from both sides, always the one that brings the times nearest to each other. ``code or driver``: the changes of the ratio when
    one side first takes the other's launches (if calls chose other configurations there), then has its driver assemble the output of its
    own compiler, then runs the other's code; the rest is due to the drivers. ``seconds`` is the fastest sample, and ``scatter`` how far
    the median is above it.
    """

    side: str
    device: str
    name: str
    driver: str
    workload: str
    problem: str
    dtype: str
    config: str
    offered: str
    on: str
    launches: int
    order: str = ""
    step: int | None = None
    added: str = ""
    seconds: float | None = None
    saved: float | None = None
    explained: float | None = None
    error: float | None = None
    samples: int = 0
    instructions: int | None = None
    fused: int | None = None
    loads: int | None = None
    wide: int | None = None
    read_only: int | None = None
    private: int | None = None
    registers: int | None = None
    spills: int | None = None
    families: str = ""
    kinds: str = ""
    code: str = ""
    status: str = "ok"
    time: str = ""
    scatter: float | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The optimisations that its side offers."""
        return tuple(filter(None, self.offered.split(",")))

    @property
    def set(self) -> frozenset[str] | None:
        """The optimisations that are on; None if the row is no set of them."""
        if self.on in (RELAXED_TOO, EMPTY_LAUNCH, *TAKEN_OVER):
            return None
        return frozenset() if self.on == NOTHING else frozenset(self.on.split(" + "))


def spelled_set(on: AbstractSet[str], names: Sequence[str]) -> str:
    """A set of optimisations as a row names it."""
    return " + ".join(name for name in names if name in on) or NOTHING


def finish(rows: Sequence[GapRow]) -> list[GapRow]:
    """The builds, then for each side its steps and shares, then what explains the difference where there are two."""
    built = _alike([row for row in rows if not row.order])
    labels = list(dict.fromkeys(row.side for row in built))
    made: list[GapRow] = []
    for label in labels:
        made += _of_side([row for row in built if row.side == label])
    if len(labels) == 2 and any(row.on == EMPTY_LAUNCH for row in built):
        made += _difference(*[[row for row in built if row.side == label] for label in labels])
    return [*made, *built]


def _alike(rows: Sequence[GapRow]) -> list[GapRow]:
    """The rows, with one time for equal code: what differs between them is only how times scatter."""
    least: dict[tuple[str, str], float] = {}
    for row in rows:
        if row.seconds and row.code:
            least[row.side, row.code] = min(row.seconds, least.get((row.side, row.code), row.seconds))
    return [replace(row, seconds=least.get((row.side, row.code), row.seconds)) if row.seconds else row for row in rows]


def times_of(rows: Sequence[GapRow]) -> dict[frozenset[str], float]:
    """Seconds by what is on, of the builds of one side."""
    return {row.set: row.seconds for row in rows if row.set is not None and row.seconds}


def _of_side(rows: Sequence[GapRow]) -> list[GapRow]:
    times, builds, names = times_of(rows), {row.set: row for row in rows}, rows[0].names
    slowest, fastest = times.get(frozenset()), times.get(frozenset(names))
    log_ratio = math.log(slowest / fastest) if slowest and fastest else 0.0
    made: list[GapRow] = []
    for order, steps in ((DOCUMENT, attribution.in_order(names)), (GREEDY, attribution.greedily(times, names))):
        made += _steps(order, [(step, builds[step.on]) for step in steps if step.on in builds], log_ratio)
    relaxed = next((row for row in rows if row.on == RELAXED_TOO), None)
    if relaxed is not None:
        saved = 1 - relaxed.seconds / fastest if relaxed.seconds and fastest else None
        made.append(replace(relaxed, order=DOCUMENT, step=len(names) + 1, added=RELAXED_TOO, saved=saved))
    shares = attribution.averaged(times, names)
    for name, share in sorted(shares.items(), key=lambda item: -item[1]):
        made.append(_row_without_build(rows[0], AVERAGED, name, 1 - math.exp(-share), share / log_ratio if log_ratio > _EQUAL else None))
    return made


def _steps(order: str, steps: Sequence[tuple[Step, GapRow]], log_ratio: float) -> list[GapRow]:
    made: list[GapRow] = []
    before: float | None = None
    for place, (step, row) in enumerate(steps):
        saved = explained = None
        if before and row.seconds:
            saved = 1 - row.seconds / before
            explained = math.log(before / row.seconds) / log_ratio if log_ratio > _EQUAL else None
        made.append(replace(row, order=order, step=place, added=step.added or PESSIMISED, saved=saved, explained=explained))
        before = row.seconds
    return made


def _row_without_build(row: GapRow, order: str, added: str, saved: float | None, explained: float | None) -> GapRow:
    """A row that is about no single build."""
    columns = row.side, row.device, row.name, row.driver, row.workload, row.problem, row.dtype, row.config, row.offered
    return GapRow(*columns, on="", launches=row.launches, order=order, added=added, saved=saved, explained=explained, time=row.time)


def _difference(one: Sequence[GapRow], other: Sequence[GapRow]) -> list[GapRow]:
    """Each optimisation's share in log(time of the first / time of the second), and the builds without any, which are the rest."""
    first, second = times_of(one), times_of(other)
    ends = [times.get(frozenset(rows[0].names)) for times, rows in ((first, one), (second, other))]
    bare = [times.get(frozenset()) for times in (first, second)]
    if not all(ends):
        return []
    ratio = math.log((ends[0] or 1.0) / (ends[1] or 1.0))
    shares = attribution.averaged(first, one[0].names), attribution.averaged(second, other[0].names)
    parts = {}
    if all(shares):  # otherwise too little was measured for the shares to add up
        parts = {name: shares[1].get(name, 0.0) - shares[0].get(name, 0.0) for name in dict.fromkeys((*one[0].names, *other[0].names))}
        parts[REST] = math.log((bare[0] or 1.0) / (bare[1] or 1.0))
    compared = replace(one[0], side=f"{one[0].side} over {other[0].side}")
    made = [(BETWEEN, name, part) for name, part in sorted(parts.items(), key=lambda item: -abs(item[1]))]
    made += [(LEVELLED, name or LEVEL, part) for name, part in attribution.equalising(_ratios(first, second, one[0].names, other[0].names))]
    made += [(BY_CODE, name, part) for name, part in _by_code(one, other, ratio)]
    return [
        _row_without_build(compared, order, name, 1 - math.exp(-part), part / ratio if abs(ratio) > _EQUAL else None)
        for order, name, part in made
    ]


def _ratios(first: attribution.Times, second: attribution.Times, own: Sequence[str], others: Sequence[str]) -> dict[frozenset[str], float]:
    """The logarithm of the ratio of two sides' times, by what is off on both."""
    offs = attribution.subsets([name for name in own if name in others])
    both = {off: (first.get(frozenset(own) - off), second.get(frozenset(others) - off)) for off in offs}
    return {off: math.log(one / other) for off, (one, other) in both.items() if one and other}


def _by_code(one: Sequence[GapRow], other: Sequence[GapRow], ratio: float) -> list[tuple[str, float]]:
    """The parts of the ratio that plans, assemblers, compilers and drivers make; they add up to it. Empty if nobody ran the other's code.

    One side takes over the other's one after another; each part is what the step before it changed.
    """
    for rows, sign in ((one, 1.0), (other, -1.0)):
        times = {row.on: row.seconds for row in rows if row.seconds}
        own, swapped = times.get(spelled_set(frozenset(rows[0].names), rows[0].names)), times.get(SWAPPED)
        if not own or not swapped:
            continue
        steps = [(PLANS, times.get(OTHERS_PLAN)), (ASSEMBLERS, times.get(DRIVERS_OWN)), (THEIR_CODE, swapped)]
        parts, before = [], own
        for name, seconds in steps:
            if seconds:
                parts.append((name, sign * math.log(before / seconds)))
                before = seconds
        rest = ONLY_DRIVERS if times.get(DRIVERS_OWN) else THEIR_DRIVERS
        return [*parts, (rest, ratio - sum(part for _, part in parts))]
    return []
