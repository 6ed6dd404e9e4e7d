"""The numbers of the residue scheme: moduli, bits that operands keep, weights of digits, cofactors of the Chinese remainder theorem.

Ozaki scheme II (Ozaki, Uchino, Imamura, arXiv 2504.08009): rows of A and columns of B become integers with norms so small that each sum of
their products is less than half the product of the moduli; it follows from what it is modulo each of them, which int8 products give.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from math import ceil, isqrt, prod
from typing import Any

from portatile.dtypes import product

MODULI = (256, 255, 253, 251, 247, 241, 239, 233, 229, 227, 223, 217, 211, 199)
"""Pairwise coprime, the largest first; remainders around 0 are bytes."""
SHARES = 256
"""Steps of k that are the same modulo this are summed together, whatever the configuration, so that all agree on a row's norm."""
STRETCH = 256
"""Steps of k of which it is known whether a row has any element in them."""
COUNT = {"float32": 7, "float64": 14, "complex64": 7, "complex128": 14}
"""How many of them: on random matrices rounding A and B then costs less than a native product does; one less would not do."""
PRECISION = {"float32": 24, "float64": 53, "complex64": 24, "complex128": 53}
LARGEST = {"float32": 255, "float64": 2047, "complex64": 255, "complex128": 2047}
"""Bits of a fraction, and the exponent that stands for infinities and NaN."""
LONGEST = 1 << 14
"""Steps of k of which int32 holds the sums of bytes, for complex numbers three of them together. Longer sums are added
piece by piece, always the same ones."""
MARGIN = 0.49
"""The largest product of norms over the product of the moduli: below a half, so that it is known how often that product is contained."""
DIGIT = 28
"""Bits of the words that integers are taken apart into, one or two, of four signed digits of eight bits each."""
LIMB = 30
"""Bits of the limbs that sums are put together in."""
_MAGIC = 3 << 22
_ONE_BITS = 0x4B000000 - (1 << 23)
"""1.5 * 2**23, to which quotients are rounded, and the bits of a float from 2**23 on less its value."""


def centred(value: int, modulus: int) -> int:
    """The remainder that is nearest to 0."""
    rest = value % modulus
    return rest - modulus if 2 * rest >= modulus else rest


def limbs(value: int, count: int) -> tuple[int, ...]:
    """A number's limbs, the lowest first; the last one has its sign."""
    last = count - 1
    return (*(value >> (LIMB * place) & (2**LIMB - 1) for place in range(last)), value >> (LIMB * last))


def _one(divisor: int, modulus: int) -> int:
    """The number nearest to 0 that is 1 modulo ``divisor`` and 0 modulo the rest of ``modulus``."""
    other = modulus // divisor
    return centred(other * pow(other, -1, divisor), modulus)


def _packed(counts: Sequence[int], modulus: int) -> int:
    """Four remainders as the bytes of an int."""
    return int.from_bytes(b"".join(centred(count, modulus).to_bytes(1, "little", signed=True) for count in counts), "little", signed=True)


def _halves(counts: Sequence[int]) -> int:
    """One or two numbers as the halves of an int, the first one below."""
    low, high = (*counts, 0)[:2]
    return (low & 0xFFFF) | (high << 16)


@dataclass(frozen=True)
class Numbers:
    """What kernels are told of products of ``dtype``."""

    dtype: str

    @property
    def moduli(self) -> tuple[int, ...]:
        """The moduli."""
        return MODULI[: COUNT[self.dtype]]

    @cached_property
    def limit(self) -> tuple[int, int]:
        """The largest square of a norm of integers, ``MARGIN`` times the product: (x, q) of x 4**q / 2**16 with 2**16 <= x < 2**18."""
        square = int(MARGIN * 2**20) * prod(self.moduli) >> 20
        q = (square.bit_length() - 1) // 2
        return (square << 16) >> 2 * q, q

    @property
    def words(self) -> int:
        """Words of the integers, each with its sign."""
        return ceil(self.limit[1] / DIGIT)

    @cached_property
    def pairs(self) -> tuple[tuple[int, ...], ...]:
        """The moduli by twos, whose products are below 2**16, and what is left over."""
        return tuple(self.moduli[place : place + 2] for place in range(0, len(self.moduli), 2))

    @cached_property
    def tables(self) -> dict[str, list[Any]]:
        """Of each modulus p: p and 1 / p as text; ``weights``: what an integer's digits count, four to a word; ``starts``: where sums of
        digits start, as a float's bits, and p; ``shifts``: what leads from its quotient by p to 1.5 * 2**23; ``inverses``: 2**38 / p.

        ``joined``: what a pair's remainders count modulo its product, as the halves of a word; ``idempotents``: of each pair the limbs of
        the number nearest to 0 that is 1 modulo the pair's product and 0 modulo the others.
        """
        modulus = prod(self.moduli)
        return {
            "divisors": [f"{p}.0f" for p in self.moduli],
            "reciprocals": [f"{1 / p:.9e}f" for p in self.moduli],
            "shifts": [f"{_MAGIC - self.start(p) // p}.0f" for p in self.moduli],
            "starts": [[_ONE_BITS + self.start(p), p] for p in self.moduli],
            "weights": [[_packed(word, p) for word in self.digits] for p in self.moduli],
            "inverses": [[(2**39 + p) // (2 * p), p] for p in self.moduli],
            "joined": [[_halves(self.counts(pair))] for pair in self.pairs],
            "idempotents": [limbs(_one(prod(pair), modulus), self.wide) for pair in self.pairs],
        }

    @property
    def digits(self) -> list[list[int]]:
        """What each digit of each word counts."""
        return [[1 << (DIGIT * word + 8 * place) for place in range(4)] for word in range(self.words)]

    def largest(self, p: int) -> int:
        """The largest sum of an integer's digits by what they count modulo p."""
        return sum(128 * abs(centred(count, p)) for word in self.digits for count in word)

    def start(self, p: int) -> int:
        """Where sums of digits start: the least multiple of p and 256 from which none falls below 2**23."""
        step = p if p % 256 == 0 else 256 * p
        return -(-(2**23 + self.largest(p)) // step) * step

    def doubles(self) -> dict[int, float]:
        """1 / p of the moduli, by their places, of which a multiply-add of float64 tells an element's quotient so well that what is left
        of it is a byte. That of the sum of a complex number's parts is told of their rounded sum.
        """
        scaled, q = self.limit
        largest = Fraction(1001, 1000) * isqrt((scaled << 2 * q >> 16) + 1)  # rounding to integers adds to a norm
        rounded = 0
        if product(self.dtype).complex:
            largest, rounded = largest * 3 / 2, 2
        found = {}
        for place, p in enumerate(self.moduli[1:], 1):
            off = largest * abs(Fraction(1 / p) - Fraction(1, p))
            if p * (Fraction(1, 2) + off) + rounded < 128:
                found[place] = 1 / p
        return found

    @staticmethod
    def counts(pair: tuple[int, ...]) -> tuple[int, ...]:
        """What remainders of a pair count modulo its product, below 2**15; of a single one 1."""
        return tuple(_one(p, prod(pair)) for p in pair) if len(pair) > 1 else (1,)

    @property
    def wide(self) -> int:
        """Limbs of a sum, with a bit for its sign: two, or four."""
        return 2 * ceil((prod(self.moduli).bit_length() + 1) / (2 * LIMB))

    @property
    def product(self) -> tuple[int, ...]:
        """The limbs of the product of the moduli."""
        return limbs(prod(self.moduli), self.wide)

    @property
    def turn(self) -> float:
        """One in units of the last limb over the product of the moduli: how often that product is contained in such a unit."""
        return (1 << (LIMB * (self.wide - 1))) / prod(self.moduli)


@lru_cache(maxsize=8)
def numbers(dtype: str) -> Numbers:
    """The numbers for a type, formed once."""
    return Numbers(dtype)
