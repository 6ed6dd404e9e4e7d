"""How much longer the choice for an untuned problem takes than the tuned best: the newest measurement of each problem on each device."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from recorded import Table, markdown, natural, processor, runs, through
from tables.portability import shape

RULES = ("problem held out", "device held out", "hardware held out", "default")
_OLDER = {"chip held out": "hardware held out"}  # as older results name the rule


def from_results(folder: Path) -> Iterator[Table]:
    """One table; rows for which nothing was tuned are left out."""
    rows, files = {}, {}
    for run in runs("held_out", folder):
        for row in run.document["rows"]:
            device = run.document["devices"][row["device"]]
            name = f"{processor(device['name'])}, {through(device)}", f"{shape(row['problem'])} {row['dtype']}"
            if row["rule"] == "tuned":
                rows.pop(name, None)
                if row["reason"] == "tuned":
                    rows[name], files[name] = {"commit": run.commit}, run.file
            elif name in rows and row["loss"] is not None:
                rows[name][_OLDER.get(row["rule"], row["rule"])] = f"{row['loss']:.2f}"
    lines = [
        [*name, *(row.get(rule, "") for rule in RULES), row["commit"]]
        for name, row in sorted(rows.items(), key=lambda item: (item[0][0], natural(item[0][1])))
    ]
    head = ("device", "problem", *RULES, "commit")
    yield Table("held-out", markdown(head, lines), frozenset(files[name] for name in rows))
