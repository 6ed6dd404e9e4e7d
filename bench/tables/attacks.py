"""What came of the attacks on each device: the newest run of each attack there."""

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
}


def made(folder: Path) -> Iterator[Table]:
    """One table, with a row for each attack on each device."""
    rows, files = {}, {}
    for run in runs("attacks", folder):
        device = run.document["device"]
        for name, counts in run.document["attacks"].items():
            place = f"{processor(device['name'])}, {through(device)}"
            times = sum(count for outcome, count in counts["outcomes"].items() if outcome != "finished before")
            rows[place, name] = [place, name, f"{times} {UNITS.get(name, 'attempts')}", str(len(counts["broken"])), run.commit]
            files[place, name] = run.file
    if rows:
        text = markdown(("device", "attack", "attempts", "promises broken", "commit"), rows.values(), numbers=False)
        yield Table("attacks", text, frozenset(files.values()))
