"""The filters of BigDFT's wavelet code by name.

The coefficients are from BigDFT's sources (convolut_simple_per.f90 for the magic filter; Daubechies' least asymmetric wavelets of length
16; the second derivative in the same basis), in double precision.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Filter:
    """Taps f(l) for l = ``lower``, lower + 1, ...: the output i is the sum of f(l) x(i + l).

    Examples:
        >>> from portatile.wavelets import Filter
        >>> Filter((1.0, 2.0, 3.0), -1).transposed
        Filter(taps=(3.0, 2.0, 1.0), lower=-1)
    """

    taps: tuple[float, ...]
    lower: int

    @property
    def upper(self) -> int:
        """The l of the last tap."""
        return self.lower + len(self.taps) - 1

    @cached_property
    def transposed(self) -> Filter:
        """The filter of the transposed matrix: f(-l)."""
        return Filter(self.taps[::-1], -self.upper)

    @cached_property
    def row(self) -> NDArray[np.float64]:
        """The taps as a read-only array."""
        taps = np.array(self.taps)
        taps.flags.writeable = False
        return taps

    def __call__(self, place: int) -> float:
        """f(l), zero outside of the taps."""
        return self.taps[place - self.lower] if self.lower <= place <= self.upper else 0.0


MAGICFILTER = Filter(
    (
        8.433424733352934e-07,
        -1.290557201342061e-05,
        8.76298447621056e-05,
        -0.00030158038132690465,
        0.001747237136729939,
        -0.009420470302010804,
        0.023738214637249424,
        0.0612625895831208,
        0.9940415697834004,
        -0.06048952891969835,
        -0.021030251609303816,
        0.013372634148547948,
        -0.0034412814449349387,
        0.0004944322768868992,
        -5.185986881173433e-05,
        2.7273449291197967e-06,
    ),
    -8,
)
"""Maps the coefficients of a function in Daubechies' basis to its values on the grid."""

SCALING = Filter(
    (
        -0.0033824159510050025955,
        -0.00054213233180001068935,
        0.031695087811525991431,
        0.0076074873249766081919,
        -0.14329423835127266284,
        -0.061273359067811077843,
        0.48135965125905339159,
        0.77718575169962802862,
        0.36444189483617893676,
        -0.051945838107881800736,
        -0.027219029917103486322,
        0.049137179673730286787,
        0.0038087520138944894631,
        -0.014952258337062199118,
        -0.00030292051472413308126,
        0.0018899503327676891843,
    ),
    -7,
)
"""The low-pass filter ch of Daubechies' least asymmetric wavelets of length 16."""

WAVELET = Filter(tuple((-1.0) ** place * SCALING(1 - place) for place in range(-7, 9)), -7)
"""The corresponding high-pass filter: cg(l) = (-1)^l ch(1 - l)."""

_HALF = (
    -3.5536922899131901941296809374,
    2.2191465938911163898794546405,
    -0.6156141465570069496314853949,
    0.2371780582153805636239247476,
    -0.0822663999742123340987663521,
    0.02207029188482255523789911295638968409,
    -0.409765689342633823899327051188315485e-2,
    0.45167920287502235349480037639758496e-3,
    -0.2398228524507599670405555359023135e-4,
    2.0904234952920365957922889447361e-6,
    -3.7230763047369275848791496973044e-7,
    -1.05857055496741470373494132287e-8,
    -5.813879830282540547959250667e-11,
    2.70800493626319438269856689037647576e-13,
    -6.924474940639200152025730585882e-18,
)

KINETIC = Filter((*_HALF[:0:-1], *_HALF), -14)
"""The second derivative on a grid of spacing 1; the kinetic energy is -1/2 of it."""

ANALYSIS = np.array([SCALING.taps, WAVELET.taps])
"""Both filters, in the form of a filter bank."""

# An output reads pairs (c, d) in turn; both filters extend over the same nine pairs, one of which each leaves out.
SYNTHESIS = np.array([[half(e + 8 - 2 * pair) for pair in range(9) for half in (SCALING, WAVELET)] for e in (0, 1)])
"""The inverse of the bank, for the even and the odd outputs."""
SYNTHESIS_LOWER = -8
"""The index of the first element of c_0 d_0 c_1 d_1 ... that an output needs: four pairs before its own."""

# Counting from an odd point, x(2i - 1) and x(2i) read the same eight pairs, beginning at i - 4.
FREE_SYNTHESIS = np.array([[half(7 + e - 2 * pair) for pair in range(8) for half in (SCALING, WAVELET)] for e in (0, 1)])
"""The inverse of the bank on an axis that grows or shrinks, whose values begin at an odd point: for the odd and the even outputs."""
