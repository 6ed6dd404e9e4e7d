"""The stream kernels: every operation in every order on every device, and the loads that they make of a GPU."""

from __future__ import annotations

import re

import numpy as np
import pytest

from portatile import program, workloads
from portatile.device import datasheet, ptx
from portatile.device.base import Device
from portatile.device.cuda import compiler as cuda_compiler
from portatile.workloads.stream import ARRAYS
from support.checking import check
from support.compiling import Interpreted
from support.seeds import new_seed

pytestmark = [pytest.mark.thinned(1 / 3), pytest.mark.unoptimised]

STREAM = workloads.get("stream")
CASES = (
    ("float32", {"VECTOR": 4, "WGS": 1, "PER_ITEM": 64, "ORDER": "item"}),
    ("float64", {"VECTOR": 2, "WGS": 64, "PER_ITEM": 4, "ORDER": "grid"}),
    ("float32", {"VECTOR": 1, "WGS": 32, "PER_ITEM": 8, "ORDER": "group"}),
)


@pytest.mark.parametrize("operation", ARRAYS)
def test_every_operation_in_every_order(device: Device, operation: str) -> None:
    rng = np.random.default_rng(new_seed(operation))
    for dtype, config in ((d, c) for place, (d, c) in enumerate(CASES) if place % 2 == list(ARRAYS).index(operation) % 2):
        for problem in STREAM.awkward(STREAM.problem({"n": 64}, dtype, {"operation": operation})):
            if STREAM.space(problem, device.info).violated(config) is None:
                verdict = check(device, STREAM, problem, config, rng)
                assert verdict.ok, f"{verdict.message}\n{config}\n{problem}"


def test_traffic_is_counted_as_babelstream_does() -> None:
    for operation, arrays in {"copy": 2, "mul": 2, "add": 3, "triad": 3, "dot": 2}.items():
        assert STREAM.traffic(STREAM.problem({"n": 1000}, "float64", {"operation": operation})) == arrays * 8000


@pytest.mark.skipif(cuda_compiler.available() is not None, reason=f"no CUDA compiler: {cuda_compiler.available()}")
@pytest.mark.parametrize("operation", ARRAYS)
@pytest.mark.parametrize("dtype", STREAM.dtypes)
def test_a_gpu_moves_sixteen_bytes_at_a_time(operation: str, dtype: str) -> None:
    """The default on sm_90: one 128-bit access for each array and vector, nothing scalar but what is left over."""
    info = datasheet("sm_90")
    problem = STREAM.problem({"n": 1 << 20}, dtype, {"operation": operation})
    plan = STREAM.plan(problem, STREAM.default(problem, info), info)
    text = program.build(plan.steps[0].source, Interpreted("sm_90"), None).data.rstrip(b"\0").decode()
    loads, stores = (len(re.findall(rf"{way}\.global\S*\.(?:v4\.[uf]32|v2\.[fu]64)", text)) for way in ("ld", "st"))
    reads = ARRAYS[operation] - (operation != "dot")
    per_item = 16 if operation == "dot" else 1
    assert loads >= per_item * reads, text
    assert stores >= (operation != "dot"), text
    assert all(counts.total for counts in ptx.functions(text).values())
