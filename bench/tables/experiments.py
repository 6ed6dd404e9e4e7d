"""Every experiment of the documents with its command: what it prints and draws, and the seconds that it took on each device."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gallery
from portatile.studies.form import discover
from recorded import Run, Table, markdown, processor, runs, through

_TO_COME = "NVIDIA H200"
_VERDICTS = ("who makes it", "the same code", "explained", "no optimisation", "what remains", "not explained", "finished code")
_EQUAL = "there is no difference"
_WORTH = 0.005  # a share that is told


def from_results(folder: Path) -> Iterator[Table]:
    """One table with a column for each device, of the newest run of each command on it; and what the gaps came to."""
    found = runs("experiments", folder)
    if not found:
        return
    newest: dict[str, dict[str, tuple[dict[str, Any], Run]]] = {}
    ids: dict[str, str] = {}  # of each command, as the newest run names them
    devices: list[str] = []
    for run in found:
        name = processor(run.document["devices"][0]["name"])
        devices += [] if name in devices else [name]
        for row in run.document["rows"]:
            of_devices = newest.setdefault(row["words"], {})
            ids[row["words"]] = row["ids"]
            if name not in of_devices or _complete(row) or not _complete(of_devices[name][0]):
                of_devices[name] = row, run
    shown = [*devices, *([] if any("NVIDIA" in name for name in devices) else [_TO_COME])]
    rows = []
    newest = {words: newest[words] for words in gallery.listed() if words in newest}
    for words, of_devices in sorted(newest.items(), key=lambda item: _order(ids[item[0]])):
        first = next(iter(of_devices.values()))[0]
        cells = [_seconds(*of_devices[name]) if name in of_devices else "" for name in shown]
        rows.append([ids[words], f"`portatile {words}`", _prints(first), *cells])
    head = ("experiment", "command", "what it answers or prints", *(f"seconds, {name}" for name in shown))
    files = frozenset(run.file for of_devices in newest.values() for _, run in of_devices.values())
    commits = ", ".join(sorted({run.commit for of_devices in newest.values() for _, run in of_devices.values()}))
    yield Table("experiments", f"{markdown(head, rows, numbers=False)}\nCommits: {commits}.\n", files)

    gaps = [
        (name, row, run) for of_devices in newest.values() for name, (row, run) in of_devices.items() if row.get("gap", {}).get("sides")
    ]
    if gaps:
        latest: dict[Any, str] = {}  # when the difference of two sides was measured last, on whichever GPU
        for _, row, run in gaps:
            latest[_pair(row)] = max(run.time, latest.get(_pair(row), ""))
        told = [cells for name, row, run in gaps for cells in _explained(name, row, run.time == latest[_pair(row)])]
        head = ("kernel", "device", "without", "with all", "what explains the speed, or the difference")
        yield Table("gaps", markdown(head, told, numbers=False), files)


def _complete(row: dict[str, Any]) -> bool:
    """Whether the command came to its end."""
    return row["code"] == 0 and not row.get("ended")


def _pair(row: dict[str, Any]) -> tuple[str, tuple[str, ...]]:
    """The command and the sides that it compares."""
    return row["words"], tuple(row["gap"]["sides"])


def _explained(device: str, row: dict[str, Any], compared: bool) -> Iterator[list[str]]:
    """A line for each side with what explains its speed, where that was measured; one for the difference if the sides are ``compared``."""
    gap, kernel = row["gap"], row["words"].removeprefix("study gap ")
    for side, times in gap["sides"].items():
        shares = {name.removeprefix(f"{side}: "): share for name, share in gap["all orders"].items() if name.startswith(f"{side}: ")}
        name = f"{device}, {side}" if len(gap["sides"]) > 1 else device
        if shares:
            yield [kernel, name, _time(times["none"]), _time(times["all"]), _listed(shares)]
    ends = [times["all"] for times in gap["sides"].values()]
    told = "; ".join(line for line in row["notes"].splitlines() if line.startswith(_VERDICTS))
    if compared and len(ends) == 2 and all(ends):
        told = "no difference worth explaining" if _EQUAL in row["notes"] else told
        yield [
            kernel,
            f"{device}: {' over '.join(gap['sides'])}",
            "",
            f"{' over '.join(map(_time, ends))}: ratio {ends[0] / ends[1]:.3g}",
            told,
        ]


def _listed(shares: dict[str, float]) -> str:
    """Shares, the largest first, without those of nothing."""
    worth = [(name, share) for name, share in shares.items() if abs(share) >= _WORTH]
    return ", ".join(f"{name} {share:.0%}" for name, share in sorted(worth, key=lambda item: -abs(item[1])))


def _time(seconds: float | None) -> str:
    return "" if seconds is None else f"{1e3 * seconds:.3g} ms"


def _order(ids: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", ids.partition(",")[0])]


def _prints(row: dict[str, Any]) -> str:
    """The study's question and how many figures answer it, or what the command says."""
    words = row["words"].split()
    if words[0] != "study":
        return str(row["prints"])
    drawn = "; 1 figure" if row["figures"] == 1 else f"; {row['figures']} figures" if row["figures"] else ""
    return f"{discover.get(words[1]).question} Table{drawn}"


def _seconds(row: dict[str, Any], run: Run) -> str:
    """Seconds, and through which back ends and runtimes; or why there is nothing.

    A star marks a command that was interrupted, a plus one that went on with an earlier run.
    """
    if row["error"] and not row["rows"]:
        return str(row["error"])[:60].replace("|", "/")
    taking = dict.fromkeys(through(device).split()[0] for device in run.document["devices"] if device["id"] in row["command"])
    seconds = f"{row['seconds']:.0f}" + ("" if _complete(row) else "*") + ("+" if row.get("resumed") else "")
    return f"{seconds}: {', '.join(taking)}" if taking else seconds
