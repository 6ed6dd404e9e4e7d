"""The study of BigDFT's filters: every filter is a legal problem, and speed-ups are over the same filter on one core."""

from __future__ import annotations

from dataclasses import replace

import pytest

from portatile.errors import UnknownNameError
from portatile.studies import filters
from portatile.studies.filters import BEST, ONE_CORE, POINT, FilterRow
from portatile.wavelets import KINETIC, MAGICFILTER, SCALING
from portatile.workloads import get
from support.devices import DEVICES


@pytest.mark.parametrize("boundary", filters.BOUNDARIES)
@pytest.mark.parametrize("name", filters.FILTERS)
def test_every_filter_is_a_problem_with_a_legal_default(name: str, boundary: str) -> None:
    problem = filters.problem(FilterRow("d", "n", name, boundary, BEST, 64, "float64"))
    workload = get("convolution")
    space = workload.space(problem, DEVICES["gpu"])
    assert space.violated(workload.default(problem, DEVICES["gpu"])) is None


def test_the_documents_point_is_a_legal_preset() -> None:
    problem = filters.problem(FilterRow("d", "n", "magicfilter", "periodic", POINT, 64, "float64"))
    workload = get("convolution")
    assert workload.space(problem, DEVICES["gpu"]).violated(workload.preset("bigdft", problem)) is None
    with pytest.raises(UnknownNameError):
        workload.preset("magma", problem)


def test_speed_ups_are_over_the_same_filter_on_one_core() -> None:
    core, gpu, other = (
        FilterRow(device, "n", name, "free", BEST, 64, "float64", axis=seconds, gflops=1.0)
        for device, name, seconds in ((ONE_CORE, "analysis", 1.0), ("gpu", "analysis", 0.1), ("gpu", "synthesis", 0.1))
    )
    point = FilterRow("gpu", "n", "magicfilter", "periodic", POINT, 64, "float64", axis=0.4, gflops=1.0)
    best = FilterRow("gpu", "n", "magicfilter", "periodic", BEST, 64, "float64", axis=0.2, gflops=1.0)
    rows = filters.finish([core, gpu, other, point, best])
    assert [row.over_core for row in rows] == [1.0, pytest.approx(10.0), None, None, None]
    assert len(filters.figures(rows)) == 2
    assert "2.00 times as fast" in filters.notes(rows)[0]
    assert filters.answer(rows) == "Along an axis: gpu 10 times one core"
    assert filters.answer([other, replace(best, gflops=2.5)]) == "Along an axis: gpu 1 to 2.5 Gflop/s"


def test_they_are_the_filters_of_the_library() -> None:
    known = {"magicfilter": MAGICFILTER, "magicfilter transposed": MAGICFILTER.transposed, "analysis": SCALING, "kinetic": KINETIC}
    assert {name: (kind.taps, kind.lower) for name, kind in filters.FILTERS.items() if name in known} == {
        name: (len(one.taps), one.lower) for name, one in known.items()
    }


def test_names_are_checked() -> None:
    assert filters.chosen(("kinetic, analysis",), filters.FILTERS) == ["kinetic", "analysis"]
    with pytest.raises(UnknownNameError):
        filters.chosen(("haar",), filters.FILTERS)
