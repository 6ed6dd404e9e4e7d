"""Many small random problems, of every routine, against float64: what kernels compute at all their edges.

An attempt is one form: a routine with options, sizes and layouts. To prepare its kernels takes longer than its problems do, which have
numbers of their own.
"""

from __future__ import annotations

import random
from collections import Counter

from attack import Place, calls, problems

_EACH = 1000  # problems of a form
_LARGEST = 9


def attempt(rng: random.Random, place: Place) -> Counter[str]:
    """Calls of a random routine with sizes below ten."""
    form = calls.draw(rng, place.device, _LARGEST, _EACH)
    problems.check(form)
    return Counter({form.name: len(form)})
