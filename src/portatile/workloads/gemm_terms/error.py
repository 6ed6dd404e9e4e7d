"""The rounding analysis of a float32 product from terms of 16 bits: its error bound, and how much of an element two terms may lose.

Let u = 2^-24, and x an element scaled by its row's power of two (exactly), so that |x| < 2^15. Its terms are h = fl16(x) and
l = fl16(2^11 (x - h)), where fl16 rounds to nearest, to multiples of 2^-24 at least. A row is split only if |x - h| <= 2^(q - 11) |x| for
each of its elements, as it holds for every normal half with q = 0. Then

    |x - h - 2^-11 l| <= 2^(q + 2) u |x|     half a step of l: 2^-12 |x - h| if l is normal, else 2^-36 <= 2^-11 |x| 2^(q - 11)

for either factor, and of a product of two elements the three products of terms lose |x - h| |y - g| <= 4^q 4 u |x y|. Products of halves
are exact in the units. The sums of high terms start again after every CHUNK steps of k: within a chunk the unit truncates as in
``units.roundings``; outside, the chunks are added with rounding to nearest. The sums of the products with low terms, at most
2^(q - 10) sum |a b|, are truncated by the unit over all of k, already divided by 2^11. In the end the two sums are added, the power of two
is undone (which rounds if the result is denormal), and alpha and beta are applied.

q grows with k, such that the loss stays below a ninth of k u, the first-order bound of the native product: q = 0 up to k = 511, 1 up to
2047, 2 up to 8191, then 3. An element may then be 2^(28 + q) times smaller than the largest of its row; smaller ones may be anything that
two terms represent, for instance whole numbers and zeros.
"""

from __future__ import annotations

from portatile.dtypes import ELEMENTS
from portatile.records import Problem
from portatile.workloads.gemm import reference, units

_UNIT = ELEMENTS["float32"].unit
_HIGHER = 1.001  # makes a bound to first order a strict one
_LAST = 8  # roundings of the addition of both sums, of alpha and beta, and of the reference


def extra(k: int) -> int:
    """q: by how many bits an element's high term may lie below float16's normal numbers."""
    return sum(k >= least for least in (512, 2048, 8192))


def dropped_share(k: int) -> float:
    """The share of an element that its high term may lose."""
    return float(2.0 ** (extra(k) - 11))


def within_native_bound(problem: Problem, chunk: int, parts: int) -> bool:
    """Whether the bound is no larger than that of a native product without split k, as an emulated product promises."""
    return bound(problem.sizes["k"], chunk, parts) <= reference.bound(problem, 1)


def bound(k: int, chunk: int, parts: int) -> float:
    """The error of a sum of k products in units of sum |a b|, as above, with k in ``parts`` and sums of ``chunk`` steps in the unit."""
    q = extra(k)
    split = 2.0 ** (q + 3) + 4.0 ** (q + 1)
    inside = 2.25 * min(k + 16, chunk) + 2  # truncations of 2 u, 17 for 16 terms
    outside = -(-k // chunk) + 1
    low: float = 2.0 ** (q - 10) * 2 * (k + units.roundings(k, 0))
    return _HIGHER * _UNIT * float(split + inside + outside + low + parts + _LAST)
