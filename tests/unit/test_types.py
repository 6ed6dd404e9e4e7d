"""Element types: what they are called, which products they have, and complex products as products of reals."""

from __future__ import annotations

import numpy as np
import pytest

from portatile import dtypes, workloads
from portatile.arguments import checks
from portatile.errors import ArgumentError
from portatile.records import Layout
from portatile.workloads import operands
from portatile.workloads.gemm import reals, reference
from support.devices import on_paper
from support.seeds import new_seed

GEMM = workloads.get("gemm")


@pytest.mark.parametrize("name", [name for name in dtypes.ELEMENTS if name not in dtypes.HELD])
def test_what_is_said_of_a_type_is_numpys(name: str) -> None:
    element = dtypes.ELEMENTS[name]
    kind = element.numpy
    assert (kind.name, kind.itemsize) == (name, element.itemsize)
    assert dtypes.name_of(kind) == dtypes.named(kind) == dtypes.named(name) == dtypes.named(kind.type) == name
    if kind.kind == "i":
        return
    real = kind if kind.kind != "c" else np.zeros((), kind).real.dtype
    one = np.ones((), real)
    assert float(one.dtype.type(1 + 2 * element.unit)) == 1 + 2 * element.unit
    assert float(real.type(1 + element.unit)) in (1.0, 1 + 2 * element.unit)
    assert float(real.type(element.normal)) == element.normal


@pytest.mark.parametrize("dtype", dtypes.PRODUCTS)
def test_products_are_named_by_their_types(dtype: str) -> None:
    types = dtypes.product(dtype)
    assert dtypes.product_name(types.operand.name, types.result.name) == dtype
    assert dtypes.itemsize(dtype) == types.operand.itemsize
    assert GEMM.problem({"m": 2, "n": 3, "k": 4}, dtype).itemsize == types.operand.itemsize


@pytest.mark.parametrize("dtype", ["int16", "float16:int8", "float32:float64", "half", ""])
def test_other_products_are_refused(dtype: str) -> None:
    with pytest.raises(ArgumentError, match="not a dtype of products"):
        dtypes.product(dtype)


def test_results_that_there_are_not() -> None:
    with pytest.raises(ArgumentError, match=r"float16, float32; pass out= or dtype="):
        dtypes.product_name("float16", "float64")


def test_factors_fit_the_type() -> None:
    checks.check_factors((1.0, 2.0), "int32")
    checks.check_factors((1j, 2.0), "complex64")
    for factors, dtype in (((0.5, 0.0), "int32"), ((1.0, 2.0**31), "int32"), ((1j, 0.0), "float32"), ((1.0, 1j), "float16")):
        with pytest.raises(ArgumentError, match=r"alpha|beta"):
            checks.check_factors(factors, dtype)


@pytest.mark.parametrize("how", ["NN", "TN", "CR", "RC", "NT", "CC"])
def test_a_complex_product_is_one_of_reals(how: str) -> None:
    """By the real product of the rows of real and imaginary parts, combined as the kernels combine it."""
    rng = np.random.default_rng(new_seed(how))
    m, n, k = (int(size) for size in rng.integers(1, 9, 3))
    problem = GEMM.problem({"m": m, "n": n, "k": k}, "complex128", {"trans_a": how[0], "trans_b": how[1]})
    shapes = GEMM.shapes(problem)
    a, b = (rng.random(shapes[name]) - 0.5 + 1j * (rng.random(shapes[name]) - 0.5) for name in "ab")
    left, right = reference.op(a, how[0].replace("C", "T").replace("R", "N")), reference.op(b, how[1].replace("C", "T").replace("R", "N"))
    sums = np.stack([left.real, left.imag], 1).reshape(2 * m, k) @ np.stack([right.real, right.imag], 2).reshape(k, 2 * n)
    view = reals.computed(problem)
    assert (view.sizes, view.dtype) == ({"m": 2 * m, "n": 2 * n, "k": k}, "float64")
    s00, s01, s10, s11 = sums[::2, ::2], sums[::2, 1::2], sums[1::2, ::2], sums[1::2, 1::2]
    conjugate_a, conjugate_b = ("a" in str(view.options["conjugated"]), "b" in str(view.options["conjugated"]))
    real = s00 + s11 if conjugate_a != conjugate_b else s00 - s11
    imaginary = (-s01 if conjugate_b else s01) + (-s10 if conjugate_a else s10)
    assert np.allclose(real + 1j * imaginary, reference.op(a, how[0]) @ reference.op(b, how[1]))


def test_conjugates_of_reals_are_left_out() -> None:
    problem = GEMM.problem({"m": 2, "n": 3, "k": 4}, "float16", {"trans_a": "C", "trans_b": "R"})
    assert problem.options == {"trans_a": "T", "trans_b": "N"}
    assert reals.computed(problem).options["conjugated"] == ""


def test_plain_problems_stay_as_they_are() -> None:
    problem = GEMM.problem({"m": 2, "n": 3, "k": 4})
    assert reals.computed(problem) is problem


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float8_e4m3fn:bfloat16", "int8", "complex64"])
def test_poison_and_random_operands(dtype: str) -> None:
    """Padding is NaN, or a number that is told apart, and every element of the operand is a number."""
    types = dtypes.product(dtype)
    layout = Layout((7, 1), 3)
    memory = operands.random(np.random.default_rng(new_seed(dtype)), layout, (4, 5), types.operand.name)
    inside = operands.view(memory, layout, (4, 5))
    assert not np.isnan(inside.astype(complex if types.complex else float)).any()
    if types.real != "uint32":
        assert np.isnan(operands.wide(memory)).sum() == memory.size - inside.size


def test_sums_of_integers_wrap_around() -> None:
    a, b = np.full((1, 3), -128, np.int8), np.full((3, 1), -128, np.int8)
    values, scale = reference.product(2**16, a, b, 0, np.zeros((1, 1), np.int32))
    assert values[0, 0] == np.int64(3 * 2**30).astype(np.int32)
    assert not scale.any()


@pytest.mark.parametrize("dtype", ["complex64", "float16", "int8", "float8_e5m2"])
@pytest.mark.parametrize("kind", ["cpu", "gpu"])
def test_defaults_are_legal(dtype: str, kind: str) -> None:
    device = on_paper(kind)
    for size in (16, 300, 2048):
        for options in ({}, {"trans_a": "C", "trans_b": "R"}, {"trans_a": "R", "trans_b": "C"}):
            problem = GEMM.problem({"m": size, "n": size, "k": size}, dtype, options)
            config = GEMM.default(problem, device)
            assert GEMM.space(problem, device).violated(config) is None
            assert config["FORM"] in ((kind,) if kind == "cpu" else (kind, "matrix", "hopper"))
            assert GEMM.plan(problem, config, device).steps
