"""GEMM on every device: the cases of the BLAS, every form and transposition, and what must not be read."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from portatile import cache, execute, program, workloads
from portatile.device.base import Device
from portatile.records import Config, Problem, Value
from portatile.workload import Inputs
from portatile.workloads import operands
from portatile.workloads.gemm import forms, presets, storage
from portatile.workloads.gemm.capabilities import MMA_SHAPES, matrix_shapes, matrix_units
from portatile.workloads.gemm.forms.cpu.point import register
from portatile.workloads.gemm.forms.generic.point import MEDIUM, Generic, tile
from portatile.workloads.gemm.forms.gpu import tail
from portatile.workloads.gemm.forms.gpu.point import matrix, pipeline
from portatile.workloads.gemm.point import Point
from support.checking import check
from support.seeds import new_seed

pytestmark = pytest.mark.thinned(1 / 3)  # what it computes is asked of PoCL for other cases every time

WORKLOAD = workloads.get("gemm")
TRANSPOSITIONS = [{"trans_a": a, "trans_b": b} for a, b in itertools.product("NT", "NT")]

_PIPELINE = pipeline(4, (8, 8), (1, 1), 8, 2, 4)
POINTS: dict[str, Point] = {
    **{name: forms.read(presets.preset(name, "float32")) for name in presets.PRESETS},
    "arrays, split k": replace(MEDIUM, SCALARS=False, PAD=4, UNROLL=1, MAD="fma", SPLIT_K=3),
    "wide blocks": tile(8, (2, 8), (8, 8), (2, 1), 6, True),
    "register tile": register(8, 6, 2),
    "register tile, all packed, blocked": replace(register(4, 4, 3, 1, 16, 3), PACK_A=True),
    "register tile, B in place": replace(register(2, 3, 2, 1), PACK_B=False, MAD="mad"),
    "register tile, 512 bits": register(16, 4, 1, 2),
    "register tile, split k": replace(register(4, 2, 2), SPLIT_K=4),
    "register tile, one row": replace(register(4, 1, 4), PACK_B=False, KB=64),
    "staged": replace(register(8, 6, 2, 4, 16), SM=True, PACK_B=False),
    "staged, banded, A packed": replace(register(4, 3, 3, 2, 64, 2), SM=True, PACK_A=True, PACK_B=False),
    "columns": replace(register(4, 5, 2), TURN=True),
    "columns, A in place": replace(register(4, 2, 2, 2, 16), TURN=True, PACK_B=False),
    "columns, split k": replace(register(8, 4, 1), TURN=True, PACK_A=True, SPLIT_K=3),
    "columns, staged": replace(register(8, 4, 2, 4, 16), TURN=True, SM=True, PACK_A=True, PACK_B=False),
    "dots": replace(register(4, 3, 1), TC=2, KEEP=True, PACK_B=False),
    "dots, one column": replace(register(4, 5, 1, 1), TC=1, KEEP=True),
    "dots, split k": replace(register(8, 2, 1, 2), TC=4, KEEP=True, PACK_B=False, SPLIT_K=3),
    "pipeline": _PIPELINE,
    "pipeline, packed": replace(_PIPELINE, PACK_A=True, PACK_B=True, DOUBLE=1),
    "pipeline, one stage": replace(_PIPELINE, STAGES=1, DOUBLE=0, PAD=4, RASTER=0),
    "pipeline, transposed": replace(_PIPELINE, TURN=True, DOUBLE=1),
    "pipeline, transposed, one set": replace(_PIPELINE, TURN=True, KB=16, STAGES=3, DOUBLE=0),
    "pipeline, kept": replace(_PIPELINE, KEEP=True, KB=16, DOUBLE=1),
    "pipeline, kept, shared k": replace(_PIPELINE, KEEP=True, KB=32, STAGES=3, KG=2, RASTER=0),
    "pipeline, transposed, narrow": replace(pipeline(2, (8, 16), (3, 2), 8, 2, 4), TURN=True),
    "pipeline, kept, narrow": replace(pipeline(2, (16, 8), (3, 2), 32, 3, 4, double=0), KEEP=True),
    "pipeline, uneven copies": replace(_PIPELINE, TRR=3, TCR=3, PAD=4, DOUBLE=1),
    "pipeline, transposed, uneven": replace(_PIPELINE, TRR=3, KB=16, TURN=True),
    "pipeline, k in four": replace(_PIPELINE, KB=32, STAGES=3, KG=4, TRR=1, PAD=4),
    "pipeline, shared k": replace(_PIPELINE, KB=16, STAGES=3, KG=2, SPLIT_K=2, RASTER=8, DOUBLE=0),
    "pipeline, unrolled in part": replace(_PIPELINE, KB=16, UNROLL=4, MAD="mad"),
    "pipeline, transposed, unrolled in part": replace(_PIPELINE, KB=32, UNROLL=8, STAGES=3, TURN=True, DOUBLE=0),
    "pipeline, kept, unrolled in part": replace(_PIPELINE, KB=16, UNROLL=8, KEEP=True, DOUBLE=1, MAD="fma"),
    "tens": tile(2, (10, 10), (16, 16), (1, 1), 10, True),
    "read-only": replace(MEDIUM, LDG=True),  # plain reads where there is no such path
    "read-only, direct": replace(presets.NAKASATO, TXC=False, LDG=True),
}
_STAGED = ("staged", "staged, banded, A packed", "columns", "columns, staged")


def problem(
    sizes: tuple[int, int, int], dtype: str = "float32", options: dict[str, Value] | None = None, pad: int = 0, offset: int = 0
) -> Problem:
    """A problem with ``pad`` elements after each row of its operands, which begin ``offset`` elements into their memory."""
    bare = WORKLOAD.problem(dict(zip("mnk", sizes, strict=True)), dtype, options)
    layout = {name: operands.padded(shape, pad, offset) for name, shape in WORKLOAD.shapes(bare).items()}
    return WORKLOAD.problem(bare.sizes, dtype, options, layout)


def fitting(point: Point, case: Problem) -> Config | None:
    """The point for the problem's type, with narrower vectors where a form wants 16 bytes; None where it does not apply."""
    if case.dtype == "float64" and (point.FORM == "gpu" or (isinstance(point, Generic) and point.TXC and not point.SM)):
        point = replace(point, VL=2, TR=2 if point.FORM == "gpu" else point.TR, TC=2 if point.FORM == "gpu" else point.TC)
    if point.FORM == "cpu" and not (point.KEEP or point.PACK_B or point.SM):
        stored = storage.transposed(case) if point.TURN else case
        if stored.options["trans_b"] == "T" or stored.sizes["n"] < point.TC:
            return None
    return point.config()


_FOR_GPUS = [pytest.param(name, marks=pytest.mark.unoptimised) for name, point in POINTS.items() if point.FORM != "cpu"]


@pytest.mark.thinned(1 / 3)
@pytest.mark.parametrize("name", [*(name for name, point in POINTS.items() if point.FORM == "cpu"), *_FOR_GPUS])
def test_every_form_is_right(device: Device, name: str) -> None:
    """Each point in both types with one transposition each, on awkward shapes; on CPUs fewer of these, drawn anew every time."""
    rng = np.random.default_rng(new_seed(name))
    dtypes = ["float32", "float64"] if device.info.fp64 else ["float32"]
    few = device.info.kind == "cpu"  # where they take long to compile
    if few and POINTS[name].FORM != "cpu":  # which no CPU's user gets
        dtypes = [dtypes[int(rng.integers(len(dtypes)))]]
    checked = 0
    for dtype in dtypes:
        options = TRANSPOSITIONS[int(rng.integers(4))]
        if "in place" in name or "one row" in name:
            options = {**options, "trans_a" if POINTS[name].TURN else "trans_b": "T" if POINTS[name].TURN else "N"}
        if "dots" in name:
            options = {"trans_a": "N", "trans_b": "N" if POINTS[name].PACK_B else "T"}
        if "transposed" in name or "kept" in name:
            options = {"trans_a": "N", "trans_b": "T"}
        cases = WORKLOAD.awkward(WORKLOAD.problem({"m": 1, "n": 1, "k": 1}, dtype, options))
        aligned = "transposed" in name or "kept" in name  # along k, as these two are
        point = forms.read(presets.preset(name, dtype)) if name in presets.PRESETS else POINTS[name]
        places = rng.permutation((2, 5) if aligned else len(cases) - 1)
        fit = [(cases[place], config) for place in places if (config := fitting(point, cases[place])) is not None]
        for case, config in fit[: 1 if few else 2]:
            if device.info.images or not config.get("TXC"):
                verdict = check(device, WORKLOAD, case, config, rng)
                assert verdict.ok, f"{options} {case.sizes}: {verdict.message}"
                checked += 1
    assert checked or not device.info.images


@pytest.mark.thinned(1 / 3)
@pytest.mark.parametrize("options", TRANSPOSITIONS, ids=lambda o: f"{o['trans_a']}{o['trans_b']}")
@pytest.mark.parametrize("sizes", [(1, 1, 1), (127, 129, 131), (100, 17, 409), (70, 1, 301), (5, 290, 67)])
def test_the_default_is_right(device: Device, sizes: tuple[int, int, int], options: dict[str, Value]) -> None:
    rng = np.random.default_rng(new_seed(str(sizes)))
    case = problem(sizes, "float32", options, pad=int(rng.integers(3)), offset=int(rng.integers(3)))
    verdict = check(device, WORKLOAD, case, WORKLOAD.default(case, device.info), rng)
    assert verdict.ok, verdict.message


@pytest.mark.unoptimised
@pytest.mark.parametrize(("alpha", "beta"), [(1.0, 0.0), (0.0, 0.0), (0.0, 1.25), (0.0, 1.0), (-2.5, 1.0), (0.7, -1.3)])
@pytest.mark.parametrize("name", ["medium", "register tile", "arrays, split k", "register tile, all packed, blocked", *_STAGED])
def test_factors_decide_what_is_read(device: Device, name: str, alpha: float, beta: float) -> None:
    """beta = 0 ignores a C of NaN, alpha = 0 ignores A and B of NaN, as the BLAS does."""
    case = problem((50, 41, 35), pad=2, offset=1)

    def alter(inputs: Inputs) -> Inputs:
        memory = dict(inputs.operands)
        for operand in memory:
            ignored = beta == 0 if operand == "c" else alpha == 0
            fill = np.full_like(memory[operand], np.nan)
            random = operands.random(rng, case.layout[operand], WORKLOAD.shapes(case)[operand], case.dtype)
            memory[operand] = fill if ignored else random
        return Inputs(memory, {"alpha": alpha, "beta": beta})

    rng = np.random.default_rng(new_seed(name))
    verdict = check(device, WORKLOAD, case, POINTS[name].config(), rng, alter)
    assert verdict.ok, verdict.message


@pytest.mark.unoptimised
def test_factors_change_from_run_to_run(device: Device) -> None:
    """One executable, two kernels that take alpha: the same factors again, others, one of them the same object, and a zero."""
    case, config = problem((33, 18, 20)), replace(_PIPELINE, PACK_A=True).config()
    rng = np.random.default_rng(new_seed("factors"))
    inputs = WORKLOAD.inputs(case, rng)
    for array in inputs.operands.values():
        array[:] = rng.standard_normal(array.size)  # where the factors that were drawn let something be ignored, it was NaN
    plan = WORKLOAD.plan(case, config, device.info)
    a, b, c = (operands.view(inputs.operands[x], case.layout[x], WORKLOAD.shapes(case)[x]).astype(np.float64) for x in "abc")
    queue, memory = device.default_queue(), {name: device.allocate(array.nbytes) for name, array in inputs.operands.items()}
    with execute.Executable(device, plan, lambda source: program.build(source, device.target, cache.default())) as executable:
        minus = -2.0
        for alpha, beta in ((minus, 1.5), (minus, 1.5), (float("-2"), 0.0), (0.0, minus), (-0.0, minus), (np.float64(0.5), 1), (3, 1.5)):
            for name, array in inputs.operands.items():
                queue.upload(memory[name], array)
            executable.run(queue, memory, {"alpha": alpha, "beta": beta})
            result = np.empty_like(inputs.operands["c"])
            queue.download(result, memory["c"])
            seen = operands.view(result, case.layout["c"], (33, 18))
            np.testing.assert_allclose(seen, alpha * (a @ b) + beta * c, rtol=1e-4, atol=1e-4)
    for held in memory.values():
        held.release()


@pytest.mark.unoptimised
@pytest.mark.parametrize("beta", [0.0, 1.0, -0.5])
def test_no_terms_scale_c(device: Device, beta: float) -> None:
    case = problem((33, 18, 0), pad=1)
    shape = (33, 18)

    def alter(inputs: Inputs) -> Inputs:
        c = operands.storage(case.layout["c"], shape, case.dtype)
        if beta != 0:
            c = operands.random(rng, case.layout["c"], shape, case.dtype)
        return Inputs({**inputs.operands, "c": c}, {"alpha": 1.0, "beta": beta})

    rng = np.random.default_rng(new_seed("no terms"))
    verdict = check(device, WORKLOAD, case, WORKLOAD.default(case, device.info), rng, alter)
    assert verdict.ok, verdict.message


@pytest.mark.unoptimised
@pytest.mark.parametrize("options", TRANSPOSITIONS, ids=lambda o: f"{o['trans_a']}{o['trans_b']}")
def test_a_tail_is_right(device: Device, options: dict[str, Value]) -> None:
    """A tile more than one wave: it splits its k."""
    rng = np.random.default_rng(new_seed("tail"))
    case = problem((32 * device.info.compute_units + 20, 30, 300), "float32", options, pad=int(rng.integers(2)))
    point = replace(_PIPELINE, TAIL=1, PACK_A=bool(rng.integers(2)))
    assert tail.cut(case, point, device.info) is not None
    verdict = check(device, WORKLOAD, case, point.config(), rng)
    assert verdict.ok, verdict.message


@pytest.mark.unoptimised
@pytest.mark.parametrize("parts", [4, 16])
def test_split_k_repeats_bit_for_bit(device: Device, parts: int) -> None:
    """The reduction adds its parts in a fixed order: two runs agree in every bit."""
    from support.checking import run

    case = problem((70, 50, 400))
    inputs = WORKLOAD.inputs(case, np.random.default_rng(new_seed("split")))
    config = replace(MEDIUM, SPLIT_K=parts).config()
    first, _ = run(device, WORKLOAD, case, config, inputs)
    again, _ = run(device, WORKLOAD, case, config, inputs)
    assert first["c"].tobytes() == again["c"].tobytes()


@pytest.mark.unoptimised
def test_blas_grid(device: Device) -> None:
    """The sizes and factors of the reference BLAS's own test, sampled, with one element of padding after each row."""
    rng = np.random.default_rng(new_seed("grid"))
    grid = list(itertools.product((0, 1, 2, 3, 5, 9), (0, 1, 2, 3, 5, 9), (0, 1, 2, 3, 5, 9), TRANSPOSITIONS))
    for place in rng.choice(len(grid), 24, replace=False):
        m, n, k, options = grid[place]
        case = problem((m, n, k), "float64" if device.info.fp64 else "float32", options, pad=1)
        factors = {"alpha": float(rng.choice([0, 1, 0.7])), "beta": float(rng.choice([0, 1, 1.3]))}

        def alter(inputs: Inputs, case: Problem = case, factors: dict[str, float] = factors) -> Inputs:
            shapes = WORKLOAD.shapes(case)
            return Inputs({name: operands.random(rng, case.layout[name], shapes[name], case.dtype) for name in shapes}, factors)

        verdict = check(device, WORKLOAD, case, WORKLOAD.default(case, device.info), rng, alter)
        assert verdict.ok, f"{m} {n} {k} {options} {factors}: {verdict.message}"


def test_matrix_units_are_right(device: Device) -> None:
    """float64 through NVIDIA's matrix instructions on whole and broken tiles."""
    if not matrix_units(device.info):
        pytest.skip(f"{device.info.id} has no float64 matrix instruction of 16 x 8 x 8")
    rng = np.random.default_rng(new_seed("mma"))
    points = [
        matrix(warps, blocks, kb, 3, double, lanes)
        for lanes in (8, 4)
        for warps, blocks, kb, double in (
            ((2, 2), (2, 2), 16, 1),
            ((1, 2), (2, 1), 16, 2),
            ((1, 1), (1, 3), 32, 1),
            ((1, 1), (3, 1), 16, 0),
        )
    ]
    first = int(rng.integers(4))
    for point, options in zip(points, itertools.islice(itertools.cycle(TRANSPOSITIONS), first, None), strict=False):
        for sizes in ((128, 192, 64), (67, 131, 37)):
            case = problem(sizes, "float64", options)
            verdict = check(device, WORKLOAD, case, replace(point, PACK_A=sizes[0] == 67).config(), rng)
            assert verdict.ok, f"{options} {sizes}: {verdict.message}"


@pytest.mark.parametrize("shape", MMA_SHAPES)
def test_every_shape_of_matrix_instructions_is_right(device: Device, shape: str) -> None:
    """With operands in their places and exchanged, on whole and broken tiles."""
    if shape not in matrix_shapes(device.info):
        pytest.skip(f"{device.info.id} has no fast float64 matrix instruction of {shape}")
    rng = np.random.default_rng(new_seed(shape))
    for lanes, options in itertools.product((8, 4), TRANSPOSITIONS):
        double = int(rng.integers(3))
        point = replace(matrix((2, 2), (2, 1), 32, 3, double, lanes), MMA_SHAPE=shape, UNROLL=int(rng.choice((16, 32))))
        if shape == "16x8x16" and double:
            point = replace(point, UNROLL=32)
        case = problem((128, 64, 96) if rng.integers(2) else (67, 131, 37), "float64", options)
        verdict = check(device, WORKLOAD, case, point.config(), rng)
        assert verdict.ok, f"{point} {options} {case.sizes}: {verdict.message}"


@pytest.mark.unoptimised
@pytest.mark.parametrize("point", [MEDIUM, tile(4, (8, 8), (16, 16), (1, 1), 16, True), POINTS["tens"]])
def test_shuffles_are_right(device: Device, point: Point) -> None:
    if not device.info.nvidia:
        pytest.skip(f"{device.info.id} has none of NVIDIA's instructions")
    rng = np.random.default_rng(new_seed("shuffle"))
    for dtype, options in itertools.product(("float32", "float64"), TRANSPOSITIONS):
        case = problem((163, 170, 37), dtype, options)
        verdict = check(device, WORKLOAD, case, replace(point, SHUFFLE=True, LDG=bool(rng.integers(2))).config(), rng)
        assert verdict.ok, f"{dtype} {options}: {verdict.message}"
