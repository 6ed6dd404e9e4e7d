"""How many trials does a search of a recorded space save with the fastest configurations of another device?

    python bench/foreign_starts.py convolution-A100.json convolution-A4000.json dedispersion-A100.json ... --repeats 20

Every recording is searched without and with suggestions from each of the others that has its parameters, then from all of these together,
as ``portatile study foreign-starts`` does. Nothing is run on a device. The result is written anew after each search.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean
from typing import Any

from measure import RESULTS, facts, print_table, rewrite, until_stopped


def searched(recording: Any, starts: Sequence[Any], options: argparse.Namespace) -> dict[str, Any]:
    """Trials to 95 % of the optimum of each search; None if that is not within the budget."""
    from portatile.studies.convergence import StrategiesRequest, to_share
    from portatile.trials import Budget

    limit = Budget(evaluations=min(options.budget, len(recording.trials)))
    return {"to_95": to_share(StrategiesRequest(recording, ("auto",), options.repeats, limit, options.seed, tuple(starts)), 0.95)}


def mean_of(counts: Sequence[float | None], budget: int) -> float:
    """Mean trials; a search that did not reach the goal counts as one more than its budget."""
    return fmean(budget + 1 if count is None else count for count in counts)


def name(file: Path) -> str:
    """What the recording of a file is called."""
    return file.name.partition(".")[0]


def told(row: dict[str, Any]) -> str:
    """Whose results were known; results of older runs name one."""
    known = row["known"]
    return known if isinstance(known, str) else known[0] if len(known) == 1 else f"all {len(known)}"


def main() -> None:
    """Search every recording without suggestions and with those of each other one."""
    commands = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands.add_argument("files", nargs="+", type=Path, help="recorded spaces: T4, caches of Kernel Tuner")
    commands.add_argument("--starts", type=int, default=4, help="suggestions to a search")
    commands.add_argument("--repeats", type=int, default=20, help="searches of each kind, each with its own seed")
    commands.add_argument("--budget", type=int, default=60, help="trials of each search")
    commands.add_argument("--seed", type=int, default=0)
    commands.add_argument("--commit", help="the commit, where there is no git")
    commands.add_argument("--out", type=Path, default=RESULTS)
    options = commands.parse_args()
    from portatile.records import canonical
    from portatile.studies import foreign_starts
    from portatile.tuning.search import replay

    result = options.out / f"foreign_starts-{datetime.now(UTC):%Y%m%dT%H%M%SZ}.json"
    rows: list[dict[str, Any]] = []
    document = {"bench": "foreign_starts", **facts(options.commit), "device": "none", "budget": options.budget, "rows": rows}
    with until_stopped():
        for file in options.files:
            (recording,) = replay.recordings(file)
            table = recording.table()
            optimum = min(trial.median for trial in recording.trials)
            others = [path for path in options.files if path != file and foreign_starts.starts_of(recording, [path], 1)]
            plain = searched(recording, (), options) if others else {}
            for known in [*([other] for other in others), *([others] if len(others) > 1 else [])]:
                starts = foreign_starts.starts_of(recording, known, options.starts)
                shares = [optimum / table[canonical(config)].median for config in starts]
                row: dict[str, Any] = {
                    "recording": name(file),
                    "known": [name(other) for other in known],
                    "configurations": len(table),
                    "shares": shares,
                    "without": plain,
                    "with": searched(recording, starts, options),
                }
                rows.append(row)
                rewrite(result, json.dumps(document, indent=1) + "\n")
                means = [f"{mean_of(row[kind]['to_95'], options.budget):.1f}" for kind in ("without", "with")]
                print(f"{row['recording']} after {told(row)}: {means[0]} trials to 95 %, with suggestions {means[1]}", flush=True)
    counted = [[mean_of(row[kind]["to_95"], options.budget) for kind in ("without", "with")] for row in rows]
    cells = [[row["recording"], told(row), f"{a:.1f}", f"{b:.1f}", f"{a - b:+.1f}"] for row, (a, b) in zip(rows, counted, strict=True)]
    print_table(["searched", "known", "without", "with", "saved"], cells)
    print(f"written to {result}")


if __name__ == "__main__":
    main()
