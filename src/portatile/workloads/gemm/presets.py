"""Named points of the space: the blockings of the documents and of devices that were tuned by hand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from portatile.errors import UnknownNameError
from portatile.records import Config
from portatile.workloads.gemm.point import Point


def generic(vl: int, block: tuple[int, int], group: tuple[int, int], blocks: tuple[int, int], kb: int, sm: bool) -> Point:
    """A point of the generator's ten parameters; pairs are rows, columns."""
    (tr, tc), (tbr, tbc), (trr, tcr) = block, group, blocks
    return Point("generic", VL=vl, TR=tr, TC=tc, TBR=tbr, TBC=tbc, TRR=trr, TCR=tcr, KB=kb, UNROLL=kb, SM=sm, MAD="a*b+c")


def register(vl: int, rows: int, vectors: int, unroll: int = 4, block: int = 0, band: int = 0) -> Point:
    """A register tile of ``rows`` x ``vectors`` vectors for a processor; ``block`` steps of k a launch, ``band`` rows of tiles a band."""
    return Point("cpu", VL=vl, TR=rows, TC=vl * vectors, KB=block, UNROLL=unroll, RASTER=band, MAD="a*b+c", PACK_B=True)


def pipeline(vl: int, group: tuple[int, int], blocks: tuple[int, int], kb: int, stages: int, lanes: int, double: int = 2) -> Point:
    """A tiled, pipelined point: ``group`` work-items of ``blocks`` squares of ``vl`` x ``vl`` elements; pairs are rows, columns."""
    (tbr, tbc), (trr, tcr) = group, blocks
    return Point(
        "gpu",
        VL=vl,
        TR=vl,
        TC=vl,
        TBR=tbr,
        TBC=tbc,
        TRR=trr,
        TCR=tcr,
        KB=kb,
        SM=True,
        UNROLL=kb,
        SCALARS=False,
        MAD="a*b+c",
        STAGES=stages,
        LANES=lanes,
        DOUBLE=double,
    )


def matrix(warps: tuple[int, int], blocks: tuple[int, int], kb: int, stages: int, double: int = 1, lanes: int = 8) -> Point:
    """A float64 point for NVIDIA's matrix instructions: ``warps`` of ``blocks`` squares of 16 x 16; pairs are rows, columns.

    With 8 ``lanes`` B takes the place of the instruction's A: the fastest way where A has k fast and B has not. With 4 it is as written.
    """
    (down, across), flipped = warps, lanes == 8
    group = ((4 if flipped else 8) * down, (8 if flipped else 4) * across)
    point = pipeline(2, group, blocks, kb, stages, lanes, double)
    return replace(point, TR=4 if flipped else 2, TC=2 if flipped else 4, MMA=True)


def thin(vl: int, block: tuple[int, int], places: int, parts: int, unroll: int, staged: int = 0, split: int = 1) -> Point:
    """A point for few columns of C: ``places`` times ``block`` rows to a group, each computed by ``parts`` work-items that share its k
    and have ``unroll`` vectors of ``vl`` elements under way; ``staged`` steps of B's k in local memory, 0 for none.
    """
    (tr, tc), sm = block, staged > 0
    return Point("thin", VL=vl, TR=tr, TC=tc, TBR=places, KG=parts, UNROLL=unroll, SM=sm, KB=staged or 1, SPLIT_K=split, MAD="a*b+c")


MAGMA = replace(generic(1, (1, 1), (16, 16), (3, 3), 6, True), TXC=True)
"""Table 5 of Du et al., Tesla C2050: 256 work-items load a tile 48 wide and 6 deep."""

NAKASATO = replace(generic(4, (8, 8), (8, 8), (1, 1), 8, False), TXC=True)
"""Table 5 of Du et al., Radeon 5870."""

NAKASATO_DOUBLE = replace(generic(2, (4, 4), (8, 8), (1, 1), 8, False), TXC=True)
"""The same in double precision: a pixel is two elements."""

MEDIUM = generic(4, (4, 4), (16, 16), (1, 1), 16, True)
"""A tile of 64 x 64 that every GPU runs decently."""

PRESETS: Mapping[str, str] = {
    "magma": "Du et al., Table 5, Tesla C2050: 3 x 3 elements to a work-item, images and local memory",
    "magma-plain": "the same without images",
    "nakasato": "Du et al., Table 5, Radeon 5870: 8 x 8 elements to a work-item by vectors of 4 from images; float64: 4 x 4 by 2",
    "nakasato-plain": "the same without images",
    "nakasato-view": "nakasato with images that show the operands where they lie: nothing is copied",
    "medium": "tiles of 64 x 64 in local memory",
}
"""The names of points, and what they are."""


WAYS = ("direct", "local", "image", "image local", "view", "view local", "panels", "panels local")
"""How the generic form gets at an operand: reading memory, an image written before, an image that shows memory, or panels packed before;
and from there directly, or through local memory."""


def staged(point: Point, way_a: str, way_b: str) -> Point:
    """A point of the generic form that gets at A and at B in one of ``WAYS`` each; raises UnknownNameError for another.

    Examples:
        >>> staged(MEDIUM, "view", "local").TXC_OF
        'A'
    """
    ways = {"A": way_a, "B": way_b}
    for way in ways.values():
        if way not in WAYS:
            raise UnknownNameError("way to an operand", way, WAYS)

    def those(word: str) -> str:
        return "".join(name for name, way in ways.items() if word in way.split())

    images = "".join(name for name, way in ways.items() if way.split()[0] in ("image", "view"))
    local = those("local")
    return replace(
        point,
        SM=bool(local),
        SM_OF=local or "AB",
        TXC=bool(images),
        TXC_OF=images or "AB",
        VIEW_A="A" in those("view"),
        VIEW_B="B" in those("view"),
        PACK_A="A" in those("panels"),
        PACK_B="B" in those("panels"),
    )


def blocked(dtype: str) -> Point:
    """The tile that ways to an operand are compared on: 256 work-items of 8 x 8 elements by vectors of 4, for float64 4 x 4 by 2."""
    vector = 4 if dtype == "float32" else 2
    return generic(vector, (2 * vector, 2 * vector), (16, 16), (1, 1), 8, True)


def preset(name: str, dtype: str) -> Config:
    """The configuration of a named point for an element type; raises UnknownNameError for a name that there is not.

    Examples:
        >>> preset("nakasato", "float64")["TR"]
        4
    """
    nakasato = NAKASATO_DOUBLE if dtype == "float64" else NAKASATO
    points = {
        "magma": MAGMA,
        "magma-plain": replace(MAGMA, TXC=False),
        "nakasato": nakasato,
        "nakasato-plain": replace(nakasato, TXC=False),
        "nakasato-view": replace(nakasato, VIEW_A=True, VIEW_B=True),
        "medium": MEDIUM,
    }
    if name not in points:
        raise UnknownNameError("preset of gemm", name, points)
    return points[name].config()
