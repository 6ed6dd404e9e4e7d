"""The arithmetic kernels: every quantity on every device, and what they are made of on a GPU that is not here."""

from __future__ import annotations

import numpy as np
import pytest
from checking import check, new_seed

from portatile import program, workloads
from portatile.cli import _chips
from portatile.device import cuda_compiler
from portatile.device.base import Device
from portatile.device.cuda_compiler import CudaTarget

PEAK = workloads.get("peak")
QUANTITIES = PEAK.options["quantity"]


@pytest.mark.parametrize("quantity", QUANTITIES)
def test_every_quantity(device: Device, quantity: str) -> None:
    """Groups of many items on all awkward problems; the default is checked with every workload's."""
    rng = np.random.default_rng(new_seed(quantity))
    config = {"WGS": 64, "VECTOR": 2, "ILP": 2, "UNROLL": 4, "MAD": "fma"}
    for problem in PEAK.awkward(PEAK.problem({"n": 64, "rounds": 4}, "float32", {"quantity": quantity})):
        assert PEAK.space(problem, device.info).violated(config) is None
        verdict = check(device, PEAK, problem, config, rng)
        assert verdict.ok, f"{verdict.message}\n{problem}"


@pytest.mark.parametrize("quantity", QUANTITIES)
def test_one_step_more_or_less_is_noticed(quantity: str) -> None:
    """The reference of few steps tells their number: a kernel that leaves one out does not pass."""
    rng = np.random.default_rng(new_seed(quantity))
    few = PEAK.problem({"n": 100, "rounds": 3}, "float32", {"quantity": quantity})
    more = PEAK.problem({"n": 100, "rounds": 4}, "float32", {"quantity": quantity})
    inputs = PEAK.inputs(few, rng)
    one, other = (PEAK.reference(problem, inputs)["out"] for problem in (few, more))
    bound = PEAK.bound(few, PEAK.default(few, _chips.chip("sm_90")))
    assert np.mean(np.abs(one.values - other.values) > bound * one.scale) > 0.5


@pytest.mark.skipif(cuda_compiler.available() is not None, reason=f"no CUDA compiler: {cuda_compiler.available()}")
@pytest.mark.parametrize(
    ("quantity", "dtype", "instruction", "least"),
    [
        ("fma", "float32", "fma.rn.f32", 256),
        ("fma", "float64", "fma.rn.f64", 256),
        ("rsqrt", "float32", "rsqrt.approx.ftz.f32", 256),
        ("cos", "float32", "cos.approx", 256),
        ("exp2", "float32", "ex2.approx", 256),
        ("local", "float32", "ld.shared.v4.f32", 32),
    ],
)
def test_a_gpu_does_little_else(quantity: str, dtype: str, instruction: str, least: int) -> None:
    """The unrolled loop of the default on sm_90 is that instruction; nothing spills."""
    info = _chips.chip("sm_90")
    problem = PEAK.problem({"n": 1 << 20, "rounds": 4096}, dtype, {"quantity": quantity})
    launch = PEAK.plan(problem, PEAK.default(problem, info), info).steps[0]
    text = program.build(launch.source, CudaTarget("sm_90", "ptx"), None).data.decode()
    assert text.count(instruction) >= least
    assert "ld.local" not in text
    assert "st.local" not in text
