"""The arithmetic kernels: every quantity on every device, and what they are made of on a GPU that is not here."""

from __future__ import annotations

import numpy as np
import pytest

from portatile import flat_plans, program, workloads
from portatile.device import datasheet, devices
from portatile.device.base import Device
from portatile.device.cuda import compiler as cuda_compiler
from portatile.device.cuda.compiler import CudaTarget
from portatile.measure import peaks
from portatile.workloads.gemm.capabilities import matrix_units
from support.checking import check
from support.compiling import Interpreted
from support.ptx_machine.device import PtxDevice
from support.seeds import new_seed

pytestmark = pytest.mark.thinned(1 / 3)  # what it computes is asked of PoCL for other cases every time

PEAK = workloads.get("peak")
QUANTITIES = PEAK.options["quantity"]


@pytest.mark.parametrize("quantity", QUANTITIES)
def test_every_quantity(device: Device, quantity: str) -> None:
    """Groups of many items on all awkward problems; the default is checked with every workload's."""
    rng = np.random.default_rng(new_seed(quantity))
    config = {"WGS": 64, "VECTOR": 1 if quantity == "product" else 2, "ILP": 2, "UNROLL": 4, "MAD": "fma"}
    for problem in PEAK.awkward(PEAK.problem({"n": 64, "rounds": 4}, "float32", {"quantity": quantity})):
        assert PEAK.space(problem, device.info).violated(config) is None
        verdict = check(device, PEAK, problem, config, rng)
        assert verdict.ok, f"{verdict.message}\n{problem}"


def test_loops_that_pocl_does_not_unroll_are_no_warning(device: Device) -> None:
    """Its compiler would count warnings on the terminal of whoever measures."""
    if "Portable Computing Language" not in device.info.platform:
        pytest.skip("the warning is of PoCL's compiler")
    problem = PEAK.problem({"n": 64, "rounds": 4}, "float32", {"quantity": "fma"})
    config = {"WGS": 1, "VECTOR": 8, "ILP": 8, "UNROLL": 8, "MAD": "fma"}  # calls fma, after which PoCL unrolls nothing
    (source,) = flat_plans.sources(PEAK.plan(problem, config, device.info))
    assert device.target.compile(source).log == ""


@pytest.mark.parametrize("quantity", QUANTITIES)
def test_one_step_more_or_less_is_noticed(quantity: str) -> None:
    """The reference of few steps tells their number: a kernel that leaves one out does not pass."""
    rng = np.random.default_rng(new_seed(quantity))
    few = PEAK.problem({"n": 100, "rounds": 3}, "float32", {"quantity": quantity})
    more = PEAK.problem({"n": 100, "rounds": 4}, "float32", {"quantity": quantity})
    inputs = PEAK.inputs(few, rng)
    one, other = (PEAK.reference(problem, inputs)["out"] for problem in (few, more))
    bound = PEAK.bound(few, PEAK.default(few, datasheet("sm_90")))
    assert np.mean(np.abs(one.values - other.values) > bound * one.scale) > 0.5


@pytest.mark.skipif(cuda_compiler.available() is not None, reason=f"no CUDA compiler: {cuda_compiler.available()}")
@pytest.mark.parametrize(
    ("quantity", "dtype", "instruction", "least"),
    [
        ("fma", "float32", "fma.rn.f32", 256),
        ("fma", "float64", "fma.rn.f64", 256),
        ("rsqrt", "float32", "rsqrt.approx.ftz.f32", 256),
        ("cos", "float32", "cos.approx", 256),
        ("sin", "float32", "sin.approx", 256),
        ("exp2", "float32", "ex2.approx", 256),
        ("product", "float64", "mma.sync.aligned.m16n8k8", 32),
        ("local", "float32", "ld.shared.v4.f32", 32),
    ],
)
def test_a_gpu_does_little_else(quantity: str, dtype: str, instruction: str, least: int) -> None:
    """The unrolled loop of the default on sm_90 is that instruction; nothing spills."""
    info = datasheet("sm_90")
    problem = PEAK.problem({"n": 1 << 20, "rounds": 4096}, dtype, {"quantity": quantity})
    launch = PEAK.plan(problem, PEAK.default(problem, info), info).steps[0]
    text = program.build(launch.source, Interpreted("sm_90"), None).data.decode()
    assert text.count(instruction) >= least
    assert "ld.local" not in text
    assert "st.local" not in text


@pytest.mark.skipif(cuda_compiler.available() is not None, reason=f"no CUDA compiler: {cuda_compiler.available()}")
@pytest.mark.parametrize(("wgs", "ilp"), [(32, 1), (64, 2)])
def test_matrix_units_multiply_tiles(wgs: int, ilp: int) -> None:
    """Whole and broken tiles, run by the interpreter of PTX."""
    rng = np.random.default_rng(new_seed("product"))
    opened = PtxDevice()
    config = {"WGS": wgs, "VECTOR": 1, "ILP": ilp, "UNROLL": 2, "MAD": "mma"}
    awkward = PEAK.awkward(PEAK.problem({"n": 64, "rounds": 4}, "float64", {"quantity": "product"}))
    for problem in (case for case in awkward if case.sizes["n"] * case.sizes["rounds"] < 10000):
        assert PEAK.space(problem, opened.info).violated(config) is None
        verdict = check(opened, PEAK, problem, config, rng)
        assert verdict.ok, f"{verdict.message}\n{problem}"


def test_matrix_units_of_a_device_multiply_tiles(device: Device) -> None:
    """Every form that is tried for the ceiling, on the problems that have few steps."""
    if not matrix_units(device.info):
        pytest.skip(f"{device.info.id} has no float64 matrix units of 16 x 8 x 8")
    rng = np.random.default_rng(new_seed("units"))
    quantity = next(quantity for quantity in peaks.arithmetic_quantities(device.info) if quantity.name == "mma")
    for problem in PEAK.awkward(peaks.problem(quantity, device.info)):
        for config in peaks.contenders(problem, device.info):
            assert config["MAD"] == "mma"
            verdict = check(device, PEAK, problem, config, rng)
            assert verdict.ok, f"{verdict.message}\n{problem}\n{config}"


@pytest.mark.skipif(cuda_compiler.available() is not None, reason=f"no CUDA compiler: {cuda_compiler.available()}")
def test_matrix_units_assemble() -> None:
    """Every form that `portatile bench peak` tries on an sm_90 is a cubin without spills; the default has four instructions to a round."""
    info = datasheet("sm_90")
    quantity = next(quantity for quantity in peaks.arithmetic_quantities(info) if quantity.name == "mma")
    asked = peaks.problem(quantity, info)
    assert peaks.work(quantity, asked) == 16 * asked.sizes["n"] * asked.sizes["rounds"]
    configs = peaks.contenders(asked, info)
    assert len(configs) == 4
    for config in configs:
        launch = PEAK.plan(asked, config, info).steps[0]
        resources = program.build(launch.source, CudaTarget("sm_90"), None).resources.get("peak")
        if resources is None:  # beside a GPU, and only there, NVRTC may answer from the driver's cache, which tells nothing of them
            assert any(opened.info.backend == "cuda" for opened in devices())
            continue
        assert (resources.spill_loads, resources.spill_stores) == (0, 0)
        assert resources.registers * config["WGS"] <= 65536
    assert "mma" not in {quantity.name for quantity in peaks.arithmetic_quantities(datasheet("sm_80"))}
