"""How soon a search comes near the best known configuration: the best so far over the seconds since the start of the process.

    python bench/convergence.py --device cuda:0 --device opencl:0:0 --sizes 1024,4096 --repeats 5 --budget 25s
    python bench/convergence.py --device opencl:0:0 --sizes 1024 --repeats 3 --budget 90s --pin 0,1

Every repetition is a process of its own with another seed, an empty store and empty caches, the drivers' too. At the end every
configuration that was the best of its run at some time is measured again, all in one process, with those that come with the package for
this problem and device, in many short bursts by turns: shares of the best known are by their medians, not by times of separate runs.
``--shipped`` also lets the results that come with the package suggest what to try first, as `portatile tune` does.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from statistics import median
from typing import Any

from measure import afresh, facts, parser, print_table, save, shapes, slug, until_stopped

GOALS = (0.95, 0.98)
MARKS = (5, 10, 15, 20, 30, 45, 60, 90, 120)  # seconds at which the table shows the share
NEAR = 1.3  # steps up to so many times the best are measured again
ROUNDS = 25  # each measured in as many bursts


def child(task: dict[str, Any]) -> None:
    """One search, in the process of a repetition; prints its course as JSON."""
    from portatile import device, workloads
    from portatile.records import canonical
    from portatile.store import ResultStore
    from portatile.tuning.search import tuner

    started = float(os.environ["BENCH_STARTED"])
    rows: list[dict[str, Any]] = []

    def listen(progress: tuner.Progress) -> None:
        trial = progress.last
        if not progress.racing:
            row = {"at": time.monotonic() - started, "status": trial.status, "median": trial.median if trial.status == "ok" else None}
            rows.append({**row, "seconds": dict(trial.seconds), "config": dict(trial.config)})

    problem = workloads.problem(task["workload"], task["dtype"], {**task["sizes"], **task["options"]})
    with ResultStore.default() as store:
        result = tuner.tune(_request(problem, task), store, listen)
    final = {canonical(trial.config): trial.comparable for trial in result.trials if trial.status == "ok"}
    if task.get("configs") is not None:
        final = by_turns(problem, device.get(task["device"]), [trial.config for trial in result.trials if trial.status == "ok"])
    document = {
        "rows": rows,
        "final": final,
        "winner": dict(result.best.config),
        "seconds": time.monotonic() - started,
        "saved": result.saved,
        "failures": result.failures,
        "device": {"name": result.device.name, "platform": result.device.platform, "driver": result.device.driver, "id": result.device.id},
        "default": dict(result.default.config),
        "flops": workloads.get(problem.workload).flops(problem),
    }
    print("\n" + json.dumps(document))


def _request(problem: Any, task: dict[str, Any]) -> Any:
    """The search of a task; with ``configs`` of these and of the shipped ones, each once."""
    from portatile import device, workloads
    from portatile.records import canonical
    from portatile.space import ParameterSpace
    from portatile.store import shipped
    from portatile.trials import Budget
    from portatile.tuning.search import tuner

    configs = task.get("configs")
    if configs is None:
        return tuner.TuningRequest(
            problem, task["device"], Budget.parse(task["budget"]), task["strategy"], task["seed"], warm=5 if task["shipped"] else 0
        )
    info = device.get(task["device"]).info
    space = workloads.get(problem.workload).space(problem, info)
    by_text = {canonical(config): config for config in configs}
    for trial in shipped(problem.workload):
        if trial.problem.key == problem.key and trial.device.name == info.name and trial.config in space:
            config = space.complete(trial.config)
            by_text[canonical(config)] = dict(config)
    only = ParameterSpace.from_configs(list(by_text.values()))
    return tuner.TuningRequest(problem, task["device"], Budget(), "exhaustive", space=only, model=False, warm=0)


def by_turns(problem: Any, device: Any, configs: Sequence[Any]) -> dict[str, float]:
    """The median of each configuration's bursts, seconds a run, by its canonical text."""
    from portatile.measure import runs
    from portatile.records import canonical

    burst = runs.MeasurementLength(samples=1, seconds=0.0, burst=0.01 if device.info.kind == "gpu" else 0.05)
    samples: dict[str, list[float]] = {canonical(config): [] for config in configs}
    with runs.prepared(device, problem) as ready, ExitStack() as loaded:
        executables = {canonical(config): loaded.enter_context(runs.loaded(device, problem, config)) for config in configs}
        for _ in range(ROUNDS):
            for name, executable in executables.items():
                samples[name] += ready.samples(executable, burst)
    return {name: median(times) for name, times in samples.items()}


def steps(run: dict[str, Any]) -> list[tuple[float, dict[str, Any]]]:
    """When which configuration became the best of a run; the race's winner last."""
    found: list[tuple[float, dict[str, Any]]] = []
    least = float("inf")
    for row in run["rows"]:
        if row["median"] is not None and row["median"] < least:
            least = row["median"]
            found.append((row["at"], row))
    return [*found, (run["seconds"], {"config": run["winner"], "median": least})]


def key(config: dict[str, Any]) -> str:
    """A configuration as text."""
    return json.dumps(config, sort_keys=True)


def series(task: dict[str, Any], repeats: int) -> dict[str, Any]:
    """All repetitions of one problem on one device, measured again at the end."""
    runs: list[dict[str, Any]] = []
    failed: list[str] = []
    for seed in range(repeats):
        with tempfile.TemporaryDirectory(prefix="convergence-") as folder:
            try:
                run = afresh(__file__, {**task, "seed": seed}, folder)
            except RuntimeError as error:  # one that failed is told, and ends no other
                print(f"  seed {seed}: {error}", flush=True)
                failed.append(str(error))
                continue
        runs.append(run)
        rate = 60 * sum(row["status"] != "skipped" for row in run["rows"]) / run["seconds"]
        print(f"  seed {seed}: {len(run['rows'])} trials, {rate:.0f} run a minute, first at {run['rows'][0]['at']:.1f} s", flush=True)
    best = min(row["median"] for run in runs for _, row in steps(run))
    near = {key(row["config"]): row["config"] for run in runs for _, row in steps(run) if row["median"] <= NEAR * best}
    with tempfile.TemporaryDirectory(prefix="convergence-") as folder:
        again = afresh(__file__, {**task, "configs": list(near.values())}, folder)
    times = {key(json.loads(text)): took for text, took in again["final"].items()}
    known = min(times.values())
    curves = []
    for run in runs:
        scale = [times[key(row["config"])] / row["median"] for _, row in steps(run)[:-1] if key(row["config"]) in times]
        drift = median(scale) if scale else 1.0
        curves.append([(at, known / times.get(key(row["config"]), drift * row["median"])) for at, row in steps(run)])
    return {"task": task, "known": known, "curves": curves, "runs": runs, "failed": failed, "again": again}


def lean(found: dict[str, Any]) -> dict[str, Any]:
    """A smaller series: configurations by their differences from the default, times to four digits, without the last times of each run."""

    def short(row: dict[str, Any], default: dict[str, Any]) -> dict[str, Any]:
        seconds = {phase: float(f"{took:.4g}") for phase, took in row["seconds"].items() if took}
        changed = {name: value for name, value in row["config"].items() if value != default.get(name)}
        return {**row, "at": round(row["at"], 3), "seconds": seconds, "config": changed}

    runs = [{**run, "rows": [short(row, run["default"]) for row in run["rows"]]} for run in found["runs"]]
    for run in runs:
        del run["final"]
    again = found["again"]
    return {**found, "runs": runs, "again": {**again, "rows": [short(row, again["default"]) for row in again["rows"]]}}


def reached(curve: Sequence[tuple[float, float]], goal: float) -> float | None:
    """The seconds from which on the best so far stays at this share of the best known."""
    found = None
    for at, share in curve:
        found = (at if found is None else found) if share >= goal else None
    return found


def share(curve: Sequence[tuple[float, float]], at: float) -> float:
    """The share at a time; 0 before the first valid trial."""
    return next((value for when, value in reversed(curve) if when <= at), 0.0)


def middle(values: Sequence[float | None]) -> str:
    """Median and worst, or never."""
    ordered = sorted(float("inf") if value is None else value for value in values)
    return " / ".join("never" if value == float("inf") else f"{value:.1f}" for value in (ordered[len(ordered) // 2], ordered[-1]))


def line(found: dict[str, Any], marks: Sequence[int]) -> list[str]:
    """A row of the table."""
    curves, task = found["curves"], found["task"]
    sizes = "x".join(map(str, task["sizes"].values()))
    at = [f"{median(share(curve, mark) for curve in curves):.3f}" for mark in marks]
    goals = [middle([reached(curve, goal) for curve in curves]) for goal in GOALS]
    end = sorted(curve[-1][1] for curve in curves)
    rate = median(60 * sum(row["status"] != "skipped" for row in run["rows"]) / run["seconds"] for run in found["runs"])
    first = median(run["rows"][0]["at"] for run in found["runs"])
    speed = found["again"]["flops"] / found["known"] / 1e9
    return [
        f"{task['device']} {sizes}",
        f"{speed:.0f}",
        f"{first:.1f}",
        f"{rate:.0f}",
        *goals,
        f"{end[len(end) // 2]:.3f} / {end[0]:.3f}",
        *at,
    ]


def parse() -> argparse.Namespace:
    commands = parser(__doc__, "the best one")
    commands.add_argument("--workload", default="gemm")
    commands.add_argument("--sizes", default="1024,4096", help="one number for a cube, or sizes in the workload's order as in 512x512x64")
    commands.add_argument("--dtype", default="float32")
    commands.add_argument("--option", action="append", default=[], help="NAME=VALUE of the workload, e.g. trans_a=T")
    commands.add_argument("--budget", default="25s")
    commands.add_argument("--strategy", default="auto")
    commands.add_argument("--repeats", type=int, default=5)
    commands.add_argument("--shipped", action="store_true", help="let shipped results suggest what to try first")
    commands.add_argument("--pin", help="processors to use, as in 0,1")
    commands.add_argument("--child", help=argparse.SUPPRESS)
    return commands.parse_args()


def main() -> None:
    """Run every series, print the table, write everything."""
    options = parse()
    if options.child:
        child(json.loads(options.child))
        return
    if options.pin:
        os.sched_setaffinity(0, set(map(int, options.pin.split(","))))
    from portatile import workloads
    from portatile.trials import Budget

    names = list(workloads.get(options.workload).sizes)
    found = []
    cases = [(device, text) for device in options.device or [None] for text in options.sizes.split(",")]
    with until_stopped():
        for device, text in cases:
            (sizes,) = shapes(text, names)
            task = {"workload": options.workload, "dtype": options.dtype, "sizes": sizes, "device": device, "budget": options.budget}
            task |= {"strategy": options.strategy, "shipped": options.shipped, "options": dict(o.split("=", 1) for o in options.option)}
            print(f"{device} {text}", flush=True)
            try:
                found.append(series(task, options.repeats))
            except (RuntimeError, ValueError) as error:
                print(f"  {error}", flush=True)
    if not found:
        sys.exit("no search came to an end")
    seconds = Budget.parse(options.budget).seconds or MARKS[-1]
    marks = [mark for mark in MARKS if mark <= seconds + 1]
    goals = [f"to {goal:.0%}: median / worst s" for goal in GOALS]
    columns = ["device, sizes", "best Gflop/s", "first s", "trials/min", *goals, "end: median / worst", *(f"{mark} s" for mark in marks)]
    print()
    print_table(columns, [line(one, marks) for one in found])
    document = {"bench": "convergence", **facts(options.commit), "budget": options.budget, "shipped": options.shipped}
    document["series"] = list(map(lean, found))
    name = f"convergence-{slug(found[0]['again']['device']['name'])}"
    print(f"\nwritten to {save(name, document, options.out)}")


if __name__ == "__main__":
    main()
