"""How many trials warm starts save: the trial at which a search comes near its best, with and without suggestions from other shapes.

    python bench/warm_start.py --workload gemm --shapes 256x256x256,320x256x256,384x384x256 --budget 40

Every shape is searched twice with the same seed: cold (Request.warm = 0), and warm, with a store that knows the shapes before it beside
what comes with the package. Both searches measure for themselves; near is within 5 % of the better of the two. The
default is the first trial of both. ``early``: the best after as many trials as the default and the warm starts are, over the
better of the two. ``--repeat`` does it all again with the next seeds, each with a store of its own.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from dataclasses import asdict
from statistics import median
from typing import Any

from measure import facts, parser, print_table, save, shapes, slug

NEAR = 1.05


def reached(seconds: list[float], goal: float) -> int | None:
    """The first trial, from 1, that takes at most ``goal`` seconds."""
    return next((place for place, took in enumerate(seconds, 1) if took <= goal), None)


def compare(problem: Any, options: argparse.Namespace, seed: int) -> dict[str, Any]:
    """One shape searched cold, then warm; the warm search's trials stay in the store."""
    from portatile.store import ResultStore
    from portatile.trials import Budget
    from portatile.tuning.search import tuner

    found: dict[str, Any] = {}
    for name, warm in (("cold", 0), ("warm", 5)):
        request = tuner.TuningRequest(problem, options.device, Budget.parse(options.budget), seed=seed, resume=False, warm=warm)
        with ResultStore(None) if name == "cold" else ResultStore.default() as store:
            result = tuner.tune(request, store)
        seconds = [trial.comparable for trial in result.trials if trial.status != "skipped"]
        found[name] = {"seconds": seconds, "warm_starts": result.warm_trials}
        found[name] |= {"best": result.best.comparable, "found_at": result.found_at, "found_by": result.found_by}
        found["device"] = asdict(result.device)
    best = min(min(found[name]["seconds"]) for name in ("cold", "warm"))
    first = 1 + found["warm"]["warm_starts"]
    for name in ("cold", "warm"):
        found[name]["near_at"] = reached(found[name]["seconds"], NEAR * best)
        found[name]["early"] = min(found[name]["seconds"][:first]) / best
    return {"sizes": dict(problem.sizes), "seed": seed, **found}


def parse() -> argparse.Namespace:
    commands = parser(__doc__, "the best one", several=False)
    commands.add_argument("--workload", default="gemm")
    commands.add_argument("--shapes", default="256x256x256,320x256x256,384x384x256,256x512x256", help="sizes in the workload's order")
    commands.add_argument("--dtype", default="float32")
    commands.add_argument("--budget", default="40", help="of each search; trials, so that cold and warm have as many")
    commands.add_argument("--seed", type=int, default=0, help="the first")
    commands.add_argument("--repeat", type=int, default=1, help="so many seeds")
    return commands.parse_args()


def main() -> None:
    """Search, print, and write every time."""
    options = parse()
    from portatile import workloads

    workload = workloads.get(options.workload)
    problems = [workload.problem(sizes, options.dtype) for sizes in shapes(options.shapes, workload.sizes)]
    rows = []
    for seed in range(options.seed, options.seed + options.repeat):
        with tempfile.TemporaryDirectory() as folder:
            os.environ["PORTATILE_DATA_DIR"] = folder  # nothing tuned before counts
            rows += [compare(problem, options, seed) for problem in problems]
    cells = []
    for row in rows:
        cold, warm = row["cold"], row["warm"]
        near = [str(search["near_at"] or "never") for search in (cold, warm)]
        early = [f"{search['early']:.2f}" for search in (cold, warm)]
        cells.append(["x".join(map(str, row["sizes"].values())), str(row["seed"]), *near, *early, str(warm["warm_starts"])])
    print_table(["shape", "seed", "cold: near its best at", "warm: at", "early: cold", "warm", "warm starts"], cells)
    helped = [row for row in rows if row["warm"]["warm_starts"]]
    known = [(row["cold"]["near_at"], row["warm"]["near_at"]) for row in helped if row["cold"]["near_at"] and row["warm"]["near_at"]]
    if known:
        cold, warm = (median(places) for places in zip(*known, strict=True))
        print(f"median trial near the best, of {len(known)} of {len(helped)} with warm starts: cold {cold:g}, warm {warm:g}")
    document = {"bench": "warm_start", **facts(options.commit), "workload": options.workload, "budget": options.budget, "shapes": rows}
    name = f"warm_start-{slug(rows[0]['device']['name'])}"
    print(f"\nwritten to {save(name, document, options.out)}")


if __name__ == "__main__":
    main()
