"""Products with few rows or columns of C: which get the thin form, what it asks of a device, and its code for CUDA without a GPU."""

from __future__ import annotations

import itertools
from dataclasses import replace
from math import prod

import numpy as np
import pytest

from portatile import program, workloads
from portatile.device.cuda import compiler as cuda_compiler
from portatile.errors import ArgumentError
from portatile.records import DeviceInfo, Launch, Problem, Value
from portatile.workloads import operands
from portatile.workloads.gemm.forms.thin.point import column
from portatile.workloads.gemm.point import Point
from support.checking import check
from support.devices import DEVICES, on_paper
from support.ptx_machine.device import PtxDevice
from support.seeds import new_seed

WORKLOAD = workloads.get("gemm")
GPU = DEVICES["gpu"]
OPENCL = replace(GPU, backend="opencl", local_memory=48 * 1024)
SMALL = replace(OPENCL, vendor="someone else", architecture="x", local_memory=16 * 1024, max_work_group_size=256, compute_units=20)
COMPILES = pytest.mark.skipif(cuda_compiler.available() is not None, reason=f"no CUDA compiler: {cuda_compiler.available()}")
TRANSPOSITIONS = tuple("".join(pair) for pair in itertools.product("NT", "NT"))


def problem(m: int, n: int, k: int, dtype: str = "float32", trans: str = "NN", pad: int = 0, offset: int = 0) -> Problem:
    bare = WORKLOAD.problem({"m": m, "n": n, "k": k}, dtype, {"trans_a": trans[0], "trans_b": trans[1]})
    layout = {name: operands.padded(shape, pad, offset) for name, shape in WORKLOAD.shapes(bare).items()}
    return WORKLOAD.problem(bare.sizes, dtype, bare.options, layout)


def launches(case: Problem, point: Point | None = None, info: DeviceInfo = GPU) -> list[Launch]:
    plan = WORKLOAD.plan(case, WORKLOAD.default(case, info) if point is None else point.config(), info)
    return [step for step in plan.steps if isinstance(step, Launch)]


@pytest.mark.parametrize("info", [GPU, OPENCL, SMALL, on_paper("gpu", "sm_80")], ids=["cuda", "opencl", "small", "sm_80"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_default_is_legal_wherever_it_is_thin(info: DeviceInfo, dtype: str) -> None:
    rng = np.random.default_rng(new_seed("thin defaults"))
    for trans in TRANSPOSITIONS * 12:
        few, many, k = int(rng.integers(1, 9)), int(2 ** rng.uniform(4, 15)), int(2 ** rng.uniform(0, 17))
        m, n = (few, many) if rng.integers(2) else (many, few)
        case = problem(m, n, k, dtype, trans, int(rng.integers(3)), int(rng.integers(3)))
        config = WORKLOAD.default(case, info)
        assert config["FORM"] == "thin"
        assert config["TURN"] is (m < n)
        assert WORKLOAD.space(case, info).violated(config) is None, f"{case.sizes} {trans} {config}"
        assert sum(step.kernel == "gemm" for step in launches(case, info=info)) == 1
        assert WORKLOAD.waste(case, config, info) >= 1


def test_other_shapes_and_devices_keep_their_forms() -> None:
    for sizes in ((9, 4096, 4096), (4096, 9, 4096), (64, 64, 64)):
        assert WORKLOAD.default(problem(*sizes), GPU)["FORM"] == "gpu"
    assert WORKLOAD.default(problem(1, 4096, 4096), DEVICES["cpu"])["FORM"] == "cpu"
    space = WORKLOAD.space(problem(512, 512, 512), GPU)
    thin = WORKLOAD.default(problem(1, 512, 512), GPU)
    assert space.violated(thin) is not None
    assert {config["FORM"] for config in itertools.islice(WORKLOAD.space(problem(1, 512, 512), GPU).neighbours(thin), 20)} == {"thin"}


def test_small_ones_take_one_launch_and_deep_ones_share_the_sum() -> None:
    for sizes in ((1, 256, 256), (256, 1, 256), (8, 300, 500), (4096, 1, 4096), (1, 4096, 4096)):
        assert len(launches(problem(*sizes))) == 1
    other = replace(GPU, vendor="someone else")  # whose groups are not trusted to find the last one
    for sizes in ((64, 1, 262144), (1, 64, 65536), (8, 8, 65536)):
        config = WORKLOAD.default(problem(*sizes), GPU)
        assert int(config["SPLIT_K"]) > 1
        assert config["JOIN"] is True
        assert len(launches(problem(*sizes))) == 1
        assert [step.kernel for step in launches(problem(*sizes), info=other)] == ["gemm", "gemm_reduce"]
    assert WORKLOAD.default(problem(64, 1, 65536), GPU)["SPLIT_K"] == 1, "one group reads a row as fast as several add up"


def test_planes_of_rows_that_follow_one_another_are_added_as_one_row() -> None:
    config = replace(column(4, (2, 1), 4, 64, 2), SPLIT_K=4)
    packed, loose = (launches(problem(640, 1, 4096, pad=pad), config)[-1] for pad in (0, 1))
    assert packed.global_size == (640, 1, 1)
    assert loose.global_size == (64, 640, 1)


def test_vectors_are_read_where_they_are_aligned() -> None:
    point = column(4, (4, 1), 8, 32, 2)
    for sizes, trans, pad, width in (
        ((64, 1, 512), "NN", 0, 4),
        ((64, 1, 511), "NN", 0, 1),
        ((64, 1, 510), "NN", 0, 2),
        ((64, 1, 511), "NN", 1, 4),
        ((64, 1, 511), "TN", 0, 4),
        ((62, 1, 511), "TN", 2, 2),
    ):
        assert f"#define W {width}\n" in launches(problem(*sizes, trans=trans, pad=pad), point)[0].source.text


def test_large_local_memory_is_an_argument_in_cuda_only() -> None:
    point = replace(column(4, (4, 8), 16, 16, 1, staged=512), STAGES=4)
    for info, kinds in ((GPU, ["local"]), (OPENCL, [])):
        (launch,) = launches(problem(512, 8, 512), point, info)
        assert [arg.kind for arg in launch.args if arg.kind == "local"] == kinds


def test_contradictions_are_refused() -> None:
    base = column(4, (2, 2), 4, 32, 2)
    wrongs: dict[str, dict[str, Value]] = {
        "power of two": {"TR": 3},
        "TRR=2 does nothing in the thin form": {"TRR": 2},
        "PACK_A=True does nothing": {"PACK_A": True},
        "KB must be a multiple of KG": {"SM": True, "KB": 64},
        "KB=128 does nothing in the thin form unless SM": {"KB": 128},
        "TAIL=1 does nothing": {"TAIL": 1},
    }
    for message, wrong in wrongs.items():
        with pytest.raises(ArgumentError, match=message):
            WORKLOAD.plan(problem(64, 2, 64), {**base.config(), **wrong}, GPU)


@pytest.mark.drawn(1 / 3)
@COMPILES
@pytest.mark.parametrize(
    ("sizes", "dtype", "trans"),
    [
        ((4096, 8, 4096), "float32", "NN"),
        ((4096, 8, 4096), "float64", "NT"),
        ((8, 4097, 4095), "float64", "TN"),
        ((1, 4096, 4096), "float32", "NN"),
        ((4096, 4, 4095), "float32", "NN"),
        ((2, 4096, 4096), "float64", "NN"),
    ],
)
def test_defaults_spill_nothing(sizes: tuple[int, int, int], dtype: str, trans: str) -> None:
    """The code for sm_90 keeps everything in registers, of which a work-group has enough."""
    (launch, *_) = launches(problem(*sizes, dtype, trans))
    resources = program.build(launch.source, cuda_compiler.CudaTarget("sm_90"), None).resources["gemm"]
    assert (resources.spill_stores, resources.spill_loads) == (0, 0)
    assert resources.registers * prod(launch.local_size) <= 65536


@pytest.mark.drawn(1 / 3)
@COMPILES
@pytest.mark.parametrize("trans", TRANSPOSITIONS)
def test_the_form_is_right_without_a_gpu(trans: str) -> None:
    """In an interpreter of PTX: vectors and elements, a broken last step, rows past the end, sums that groups share."""
    rng = np.random.default_rng(new_seed(trans))
    dtype = "float32" if rng.integers(2) else "float64"
    point = replace(column(2, (2, 2), 4, 8, 1, staged=64, split=2), STAGES=int(rng.choice([1, 3])), TURN=bool(rng.integers(2)))
    for few, many, k, pad in ((3, 21, 77, 0), (2, 16, 64, 2)):
        m, n = (few, many) if point.TURN else (many, few)
        verdict = check(PtxDevice(), WORKLOAD, problem(m, n, k, dtype, trans, pad, offset=pad), point.config(), rng)
        assert verdict.ok, f"{m} {n} {k} {dtype}: {verdict.message}"
