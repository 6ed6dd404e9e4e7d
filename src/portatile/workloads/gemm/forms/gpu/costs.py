"""The constants of the estimate, and where they come from: a file in ``models`` for each architecture, or the user's own calibration."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec

from portatile import settings
from portatile.records import DeviceInfo
from portatile.workloads.gemm.forms.gpu.tiles import completed, plausible

SHIPPED = Path(__file__).parents[2] / "models"
"""Models that come with the package, each named after the architecture that was timed."""


@dataclass(frozen=True)
class Costs:
    """The constants of the time estimate for a device, a compiler and a precision.

    Microseconds:

    - ``launch``: one launch. ``pack``, ``add``: a further launch that packs operands, or adds the sums of a split k.
    - ``fill``: before a round of work-groups multiplies. ``wait``: for a stage from memory.
    - ``drain``: for each kilobyte of a tile that is stored while no other work-group multiplies.
    - ``arrive``: before a tile's last work-group knows that it is the last. ``gather``: before the work-groups of a cluster have met.
    - ``exchange`` (1e-5 microseconds): for each element of C in each part of a work-group.

    Megabytes per microsecond. Of the whole device: ``packed``, ``added``, ``cached``, ``read`` and ``stored``. Of one work-group: ``first``
    (the stages before it multiplies), ``alone`` (sums that the last one adds, for four warps), ``gathered`` (sums of a cluster).

    Multiply-adds that take as long as one further element: ``columns``, ``elements``, ``dots``, ``shifted`` and ``mirrored`` for an element
    that is copied in that way (see ``variants``), ``torn`` for one of a row that begins in the middle of a memory sector. ``held``: the
    share of this that remains if elements go through registers.

    Factors: ``transposed`` and ``kept`` of the time of multiply-adds; ``ragged`` of the time to store C if its rows are not aligned.

    - ``warps``: the number of resident warps with which half the rate is reached.
    - ``products``: multiply-adds per microsecond that a multiprocessor's units can do, which follow from its clock. ``rates``: the share of
      this that each of the candidate ``tiles.tiles`` reaches.
    """

    launch: float
    fill: float
    pack: float
    packed: float
    add: float
    added: float
    cached: float
    read: float
    warps: float
    stored: float
    exchange: float
    wait: float
    drain: float
    transposed: float
    kept: float
    columns: float
    elements: float
    dots: float
    rates: tuple[float, ...]
    products: float
    held: float = 0.9
    arrive: float = 2.5
    alone: float = 0.055
    gather: float = 2.5
    gathered: float = 0.3
    first: float = 0.2
    ragged: float = 1.5
    torn: float = 2.0
    shifted: float = 8.0
    mirrored: float = 24.0

    def filled(self, across: Any, steps: Any, itemsize: int) -> Any:
        """Microseconds before work-groups multiply: tiles with ``across`` rows and columns together first load ``steps`` of k."""
        return self.fill + 1e-6 * across * steps * itemsize / self.first


NAMES = tuple(field.name for field in fields(Costs) if field.name not in ("rates", "products"))
"""The constants that a fit determines beside the rates."""


@dataclass(frozen=True)
class Model:
    """The content of a file of constants.

    ``device`` was timed at ``clock_mhz``; ``lanes``: multiply-adds of a multiprocessor in a cycle. ``made``: for each compiler's language
    the command, the commit, the file of timings and its SHA-256. ``costs``: the fields of ``Costs`` by language and element type.
    """

    architecture: str
    device: str
    clock_mhz: float
    lanes: int
    made: Mapping[str, Mapping[str, str]]
    costs: Mapping[str, Mapping[str, Mapping[str, Any]]]

    def of(self, language: str, dtype: str) -> Costs | None:
        """The constants for a compiler and an element type, or those of another compiler if it has none; None if there are none at all."""
        found = self.costs.get(language, {}).get(dtype) or next((by[dtype] for by in self.costs.values() if dtype in by), None)
        if found is None:
            return None
        rates = plausible(dtype, completed(dtype, tuple(float(rate) for rate in found["rates"])))
        return Costs(**{name: float(found[name]) for name in NAMES if name in found}, rates=rates, products=self.lanes * self.clock_mhz)

    def holding(self, language: str, dtype: str, costs: Costs) -> Model:
        """The model with these constants, rounded to three digits, in place of its own."""
        values = {name: float(f"{getattr(costs, name):.3g}") for name in NAMES}
        entry = {**values, "rates": [float(f"{rate:.3g}") for rate in costs.rates]}
        return Model(
            self.architecture,
            self.device,
            self.clock_mhz,
            self.lanes,
            self.made,
            {**self.costs, language: {**self.costs.get(language, {}), dtype: entry}},
        )


def known(device: DeviceInfo, dtype: str) -> Costs | None:
    """The constants for a device: the user's own calibration, its architecture's, or those of the nearest one that was timed."""
    return _known(device.name, device.architecture, device.can.language, dtype, settings.load().data_dir)


def own_file(name: str, language: str, folder: Path) -> Path:
    """The path of the user's calibration of a device, below the data directory."""
    return folder / "models" / f"gemm-{_slug(name)}-{_slug(language)}.json"


def read(path: Path) -> Model:
    """The model in a file; raises ``msgspec.ValidationError`` with what is wrong there."""
    return msgspec.json.decode(path.read_bytes(), type=Model)


def forget() -> None:
    """Forget what was read, after a file was written."""
    _known.cache_clear()


@lru_cache(maxsize=64)
def _known(name: str, architecture: str, language: str, dtype: str, folder: Path) -> Costs | None:
    own = own_file(name, language, folder)
    shipped = sorted(map(read, SHIPPED.glob("*.json")), key=lambda model: _apart(model.architecture, architecture))
    models = [*([read(own)] if own.exists() else []), *shipped]
    return next((costs for model in models if (costs := model.of(language, dtype)) is not None), None)


def _apart(one: str, other: str) -> tuple[int, str]:
    """The distance between two architectures, by their numbers."""
    numbers = [int(found.group()) if (found := re.search(r"\d+", text)) else 0 for text in (one, other)]
    return abs(numbers[0] - numbers[1]), one


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
