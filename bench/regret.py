"""How much longer untuned shapes take than tuned ones: the regret of the selection, measured on held-out shapes.

    python bench/regret.py --device opencl:0:0 --tuned 256x256x256,512x512x512,1024x64x512 --held 384x384x384,512x64x256 --budget 20s

The tuned shapes are searched as `portatile tune --shapes` does, in an empty store without the results that come with the package. What each
rule then chooses for a held-out shape is the start of a search on that shape, so that the choices and the best found are measured in one
process and race where they are near; then twice more (``--again``), because a busy machine adds to some. Regret is the choice's time over
the best's, less one.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from statistics import fmean
from typing import Any

from measure import environment, facts, parser, print_table, save, shapes, slug, until_stopped

NEAR = 8  # what is known nearby and measured on a held-out shape besides
FEW = 3  # the best few and the choices are measured ``--again`` times more, and the least counts: a busy machine only adds


def held_out(problem: Any, known: list[Any], options: argparse.Namespace, info: Any) -> dict[str, Any]:
    """The choice of each rule for one shape, and what it costs."""
    from portatile import select, workloads
    from portatile.records import canonical
    from portatile.store import ResultStore
    from portatile.studies.framework.measured_configs import Measuring, measured
    from portatile.trials import Budget
    from portatile.tuning.search import held_out, tuner

    workload = workloads.get(problem.workload)
    choices = {name: rule(workload, problem, info, known) for name, rule in held_out.RULES.items()}
    near = select.candidates(workload, problem, info, known, NEAR)
    start = (*choices.values(), *(choice.config for choice in near))  # so that other rules can be judged by the file
    request = tuner.TuningRequest(problem, options.device, Budget.parse(options.budget), start=start, warm=0)
    with ResultStore(None) as store:
        result = tuner.tune(request, store)
    times = {canonical(trial.config): trial.comparable for trial in result.trials if trial.status == "ok"}
    few = sorted(times, key=lambda name: times[name])[:FEW]
    doubted = {canonical(config): config for config in choices.values()} | {name: json.loads(name) for name in few}
    for _ in range(options.again):
        for name, trial in measured(problem, info.id, doubted.values(), Measuring(race=3.0)).trials.items():
            times[name] = min(times.get(name, float("inf")), trial.comparable if trial.status == "ok" else float("inf"))
    times = {name: took for name, took in times.items() if took < float("inf")}
    best = min(times.values())
    costs = {name: times.get(canonical(config)) for name, config in choices.items()}
    return {
        "sizes": dict(problem.sizes),
        "best": best,
        "trials": len(result.trials),
        "regret": {name: None if cost is None else cost / best - 1 for name, cost in costs.items()},
        "chosen": {name: dict(config) for name, config in choices.items()},
        "times": times,
    }


def parse() -> argparse.Namespace:
    commands = parser(__doc__, "the best one", several=False)
    commands.add_argument("--workload", default="gemm")
    commands.add_argument("--dtype", default="float32")
    commands.add_argument("--tuned", default="256x256x256,1024x1024x1024,1024x64x1024,64x1024x512")
    commands.add_argument("--held", default="384x384x384,768x768x768,512x512x1024,777x555x333,1024x96x768,100x900x400")
    commands.add_argument("--budget", default="20s", help="of each shape, tuned or held out")
    commands.add_argument("--again", type=int, default=2, help="how often the choices and the best few are measured once more")
    return commands.parse_args()


def main() -> None:
    """Tune, hold out, print, write."""
    options = parse()
    from portatile import workloads
    from portatile.store import ResultStore
    from portatile.trials import Budget
    from portatile.tuning.search import shapes as searched

    workload = workloads.get(options.workload)

    def problems(text: str) -> tuple[Any, ...]:
        return tuple(workload.problem(sizes, options.dtype) for sizes in shapes(text, workload.sizes))

    tuned, held = problems(options.tuned), problems(options.held)
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="regret-") as folder, until_stopped():
        os.environ.update(environment(folder))
        one = Budget.parse(options.budget)
        whole = Budget(one.seconds and one.seconds * len(tuned), one.evaluations and one.evaluations * len(tuned))
        with ResultStore.default() as store:
            result = searched.tune(searched.ShapesRequest(tuned, options.device, whole), store)
            known, info = store.for_prediction(workload.name), result.results[0].device
        for problem in held:
            rows.append(held_out(problem, known, options, info))
    if not rows:
        raise SystemExit("nothing was held out until then")
    rules = list(rows[0]["regret"])
    columns = ["shape", "best ms", "trials", *rules]
    spelt = [["x".join(map(str, row["sizes"].values())), f"{1e3 * row['best']:.4g}", str(row["trials"])] for row in rows]
    cells = [["failed" if row["regret"][rule] is None else f"{row['regret'][rule]:.1%}" for rule in rules] for row in rows]
    known_regrets = {rule: [row["regret"][rule] for row in rows if row["regret"][rule] is not None] for rule in rules}
    table = [[*left, *right] for left, right in zip(spelt, cells, strict=True)]
    table += [[name, "", "", *(f"{fold(known_regrets[rule]):.1%}" for rule in rules)] for name, fold in (("mean", fmean), ("worst", max))]
    print_table(columns, table)
    document = {"bench": "regret", **facts(options.commit), "device": info.name, "tuned": options.tuned, "budget": options.budget}
    document |= {"workload": options.workload, "dtype": options.dtype, "held": rows}
    document["known"] = [{"sizes": dict(t.problem.sizes), "config": dict(t.config), "rank": t.rank, "samples": t.samples} for t in known]
    name = f"regret-{slug(info.name)}"
    print(f"\nwritten to {save(name, document, options.out)}")


if __name__ == "__main__":
    main()
