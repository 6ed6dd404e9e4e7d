"""How good is a configuration without tuning? The choice with a device's own results held out, compared with the tuned best.

    python bench/held_out.py --sizes 512,1024,1000x999x1001 --tune 30s --device pocl

For each problem, measured beside each other: the tuned best; the choice when every result of the device is held out (what then stands is
other devices' results, the same hardware's other back end among them); the choice when all of the hardware is held out; the choice when
only this problem is; the default. ``loss`` is the time over the tuned best's: 1 is none. Without ``--tune`` the best that is known for
the problem on the device is the tuned best; where nothing was tuned for it there ("nothing tuned") there is nothing to lose against: no
loss is given, and the mean leaves it out.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict
from statistics import geometric_mean
from typing import Any

from measure import facts, parser, print_table, save, slug
from portability import problems
from portatile import device as devices
from portatile import select, store, workloads
from portatile.errors import PortatileError
from portatile.records import DeviceInfo, Problem, canonical
from portatile.studies.framework.measured_configs import Measuring, failure, measured
from portatile.trials import Budget, Trial
from portatile.tuning.search import tuner
from portatile.workloads.speeds import described

NOTHING = "nothing tuned"
RULES = ("problem held out", "device held out", "hardware held out", "default")


def without(results: list[Trial], info: DeviceInfo, problem: Problem, rule: str) -> list[Trial]:
    """What is left of the results."""
    if rule == "problem held out":
        return [trial for trial in results if trial.problem.key != problem.key]
    if rule == "device held out":
        mine = info.name, info.backend, info.platform
        return [trial for trial in results if (trial.device.name, trial.device.backend, trial.device.platform) != mine]
    if rule == "hardware held out":
        return [trial for trial in results if trial.device.physical_id != info.physical_id and trial.device.name != info.name]
    return []


def measure(device: Any, problem: Problem, budget: Budget | None) -> list[dict[str, Any]]:
    """The rows of one problem on one device."""
    workload, info = workloads.get(problem.workload), device.info
    if budget is not None:
        with store.ResultStore.default() as kept:
            tuner.tune(tuner.TuningRequest(problem, info.id, budget), kept)
    results = list(store.known_results()(problem.workload))
    choices = {"tuned": select.choose(workload, problem, info, results)}
    choices |= {rule: select.choose(workload, problem, info, without(results, info, problem, rule)) for rule in RULES}
    found = measured(problem, info.id, [choice.config for choice in choices.values()], Measuring(race=3.0))
    rows = []
    for rule, choice in choices.items():
        trial = found.trials.get(canonical(choice.config))
        row = {"device": info.id, "problem": described(problem), "dtype": problem.dtype, "rule": rule, "reason": choice.reason}
        row |= {"explanation": choice.explanation, "config": dict(choice.config), "seconds": None, "loss": None, "status": "not reached"}
        if trial is not None:
            row["status"] = "ok" if trial.status == "ok" else failure(trial)
            row["seconds"] = trial.comparable if trial.status == "ok" else None
            row["samples"] = list(trial.samples)
        rows.append(row)
    return judged(rows, workload.flops(problem))


def judged(rows: list[dict[str, Any]], flops: float) -> list[dict[str, Any]]:
    """The rows of one problem, the tuned one first, with rates, and with losses if it was tuned."""
    best = rows[0]["seconds"] if rows[0]["reason"] == "tuned" else None
    for row in rows:
        if row["seconds"] is not None:
            row["gflops"] = flops / row["seconds"] / 1e9
            row["loss"] = None if best is None else row["seconds"] / best
        if row["status"] == "ok" and rows[0]["reason"] != "tuned":
            row["status"] = NOTHING
    return rows


def cell(row: dict[str, Any]) -> str:
    """What the table says of a row."""
    return f"{row['loss']:.3f}" if row["loss"] is not None else (NOTHING if row["status"] == NOTHING else "failed")


def parse() -> argparse.Namespace:
    commands = parser(__doc__)
    commands.add_argument("--workload", default="gemm")
    commands.add_argument("--sizes", default="512,1024", help="the workload's sizes, N (all equal) or MxNxK, separated by commas")
    commands.add_argument("--dtype", default="float32", help="separated by commas")
    commands.add_argument("--tune", metavar="BUDGET", help="tune each problem first; without: what was tuned before, if anything")
    return commands.parse_args()


def main() -> None:
    options = parse()
    chosen = [devices.get(selector) for selector in options.device] or devices.devices()
    budget = None if options.tune is None else Budget.parse(options.tune)
    rows: list[dict[str, Any]] = []
    for device in chosen:
        lines = []
        mine: list[dict[str, Any]] = []
        for problem in problems(options.workload, options.sizes, options.dtype):
            print(f"{described(problem)} {problem.dtype} on {device.info.id}", file=sys.stderr, flush=True)
            try:
                found = measure(device, problem, budget)
            except PortatileError as error:
                print(f"  {error}", file=sys.stderr)
                continue
            mine += found
            by_rule = {row["rule"]: row for row in found}
            cells = [cell(by_rule[rule]) for rule in RULES]
            speed = by_rule["tuned"].get("gflops")
            own = by_rule["tuned"]["reason"]
            lines.append([f"{described(problem)} {problem.dtype}", "" if speed is None else f"{speed:.1f}", own, *cells])
        if lines:
            losses = {rule: [row["loss"] for row in mine if row["rule"] == rule and row["loss"] is not None] for rule in RULES}
            middle = [f"{geometric_mean(losses[rule]):.3f}" if losses[rule] else "" for rule in RULES]
            lines.append(["geometric mean", "", "", *middle])
            print(f"\n{options.workload} on {device.info.name} ({device.info.id}): time over the tuned best's")
            print_table(["", "Gflop/s", "best is", *RULES], lines)
        rows += mine
    document = {
        "bench": "held_out",
        **facts(options.commit),
        "devices": {device.info.id: asdict(device.info) for device in chosen},
        "options": vars(options) | {"out": None},
        "rows": rows,
    }
    name = f"held_out-{slug(chosen[0].info.name)}"
    print(f"\nwritten to {save(name, document, options.out)}")


if __name__ == "__main__":
    main()
