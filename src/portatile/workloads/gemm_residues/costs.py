"""The constants of the estimate of products by residues: ``costs.json``, which ``bench/fit_residues.py`` fits to recorded times."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import msgspec

FILE = Path(__file__).with_name("costs.json")


@dataclass(frozen=True)
class Costs:
    """Of one compute unit in a microsecond: multiply-adds of ``native`` products by dtype, and of ``products`` of bytes while a tile is
    multiplied; elements of the product of ``leading`` bits; by dtype, bytes read and written where bytes are made of operands that lie
    along k (``cut``) and of others (``cut_across``), and where sums are put together (``joined``). Microseconds: ``ended``, to begin and
    store an element of a tile of products, and a ``launch``.
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
    """The content of the file: the constants, and what ``made`` them: the command, and by file name the SHA-256 of each result."""

    command: str
    results: Mapping[str, str]
    costs: Costs


@lru_cache(maxsize=1)
def known() -> Costs:
    """The constants that come with the package."""
    return msgspec.json.decode(FILE.read_bytes(), type=Fitted).costs
