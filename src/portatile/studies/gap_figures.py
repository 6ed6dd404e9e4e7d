"""The figures and remarks of ``study gap``."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise

from portatile.figures.bars import BarChart
from portatile.figures.svg import Figure
from portatile.formatting import duration, percent
from portatile.records import Value, from_json
from portatile.studies.gap_rows import (
    AVERAGED,
    BETWEEN,
    BY_CODE,
    COMPARED,
    DOCUMENT,
    EMPTY_LAUNCH,
    GREEDY,
    LEVEL,
    LEVELLED,
    REST,
    SWAPPED,
    GapRow,
    times_of,
)

_FAMILIES = 9  # families of instructions that are drawn
_CHANGES = 4  # changes that are listed for a step
_DIFFERENCES = (
    (BY_CODE, "Who makes the difference"),
    (LEVELLED, "What is taken from both until they are equal"),
    (BETWEEN, "What explains the difference, averaged over all orders"),
)
_ANSWERS = ("THE DIFFERENCE", "explained", "no optimisation", "what remains", "there is no")
_EXPLAINED = 0.8
_FAR = 2.0  # times the difference
_WORTH = 0.005  # the least share that is mentioned


def figures(rows: Sequence[GapRow]) -> list[Figure]:
    """What explains the difference between two sides; for each side the time after each step, the shares of the optimisations, and the
    instructions."""
    made: list[Figure] = []
    for order, title in _DIFFERENCES:
        compared = [row for row in rows if row.order == order]
        if order != BETWEEN or abs(_rest(compared)) <= _FAR:  # shares of a difference that plain builds have many times over say nothing
            made += _between(compared, title)
    for order, title in ((DOCUMENT, "One optimisation after another, in the document's order"), (GREEDY, "The one that saves most first")):
        made += _ladder([row for row in rows if row.order == order], title)
    made += _shares([row for row in rows if row.order == AVERAGED])
    made += _instructions(rows)
    return made


def _ladder(rows: Sequence[GapRow], title: str) -> list[Figure]:
    """A chart for each side: orders differ, and so do times."""
    made: list[Figure] = []
    for side in dict.fromkeys(row.side for row in rows if row.seconds):
        built = [row for row in rows if row.side == side and row.seconds]
        steps = tuple(row.added if row.step == 0 else f"+ {row.added}" for row in built)
        caption = f"{built[0].workload} {built[0].problem} {built[0].dtype}: a run, from no optimisations to the build as it ships."
        values = tuple((row.seconds,) for row in built)
        made.append(BarChart(f"{title}: {side}", caption, "time of a run", "s", steps, ("time",), values))
    return made


def _shares(rows: Sequence[GapRow]) -> list[Figure]:
    known = [row for row in rows if row.explained is not None]
    if not known:
        return []
    sides = tuple(dict.fromkeys(row.side for row in known))
    names = tuple(dict.fromkeys(row.added for row in known))
    shares = {(row.side, row.added): row.explained for row in known}
    caption = "Share in the logarithm of the whole speed-up, averaged over all orders in which the optimisations can be added."
    values = tuple(tuple(shares.get((side, name)) for side in sides) for name in names)
    return [BarChart("What explains the speed", caption, "share", "%", names, sides, values)]


def _between(rows: Sequence[GapRow], title: str) -> list[Figure]:
    known = [row for row in rows if row.explained is not None]
    if len(known) < 2:  # nothing that one could compare
        return []
    caption = f"Share in the logarithm of the ratio of times, {known[0].side}; what points to the left makes the difference smaller."
    values = tuple((row.explained,) for row in known)
    return [BarChart(title, caption, "share", "%", tuple(row.added for row in known), ("share",), values)]


def _instructions(rows: Sequence[GapRow]) -> list[Figure]:
    """Instructions by family: of the builds without and with everything, of each side."""
    built = [row for row in rows if not row.order and row.families and row.set in (frozenset(), frozenset(row.names))]
    if not built:
        return []
    counts = [families(row) for row in built]
    total = {name: sum(one.get(name, 0) for one in counts) for one in counts for name in one}
    names = tuple(sorted(total, key=lambda name: -total[name])[:_FAMILIES])
    series = tuple(f"{row.side}, {'all' if row.set else 'none'}" for row in built)
    values = tuple(tuple(float(one.get(name, 0)) for one in counts) for name in names)
    caption = "Instructions of each family in the compiled texts, without and with all optimisations; those in a loop count once."
    return [BarChart("Instructions", caption, "instructions", "", names, series, values)]


def families(row: GapRow) -> Mapping[str, int]:
    """A build's instructions by family."""
    return from_json(row.families, dict[str, int]) if row.families else {}


def notes(rows: Sequence[GapRow]) -> list[str]:
    """How fast each side is, what each step in the order of the paper changed in the code, and what explains the difference."""
    lines: list[str] = []
    built = [row for row in rows if not row.order]
    for side in dict.fromkeys(row.side for row in built):
        of_side = [row for row in built if row.side == side]
        times, names = times_of(of_side), of_side[0].names
        slow, fast = times.get(frozenset()), times.get(frozenset(names))
        if slow and fast:
            lines.append(
                f"{side} ({of_side[0].name}): {duration(slow)} without, {duration(fast)} with all optimisations: {slow / fast:.3g} times"
            )
        lines += [f"{side}: {row.on}: {row.status}" for row in of_side if row.status != "ok"][:3]
        steps = [row for row in rows if row.order == DOCUMENT and row.side == side and row.families]
        for before, after in pairwise(steps):
            lines.append(f"{side}, + {after.added}: {changes(before, after)}")
    return lines + _compared(rows)


def answer(rows: Sequence[GapRow]) -> str:
    """The difference and what explains it; for a single side, the optimisations that explain its speed."""
    answers = [line for line in _compared(rows) if line.startswith(_ANSWERS)]
    if answers:
        return "; ".join(line.removeprefix("THE DIFFERENCE: ") for line in answers)
    parts = []
    for side in dict.fromkeys(row.side for row in rows if row.order == AVERAGED):
        shares = [row for row in rows if row.order == AVERAGED and row.side == side and row.explained is not None]
        most = sorted(shares, key=lambda row: -abs(row.explained or 0.0))[:3]
        parts.append(f"{side}: {', '.join(f'{row.added} {percent(row.explained)}' for row in most)} of the speed-up")
    return ". ".join(parts)


def changes(before: GapRow, after: GapRow) -> str:
    """The changes in the code from one build to another."""
    one, other = families(before), families(after)
    by = {name: other.get(name, 0) - one.get(name, 0) for name in {**one, **other}}
    parts = [f"{count:+d} {name}" for name, count in sorted(by.items(), key=lambda item: -abs(item[1]))[:_CHANGES] if count]
    for name, meaning in (
        ("fused", "multiply-adds"),
        ("wide", "wide loads"),
        ("read_only", "read-only loads"),
        ("private", "private accesses"),
    ):
        difference = (getattr(after, name) or 0) - (getattr(before, name) or 0)
        parts += [f"{difference:+d} {meaning}"] if difference else []
    if None not in (before.registers, after.registers) and before.registers != after.registers:
        parts.append(f"registers {before.registers} -> {after.registers}")
    if (before.spills or 0) > 0 or (after.spills or 0) > 0:
        parts.append(f"spilled bytes {before.spills} -> {after.spills}")
    return ", ".join(parts) or "the same instructions"


def _compared(rows: Sequence[GapRow]) -> list[str]:
    """The difference between two sides: how large, whose and what it is, how much of it is explained, and what launches cost."""
    parts = [row for row in rows if row.order in COMPARED]
    if not parts:
        return []
    complete = [row for row in rows if not row.order and row.set == frozenset(row.names) and row.seconds]
    one, other = complete[0], complete[-1]
    fast, slow = sorted((one, other), key=lambda row: row.seconds or 0.0)
    ratio = (slow.seconds or 1.0) / (fast.seconds or 1.0)
    took = [f"{row.side} {duration(row.seconds or 0)}" for row in (slow, fast)]
    lines = [f"THE DIFFERENCE: {' against '.join(took)}, {ratio:#.3g} times as long"]
    last = _launches([row for row in rows if row.on == EMPTY_LAUNCH and row.seconds], complete)
    if one.families and other.families:
        last.append(f"finished code, {one.side} to {other.side}: {changes(one, other)}")
    known = [row for row in parts if row.explained is not None]
    if not known:
        return [*lines, *last, "there is no difference worth explaining"]
    scatter = max((row.scatter or 0.0 for row in (one, other)), default=0.0)
    if scatter > ratio - 1:
        lines.append(f"the runs scatter by {percent(scatter)}, more than the difference: it is not certain, and neither is what follows")
    by_code = [row for row in known if row.order == BY_CODE]
    if by_code:
        lines.append(f"who makes it, by running the other's code: {_shared(by_code)}")
        lines += _registers(rows, complete)
    lines += _verdict([row for row in known if row.order == LEVELLED], _named(one, other, by_code))
    return [*lines, *_averaged([row for row in known if row.order == BETWEEN], one, other), *last]


def _registers(rows: Sequence[GapRow], complete: Sequence[GapRow]) -> list[str]:
    """The registers that two drivers' assemblers allocate for the same code, where both are known and differ."""
    swapped = next((row for row in rows if row.on == SWAPPED), None)
    giver = next((row for row in complete if swapped is not None and row.side != swapped.side), None)
    if swapped is None or giver is None or None in (swapped.registers, giver.registers) or swapped.registers == giver.registers:
        return []
    return [f"the same code takes {swapped.registers} registers through {swapped.side}, {giver.registers} through {giver.side}"]


def _averaged(between: Sequence[GapRow], one: GapRow, other: GapRow) -> list[str]:
    """The shares over all orders and each optimisation's factor; only factors where the sides begin far apart for a small difference."""
    if not between:
        return []
    rest = _rest(between)
    factors = ", ".join(f"{row.added} {math.exp(-math.log1p(-(row.saved or 0.0))):.3g}" for row in between)
    lines = [f"as factors, {one.side} over {other.side}: {factors}"]
    if abs(rest) > _FAR:
        return [*lines, "builds without any optimisation differ by far more than finished ones: their shares of the difference say nothing"]
    share = f"{percent(1 - rest)} of the difference, {percent(rest)} is there without any"
    return [f"averaged over all orders the optimisations explain {share}", *lines]


def _rest(between: Sequence[GapRow]) -> float:
    """The share that is there in builds without any optimisation."""
    return next((row.explained or 0.0 for row in between if row.added == REST), 0.0)


def _launches(empty: Sequence[GapRow], complete: Sequence[GapRow]) -> list[str]:
    """What as many empty launches cost on each side compared with its finished build, and how much of the difference they can explain."""
    lines, all_of = [], {}
    for row in empty:
        took, build = row.seconds or 0.0, next((mine for mine in complete if mine.side == row.side), None)
        count = "a launch" if row.launches == 1 else f"{row.launches} launches"
        text = f"{count} of nothing: {duration(took)} on {row.side}"
        if build is None or not build.seconds:
            lines.append(text)
            continue
        lines.append(f"{text}, {percent(took / build.seconds)} of its time at most")
        all_of[row.side] = took, build.seconds
    if len(all_of) == 2:
        (launches, whole), (others, other_whole) = all_of.values()
        if whole != other_whole and (share := (launches - others) / (whole - other_whole)) > 0:
            lines.append(f"launches can make {percent(min(share, 1.0))} of the difference at most")
    return lines


def _shared(rows: Sequence[GapRow]) -> str:
    return ", ".join(f"{row.added} {percent(row.explained)}" for row in rows)


def _named(one: GapRow, other: GapRow, by_code: Sequence[GapRow]) -> str:
    """The other differences between the two sides, to which the unexplained part must be due."""
    if one.config != other.config:
        config, other_config = (from_json(row.config, dict[str, Value]) for row in (one, other))
        differ = [name for name in dict.fromkeys((*config, *other_config)) if config.get(name) != other_config.get(name)]
        text = ", ".join(f"{name}={config.get(name)} and {other_config.get(name)}" for name in differ)
        return f"what the configurations differ in: {text}"
    if by_code:
        most = max(by_code, key=lambda row: abs(row.explained or 0.0))
        return f"mostly {most.added}, {percent(most.explained)} of the difference"
    if one.device != other.device:
        return "what compilers and drivers make of the same plain code"
    return "nothing that is known here: both are one configuration on one device"


def _verdict(parts: Sequence[GapRow], rest: str) -> list[str]:
    """How much of the difference disappears if both sides omit some optimisations, and what remains."""
    if not parts:
        return []
    left = next((row.explained or 0.0 for row in parts if row.added == LEVEL), 0.0)
    taken = [row for row in parts if row.added != LEVEL]
    if not taken:
        return [
            f"no optimisation explains it: whatever is taken from both, the difference is as large. It is in the plain code already: {rest}"
        ]
    named = taken[0].added if len(taken) == 1 else _shared([row for row in taken if abs(row.explained or 0.0) >= _WORTH] or taken)
    text = f"{percent(1 - abs(left))} of the difference is gone when both do without {named}"
    if abs(left) <= 1 - _EXPLAINED:
        return [f"explained: {text}; {percent(left)} remains"]
    return [f"explained in part: {text}", f"what remains, {percent(left)}, is {rest}"]
