"""The statistics of the final comparison: intervals of medians, differences from the fastest, and the order of ties."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from portatile.records import canonical
from portatile.trials import Trial

FIELD = 5
"""The number of finalists, without the default."""
NEAR = 1.5
"""A finalist's best sample is at most this many times that of the fastest: one lucky time must not exclude the others."""
NEAR_DEFAULT = 3.0
"""The factor for the default, which is larger: it is timed first, while the machine may still be busy, and others are compared with it."""
LOOKS = (8, 16, 32, 64)
"""The intervals are examined after these rounds. There are few, because each examination may find a difference by chance."""
LEAST_ROUNDS = 3
"""With fewer rounds nothing is decided."""
_SHOWN, _DECIDED = 0.95, 0.99  # confidence of the interval that is shown, and of the one that decides whether two finalists differ
_SAME = 0.01  # a relative difference that does not matter
_NOISE = 0.05  # the largest scatter that counts as noise: if the winner scatters by more, none is shown to be equal


@dataclass(frozen=True)
class RankedFinalist:
    """A finalist's result: its number, its place from 1, and whether it was shown to be ``equal`` to the fastest.

    ``seconds``: its time in comparisons; ``interval``: where the median lies, with the ``confidence`` of its number of samples.
    """

    number: int
    place: int
    equal: bool
    seconds: float
    interval: tuple[float, float]


def interval(samples: Sequence[float], confidence: float = _SHOWN) -> tuple[float, float]:
    """Two of the samples that enclose the distribution's median with this confidence; if there are too few samples, the outermost two.

    By order statistics, whatever the distribution: a sample lies below the median with probability 1/2. So the number of samples below it
    is binomial, and the k-th smallest of n lies above it with the probability that fewer than k do.
    """
    ordered, n = sorted(samples), len(samples)
    tail, k = 0.0, 0
    while k < n // 2:
        tail += math.comb(n, k) / 2.0**n
        if 2 * tail > 1 - confidence:
            break
        k += 1
    outer = max(k - 1, 0)
    return ordered[outer], ordered[n - 1 - outer]


def confidence(count: int) -> float:
    """The confidence of the interval of ``count`` samples: 95 %, or less for fewer than six, such as 75 % for three."""
    return min(_SHOWN, 1.0 - 2.0 ** (1 - count))


def slower(samples: Sequence[float], other: Sequence[float]) -> bool:
    """Whether ``samples`` is certainly slower, by the ratio in each round, so that a disturbance of a whole round does not matter."""
    ratios = _ratios(samples, other)
    return len(ratios) >= LOOKS[0] and interval(ratios, _DECIDED)[0] > 1


def alike(samples: Sequence[float], other: Sequence[float]) -> bool:
    """Whether the two certainly differ by less than 1 %."""
    ratios = _ratios(samples, other)
    low, high = interval(ratios, _DECIDED)
    return len(ratios) >= LOOKS[0] and low >= 1 - _SAME and high <= 1 + _SAME


def equal(samples: Sequence[float], winner: Sequence[float]) -> bool:
    """Whether ``samples`` was shown to be as fast as ``winner``: the interval of their ratio is within 1 % or ``winner``'s scatter.

    The scatter is half the interquartile range, at most 5 %. Too few rounds show nothing.
    """
    ratios = _ratios(samples, winner)
    if confidence(len(ratios)) < _SHOWN or len(samples) < len(winner) or slower(samples, winner):
        return False
    ordered, quarter = sorted(winner), len(winner) // 4
    scatter = (ordered[-1 - quarter] - ordered[quarter]) / 2 / max(median(winner), 1e-12)
    same = min(max(scatter, _SAME), _NOISE)
    low, high = interval(ratios)
    return low >= 1 - same and high <= 1 + same


def shown_slower(samples: Sequence[float], winner: Sequence[float]) -> bool:
    """Whether ``samples`` was shown to be slower than ``winner``: at the end, or earlier, after which it did not run again."""
    return len(samples) < len(winner) or slower(samples, winner)


def leader(samples: Sequence[Sequence[float]]) -> int:
    """The finalist with the smallest median among those that ran in the most rounds."""
    rounds = max(map(len, samples))
    return min((n for n in range(len(samples)) if len(samples[n]) == rounds), key=lambda n: (median(samples[n]), n))


def rank(samples: Sequence[Sequence[float]], costs: Sequence[Any]) -> list[RankedFinalist]:
    """The finalists in the order of their places.

    The winner has the least ``cost`` among the fastest finalist and those that do not differ from it and are at most 1 % slower in the
    median. No finalist counts as faster than the winner. After the winner come those that do not differ from the fastest, then the
    others, each in the order of the medians.
    """
    first = leader(samples)
    tied = [n == first or not shown_slower(samples[n], samples[first]) for n in range(len(samples))]
    medians = [median(of_entry) for of_entry in samples]
    same = [n for n in range(len(samples)) if tied[n] and (n == first or median(_ratios(samples[n], samples[first])) <= 1 + _SAME)]
    winner = min(same, key=lambda n: (costs[n], n))
    order = sorted(range(len(samples)), key=lambda n: (n != winner, not tied[n], medians[n], n))
    best, ranked = medians[first], []
    for place, number in enumerate(order, 1):
        seconds = best if number == winner else max(medians[number], best * (1 + 1e-6 * place))
        same_speed = number == winner or equal(samples[number], samples[winner])
        ranked.append(RankedFinalist(number, place, same_speed, seconds, interval(samples[number])))
    return ranked


def cost(trial: Trial, workspace: int) -> tuple[int, int, str]:
    """The key that breaks ties: the fewest registers, then the least workspace, then the configuration's canonical text."""
    return max((used.registers for used in trial.resources.values()), default=-1), workspace, canonical(trial.config)


def contenders(trials: Sequence[Trial], default: Trial) -> list[Trial]:
    """The finalists, the fastest first: the few that may be fastest, the default if it is near, and the winner of an earlier comparison."""
    valid = sorted((trial for trial in trials if trial.status == "ok"), key=lambda trial: trial.comparable)

    def near(trial: Trial) -> bool:
        took = min(trial.samples) if trial.standing is None else trial.comparable
        return took <= (NEAR_DEFAULT if trial is default else NEAR) * valid[0].comparable

    field = [trial for place, trial in enumerate(filter(near, valid)) if place < FIELD or trial is default]
    champion = min((trial for trial in valid if trial.standing is not None), key=lambda trial: trial.rank, default=None)
    return field if champion is None or champion in field else [*field, champion]


def drift(raced: Sequence[float], before: Sequence[float]) -> float:
    """The factor by which the machine is slower in the final comparison than before: the median ratio over the finalists.

    Divided by it, a finalist's time can be compared with the times of the search.
    """
    return median(_ratios(raced, before))


def _ratios(samples: Sequence[float], other: Sequence[float]) -> list[float]:
    return [own / max(others, 1e-12) for own, others in zip(samples, other, strict=False)]
