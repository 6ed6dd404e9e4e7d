"""Stacks of matrices: NumPy's broadcasting, any even layout, one launch where it can be, on every device."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

import portatile
from portatile import workloads
from portatile.device.base import Device
from portatile.device.buffer import Buffer
from portatile.errors import ArgumentError
from portatile.execute import Executable
from portatile.records import Launch, Layout
from portatile.workloads.gemm import forms
from portatile.workloads.gemm.forms.cpu.point import register
from portatile.workloads.gemm.forms.generic.point import MEDIUM, tile
from portatile.workloads.gemm.forms.gpu.point import pipeline
from portatile.workloads.gemm_batched import GemmBatched
from support.checking import check
from support.seeds import new_seed

pytestmark = [pytest.mark.thinned(1 / 2), pytest.mark.unoptimised]

EPS = {"float32": 2.0**-23, "float64": 2.0**-52}
WORKLOAD = workloads.get("gemm_batched")


def values(rng: np.random.Generator, shape: tuple[int, ...], dtype: str = "float32") -> NDArray:
    return rng.uniform(-1, 1, shape).astype(dtype)


def check_product(got: NDArray, a: NDArray, b: NDArray, rest: NDArray | float = 0.0, alpha: float = 1.0) -> None:
    """|error| <= gamma_(k+3) (|alpha| |A| |B| + |rest|), as for one product."""
    wide = [np.asarray(x, np.float64) for x in (a, b)]
    expected = alpha * (wide[0] @ wide[1]) + rest
    scale = abs(alpha) * (np.abs(wide[0]) @ np.abs(wide[1])) + np.abs(rest)
    assert got.shape == expected.shape
    assert np.all(np.abs(got - expected) <= (a.shape[-1] + 6) * EPS[str(got.dtype)] * scale + 1e-300)


@pytest.fixture
def launches(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How often the batch goes through the executor."""
    counted: list[int] = []
    run = Executable.run

    def counting(self: Executable, *args: object, **more: object) -> None:
        counted.append(len(self.plan.steps))
        run(self, *args, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(Executable, "run", counting)
    return counted


SHAPES = {
    "equal": ((5, 9, 7), (5, 7, 8), 1),
    "two dimensions": ((2, 3, 9, 7), (2, 3, 7, 8), 1),
    "one b for all": ((6, 9, 7), (7, 8), 1),
    "one a for all": ((9, 7), (6, 7, 8), 1),
    "one of one": ((1, 9, 7), (1, 7, 8), 1),
    "ones broadcast": ((4, 1, 9, 7), (3, 7, 8), 3),
    "outer": ((4, 1, 5, 6), (1, 7, 6, 3), 4),
    "no terms": ((3, 4, 0), (3, 0, 5), 1),
    "none at all": ((0, 4, 3), (0, 3, 5), 0),
    "vectors": ((5, 1, 7), (5, 7, 1), 1),
}


@pytest.mark.parametrize("where", ["host", "device"])
@pytest.mark.parametrize("name", SHAPES)
def test_numpys_broadcasting(device: Device, name: str, where: str, launches: list[int]) -> None:
    rng = np.random.default_rng(new_seed(name))
    shape_a, shape_b, runs = SHAPES[name]
    a, b = values(rng, shape_a), values(rng, shape_b)
    if where == "device":
        computed = portatile.matmul(Buffer.from_numpy(a, device), Buffer.from_numpy(b, device))
        assert isinstance(computed, Buffer)
        result = computed.numpy()
    else:
        result = portatile.matmul(a, b, device=device.info.id)
    check_product(result, a, b)
    assert len(launches) == runs


@pytest.mark.parametrize(("order_a", "order_b", "order_out"), [("C", "C", "C"), ("F", "C", "F"), ("C", "F", "C"), ("F", "F", "F")])
def test_every_order_is_one_launch(device: Device, order_a: str, order_b: str, order_out: str, launches: list[int]) -> None:
    """Row-major or column-major matrices, in place."""
    rng = np.random.default_rng(new_seed(order_a + order_b + order_out))

    def made(shape: tuple[int, int, int], order: str) -> NDArray:
        return values(rng, shape) if order == "C" else values(rng, (shape[0], shape[2], shape[1])).swapaxes(1, 2)

    a, b, out = made((4, 19, 12), order_a), made((4, 12, 17), order_b), made((4, 19, 17), order_out)
    assert portatile.matmul(a, b, out=out, device=device.info.id) is out
    check_product(out, a, b)
    assert len(launches) == 1


def test_float64_and_factors(device: Device) -> None:
    if not device.info.fp64:
        pytest.skip(f"{device.info.name} has no double precision")
    rng = np.random.default_rng(new_seed("factors"))
    a, b, c = (values(rng, shape, "float64") for shape in ((3, 12, 19), (3, 12, 17), (3, 19, 17)))
    before = c.copy()
    result = portatile.gemm(a, b, c, alpha=-1.5, beta=0.5, trans_a="T", device=device.info.id)
    check_product(result, a.swapaxes(1, 2), b, 0.5 * before, -1.5)
    assert np.array_equal(c, before)
    assert portatile.gemm(a, b, c, alpha=-1.5, beta=0.5, trans_a="T", out=c, device=device.info.id) is c
    assert np.array_equal(c, result)
    on_device = [Buffer.from_numpy(x, device) for x in (a, b, before)]
    again = portatile.gemm(*on_device, alpha=-1.5, beta=0.5, trans_a="T")
    assert np.allclose(again.numpy(), result, rtol=1e-13)


def test_views_in_larger_arrays(device: Device, launches: list[int]) -> None:
    """Offsets, padded rows and gaps between matrices; nothing else is written."""
    rng = np.random.default_rng(new_seed("views"))
    big_a, big_b, big_out = values(rng, (6, 30, 40)), values(rng, (12, 33, 50)), np.full((9, 40, 44), np.nan, np.float32)
    a, b, out = big_a[1:, 3:20, 5:31], big_b[2::2, 1:27, 7:26], big_out[3:8, 4:21, 8:27]
    portatile.matmul(a, b, out=out, device=device.info.id)
    check_product(out, a, b)
    untouched = np.ones(big_out.shape, bool)
    untouched[3:8, 4:21, 8:27] = False
    assert np.isnan(big_out[untouched]).all()
    assert len(launches) == 1
    stored = [Buffer.from_numpy(x, device) for x in (big_a, big_b)]
    result = portatile.matmul(stored[0][1:, 3:20, 5:31], stored[1][2::2, 1:27, 7:26])
    check_product(result.numpy(), a, b)


def test_interleaved_and_backwards(device: Device) -> None:
    """Matrices whose rows alternate go in one batch; a batch that runs backwards is taken apart."""
    rng = np.random.default_rng(new_seed("interleaved"))
    a, b = values(rng, (9, 4, 7)).transpose(1, 0, 2), values(rng, (4, 7, 8))
    out = np.full((9, 4, 8), np.nan, np.float32).transpose(1, 0, 2)
    portatile.matmul(a, b, out=out, device=device.info.id)
    check_product(out, a, b)
    check_product(portatile.matmul(a[::-1], b, device=device.info.id), a[::-1], b)


@pytest.mark.parametrize("library", ["torch", "cupy"])
def test_cuda_arrays(device: Device, library: str) -> None:
    if device.info.backend != "cuda":
        pytest.skip("CUDA arrays need a CUDA device")
    module = pytest.importorskip(library)
    rng = np.random.default_rng(new_seed(library))
    host_a, host_b = values(rng, (5, 33, 18)), values(rng, (5, 18, 29))
    a, b = (module.from_numpy(x).cuda() if library == "torch" else module.asarray(x) for x in (host_a, host_b))
    product = portatile.matmul(a, b)
    assert type(product) is type(a)
    check_product(product.cpu().numpy() if library == "torch" else module.asnumpy(product), host_a, host_b)


POINTS = {
    "medium": MEDIUM,
    "split k": forms.read({**MEDIUM.config(), "SPLIT_K": 3}),
    "direct": tile(1, (4, 4), (8, 8), (1, 1), 8, False),
    "register tile, packed, blocked": forms.read({**register(4, 4, 3, 1, 16, 3).config(), "PACK_A": True}),
    "register tile, split k": forms.read({**register(4, 2, 2).config(), "SPLIT_K": 2}),
    "pipeline": pipeline(4, (8, 8), (1, 1), 8, 2, 4),
    "pipeline, packed, shared k": forms.read(
        {**pipeline(4, (8, 8), (1, 1), 16, 2, 4, 1).config(), "PACK_A": True, "PACK_B": True, "KG": 2}
    ),
    "pipeline, transposed": forms.read({**pipeline(4, (8, 8), (1, 1), 16, 3, 4).config(), "TURN": True}),
}


@pytest.mark.thinned(1 / 3)
@pytest.mark.parametrize("name", POINTS)
def test_every_form_works_on_batches(device: Device, name: str) -> None:
    """Each form with random transpositions on two awkward batches: gaps, shared operands, interleaved results."""
    rng = np.random.default_rng(new_seed(name))
    options = {"trans_a": "NT"[int(rng.integers(2))], "trans_b": "NT"[int(rng.integers(2))]}
    cases = WORKLOAD.awkward(WORKLOAD.problem({"batch": 1, "m": 1, "n": 1, "k": 1}, "float32", options))
    for place in rng.choice(len(cases) - 1, 2, replace=False):
        verdict = check(device, WORKLOAD, cases[place], POINTS[name].config(), rng)
        assert verdict.ok, f"{options} {cases[place]}: {verdict.message}"


class OfThree(GemmBatched):
    """Of no more than three problems to a launch."""

    most_groups = 3


def test_a_batch_that_is_too_long_for_a_launch(device: Device) -> None:
    batched = OfThree()
    rng = np.random.default_rng(new_seed("long"))
    problem = batched.problem({"batch": 8, "m": 9, "n": 11, "k": 6})
    config = batched.default(problem, device.info)
    products = [step for step in batched.plan(problem, config, device.info).steps if isinstance(step, Launch) and step.kernel == "gemm"]
    assert [step.global_size[2] for step in products] == [3, 3, 2]
    verdict = check(device, batched, problem, config, rng)
    assert verdict.ok, verdict.message


def test_results_that_overlap_are_refused() -> None:
    problem = WORKLOAD.problem({"batch": 3, "m": 4, "n": 4, "k": 4}, "float32", {}, {"c": Layout((8, 4, 1))})
    info = portatile.get_device().info
    with pytest.raises(ArgumentError, match="overlap"):
        WORKLOAD.plan(problem, WORKLOAD.default(problem, info), info)


F = np.float32
STACK = np.ones((3, 4, 4), F)
MISTAKES = {
    "inner": (lambda: portatile.gemm(STACK, np.ones((3, 5, 4), F)), "inner dimensions"),
    "batches": (lambda: portatile.gemm(STACK, np.ones((2, 4, 4), F)), "cannot be broadcast"),
    "vector": (lambda: portatile.gemm(STACK, np.ones(4, F)), "stack of them"),
    "dtypes": (lambda: portatile.gemm(STACK, STACK.astype("float64")), "convert one"),
    "dtype": (lambda: portatile.gemm(STACK.astype(int), STACK.astype(int)), "float32, float64"),
    "list": (lambda: portatile.gemm(STACK, [[[1.0]]]), "NumPy array"),  # type: ignore[type-var]
    "out": (lambda: portatile.gemm(STACK, STACK, out=np.empty((4, 4), F)), "must have shape"),
    "aliased": (lambda: portatile.gemm(STACK, STACK.copy(), out=STACK), "overlaps a"),
    "strides": (lambda: portatile.gemm(np.ones((3, 8, 8), F)[:, ::2, ::2], STACK), "ascontiguousarray"),
    "no c": (lambda: portatile.gemm(STACK, STACK, beta=1.0), "no c"),
    "trans": (lambda: portatile.gemm(STACK, STACK, trans_b="X"), "trans_b"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("mistake", list(MISTAKES))
def test_mistakes_are_explained(mistake: str) -> None:
    call, message = MISTAKES[mistake]
    with pytest.raises(ArgumentError, match=message):
        call()


@pytest.mark.parametrize("strides", [(16, 16, 4), (0, 16, 4), (8, 32, 4), (32, 16, 4)])
def test_an_output_that_overlaps_itself_is_refused(device: Device, strides: tuple[int, int, int]) -> None:
    a, b = np.ones((2, 3, 4, 4), np.float32)
    out = np.lib.stride_tricks.as_strided(np.zeros(200, np.float32), (3, 4, 4), strides)
    with pytest.raises(ArgumentError, match="out overlaps itself"):
        portatile.matmul(a, b, out=out, device=device.info.id)
    assert not out.any()


def test_matrices_between_each_others_rows_do_not_overlap(device: Device) -> None:
    a, b = np.random.default_rng(0).random((2, 3, 4, 4)).astype(np.float32)
    memory = np.zeros((4, 3, 4), np.float32)
    portatile.matmul(a, b, out=memory.transpose(1, 0, 2), device=device.info.id)
    assert np.allclose(memory.transpose(1, 0, 2), a @ b, rtol=1e-5)
