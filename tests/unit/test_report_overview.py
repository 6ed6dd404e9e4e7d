"""The report's first screen: figures that are true, and what needs attention with what mends it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from portatile import ceilings
from portatile.ceilings import BRIEF, Measured
from portatile.reports import attention, overview
from portatile.reports.groups import Group, gather
from portatile.reports.overview import PlacedGroup
from portatile.trials import ARRAYS, FLOPS, Certificate, Trial
from portatile.workloads import speeds
from support import reporting

pytestmark = pytest.mark.usefixtures("own_directories")

COPY = Measured("copy", "B/s", 1e9, (1.0,), {"dtype": "float64"})
FP32 = Measured("fp32", "flop/s", 2e9, (1.0,), {"dtype": "float32"})


def trials(count: int = 20, late: bool = False) -> list[Trial]:
    """Valid ones of a convolution, each slower than the one before; with ``late`` each faster."""
    workload, problem = reporting.workloads.get("convolution"), reporting.convolution()
    default = workload.default(problem, reporting.DEVICE)
    times = [1e-3 * (1 + number) for number in range(count)]
    configs = [{**default, "TI": 2**number} for number in range(count)]
    ordered = reversed(times) if late else times
    return [
        reporting.made(problem, config, "ok", (time,) * 8, number)
        for number, (config, time) in enumerate(zip(configs, ordered, strict=True))
    ]


def placed(given: list[Trial]) -> list[PlacedGroup]:
    return [PlacedGroup(group, f"problem-{number}") for number, group in enumerate(gather(given), 1)]


def headings(given: list[Trial]) -> list[str]:
    return [concern.heading for concern in attention.concerns(placed(given))]


def test_a_quiet_search_with_ceilings_needs_no_attention() -> None:
    ceilings.add(reporting.DEVICE, [COPY, replace(FP32, samples=(1.5,))])
    assert headings(trials()) == []


def test_a_search_that_still_improves_is_told() -> None:
    assert "Still improving at the end" in headings(trials(late=True))
    assert "Still improving at the end" not in headings(trials(5, late=True))


def test_missing_and_brief_ceilings_are_told_with_the_command() -> None:
    (found,) = attention.concerns(placed(trials()))
    assert (found.heading, found.command) == ("No ceilings", "portatile bench peak && portatile bench bandwidth")
    ceilings.add(reporting.DEVICE, [replace(one, details={**one.details, BRIEF: True}) for one in (COPY, replace(FP32, samples=(1.5,)))])
    assert headings(trials()) == ["Ceilings measured briefly"]


def test_far_below_and_beyond_the_ceiling_are_told() -> None:
    group: Group = gather(trials())[0]
    assert group.best is not None
    reached = group.flops / group.best.comparable
    for factor, heading in ((10.0, "Far below the ceiling"), (0.5, "Faster than the ceiling")):
        ceilings.add(reporting.DEVICE, [replace(COPY, work=1e15), replace(FP32, work=factor * reached)], fresh=True)
        assert headings(trials()) == [heading]


def test_scatter_failures_and_wrong_winners_are_told() -> None:
    ceilings.add(reporting.DEVICE, [COPY, replace(FP32, samples=(1.5,))])
    result = trials()
    noisy = replace(result[0], samples=(1e-3, 1e-3, 2e-3, 2e-3, 1e-3, 2e-3, 1e-3, 1e-3))
    assert headings([noisy, *result[1:]]) == ["Times scatter"]
    failing = [replace(trial, status="crash", samples=()) for trial in result[1:]]
    assert headings([result[0], *failing]) == ["Most trials failed"]
    assert headings(failing) == ["Nothing valid"]
    wrong = replace(result[0], certificate=Certificate("1.0", "c", result[0].source, failure="C[0] is wrong"))
    assert headings([wrong, *result[1:]]) == ["A winner was found wrong"]


def test_the_overview_shows_shares_where_ceilings_are_known_and_speed_ups_elsewhere() -> None:
    (figure,) = overview.figures(placed(trials(late=True)))
    assert figure.title == "How much faster than the default"
    ceilings.add(reporting.DEVICE, [COPY, FP32])
    shares, roofline = overview.figures(placed(trials(late=True)))
    assert (shares.title, roofline.title) == ("How near to the ceiling", "Roofline")
    assert 'href="#problem-1"' in str(shares.draw("a"))
    assert overview.figures(placed(reporting.hopeless())) == []


def test_a_kernel_that_is_not_installed_has_the_speed_that_its_search_kept() -> None:
    kept = [replace(trial, conditions={FLOPS: 2e6}) for trial in reporting.owns()]
    ceilings.add(reporting.DEVICE, [FP32])
    (group,) = gather(kept)
    assert group.best is not None
    assert group.speed(group.best).startswith("20.0")
    assert group.share(group.best) == ("arithmetic", pytest.approx(2e6 / group.best.comparable / 2e9))


def test_a_kernel_without_operations_has_the_speed_of_its_arrays_in_report_and_results() -> None:
    kept = [replace(trial, conditions={ARRAYS: 2e6}) for trial in reporting.owns()]
    (group,) = gather(kept)
    assert group.best is not None
    assert group.speed(group.best).startswith("20.0")
    assert group.speed(group.best).endswith("GB/s")
    assert group.rate(group.best) == pytest.approx(20e9)
    assert group.share(group.best) is None  # nobody knows how much of them it must read
    assert speeds.speed(group.best, None) == "20.0 GB/s"
