"""Kernels that may start before the one before them has ended wait for it: each entry of every text with that option."""

from __future__ import annotations

import pytest

from portatile import program, workloads
from portatile.device.cuda import compiler
from portatile.device.target import EARLY_START
from support.compiling import Interpreted
from support.gemm import GPU, launches

pytestmark = pytest.mark.skipif(compiler.available() is not None, reason=f"no CUDA compiler: {compiler.available()}")

PRODUCTS = {
    "one launch": ({"m": 100, "n": 100, "k": 100}, "float32"),
    "sums in parts": ({"m": 64, "n": 64, "k": 20000}, "float32"),
    "matrix units": ({"m": 1024, "n": 1024, "k": 1024}, "bfloat16"),
    "matrix units, sums in parts": ({"m": 64, "n": 64, "k": 65536}, "bfloat16"),
    "float64": ({"m": 300, "n": 500, "k": 200}, "float64"),
}


@pytest.mark.parametrize("case", PRODUCTS)
def test_every_kernel_with_the_option_waits(case: str) -> None:
    size, dtype = PRODUCTS[case]
    gemm = workloads.get("gemm")
    problem = gemm.problem(size, dtype)
    early = [step for step in launches(gemm.plan(problem, gemm.default(problem, GPU), GPU)) if EARLY_START in step.source.options]
    assert early, "no launch may start early: choose another problem"
    for step in early:
        binary = program.build(step.source, Interpreted("sm_90"), None)
        text = binary.data.decode()
        assert binary.early_start
        for entry in text.split(".entry ")[1:]:
            assert "griddepcontrol.wait" in entry, entry.split("(")[0]
