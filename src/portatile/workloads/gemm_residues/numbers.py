"""The numbers of the residue scheme: moduli, bits that operands keep, weights of digits, cofactors of the Chinese remainder theorem.

Ozaki scheme II (Ozaki, Uchino, Imamura, arXiv 2504.08009): rows of A and columns of B become integers with norms so small that each sum of
their products is less than half the product of the moduli; it follows from what it is modulo each of them, which int8 products give.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from math import ceil, prod
from typing import Any

MODULI = (256, 255, 253, 251, 247, 241, 239, 233, 229, 227, 223, 217, 211, 199, 197, 193)
"""Pairwise coprime, the largest first; remainders around 0 are bytes."""
STRETCH = 256
"""Steps of k of which the sum of squares is formed together, whatever the configuration, so that all agree on a row's norm."""
COUNT = {"float32": 7, "float64": 15, "complex64": 7, "complex128": 15}
"""How many of them: on random matrices rounding A and B then costs less than a native product does; 14 would not do for float64."""
PRECISION = {"float32": 24, "float64": 53, "complex64": 24, "complex128": 53}
LARGEST = {"float32": 255, "float64": 2047, "complex64": 255, "complex128": 2047}
"""Bits of a fraction, and the exponent that stands for infinities and NaN."""
LONGEST = 1 << 14
"""Steps of k of which int32 holds the sums of bytes, for complex numbers three of them together. Longer sums are added
piece by piece, always the same ones."""
MARGIN = 0.46
"""The largest sum over the product of the moduli: below a half, so that float32 tells how often that product is contained."""
DIGIT = 12
"""Bits of the digits that integers are taken apart into: weighted sums of five are below 2**20, of which float32 divides well enough."""
LIMB = 30
"""Bits of the limbs that sums are put together in."""
TURN = 19
"""Bits of what a remainder counts in units of the moduli's product: int32 holds 15 times 384 of them, which are off by less than 0.006."""


def centred(value: int, modulus: int) -> int:
    """The remainder that is nearest to 0."""
    rest = value % modulus
    return rest - modulus if 2 * rest >= modulus else rest


def limbs(value: int, count: int) -> tuple[int, ...]:
    """A number's limbs, the lowest first; the last one has its sign."""
    last = count - 1
    return (*(value >> (LIMB * place) & (2**LIMB - 1) for place in range(last)), value >> (LIMB * last))


@dataclass(frozen=True)
class Numbers:
    """What kernels are told of products of ``dtype``."""

    dtype: str

    @property
    def moduli(self) -> tuple[int, ...]:
        """The moduli."""
        return MODULI[: COUNT[self.dtype]]

    @cached_property
    def bits(self) -> int:
        """The most bits with ``4**bits <= MARGIN * M``: norms of rows and columns of integers are at most ``2**bits``."""
        return (int(MARGIN * prod(self.moduli)).bit_length() - 1) // 2

    @property
    def digits(self) -> int:
        """Digits of the integers, each with its sign."""
        return ceil((self.bits + 2) / DIGIT)

    @property
    def slack(self) -> int:
        """Bits by which the cost of rounding is shifted before it is compared with the terms; see ``join.cl``.

        Rounding costs 2**-(bits + 8) times the sums of |a| and |b| in 128ths of their rows' largest, a native product terms * 2**-PRECISION
        times that of |a| |b|, of which 2**-14 times the product of the leading bytes is known.
        """
        return max(PRECISION[self.dtype] + 6 - self.bits, 0)

    @cached_property
    def tables(self) -> dict[str, list[Any]]:
        """Of each modulus p: p and 1 / p as text; ``weights``: what an integer's digits count; ``inverses``: what the three digits of a sum
        of bytes count, times the inverse of the cofactor; ``cofactors``: the limbs of the product of the other moduli; ``idempotents``:
        those of the number nearest to 0 that is 1 modulo p and 0 modulo the others, ``shares``: that over the product, in 2**-TURN.
        """
        modulus = prod(self.moduli)
        others = [modulus // p for p in self.moduli]
        ones = [centred(other * pow(other, -1, p), modulus) for p, other in zip(self.moduli, others, strict=True)]
        return {
            "divisors": [f"{p}.0f" for p in self.moduli],
            "reciprocals": [f"{1 / p:.9e}f" for p in self.moduli],
            "weights": [[centred(1 << (DIGIT * place), p) for place in range(self.digits)] for p in self.moduli],
            "inverses": [
                [centred((1 << (DIGIT * t)) * pow(w, -1, p), p) for t in range(3)] for p, w in zip(self.moduli, others, strict=True)
            ],
            "cofactors": [limbs(other, self.wide) for other in others],
            "idempotents": [limbs(one, self.wide) for one in ones],
            "shares": [[round(Fraction(one * 2**TURN, modulus))] for one in ones],
        }

    @property
    def wide(self) -> int:
        """Limbs of a sum, with a bit for its sign; kernels want three."""
        return max(ceil((prod(self.moduli).bit_length() + 1) / LIMB), 3)

    @property
    def product(self) -> tuple[int, ...]:
        """The limbs of the product of the moduli."""
        return limbs(prod(self.moduli), self.wide)


@lru_cache(maxsize=8)
def numbers(dtype: str) -> Numbers:
    """The numbers for a type, formed once."""
    return Numbers(dtype)
