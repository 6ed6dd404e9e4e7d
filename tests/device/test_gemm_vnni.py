"""The vnni form on every device: by its instructions where there are some, else, and where a processor hides them, by plain arithmetic."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from portatile import workloads
from portatile.device.base import Device
from portatile.workload import Inputs
from portatile.workloads.gemm.forms.vnni.point import Vnni
from support.checking import check
from support.seeds import new_seed

pytestmark = [pytest.mark.thinned(1 / 2), pytest.mark.unoptimised]

WORKLOAD = workloads.get("gemm")
SMALL = Vnni(TR=6, TC=16, UNROLL=2, RASTER=8)


@pytest.mark.parametrize("dtype", ["bfloat16", "bfloat16:float32", "int8", "int8:float16"])
def test_it_is_right(device: Device, dtype: str) -> None:
    """Awkward shapes, operands stored both ways; half of the time k is split."""
    rng = np.random.default_rng(new_seed(dtype))
    options = {f"trans_{name}": str(rng.choice(["N", "T"])) for name in "ab"}
    cases = WORKLOAD.awkward(WORKLOAD.problem({"m": 1, "n": 1, "k": 1}, dtype, options))
    case = cases[int(rng.integers(len(cases) - 1))]
    verdict = check(device, WORKLOAD, case, replace(SMALL, SPLIT_K=int(rng.choice([1, 3]))).config(), rng)
    assert verdict.ok, f"{options} {dtype} {case.sizes}: {verdict.message}"


@pytest.mark.parametrize(("alpha", "beta"), [(0, 0), (0, 3), (-2, 1)])
def test_factors_decide_what_is_read(device: Device, alpha: int, beta: int) -> None:
    """alpha = 0 ignores A and B of NaN, beta = 0 a C of NaN; whole factors suit bytes, too, of which the least are the hardest."""
    rng = np.random.default_rng(new_seed(f"{alpha} {beta}"))
    for dtype in ("bfloat16", "int8"):
        case = WORKLOAD.problem({"m": 20, "n": 40, "k": 33}, dtype)

        def alter(inputs: Inputs) -> Inputs:
            memory = {}
            for name, given in inputs.operands.items():
                ignored = beta == 0 if name == "c" else alpha == 0
                if given.dtype.kind == "i":
                    memory[name] = np.full_like(given, -128) if name != "c" else rng.integers(-99, 99, given.shape).astype(given.dtype)
                else:
                    memory[name] = np.full_like(given, np.nan) if ignored else rng.uniform(-0.5, 0.5, given.shape).astype(given.dtype)
            return Inputs(memory, {"alpha": alpha, "beta": beta})

        verdict = check(device, WORKLOAD, case, SMALL.config(), rng, alter)
        assert verdict.ok, f"{dtype}: {verdict.message}"


@pytest.mark.parametrize(("a", "b"), [(-130, 110), (-60, -50), (-60, -70), (-20, -110)], ids=str)
def test_small_bfloat16_are_no_zeros(device: Device, a: int, b: int) -> None:
    """Operands around 2^a and 2^b: vdpbf16ps would take subnormal operands and sums for zeros."""
    rng = np.random.default_rng(new_seed(f"{a} {b}"))
    case = WORKLOAD.problem({"m": 14, "n": 36, "k": 21}, "bfloat16:float32")

    def alter(inputs: Inputs) -> Inputs:
        memory = dict(inputs.operands)
        for name, exponent in (("a", a), ("b", b)):
            given = inputs.operands[name]
            memory[name] = np.ldexp(1 + rng.random(given.shape), exponent + rng.integers(0, 8, given.shape)).astype(given.dtype)
        return Inputs(memory, {"alpha": 1.0, "beta": 0.0})

    verdict = check(device, WORKLOAD, case, SMALL.config(), rng, alter)
    assert verdict.ok, verdict.message


def test_plain_arithmetic_gives_the_same(device: Device) -> None:
    """Where the device hides what it can do, int8 are equal and bfloat16 within their bound."""
    if not device.info.can.dot_types:
        pytest.skip("this device has no such instructions: the other tests ran plain arithmetic")
    rng = np.random.default_rng(new_seed("plain"))
    info = device.info
    try:
        device.info = replace(info, capabilities=replace(info.can, dot_types=()))
        for dtype in ("bfloat16:float32", "int8"):
            case = WORKLOAD.problem({"m": 20, "n": 40, "k": 33}, dtype, {"trans_a": "T"})
            verdict = check(device, WORKLOAD, case, SMALL.config(), rng)
            assert verdict.ok, f"{dtype}: {verdict.message}"
    finally:
        device.info = info


def test_stacks_and_epilogues_are_right(device: Device) -> None:
    rng = np.random.default_rng(new_seed("stacks and epilogues"))
    batched, ended = workloads.get("gemm_batched"), workloads.get("gemm_epilogue")
    case = batched.problem({"batch": 3, "m": 17, "n": 40, "k": 9}, "bfloat16", {"trans_b": "T"})
    verdict = check(device, batched, case, SMALL.config(batched=True), rng)
    assert verdict.ok, verdict.message
    options = {"scale_a": "rows", "scale_b": "columns", "bias": "columns", "activation": "relu"}
    case = ended.problem({"m": 17, "n": 40, "k": 9}, "int8:bfloat16", options)
    verdict = check(device, ended, case, SMALL.config(), rng)
    assert verdict.ok, verdict.message
