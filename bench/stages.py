"""How much time each stage of the model saves, and whether it leaves out the best configuration: small spaces are searched completely.

    python bench/stages.py --device opencl:0:0 --size 512 --configurations 100

A small space is a number of configurations drawn from the workload's own, and the default's surroundings. First all of them are
compiled and run to the end, nothing left out: the truth. Then the same ones again, from nothing, as `portatile tune` treats them. The
ceilings that the model goes by are measured first, with `portatile bench peak`. The race of the first run decides which is the true best.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from statistics import fmean
from typing import Any

from measure import environment, facts, parser, print_table, save, slug, until_stopped

NEAR = 1.02  # as good as the best
CACHES = ("PORTATILE_CACHE_DIR", "POCL_CACHE_DIR", "CUDA_CACHE_PATH")


def chosen(space: Any, default: dict[str, Any], count: int, seed: int) -> list[dict[str, Any]]:
    """The default, half of the rest from its surroundings, the others from anywhere."""
    import numpy as np

    from portatile.records import canonical

    rng = np.random.default_rng(seed)
    around = space.neighbours(default)
    some = [around[place] for place in rng.permutation(len(around))[: count // 2]]
    drawn = [default, *some, *space.scatter(rng, 2 * count)]
    return list({canonical(config): config for config in drawn}.values())[:count]


def study(options: argparse.Namespace, dtype: str) -> dict[str, Any]:
    """Truth and model on one small space."""
    from portatile import device, workloads
    from portatile.records import canonical
    from portatile.space import ParameterSpace
    from portatile.store import ResultStore
    from portatile.trials import Budget
    from portatile.tuning.protocol import Timing
    from portatile.tuning.search import planner, tuner

    workload = workloads.get(options.workload)
    sizes = dict.fromkeys(workload.sizes, options.size) if not options.sizes else dict(zip(workload.sizes, options.sizes, strict=True))
    problem, info = workload.problem(sizes, dtype), device.get(options.device).info
    configs = chosen(workload.space(problem, info), workload.default(problem, info), options.configurations, options.seed)
    only = ParameterSpace.from_configs(configs)

    def search(modelled: bool) -> Any:
        timing = Timing() if modelled else Timing(give_up=float("inf"), race=20.0)
        request = tuner.TuningRequest(
            problem, options.device, Budget(), "exhaustive", options.seed, space=only, model=modelled, timing=timing, warm=0, ranked=0
        )
        with ResultStore(None) as store:
            return tuner.tune(request, store)

    truth = search(False)
    os.environ.update({name: tempfile.mkdtemp(dir=os.environ["PORTATILE_DATA_DIR"]) for name in CACHES})  # the second compiles anew
    kept = search(True)
    times = {canonical(trial.config): trial.comparable for trial in truth.trials if trial.status == "ok"}
    best = canonical(truth.best.config)
    order = [canonical(config) for config in planner.Planner(workload, [problem], [], info).ranked(configs)]
    spent = [sum(sum(trial.seconds.values()) for trial in result.trials) for result in (truth, kept)]
    return {
        "problem": {"workload": options.workload, "sizes": sizes, "dtype": dtype},
        "device": info.name,
        "configurations": len(configs),
        "valid": len(times),
        "stages": _stages(kept, times, best),
        "ranking": _ranking(order, times, best),
        "seconds": {"everything": truth.seconds, "with the model": kept.seconds},
        "worker seconds": dict(zip(("everything", "with the model"), spent, strict=True)),
        "winner with the model, share of the best": times[best] / times.get(canonical(kept.best.config), float("inf")),
        "trials": [
            {"config": dict(t.config), "status": t.status, "seconds": t.comparable if t.status == "ok" else None} for t in truth.trials
        ],
    }


def _stages(result: Any, times: dict[str, float], best: str) -> dict[str, dict[str, Any]]:
    """What each stage of the model left out of a search, and how good it was; ``times`` are those of all."""
    from portatile import model
    from portatile.records import canonical

    good = {name for name, took in times.items() if took <= NEAR * times[best]}
    stages: dict[str, dict[str, Any]] = {}
    for stage in (model.ON_PAPER, model.COMPILED, model.SLOW):
        refused = {canonical(trial.config) for trial in result.trials if trial.message.startswith(stage)}
        stages[stage] = {"configurations": len(refused), "the best": best in refused, "within 2 %": len(refused & good)}
        stages[stage]["fastest of them"] = min((times[name] / times[best] for name in refused if name in times), default=None)
    return stages


def _ranking(order: list[str], times: dict[str, float], best: str) -> dict[str, Any]:
    """Where the model's order puts the best, and how fast its first quarter is."""
    valid = [name for name in order if name in times]
    quarter = valid[: max(len(valid) // 4, 1)]
    return {
        "place of the best": valid.index(best) + 1 if best in valid else None,
        "of": len(valid),
        "mean share of the best's speed, first quarter": fmean(times[best] / times[name] for name in quarter) if quarter else None,
        "of all": fmean(times[best] / took for took in times.values()),
    }


def line(found: dict[str, Any]) -> Sequence[str]:
    """A row of the table."""
    problem, ranking = found["problem"], found["ranking"]
    stages = [str(stage["configurations"]) + " WITH THE BEST" * stage["the best"] for stage in found["stages"].values()]
    near = str(sum(stage["within 2 %"] for stage in found["stages"].values()))
    seconds = found["seconds"]
    shares = ranking["mean share of the best's speed, first quarter"]
    return [
        f"{problem['workload']} {problem['dtype']} {'x'.join(map(str, problem['sizes'].values()))}",
        str(found["configurations"]),
        str(found["valid"]),
        *stages,
        near,
        f"{ranking['place of the best']} of {ranking['of']}" if ranking["of"] else "-",
        f"{shares:.2f} / {ranking['of all']:.2f}" if shares else "-",
        f"{seconds['everything']:.1f} -> {seconds['with the model']:.1f}",
        f"{found['winner with the model, share of the best']:.3f}",
    ]


def parse() -> argparse.Namespace:
    commands = parser(__doc__, "the best one", several=False)
    commands.add_argument("--workload", default="gemm")
    commands.add_argument("--size", type=int, default=512, help="of every dimension")
    commands.add_argument("--sizes", type=lambda text: list(map(int, text.split("x"))), help="instead, in the workload's order: 512x256x64")
    commands.add_argument("--dtype", default="float32,float64")
    commands.add_argument("--configurations", type=int, default=100)
    commands.add_argument("--seed", type=int, default=0)
    commands.add_argument("--no-peak", action="store_true", help="measure no ceilings")
    return commands.parse_args()


def main() -> None:
    """Measure the ceilings, study every element type, print, write."""
    options = parse()
    with tempfile.TemporaryDirectory(prefix="stages-") as folder:
        os.environ.update(environment(folder))
        if not options.no_peak:
            command = [
                sys.executable,
                "-m",
                "portatile",
                "bench",
                "peak",
                *(["--device", options.device] if options.device else []),
                "--json",
            ]
            subprocess.run(command, capture_output=True, check=False)
        found: list[dict[str, Any]] = []
        with until_stopped():
            for dtype in options.dtype.split(","):
                found.append(study(options, dtype))
    if not found:
        raise SystemExit("nothing was measured until then")
    columns = [
        "problem",
        "configurations",
        "valid",
        "on paper",
        "once compiled",
        "early stop",
        "of them near best",
        "best in ranking",
        "speed: first quarter / all",
    ]
    print_table([*columns, "seconds", "winner"], [line(one) for one in found])
    document = {"bench": "stages", **facts(options.commit), "studies": found}
    name = f"stages-{slug(found[0]['device'])}"
    print(f"\nwritten to {save(name, document, options.out)}")


if __name__ == "__main__":
    main()
