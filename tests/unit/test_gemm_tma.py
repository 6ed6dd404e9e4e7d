"""The tma form: what it computes in an interpreter of PTX, which rows of an operand the TMA brings, and where it is offered."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from portatile import workloads
from portatile.device.cuda import compiler as cuda_compiler
from portatile.errors import ArgumentError
from portatile.execute import Executable
from portatile.records import Launch, Layout, Problem
from portatile.workloads.gemm.forms import contenders, read
from portatile.workloads.gemm.forms.gpu import default as gpu
from portatile.workloads.gemm.forms.gpu import timings
from portatile.workloads.gemm.forms.tma import costs, default, estimate
from portatile.workloads.gemm.forms.tma.point import Tma, rows_aligned
from support.checking import check, draft
from support.devices import DEVICES, on_paper
from support.ptx_machine.device import INFO, PtxDevice
from support.seeds import new_seed

GEMM = workloads.get("gemm")
RESULTS = Path(__file__).parents[2] / "bench" / "results"
GPU = DEVICES["gpu"]
TWO = replace(INFO, compute_units=2)  # multiprocessors, so that groups that stay have several tiles
DOUBLES = Tma(TBR=1, TBC=2, TRR=1, TCR=1, KB=16, STAGES=3)
CASES: dict[str, tuple[Tma, str, str, tuple[int, int, int]]] = {
    **{trans: (DOUBLES, "float64", trans, (30, 34, 50)) for trans in ("NN", "NT", "TN", "TT")},
    "rows that no vector divides": (DOUBLES, "float64", "NT", (33, 35, 40)),
    "several tiles to a group": (replace(DOUBLES, GROUPS=1, RASTER=8), "float64", "NN", (40, 66, 40)),
    "parts": (replace(DOUBLES, KB=32, KG=2, STAGES=4, COPIER=False, DOUBLE=2), "float64", "NT", (30, 34, 70)),
    "a second launch adds": (replace(DOUBLES, SPLIT_K=3, COPIER=False), "float64", "TN", (30, 34, 90)),
    "the last group adds": (replace(DOUBLES, SPLIT_K=3, JOIN=True), "float64", "NN", (30, 34, 90)),
    "a cluster adds": (replace(DOUBLES, KG=2, STAGES=4, SPLIT_K=2, CLUSTER=2), "float64", "TN", (30, 34, 90)),
    "clusters share k": (replace(DOUBLES, SPLIT_K=4, CLUSTER=2, JOIN=True), "float64", "TT", (30, 34, 90)),
    "more blocks of a warp": (replace(DOUBLES, TRR=3, KB=32), "float64", "NT", (62, 60, 40)),
    "warps below each other": (replace(DOUBLES, TBR=2, TBC=1, TCR=3, KB=32), "float64", "TT", (62, 60, 40)),
}
needs_nvrtc = pytest.mark.skipif(cuda_compiler.available() is not None, reason=f"no CUDA compiler: {cuda_compiler.available()}")


def product(dtype: str, trans: str, sizes: tuple[int, int, int], layout: dict[str, Layout] | None = None) -> Problem:
    return GEMM.problem(dict(zip("mnk", sizes, strict=True)), dtype, {"trans_a": trans[0], "trans_b": trans[1]}, layout)


@pytest.mark.drawn(1 / 3)
@needs_nvrtc
@pytest.mark.parametrize("name", CASES)
def test_what_it_computes(name: str) -> None:
    point, dtype, trans, sizes = CASES[name]
    verdict = check(PtxDevice(TWO), GEMM, product(dtype, trans, sizes), point.config(), np.random.default_rng(new_seed(name)))
    assert verdict.ok, verdict.message


def test_which_rows_are_aligned() -> None:
    shifted = {"a": Layout((64, 1), 1, 256), "b": Layout((64, 1), 0, 256), "c": Layout((64, 1), 0, 256)}
    for trans, sizes, layout, aligned in (
        ("TN", (62, 64, 33), None, True),
        ("TN", (63, 64, 33), None, False),
        ("NN", (63, 64, 34), None, True),
        ("NT", (63, 63, 36), None, True),
        ("TN", (62, 64, 20), shifted, False),
        ("TN", (64, 64, 20), {**shifted, "a": Layout((64, 1), 0, 8)}, False),
    ):
        assert rows_aligned(product("float64", trans, sizes, layout)) == aligned, (trans, sizes, layout)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"KG": 2}, "STAGES must be a multiple of KG"),
        ({"GROUPS": 1, "SPLIT_K": 2}, "do not split k"),
        ({"GROUPS": 1, "COPIER": False}, "need a COPIER"),
        ({"SPLIT_K": 6, "CLUSTER": 4, "JOIN": True}, "or divide it with JOIN"),
        ({"TRR": 4, "TCR": 4}, "sums fit in registers"),
    ],
)
def test_what_contradicts_itself(changed: dict[str, int], words: str) -> None:
    with pytest.raises(ArgumentError, match=words):
        GEMM.plan(product("float64", "NN", (64, 64, 200)), replace(DOUBLES, **changed).config(), GPU)


def test_what_it_does_not_multiply() -> None:
    for case, words in (
        (product("float32", "NN", (64, 64, 64)), "is for float64"),
        (product("float64", "NN", (64, 64, 63)), "aligned to 16 bytes"),
    ):
        with pytest.raises(ArgumentError, match=words):
            GEMM.plan(case, DOUBLES.config(), GPU)
    with pytest.raises(ArgumentError, match="takes no tensor maps from the host"):
        GEMM.plan(product("float64", "NN", (64, 64, 64)), DOUBLES.config(), on_paper("gpu", "sm_80"))


def test_clusters_that_share_k_leave_a_share_each() -> None:
    plan = GEMM.plan(product("float64", "NN", (30, 64, 400)), replace(DOUBLES, SPLIT_K=8, CLUSTER=4, JOIN=True).config(), GPU)
    (step,) = plan.steps
    assert isinstance(step, Launch)
    assert step.global_size == (2 * 2 * 4 * DOUBLES.items, 2, 1)
    assert {one.name: one.nbytes for one in plan.temporaries} == {"planes": 2 * 4 * 16 * 32 * 8, "counters": 4 * 4 * 4}


def test_a_device_without_clusters_joins() -> None:
    point = replace(DOUBLES, SPLIT_K=8, CLUSTER=4, JOIN=True)
    other = replace(GPU, compute_units=8)
    assert point.lowered(other) == replace(point, CLUSTER=1)
    assert point.lowered(GPU) == point


def test_it_is_offered_where_it_can_run() -> None:
    case = product("float64", "TN", (484, 868, 1012))
    assert {config["FORM"] for config in contenders(case, GPU, 12)} == {"tma", "gpu"}
    for config in GEMM.contenders(case, GPU):
        GEMM.plan(case, config, GPU)
    for other, device in ((product("float64", "NN", (484, 868, 1011)), GPU), (case, on_paper("gpu", "sm_80")), (case, DEVICES["cpu"])):
        assert default.point(other, device, 1) is None
        assert not list(default.contenders(other, device, 12))
    assert default.point(case, GPU, 2) is None


def test_what_is_timed() -> None:
    """Stages of either depth; and where operands exceed the last cache, the best point with its tiles in either order."""
    found = [(one.rows, one.columns, one.KB, one.RASTER) for one in default.contenders(product("float64", "TT", (1204, 9332, 900)), GPU, 6)]
    assert {(64, 128, 16, 1), (64, 128, 32, 1)} <= set(found)
    assert len(found) == len(set(found)) == 7
    assert found[1] == (*found[0][:3], 8)
    found = [(one.rows, one.columns, one.KB, one.RASTER) for one in default.contenders(product("float64", "TT", (604, 832, 900)), GPU, 6)]
    assert {order for *_, order in found} == {1}


def test_long_products_are_its_own_where_estimates_are_nearly_equal() -> None:
    """The gpu form takes longer than estimated where a GPU draws all the power that it may."""

    def chosen(*sizes: int) -> bool:
        return default.point(product("float64", "NT", (sizes[0], sizes[1], sizes[2])), GPU, 1) is not None

    nearly = [(side, side, side) for side in (2048, 4096)]
    for sizes in nearly:
        case = product("float64", "NT", sizes)
        took, other = default._ranked(case, GPU, 1)[0][0], gpu.expected(case, GPU)
        assert other is not None
        assert 1 < took / other < 1.02
    assert [chosen(*sizes) for sizes in nearly] == [False, True]
    assert not chosen(8192, 8192, 8192), "no product of its length was timed"


def test_what_the_estimate_expects() -> None:
    known = costs.of("CUDA C++")

    def took(one: Tma, *sizes: int) -> float:
        case = product("float64", "TN", (sizes[0], sizes[1], sizes[2]))
        return float(estimate.microseconds(estimate.shape_of(case, GPU), estimate.columns_of([one]), known)[0])

    assert took(DOUBLES, 512, 512, 512) < took(DOUBLES, 512, 512, 4096) < took(DOUBLES, 4096, 4096, 4096)
    assert took(replace(DOUBLES, SPLIT_K=8, CLUSTER=8), 64, 64, 8192) < took(DOUBLES, 64, 64, 8192)
    assert costs.of("another language") == known


def test_the_constants_name_the_timings_that_they_are_fitted_to() -> None:
    written = json.loads(costs.FILE.read_text())
    for name, digest in written["results"].items():
        path = RESULTS / name
        assert hashlib.sha256(path.read_bytes()).hexdigest() == digest
        assert name in written["command"]
        assert timings.read(path).device.can.language in written["costs"]


def test_uneven_warps_boxes_and_ragged_rows_take_longer() -> None:
    """Six warps than eight for the same tile, boxes of single stages than of two, C whose rows are not aligned than one whose are."""
    known = costs.of("CUDA C++")

    def took(case: Problem, **changes: int) -> float:
        columns = estimate.columns_of([replace(Tma(TBR=4, TBC=2, TRR=1, TCR=1, KB=32, STAGES=3), **changes)])
        return float(estimate.microseconds(estimate.shape_of(case, GPU), columns, known)[0])

    deep = product("float64", "TN", (1024, 1024, 4096))
    assert took(deep, TBR=3) > took(deep)
    assert took(deep, KB=16) > took(deep)
    assert took(product("float64", "TT", (1024, 4095, 64))) > took(product("float64", "TT", (1024, 4096, 64)))


def test_through_another_compiler_it_is_only_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    case, known = product("float64", "TN", (484, 868, 1012)), costs.of("CUDA C++")
    assert default.point(case, GPU, 1) is not None
    monkeypatch.setattr(costs, "known", lambda: {"another": known})
    assert default.point(case, GPU, 1) is None
    assert list(default.contenders(case, GPU, 4))


def test_configurations_are_read_back() -> None:
    point = replace(DOUBLES, SPLIT_K=4, JOIN=True)
    assert read(point.config()) == point


@needs_nvrtc
def test_a_map_is_made_once_for_an_address(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs on the same memory take the maps of the run before, those on other memory have their own, and both are right."""
    device, problem = PtxDevice(TWO), product("float64", "NN", (16, 16, 32))
    made: list[int] = []
    usual = device.tensor_map
    monkeypatch.setattr(device, "tensor_map", lambda memory, form: (made.append(memory.handle), usual(memory, form))[1])
    rng = np.random.default_rng(new_seed("maps"))
    arrays = [{name: rng.random((16, 32) if name == "a" else (32, 16)) for name in "ab"} for _ in range(2)]
    plan = GEMM.plan(problem, DOUBLES.config(), device.info)
    with device.queue() as queue, Executable(device, plan, partial(draft, device)) as executable:
        memories = [{name: device.allocate(array.nbytes) for name, array in one.items()} for one in arrays]
        for place in (0, 0, 1, 0, 0):
            for name, array in arrays[place].items():
                queue.upload(memories[place][name], array)
            c, result = device.allocate(16 * 16 * 8), np.empty((16, 16))
            executable.run(queue, {**memories[place], "c": c}, {"alpha": 1.0, "beta": 0.0})
            queue.download(result, c)
            np.testing.assert_allclose(result, arrays[place]["a"] @ arrays[place]["b"], rtol=1e-12)
    assert len(made) == 3 * 2, "of A and B, for each of three changes"
