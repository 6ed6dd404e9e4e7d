"""Many small random problems, of every routine, against float64: what a few kernels compute at all their edges."""

from __future__ import annotations

import random
from collections import Counter

from attack import Place, calls, problems

_EACH = 100  # problems of an attempt
_LARGEST = 9


def attempt(rng: random.Random, place: Place) -> Counter[str]:
    """Calls of random routines with sizes below ten, most of which run kernels that ran before."""
    done: Counter[str] = Counter()
    for _ in range(_EACH):
        done[problems.checked(calls.draw(rng, place.device, _LARGEST))] += 1
    return done
