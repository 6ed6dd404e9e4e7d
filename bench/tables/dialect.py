"""How many constructs of OpenCL C and how many programs are right on each device."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import median
from typing import Any

from recorded import Run, Table, markdown, processor, runs, through


def from_results(folder: Path) -> Iterator[Table]:
    """What is right, by the newest whole run on each device; and what the programs' CUDA form is made of, by the newest one."""
    recorded = [run for run in runs("dialect", folder) if not run.document.get("only")]
    rows = {}
    for run in recorded:
        for column, device in {**run.document["devices"], "CUDA compiles": None}.items():
            name = _name(column, device) if device else f"compiled for CUDA, {run.document['architecture']}"
            rows[name] = [name, *(_share(run.document[kind], column) for kind in ("constructs", "programs")), run.commit, run.file]
    lines = [row[:-1] for _, row in sorted(rows.items())]
    yield Table(
        "dialect",
        markdown(("right of those asked", "constructs", "programs", "commit"), lines),
        frozenset(row[-1] for row in rows.values()),
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
    counted = [program for program in run.document["static"].values() if program]
    total = {what: sum(program[what] for program in counted) for what in counted[0] if what != "registers"}
    clang = [program["registers"] for program in run.document["clang"]["programs"].values() if "registers" in program]
    rows = [["programs", str(len(counted))], ["median registers", f"{median(program['registers'] for program in counted):g}"]]
    rows += [[f"{what}, all programs", str(count)] for what, count in total.items()]
    if clang:
        rows.append(
            [f"median registers of {run.document['clang']['compiler'].split('/')[-1]}, {len(clang)} programs", f"{median(clang):g}"]
        )
    rows.append(["commit", run.commit])
    return Table("dialect-static", markdown((f"as CUDA for {run.document['architecture']}", ""), rows), frozenset({run.file}))
