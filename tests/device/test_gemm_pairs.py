"""The gpu form with float32 operands whose rows are aligned to 8 bytes: copied two elements at a time, with k slow and kept along k."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from portatile import workloads
from portatile.device.base import Device
from portatile.device.cuda import compiler
from portatile.device.cuda.info import capabilities
from portatile.errors import ArgumentError
from portatile.records import Launch
from portatile.workloads.gemm.forms.gpu.point import pipeline
from support.checking import check
from support.devices import on_paper
from support.seeds import new_seed

pytestmark = [pytest.mark.thinned(1 / 2), pytest.mark.unoptimised]

WORKLOAD = workloads.get("gemm")
SMALL = replace(pipeline(4, (8, 4), (1, 1), 8, 2, 4), PAIRS=True)


@pytest.mark.drawn(1 / 3)
@pytest.mark.parametrize(("trans", "keep"), [("TN", False), ("NT", True), ("NN", True)])
def test_two_elements_at_a_time_are_right(device: Device, trans: str, keep: bool) -> None:
    """Sides of 2 more than a multiple of 4, so that tiles end within A, B and k; and of one more, where elements go one by one."""
    rng = np.random.default_rng(new_seed(f"{trans} {keep}"))
    for odd in (0, 1) if trans == "TN" else (0,):
        m, n, k = (4 * int(rng.integers(3, 9)) + 2 - odd for _ in range(3))
        case = WORKLOAD.problem({"m": m, "n": n, "k": k}, "float32", {"trans_a": trans[0], "trans_b": trans[1]})
        point = replace(SMALL, KEEP=keep)
        facts = point.facts(case, device.info, bare_sums=False)
        expected = ["elements" if odd else "pairs", "dots" if odd else "dot_pairs"]
        assert [facts["A_FROM"], facts["B_FROM"]] == [expected[(trans[0] == "N")], expected[(trans[1] == "T")]]
        verdict = check(device, WORKLOAD, case, point.config(), rng)
        assert verdict.ok, f"{case}: {verdict.message}"


def test_pairs_are_of_float32() -> None:
    case = WORKLOAD.problem(dict.fromkeys("mnk", 66), "float64")
    with pytest.raises(ArgumentError, match="PAIRS is for float32"):
        WORKLOAD.plan(case, replace(SMALL, VL=2, TR=2, TC=2).config(), on_paper("gpu"))


@pytest.mark.skipif(compiler.available() is not None, reason="NVRTC is missing")
def test_pairs_are_one_copy() -> None:
    case = WORKLOAD.problem({"m": 4110, "n": 6566, "k": 64}, "float32", {"trans_a": "T"})
    point = replace(pipeline(4, (8, 8), (2, 2), 16, 3, 4), PAIRS=True)
    step = WORKLOAD.plan(case, point.config(), replace(on_paper("gpu"), capabilities=capabilities("sm_90"))).steps[0]
    assert isinstance(step, Launch)
    target = compiler.target("sm_90", "ptx")
    binary = target.compile(*target.lower(step.source))
    assert binary.resources["gemm"].spill_stores == 0
    text = target.assembly(binary)
    assert "cp.async.ca.shared.global" in text
    assert ", 8" in text.split("cp.async.ca.shared.global", 1)[1].split(";", 1)[0]
