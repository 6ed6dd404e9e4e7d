"""What the report tells, before it is drawn: groups of trials, winners, the course of a search, effects of parameters, scales."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from portatile import ceilings, workloads
from portatile.ceilings import Measured
from portatile.figures import quantities, scales
from portatile.records import canonical
from portatile.reports import formatting, page, tables
from portatile.reports.effects import effects, explained
from portatile.reports.groups import Group, gather
from support import reporting
from support.devices import DEVICES
from support.seeds import new_seed

pytestmark = pytest.mark.usefixtures("own_directories")


@pytest.fixture(scope="module")
def trials() -> list[reporting.Trial]:
    return reporting.everything(150)


@pytest.fixture(scope="module")
def groups(trials: list[reporting.Trial]) -> list[Group]:
    return gather(trials)


def generator() -> np.random.Generator:
    """A generator whose seed pytest shows beside a failure."""
    seed = new_seed("draws")
    return np.random.default_rng(seed)


def test_groups_keep_every_trial_apart_by_problem(trials: list[reporting.Trial], groups: list[Group]) -> None:
    assert [group.problem.workload for group in groups] == ["convolution", "gemm", "my <b>kernel</b>"]
    assert sum(len(group.trials) for group in groups) == len(trials)
    other = replace(reporting.DEVICE, driver="2.0")
    apart = gather([trials[0], replace(trials[0], device=other), replace(trials[0], cold=True)])
    assert len(apart) == 3
    assert len({group.title for group in apart}) == 3


def test_the_newest_trial_of_a_configuration_counts(trials: list[reporting.Trial]) -> None:
    good = next(trial for trial in trials[1:] if trial.status == "ok")
    slower = replace(good, samples=(1.0,) * 3)
    (group,) = gather([good, slower])
    assert [trial.median for trial in group.ranked] == [1.0]
    (group,) = gather([good, slower, reporting.made(good.problem, good.config, "wrong", (), 9)])
    assert group.best is None
    assert group.failed == 1


def test_the_winner_and_its_default(groups: list[Group], trials: list[reporting.Trial]) -> None:
    group = groups[0]
    assert group.best is not None
    assert group.best.median == min(reporting.finite([trial for trial in trials if trial.problem == group.problem]))
    assert group.default is not None
    workload = workloads.get("convolution")
    assert group.default.config == workload.default(group.problem, reporting.DEVICE)
    row = group.summary()
    assert row["speedup"] == pytest.approx(trials[0].median / group.best.median)
    assert row["gflops"] == pytest.approx(workload.flops(group.problem) / group.best.median / 1e9)
    assert row["share_of_peak"] is None
    assert groups[2].summary()["gflops"] is None  # nobody knows the operations of a kernel that is not installed
    assert groups[2].summary()["speedup"] == pytest.approx(1.0)
    assert groups[1].summary()["seconds_per_run"] is None


def test_a_search_that_began_with_another_default(groups: list[Group]) -> None:
    group = groups[0]
    rest = [trial for trial in group.trials if canonical(trial.config) != canonical(group.trials[0].config)]
    other = replace(group, trials=tuple(rest))
    assert other.default is not None
    assert other.default.config == rest[0].config
    assert replace(group, trials=(rest[0],)).default is None


def test_the_share_of_measured_ceilings(trials: list[reporting.Trial]) -> None:
    ceilings.add(reporting.DEVICE, [Measured("fp32", "flop/s", 1e11, (1.0,)), Measured("triad", "B/s", 1e6, (1.0,))])
    (group,) = gather(trials[:20])
    assert group.best is not None
    name, share = group.share(group.best) or ("", 0.0)
    assert name == "memory"  # of the two the one that was used more
    assert share == pytest.approx(group.traffic / group.best.median / 1e6)
    shown = page.render([group], lambda workload: [])
    assert "not measured" not in shown
    assert quantities.percent(share) in shown


@pytest.mark.parametrize(
    ("name", "sizes", "dtype", "seconds", "bound"),
    [
        ("coulomb", {"atoms": 40000, "nx": 512, "ny": 512, "nz": 1}, "float32", 40000 * 512**2 / 4.67e12, ("special", 4.67 / 4.17)),
        ("gemm", {"m": 4096, "n": 4096, "k": 4096}, "float64", 2 * 4096**3 / 58e12, ("matrix units", 58 / 66)),
        ("matmul", {"m": 4096, "n": 4096, "k": 4096}, "float64", 2 * 4096**3 / 30e12, ("arithmetic", 30 / 33.2)),
    ],
)
def test_the_share_names_what_binds(name: str, sizes: dict[str, int], dtype: str, seconds: float, bound: tuple[str, float]) -> None:
    """On a GPU with units for functions and for products, by what an H200 was measured to do."""
    gpu = DEVICES["gpu"]
    rates = {"fp32": ("flop/s", 65.7e12), "fp64": ("flop/s", 33.2e12), "mma": ("flop/s", 66e12), "special": ("op/s", 4.17e12)}
    known = [Measured(quantity, unit, rate, (1.0,)) for quantity, (unit, rate) in rates.items()]  # type: ignore[arg-type]
    ceilings.add(gpu, [*known, Measured("copy", "B/s", 4.2e12, (1.0,))])
    workload = workloads.get(name)
    problem = workload.problem(sizes, dtype)
    trial = replace(reporting.made(problem, workload.default(problem, gpu), "ok", (seconds,) * 3, 1), device=gpu)
    (group,) = gather([trial])
    share = group.share(trial)
    assert share is not None
    assert (share[0], share[1]) == (bound[0], pytest.approx(bound[1]))
    shown = page.render([group], lambda workload: [])
    assert ("special functions, some by polynomials" in shown) == (name == "coulomb")
    assert ("matrix units</span>" in shown) == (name == "gemm")


def test_steps_are_the_course_of_the_search(groups: list[Group]) -> None:
    steps = groups[0].steps
    best = math.inf
    for number, (step, trial) in enumerate(zip(steps, groups[0].trials, strict=True), 1):
        assert (step.number, step.trial) == (number, trial)
        assert step.improved == (trial.median < best)
        best = min(best, trial.median)
        assert step.best == best
    elapsed = [step.elapsed for step in steps]
    assert elapsed == sorted(elapsed)
    assert elapsed[1] - elapsed[0] == pytest.approx(3.0)  # by the clock


def test_pauses_between_runs_are_left_out(trials: list[reporting.Trial]) -> None:
    later = [replace(trials[1], time="2026-02-05T09:00:00+00:00"), replace(trials[2], time="not a time"), replace(trials[3], time="")]
    (group,) = gather([trials[0], *later])
    assert [step.elapsed for step in group.steps] == pytest.approx([1.5, 3.0, 4.5, 6.0])  # each counts its own phases


def test_failures_are_counted_by_kind_and_message(groups: list[Group]) -> None:
    (failure,) = groups[1].failures
    assert (failure.kind, failure.count) == ("crash", 3)
    assert sum(count for _, count in failure.messages) == 3
    counts = [failure.count for failure in groups[0].failures]
    assert counts == sorted(counts, reverse=True)
    assert sum(counts) == groups[0].failed


def test_the_deciding_parameter_leads(groups: list[Group]) -> None:
    result = effects(groups[0])
    assert result[0].name == "WINDOW"
    assert result[0].share is not None
    assert result[0].share > 0.9
    lowest = min(result[0].values, key=lambda one: one.median)
    assert lowest.value == 16
    assert sum(len(value.times) for value in result[0].values) == len(groups[0].ranked)
    for one in result[0].values:
        assert one.quantile(0.25) == pytest.approx(np.quantile(one.times, 0.25))
        assert one.median == pytest.approx(np.median(one.times))


def test_chance_explains_nothing() -> None:
    rng = generator()
    noise = [list(rng.normal(size=40)) for _ in range(10)]
    shares = [explained([list(rng.normal(size=40)) for _ in range(10)]) or 0.0 for _ in range(20)]
    assert np.mean(shares) < 0.03  # plain eta squared would be 9/399 on average, and never 0
    apart = [[x + 5 * place for x in group] for place, group in enumerate(noise)]
    assert (explained(apart) or 0.0) > 0.95
    values = np.concatenate([np.array(group) for group in apart])
    within = sum(np.var(group) * len(group) for group in apart)
    whole = np.var(values) * values.size
    assert explained(apart) == pytest.approx((whole - within - 9 * within / 390) / whole)
    assert explained([[1.0], [2.0]]) is None
    assert explained([[1.0, 1.0], [1.0, 1.0]]) is None
    assert explained([[1.0, 2.0]]) is None


def test_scales_and_ticks() -> None:
    rng = generator()
    for _ in range(300):
        low = 10.0 ** rng.uniform(-9, 2)
        values = low * 10.0 ** rng.uniform(0, rng.uniform(0, 4), 5)
        scale = scales.ratio(values, 300.0, 20.0)
        assert all(20.0 <= scale.at(value) <= 300.0 for value in values)
        assert scale.at(values.min()) >= scale.at(values.max())
        ticks = scale.ticks()
        assert 1 <= len(ticks) <= 8
        assert all(19.9 <= scale.at(tick) <= 300.1 for tick in ticks)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(1.61e-5, "16.1 µs"), (2e-3, "2.00 ms"), (1.5e-7, "150 ns"), (12.0, "12.0 s"), (99.95e-6, "100 µs"), (2500, "2500 s")],
)
def test_durations(seconds: float, text: str) -> None:
    assert quantities.duration(seconds).replace("\u202f", " ") == text


def test_csv_text_is_rfc_4180() -> None:
    assert tables.csv_text(("a", "b"), [(1.5, True), (math.inf, None), ('x"y', "l\nm")]) == 'a,b\r\n1.5,true\r\n,\r\n"x""y","l\nm"\r\n'


@pytest.mark.parametrize(
    ("time", "text"),
    [
        ("2026-11-22T05:36:58+00:00", "2026-11-22 05:36 UTC"),
        ("2026-11-22T05:36:58+02:00", "2026-11-22 03:36 UTC"),
        ("long ago", "long ago"),
    ],
)
def test_moments_are_of_utc(time: str, text: str) -> None:
    assert formatting.timestamp(time) == text


def test_speeds_are_what_people_compare() -> None:
    """A product's in Gflop/s; streaming through memory in GB/s, whatever is computed on the way."""
    product = workloads.get("gemm").problem({"m": 100, "n": 100, "k": 50})
    assert workloads.get("gemm").speed(product, 1e-3) == (1.0, "Gflop/s")
    triad = workloads.get("stream").problem({"n": 1000}, options={"operation": "triad"})
    assert workloads.get("stream").speed(triad, 1e-6) == (12.0, "GB/s")


def test_a_search_that_found_nothing_better_says_so(trials: list[reporting.Trial]) -> None:
    first = next(trial for trial in trials if trial.status == "ok")
    slower = [replace(first, config={**first.config, "place": place}, samples=(10.0 * first.median,) * 3) for place in range(3)]
    html = page.render(gather([first, *slower]), lambda workload: [])
    assert "stays the best, reached at trial 1 of 4" in html.replace("\u202f", " ")
    assert "falls from" not in html
