"""Every experiment of the documents with its command: what it prints and draws, and the seconds that it took on each device."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from recorded import Run, Table, markdown, processor, runs


def made(folder: Path) -> Iterator[Table]:
    """One table with a column for each device, of the newest run of each command on it; and what the gaps came to."""
    found = runs("experiments", folder)
    if not found:
        return
    newest: dict[tuple[str, str], dict[str, tuple[dict[str, Any], Run]]] = {}
    devices: list[str] = []
    for run in found:
        name = processor(run.document["devices"][0]["name"])
        devices += [] if name in devices else [name]
        for row in run.document["rows"]:
            newest.setdefault((row["ids"], row["words"]), {})[name] = row, run
    rows = []
    for (ids, words), of_devices in sorted(newest.items(), key=lambda item: _order(item[0][0])):
        first = next(iter(of_devices.values()))[0]
        cells = [_seconds(of_devices[name][0]) if name in of_devices else "" for name in devices]
        rows.append([ids, f"`portatile {words}`", _prints(first), *cells])
    head = ("experiment", "command", "prints", *(f"seconds, {name}" for name in devices))
    files = frozenset(run.file for of_devices in newest.values() for _, run in of_devices.values())
    commits = ", ".join(sorted({run.commit for of_devices in newest.values() for _, run in of_devices.values()}))
    yield Table("experiments", f"{markdown(head, rows, numbers=False)}\nCommits: {commits}.\n", files)


def _order(ids: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", ids.partition(",")[0])]


def _prints(row: dict[str, Any]) -> str:
    """The columns and how many figures, or what the command says."""
    if not row["columns"]:
        return str(row["prints"])
    drawn = "1 figure" if row["figures"] == 1 else f"{row['figures']} figures" if row["figures"] else "no figure"
    return f"{', '.join(row['columns'])}; {drawn}"


def _seconds(row: dict[str, Any]) -> str:
    """Seconds; with a star where the command was interrupted, or why there is nothing."""
    if row["code"] not in (0, 130):
        return row["error"][:60]
    return f"{row['seconds']:.0f}" + ("*" if row["code"] == 130 else "")
