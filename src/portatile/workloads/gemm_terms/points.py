"""The points of the forms on matrix units that multiply sums of two terms, and the configurations that stand for them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from portatile.errors import ArgumentError
from portatile.records import Arg, Config, DeviceInfo, Problem, Value
from portatile.space import ParameterSpace
from portatile.workloads.gemm import units
from portatile.workloads.gemm.forms.hopper.point import Hopper
from portatile.workloads.gemm.forms.matrix.point import MatrixUnits
from portatile.workloads.gemm.point import Point
from portatile.workloads.gemm_terms import error

NATIVE = "native"
_SMALL = 1 << 20  # multiply-adds up to which a device without matrix units is used, in tests
_SPLITS = (1, 2, 4, 8, 16)
LEAST = 256  # steps of k of each work-group that shares a tile's k, at least
_SCALES = (Arg("scales", role="temporary"),)


@dataclass(frozen=True)
class TermsMatrix(MatrixUnits):
    """The matrix form, where sums of high terms leave the unit after every step of an instruction."""

    TERMS: ClassVar[int] = 2
    CHUNK: ClassVar[int] = 16

    def further_arguments(self) -> tuple[Arg, ...]:
        """The scales of rows and columns."""
        return _SCALES


@dataclass(frozen=True)
class TermsHopper(Hopper):
    """The hopper form, where sums of high terms leave the unit after every tile."""

    TERMS: ClassVar[int] = 2
    CHUNK: ClassVar[int] = 64

    def further_arguments(self) -> tuple[Arg, ...]:
        """The scales of rows and columns."""
        return _SCALES


Terms = TermsMatrix | TermsHopper
TILES: dict[tuple[str, str], Terms] = {
    ("hopper", "128x128"): TermsHopper(TBR=2, TRR=1, TCR=8, STAGES=3),
    ("hopper", "64x128"): TermsHopper(TBR=1, TRR=1, TCR=8, STAGES=4),
    ("hopper", "128x64"): TermsHopper(TBR=2, TRR=1, TCR=4, STAGES=4),
    ("matrix", "128x128"): TermsMatrix(TBR=2, TBC=4, TRR=4, TCR=2, STAGES=3),
    ("matrix", "64x64"): TermsMatrix(TBR=2, TBC=2, TRR=2, TCR=2, STAGES=3),
}
"""The points, by form and tile of C (rows x columns)."""


def config(form: str, tile: str = "", *, stages: int = 0, split: int = 1, raster: int = 8) -> Config:
    """The configuration of a form and a tile; with 0 ``stages`` the tile's usual number."""
    if form == NATIVE:
        return {"FORM": NATIVE}
    stages = stages or TILES[form, tile].STAGES
    return {"FORM": form, "TILE": tile, "STAGES": stages, "SPLIT_K": split, "RASTER": raster}


def read(config: Config) -> Terms | None:
    """The point of a configuration, None for the native product; raises ArgumentError if the form does not have the tile."""
    if config.get("FORM") == NATIVE:
        return None
    point = TILES.get((str(config.get("FORM")), str(config.get("TILE"))))
    if point is None:
        known = ", ".join(" ".join(names) for names in TILES)
        raise ArgumentError(f"gemm_terms: no form and tile {config.get('FORM')} {config.get('TILE')}; there are {known}, and {NATIVE}")
    stages, split, raster = (int(config[name]) for name in ("STAGES", "SPLIT_K", "RASTER"))
    if stages < 2 or split < 1 or raster < 0:
        raise ArgumentError(f"gemm_terms: two stages or more take turns, and k has one part or more; the configuration is {dict(config)}")
    return replace(point, STAGES=stages, SPLIT_K=split, RASTER=raster)


def space(problem: Problem, device: DeviceInfo) -> ParameterSpace:
    """The native product, and the tiles that fit the device with a bound no larger than the native one; k is split if tiles are few. A
    device without matrix units, which uses terms only in tests, has small problems with any bound.
    """
    m, n, k = (problem.sizes[s] for s in "mnk")
    has = "float16" in device.can.matrix_types
    forms = {"matrix": min(m, n, k) > 0 and (has or m * n * k <= _SMALL), "hopper": min(m, n, k) > 0 and has and device.can.warp_groups}

    def tiles(FORM: str, TILE: str) -> bool:
        return FORM == NATIVE or (forms[FORM] and (FORM, TILE) in TILES)

    def promised(FORM: str, TILE: str, SPLIT_K: int) -> bool:
        return FORM == NATIVE or not has or error.within_native_bound(problem, TILES[FORM, TILE].CHUNK, SPLIT_K)

    def stages(FORM: str, TILE: str, STAGES: int) -> bool:
        return FORM == NATIVE or ((has or STAGES == 2) and units.fits(replace(TILES[FORM, TILE], STAGES=STAGES), device))

    def parts(FORM: str, TILE: str, SPLIT_K: int) -> bool:
        return FORM == NATIVE or SPLIT_K == 1 or _shared(problem, TILES[FORM, TILE], device, SPLIT_K)

    values: dict[str, tuple[Value, ...]] = {
        "FORM": (NATIVE, "matrix", "hopper"),
        "TILE": tuple(dict.fromkeys(tile for _, tile in TILES)),
        "STAGES": (2, 3, 4),
        "SPLIT_K": _SPLITS,
        "RASTER": (1, 8),
    }
    there = {name: (f"FORM != {NATIVE!r}", several[0]) for name, several in values.items() if name != "FORM"}
    return ParameterSpace(values, (tiles, promised, stages, parts), {**problem.facts(), **device.facts()}, there=there)


def _shared(problem: Problem, point: Point, device: DeviceInfo, split: int) -> bool:
    """Whether it is worth trying to split the k of a tile between ``split`` work-groups."""
    m, n, k = (problem.sizes[s] for s in "mnk")
    tiles = -(-m // point.rows) * -(-n // point.columns)
    return k >= split * LEAST and tiles * split <= 2 * device.compute_units
