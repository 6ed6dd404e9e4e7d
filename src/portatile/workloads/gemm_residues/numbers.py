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
"""The moduli: pairwise coprime, the largest first, each at most 256, so that remainders nearest to 0 fit signed bytes."""
SHARES = 256
"""A row's norm is formed by this many partial sums, step k in sum k % SHARES, in every configuration, so that all get the same norm."""
STRETCH = 256
"""The kernels know of each stretch of this many steps of k whether a row has nonzero elements in it."""
COUNT = {"float32": 7, "float64": 14, "complex64": 7, "complex128": 14}
"""How many moduli a type needs: the error of rounding random A and B is then below a native product's; with one modulus less it is not."""
PRECISION = {"float32": 24, "float64": 53, "complex64": 24, "complex128": 53}
LARGEST = {"float32": 255, "float64": 2047, "complex64": 255, "complex128": 2047}
"""``PRECISION``: bits of a type's fraction; ``LARGEST``: the biased exponent of infinities and NaN."""
LONGEST = 1 << 14
"""The largest number of steps of k whose sums of products of bytes (three such sums together for complex numbers) fit int32. Longer
sums are split into the same pieces everywhere."""
MARGIN = 0.49
"""The largest product of two norms, as a share of the product of the moduli. Below a half, so that a sum follows from its remainders."""
DIGIT = 28
"""Bits of a word. Integers are split into one or two words, and each word into four signed digits of eight bits."""
LIMB = 30
"""Bits of a limb of the multi-word integers that sums are reconstructed in."""
_MAGIC = 3 << 22
_ONE_BITS = 0x4B000000 - (1 << 23)
"""``_MAGIC``: 1.5 * 2**23; adding it to a float rounds the float to an integer. ``_ONE_BITS``: the bit pattern of a float in [2**23, 2**24)
minus the float's value."""


def centred(value: int, modulus: int) -> int:
    """The remainder that is nearest to 0."""
    rest = value % modulus
    return rest - modulus if 2 * rest >= modulus else rest


def limbs(value: int, count: int) -> tuple[int, ...]:
    """The limbs of a number, the lowest first; the last one carries the sign."""
    last = count - 1
    return (*(value >> (LIMB * place) & (2**LIMB - 1) for place in range(last)), value >> (LIMB * last))


def _one(divisor: int, modulus: int) -> int:
    """The number nearest to 0 that is 1 modulo ``divisor`` and 0 modulo the rest of ``modulus``."""
    other = modulus // divisor
    return centred(other * pow(other, -1, divisor), modulus)


def _packed(counts: Sequence[int], modulus: int) -> int:
    """The remainders of four numbers as the signed bytes of an int."""
    return int.from_bytes(b"".join(centred(count, modulus).to_bytes(1, "little", signed=True) for count in counts), "little", signed=True)


def _halves(counts: Sequence[int]) -> int:
    """One or two 16-bit numbers packed into an int, the first one in the low half."""
    low, high = (*counts, 0)[:2]
    return (low & 0xFFFF) | (high << 16)


@dataclass(frozen=True)
class ResidueNumbers:
    """The constants that kernels need for products of ``dtype``."""

    dtype: str

    @property
    def moduli(self) -> tuple[int, ...]:
        """The moduli."""
        return MODULI[: COUNT[self.dtype]]

    @cached_property
    def limit(self) -> tuple[int, int]:
        """The largest square of a row's norm, ``MARGIN`` times the product of the moduli, as (x, q): x 4**q / 2**16, 2**16 <= x < 2**18."""
        square = int(MARGIN * 2**20) * prod(self.moduli) >> 20
        q = (square.bit_length() - 1) // 2
        return (square << 16) >> 2 * q, q

    @property
    def words(self) -> int:
        """The number of words that an integer with its sign is split into."""
        return ceil(self.limit[1] / DIGIT)

    @cached_property
    def pairs(self) -> tuple[tuple[int, ...], ...]:
        """The moduli in pairs, whose products are at most 2**16, and the last modulus alone where their number is odd."""
        return tuple(self.moduli[place : place + 2] for place in range(0, len(self.moduli), 2))

    @cached_property
    def tables(self) -> dict[str, list[Any]]:
        """Tables by name. The first six have an entry for each modulus p, the other two one for each of ``pairs``.

        ``divisors`` and ``reciprocals``: p and 1 / p as OpenCL C's float literals. ``shifts``: the literal that turns the quotient of a sum
        of digits by p into the quotient plus 1.5 * 2**23. ``starts``: ``start(p)`` as a float's bits, and p. ``weights``: the digits' place
        values modulo p, four to a word. ``inverses``: 2**38 / p, rounded, and p.

        ``joined``: the factors by which the remainders of a pair combine modulo its product, as the halves of a word. ``idempotents``: the
        limbs of the number nearest to 0 that is 1 modulo the pair's product and 0 modulo all other moduli.
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
        """The place value of each digit of each word."""
        return [[1 << (DIGIT * word + 8 * place) for place in range(4)] for word in range(self.words)]

    def largest(self, p: int) -> int:
        """The largest magnitude of a sum of an integer's digits, each times its place value modulo p."""
        return sum(128 * abs(centred(count, p)) for word in self.digits for count in word)

    def start(self, p: int) -> int:
        """The initial value of sums of digits: the smallest multiple of p and of 256 that keeps every sum at 2**23 or above."""
        step = p if p % 256 == 0 else 256 * p
        return -(-(2**23 + self.largest(p)) // step) * step

    def doubles(self) -> dict[int, float]:
        """1 / p by the place of p in ``moduli``, for those p with which one float64 multiply-add gives an integer's quotient exactly enough
        that the remainder is a byte. For the sum of a complex number's parts the integer is their rounded sum.
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
        """The factors, each below 2**15, by which the remainders of a pair combine modulo its product; (1,) for a single modulus."""
        return tuple(_one(p, prod(pair)) for p in pair) if len(pair) > 1 else (1,)

    @property
    def wide(self) -> int:
        """The number of limbs of a sum with its sign: two or four."""
        return 2 * ceil((prod(self.moduli).bit_length() + 1) / (2 * LIMB))

    @property
    def product(self) -> tuple[int, ...]:
        """The limbs of the product of the moduli."""
        return limbs(prod(self.moduli), self.wide)

    @property
    def turn(self) -> float:
        """The unit of the last limb divided by the product of the moduli: from the last limb follows how often to subtract the product."""
        return (1 << (LIMB * (self.wide - 1))) / prod(self.moduli)


@lru_cache(maxsize=8)
def numbers(dtype: str) -> ResidueNumbers:
    """The numbers for a type, formed once."""
    return ResidueNumbers(dtype)
