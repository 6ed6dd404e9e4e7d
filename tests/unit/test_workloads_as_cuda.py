"""Every workload as CUDA without a GPU: small problems, compiled by NVRTC and run by an interpreter of its PTX."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from portatile import workloads
from portatile.device import cuda_compiler

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "device"))
from checking import check, new_seed

from ptx_machine import TooLongError, UnsupportedInstructionError
from ptx_machine.device import PtxDevice

pytestmark = pytest.mark.skipif(cuda_compiler.available() is not None, reason=str(cuda_compiler.available()))

FLOPS = 25_000
# How many problems, and how many instructions a launch may take before the configuration is left to a GPU.
LIMITS = {"default": (2, 4_000_000), "random": (1, 1_000_000)}

CASES = [(name, dtype) for name in workloads.names() for dtype in workloads.get(name).dtypes]


@pytest.mark.parametrize("chosen", ["default", "random"])
@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_configurations_are_right(name: str, dtype: str, chosen: str) -> None:
    """The largest of the awkward problems that the interpreter can bear, within the workload's own error bound."""
    workload = workloads.get(name)
    rng = np.random.default_rng(new_seed(f"{name} {dtype} {chosen}"))
    pick = (lambda values: values[int(rng.integers(len(values)))]) if chosen == "random" else (lambda values: values[0])
    options = {option: pick(values) for option, values in workload.options.items()}
    problems = workload.awkward(workload.problem(dict.fromkeys(workload.sizes, 64), dtype, options))
    count, instructions = LIMITS[chosen]
    small = sorted((p for p in problems if workload.flops(p) <= FLOPS), key=workload.flops)[-count:]
    if not small:
        pytest.skip("none of its awkward problems is small enough")
    for problem in small:
        device = PtxDevice(limit=instructions)
        space = workload.space(problem, device.info)
        config = space.sample(rng) if chosen == "random" else workload.default(problem, device.info)
        try:
            verdict = check(device, workload, problem, config, rng)
        except (TooLongError, UnsupportedInstructionError) as error:
            pytest.skip(f"{type(error).__name__}: {error} with {dict(config)}")
        assert verdict.ok, f"{problem.sizes} {dict(problem.options)} {dict(config)}: {verdict.message}"
