"""What warm starts save: the trial at which a search comes near its best, with and without what other shapes suggest.

    python bench/warm_start.py --workload gemm --shapes 256x256x256,320x256x256,384x384x256 --budget 40

Every shape but the first is searched twice with the same seed, in a store that knows the shapes before it: cold
(Request.warm = 0) and warm. Both searches measure for themselves; near is within 5 % of the better of the two. The default is
the first trial of both.
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


def reached(medians: list[float], goal: float) -> int | None:
    """The first trial, from 1, that takes at most ``goal`` seconds."""
    return next((place for place, took in enumerate(medians, 1) if took <= goal), None)


def compare(problem: Any, options: argparse.Namespace) -> dict[str, Any]:
    """One shape searched cold, then warm; the warm search's trials stay in the store."""
    from portatile.store import ResultStore
    from portatile.trials import Budget
    from portatile.tuning import tuner

    found: dict[str, Any] = {}
    for name, warm in (("cold", 0), ("warm", 5)):
        request = tuner.Request(problem, options.device, Budget.parse(options.budget), seed=options.seed, resume=False, warm=warm)
        with ResultStore(None) if name == "cold" else ResultStore.default() as store:
            result = tuner.tune(request, store)
        found[name] = {"medians": [trial.median for trial in result.trials if trial.status != "skipped"], "warm_starts": result.warm_trials}
        found[name] |= {"best": result.best.median, "found_at": result.found_at, "found_by": result.found_by}
        found["device"] = asdict(result.device)
    goal = NEAR * min(min(found[name]["medians"]) for name in ("cold", "warm"))
    for name in ("cold", "warm"):
        found[name]["near_at"] = reached(found[name]["medians"], goal)
    return {"sizes": dict(problem.sizes), **found}


def parse() -> argparse.Namespace:
    commands = parser(__doc__, "the best one", several=False)
    commands.add_argument("--workload", default="gemm")
    commands.add_argument("--shapes", default="256x256x256,320x256x256,384x384x256,256x512x256", help="sizes in the workload's order")
    commands.add_argument("--dtype", default="float32")
    commands.add_argument("--budget", default="40", help="of each search; trials, so that cold and warm have as many")
    commands.add_argument("--seed", type=int, default=0)
    return commands.parse_args()


def main() -> None:
    """Search, print, and write every median."""
    options = parse()
    from portatile import workloads

    workload = workloads.get(options.workload)
    problems = [workload.problem(sizes, options.dtype) for sizes in shapes(options.shapes, workload.sizes)]
    with tempfile.TemporaryDirectory() as folder:
        os.environ["PORTATILE_DATA_DIR"] = folder  # nothing tuned before counts
        rows = [compare(problem, options) for problem in problems]
    cells = []
    for row in rows:
        near = [row[name]["near_at"] for name in ("cold", "warm")]
        cells.append(["x".join(map(str, row["sizes"].values())), *(str(at or "never") for at in near), str(row["warm"]["warm_starts"])])
    print_table(["shape", "cold: near its best at", "warm: at", "warm starts"], cells)
    both = [(row["cold"]["near_at"], row["warm"]["near_at"]) for row in rows[1:]]
    known = [(cold, warm) for cold, warm in both if cold and warm]
    if known:
        print(f"median of the shapes after the first: cold {median(c for c, _ in known)}, warm {median(w for _, w in known)}")
    document = {"bench": "warm_start", **facts(options.commit), "workload": options.workload, "budget": options.budget, "shapes": rows}
    name = f"warm_start-{slug(rows[0]['device']['name'])}"
    print(f"\nwritten to {save(name, document, options.out)}")


if __name__ == "__main__":
    main()
