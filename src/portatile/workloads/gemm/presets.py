"""Named points of the generic form: published blockings, and for one tile every way to bring an operand to the kernel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from portatile.errors import UnknownNameError
from portatile.records import Config
from portatile.workloads.gemm.forms.generic.point import MEDIUM, Generic, tile

MAGMA = replace(tile(1, (1, 1), (16, 16), (3, 3), 6, True), TXC=True)
"""Du et al., table 5, Tesla C2050: 256 work-items load a tile 48 wide and 6 deep."""

NAKASATO = replace(tile(4, (8, 8), (8, 8), (1, 1), 8, False), TXC=True)
"""Du et al., table 5, Radeon 5870."""

NAKASATO_DOUBLE = replace(tile(2, (4, 4), (8, 8), (1, 1), 8, False), TXC=True)
"""The same in double precision, where a pixel holds two elements."""

PRESETS: Mapping[str, str] = {
    "magma": "Du et al., Table 5, Tesla C2050: 3 x 3 elements to a work-item, images and local memory",
    "magma-plain": "the same without images",
    "nakasato": "Du et al., Table 5, Radeon 5870: 8 x 8 elements to a work-item by vectors of 4 from images; float64: 4 x 4 by 2",
    "nakasato-plain": "the same without images",
    "nakasato-view": "nakasato with images that show the operands where they lie: nothing is copied",
    "medium": "tiles of 64 x 64 in local memory",
}
"""Name and description of each preset."""


WAYS = ("direct", "local", "image", "image local", "view", "view local", "panels", "panels local")
"""The ways by which the generic form reads an operand: from memory, from an image that a launch writes before, from an image that is a view
of the memory, or from packed panels; each either directly or through local memory."""


def staged(point: Generic, way_a: str, way_b: str) -> Generic:
    """The point of the generic form that reads A and B in these of the ``WAYS``; raises UnknownNameError for any other word.

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


def blocked(dtype: str) -> Generic:
    """The tile on which the ways are compared: 256 work-items with 8 x 8 elements each in vectors of 4, for float64
    4 x 4 in vectors of 2.
    """
    vector = 4 if dtype == "float32" else 2
    return tile(vector, (2 * vector, 2 * vector), (16, 16), (1, 1), 8, True)


def preset(name: str, dtype: str) -> Config:
    """The configuration of a named point for an element type; raises UnknownNameError for an unknown name.

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
