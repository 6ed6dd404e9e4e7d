"""Boundary handling costs nothing where tiles divide the problem: in the PTX of gpu.cl nothing is left that asks where an operand ends."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, replace

import pytest

from portatile import program, workloads
from portatile.device.cuda import compiler as cuda_compiler
from portatile.records import Launch, Value
from portatile.workloads.gemm.forms.gpu.point import matrix, pipeline
from portatile.workloads.gemm.point import Point
from support.compiling import Interpreted
from support.devices import DEVICES

pytestmark = pytest.mark.skipif(cuda_compiler.available() is not None, reason=f"no CUDA compiler: {cuda_compiler.available()}")

WORKLOAD, GPU = workloads.get("gemm"), DEVICES["gpu"]
ALIGNED = {"m": 1024, "n": 1024, "k": 1024}
BROKEN = 1028  # whole vectors, so that operands lie as before, and no whole tiles
_DECISIONS = 10  # alpha, beta, whether there is any tile, loops over tiles and steps, the ends of the ring of stages


@dataclass(frozen=True)
class Guards:
    """What of a kernel's PTX may be a guard. ``sized``: asynchronous copies that bring zeros past an end; ``m``: whether m is read."""

    comparisons: int
    selections: int
    clamps: int
    branches: int
    sized: int
    m: bool
    stores: Counter[str]


def guards(point: Point, dtype: str, options: dict[str, Value], sizes: dict[str, int]) -> Guards:
    plan = WORKLOAD.plan(WORKLOAD.problem(sizes, dtype, options), point.config(), GPU)
    (step,) = plan.steps
    assert isinstance(step, Launch)
    assert step.args[0].name == "m", "the first parameter is m"
    text = program.build(step.source, Interpreted("sm_90"), None).data.decode()
    opcodes = Counter(re.findall(r"^\s*(?:@!?%p\d+\s+)?(\w+)\.", text, re.MULTILINE))
    return Guards(
        opcodes["setp"],
        opcodes["selp"],
        opcodes["min"] + opcodes["max"],
        len(re.findall(r"^\s*@!?%p\d+\s+bra", text, re.MULTILINE)),
        len(re.findall(r"cp\.async\.c\w\.\S+\s+\[[^]]+\],\s*\[[^]]+\],\s*\d+,", text)),
        "ld.param.u32" in text and re.search(r"\[gemm_param_0\]", text) is not None,
        Counter(re.findall(r"\bst\.global\.(?:v\d|\w+)", text)),
    )


@pytest.mark.drawn(1 / 2)
@pytest.mark.parametrize(
    ("point", "dtype", "options"),
    [
        (pipeline(4, (16, 16), (4, 2), 16, 2, 4), "float32", {"trans_a": "T"}),
        (replace(pipeline(4, (16, 8), (2, 2), 16, 3, 4), TURN=True), "float32", {"trans_b": "T"}),
        (matrix((2, 2), (2, 2), 16, 3), "float64", {}),
    ],
    ids=["vectors of both", "both transposed on the way", "matrix instructions"],
)
def test_no_guard_is_left_where_tiles_divide_the_problem(point: Point, dtype: str, options: dict[str, Value]) -> None:
    """Of A, B, C and k: each appears as soon as its size is broken."""
    whole = guards(point, dtype, options, ALIGNED)
    assert not whole.m, "nothing asks whether a row is inside"
    assert whole.comparisons <= _DECISIONS
    assert whole.selections <= 3, "the ends of the ring, and alpha = 0"
    assert whole.clamps == 1, "k1 = min(k, k0 + chunk)"
    assert whole.sized == 0
    tile = point.rows * point.columns // point.items // point.VL
    assert whole.stores == {f"st.global.v{point.VL}": 2 * tile}, "C by vectors, with beta and without"
    rows, columns, steps = (guards(point, dtype, options, {**ALIGNED, size: BROKEN}) for size in "mnk")
    assert rows.m
    for edge in (rows, columns):
        assert edge.clamps > whole.clamps, "copies of A, or of B, stay inside"
        assert edge.branches >= whole.branches + tile, "every vector of C is asked for"
    assert steps.sized > 0 or steps.branches > whole.branches, "copies past k bring zeros"
    assert steps.comparisons > whole.comparisons
    assert steps.stores == whole.stores, "C has no edge then"
