"""What GEMM decides without a device: points, plans, spaces, defaults, bounds, and the code of its fastest forms."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from portatile import program, workloads
from portatile.device.cuda import compiler as cuda_compiler
from portatile.errors import ArgumentError, UnknownNameError
from portatile.records import DeviceInfo, Layout, Value
from portatile.workloads import operands
from portatile.workloads.gemm import forms, presets
from portatile.workloads.gemm.forms.cpu.point import register
from portatile.workloads.gemm.forms.generic.point import MEDIUM, tile
from portatile.workloads.gemm.forms.gpu import tail
from portatile.workloads.gemm.forms.gpu.point import Gpu, matrix, pipeline
from portatile.workloads.gemm.point import Point
from support.checking import check
from support.compiling import Interpreted
from support.gemm import CPU, GPU, WORKLOAD, launches, problem
from support.ptx_machine.device import PtxDevice
from support.seeds import new_seed

OPENCL_GPU = replace(GPU, backend="opencl", local_memory=48 * 1024)
BIG = pipeline(4, (16, 16), (4, 2), 16, 2, 4)


def test_the_presets_are_the_documents() -> None:
    """Table 5 of Du et al., line by line, and what a work-group and a work-item compute; in float64 4 x 4 by vectors of two."""
    names = ("VL", "TC", "TR", "TBC", "TBR", "TCR", "TRR", "KB", "TXC", "SM")
    single, double = ({name: WORKLOAD.preset(name, problem(8, 8, 8, t)) for name in WORKLOAD.presets} for t in ("float32", "float64"))
    assert [single["nakasato"][name] for name in names] == [4, 8, 8, 8, 8, 1, 1, 8, True, False]
    assert [single["magma"][name] for name in names] == [double["magma"][name] for name in names] == [1, 1, 1, 16, 16, 3, 3, 6, True, True]
    assert [double["nakasato"][name] for name in names] == [2, 4, 4, 8, 8, 1, 1, 8, True, False]
    for point in (single, double):
        for name in ("magma", "nakasato"):
            images = ("TXC", "TXC_OF", "VIEW_A", "VIEW_B")
            assert point[f"{name}-plain"] == {"TXC": False, **{key: value for key, value in point[name].items() if key not in images}}
    with pytest.raises(UnknownNameError, match="magma-plain"):
        WORKLOAD.preset("magma-images", problem(8, 8, 8))
    magma, nakasato = forms.read(single["magma"]), forms.read(single["nakasato"])
    assert (magma.items, magma.rows, magma.columns, magma.KB) == (256, 48, 48, 6)
    assert magma.columns * magma.KB % magma.items != 0, "the loads of this point do not divide evenly, that is why it is here"
    assert (nakasato.items, nakasato.rows, nakasato.columns, nakasato.TR * nakasato.TC) == (64, 64, 64, 64)


@pytest.mark.parametrize("info", [CPU, GPU, OPENCL_GPU], ids=["cpu", "cuda", "opencl gpu"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_presets_are_legal_everywhere(info: DeviceInfo, dtype: str) -> None:
    space = WORKLOAD.space(problem(160, 160, 160, dtype), info)
    for name in presets.PRESETS:
        assert space.violated(presets.preset(name, dtype)) is None, name


def test_every_parameter_has_a_meaning() -> None:
    assert set(BIG.config()) < set(WORKLOAD.meanings)
    assert set(WORKLOAD.meanings) == {"FORM", *forms.parameters()}
    alone = {"TXC", "TXC_OF", "VIEW_A", "VIEW_B", "TAIL", "ALIGNED", "SHIFT", "REST"}  # what a batch has no use for
    assert set(workloads.get("gemm_batched").meanings) == set(WORKLOAD.meanings) - alone


@pytest.mark.parametrize("info", [CPU, GPU, OPENCL_GPU], ids=["cpu", "cuda", "opencl gpu"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_whatever_the_space_holds_has_a_plan(info: DeviceInfo, dtype: str) -> None:
    rng = np.random.default_rng(new_seed("configurations"))
    for trans_a, trans_b, *sizes in (("N", "N", 512, 512, 512), ("N", "T", 1000, 17, 4097), ("T", "N", 1000, 17, 4097)):
        case = problem(*sizes, dtype, {"trans_a": trans_a, "trans_b": trans_b})
        space = WORKLOAD.space(case, info)
        for config in space.scatter(rng, 4):
            point = forms.read(config)
            plan = WORKLOAD.plan(case, config, info)
            assert plan.steps
            assert point.items <= info.max_work_group_size
            assert point.config() == dict(config)


def test_sizes_are_arguments() -> None:
    """Problems whose sizes the tile divides share one text, and so do problems that it does not divide."""
    config = replace(BIG, PACK_A=True).config()
    even = {WORKLOAD.plan(problem(256 * i, 128 * i, 16 * i), config, GPU).steps[-1].source for i in range(1, 9)}  # type: ignore[union-attr]
    odd = {WORKLOAD.plan(problem(256 * i + 1, 128 * i + 1, 16 * i + 1), config, GPU).steps[-1].source for i in range(1, 9)}  # type: ignore[union-attr]
    assert (len(even), len(odd)) == (1, 1)


def test_plans_have_the_steps_they_need() -> None:
    case = problem(1000, 500, 700)
    kernels = [step.kernel for step in launches(WORKLOAD.plan(case, replace(BIG, PACK_A=True, PACK_B=True, SPLIT_K=4).config(), GPU))]
    assert kernels == ["gemm_pack", "gemm", "gemm_reduce"]
    plan = WORKLOAD.plan(case, replace(BIG, PACK_A=True).config(), GPU)
    assert plan.workspace == 4 * 1024 * 704, "panels 256 rows wide and a multiple of KB deep"
    passes = [step for step in launches(WORKLOAD.plan(case, register(8, 6, 2, 4, 256, 43).config(), CPU)) if step.kernel == "gemm"]
    starts = [next(arg.value for arg in step.args if arg.name == "start") for step in passes]
    assert starts == [0, 234, 468], "700 terms in three launches of nearly equal length"
    assert [any(arg.name == "beta" for arg in step.args) for step in passes] == [True, False, False]
    assert launches(WORKLOAD.plan(problem(0, 5, 5), BIG.config(), GPU)) == []
    assert [step.kernel for step in launches(WORKLOAD.plan(problem(5, 5, 0), BIG.config(), GPU))] == ["gemm_reduce"]


def test_storage_decides_how_tiles_are_filled() -> None:
    """What gpu.cl does for aligned and for odd storage, with k slow and with k fast."""

    def staged(m: int, k: int, trans_a: str, **change: Value) -> str:
        plan = WORKLOAD.plan(problem(m, 128, k, options={"trans_a": trans_a}), {**BIG.config(), **change}, GPU)
        return launches(plan)[-1].source.text

    for m, k, trans_a, change, size in (
        (256, 64, "T", {}, 16),
        (255, 64, "T", {}, 4),
        (256, 64, "N", {}, 4),
        (255, 63, "N", {"PACK_A": True}, 16),
    ):
        assert f"COPY_ASYNC_{size}(a_to" in (text := staged(m, k, trans_a, **change)) or f"COPY_ASYNC_{size}_IF(a_to" in text
    assert "a_held[s] =" in staged(256, 64, "N", TURN=True)
    assert "COPY_ASYNC_16(a_to" in staged(256, 64, "N", TRR=1, KEEP=True), "what keeps k fast is copied as it lies"
    assert "COPY_ASYNC_4_IF(a_to" in staged(256, 63, "N", TRR=1, KEEP=True)
    assert "a_held[s] =" not in staged(256, 63, "N", TURN=True), "rows of 63 elements are not whole vectors"
    assert "COPY_ASYNC_16_IF(a_to" not in staged(256, 64, "T"), "a tile that divides is copied without guards"


def test_matrix_instructions_take_operands_as_they_lie() -> None:
    """Whatever the transposition, a tile for matrix instructions is filled 16 bytes at a time, and no kernel packs before."""
    point = matrix((2, 2), (2, 2), 16, 3)
    for trans_a, trans_b in itertools.product("NT", "NT"):
        plan = WORKLOAD.plan(problem(256, 256, 256, "float64", {"trans_a": trans_a, "trans_b": trans_b}), point.config(), GPU)
        (launch,) = launches(plan)
        assert {part.split("(")[0] for part in launch.source.text.split("COPY_ASYNC_")[1:]} == {"16", "COMMIT", "WAIT"}
        (plain,) = launches(WORKLOAD.plan(problem(255, 255, 255, "float64", {"trans_a": trans_a, "trans_b": trans_b}), point.config(), GPU))
        assert "COPY_ASYNC_16" not in plain.source.text


def test_a_tail_fills_the_last_wave() -> None:
    """5120^3 in tiles of 128 x 128 with two groups on each of 132 multiprocessors: 1600 tiles, six waves and sixteen tiles more."""
    case, point = problem(5120, 5120, 5120), replace(pipeline(4, (16, 16), (2, 2), 16, 3, 4), PACK_A=True, TAIL=2)
    assert (cut := tail.cut(case, point, GPU)) is not None
    assert (cut.above, cut.parts) == (39 * 128, 13)
    steps = launches(WORKLOAD.plan(case, point.config(), GPU))
    assert [step.kernel for step in steps] == ["gemm_pack", "gemm", "gemm_pack", "gemm", "gemm_reduce"]
    assert [step.global_size[0] // 256 for step in steps if step.kernel == "gemm"] == [39 * 40, 40]
    assert steps[3].global_size[1] == 13
    rows = [next(arg.value for arg in step.args if arg.name == "m") for step in steps if step.kernel != "gemm_pack"]
    assert rows == [39 * 128, 128, 128]
    whole = WORKLOAD.plan(case, replace(point, TAIL=0).config(), GPU)
    assert [step.kernel for step in launches(whole)] == ["gemm_pack", "gemm"]
    assert WORKLOAD.waste(case, point.config(), GPU) < 0.98 * WORKLOAD.waste(case, replace(point, TAIL=0).config(), GPU)
    assert WORKLOAD.space(case, GPU).violated(point.config()) is None
    assert WORKLOAD.space(problem(4096, 4096, 4096), GPU).violated(point.config()) is not None, "its last wave is nearly full"
    assert tail.cut(problem(5120, 5120, 128), point, GPU) is None, "there is no k to split"


def test_many_planes_are_added_by_several_work_items() -> None:
    for parts, shares in ((4, 1), (16, 4)):
        config = replace(MEDIUM, SPLIT_K=parts).config()
        assert launches(WORKLOAD.plan(problem(64, 64, 4096), config, GPU))[-1].local_size[1] == shares


def test_local_memory_above_48_kb_is_an_argument_in_cuda_only() -> None:
    case, config = problem(512, 512, 512, options={"trans_a": "T"}), replace(BIG, STAGES=3).config()
    for info, kinds in ((GPU, ["local"]), (OPENCL_GPU, [])):
        (launch,) = launches(WORKLOAD.plan(case, config, info))
        assert [arg.kind for arg in launch.args if arg.kind == "local"] == kinds


def test_contradictions_are_refused() -> None:
    case = problem(64, 64, 64)
    wrong: dict[str, Point | dict[str, Value]] = {
        "VL must divide TC": replace(MEDIUM, VL=8),
        "LANES": replace(BIG, LANES=2, TBR=8),
        "even number of steps": replace(BIG, KB=8, KG=8),
        "TBC=2 does nothing in the cpu form": {**register(8, 6, 2).config(), "TBC": 2},
        "exclude each other": replace(BIG, TURN=True, KEEP=True),
        "TR = TC = VL": replace(BIG, KEEP=True, TR=8, TRR=2),
        "TAIL splits k itself": replace(BIG, TAIL=1, PACK_B=True),
        "TAIL=1 does nothing in the generic form": {**MEDIUM.config(), "TAIL": 1},
        "KB must be a multiple of 16": replace(matrix((2, 2), (2, 2), 8, 3), DOUBLE=0),
        "TXC=True does nothing in the gpu form": {**BIG.config(), "TXC": True},
        "an image of A .TXC. exclude each other": replace(presets.NAKASATO, PACK_A=True),
        "SM_OF='A' does nothing in the generic form unless SM": {**presets.NAKASATO.config(), "SM_OF": "A"},
        "TXC_OF='B' does nothing": {**MEDIUM.config(), "TXC_OF": "B"},
        "SM_OF must be one of": replace(MEDIUM, SM_OF="BA"),
        "VIEW_B=True does nothing": {**presets.NAKASATO.config(), "TXC_OF": "A", "VIEW_B": True},
        "VIEW_A needs an image of 4096 pixels, .* has none over buffers": replace(presets.NAKASATO, TXC_OF="A", VIEW_A=True),
        "MMA needs VL = 2": replace(BIG, MMA=True),
        "MMA_SHAPE must be one of 8x8x4": replace(matrix((2, 2), (2, 2), 16, 3), MMA_SHAPE="8x8x8"),
        "16x8x16: of 16": replace(matrix((2, 2), (2, 2), 16, 3, 0), MMA_SHAPE="16x8x16", KG=2),
        "UNROLL must divide KB": replace(BIG, UNROLL=6),
        "an even number of such multiples": replace(BIG, UNROLL=1),
        "LDG=True does nothing in the gpu form": {**BIG.config(), "LDG": True},
        "SM must hold for A": replace(MEDIUM, SM=False, SHUFFLE=True),
        "whole warps": replace(tile(1, (4, 4), (4, 4), (1, 1), 8, True), SHUFFLE=True),
        "set PACK_B": replace(register(8, 6, 16), PACK_B=False),
        "KB = 0": replace(register(8, 6, 2, 4, 16, 3), SPLIT_K=2),
        "TXC reads pixels of 16 bytes": replace(presets.NAKASATO, VL=2),
        "has no images": presets.NAKASATO,
    }
    for message, point in wrong.items():
        with pytest.raises(ArgumentError, match=message):
            WORKLOAD.plan(case, point if isinstance(point, dict) else point.config(), replace(GPU, images=False))
    with pytest.raises(ArgumentError, match="float64 only"):
        WORKLOAD.plan(case, matrix((2, 2), (2, 2), 16, 3).config(), GPU)
    with pytest.raises(UnknownNameError, match="TRX"):
        WORKLOAD.plan(case, {**BIG.config(), "TRX": 1}, GPU)
    with pytest.raises(ArgumentError, match="type int"):
        WORKLOAD.plan(case, {**BIG.config(), "TR": "4"}, GPU)
    with pytest.raises(ArgumentError, match="FORM"):
        WORKLOAD.plan(case, {**BIG.config(), "FORM": "other"}, GPU)


@pytest.mark.parametrize(
    ("layout", "message"),
    [(Layout((1, 64)), "contiguous rows"), (Layout((32, 1)), "overlap"), (Layout((2**31, 1)), "32-bit")],
)
def test_layouts_that_are_not_indexed_are_refused(layout: Layout, message: str) -> None:
    case = WORKLOAD.problem({"m": 64, "n": 64, "k": 64}, layout={"b": layout})
    with pytest.raises(ArgumentError, match=message):
        WORKLOAD.plan(case, BIG.config(), GPU)


def test_the_bound_grows_with_the_terms_and_not_with_the_form() -> None:
    bounds = [WORKLOAD.bound(problem(8, 8, k), BIG.config()) for k in (1, 100, 8192)]
    assert bounds == sorted(bounds)
    assert bounds[-1] < 1e-3
    assert WORKLOAD.bound(problem(8, 8, 100, "float64"), BIG.config()) < 1e-13
    assert WORKLOAD.bound(problem(8, 8, 100), replace(BIG, SPLIT_K=16).config()) > bounds[1]


def test_a_large_reference_is_cheap() -> None:
    """Some 4000 elements of a product of 2048 terms, not 9 million; the corners are among them."""
    case = problem(3000, 3000, 200)
    inputs = WORKLOAD.usual_inputs(case, np.random.default_rng(1))
    assert inputs.scalars == {"alpha": 1.0, "beta": 0.0}
    expected = WORKLOAD.reference(case, inputs, np.random.default_rng(2))["c"]
    assert expected.indices is not None
    assert {0, 2999, 3000 * 2999, 3000 * 3000 - 1} <= set(expected.indices.tolist())
    assert 1000 < expected.values.size <= 4096


def test_operands_lie_where_the_layout_says() -> None:
    layout = operands.padded((3, 4), 2, 5)
    memory = operands.random(np.random.default_rng(0), layout, (3, 4), "float32")
    seen = operands.view(memory, layout, (3, 4))
    assert memory.size == 5 + 2 * 6 + 4
    assert np.isfinite(seen).all()
    assert int(np.isnan(memory).sum()) == memory.size - 12
    places = operands.places(layout, np.arange(3)[:, None], np.arange(4)[None, :])
    assert np.array_equal(memory[places], seen)
    with pytest.raises(ArgumentError, match="21 elements"):
        operands.view(memory[:-1], layout, (3, 4))
    assert operands.gamma(1, "float32") == pytest.approx(2**-24)
    assert operands.gamma(2**24, "float32") == float("inf")


def test_unknown_workloads_are_named() -> None:
    assert "gemm" in workloads.names()
    with pytest.raises(UnknownNameError, match="gemm"):
        workloads.get("gem")


@pytest.mark.drawn(1 / 4)
@pytest.mark.skipif(cuda_compiler.available() is not None, reason=f"no CUDA compiler: {cuda_compiler.available()}")
@pytest.mark.parametrize(
    ("point", "dtype"),
    [
        (BIG, "float32"),
        (pipeline(4, (16, 8), (2, 4), 16, 3, 4, double=1), "float32"),
        (replace(pipeline(4, (8, 8), (2, 2), 32, 2, 4), KG=2, PACK_A=True, PACK_B=True), "float32"),
        (replace(pipeline(4, (16, 8), (2, 2), 32, 2, 8, double=1), KEEP=True), "float32"),
        (matrix((2, 4), (2, 2), 16, 4), "float64"),
        (matrix((4, 2), (2, 4), 16, 4), "float64"),
        (matrix((4, 2), (2, 2), 32, 3, 2), "float64"),
        (matrix((2, 4), (4, 2), 16, 4, lanes=4), "float64"),
        (presets.MAGMA, "float64"),
        (presets.NAKASATO_DOUBLE, "float64"),
    ],
)
def test_fast_forms_fit_the_registers(point: Point, dtype: str) -> None:
    """The code for sm_90 spills nothing, and the matrix form uses the instruction it is named after."""
    for trans_a in "NT" if dtype == "float64" and isinstance(point, Gpu) else "T":
        plan = WORKLOAD.plan(
            problem(1024, 1024, 1024, dtype, {"trans_a": "N" if isinstance(point, Gpu) and point.KEEP else trans_a}), point.config(), GPU
        )
        source = launches(plan)[-1].source
        cubin = program.build(source, cuda_compiler.CudaTarget("sm_90"), None)
        resources = cubin.resources["gemm"]
        assert (resources.spill_stores, resources.spill_loads) == (0, 0)
    if isinstance(point, Gpu) and point.MMA:
        text = program.build(source, Interpreted("sm_90"), None).data.decode()
        assert text.count("mma.sync.aligned.m16n8k8") >= point.TRR * point.TCR * 2


@pytest.mark.drawn(1 / 4)
@pytest.mark.skipif(cuda_compiler.available() is not None, reason=f"no CUDA compiler: {cuda_compiler.available()}")
@pytest.mark.parametrize(
    ("trans_a", "trans_b", "sizes", "lanes"),
    [
        ("N", "N", (34, 30, 38), 8),
        ("N", "T", (35, 29, 37), 8),
        ("T", "N", (35, 29, 37), 8),
        ("T", "T", (32, 32, 32), 8),
        ("N", "N", (35, 29, 37), 4),
        ("T", "T", (34, 30, 38), 4),
    ],
)
def test_matrix_forms_are_right_without_a_gpu(trans_a: str, trans_b: str, sizes: tuple[int, int, int], lanes: int) -> None:
    """float64 by matrix instructions in an interpreter of PTX: aligned and odd storage, broken tiles and a broken last step."""
    rng = np.random.default_rng(new_seed(f"{trans_a}{trans_b}{lanes}"))
    warps, blocks = ((1, 2), (2, 1)) if rng.integers(2) else ((2, 1), (1, 2))
    point = matrix(warps, blocks, 16, 3, int(rng.integers(3)), lanes)
    verdict = check(PtxDevice(), WORKLOAD, problem(*sizes, "float64", {"trans_a": trans_a, "trans_b": trans_b}), point.config(), rng)
    assert verdict.ok, verdict.message


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "tfloat32", "int8"])
def test_contenders_are_legal_and_differ(dtype: str) -> None:
    """What is timed where a product is untuned; nothing on processors."""
    some = WORKLOAD.problem({"m": 443, "n": 327, "k": 864}, dtype, {"trans_a": "T"})
    space, found = WORKLOAD.space(some, GPU), WORKLOAD.contenders(some, GPU)
    assert len(found) > 1
    assert all(config in space for config in found)
    assert len({str(config) for config in found}) == len(found)
    assert WORKLOAD.contenders(some, CPU) == []
