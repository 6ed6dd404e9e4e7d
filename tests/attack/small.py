"""Many small random problems, of every routine, against float64: what a few kernels compute at all their edges."""

from __future__ import annotations

import random
from collections import Counter

from attack import Place, calls, problems

_FORMS = 10  # of an attempt: a routine, its options, sizes and layouts
_EACH = 50  # problems of a form, each with numbers of its own; to build the kernels of another takes longer than these
_LARGEST = 9


def attempt(rng: random.Random, place: Place) -> Counter[str]:
    """Calls of random routines with sizes below ten."""
    done: Counter[str] = Counter()
    for _ in range(_FORMS):
        form = rng.getrandbits(32)
        for data in range(_EACH):
            done[problems.checked(calls.draw(random.Random(form), place.device, _LARGEST, data))] += 1
    return done
