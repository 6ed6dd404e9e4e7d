"""What each stage of the model left out, and whether the best was among it: the newest study of each problem on each device."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from recorded import Table, markdown, processor, runs
from tables.portability import shape

STAGES = ("on paper", "once compiled", "early stop")


def from_results(folder: Path) -> Iterator[Table]:
    """One table."""
    rows, files = {}, {}
    for run in runs("stages", folder):
        for study in run.document["studies"]:
            sizes = shape(" ".join(f"{name}={size}" for name, size in study["problem"]["sizes"].items()))
            name = f"{processor(study['device'])}, {sizes} {study['problem']['dtype']}"
            left = [study["stages"][stage] for stage in STAGES]
            nearest = min((found["fastest of them"] for found in left if found["fastest of them"]), default=None)
            ranking, seconds = study["ranking"], study["seconds"]
            quarter = ranking["mean share of the best's speed, first quarter"]
            rows[name] = [
                name,
                str(study["configurations"]),
                *(str(found["configurations"]) for found in left),
                "" if nearest is None else f"{nearest:.1f}",
                f"{ranking['place of the best']}",
                f"{quarter:.2f} / {ranking['of all']:.2f}",
                f"{study['winner with the model, share of the best']:.2f}",
                f"{seconds['everything']:.1f} / {seconds['with the model']:.1f}",
                run.commit,
            ]
            files[name] = run.file
    head = (
        "",
        "configurations",
        *STAGES,
        "fastest left out, x best time",
        "rank of the best on paper",
        "mean speed: first quarter / all",
    )
    more = ("winner, share of the best", "seconds: everything / with the model", "commit")
    yield Table("stages", markdown((*head, *more), (row for _, row in sorted(rows.items()))), frozenset(files.values()))
