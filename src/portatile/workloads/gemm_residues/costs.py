"""The constants of the estimate of products by residues: ``costs.json``, which ``bench/fit_residues.py`` fits to recorded times."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import msgspec

FILE = Path(__file__).with_name("costs.json")


@dataclass(frozen=True)
class ResidueCosts:
    """Rates of one compute unit, per microsecond, and two times in microseconds.

    Rates: ``native``: multiply-adds of native products, by dtype. ``products``: multiply-adds of products of bytes within a tile.
    ``leading``: elements of the product of leading bits. ``cut`` and ``cut_across``: bytes read and written while operands that lie along
    k, and others, are converted to bytes, by dtype. ``joined``: bytes read and written while sums are reconstructed, by dtype.
    Times: ``ended``: to begin and store a tile of products, for each element. ``launch``: of a launch.
    """

    native: Mapping[str, float]
    products: float
    ended: float
    leading: float
    cut: Mapping[str, float]
    cut_across: Mapping[str, float]
    joined: Mapping[str, float]
    launch: float


@dataclass(frozen=True)
class Fitted:
    """The content of ``costs.json``: the constants, the ``command`` that fitted them, and by file name the SHA-256 of the results used."""

    command: str
    results: Mapping[str, str]
    costs: ResidueCosts


@lru_cache(maxsize=1)
def known() -> ResidueCosts:
    """The constants that come with the package."""
    return msgspec.json.decode(FILE.read_bytes(), type=Fitted).costs
