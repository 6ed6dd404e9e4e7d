"""TRSM in every case of side, triangle, transposition and diagonal; what must not be read; accuracy; degenerate systems."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.linalg import blas

from portatile import verify, workloads
from portatile.device.base import Device
from portatile.errors import ArgumentError
from portatile.records import Call, Config, DeviceInfo, Launch, Layout, Problem
from portatile.workload import Inputs
from portatile.workloads import blocks, operands
from portatile.workloads.gemm import zeros
from portatile.workloads.gemm.forms.gpu.point import Gpu, pipeline
from portatile.workloads.triangular import inverses
from support.checking import check, run
from support.seeds import new_seed

pytestmark = [pytest.mark.thinned(1 / 3), pytest.mark.unoptimised]

WORKLOAD = workloads.get("triangular")
OPTIONS = {name: values for name, values in WORKLOAD.options.items() if name not in ("apart", "precision")}
CASES = [dict(zip(OPTIONS, values, strict=True)) for values in itertools.product(*OPTIONS.values())]
APART = [{**case, "apart": True} for case in CASES]
CONFIGS: dict[str, Config] = {
    "invert": {"METHOD": "invert", "NB": 32, "IB": 8, "WGS": 32, "PANEL": 8},
    "refine": {"METHOD": "refine", "NB": 32, "IB": 8, "WGS": 32, "PANEL": 8},
    "substitute": {"METHOD": "substitute", "NB": 16, "IB": 4, "WGS": 32, "PANEL": 8},
}


def named(case: dict[str, Any]) -> str:
    return "".join(value if isinstance(value, str) else "-apart" for value in case.values())


def system(order: int, count: int, case: dict[str, str], dtype: str, pad: int = 0, offset: int = 0) -> Problem:
    sizes = {"m": order, "n": count} if case["side"] == "L" else {"m": count, "n": order}
    bare = WORKLOAD.problem(sizes, dtype, case)
    layout = {name: operands.padded(shape, pad, offset) for name, shape in WORKLOAD.shapes(bare).items()}
    return WORKLOAD.problem(sizes, dtype, case, layout)


def spoilt(inputs: Inputs) -> Inputs:
    """Operands of NaN, none of which alpha = 0 reads."""
    return Inputs({name: np.full_like(array, np.nan) for name, array in inputs.operands.items()}, {"alpha": 0.0})


def double(device: Device, otherwise: str = "float32") -> str:
    return "float64" if device.info.fp64 else otherwise


@pytest.mark.parametrize("case", CASES + APART, ids=named)
@pytest.mark.parametrize("method", CONFIGS)
def test_every_case(device: Device, method: str, case: dict[str, str]) -> None:
    """Several blocks and a part of one, in both types; the triangle and the diagonal that must not be read are NaN."""
    rng = np.random.default_rng(new_seed(f"{method} {named(case)}"))
    for dtype, pad in (("float32", 3), (double(device), 0)):
        problem = system(77, 45, case, dtype, pad, 2 * pad)
        verdict = check(device, WORKLOAD, problem, CONFIGS[method], rng)
        assert verdict.ok, verdict.message


SUBSTITUTED = {"parts of 8": (64, 8, 128), "parts of 4": (64, 4, 256), "parts of 16": (128, 16, 64), "one part": (16, 16, 32)}
"""NB, IB and WGS of a GPU's substitution."""


def substituted(device: Device, nb: int, ib: int, group: int, **facts: Any) -> tuple[Config, DeviceInfo]:
    """A configuration, and a GPU of which a plan has a text that is right on any device."""
    return {**CONFIGS["substitute"], "NB": nb, "IB": ib, "WGS": group}, replace(device.info, kind="gpu", **facts)


@pytest.mark.parametrize("case", CASES[::3] + APART[::3], ids=named)
@pytest.mark.parametrize("parts", SUBSTITUTED)
def test_a_small_system_is_one_launch_of_a_gpu(device: Device, monkeypatch: pytest.MonkeyPatch, case: dict[str, str], parts: str) -> None:
    """It reads the right-hand sides where the solution lies apart. Orders that parts divide and do not, and columns that fill no group."""
    config, gpu = substituted(device, *SUBSTITUTED[parts])
    rng, nb = np.random.default_rng(new_seed(f"{parts}{named(case)}")), int(config["NB"])
    for dtype, order, count, pad in (("float32", nb - 3, 45, 3), (double(device), nb, 1, 0), ("complex64", nb // 2 + 1, 20, 1)):
        problem = system(order, count, case, dtype, pad, 2 * pad)
        plan = WORKLOAD.plan(problem, config, gpu)
        assert [step.kernel for step in plan.steps if isinstance(step, Launch)] == ["triangular_substitute"]
        with monkeypatch.context() as patched:
            patched.setattr(type(WORKLOAD), "plan", lambda *_, plan=plan: plan)
            verdict = check(device, WORKLOAD, problem, config, rng)
        assert verdict.ok, f"{dtype}: {verdict.message}"


def test_a_triangle_larger_than_a_text_may_declare(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """Local memory is an argument then. With alpha = 0 nothing is read."""
    can = replace(device.info.can, static_local=1 << 10)
    config, gpu = substituted(device, 64, 8, 64, capabilities=can)
    problem = system(61, 19, APART[0], "float32", 1, 1)
    plan = WORKLOAD.plan(problem, config, gpu)
    assert [arg.name for arg in plan.steps[0].args if arg.kind == "local"] == ["blocks"]
    monkeypatch.setattr(type(WORKLOAD), "plan", lambda *_: plan)

    for change in (None, spoilt):
        verdict = check(device, WORKLOAD, problem, config, np.random.default_rng(new_seed("declared")), change)
        assert verdict.ok, verdict.message


@pytest.mark.parametrize("case", CASES, ids=named)
def test_the_reference_is_blas(case: dict[str, str]) -> None:
    problem = system(150, 9, case, "float64")
    inputs = WORKLOAD.inputs(problem, np.random.default_rng(new_seed(named(case))))
    a, b = (operands.view(inputs.operands[name], problem.layout[name], WORKLOAD.shapes(problem)[name]) for name in ("a", "b"))
    flags = {"side": int(case["side"] == "R"), "lower": int(case["uplo"] == "L"), "trans_a": int(case["trans"] in "TC")}
    expected = blas.dtrsm(inputs.scalars["alpha"], np.asfortranarray(a), np.asfortranarray(b), **flags, diag=int(case["diag"] == "U"))
    found = WORKLOAD.reference(problem, inputs)["b"]
    assert np.allclose(found.values.reshape(b.shape), expected, rtol=1e-12, atol=1e-13)
    sampled = WORKLOAD.reference(problem, inputs, np.random.default_rng(0))["b"]
    assert verify.compare(found.values, sampled, 1e-12).ok


@pytest.mark.parametrize("method", CONFIGS)
@pytest.mark.parametrize("case", CASES[::5] + APART[::5], ids=named)
def test_alpha_zero_reads_nothing(device: Device, method: str, case: dict[str, str]) -> None:
    problem = system(45, 10, case, "float32", 2, 1)
    verdict = check(device, WORKLOAD, problem, CONFIGS[method], np.random.default_rng(new_seed(method)), spoilt)
    assert verdict.ok, verdict.message


@pytest.mark.parametrize("method", CONFIGS)
def test_a_zero_on_the_diagonal_is_not_one(device: Device, method: str) -> None:
    """Row 20 of the solution and what depends on it is infinite or NaN; the rows before it are as always."""
    problem = system(40, 6, CASES[0], "float32")
    inputs = WORKLOAD.inputs(problem, np.random.default_rng(new_seed(method)))
    operands.view(inputs.operands["a"], problem.layout["a"], (40, 40))[20, 20] = 0
    after, canaries = run(device, WORKLOAD, problem, CONFIGS[method], inputs)
    assert canaries.ok
    x = operands.view(after["b"], problem.layout["b"], (40, 6))
    assert not np.isfinite(x[20:]).any()
    if method == "substitute":
        assert np.isfinite(x[:20]).all()


@pytest.mark.parametrize(("m", "n"), [(0, 5), (5, 0), (0, 0)])
@pytest.mark.parametrize("method", CONFIGS)
def test_an_empty_system_is_no_step(device: Device, method: str, m: int, n: int) -> None:
    for case in CASES:
        problem = WORKLOAD.problem({"m": m, "n": n}, "float32", case)
        assert WORKLOAD.plan(problem, CONFIGS[method], device.info).steps == ()
        inputs = WORKLOAD.inputs(problem, np.random.default_rng(0))
        assert np.array_equal(WORKLOAD.reference(problem, inputs)["b"].values, inputs.operands["b"], equal_nan=True)


def test_small_systems(device: Device) -> None:
    """The sizes of the BLAS's own test, by default configurations."""
    seed = new_seed("small systems")
    rng = np.random.default_rng(seed)
    for case in CASES:
        order, count = (int(rng.choice([1, 2, 3, 5, 9])) for _ in range(2))
        problem = system(order, count, case, "float32" if rng.random() < 0.5 else double(device), 1)
        verdict = check(device, WORKLOAD, problem, WORKLOAD.default(problem, device.info), rng)
        assert verdict.ok, f"seed {seed}: {verdict.message} {problem}"


@pytest.mark.parametrize("method", ["substitute", "refine"])
@pytest.mark.parametrize("case", CASES[::3], ids=named)
def test_a_small_residual_on_any_triangle(device: Device, method: str, case: dict[str, str]) -> None:
    """|alpha B - op(A) X| is a few roundings of |op(A)| |X|, element by element, although X grows by nine orders of magnitude.

    Random triangles are the badly growing ones. The worst case is gamma_n (Higham, Accuracy and Stability of Numerical
    Algorithms, theorem 8.5); random data stay far below it.
    """
    order, dtype = 120, "float32"
    problem = system(order, 5, case, dtype)
    rng = np.random.default_rng(new_seed(named(case)))
    inputs = WORKLOAD.inputs(problem, rng)
    stored = operands.view(inputs.operands["a"], problem.layout["a"], (order, order))
    stored *= np.float32(order / 2)
    stored += np.float32(0.5)  # now uniform in [-0.5, 0.5) beside the diagonal
    if case["diag"] == "N":
        np.fill_diagonal(stored, rng.choice([-0.4, 0.4], order))
    after, _ = run(device, WORKLOAD, problem, CONFIGS[method], inputs)
    x, b = (
        operands.view(memory, problem.layout["b"], WORKLOAD.shapes(problem)["b"]).astype(np.float64)
        for memory in (after["b"], inputs.operands["b"])
    )
    a = np.tril(stored, -1) if case["uplo"] == "L" else np.triu(stored, 1)
    a = a.astype(np.float64) + (np.eye(order) if case["diag"] == "U" else np.diag(np.diagonal(stored)))
    a = a if case["trans"] in "NR" else a.T
    product, size = (a @ x, np.abs(a) @ np.abs(x)) if case["side"] == "L" else (x @ a, np.abs(x) @ np.abs(a))
    residual = np.abs(float(np.float32(inputs.scalars["alpha"])) * b - product)
    assert (residual <= 3 * np.finfo(dtype).eps * size).all()


def test_a_plan_calls_gemm_and_compiles_a_handful_of_kernels(device: Device) -> None:
    problem = WORKLOAD.problem({"m": 4096, "n": 4096})
    info = replace(device.info, vendor="nobody")  # on NVIDIA's GPUs products with inverses are launches
    plan = WORKLOAD.plan(problem, {"METHOD": "invert", "NB": 256, "IB": 16, "WGS": 64, "PANEL": 8}, info)
    calls = [step for step in plan.steps if isinstance(step, Call)]
    launches = [step for step in plan.steps if isinstance(step, Launch)]
    assert [step.kernel for step in launches] == ["triangular_invert", "triangular_join", "triangular_copy"]
    assert len({step.source for step in launches}) == 2
    joins = [call for call in calls if call.problem.workload == "gemm_batched"]
    assert [call.problem.sizes for call in joins] == [{"batch": 16, "m": 128, "n": 128, "k": 128}] * 2
    calls = [call for call in calls if call not in joins]
    assert len(calls) == 16 + 15
    work = sum(2.0 * np.prod([call.problem.sizes[s] for s in "mnk"]) for call in calls)
    assert 1 <= work / WORKLOAD.flops(problem) < 1.1
    assert max(call.problem.sizes["k"] for call in calls) == 2048


@pytest.mark.parametrize("uplo", "LU")
@pytest.mark.parametrize("method", ["invert", "refine"])
def test_large_neighbours_are_joined_by_products(device: Device, method: str, uplo: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks whose last pair is whole, has a part of the second, and has none of it."""
    monkeypatch.setattr(inverses, "_LARGE", 16)
    config = {"METHOD": method, "NB": 64, "IB": 8, "WGS": 32, "PANEL": 8}
    for order in (128, 91, 75):
        problem = system(order, 7, {**CASES[0], "uplo": uplo}, "float32", 1)
        verdict = check(device, WORKLOAD, problem, config, np.random.default_rng(new_seed(f"{order}{uplo}")))
        assert verdict.ok, f"{order}: {verdict.message}"


_TILES = (
    pipeline(4, (8, 8), (1, 1), 8, 2, 4, double=0),
    replace(pipeline(2, (8, 8), (2, 1), 8, 2, 4, double=0), SPLIT_K=2, JOIN=True),
)


@pytest.mark.parametrize("point", _TILES, ids=["whole", "joined"])
@pytest.mark.parametrize("case", APART[::3], ids=named)
def test_first_products_bring_the_right_hand_sides(
    device: Device, case: dict[str, Any], point: Gpu, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plans that NVIDIA's GPUs get, on every device, with tiles that are small enough for a processor."""
    monkeypatch.setattr(blocks, "alone", lambda *_: point.lowered(device.info))
    monkeypatch.setattr(zeros, "point", lambda *_: point.lowered(device.info))
    for count, pad in ((40, 0), (45, 1)):  # where C is stored in vectors, and where it is not
        problem = system(77, count, case, "float32", pad, 4 * pad)
        plan = WORKLOAD.plan(problem, CONFIGS["invert"], replace(device.info, kind="gpu", vendor="NVIDIA"))
        assert "triangular_copy" not in [step.kernel for step in plan.steps if not isinstance(step, Call)]
        with monkeypatch.context() as patched:
            patched.setattr(type(WORKLOAD), "plan", lambda *_, plan=plan: plan)
            verdict = check(device, WORKLOAD, problem, CONFIGS["invert"], np.random.default_rng(new_seed(f"{named(case)}{count}")))
        assert verdict.ok, verdict.message


@pytest.mark.parametrize("case", APART[::3], ids=named)
def test_substitution_by_turns_with_products_never_copies(device: Device, case: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """The first block and the first product with each of the others read B, on NVIDIA's GPUs."""
    monkeypatch.setattr(blocks, "alone", lambda *_: _TILES[0].lowered(device.info))
    config, gpu = substituted(device, 32, 8, 64, vendor="NVIDIA")
    problem = system(77, 45, case, "float32", 1, 4)
    plan = WORKLOAD.plan(problem, config, gpu)
    kernels = [step.kernel for step in plan.steps if isinstance(step, Launch)]
    assert kernels.count("triangular_substitute") == 3
    assert "triangular_copy" not in kernels
    monkeypatch.setattr(type(WORKLOAD), "plan", lambda *_: plan)
    for change in (None, spoilt):
        verdict = check(device, WORKLOAD, problem, config, np.random.default_rng(new_seed(named(case))), change)
        assert verdict.ok, verdict.message


def test_a_permuted_layout_is_refused(device: Device) -> None:
    problem = WORKLOAD.problem({"m": 8, "n": 8})
    permuted = replace(problem, layout={**problem.layout, "b": Layout((1, 8))})
    with pytest.raises(ArgumentError, match="operand b"):
        WORKLOAD.plan(permuted, CONFIGS["invert"], device.info)
