"""How many constructs of OpenCL C and how many programs are right on each device."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import median
from typing import Any

from recorded import Run, Table, markdown, processor, runs, through


def made(folder: Path) -> Iterator[Table]:
    """What is right, by the newest run on each device; and what the programs' CUDA form is made of, by the newest run."""
    recorded = runs("dialect", folder)
    rows = {}
    for run in recorded:
        for column, device in {**run.document["devices"], "CUDA compiles": None}.items():
            name = _name(column, device) if device else f"compiled for CUDA, {run.document['architecture']}"
            rows[name] = [name, *(_share(run.document[kind], column) for kind in ("constructs", "programs")), run.commit, run.file]
    told = [row[:-1] for _, row in sorted(rows.items())]
    yield Table(
        "dialect", markdown(("right of those asked", "constructs", "programs", "commit"), told), frozenset(row[-1] for row in rows.values())
    )
    if recorded:
        yield _static(recorded[-1])


def _name(column: str, device: list[str]) -> str:
    name, platform, driver = device
    return f"{processor(name)}, {through({'id': column, 'platform': platform, 'driver': driver})}"


def _share(cases: Mapping[str, Any], column: str) -> str:
    kinds = Counter(case[column]["status"] for case in cases.values() if column in case)
    return f"{kinds['ok']} of {sum(kinds.values()) - kinds['not asked']}"


def _static(run: Run) -> Table:
    found = [one for one in run.document["static"].values() if one]
    total = {what: sum(one[what] for one in found) for what in found[0] if what != "registers"}
    clang = [one["registers"] for one in run.document["clang"]["programs"].values() if "registers" in one]
    rows = [["programs", str(len(found))], ["median registers", f"{median(one['registers'] for one in found):g}"]]
    rows += [[f"{what}, all programs", str(count)] for what, count in total.items()]
    if clang:
        rows.append(
            [f"median registers of {run.document['clang']['compiler'].split('/')[-1]}, {len(clang)} programs", f"{median(clang):g}"]
        )
    rows.append(["commit", run.commit])
    return Table("dialect-static", markdown((f"as CUDA for {run.document['architecture']}", ""), rows), frozenset({run.file}))
