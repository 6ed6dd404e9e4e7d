"""The constants by which products by residues are expected to win: where they are from, and what users are told."""

from __future__ import annotations

import hashlib
import sys
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec
import pytest

from portatile import workloads
from portatile.device.cuda.info import capabilities
from portatile.workloads.gemm_residues import choice, costs
from support.devices import DEVICES

WORKLOAD = workloads.get("gemm_residues")
BENCH = Path(__file__).parents[2] / "bench"
STEPS = ("residues_cut", "residues_cut", "gemm", "gemm", "residues_join", "residues_mend")


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module that fits them."""
    monkeypatch.syspath_prepend(str(BENCH))
    return import_module("fit_residues")


def test_they_are_a_fit_of_recorded_steps(bench: Any) -> None:
    fitted = msgspec.json.decode(costs.FILE.read_bytes(), type=costs.Fitted)
    documents = []
    for name, digest in fitted.results.items():
        path = BENCH / "results" / name
        assert hashlib.sha256(path.read_bytes()).hexdigest() == digest
        documents.append(sys.modules["recorded"].read(path))
    again = bench.fitted(documents)
    for name in ("products", "ended", "leading", "launch"):
        assert getattr(again, name) == pytest.approx(getattr(fitted.costs, name), rel=5e-3)
    for name in ("native", "cut", "cut_across", "joined"):
        assert dict(getattr(again, name)) == pytest.approx(dict(getattr(fitted.costs, name)), rel=5e-3)


def test_a_fit_finds_what_made_the_times(bench: Any) -> None:
    known, rows = costs.known(), []
    for size in (1024, 2048, 4096, 8192):
        sizes = (size, size)
        cut = choice.cut_bytes(size, size, "float64")
        took = {
            0: cut / known.cut["float64"] / 132,
            1: cut / known.cut_across["float64"] / 132,
            2: size * size / known.leading / 132,
            3: choice.products(sizes, size, "float64", 132),
            4: choice.join_bytes(sizes, "float64") / known.joined["float64"] / 132,
            5: 0.0,
        }
        steps = [(name, 1e-6 * (took[place] + known.launch)) for place, name in enumerate(STEPS)]
        rows.append({"dtype": "float64", "sizes": [size] * 3, "name": "residues", "burst": 1.0, "steps": steps})
        problem = WORKLOAD.problem(dict.fromkeys("mnk", size), "float64")
        rows.append({**rows[-1], "name": "native", "burst": 2e-6 * size**3 / choice.native(problem, 132), "steps": []})
        assert choice.residues(problem, 132) == pytest.approx(1e6 * sum(seconds for _, seconds in steps), rel=1e-6)
    found = bench.fitted([{"compute_units": 132, "rows": rows}])
    for name in ("products", "ended", "leading", "launch"):
        assert getattr(found, name) == pytest.approx(getattr(known, name), rel=1e-6)
    for name in ("native", "cut", "cut_across", "joined"):
        assert getattr(found, name)["float64"] == pytest.approx(getattr(known, name)["float64"], rel=1e-6)


@pytest.mark.parametrize(("dtype", "small", "large"), [("float64", 1024, 4096), ("complex128", 512, 4096)])
def test_what_a_product_is_expected_to_take_is_told(dtype: str, small: int, large: int) -> None:
    """Where the native product is faster, too; nothing of devices whose units were not measured."""
    hopper = replace(DEVICES["gpu"], capabilities=capabilities("sm_90"))
    ampere = replace(hopper, capabilities=capabilities("sm_80"))
    notes = []
    for size in (small, large):
        problem = WORKLOAD.problem(dict.fromkeys("mnk", size), dtype)
        notes.append(WORKLOAD.note(problem, WORKLOAD.default(problem, hopper), hopper))
        assert WORKLOAD.note(problem, WORKLOAD.default(problem, ampere), ampere) == ""
    assert "times the native product's time: precision='native' is faster" in notes[0]
    assert "of the native product's time" in notes[1]
    assert "faster" not in notes[1]


def test_operands_that_lie_across_k_take_longer() -> None:
    along, across = (WORKLOAD.problem(dict.fromkeys("mnk", 4096), "float64", {"trans_a": a, "trans_b": b}) for a, b in ("NT", "TN"))
    assert choice.residues(along, 132) < choice.residues(across, 132)
