"""The thin form of GEMM on every device: both ways of reading, staged and split, transposed, batched, and what must not be read."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from portatile import workloads
from portatile.device.base import Device
from portatile.workload import Inputs
from portatile.workloads import operands
from portatile.workloads.gemm import forms
from portatile.workloads.gemm.capabilities import local_limit
from portatile.workloads.gemm.forms.thin.point import column
from portatile.workloads.gemm.point import Point
from support.checking import check
from support.seeds import new_seed

pytestmark = [pytest.mark.thinned(1 / 2), pytest.mark.unoptimised]

WORKLOAD = workloads.get("gemm")
TRANSPOSITIONS = [{"trans_a": a, "trans_b": b} for a, b in itertools.product("NT", "NT")]
POINTS: dict[str, Point] = {
    "one column": column(4, (2, 1), 2, 16, 1),
    "from local memory": column(2, (2, 4), 4, 8, 2, staged=32),
    "split k": column(1, (1, 8), 1, 32, 1, split=3),
    "one part": column(2, (4, 2), 32, 1, 1),
    "in stages": replace(column(4, (4, 1), 2, 16, 1), STAGES=3),
    "in stages, from local memory": replace(column(2, (2, 2), 4, 8, 1, staged=16, split=2), STAGES=2),
}


@pytest.mark.parametrize("name", POINTS)
def test_the_form_is_right(device: Device, name: str) -> None:
    """Each point with k fast in the large operand and with it slow, transposed or not, on an edge-case shape that is drawn each time."""
    rng = np.random.default_rng(new_seed(name))
    for trans in "NT":
        turn, other = bool(rng.integers(2)), str(rng.choice(["N", "T"]))
        options = {"trans_b": trans, "trans_a": other} if turn else {"trans_a": trans, "trans_b": other}
        dtype = "float64" if device.info.fp64 and rng.integers(2) else "float32"
        cases = WORKLOAD.awkward(WORKLOAD.problem({"m": 1, "n": 1, "k": 1}, dtype, options))
        case = cases[int(rng.integers(1, len(cases) - 1))]
        verdict = check(device, WORKLOAD, case, replace(POINTS[name], TURN=turn).config(), rng)
        assert verdict.ok, f"{options} {dtype} {case.sizes} turn {turn}: {verdict.message}"


@pytest.mark.parametrize(("alpha", "beta"), [(1.0, 0.0), (0.0, 0.0), (0.0, 1.25), (-2.5, 1.0)])
def test_factors_decide_what_is_read(device: Device, alpha: float, beta: float) -> None:
    """beta = 0 ignores a C of NaN, alpha = 0 ignores A and B of NaN."""
    rng = np.random.default_rng(new_seed(f"{alpha} {beta}"))
    name = str(rng.choice(["one column", "from local memory", "in stages"]))
    sizes = {"m": 41, "n": 3, "k": 70}
    shapes = WORKLOAD.shapes(WORKLOAD.problem(sizes))
    layout = {operand: operands.padded(shape, 2, 1) for operand, shape in shapes.items()}
    case = WORKLOAD.problem(sizes, layout=layout)

    def alter(inputs: Inputs) -> Inputs:
        memory = {}
        for operand, given in inputs.operands.items():
            ignored = beta == 0 if operand == "c" else alpha == 0
            memory[operand] = np.full_like(given, np.nan) if ignored else operands.random(rng, layout[operand], shapes[operand], case.dtype)
        return Inputs(memory, {"alpha": alpha, "beta": beta})

    verdict = check(device, WORKLOAD, case, POINTS[name].config(), rng, alter)
    assert verdict.ok, verdict.message


def test_batches_are_right(device: Device) -> None:
    """Stacks whose matrices share one operand or lie apart."""
    rng = np.random.default_rng(new_seed("thin batch"))
    batched = workloads.get("gemm_batched")
    cases = batched.awkward(batched.problem({"batch": 1, "m": 1, "n": 1, "k": 1}, "float32", TRANSPOSITIONS[int(rng.integers(4))]))
    case = cases[int(rng.integers(len(cases)))]
    config = {name: value for name, value in POINTS["one column"].config().items() if name not in ("TXC", "TAIL")}
    verdict = check(device, batched, case, config, rng)
    assert verdict.ok, f"{case.sizes}: {verdict.message}"


@pytest.mark.parametrize("options", TRANSPOSITIONS, ids=lambda o: f"{o['trans_a']}{o['trans_b']}")
def test_a_gpus_default_is_right(device: Device, options: dict[str, str]) -> None:
    if device.info.kind != "gpu":
        pytest.skip(f"{device.info.id} is no GPU: its default has another form")
    rng = np.random.default_rng(new_seed("thin default"))
    for dtype in ("float32", "float64") if device.info.fp64 else ("float32",):
        for sizes in ((1, 1000, 3001), (1003, 1, 2048), (8, 2052, 700), (2048, 5, 9000), (3, 3, 20000)):
            case = WORKLOAD.problem(dict(zip("mnk", sizes, strict=True)), dtype, options)
            config = WORKLOAD.default(case, device.info)
            assert config["FORM"] == "thin"
            assert forms.read(config).local_bytes(case.itemsize) <= max(local_limit(device.info), 1 << 17)
            verdict = check(device, WORKLOAD, case, config, rng)
            assert verdict.ok, f"{dtype} {sizes}: {verdict.message}"
