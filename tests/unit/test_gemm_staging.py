"""How gemm's generic form gets at each operand, decided without a device: memory, images, images over buffers, panels."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from portatile.device.cuda import compiler as cuda_compiler
from portatile.errors import ArgumentError
from portatile.workloads.gemm import presets
from portatile.workloads.gemm.forms.generic.point import tile
from support.checking import check
from support.gemm import CPU, GPU, WORKLOAD, launches, problem
from support.ptx_machine.device import PtxDevice
from support.seeds import new_seed


@pytest.mark.drawn(1 / 2)
@pytest.mark.skipif(cuda_compiler.available() is not None, reason=f"no CUDA compiler: {cuda_compiler.available()}")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_images_over_buffers_are_right_without_a_gpu(dtype: str) -> None:
    """In an interpreter of PTX, and compiled for two architectures without spills; their reads are textures of one row."""
    rng = np.random.default_rng(new_seed(dtype))
    vector = 4 if dtype == "float32" else 2
    small = tile(vector, (vector, vector), (4, 8), (1, 1), 8, True)
    for ways in (("view", "view local"), ("view local", "image"), ("panels", "view")):
        trans = dict(zip(("trans_a", "trans_b"), map(str, rng.choice(["N", "T"], 2)), strict=True))
        sizes = (9, 13, 11) if rng.integers(2) else (8, 16, 12)
        case = problem(*sizes, dtype, trans)
        verdict = check(PtxDevice(), WORKLOAD, case, presets.staged(small, *ways).config(), rng)
        assert verdict.ok, f"{ways} {trans} {sizes}: {verdict.message}"
    for architecture, trans_a in (("sm_80", "N"), ("sm_90", "T")):
        point = presets.staged(presets.blocked(dtype), "view", "view")
        case = problem(1024, 1024, 1024, dtype, {"trans_a": trans_a})
        source = launches(WORKLOAD.plan(case, point.config(), replace(GPU, architecture=architecture)))[-1].source
        target = cuda_compiler.CudaTarget(architecture)
        binary, text = target.compile_with_ptx(*target.lower(source))
        assert (binary.resources["gemm"].spill_stores, binary.resources["gemm"].spill_loads) == (0, 0)
        assert "tex.1d.v4." in text
        assert "ld.global" not in text.replace("ld.global.nc", "") or "tex.2d" not in text


def test_operands_are_staged_apart() -> None:
    """What launches a plan has, what its product is passed, and what it copies, for ways to A beside ways to B."""
    case = problem(64, 48, 40)
    small = tile(4, (4, 4), (8, 8), (1, 1), 8, True)
    for ways, kernels, kinds, copied in (
        (("direct", "direct"), ["gemm"], ("buffer", "buffer"), 0),
        (("view", "view local"), ["gemm"], ("view", "view"), 0),
        (("view local", "direct"), ["gemm"], ("view", "buffer"), 0),
        (("image", "local"), ["gemm_stage", "gemm"], ("image", "buffer"), 4 * 64 * 40),
        (("local", "image local"), ["gemm_stage", "gemm"], ("buffer", "image"), 4 * 48 * 40),
        (("panels local", "view"), ["gemm_pack", "gemm"], ("buffer", "view"), 4 * 64 * 40),
    ):
        point = presets.staged(small, *ways)
        plan = WORKLOAD.plan(case, point.config(), GPU)
        steps = launches(plan)
        assert [step.kernel for step in steps] == kernels
        passed = [arg for arg in steps[-1].args if arg.kind != "scalar"]
        assert tuple(arg.kind for arg in passed[:2]) == kinds
        assert plan.workspace == copied
        assert WORKLOAD.space(case, GPU).violated(point.config()) is None, ways
    assert replace(small, SM_OF="A").local_bytes(4) + replace(small, SM_OF="B").local_bytes(4) == small.local_bytes(4)


def test_images_over_buffers_have_the_pixels_that_lie_so() -> None:
    """16 bytes where rows are whole vectors, else an element, which is two pixels where images of two channels are not certain."""
    point = presets.staged(tile(2, (2, 2), (8, 8), (1, 1), 8, False), "view", "view")
    for m, info, pixels in ((64, GPU, (64 * 40 // 2, 4)), (63, GPU, (63 * 40, 2)), (63, CPU, (2 * 63 * 40, 1))):
        case = problem(m, 48, 40, "float64", {"trans_a": "T"})
        arg = next(arg for arg in launches(WORKLOAD.plan(case, point.config(), info))[-1].args if arg.kind == "view")
        assert (arg.name, arg.dtype, arg.value, arg.channels) == ("a", "uint32", *pixels)
    case = problem(8192, 8192, 8192)
    config = presets.staged(presets.blocked("float32"), "view", "view").config()
    assert WORKLOAD.space(case, GPU).violated(config) is None
    for known in (replace(GPU, image_buffer_max=2**26 - 1), replace(GPU, images=False)):
        assert WORKLOAD.space(case, known).violated(config) is not None


def test_a_row_of_an_image_may_be_shorter_than_its_pixels_allow() -> None:
    """CUDA bounds the bytes from row to row too: 131072 pixels of 16 bytes are a pitch that no texture has."""
    info = replace(GPU, image_2d_max=(131072, 65000), image_row_max=2097120 // 512 * 512)
    config, limit = presets.preset("nakasato", "float32"), 2097120 // 512 * 32
    for k, legal in ((limit, True), (limit + 1, False)):
        assert (WORKLOAD.space(problem(64, 64, k), info).violated(config) is None) == legal
    with pytest.raises(ArgumentError, match=f"at most {limit} x 65000"):
        WORKLOAD.plan(problem(64, 64, limit + 1), config, info)
