"""The dispatcher over shapes: expected times near a problem, regret with each shape held out, and what warm starts save."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from portatile import select, strategies, workloads
from portatile.errors import ArgumentError, UnknownNameError
from portatile.predict import Prediction
from portatile.records import Config, DeviceInfo, Layout, Problem, canonical
from portatile.space import ParameterSpace
from portatile.store import ResultStore
from portatile.trials import Trial
from portatile.tuning.search import held_out, shapes, shapes_file
from portatile.workload import Operand
from support import devices
from support.never_run import NeverRun

GPU = replace(devices.GPU, compute_units=48, global_memory=2**34, max_allocation=2**33)
SHAPES = (
    *((512, 512, 512), (640, 640, 512), (768, 512, 640), (1024, 512, 512), (512, 1024, 768), (896, 896, 896)),
    *((1024, 1024, 1024), (1152, 1024, 768), (640, 1280, 1024), (768, 768, 768), (1280, 1280, 640), (512, 768, 1024)),
)


class Tiles(NeverRun):
    """A tiled product, as far as the dispatcher is concerned: tiles BM x BN, DEPTH steps at a time, k shared by SPLIT groups."""

    name = "tiles"
    sizes: Mapping[str, str] = {"m": "rows", "n": "columns", "k": "terms"}
    operands = (Operand("a"), Operand("c", "out"))

    def shapes(self, problem: Problem) -> dict[str, tuple[int, ...]]:
        return {"a": (problem.sizes["m"], problem.sizes["k"]), "c": (problem.sizes["m"], problem.sizes["n"])}

    def space(self, problem: Problem, device: DeviceInfo) -> ParameterSpace:
        edges = (16, 32, 64, 96, 128)
        return ParameterSpace(
            {"BM": edges, "BN": edges, "DEPTH": (8, 16, 32), "SPLIT": (1, 2, 4), "WIDE": (False, True)},
            ["BM * BN <= 8192", "SPLIT == 1 or k >= 128 * SPLIT"],
            problem.facts(),
        )

    def default(self, problem: Problem, device: DeviceInfo) -> Config:
        return config()

    def flops(self, problem: Problem) -> float:
        return 2.0 * math.prod(problem.sizes.values())

    def traffic(self, problem: Problem) -> float:
        return 1.0

    def waste(self, problem: Problem, config: Config, device: DeviceInfo) -> float:
        m, n, bm, bn = problem.sizes["m"], problem.sizes["n"], int(config["BM"]), int(config["BN"])
        tiles = -(-m // bm) * -(-n // bn)
        groups = tiles * int(config["SPLIT"])
        return tiles * bm * bn / (m * n) * -(-groups // device.compute_units) * device.compute_units / groups


TILES = Tiles()
GEMM = workloads.get("gemm")


def config(bm: int = 64, bn: int = 64, depth: int = 8, split: int = 1, wide: bool = False) -> Config:
    return {"BM": bm, "BN": bn, "DEPTH": depth, "SPLIT": split, "WIDE": wide}


def problem(m: int, n: int, k: int) -> Problem:
    return TILES.problem({"m": m, "n": n, "k": k})


def seconds(case: Problem, config: Config) -> float:
    """A GPU on paper: loads that large tiles save, registers that they cost, waves of groups, a start that each group pays."""
    m, n, k = (case.sizes[s] for s in "mnk")
    bm, bn, depth, split = (int(config[name]) for name in ("BM", "BN", "DEPTH", "SPLIT"))
    waves = -(-(-(-m // bm) * -(-n // bn) * split) // GPU.compute_units)
    loads = (24 if config["WIDE"] == (bn >= 64) else 34) * (1 / bm + 1 / bn)
    step = bm * bn * (1 + loads) * (1 + max(0, bm * bn - 4096) / 8192) * (1 + 2 / depth) * (1 + depth * (bm + bn) / 30000)
    return 1e-11 * (waves * (step * k / split + 60 * bm * bn) + (200 * m * n / 1000 if split > 1 else 0))


def trial(case: Problem, config: Config) -> Trial:
    return Trial(case, dict(config), GPU, "hash", "ok", (seconds(case, config),))


def tuned(cases: list[Problem], rng: np.random.Generator, draws: int = 60) -> dict[str, list[Trial]]:
    """The default and random trials of each problem, fastest first."""
    found = {}
    for case in cases:
        legal = list(TILES.space(case, GPU))
        chosen = [legal[place] for place in rng.choice(len(legal), min(draws, len(legal)), replace=False)]
        found[case.key] = sorted((trial(case, each) for each in [TILES.default(case, GPU), *chosen]), key=lambda t: t.median)
    return found


@pytest.fixture(scope="module")
def crossed() -> tuple[list[Trial], list[Trial]]:
    """(known, measured): leaders of every shape, and every winner on every shape where it is legal."""
    cases = [problem(*sizes) for sizes in SHAPES]
    searched = tuned(cases, np.random.default_rng(5))
    winners = {canonical(trials[0].config): trials[0].config for trials in searched.values()}
    cross = [trial(case, config) for case in cases for config in winners.values() if config in TILES.space(case, GPU)]
    defaults = [trial(case, TILES.default(case, GPU)) for case in cases]
    leaders = [t for trials in searched.values() for t in trials[:5]]
    return [*leaders, *cross, *defaults], [*cross, *defaults]


def test_regret_is_less_than_that_of_the_nearest_and_of_the_default(crossed: tuple[list[Trial], list[Trial]]) -> None:
    known, measured = crossed
    told = {name: held_out.summary(held_out.regrets(TILES, GPU, known, measured, rule)) for name, rule in held_out.RULES.items()}
    print(told)
    assert told["dispatcher"].unknown == 0
    assert told["dispatcher"].mean < 0.1
    assert told["dispatcher"].mean < 0.7 * told["nearest"].mean
    assert told["dispatcher"].mean < told["default"].mean


def test_what_is_held_out_is_not_looked_at(crossed: tuple[list[Trial], list[Trial]]) -> None:
    """A rule that asks sees nothing of the problem, also where only its layout differs."""
    known, measured = crossed
    case = problem(*SHAPES[0])
    aligned = replace(case, layout={name: Layout(stored.strides, 0, 16) for name, stored in case.layout.items()})
    seen: list[Problem] = []

    def spy(workload: object, asked: Problem, device: object, others: object) -> Config:
        assert all(dict(t.problem.sizes) != dict(asked.sizes) for t in others)  # type: ignore[attr-defined]
        seen.append(asked)
        return {}

    result = held_out.regrets(TILES, GPU, [*known, trial(aligned, known[0].config)], measured, spy)
    assert len(seen) == len(SHAPES)
    assert held_out.summary(result).unknown == len(SHAPES)
    assert math.isnan(held_out.summary(result).mean)


def test_a_config_that_wastes_the_shape_is_passed_over() -> None:
    """Two that were equally fast: the one whose tiles the shape fills is chosen, and the explanation says among how many."""
    one = replace(GPU, compute_units=1)
    trials = [replace(trial(problem(512, 512, 512), config(edge, edge)), samples=(1.0,), device=one) for edge in (64, 32)]
    chosen = select.choose(TILES, problem(544, 544, 512), one, trials)
    assert chosen.config["BM"] == 32
    assert "of 2 known" in chosen.explanation


def test_standings_of_several_problems_are_weighed() -> None:
    """A configuration that is second on every problem nearby beats those that won one and were bad on the others."""
    near = [problem(512, 512, 512), problem(576, 512, 512), problem(512, 576, 512)]
    times = {8: (1.05, 1.05, 1.05), 16: (1.0, 1.6, 1.6), 32: (3.0, 1.0, 1.0)}
    trials = [
        replace(trial(case, config(depth=depth)), samples=(took,))
        for depth, row in times.items()
        for case, took in zip(near, row, strict=True)
    ]
    asked = problem(544, 544, 512)
    ranked = Prediction(TILES, asked, GPU, [(TILES.distance(t.problem, asked), t) for t in trials]).candidates()
    assert ranked[0].config["DEPTH"] == 8


def test_the_default_wins_where_it_is_known_to_be_good_and_the_problem_is_far() -> None:
    here, far = problem(512, 512, 512), problem(1400, 1400, 1400)
    result = replace(trial(here, config(depth=16)), samples=(1.0,))
    good, poor = (replace(trial(here, TILES.default(here, GPU)), samples=(took,)) for took in (1.02, 4.0))
    assert select.choose(TILES, far, GPU, [result, good]).reason == "default"
    assert select.choose(TILES, far, GPU, [result, poor]).reason == "near problem"


@pytest.mark.parametrize(("ahead", "reason"), [(1.09, "near problem"), (1.11, "default")])
def test_what_was_measured_is_taken_unless_the_default_should_be_clearly_faster(
    ahead: float, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, away = problem(512, 512, 512), problem(640, 512, 512)
    result = trial(here, config(depth=16))
    (candidate,) = Prediction(TILES, away, GPU, [(TILES.distance(here, away), result)]).candidates()
    monkeypatch.setattr(Prediction, "default", lambda self: candidate.slowness - math.log(ahead))
    assert select.choose(TILES, away, GPU, [result]).reason == reason


def test_what_was_better_than_the_default_is_believed_some_doublings_away() -> None:
    """Twice as large in two sizes: a configuration that beat the default by a quarter is taken."""
    here, away = problem(512, 512, 512), problem(1024, 1024, 512)
    default, other = (replace(trial(here, config(depth=depth)), samples=(took,)) for depth, took in ((8, 1.25), (16, 1.0)))
    assert select.choose(TILES, away, GPU, [default, other]).config["DEPTH"] == 16
    assert select.choose(TILES, away, GPU, [replace(default, samples=(1.0,)), replace(other, samples=(1.25,))]).config["DEPTH"] == 8


@dataclass(frozen=True)
class Finished:
    config: Config
    median: float


def test_warm_starts_save_trials() -> None:
    """Trials until 5 % above the best of a long search: with what three near problems suggest, and without."""
    case = problem(832, 704, 768)
    near = tuned([problem(768, 768, 768), problem(896, 640, 768), problem(640, 640, 640)], np.random.default_rng(1), 200)
    known = [t for trials in near.values() for t in trials[:5]]
    start = [choice.config for choice in select.candidates(TILES, case, GPU, known, 5)]
    assert len(start) == 5
    assert len({canonical(config) for config in start}) == 5
    goal = 1.05 * tuned([case], np.random.default_rng(2), 10_000)[case.key][0].median

    def needed(first: list[Config], seed: int) -> int:
        search = strategies.get("genetic")(TILES.space(case, GPU), np.random.default_rng(seed), [TILES.default(case, GPU), *first])
        for count, outcome in enumerate(strategies.evaluate(search, lambda config: Finished(config, seconds(case, config))), 1):
            if outcome.median <= goal or count == 120:
                return count
        return 120

    cold, warm = ([needed(first, seed) for seed in range(3)] for first in ([], start))
    print(cold, warm)
    assert max(warm) <= 6
    assert float(np.median(cold)) > 3 * float(np.median(warm))


def test_candidates_come_from_this_problem_first_and_from_other_devices_last() -> None:
    case, other = problem(512, 512, 512), replace(GPU, name="Chip B")
    trials = [replace(trial(case, config(depth=8)), device=other), trial(problem(640, 512, 512), config(depth=16)), trial(case, config())]
    trials[2] = replace(trials[2], config=config(depth=32))
    assert [choice.reason for choice in select.candidates(TILES, case, GPU, trials, 5)] == ["tuned", "near problem", "near device"]
    assert len(select.candidates(TILES, case, GPU, trials, 2)) == 2


def test_the_store_gives_leaders_their_crossings_and_the_first_trial() -> None:
    one, two = problem(512, 512, 512), problem(640, 512, 512)
    configs = [config(depth=depth, wide=wide) for depth in (8, 16, 32) for wide in (False, True)]
    with ResultStore(None) as store:
        for case, order in ((one, (3, 0, 1, 2, 4, 5)), (two, (0, 1, 2, 3, 4, 5))):
            for place in order:  # configuration 0 leads on the first, 5 on the second
                store.add(replace(trial(case, configs[place]), samples=(1.0 + place if case is one else 10.0 - place,)))
        found = {(t.problem.sizes["m"], canonical(t.config)) for t in store.for_prediction("tiles", 1)}
    at = [canonical(each) for each in configs]
    assert {(512, at[0]), (640, at[5])} <= found  # the leaders
    assert {(640, at[0]), (512, at[5])} <= found  # the fastest of the one on the other
    assert (512, at[3]) in found  # the first
    assert (512, at[2]) not in found


@pytest.mark.parametrize("text", ["64 32 16\n# a comment\n\n128, 32, 16\n64 32 16\n", "k,n,m\n16,32,64\n16,32,128\n"])
def test_files_of_shapes(tmp_path: Path, text: str) -> None:
    path = tmp_path / "shapes"
    path.write_text(text)
    rows = shapes_file.read(path, GEMM, "float32", {"trans_a": "T"})
    assert [dict(p.sizes) for p in rows] == [{"m": 64, "n": 32, "k": 16}, {"m": 128, "n": 32, "k": 16}]
    assert {p.options["trans_a"] for p in rows} == {"T"}


def test_json_lines_may_say_more(tmp_path: Path) -> None:
    path = tmp_path / "shapes"
    path.write_text('{"m": 4, "n": 5, "k": 6}\n{"m": 4, "n": 5, "k": 6, "dtype": "float64", "trans_b": "t"}\n')
    plain, other = shapes_file.read(path, GEMM, "float32", {})
    assert (plain.dtype, other.dtype, other.options["trans_b"]) == ("float32", "float64", "T")


def test_shapes_in_a_precision_are_problems_of_what_computes_it(tmp_path: Path) -> None:
    path = tmp_path / "shapes"
    path.write_text("4 5 6\n40 50 60\n")
    assert [p.workload for p in shapes_file.read(path, GEMM, "float64", {}, "emulated")] == ["gemm_residues"] * 2
    assert [p.dtype for p in shapes_file.read(path, GEMM, "float32", {}, "tf32")] == ["tfloat32"] * 2
    assert shapes_file.read(path, GEMM, "float32", {}, "native") == shapes_file.read(path, GEMM, "float32", {})
    path.write_text("m,n,k,dtype\n4,5,6,float32\n4,5,6,float64\n")
    with pytest.raises(ArgumentError, match="gemm_terms computes float32, gemm_residues computes float64; tune the shapes of each type"):
        shapes_file.read(path, GEMM, "float32", {}, "emulated")
    with pytest.raises(ArgumentError, match="line 3: precision='tf32' is for products of float32"):
        shapes_file.read(path, GEMM, "float32", {}, "tf32")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 2\n", "line 1"),
        ("1 2 3\nx y z\n", "line 2"),
        ("", "no shapes"),
        ('{"m": 1, "n": 2, "k": 3, "q": 4}\n', "'q'"),
        ("m,n\n1,2\n", "'k'"),
    ],
)
def test_what_cannot_be_read_is_told(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "shapes"
    path.write_text(text)
    with pytest.raises(ArgumentError, match=message):
        shapes_file.read(path, GEMM, "float32", {})


def test_one_workload_at_a_time() -> None:
    other = workloads.get("matmul").problem({"m": 1, "n": 1, "k": 1})
    with ResultStore(None) as store:
        with pytest.raises(ArgumentError, match="several workloads"):
            shapes.tune(shapes.ShapesRequest((GEMM.problem({"m": 1, "n": 1, "k": 1}), other)), store)
        with pytest.raises(ArgumentError, match="one or more"):
            shapes.tune(shapes.ShapesRequest(()), store)


def test_unknown_names_are_refused_by_the_problem_parser() -> None:
    with pytest.raises(UnknownNameError, match="transa"):
        workloads.problem("gemm", "float32", {"m": 1, "n": 1, "k": 1, "transa": "T"})
