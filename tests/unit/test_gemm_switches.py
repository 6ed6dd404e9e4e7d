"""GEMM's later parameters: shapes of matrix instructions, unrolling in part, read-only loads, shuffles; and what older results mean."""

from __future__ import annotations

import itertools
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from portatile import program, select, store, workloads
from portatile.device import ptx
from portatile.device.cuda import compiler as cuda_compiler
from portatile.errors import ArgumentError
from portatile.records import Launch, Problem, Value
from portatile.workloads.gemm import forms, rungs
from portatile.workloads.gemm import space as gemm_space
from portatile.workloads.gemm.capabilities import MMA_SHAPES, matrix_shapes
from portatile.workloads.gemm.forms.cpu.point import register
from portatile.workloads.gemm.forms.generic.point import MEDIUM, tile
from portatile.workloads.gemm.forms.gpu.point import matrix, pipeline
from portatile.workloads.gemm.parameters import declaration
from portatile.workloads.gemm.point import Point
from portatile.workloads.matmul import BASE
from portatile.workloads.matmul import RUNGS as COURSE
from support.checking import check
from support.compiling import Interpreted
from support.devices import DEVICES, on_paper
from support.gemm import launches
from support.ptx_machine.device import PtxDevice
from support.seeds import new_seed

WORKLOAD = workloads.get("gemm")
CPU, GPU, AMPERE = DEVICES["cpu"], DEVICES["gpu"], on_paper("gpu", "sm_80")
needs_nvrtc = pytest.mark.skipif(cuda_compiler.available() is not None, reason=f"no CUDA compiler: {cuda_compiler.available()}")


def problem(m: int, n: int, k: int, dtype: str = "float32", options: dict[str, Value] | None = None) -> Problem:
    return WORKLOAD.problem({"m": m, "n": n, "k": k}, dtype, options)


def text_of(point: Point, case: Problem, architecture: str = "sm_90") -> str:
    """The PTX of the product."""
    (launch,) = WORKLOAD.plan(case, point.config(), GPU if architecture == "sm_90" else AMPERE).steps
    assert isinstance(launch, Launch)
    return program.build(launch.source, Interpreted(architecture), None).data.decode()


def kinds(text: str) -> Counter[str]:
    (counts,) = ptx.functions(text).values()
    return Counter(counts.kinds)


LATER = {name: one.default for name, said in forms.parameters().items() for one in said.values() if one.later}


def test_what_older_results_do_not_name_is_as_it_was() -> None:
    """A configuration without the later parameters is legal, and the same as with them; so are the results that come with the package."""
    rng = np.random.default_rng(new_seed("older"))
    for info, dtype in itertools.product((CPU, GPU), ("float32", "float64")):
        case = problem(256, 256, 256, dtype)
        space = WORKLOAD.space(case, info)
        for config in space.scatter(rng, 5):
            older = {name: value for name, value in config.items() if name not in LATER}
            same = space.complete(older)
            assert space.complete(config) == config
            assert {name: value for name, value in same.items() if name in LATER} == {n: LATER[n] for n in same if n in LATER}
            assert (older in space) == (same in space)
            if same in space:  # without where it was staged an operand may be packed and in an image
                assert forms.read(older) == forms.read(same)
    assert "no value for SPLIT_K" in str(space.violated({name: value for name, value in same.items() if name != "SPLIT_K"}))
    for trial in store.shipped():
        workload = workloads.get(trial.problem.workload)
        if workload.products:
            assert trial.config in workload.space(trial.problem, trial.device), trial.config


def test_what_all_forms_shared_once_is_read_where_it_does_nothing() -> None:
    """Configurations of one record of 35 parameters: those that do nothing are dropped, at the value that said so and at no other."""
    point = pipeline(4, (16, 8), (2, 2), 16, 3, 4)
    idle: dict[str, Value] = {
        "SM": True,
        "SCALARS": False,
        "TXC": False,
        "TXC_OF": "AB",
        "LDG": False,
        "SHUFFLE": False,
        "MMA_SHAPE": "16x8x8",
    }
    assert WORKLOAD.canonical({**point.config(), **idle}) == point.config()
    dots: dict[str, Value] = {**register(8, 4, 1).config(), "TC": 1, "KEEP": True}
    named = WORKLOAD.canonical({**dots, "TBC": 1, "KG": 1, "RASTER": 0, "KB": 0, "MAD": "a*b+c"})
    assert set(named) == {"FORM", "VL", "TC", "TR", "UNROLL", "PACK_B", "KEEP", "SPLIT_K"}
    for wrong, message in (
        ({"TXC": True}, "TXC=True does nothing in the gpu form"),
        ({"MMA_SHAPE": "8x8x4"}, "unless MMA"),
        ({"KG": True}, "type int"),
    ):
        with pytest.raises(ArgumentError, match=message):
            WORKLOAD.canonical({**point.config(), **wrong})
        assert message in str(WORKLOAD.space(problem(64, 64, 64), GPU).violated({**point.config(), **wrong}))


def test_what_cannot_be_read_is_passed_over() -> None:
    """A store may hold anything: it is not in the space, and the choice goes on without it."""
    case = problem(300, 300, 300)
    space, usual = WORKLOAD.space(case, GPU), WORKLOAD.default(case, GPU)
    wrongs: tuple[dict[str, Value], ...] = ({}, {"FORM": "other"}, {**usual, "NEW": 1}, {**usual, "TXC": True}, {**usual, "KB": "16"})
    for wrong in wrongs:
        assert space.complete(wrong) == wrong
        assert wrong not in space
    trials = [replace(trial, problem=case, device=GPU, config=wrong) for trial in store.shipped("gemm")[:1] for wrong in wrongs]
    assert select.choose(WORKLOAD, case, GPU, trials).config == usual


def test_every_form_says_all_of_its_parameters() -> None:
    """A form has values that its own rules allow, a meaning for each parameter, and none that the texts do not read."""
    assert set(forms.forms()) >= {"generic", "cpu", "gpu", "thin"}
    for form in forms.forms().values():
        result = declaration(form.point)
        folder = Path(form.point.FILE).parent
        texts = {path.stem: path.read_text() for path in (*folder.glob("*.cl"), *folder.parent.glob("*.cl"))}
        host = "".join(path.read_text() for path in (*folder.glob("*.py"), folder.parents[1] / "point.py"))
        for name, one in result.parameters.items():
            assert one.meaning.endswith("."), (form.name, name)
            assert len(one.values) > 1
            assert all(type(value) is type(one.default) for value in one.values)
            assert all(text in texts for text in one.defines)
            read = any(name in text for text in texts.values()) or f"self.{name}" in host or name.startswith("PACK_")
            assert read, f"{name} does nothing in {form.name}"


def test_later_parameters_take_few_of_a_searchs_tries() -> None:
    """Most of what is drawn differs from earlier configurations in none of them."""
    for dtype in ("float32", "float64"):
        drawn = WORKLOAD.space(problem(512, 512, 512, dtype), GPU).scatter(np.random.default_rng(5), 100)
        same = sum(all(config.get(name, value) == value for name, value in LATER.items()) for config in drawn)
        assert 50 < same < 100


def test_a_device_gets_the_shapes_that_it_has() -> None:
    point = matrix((2, 2), (2, 2), 16, 3)
    case = problem(512, 512, 512, "float64")
    assert [shape for shape in MMA_SHAPES if WORKLOAD.space(case, AMPERE).violated(replace(point, MMA_SHAPE=shape).config()) is None] == [
        "8x8x4"
    ]
    legal = [shape for shape in MMA_SHAPES if WORKLOAD.space(case, GPU).violated(replace(point, MMA_SHAPE=shape).config()) is None]
    assert legal == ["8x8x4", "16x8x4", "16x8x8"], "16 x 8 x 16 needs two steps of 16 for operands ahead"
    assert WORKLOAD.space(case, GPU).violated(replace(point, MMA_SHAPE="16x8x16", DOUBLE=0).config()) is None
    assert "does nothing" in str(WORKLOAD.space(case, GPU).violated({**MEDIUM.config(), "MMA_SHAPE": "16x8x4"}))
    assert (matrix_shapes(CPU), matrix_shapes(replace(AMPERE, architecture="sm_86"))) == ((), ())
    assert WORKLOAD.lowered(point.config(), AMPERE) == replace(point, MMA_SHAPE="8x8x4").config()
    assert WORKLOAD.lowered(replace(point, MMA_SHAPE="16x8x4").config(), CPU) == replace(point, MMA=False).config()
    reads = replace(MEDIUM, LDG=True, SHUFFLE=True).config()
    assert WORKLOAD.lowered(reads, CPU) == MEDIUM.config()
    assert WORKLOAD.lowered(reads, GPU) == reads
    assert WORKLOAD.space(case, GPU).violated(reads) is None
    staged = replace(register(8, 6, 4, block=256), SM=True, PACK_B=False).config()
    assert WORKLOAD.lowered(staged, CPU) == staged
    assert WORKLOAD.lowered(staged, GPU) == {**staged, "KB": 128}, "64 KiB of B's columns in float64 do not fit"
    assert WORKLOAD.space(case, CPU).violated(reads) is not None


def test_rungs_are_points_of_their_spaces() -> None:
    for dtype in ("float32", "float64"):
        for number in rungs.TITLES:
            assert WORKLOAD.space(problem(1000, 1000, 1000, dtype), GPU).violated(rungs.rung(number, dtype)) is None, number
    course = workloads.get("matmul")
    space = course.space(course.problem({"m": 500, "n": 500, "k": 500}), GPU)
    for number, config in COURSE.items():
        for switches in ({}, {"LDG": True}, {"SHUFFLE": True}, {"LDG": True, "SHUFFLE": True}):
            assert (space.violated({**config, **switches}) is None) == (number > 1 or "SHUFFLE" not in switches), (number, switches)
    assert course.lowered({**BASE, "LDG": True}, CPU) == BASE
    assert course.lowered({**BASE, "LDG": True}, GPU)["LDG"] is True


@pytest.mark.drawn(1 / 3)
@needs_nvrtc
@pytest.mark.parametrize(("shape", "each"), [("8x8x4", 8), ("16x8x4", 4), ("16x8x8", 2), ("16x8x16", 1)])
def test_matrix_shapes_are_what_they_are_called(shape: str, each: int) -> None:
    """A block of 16 x 16 x 16 takes so many instructions for each half of its columns, and the large tiles spill nothing."""
    blocks, double = (2, 4), 0 if shape == "16x8x16" else 1
    point = replace(matrix((4, 2), blocks, 32, 3, double), MMA_SHAPE=shape)
    case = problem(1024, 1024, 1024, "float64")
    rows, columns, steps = shape.split("x")
    text = text_of(point, case)
    assert text.count(f"mma.sync.aligned.m{rows}n{columns}k{steps}.row") == 2 * each * blocks[0] * blocks[1] * 2
    for architecture, info in (("sm_80", AMPERE), ("sm_90", GPU)) if shape == "8x8x4" else (("sm_90", GPU),):
        fitting = replace(point, KB=16, UNROLL=16) if architecture == "sm_80" else point
        (launch,) = WORKLOAD.plan(case, fitting.config(), info).steps
        assert isinstance(launch, Launch)
        resources = program.build(launch.source, cuda_compiler.CudaTarget(architecture), None).resources["gemm"]
        assert (resources.spill_stores, resources.spill_loads) == (0, 0)


@pytest.mark.drawn(1 / 3)
@needs_nvrtc
@pytest.mark.parametrize(("shape", "lanes"), [("8x8x4", 4), ("16x8x4", 8), ("16x8x16", 8), ("16x8x16", 4)])
def test_matrix_shapes_are_right_without_a_gpu(shape: str, lanes: int) -> None:
    rng = np.random.default_rng(new_seed(f"{shape} {lanes}"))
    options: dict[str, Value] = {name: "NT"[int(rng.integers(2))] for name in ("trans_a", "trans_b")}
    double = int(rng.integers(3))
    depth = 32 if shape == "16x8x16" and double else 16
    point = replace(matrix((1, 2) if lanes == 8 else (2, 1), (2, 1), depth, 2, double, lanes), MMA_SHAPE=shape)
    sizes = (35, 29, 37) if rng.integers(2) else (34, 30, 38)
    verdict = check(PtxDevice(), WORKLOAD, problem(*sizes, "float64", options), point.config(), rng)
    assert verdict.ok, f"{options} {sizes} double {double}: {verdict.message}"


@pytest.mark.drawn(1 / 3)
@needs_nvrtc
def test_unrolling_in_part_is_right_without_a_gpu() -> None:
    rng = np.random.default_rng(new_seed("unroll"))
    small = pipeline(4, (8, 8), (1, 1), 16, 2, 4)
    for point in (replace(small, UNROLL=4, DOUBLE=int(rng.integers(3)), TURN=True), replace(small, UNROLL=8, KEEP=True, MAD="mad")):
        verdict = check(PtxDevice(), WORKLOAD, problem(33, 31, 44, "float32", {"trans_b": "T"}), point.config(), rng)
        assert verdict.ok, f"{point}: {verdict.message}"
    narrow = replace(matrix((1, 1), (1, 1), 32, 2, 0), UNROLL=8)
    assert check(PtxDevice(), WORKLOAD, problem(18, 17, 70, "float64"), narrow.config(), rng).ok


@pytest.mark.drawn(1 / 3)
@needs_nvrtc
def test_unrolling_in_part_makes_a_shorter_kernel() -> None:
    """As many multiply-adds as steps are unrolled; each product of a pair of operands is one instruction, however it is spelled."""
    point = pipeline(4, (8, 8), (2, 2), 32, 3, 4)
    case = problem(1024, 1024, 1024, options={"trans_a": "T"})
    for unroll, mad in ((32, "a*b+c"), (16, "a*b+c"), (4, "a*b+c"), (4, "fma"), (4, "mad")):
        result = kinds(text_of(replace(point, UNROLL=unroll, MAD=mad), case))
        products = sum(result[name] for name in result if name.startswith("fma") and name.endswith("f32"))
        assert unroll * 64 <= products <= unroll * 64 + 64, "and alpha times the sums"


@needs_nvrtc
def test_switches_choose_the_instructions() -> None:
    """Without restrict only LDG reads through the read-only path; SHUFFLE takes the place of reads of local memory."""
    course = workloads.get("matmul")

    def text(**switches: Value) -> str:
        (launch,) = course.plan(course.problem({"m": 256, "n": 256, "k": 256}), {**BASE, **switches}, GPU).steps
        assert isinstance(launch, Launch)
        return program.build(launch.source, Interpreted("sm_90"), None).data.decode()

    assert "ld.global.nc" not in text(ALGORITHM="global")
    assert kinds(text(ALGORITHM="global", LDG=True))["ld.global"] == 0
    plain, shuffled = kinds(text(WPT=4)), kinds(text(WPT=4, SHUFFLE=True))
    assert plain["shfl"] + plain["shfl.sync"] == 0
    assert shuffled["shfl"] + shuffled["shfl.sync"] == 64, "four rows of each of sixteen steps"
    seven = forms.read(rungs.rung(7, "float32"))
    before, after = (kinds(text_of(replace(seven, SHUFFLE=on), problem(256, 256, 256))) for on in (False, True))
    assert after["shfl"] + after["shfl.sync"] == 8 * 16
    assert sum(after.values()) > sum(before.values())


@pytest.mark.drawn(1 / 3)
@needs_nvrtc
def test_switches_are_right_without_a_gpu() -> None:
    rng = np.random.default_rng(new_seed("switches"))
    small = tile(2, (4, 4), (8, 8), (1, 1), 16, True)
    for point in (replace(small, LDG=True, SHUFFLE=True), replace(small, SM=False, LDG=True)):
        verdict = check(PtxDevice(), WORKLOAD, problem(35, 30, 20, options={"trans_a": "NT"[int(rng.integers(2))]}), point.config(), rng)
        assert verdict.ok, f"{point}: {verdict.message}"
    course = workloads.get("matmul")
    for change in ({"BLOCK": 16, "LDG": True}, {"BLOCK": 16, "DEPTH": 4, "WPT": 2, "VECTOR": 2, "TRANSPOSE": True, "LDG": True}):
        dtype = "float64" if rng.integers(2) else "float32"
        case = course.problem({"m": 21, "n": 18, "k": 19}, dtype)
        verdict = check(PtxDevice(), course, case, {**BASE, **change, "SHUFFLE": True}, rng)
        assert verdict.ok, f"{change} {dtype}: {verdict.message}"


def test_a_form_is_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a new folder declares is in the space, is checked, explained and planned, and nothing else was edited."""
    (folder := tmp_path / "single").mkdir()
    text = '''
from dataclasses import dataclass
from typing import ClassVar
from portatile.workloads.gemm.forms import Form
from portatile.workloads.gemm.forms.generic.point import Generic
from portatile.workloads.gemm.parameters import parameter

@dataclass(frozen=True)
class Single(Generic):
    """A form for this test."""
    FORM: ClassVar[str] = "single"
    SPIN: int = parameter(1, (1, 2), "How often it turns round.", must={"SPIN must be odd where SM holds": "not SM or SPIN % 2 == 1"})

    @property
    def text(self) -> str:
        return "generic"

form = Form(Single, rank=1, default=lambda problem, device, batch: None)
'''
    (folder / "__init__.py").write_text(text)
    caches = (forms.forms, forms.ranked, forms.parameters, forms._read, forms._canonical, gemm_space._union)
    monkeypatch.setattr(forms, "__path__", [*forms.__path__, str(tmp_path)])
    try:
        for one in caches:
            one.cache_clear()
        case = problem(64, 64, 64)
        space = WORKLOAD.space(case, GPU)
        assert "single" in space.parameters["FORM"]
        config = {**MEDIUM.config(), "FORM": "single", "SPIN": 1}
        assert space.violated(config) is None
        assert "SPIN must be odd" in str(space.violated({**config, "SPIN": 2}))
        assert "SPIN=2 does nothing in the generic form" in str(space.violated({**MEDIUM.config(), "SPIN": 2}))
        assert "How often it turns round." in forms.explained(config)["SPIN"]
        assert launches(WORKLOAD.plan(case, config, GPU))[-1].source.file == "generic.cl"
        assert WORKLOAD.default(case, GPU)["FORM"] != "single", "it offers no default"
    finally:
        sys.modules.pop("portatile.workloads.gemm.forms.single", None)
        for one in caches:
            one.cache_clear()
