"""What GPUs get from the host's memory at most: by where it lies, each alone and all at once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from statistics import median

from recorded import Run, Table, markdown, processor, runs

_HEAD = ("devices", "memory", "GPUs", "host to GPU, GB/s", "GPU to host, GB/s", "both ways, GB/s", "commit")
_WAYS = ("to", "from", "both ways")


def from_results(folder: Path) -> Iterator[Table]:
    """The newest run on each set of devices."""
    newest = {tuple(one["name"] for one in run.document["devices"]): run for run in runs("host_memory", folder)}
    if newest:
        rows = [row for run in newest.values() for row in _rows(run)]
        yield Table("host-memory", markdown(_HEAD, rows, numbers=False), frozenset(run.file for run in newest.values()))


def _rows(run: Run) -> Iterator[list[str]]:
    """A line for each place of the memory and number of GPUs, of those that are alike the fastest; the cores' fastest copies last."""
    rates: dict[tuple[str, int], dict[str, float]] = {}
    cores = 0.0
    for row in run.document["rows"]:
        rate = median(row["bytes_per_second"]) / 1e9
        if row["memory"] == "cores":
            cores = max(cores, rate)
        else:
            ways = rates.setdefault((row["memory"], len(row["devices"])), {})
            ways[row["way"]] = max(ways.get(row["way"], 0.0), rate)
    device = ", ".join(dict.fromkeys(processor(one["name"]) for one in run.document["devices"]))
    for (memory, count), ways in rates.items():
        yield [device, memory, str(count), *(f"{ways[way]:.1f}" if way in ways else "" for way in _WAYS), run.commit]
    if cores:
        yield [device, "read and written by cores", "", "", "", f"{cores:.1f}", run.commit]
