"""Descriptions of processors for the cpu form: registers and caches, from files in ``models/processors``, and the
thresholds that follow.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from math import isqrt
from pathlib import Path

import msgspec

from portatile.records import DeviceInfo

FILES = Path(__file__).parents[2] / "models" / "processors"
_SECOND = 1  # place of the second-level cache, the largest that a core does not share


@dataclass(frozen=True)
class Registers:
    """How the cpu form uses a processor's vector registers.

    ``lanes``: elements of a register. ``vectors``: registers across the widest tile. ``rows``: rows of a tile, by its width in registers.
    ``dots``: sums of products along k that are computed together.
    """

    lanes: int
    vectors: int
    rows: Mapping[int, int]
    dots: int

    @property
    def full(self) -> int:
        """Rows of the widest tile."""
        return self.rows[self.vectors]


@dataclass(frozen=True)
class Processor:
    """A file of ``models/processors``; mappings have the bytes of an element as keys.

    - ``caches``: bytes of a core's data caches, the nearest first, on the processor where the following sizes in bytes were found. The
      sizes scale with the second-level cache.
    - ``banded``: bytes of a square A from which bands of rows pay; ``banded_packed``: the same if A is packed and transposed.
    - ``band_rows``: rows of A in a band; ``band_blocks``: whether k is then divided into blocks.
    - ``panels``: bytes of A's panels from which bands keep a part of them in cache.
    - ``deep``: bytes along k of a panel of B, for each of its columns, that stay in the second-level cache.
    - ``packs_wide``: whether A is packed for a wide C, because few registers are left for addresses.
    - ``staged_deep``: steps of k up to which work-items copy columns of B themselves.
    """

    about: str
    caches: tuple[int, ...]
    tiles: Mapping[int, Registers]
    banded: Mapping[int, int]
    banded_packed: Mapping[int, int]
    band_rows: Mapping[int, int]
    band_blocks: bool
    panels: int
    deep: Mapping[int, int]
    packs_wide: bool
    staged_deep: Mapping[int, int]


@dataclass(frozen=True)
class Thresholds:
    """Thresholds for a device and an element type.

    ``banded`` and ``banded_packed``: sizes from which a problem is computed in bands, with A in place and packed. ``band``: rows of tiles
    in a band. ``panels``: bytes of A's panels from which they need bands. ``deep``: steps of k in a block.
    """

    banded: int
    banded_packed: int
    band: int
    panels: int
    deep: int


def processor(device: DeviceInfo) -> Processor:
    """The description of a processor with the vector registers for which the device compiles."""
    if device.architecture.startswith(("aarch64", "arm")):
        return _read("neon")
    return _read("avx512" if device.wide_vectors else "avx2")


def thresholds(device: DeviceInfo, itemsize: int) -> Thresholds:
    """The thresholds for the device's caches, or for those of the described processor if the device does not report its caches."""
    known = processor(device)
    second = device.caches[_SECOND] if len(device.caches) > _SECOND else known.caches[_SECOND]
    part = second / known.caches[_SECOND]
    steps = int(known.deep[itemsize] * part) // itemsize
    return Thresholds(
        banded=isqrt(int(known.banded[itemsize] * part) // itemsize),
        banded_packed=isqrt(int(known.banded_packed[itemsize] * part) // itemsize),
        band=-(-known.band_rows[itemsize] // known.tiles[itemsize].full),
        panels=int(known.panels * part),
        deep=min(max(1 << steps.bit_length() - 1, 256), 2048),
    )


@cache
def _read(name: str) -> Processor:
    return msgspec.json.decode((FILES / f"{name}.json").read_bytes(), type=Processor)
