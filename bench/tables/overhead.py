"""What a repeated call costs the host, through each array library and beside its own calls: the newest run on each device."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from recorded import Table, markdown, processor, runs, through


def from_results(folder: Path) -> Iterator[Table]:
    """A table for each device."""
    newest = {(processor(run.document["device"]["name"]), through(run.document["device"])): run for run in runs("overhead", folder)}
    for (name, back_end), run in sorted(newest.items()):
        rows = [[row["library"], row["call"], f"{row['median_us']:.1f}", f"{row['least_us']:.1f}"] for row in run.document["rows"]]
        text = markdown(("arrays", f"call, {run.document['size']} a side", "median, us", "least, us"), rows) + f"\nCommit {run.commit}.\n"
        title = f"Repeated calls, {name}, {back_end}"
        yield Table(f"overhead-{'-'.join(title.lower().replace(',', '').split()[2:])}", text, frozenset({run.file}), title)
