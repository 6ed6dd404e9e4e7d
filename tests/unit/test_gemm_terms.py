"""Float32 products from terms of 16 bits without a device: what they compile to, where they are chosen, what is promised."""

from __future__ import annotations

from dataclasses import replace

import pytest

from portatile import workloads
from portatile.device.cuda import compiler
from portatile.device.cuda.info import capabilities
from portatile.errors import ArgumentError
from portatile.records import Call, DeviceInfo, Launch, Problem
from portatile.workloads import precisions
from portatile.workloads.gemm import reference
from portatile.workloads.gemm_terms import choice, error, points
from support.devices import on_paper

WORKLOAD = workloads.get("gemm_terms")
HOPPER = replace(on_paper("gpu"), capabilities=capabilities("sm_90"))
AMPERE = replace(on_paper("gpu", "sm_80"), capabilities=capabilities("sm_80"))


def problem(m: int, n: int, k: int) -> Problem:
    return WORKLOAD.problem({"m": m, "n": n, "k": k})


@pytest.mark.drawn(1 / 3)
@pytest.mark.skipif(compiler.available() is not None, reason="NVRTC is missing")
@pytest.mark.parametrize(("form", "device", "architecture"), [("hopper", HOPPER, "sm_90"), ("matrix", AMPERE, "sm_80")])
def test_sums_stay_in_registers(form: str, device: DeviceInfo, architecture: str) -> None:
    """Of warp groups three sets of them, and none of their products waits for another."""
    steps = WORKLOAD.plan(problem(4096, 4096, 4096), points.config(form, "128x128"), device).steps
    source = next(step.source for step in steps if isinstance(step, Launch) and step.kernel == "gemm")
    target = compiler.target(architecture)
    binary = target.compile(*target.lower(source))
    assert binary.resources["gemm"].spill_stores == 0
    assert "serialized" not in binary.log


def test_the_native_product_runs_where_it_is_better() -> None:
    for sizes in ((64, 64, 64), (4096, 4096, 128), (256, 256, 256)):
        case = problem(*sizes)
        config = WORKLOAD.default(case, HOPPER)
        assert config == {"FORM": "native"}
        assert isinstance(WORKLOAD.plan(case, config, HOPPER).steps[0], Call)
        assert "the native product runs" in WORKLOAD.note(case, config, HOPPER)
    slow = replace(on_paper("gpu"), capabilities=capabilities("sm_86"))  # units at twice the plain rate
    for device in (on_paper("cpu"), slow):
        assert WORKLOAD.default(problem(4096, 4096, 4096), device)["FORM"] == "native"


def test_fewer_stages_where_local_memory_is_small() -> None:
    """Of an A100, 163 KB: two stages of the large tile."""
    config = WORKLOAD.default(problem(4096, 4096, 4096), replace(AMPERE, local_memory=163 << 10))
    assert (config["TILE"], config["STAGES"]) == ("128x128", 2)


def test_terms_are_chosen_for_large_products() -> None:
    for sizes in ((4096, 4096, 4096), (8192, 8192, 8192), (16384, 16384, 512), (2048, 4097, 3000)):
        for device, form in ((HOPPER, "hopper"), (AMPERE, "matrix")):
            case = problem(*sizes)
            config = WORKLOAD.default(case, device)
            assert config["FORM"] == form
            assert WORKLOAD.space(case, device).violated(config) is None
            assert [step.kernel for step in WORKLOAD.plan(case, config, device).steps if isinstance(step, Launch)] == [
                "terms_maxima",
                "terms_split",
                "gemm",
                "terms_native",
            ]
            assert not WORKLOAD.note(case, config, device)


def test_what_is_expected_of_the_native_product_is_the_estimate_of_its_form() -> None:
    """Not a rate that only large products reach: 64 rows of a tile compute 40, and terms win sooner."""
    square, narrow = problem(4096, 4096, 4096), problem(8000, 136, 7320)
    for case, least, most in ((square, 0.7, 1.2), (narrow, 1.1, 2.0)):
        formula = choice.native_us(case.sizes["m"] * case.sizes["n"] * case.sizes["k"], HOPPER)
        assert least * formula < choice.native(case, HOPPER) < most * formula
    assert choice.native(square, replace(AMPERE, vendor="someone else")) == choice.native_us(4096**3, AMPERE)


def test_the_bound_is_no_larger_than_the_native_one() -> None:
    """From where terms are chosen by themselves; the native one grows with every term, theirs much less."""
    gemm = workloads.get("gemm")
    for k in (choice.LEAST_K, 511, 512, 2047, 2048, 8191, 8192, 65536):
        native = reference.bound(gemm.problem({"m": 1, "n": 1, "k": k}), 2)
        for chunk in (16, 64):
            assert error.bound(k, chunk, 1) < native
        assert error.bound(k, 64, 1) < 0.7 * native


def test_tiles_are_tried_where_they_keep_the_native_bound() -> None:
    """From some 61 steps of k on, where sums leave the unit after each instruction, from some 170 where they do after a tile."""
    for k, forms in ((48, {"native"}), (72, {"native", "matrix"}), (200, {"native", "matrix", "hopper"})):
        case = problem(2048, 2048, k)
        result = list(WORKLOAD.space(case, HOPPER))
        assert {config["FORM"] for config in result} == forms
        assert all(WORKLOAD.bound(case, config) <= WORKLOAD.bound(case, {"FORM": "native"}) for config in result)
        assert WORKLOAD.default(case, HOPPER)["FORM"] == "native"
        said = WORKLOAD.note(case, {"FORM": "native"}, HOPPER)
        assert ("more accurate natively" in said) == (k == 48)


def test_configurations_name_what_there_is() -> None:
    with pytest.raises(ArgumentError, match="no form and tile hopper 256x256; there are hopper 128x128"):
        points.read({**points.config("hopper", "128x128"), "TILE": "256x256"})
    with pytest.raises(ArgumentError, match="two stages or more"):
        points.read(points.config("matrix", "64x64", stages=1))


def test_it_is_computed_unasked_where_it_wins() -> None:
    large, small = (workloads.get("gemm").problem(dict.fromkeys("mnk", size)) for size in (4096, 64))
    assert precisions.preferred(large, HOPPER) == WORKLOAD.problem(large.sizes)
    assert precisions.preferred(small, HOPPER) is small
    assert precisions.preferred(large, on_paper("cpu")) is large
    assert precisions.preferred(large, HOPPER, HOPPER) == WORKLOAD.problem(large.sizes)
    assert precisions.preferred(large, HOPPER, on_paper("cpu")) is large
    doubles = workloads.get("gemm").problem(large.sizes, "float64")
    assert precisions.preferred(doubles, HOPPER) is doubles


@pytest.mark.parametrize("name", ["symm", "syrk", "syr2k", "triangular", "trmm"])
def test_what_consists_of_large_products_is_computed_with_them_unasked(name: str) -> None:
    """But for TRMM: triangles are often too uneven for two terms."""
    workload = workloads.get(name)
    sizes = dict.fromkeys(workload.sizes, 4096)
    native = workload.problem(sizes)
    emulated = workload.problem(sizes, options={"precision": "emulated"})
    assert precisions.preferred(native, HOPPER) == (native if name == "trmm" else emulated)
    assert precisions.preferred(native, HOPPER, on_paper("cpu")) is native
    for other in (workload.problem(dict.fromkeys(sizes, 200)), workload.problem(sizes, "float64"), emulated):
        assert precisions.preferred(other, HOPPER) is other


def test_stacks_of_small_products_stay_together() -> None:
    assert not precisions.one_by_one("emulated", "float32", 256**3)
    assert precisions.one_by_one("emulated", "float32", 1024**3)
    assert precisions.one_by_one("reproducible", "float32", 8)
