"""The hopper form in an interpreter of PTX: operands whose rows begin anywhere, and factors of blocks of k."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from portatile import workloads
from portatile.device.cuda import compiler
from portatile.device.cuda.info import capabilities
from portatile.records import Layout, Problem
from portatile.workloads.gemm import units
from portatile.workloads.gemm.forms.hopper import point as hopper
from portatile.workloads.gemm.forms.hopper.point import Hopper
from support.checking import check
from support.ptx_machine.device import INFO, PtxDevice
from support.seeds import new_seed

pytestmark = pytest.mark.skipif(compiler.available() is not None, reason="NVRTC is missing")

GEMM, BLOCKS = workloads.get("gemm"), workloads.get("gemm_blocks")
DEVICE = replace(INFO, compute_units=2, capabilities=capabilities("sm_90"))  # two multiprocessors, so that groups have several tiles
WHOLE = replace(DEVICE, compute_units=132)
SMALL = replace(hopper.tile(64, 64, 3), MAPS=1)


def case(dtype: str, trans: str, sizes: tuple[int, int, int], pads: tuple[int, int, int] = (0, 0, 0), offset: int = 0) -> Problem:
    """A product whose rows are ``pads`` elements longer than they need be, A and B ``offset`` elements on."""
    options = {"trans_a": trans[0], "trans_b": trans[1]}
    bare = GEMM.problem(dict(zip("mnk", sizes, strict=True)), dtype, options)
    shapes = GEMM.shapes(bare)
    layout = {name: Layout((shapes[name][1] + pad, 1), 0 if name == "c" else offset) for name, pad in zip("abc", pads, strict=True)}
    return GEMM.problem(bare.sizes, dtype, options, layout)


def right(problem: Problem, point: Hopper, name: str) -> None:
    if units.promotes(problem):
        point = replace(point, PROMOTE=units.PROMOTED)
    verdict = check(PtxDevice(DEVICE), workloads.get(problem.workload), problem, point.config(), np.random.default_rng(new_seed(name)))
    assert verdict.ok, verdict.message


LINES: dict[str, tuple[str, str, tuple[int, int, int], tuple[int, int, int], int]] = {
    "bytes": ("int8", "NT", (130, 70, 131), (0, 1, 3), 0),
    "bytes, at an offset": ("int8", "NT", (129, 64, 131), (3, 1, 0), 3),
    "bytes, words": ("int8", "NT", (128, 64, 132), (0, 4, 0), 4),
    "halves": ("float16", "NT", (65, 130, 67), (1, 0, 0), 0),
    "halves along and across k": ("float16", "NN", (131, 66, 71), (0, 0, 0), 1),
}


@pytest.mark.parametrize("name", LINES)
def test_rows_that_begin_anywhere_are_copied_to_lines_first(name: str) -> None:
    """By groups whose words all lie within the operand, and by those at its edges."""
    right(case(*LINES[name]), SMALL, name)


@pytest.mark.parametrize(("dtype", "trans"), [("bfloat16", "TT"), ("float8_e5m2:bfloat16", "NT"), ("tfloat32", "NT")])
def test_three_warp_groups_share_a_tile(dtype: str, trans: str) -> None:
    right(case(dtype, trans, (200, 80, 150)), replace(SMALL, TBR=3), dtype)


def test_last_rows_are_left_to_smaller_tiles() -> None:
    """Three tiles for two multiprocessors: the last one becomes a product of its own, which begins amid A and C."""
    problem, point = case("bfloat16", "TN", (150, 56, 70), (10, 0, 3)), replace(SMALL, REST="64x64")
    cut = point.cut(problem, DEVICE)
    assert cut is not None
    assert cut.above == 128
    assert len(GEMM.plan(problem, point.config(), DEVICE).steps) == 2
    right(problem, point, "rest")


@pytest.mark.parametrize("columns", [32, 144])
def test_factors_of_blocks_come_with_the_tiles(columns: int) -> None:
    """Those of columns are read before a block's products have ended, of wide tiles as they are applied."""
    sizes = {"m": 20, "n": 70 if columns < 70 else 150, "k": 300 if columns < 70 else 130}
    problem = BLOCKS.problem(sizes, "float8_e5m2:bfloat16", {"trans_a": "N", "trans_b": "T"})
    right(problem, replace(SMALL, TCR=columns // 16), f"factors {columns}")


@pytest.mark.parametrize(
    ("dtype", "columns", "pad", "offset"),
    [
        *(("float8_e4m3fn:bfloat16", 97, 0, 5), ("float16", 72, 6, 2), ("float16", 136, 0, 0), ("bfloat16", 69, 11, 0)),
        *(("int8", 100, 0, 4), ("bfloat16:float32", 75, 0, 1), ("int8", 96, 4, 0)),
    ],
)
def test_rows_are_stored_in_whole_sectors_wherever_they_begin(dtype: str, columns: int, pad: int, offset: int) -> None:
    """Of 16 bits and of 32, aligned to 16 bytes or to none, for tiles of whole pieces and others; nothing beside them changes."""
    bare = case(dtype, "NT", (20, columns, 32))
    layout = {**bare.layout, "c": Layout((columns + pad, 1), offset)}
    right(GEMM.problem(bare.sizes, dtype, bare.options, layout), replace(SMALL, TCR=5 if pad else 4), dtype)


def test_sums_that_groups_share_are_stored_in_whole_sectors() -> None:
    right(case("bfloat16", "NT", (20, 68, 256)), replace(SMALL, SPLIT_K=2), "planes")


def test_tiles_suit_an_operand_with_slow_k_beside_a_copied_one() -> None:
    """The TMA copies it 128 bytes across at a time."""
    for m, trans in itertools.product((40, 300, 2000), ("NN", "TN", "TT")):
        problem = case("float16", trans, (m, 256, 333))
        GEMM.plan(problem, GEMM.default(problem, WHOLE), WHOLE)
        for config in GEMM.contenders(problem, WHOLE):
            GEMM.plan(problem, config, WHOLE)
