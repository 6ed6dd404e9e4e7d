"""The results of a user's own kernel without a device: which outputs are right, what is stored under which key and found again."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

from portatile import select
from portatile.errors import ArgumentError, UnknownNameError, UsageError
from portatile.kernel import Kernel
from portatile.kernel.checks import Checks
from portatile.kernel.expression import argument_names
from portatile.trials import Trial
from portatile.verify import compare
from support.kernels import ADD, N, add, given
from support.ptx_machine.device import PtxDevice


def outputs(*names: str, dtype: Any = np.float32) -> Any:
    head = f"kernel void f({', '.join(f'global {_C[np.dtype(dtype).name]} *{name}' for name in names)}) {{ }}"
    arrays = [np.zeros((2, 3), dtype) for _ in names]
    return Kernel(head, "f", arrays, {}, global_size=1, local_size=1).arguments.outputs


_C = {"float32": "float", "int32": "int", "complex64": "float2"}


def test_references_come_as_arrays_tuples_and_dicts() -> None:
    ones = np.ones((2, 3))
    for reference in ({"x": ones, "y": None}, (ones, None), lambda: {"x": ones, "y": None}, lambda: [ones, None]):
        expected = Checks(reference, None, None).expected(outputs("x", "y"), {})
        assert set(expected) == {"x"}
        assert np.array_equal(expected["x"].values, np.ones(6))
    for reference, message in (((ones,), "gives 1 arrays"), (ones, "a value for each of x, y"), ({"x": ones}, "has no value for y")):
        with pytest.raises(ArgumentError, match=message):
            Checks(reference, None, None).check(outputs("x", "y"))
    with pytest.raises(ArgumentError, match="returns None"):
        Checks(lambda: None, None, None).expected(outputs("x"), {})


def test_tolerances_become_the_scale() -> None:
    wanted = np.array([[1.0, -2.0, np.inf], [np.nan, 0.0, 4.0]])
    (expected,) = Checks(wanted, 0.1, 0.5).expected(outputs("x"), {}).values()
    assert np.allclose(expected.scale, [0.6, 0.7, 0, 0, 0.5, 0.9])
    (expected,) = Checks(wanted, {"x": 0.1}, None).expected(outputs("x"), {}).values()
    assert np.allclose(expected.scale, [0.14, 0.24, 0, 0, 0.04, 0.44])
    (expected,) = Checks(np.ones((2, 3), int), None, None).expected(outputs("x", dtype=np.int32), {}).values()
    assert np.array_equal(expected.scale, np.zeros(6))


def test_masked_elements_and_complex_numbers() -> None:
    masked = np.ma.masked_less(np.arange(6.0).reshape(2, 3), 2)
    (expected,) = Checks(masked, None, None).expected(outputs("x"), {}).values()
    assert expected.indices is not None
    assert expected.indices.tolist() == [2, 3, 4, 5]
    (expected,) = Checks(np.full((2, 3), 1 + 2j), None, None).expected(outputs("x", dtype=np.complex64), {}).values()
    assert expected.values.tolist() == [1.0, 2.0] * 6
    with pytest.raises(ArgumentError, match="must hold numbers like"):
        Checks(np.full((2, 3), 1j), None, None).expected(outputs("x"), {})


def test_of_partial_results_the_reduction_is_compared() -> None:
    for reference in (15.0, np.arange(6.0).reshape(2, 3)):
        (expected,) = Checks(reference, None, None, {"x": "sum"}).expected(outputs("x"), {}).values()
        assert compare(np.array([9, 6, 0, 0, 0, 0], np.float32), expected, 1.0).ok
        wrong = compare(np.array([9, 6.5, 0, 0, 0, 0], np.float32), expected, 1.0, "x")
        assert "the sum of x is 15.5" in wrong.message
        assert not compare(np.array([9, 6, np.nan, 0, 0, 0], np.float32), expected, 1.0).ok
    (expected,) = Checks(lambda: 7, None, None, {"x": "max"}).expected(outputs("x", dtype=np.int32), {}).values()
    assert compare(np.array([1, 7, 2], np.int32), expected, 1.0).ok
    with pytest.raises(ArgumentError, match=r"reductions=\{'x': 'sum'\}"):
        Checks(15.0, None, None).check(outputs("x"))
    for reductions, message in (({"y": "sum"}, "unknown output in reductions 'y'"), ({"x": "mean"}, "unknown reduction 'mean'")):
        with pytest.raises(UnknownNameError, match=message):
            Checks(15.0, None, None, reductions).check(outputs("x"))
    with pytest.raises(ArgumentError, match="x is complex"):
        Checks(15.0, None, None, {"x": "sum"}).check(outputs("x", dtype=np.complex64))


def test_arguments_named_like_keywords_are_read_with_an_underscore() -> None:
    assert argument_names(lambda in_, x_, y: None, "reference") == ("in", "x_", "y")
    assert argument_names(lambda in_, from_: None, "reference", known=("in_", "from")) == ("in_", "from")


def test_an_argument_may_end_in_the_underscore_itself() -> None:
    text = "kernel void f(global const float *in_, global float *out) { out[get_global_id(0)] = in_[get_global_id(0)]; }"
    x = np.arange(4, dtype=np.float32)
    kernel = Kernel(text, "f", (x, np.zeros_like(x)), {"g": [1, 2]}, local_size="g", global_size=4, reference=lambda in_: in_)
    (expected,) = kernel.expected(kernel.problem()).values()
    assert (expected.values == x).all()


def test_a_text_without_kernels_says_what_makes_one() -> None:
    with pytest.raises(UsageError, match=r"f\.cl has no kernel: no function is declared __kernel"):
        Kernel("void f(global float *x) { x[0] = 1; }", "f", (np.zeros(4, np.float32),), {"L": [1]}, global_size=1)


def test_an_output_that_holds_the_answer_already_is_no_test() -> None:
    def reference_of(kernel: Kernel) -> None:
        kernel.reference(kernel.problem(), kernel.inputs(kernel.problem(), np.random.default_rng(0)))

    a, b, _, n = given()["arguments"]
    with pytest.warns(UserWarning, match="c held the expected values before add ran"):
        reference_of(add(arguments=(a, b, a + b, n)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        reference_of(add(arguments=(a, b, a + b, n), roles={"c": "out"}))
        reference_of(add())
        edge = add(awkward=[(np.zeros(1, np.float32), np.zeros(1, np.float32), np.zeros(1, np.float32), 1)])
        reference_of(edge)
        edge.reference(edge.awkward(edge.problem())[0], edge.inputs(edge.problem(), np.random.default_rng(0)))


def test_outputs_that_are_only_written_are_poisoned() -> None:
    kernel = add(roles={"c": "out"})
    assert np.isnan(kernel.inputs(kernel.problem(), np.random.default_rng(0)).operands["c"]).all()


# What results are stored under


def test_equal_definitions_have_equal_keys_and_others_do_not() -> None:
    a, b, c, n = given()["arguments"]
    assert add().problem().key == add().problem().key  # other numbers, the same problem
    others = [
        {"source": ADD + " "},
        {"arguments": (a, b, c, n - 1)},
        {"arguments": (a, b, np.zeros(N + 1, np.float32), n), "reference": None},
        {"parameters": {"block": [32, 64], "work": [1, 2], "more": [1]}},
        {"global_size": "n"},
        {"local_size": lambda block: block},
        {"reference": None},
        {"reference": lambda a, b: b + a + 0},
        {"rtol": 1e-3},
        {"roles": {"c": "out"}},
        {"constants": {"more": 1}},
        {"options": ["-cl-fast-relaxed-math"]},
    ]
    keys = [add(**changes).problem().key for changes in ({}, *others)]
    assert len(set(keys)) == len(keys)
    assert add(parameters={"block": [32, 64, 128], "work": [1, 2]}).problem().key == keys[0]  # more values: what is known stays known


def test_a_near_problem_and_a_changed_text_lend_their_configuration() -> None:
    info = PtxDevice().info
    kernel, near, changed = add(), add(global_size="n"), add(source=ADD.replace("k++", "++k"))
    best = {"block": 64, "work": 2}
    trial = Trial(kernel.problem(), best, info, "", "ok", samples=(1e-3, 1e-3))
    assert select.choose(kernel, kernel.problem(), info, [trial]).reason == "tuned"
    for other in (near, changed):
        assert select.choose(other, other.problem(), info, [trial]).config == best
    assert select.choose(kernel, kernel.problem({"n": 1100}), info, [trial]).config == best
    assert select.choose(kernel, kernel.problem({"n": 100_000}), info, [trial]).reason == "default"


def test_only_integer_arguments_may_differ() -> None:
    with pytest.raises(ArgumentError, match="only integer arguments may differ"):
        add().problem({}, "float64")
