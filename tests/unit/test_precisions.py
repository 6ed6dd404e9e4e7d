"""What a product's precision comes to: the workload that computes it, what is said of it, what is refused."""

from dataclasses import replace

import numpy as np
import pytest

import portatile
from portatile import workloads
from portatile.device.cuda import compiler
from portatile.device.cuda.info import capabilities
from portatile.errors import ArgumentError
from portatile.records import Call
from portatile.workloads import precisions
from support.checking import check
from support.devices import CPU, GPU
from support.ptx_machine.device import INFO, PtxDevice
from support.seeds import new_seed


def test_a_precision_chooses_what_computes():
    assert precisions.computed("", "gemm", "float32") == ("gemm", "float32", "", {})
    assert precisions.computed("tf32", "gemm_batched", "float32") == ("gemm_batched", "tfloat32", "", {})
    assert precisions.computed("emulated", "trmm", "float32") == ("trmm", "float32", "", {"precision": "emulated"})
    workload, dtype, note, _ = precisions.computed("emulated", "gemm", "float16")
    assert (workload, dtype) == ("gemm", "float16")
    assert "native" in note
    assert precisions.computed("reproducible", "gemm", "int8").workload == "gemm"


def test_what_cannot_be_as_asked_is_refused():
    with pytest.raises(ArgumentError, match="tf32"):
        precisions.computed("tf32", "gemm", "float64")
    with pytest.raises(ArgumentError, match="reproducible"):
        precisions.computed("reproducible", "gemm", "float16")
    with pytest.raises(ArgumentError, match="'native', 'tf32', '3m', 'emulated' or 'reproducible'"):
        portatile.matmul(np.ones((2, 2)), np.ones((2, 2)), precision="exact")  # type: ignore[arg-type]
    square = np.eye(2)
    with pytest.raises(ArgumentError, match="no precision"):
        portatile.explain("stencil", n1=8, n2=8, n3=8, precision="emulated")
    with pytest.raises(ArgumentError, match="tf32' is for products of float32; these are of float64"):
        portatile.syrk(square, precision="tf32")
    with pytest.raises(ArgumentError, match="'tf32', '3m' or 'emulated'"):
        portatile.trsm(square, square, precision="reproducible")  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="tf32, 3m, emulated and its own"):
        portatile.compile("trsm", m=2, n=2, precision="reproducible")
    with pytest.raises(ArgumentError, match="complex64"):
        portatile.symm(square, square, precision="3m")
    with pytest.raises(ArgumentError, match="complex64"):
        portatile.tune("trmm", m=2, n=2, precision="3m", budget="1")
    with pytest.raises(ArgumentError, match="bias"):
        portatile.gemm(np.ones((2, 2)), np.ones((2, 2)), activation="gelu", precision="reproducible")


def test_explain_says_where_the_native_product_runs():
    assert "native product" in portatile.explain("gemm", dtype="float16", m=8, n=8, k=8, precision="emulated").explanation


def test_explain_says_that_the_routine_matmul_is_another_workload():
    assert "computes by gemm" in portatile.explain("matmul", m=8, n=8, k=8).explanation


def test_an_epilogue_says_what_computes_its_product():
    """Bias and activation follow an emulated product; vectors of scales go with the native one, which is said."""
    sizes = {"m": 8, "n": 8, "k": 8}
    explained = portatile.explain("gemm_epilogue", **sizes, bias="rows", precision="emulated")
    assert "launch of their own; " in explained.explanation
    assert explained.config == {"FORM": "native"}
    explained = portatile.explain("gemm_epilogue", **sizes, scale_a="rows", precision="emulated")
    assert "no product in emulated with vectors of scales: the native product runs" in explained.explanation
    assert (
        "no emulated product of float8"
        in portatile.explain("gemm_blocks", dtype="float8_e4m3fn", **sizes, precision="emulated").explanation
    )
    with pytest.raises(ArgumentError, match="scales that are numbers"):
        portatile.explain("gemm_epilogue", **sizes, scale_b="columns", precision="reproducible")


def test_explain_says_where_a_device_has_no_units_for_a_type():
    sizes = {"m": 8, "n": 8, "k": 8}
    for dtype, device, said in (
        ("float8_e4m3fn", CPU, "no matrix units for float8_e4m3fn: the cpu form multiplies it as float32"),
        ("tfloat32", CPU, "no matrix units for tfloat32: float32 itself is multiplied"),
        ("float32", CPU, ""),
        ("float16", replace(GPU, capabilities=capabilities("sm_80")), ""),
    ):
        for name in ("gemm", "gemm_epilogue"):
            workload = workloads.get(name)
            if dtype in workload.dtypes:
                problem = workload.problem(sizes, dtype)
                result = workload.note(problem, workload.default(problem, device), device)
                assert result == (f"{device.name} has {said}" if said else "")


def test_scales_are_numbers_or_arrays():
    half = np.ones((2, 2), np.float16)
    for wrong in ([1.0, 2.0], "rows"):
        with pytest.raises(ArgumentError, match="pass one number, or an array"):
            portatile.gemm(half, half, scale_a=wrong)  # type: ignore[arg-type]


def test_explain_says_what_residues_cost_without_units():
    said = portatile.explain("gemm", dtype="float64", m=8, n=8, k=8, precision="emulated").explanation
    assert "takes longer than the native" in said
    assert "infinities and NaN are computed again" in said
    assert "NaN" not in portatile.explain("gemm", m=8, n=8, k=8, precision="emulated").explanation  # the native product runs


def test_explain_says_what_is_given_for_speed():
    for name, sizes in (("gemm", {"m": 8, "n": 8, "k": 8}), ("syrk", {"n": 8, "k": 8}), ("trmm", {"m": 8, "n": 8})):
        assert "error of the imaginary part" in portatile.explain(name, dtype="complex64", **sizes, precision="3m").explanation
        assert "ten bits" not in portatile.explain(name, **sizes, precision="tf32").explanation  # a processor has no such units
    problem, _ = precisions.problem("tf32", "gemm", "float32", {"m": 8, "n": 8, "k": 8})
    assert "2^-9" in precisions.accuracy_given_up("tf32", problem, replace(GPU, capabilities=capabilities("sm_90")))
    assert not precisions.accuracy_given_up("emulated", problem, GPU)


def test_explain_names_the_products_of_a_routine():
    said = portatile.explain("trsm", m=1024, n=64, dtype="float64", precision="emulated").explanation
    assert "products: " in said
    assert "takes longer than the native" in said
    assert "products" not in portatile.explain("trsm", m=1024, n=64, dtype="float64").explanation


COMPOSED = [name for name in workloads.names() if "precision" in workloads.get(name).options]


@pytest.mark.parametrize("name", COMPOSED)
@pytest.mark.parametrize("dtype", ["float64", "complex64"])
def test_all_products_of_a_routine_are_formed_as_asked(name: str, dtype: str):
    workload, expected = workloads.get(name), {"3m": {"gemm3m"}, "emulated": {"gemm_residues"}, "reproducible": {"gemm_residues"}}
    for precision in precisions.choices(name):
        if (precision == "3m" and dtype == "float64") or precision == "tf32":
            continue
        problem, _ = precisions.problem(precision, name, dtype, dict.fromkeys(workload.sizes, 1000))
        calls = set()
        for device in (GPU, CPU):
            config = workload.default(problem, device)
            if name == "syrk" and precision == "emulated":
                assert config["NB"] == 0  # nothing of it is expected to be faster
                assert "native ones run" in workload.note(problem, config, device)
                config = {**config, "NB": 256}
            assert workload.space(problem, device).violated(config) is None
            calls |= {step.problem.workload for step in workload.plan(problem, config, device).steps if isinstance(step, Call)}
        natively = {"gemm", "gemm_batched", "syrk"}  # inverses, and blocks on the diagonal
        assert calls - natively == expected[precision], precision
        assert name == "triangular" or "gemm" not in calls  # which multiplies by inverses of its diagonal's blocks natively
    native = workload.problem(dict.fromkeys(workload.sizes, 1000), dtype)
    assert "precision" not in native.options  # so that what was stored of it is found
    assert workload.problem(native.sizes, dtype, {"precision": "native"}) == native


@pytest.mark.parametrize("name", COMPOSED)
def test_products_in_tf32_are_those_of_the_units(name: str):
    """Of trsm but those with inverses of blocks; the bound says what their cuts cost."""
    workload = workloads.get(name)
    problem, _ = precisions.problem("tf32", name, "float32", dict.fromkeys(workload.sizes, 1000))
    for device in (GPU, CPU):
        config = workload.default(problem, device)
        assert workload.space(problem, device).violated(config) is None
        calls = [step.problem for step in workload.plan(problem, config, device).steps if isinstance(step, Call)]
        assert any(call.dtype == "tfloat32" for call in calls)
        assert name == "triangular" or all(call.dtype == "tfloat32" for call in calls)
        assert workload.bound(problem, config) >= 2**-9
    members = workload.members(problem, 8, 16)
    assert not members or members[0].dtype == "tfloat32"  # of the parts that several devices share
    assert "precision" not in workload.problem(problem.sizes, "float64", {"precision": "tf32"}).options


@pytest.mark.drawn(1 / 8)
@pytest.mark.skipif(compiler.available() is not None, reason="NVRTC is missing")
@pytest.mark.parametrize("name", ["symm", "syrk", "trmm", "triangular"])
def test_what_units_cut_is_within_the_bound(name: str):
    """In the interpreter of PTX, which cuts as they do."""
    workload, device = workloads.get(name), PtxDevice(replace(INFO, architecture="sm_80", capabilities=capabilities("sm_80")))
    problem, _ = precisions.problem("tf32", name, "float32", dict.fromkeys(workload.sizes, 20))
    config = workload.default(problem, device.info) | ({"NB": 16} if name == "triangular" else {})
    verdict = check(device, workload, problem, config, np.random.default_rng(new_seed(name)))
    assert verdict.ok, verdict.message


@pytest.mark.parametrize("name", [name for name in COMPOSED if "reproducible" in precisions.choices(name)])
def test_reproducible_results_come_of_the_same_products_everywhere(name: str):
    workload = workloads.get(name)
    problem, _ = precisions.problem("reproducible", name, "float64", dict.fromkeys(workload.sizes, 1000))
    found = []
    for device in (GPU, CPU):
        for config in (workload.default(problem, device), *workload.space(problem, device).scatter(np.random.default_rng(1), 4)):
            plan = workload.plan(problem, config, device)
            found.append([step.problem for step in plan.steps if isinstance(step, Call)])
    assert all(calls == found[0] for calls in found)
