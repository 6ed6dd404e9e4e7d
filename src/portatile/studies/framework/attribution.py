"""How much each of several switches contributes to a ratio of times: in a given order, greedily, and averaged over all orders.

``times`` are seconds by the set of switches that are on. Shares are of the logarithm of a ratio, because savings multiply: a switch that
halves the time contributes ``log(2)`` at any place in the order.
The average over all orders is Shapley's value; the shares add up exactly.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

Times = Mapping[frozenset[str], float]


@dataclass(frozen=True)
class Step:
    """A switch that was ``added`` ("" in the first step), and the set of switches that are ``on`` then."""

    added: str
    on: frozenset[str]


def subsets(names: Sequence[str]) -> list[frozenset[str]]:
    """Every set of switches: none first, then along the order of ``names``, then all others."""
    along = [frozenset(names[:count]) for count in range(len(names) + 1)]
    others = [frozenset(chosen) for count in range(len(names) + 1) for chosen in combinations(names, count)]
    return list(dict.fromkeys([along[0], along[-1], *along, *others]))


def few(names: Sequence[str]) -> list[frozenset[str]]:
    """The sets along the order of ``names``, and those with at most two switches off; the most informative come first."""
    along = {frozenset(names[:count]) for count in range(len(names) + 1)}
    chosen = [subset for subset in subsets(names) if subset in along or len(subset) >= len(names) - 2]
    lacking_one = [subset for subset in chosen if len(subset) == len(names) - 1]
    return list(dict.fromkeys([*chosen[:2], *lacking_one, *chosen]))


def in_order(names: Sequence[str]) -> list[Step]:
    """The shares of the switches one after another."""
    return [Step("", frozenset()), *(Step(name, frozenset(names[: place + 1])) for place, name in enumerate(names))]


def greedily(times: Times, names: Sequence[str]) -> list[Step]:
    """The switch that saves most first, as far as the times that this needs were measured."""
    steps = [Step("", frozenset())]
    while len(steps) <= len(names):
        on = steps[-1].on
        nexts = [Step(name, on | {name}) for name in names if name not in on and on | {name} in times]
        if not nexts:
            break
        steps.append(min(nexts, key=lambda step: times[step.on]))
    return steps


def equalising(ratios: Mapping[frozenset[str], float]) -> list[tuple[str, float]]:
    """The switches to turn off on both sides so that their times become as equal as possible, each with its effect.

    ``ratios``: the logarithm of the ratio of their times, by the switches that both have off. What brings them nearest goes first. The
    parts add up to the ratio with nothing off; the last, called "", is what remains. Empty if that ratio is not known.
    """
    off, parts, names = frozenset[str](), list[tuple[str, float]](), frozenset[str]().union(*ratios)
    if off not in ratios:
        return []
    while True:
        nexts = [name for name in sorted(names - off) if off | {name} in ratios]
        name = min(nexts, key=lambda name: abs(ratios[off | {name}]), default="")
        if not name or abs(ratios[off | {name}]) >= abs(ratios[off]):
            return [*parts, ("", ratios[off])]
        parts.append((name, ratios[off] - ratios[off | {name}]))
        off |= {name}


def averaged(times: Times, names: Sequence[str]) -> dict[str, float]:
    """Shapley's shares of log(time without all / time with all); empty if no order was measured from end to end.

    Where some sets have no time, the average is over the orders that avoid them.
    """
    orders: dict[frozenset[str], int] = {}  # ways from nothing to a set
    onward: dict[frozenset[str], int] = {}  # ways from a set to all
    everything = frozenset(names)
    by_size = sorted(subsets(names), key=len)
    for subset in by_size:
        before = [orders.get(subset - {name}, 0) for name in subset]
        orders[subset] = 0 if subset not in times else sum(before) if subset else 1
    for subset in reversed(by_size):
        after = [onward.get(subset | {name}, 0) for name in everything - subset]
        onward[subset] = 0 if subset not in times else sum(after) if subset != everything else 1
    ways = orders[everything]
    if not ways:
        return {}
    shares = dict.fromkeys(names, 0.0)
    for subset, name in _edges(by_size, everything):
        through = orders[subset] * onward[subset | {name}]
        if through:
            shares[name] += through * math.log(times[subset] / times[subset | {name}]) / ways
    return shares


def _edges(sets: Sequence[frozenset[str]], everything: frozenset[str]) -> Iterator[tuple[frozenset[str], str]]:
    for subset in sets:
        for name in everything - subset:
            yield subset, name
