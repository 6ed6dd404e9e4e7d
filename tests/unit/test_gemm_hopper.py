"""The hopper form in an interpreter of PTX: operands whose rows begin anywhere, and factors of blocks of k."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from portatile import workloads
from portatile.device.cuda import compiler
from portatile.device.cuda.info import capabilities
from portatile.errors import ArgumentError
from portatile.records import Launch, Layout, Problem, Value
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
    workload = BLOCKS if problem.workload == "gemm_blocks" else GEMM
    verdict = check(PtxDevice(DEVICE), workload, problem, point.config(), np.random.default_rng(new_seed(name)))
    assert verdict.ok, verdict.message


CASES: dict[str, tuple[str, str, tuple[int, int, int], tuple[int, int, int], int, str]] = {
    "aligned": ("int8", "NT", (20, 66, 144), (0, 0, 0), 0, "none"),
    "bytes, odd rows": ("int8", "NT", (20, 66, 131), (0, 0, 3), 3, "ab"),
    "bytes, at an offset": ("int8", "NT", (35, 20, 130), (1, 5, 0), 1, "ab"),
    "bytes, words": ("int8", "NT", (70, 16, 132), (0, 4, 0), 4, "ab"),
    "bytes, more steps than stages": ("int8", "NT", (10, 12, 715), (0, 0, 0), 2, "ab"),
    "bytes, eight at a time beside the TMA": ("int8", "NT", (20, 20, 136), (0, 8, 0), 0, "a"),
    "odd rows of b beside copied ones": ("int8", "NT", (20, 30, 37), (0, 0, 0), 3, "b"),
    "halves along and across k": ("float16", "NN", (33, 65, 71), (0, 0, 0), 0, "ab"),
    "halves across and along k": ("bfloat16:float32", "TT", (65, 34, 67), (0, 2, 0), 1, "ab"),
    "halves, one by the TMA": ("float16:float32", "TN", (64, 66, 65), (0, 0, 0), 0, "b"),
    "eight bits": ("float8_e4m3fn:bfloat16", "NT", (10, 20, 131), (0, 0, 0), 0, "ab"),
    "four bytes": ("tfloat32", "NT", (20, 30, 35), (0, 1, 0), 1, "ab"),
}


@pytest.mark.parametrize("name", CASES)
def test_rows_that_begin_anywhere_are_copied_by_work_items(name: str) -> None:
    dtype, trans, sizes, pads, offset, loaded = CASES[name]
    right(case(dtype, trans, sizes, pads, offset), replace(SMALL, LOADED=loaded), name)


@pytest.mark.parametrize("columns", [32, 144])
def test_factors_of_blocks_come_with_the_tiles(columns: int) -> None:
    """Those of columns are read before a block's products have ended, of wide tiles as they are applied."""
    sizes = {"m": 20, "n": 70 if columns < 70 else 150, "k": 300 if columns < 70 else 130}
    problem = BLOCKS.problem(sizes, "float8_e5m2:bfloat16", {"trans_a": "N", "trans_b": "T"})
    right(problem, replace(SMALL, TCR=columns // 16), f"factors {columns}")


@pytest.mark.parametrize(("dtype", "columns", "pad", "offset"), [("float8_e4m3fn:bfloat16", 97, 0, 5), ("float16", 72, 6, 2)])
def test_rows_of_16_bits_are_stored_by_chunks_wherever_they_begin(dtype: str, columns: int, pad: int, offset: int) -> None:
    bare = case(dtype, "NT", (20, columns, 32))
    layout = {**bare.layout, "c": Layout((columns + pad, 1), offset)}
    right(GEMM.problem(bare.sizes, dtype, bare.options, layout), replace(SMALL, TCR=5 if pad else 4), dtype)


def test_operands_are_loaded_as_they_lie_where_that_is_expected_to_be_faster() -> None:
    """Small products and those of few columns; a large one is worth the copy before it. Aligned rows are the TMA's."""
    for sizes, kernels in (
        ((331, 451, 50), ["gemm"]),
        ((512, 512, 512), ["gemm"]),
        ((8032, 36, 4180), ["gemm_lines", "gemm"]),
        ((4097, 4095, 4099), ["gemm_lines", "gemm"]),
    ):
        problem = case("float8_e4m3fn:bfloat16", "NT", sizes)
        config = GEMM.default(problem, WHOLE)
        assert config["FORM"] == "hopper"
        assert (config["LOADED"] == "none") == (sizes[2] in (512, 4099))
        assert GEMM.space(problem, WHOLE).violated(config) is None
        steps = [step for step in GEMM.plan(problem, config, WHOLE).steps if isinstance(step, Launch)]
        assert [step.kernel for step in steps] == kernels[-len(steps) :]


@pytest.mark.parametrize(
    ("more", "words"),
    [({"CLUSTER": 2}, "for one warp group alone"), ({"TURN": True}, "for one warp group alone")],
)
def test_what_cannot_be_loaded_is_refused(more: dict[str, Value], words: str) -> None:
    with pytest.raises(ArgumentError, match=words):
        replace(SMALL, LOADED="ab", **more).check({"block": 0, "eight_bits": False, "unit_type": True, "batched": False})  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="cannot be LOADED"):
        GEMM.plan(case("int8", "NN", (20, 30, 40)), replace(SMALL, LOADED="b").config(), DEVICE)


def test_tiles_suit_an_operand_with_slow_k_beside_a_loaded_one() -> None:
    """The TMA copies it 128 bytes across at a time."""
    for m, trans in itertools.product((40, 300, 2000), ("NN", "TN", "TT")):
        problem = case("float16", trans, (m, 256, 333))
        GEMM.plan(problem, GEMM.default(problem, WHOLE), WHOLE)
        for config in GEMM.contenders(problem, WHOLE):
            GEMM.plan(problem, config, WHOLE)
