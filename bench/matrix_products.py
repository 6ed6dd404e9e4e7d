"""The products of bench/matrix_units.py: kinds of elements, points of the forms, and who multiplies which shape."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from portatile import workloads
from portatile.records import Config, DeviceInfo, Layout, Plan, Problem
from portatile.workload import Workload
from portatile.workloads.gemm import units
from portatile.workloads.gemm.forms.hopper import point as hopper
from portatile.workloads.gemm.forms.matrix import point as matrix
from portatile.workloads.gemm.point import Point

POINTS: dict[str, Point] = {
    "h 128x256": hopper.tile(128, 256, 4),
    "h 128x256 c2": hopper.tile(128, 256, 4, cluster=2),
    "h 128x256 c2 r4": replace(hopper.tile(128, 256, 4, cluster=2), RASTER=4),
    "h 128x256 c2 r16": replace(hopper.tile(128, 256, 4, cluster=2), RASTER=16),
    "h 256x128": hopper.tile(256, 128, 4, blocks=2),
    "h 256x128 c2": hopper.tile(256, 128, 4, blocks=2, cluster=2),
    "h 128x192 c1": hopper.tile(128, 192, 4),
    "h 192x192": replace(hopper.tile(192, 192, 4), MAPS=1),
    "h 192x192 c2": replace(hopper.tile(192, 192, 4, cluster=2), MAPS=1),
    "h 192x128": replace(hopper.tile(192, 128, 4), MAPS=1),
    "h 128x128": hopper.tile(128, 128, 6),
    "h 128x128 c2": hopper.tile(128, 128, 6, cluster=2),
    "h 64x256 c2": hopper.tile(64, 256, 4, cluster=2),
    "h 64x128": hopper.tile(64, 128, 6),
    "h 64x64": hopper.tile(64, 64, 6),
    "h 128x256 maps": replace(hopper.tile(128, 256, 4), MAPS=1),
    "m 128x128": replace(matrix.tile((2, 2), (4, 4), 3), RASTER=8),
    "m 64x64": matrix.tile((2, 2), (2, 2), 4),
    "m 64x64 w8": matrix.tile((2, 4), (2, 1), 4),
}
PROMOTED: dict[str, Point] = {
    name: replace(point, PROMOTE=units.PROMOTED)  # type: ignore[type-var]
    for name, point in {
        "p 256x128": hopper.tile(256, 128, 4, blocks=2),
        "p 256x128 c2": hopper.tile(256, 128, 4, blocks=2, cluster=2),
        "p 128x192": hopper.tile(128, 192, 4),
        "p 128x176": replace(hopper.tile(128, 176, 4), MAPS=1),
        "p 128x128": hopper.tile(128, 128, 6),
        "p 128x128 c2": hopper.tile(128, 128, 6, cluster=2),
        "p 64x128": hopper.tile(64, 128, 6),
        "p m 128x128": replace(matrix.tile((2, 4), (4, 2), 3), RASTER=8),
        "p m 64x64": matrix.tile((2, 2), (2, 2), 4),
    }.items()
}
"""Points for floats of eight bits."""

PEERS = ("cuBLAS", "cuBLAS queued")


@dataclass(frozen=True)
class Kind:
    """A kind of product: the problem's dtype, the dtypes of PyTorch's operands and result, the epilogue, and its workload."""

    dtype: str
    held: str
    result: str
    epilogue: Mapping[str, str] = field(default_factory=dict)
    workload: str = "gemm"

    @property
    def rounding(self) -> float:
        """Half the distance from 1 to the next number of the result."""
        return {"float16": 2.0**-11, "bfloat16": 2.0**-8}.get(self.result, 0.0)


KINDS = {
    "bfloat16": Kind("bfloat16", "bfloat16", "bfloat16"),
    "tfloat32": Kind("tfloat32", "float32", "float32"),
    "int8": Kind("int8", "int8", "int32"),
    "float16": Kind("float16", "float16", "float16"),
    "float8": Kind("float8_e4m3fn:bfloat16", "float8_e4m3fn", "bfloat16"),
    "int8-scaled": Kind("int8:bfloat16", "int8", "bfloat16", {"scale_a": "rows", "scale_b": "columns"}, "gemm_epilogue"),
    "bfloat16-gelu": Kind("bfloat16", "bfloat16", "bfloat16", {"bias": "columns", "activation": "gelu"}, "gemm_epilogue"),
    "float8-blocks": Kind("float8_e4m3fn:bfloat16", "float8_e4m3fn", "bfloat16", {}, "gemm_blocks"),
}


@dataclass(frozen=True)
class Job:
    """A shape of a kind in KINDS, and who multiplies it: a point of POINTS or PROMOTED, ``default``, ``OpenCL``, or one of PEERS.

    ``sizes``: m, n and k, of a stack behind the number of its problems. ``pad``: elements past each row, none in a stack.
    """

    name: str
    kind: str
    trans: str
    sizes: tuple[int, ...]
    timed: bool = True
    pad: int = 0

    @property
    def workload(self) -> Workload:
        return workloads.get("gemm_batched" if len(self.sizes) == 4 else KINDS[self.kind].workload)

    def problem(self) -> Problem:
        kind = KINDS[self.kind]
        options = {"trans_a": self.trans[0], "trans_b": self.trans[1], **kind.epilogue}
        sizes = dict(zip(("batch", "m", "n", "k")[-len(self.sizes) :], self.sizes, strict=True))
        if len(self.sizes) == 4:
            return self.workload.problem(sizes, kind.dtype, options)
        bare = self.workload.problem(sizes, kind.dtype, options)
        layout = {name: Layout((shape[1] + (self.pad if name in "abc" else 0), 1), 0) for name, shape in self.workload.shapes(bare).items()}
        return self.workload.problem(sizes, kind.dtype, options, layout)

    def config(self, device: DeviceInfo) -> Config:
        if self.name == "default":
            return self.workload.default(self.problem(), device)
        return {**POINTS, **PROMOTED}[self.name].config()

    def plan(self, device: DeviceInfo) -> Plan:
        return self.workload.plan(self.problem(), self.config(device), device)
