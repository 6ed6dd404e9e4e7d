"""The forms of GEMM on matrix units: fragments on every device, by plain arithmetic where it has none; warp groups on devices with them."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

import portatile
from portatile import cache, dtypes, execute, program, workloads
from portatile.device.base import Device
from portatile.errors import ArgumentError
from portatile.records import Layout, Problem
from portatile.workload import Inputs
from portatile.workloads.gemm import units
from portatile.workloads.gemm.forms.hopper import point as hopper
from portatile.workloads.gemm.forms.matrix import point as matrix
from portatile.workloads.gemm.point import Point
from support.checking import check, run
from support.seeds import new_seed

pytestmark = [pytest.mark.thinned(1 / 2), pytest.mark.unoptimised]

WORKLOAD = workloads.get("gemm")
TYPES = ("float16", "bfloat16", "int8", "tfloat32", "float16:float32", "bfloat16:float32", "float8_e4m3fn", "float8_e5m2:bfloat16")
SMALL = matrix.tile((2, 1), (2, 4), 2, double=0)
POINTS: dict[str, Point] = {
    "small": SMALL,
    "fragments ahead": replace(SMALL, STAGES=3, DOUBLE=1),
    "split k": replace(SMALL, SPLIT_K=3, RASTER=0),
    "bands": replace(SMALL, TBR=1, TBC=2, TRR=4, TCR=2, RASTER=8),
}
GROUPS: dict[str, Point] = {
    "two warp groups": hopper.tile(128, 256, 4),
    "one": hopper.tile(64, 128, 6),
    "two blocks of rows each": hopper.tile(256, 128, 4, blocks=2),
    "192 columns": replace(hopper.tile(128, 192, 4), RASTER=0),
    "split k": replace(hopper.tile(64, 64, 4), SPLIT_K=3, RASTER=1),
    "turned": replace(hopper.tile(128, 256, 4), TURN=True),
    "turned, two blocks of rows each, split k": replace(hopper.tile(256, 128, 4, blocks=2), TURN=True, SPLIT_K=2),
    "maps made by the host": replace(hopper.tile(64, 128, 4), MAPS=1),
    "maps made by the host, turned": replace(hopper.tile(128, 128, 4), MAPS=1, TURN=True),
    "a cluster": hopper.tile(128, 256, 4, cluster=2),
    "maps made by the host, for a cluster": replace(hopper.tile(64, 128, 6, cluster=4), MAPS=1),
    "maps made by the host, split k": replace(hopper.tile(128, 64, 8), MAPS=1, SPLIT_K=2, RASTER=0),
    "whole tiles by turns": replace(hopper.tile(256, 128, 4, blocks=2), MAPS=1, ALTERNATE=True),
    "whole tiles by turns, turned": replace(hopper.tile(128, 128, 3), ALTERNATE=True, TURN=True),
    "whole tiles by turns, for a cluster": replace(hopper.tile(128, 64, 5, cluster=2), MAPS=1, ALTERNATE=True),
    "sums joined": replace(hopper.tile(64, 64, 4), SPLIT_K=3, JOIN=True),
    "sums of two warp groups joined, turned": replace(hopper.tile(256, 64, 4, blocks=2), MAPS=1, SPLIT_K=2, JOIN=True, TURN=True),
    "sums joined in a cluster": replace(hopper.tile(128, 128, 4, cluster=2), MAPS=1, SPLIT_K=4, JOIN=True),
    "176 columns": replace(hopper.tile(128, 176, 4), MAPS=1),
    "176 columns, turned": replace(hopper.tile(64, 176, 4), TURN=True),
}


def groups(device: Device) -> dict[str, Point]:
    """The points for warp groups that the device takes."""
    can = device.info.can
    return {name: point for name, point in GROUPS.items() if can.warp_groups and (can.clusters or point.CLUSTER == 1)}


def promoting(point: Point, dtype: str) -> Point:
    """The point, as products of this type need it: with fewer columns, of a hopper form, where sums leave the units."""
    if not dtype.startswith("float8"):
        return point
    if isinstance(point, hopper.Hopper):
        point = replace(point, TCR=min(point.TCR, 12 if point.TRR == 1 else 8))
    return replace(point, PROMOTE=units.PROMOTED)  # type: ignore[type-var]


def drawn(rng: np.random.Generator, dtype: str, options: dict[str, str]) -> Problem:
    """One of the awkward shapes, or one that no tile divides whose operands are copied as they lie."""
    if rng.integers(2):
        cases = WORKLOAD.awkward(WORKLOAD.problem({"m": 1, "n": 1, "k": 1}, dtype, options))
        return cases[int(rng.integers(len(cases) - 1))]
    sizes = {name: int(rng.integers(1, 200)) for name in "mnk"}
    shapes = WORKLOAD.shapes(WORKLOAD.problem(sizes, dtype, options))
    layout = {
        name: Layout((-(-shape[1] // 16) * 16 + 16 * int(rng.integers(2)), 1), 16 * int(rng.integers(2))) for name, shape in shapes.items()
    }
    return WORKLOAD.problem(sizes, dtype, options, layout)


def right(device: Device, point: Point, dtype: str, rng: np.random.Generator) -> None:
    """The point on a shape and a way to store the operands that are drawn."""
    options = {f"trans_{name}": str(rng.choice(["N", "T"])) for name in "ab"}
    case, point = drawn(rng, dtype, options), promoting(point, dtype)
    if isinstance(point, hopper.Hopper) and not units.along(case, "a" if point.TURN else "b", fragments=True):
        point = replace(point, TCR=-(-point.TCR // 4) * 4)  # whole lines of the operand that is read along columns of the tile
    verdict = check(device, WORKLOAD, case, point.config(), rng)
    assert verdict.ok, f"{options} {dtype} {case.sizes}: {verdict.message}"


@pytest.mark.parametrize("dtype", TYPES)
def test_the_matrix_form_is_right(device: Device, dtype: str) -> None:
    rng = np.random.default_rng(new_seed(dtype))
    right(device, POINTS[str(rng.choice(list(POINTS)))], dtype, rng)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("name", GROUPS)
def test_warp_groups_are_right(device: Device, dtype: str, name: str) -> None:
    if name not in groups(device):
        pytest.skip("no warp groups multiply here, or no clusters run")
    rng = np.random.default_rng(new_seed(f"{dtype} {name}"))
    for _ in range(4):
        right(device, GROUPS[name], dtype, rng)


@pytest.mark.parametrize("dtype", ["bfloat16", "int8", "tfloat32"])
@pytest.mark.parametrize("copied", ["a", "b", "ab"])
def test_operands_copied_to_aligned_rows_are_right(device: Device, dtype: str, copied: str) -> None:
    """Of rows that are aligned to 16 bytes and to no more, whatever way they are stored."""
    if not device.info.can.warp_groups:
        pytest.skip("no warp groups multiply here")
    rng = np.random.default_rng(new_seed(dtype + copied))
    chunk = 16 // {"bfloat16": 2, "int8": 1, "tfloat32": 4}[dtype]
    for maps in (0, 1):
        options = {f"trans_{name}": str(rng.choice(["N", "T"])) for name in "ab"}
        sizes = {name: int(rng.integers(1, 300)) for name in "mnk"}
        shapes = WORKLOAD.shapes(WORKLOAD.problem(sizes, dtype, options))
        layout = {name: Layout(((-(-shape[1] // chunk) | 1) * chunk, 1), chunk) for name, shape in shapes.items()}
        case = WORKLOAD.problem(sizes, dtype, options, layout)
        point = replace(hopper.tile(128, 128, 4), ALIGNED=copied, MAPS=maps)
        verdict = check(device, WORKLOAD, case, point.config(), rng)
        assert verdict.ok, f"{options} {case.sizes}: {verdict.message}"


@pytest.mark.parametrize("dtype", TYPES)
def test_operands_whose_rows_begin_anywhere_are_right(device: Device, dtype: str) -> None:
    """Copied to rows along k first: odd rows, words, eight bytes at a time, at offsets, for tiles of one warp group and of three."""
    if not device.info.can.warp_groups:
        pytest.skip("no warp groups multiply here")
    rng = np.random.default_rng(new_seed(dtype))
    tiles = [hopper.tile(64, 64, 5), hopper.tile(192, 64, 3), hopper.tile(192, 128, 3), hopper.tile(128, 64, 4, blocks=2)]
    for unit, tile in zip((1, 4, 8, 1), tiles, strict=True):
        letters = [str(rng.choice(["N", "T"])) for _ in range(2)]
        sizes = {name: int(rng.integers(1, 420)) for name in "mnk"}
        bare = WORKLOAD.problem(sizes, dtype, {"trans_a": letters[0], "trans_b": letters[1]})
        layout = {
            name: Layout((-(-(shape[1] + int(rng.integers(9))) // unit) * unit, 1), unit * int(rng.integers(3)))
            for name, shape in WORKLOAD.shapes(bare).items()
        }
        case = WORKLOAD.problem(sizes, dtype, bare.options, layout)
        split = {"SPLIT_K": 3, "JOIN": bool(rng.integers(2))} if rng.integers(3) == 0 else {}
        point = replace(tile, MAPS=int(device.info.can.tensor_maps), RASTER=int(rng.choice([1, 8])), **split)  # type: ignore[arg-type]
        verdict = check(device, WORKLOAD, case, promoting(point, dtype).config(), rng)
        assert verdict.ok, f"{bare.options} {case.sizes} {layout} {point}: {verdict.message}"


@pytest.mark.parametrize("dtype", ["bfloat16", "float16:float32", "float8_e4m3fn:bfloat16", "int8:float16"])
def test_rows_of_c_that_begin_anywhere_are_right(device: Device, dtype: str) -> None:
    """Stored by chunks and what lies beside them, at every offset from a chunk, with what lies between rows kept."""
    if not device.info.can.warp_groups:
        pytest.skip("no warp groups multiply here")
    rng = np.random.default_rng(new_seed(dtype))
    for tile in (hopper.tile(128, 176, 4), hopper.tile(64, 64, 4)):
        sizes = {"m": int(rng.integers(1, 300)), "n": int(rng.integers(1, 400)), "k": 16 * int(rng.integers(1, 20))}
        bare = WORKLOAD.problem(sizes, dtype, {"trans_a": "N", "trans_b": "T"})
        layout = {**bare.layout, "c": Layout((sizes["n"] + int(rng.integers(12)), 1), int(rng.integers(9)))}
        case = WORKLOAD.problem(sizes, dtype, bare.options, layout)
        verdict = check(device, WORKLOAD, case, promoting(replace(tile, MAPS=1), dtype).config(), rng)
        assert verdict.ok, f"{case.sizes} {layout['c']}: {verdict.message}"


@pytest.mark.parametrize(("a", "b"), [("N", "N"), ("N", "T"), ("T", "N"), ("T", "T")])
def test_operands_are_taken_as_they_lie_where_that_is_possible(device: Device, a: str, b: str) -> None:
    """16-bit floats with aligned rows need no copy, whatever way they are stored; bytes need one where k is slow, both in one launch."""
    rng = np.random.default_rng(new_seed(a + b))
    sizes = {"m": 96, "n": 64, "k": 160}
    for dtype, copies in (("bfloat16", 0), ("int8", (a == "T") + (b == "N"))):
        case = WORKLOAD.problem(sizes, dtype, {"trans_a": a, "trans_b": b})
        assert len(WORKLOAD.plan(case, SMALL.config(), device.info).steps) == 1 + (copies > 0)
        if dtype == "bfloat16" or copies == 2:
            verdict = check(device, WORKLOAD, case, SMALL.config(), rng)
            assert verdict.ok, verdict.message


@pytest.mark.parametrize(("alpha", "beta"), [(0.0, 0.0), (0.0, 1.25), (-2.5, 1.0)])
def test_factors_decide_what_is_read(device: Device, alpha: float, beta: float) -> None:
    """beta = 0 ignores a C of NaN, alpha = 0 ignores A and B of NaN; of those that are copied first, too."""
    rng = np.random.default_rng(new_seed(f"{alpha} {beta}"))
    points = [SMALL, hopper.tile(128, 256, 4)] if device.info.can.warp_groups else [SMALL]
    for point, trans in itertools.product(points, "NT"):
        case = WORKLOAD.problem({"m": 40, "n": 72, "k": 70}, "float16", {"trans_a": trans})

        def alter(inputs: Inputs) -> Inputs:
            memory = {
                name: np.full_like(given, np.nan)
                if (beta == 0 if name == "c" else alpha == 0)
                else rng.uniform(-0.5, 0.5, given.shape).astype(given.dtype)
                for name, given in inputs.operands.items()
            }
            return Inputs(memory, {"alpha": alpha, "beta": beta})

        verdict = check(device, WORKLOAD, case, point.config(), rng, alter)
        assert verdict.ok, verdict.message


def test_products_wait_for_what_was_queued_before_them(device: Device) -> None:
    """Columns change places many times, from one array to the other and back, and nobody waits in between; with k split a sum follows."""
    rng = np.random.default_rng(new_seed("queued"))
    points: list[Point] = [SMALL, replace(SMALL, SPLIT_K=2)]
    if device.info.can.warp_groups:
        points = [replace(hopper.tile(64, 64, 4), MAPS=1), hopper.tile(64, 128, 4), replace(hopper.tile(128, 128, 4), MAPS=1, SPLIT_K=2)]
    size, count = (384, 60) if device.info.can.warp_groups else (64, 6)
    case = WORKLOAD.problem(dict.fromkeys("mnk", size), "bfloat16")
    places = rng.permutation(size)
    element = dtypes.product("bfloat16").operand.numpy
    first = rng.integers(-90, 90, (size, size)).astype(element)
    queue = device.default_queue()
    arrays = {"x": first, "y": np.zeros_like(first), "p": np.eye(size)[places].T.astype(element, "C")}
    memory = {name: device.allocate(array.nbytes) for name, array in arrays.items()}
    for point in points:
        for name, array in arrays.items():
            queue.upload(memory[name], array)
        plan = WORKLOAD.plan(case, point.config(), device.info)
        executable = execute.Executable(device, plan, lambda source: program.build(source, device.target, cache.default()))
        for place in range(count):
            a, c = ("x", "y") if place % 2 == 0 else ("y", "x")
            executable.run(queue, {"a": memory[a], "b": memory["p"], "c": memory[c]}, {"alpha": 1.0, "beta": 0.0})
        got = np.empty_like(first)
        queue.download(got, memory["x"])
        expected = first
        for _ in range(count):
            expected = expected[:, places]
        np.testing.assert_array_equal(got, expected)
        executable.release()
    for held in memory.values():
        held.release()


@pytest.mark.parametrize("dtype", ["bfloat16", "int8"])
def test_batches_are_right(device: Device, dtype: str) -> None:
    """Stacks whose matrices share one operand or lie apart, copied first or not."""
    rng = np.random.default_rng(new_seed(f"matrix batch of {dtype}"))
    batched = workloads.get("gemm_batched")
    options = {f"trans_{name}": str(rng.choice(["N", "T"])) for name in "ab"}
    cases = batched.awkward(batched.problem({"batch": 1, "m": 1, "n": 1, "k": 1}, dtype, options))
    cases.append(batched.problem({"batch": 3, "m": 64, "n": 80, "k": 32}, dtype, options))
    case = cases[int(rng.integers(len(cases)))]
    for point in (SMALL, *groups(device).values()):
        verdict = check(device, batched, case, point.config(batched=True), rng)
        assert verdict.ok, f"{case.sizes}: {verdict.message}"


@pytest.mark.parametrize("dtype", ["bfloat16", "float16:float32", "int8:float16", "float8_e4m3fn:bfloat16"])
def test_epilogues_are_right(device: Device, dtype: str) -> None:
    """Scales, a bias and an activation in the launch of the product, or with split k in the one that adds."""
    rng = np.random.default_rng(new_seed(dtype))
    workload = workloads.get("gemm_epilogue")
    options = {"scale_a": "rows", "scale_b": "columns", "bias": str(rng.choice(["rows", "columns"]))}
    options["narrow"] = str(rng.choice(["none", "bias"]))
    options["activation"] = str(rng.choice(["relu", "gelu", "gelu_tanh", "silu"]))
    case = workload.problem({"m": 70, "n": int(rng.choice([100, 104])), "k": 150}, dtype, options)  # stored one by one, or several
    if rng.integers(2):  # vectors of which four cannot be read at once
        case = replace(case, layout={**case.layout, **{name: replace(case.layout[name], offset=3) for name in ("bias", "scale_b")}})
    points = [SMALL, replace(SMALL, SPLIT_K=2)]
    for point in [*points, hopper.tile(64, 128, 4)] if device.info.can.warp_groups else points[: 1 + int(rng.integers(2))]:
        verdict = check(device, workload, case, promoting(point, dtype).config(), rng)
        assert verdict.ok, f"{options}: {verdict.message}"


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2"])
def test_whole_numbers_of_eight_bits_are_multiplied_exactly(device: Device, dtype: str) -> None:
    """Sums that need no more than the 14 bits that units keep are exact, those with subnormal operands too; NaN stays in its row."""
    rng = np.random.default_rng(new_seed(dtype))
    kind = dtypes.numpy_type(dtype)
    case = WORKLOAD.problem({"m": 72, "n": 40, "k": 300}, dtype, {"trans_b": "T"})
    stored = {name: rng.integers(-3, 4, shape).astype(np.float32) for name, shape in (("a", (72, 300)), ("b", (40, 300)))}
    stored["a"][3, 7] = np.nan
    least = 2.0**-9 if dtype == "float8_e4m3fn" else 2.0**-16  # the smallest number
    stored["a"][:, 9] *= least
    stored["b"][:, 9] *= 2.0**-3 / least
    points = [SMALL, hopper.tile(128, 128, 4)] if device.info.can.warp_groups else [SMALL]
    for point in points:
        given = {name: stored[name].astype(kind).ravel() for name in "ab"} | {"c": np.full(72 * 40, np.nan, np.float32)}
        found, _ = run(device, WORKLOAD, case, promoting(point, dtype).config(), Inputs(given, {"alpha": 1.0, "beta": 0.0}))
        exact = stored["a"].astype(np.float64) @ stored["b"].T
        assert np.array_equal(found["c"].reshape(72, 40), exact, equal_nan=True)


def test_factors_of_blocks_are_applied_as_sums_leave_the_units(device: Device) -> None:
    rng = np.random.default_rng(new_seed("blocks"))
    workload = workloads.get("gemm_blocks")
    case = workload.problem(
        {"m": 70, "n": 100, "k": 300}, "float8_e4m3fn:bfloat16", {"trans_a": str(rng.choice(["N", "T"])), "trans_b": "T"}
    )
    points = [SMALL, replace(SMALL, SPLIT_K=2)]
    of_groups = [hopper.tile(128, 128, 4), replace(hopper.tile(64, 64, 3), SPLIT_K=2, JOIN=True), replace(hopper.tile(64, 128, 4), MAPS=1)]
    for point in [*points, *of_groups] if device.info.can.warp_groups else points[: 1 + int(rng.integers(2))]:
        verdict = check(device, workload, case, promoting(point, case.dtype).config(), rng)
        assert verdict.ok, verdict.message


def test_defaults_use_the_units_of_a_device(device: Device) -> None:
    for dtype in TYPES:
        case = WORKLOAD.problem({"m": 1024, "n": 1024, "k": 1024}, dtype)
        form = WORKLOAD.default(case, device.info)["FORM"]
        assert (form in ("matrix", "hopper")) == units.unit(case, device.info)


def test_float32_may_be_multiplied_with_fewer_digits(device: Device) -> None:
    """Where there are no units for it, in full; of other types it is refused."""
    rng = np.random.default_rng(new_seed("tf32"))
    a, b = rng.standard_normal((70, 90)).astype(np.float32), rng.standard_normal((90, 50)).astype(np.float32)
    bound = 2.0**-8 * (np.abs(a).astype(np.float64) @ np.abs(b))
    for result in (
        portatile.matmul(a, b, precision="tf32", device=device.info.id),
        portatile.gemm(a, b, precision="tf32", device=device.info.id),
    ):
        assert result.dtype == np.float32
        assert (np.abs(result - a.astype(np.float64) @ b) <= bound).all()
    with pytest.raises(ArgumentError, match="for products of float32"):
        portatile.matmul(a.astype(np.float64), b.astype(np.float64), precision="tf32", device=device.info.id)
    with pytest.raises(ArgumentError, match="precision='low'"):
        portatile.gemm(a, b, precision="low", device=device.info.id)  # type: ignore[arg-type]
