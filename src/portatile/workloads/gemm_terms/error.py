"""How far a float32 product from terms of 16 bits may be off, and how much of an element its terms may miss: a rounding analysis.

Let u = 2^-24, and x an element times its row's power of two, so that |x| < 2^15; scaling is exact. Its terms are h = fl16(x) and
l = fl16(2^11 (x - h)), where fl16 rounds to nearest, in steps of 2^-24 at least. A row is split only where |x - h| <= 2^(q - 11) |x| for
each of its elements, as for every normal half with q = 0. Then

    |x - h - 2^-11 l| <= 2^(q + 2) u |x|     half a step of l: 2^-12 |x - h| where l is normal, 2^-36 <= 2^-11 |x| 2^(q - 11) else

of either factor, and of a product of two elements the terms' three products leave out |x - h| |y - g| <= 4^q 4 u |x y|. Products of halves
are exact in the units. The sums of high terms begin anew after every CHUNK steps of k: within these the unit cuts as ``units.roundings``
says, outside each is added to nearest. The sums of the products with low terms, at most 2^(q - 10) sum |a b|, are cut by the unit over all
of k, divided by 2^11 already. In the end: the two sums are added, the power of two is taken back, which rounds where the result is
denormal, and alpha and beta.

q grows with k, so that what is left out stays below a ninth of k u, the first-order bound of the native product: q = 0 up to k = 511,
1 up to 2047, 2 up to 8191, then 3. An element may then be 2^(28 + q) times smaller than the largest of its row; smaller ones may be
whatever two terms hold, as whole numbers, zeros.
"""

from __future__ import annotations

from portatile.dtypes import ELEMENTS
from portatile.records import Problem
from portatile.workloads.gemm import reference, units

_UNIT = ELEMENTS["float32"].unit
_HIGHER = 1.001  # times a bound to first order
_LAST = 8  # roundings of both sums' last addition, of alpha and beta, and of the reference


def extra(k: int) -> int:
    """q: how many bits nearer to the end of float16's range than its normal numbers an element's high term may lie."""
    return sum(k >= least for least in (512, 2048, 8192))


def dropped_share(k: int) -> float:
    """The share of an element that its high term may miss."""
    return float(2.0 ** (extra(k) - 11))


def within_native_bound(problem: Problem, chunk: int, parts: int) -> bool:
    """Whether the bound is no larger than that of a native product whose sum is not divided: what an emulated product promises."""
    return bound(problem.sizes["k"], chunk, parts) <= reference.bound(problem, 1)


def bound(k: int, chunk: int, parts: int) -> float:
    """The error of a sum of k products in units of sum |a b|, as above, with k in ``parts`` and sums of ``chunk`` steps in the unit."""
    q = extra(k)
    split = 2.0 ** (q + 3) + 4.0 ** (q + 1)
    inside = 2.25 * min(k + 16, chunk) + 2  # cuts of 2 u, 17 for 16 terms
    outside = -(-k // chunk) + 1
    low: float = 2.0 ** (q - 10) * 2 * (k + units.roundings(k, 0))
    return _HIGHER * _UNIT * float(split + inside + outside + low + parts + _LAST)
