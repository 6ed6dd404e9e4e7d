"""The outcomes of the attacks on each device, over all recorded runs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from recorded import Table, markdown, processor, runs, through

UNITS = {
    "problems": "problems of any size",
    "small": "problems of sizes below ten",
    "interrupts": "calls that were interrupted",
    "kills": "parents and workers killed",
    "stores": "damaged stores",
    "caches": "damaged caches",
    "files": "damaged files",
    "disks": "full disks",
    "kernels": "hostile kernels",
    "runs": "hostile kernels through `portatile run`",
}


def from_results(folder: Path) -> Iterator[Table]:
    """One table, with a row for each attack on each device: all recorded attempts together, and the newest commit among them."""
    rows: dict[tuple[str, str], tuple[int, int, str]] = {}
    files = set()
    for run in runs("attacks", folder):
        device = run.document["device"]
        for name, counts in run.document["attacks"].items():
            place = f"{processor(device['name'])}, {through(device)}", name
            times, broken, _ = rows.get(place, (0, 0, ""))
            times += sum(count for outcome, count in counts["outcomes"].items() if outcome not in ("finished before", "broken"))
            rows[place] = times, broken + len(counts["broken"]), run.commit
            files.add(run.file)
    if rows:
        told = (
            [*place, f"{times} {UNITS.get(place[1], 'attempts')}", str(broken), commit] for place, (times, broken, commit) in rows.items()
        )
        text = markdown(("device", "attack", "attempts", "promises broken", "newest commit"), told, numbers=False)
        yield Table("attacks", text, frozenset(files))
