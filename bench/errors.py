"""How errors are distributed: counts of sampled elements by powers of two, of the rounding unit times the sum of |a| |b|."""

from __future__ import annotations

from typing import Any

import numpy as np

LEAST, MOST = -12, 12


def histogram(units: Any) -> dict[str, int]:
    """The number of errors in [2^e, 2^(e + 1)) units by e; smaller errors and 0 count as 2^LEAST, larger ones as 2^MOST."""
    found = np.maximum(np.abs(np.asarray(units, np.float64)).ravel(), 2.0**LEAST)
    powers, counts = np.unique(np.minimum(np.floor(np.log2(found)), MOST), return_counts=True)
    return {str(int(power)): int(count) for power, count in zip(powers, counts, strict=True)}
