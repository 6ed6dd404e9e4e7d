"""Every experiment of the documents with its command: what it prints and draws, and the seconds that it took on each device."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import gallery
from portatile.device import names
from portatile.formatting import percent
from portatile.records import DeviceInfo, from_json
from portatile.studies.framework import discover
from recorded import Run, Table, markdown, processor, runs, through

_KINDS = {"gpu": "a GPU", "cpu": "a processor"}
_DIFFERENCE = ("kernel", "on", "time of a run, ratio", "whose code or driver makes it", "taken from both until equal", "what then remains")
_SPEED = ("kernel", "device", "without", "with all", "what explains the speed")
_REMAINS = ("what remains", "not explained", "no optimisation")
_LEFT = "what then remains"
_EQUAL = "there is no difference"
_WORTH = 0.005  # a share that is told

Done = tuple[dict[str, Any], Run]  # a row of a result, and its run


def from_results(folder: Path) -> Iterator[Table]:
    """One table with the newest complete run of each command on a GPU and on a processor; and what the gaps came to."""
    newest, ids = _newest(runs("experiments", folder))
    if not newest:
        return
    rows = []
    shown: list[Done] = []
    for words, of_devices in sorted(newest.items(), key=lambda item: _order(ids[item[0]])):
        best = [_best(kind, of_devices) for kind in _KINDS]
        taken = [one for one in best if one is not None]
        shown += taken
        most = max((row for row, _ in taken), key=lambda row: int(row["figures"]))
        rows.append([ids[words], f"`portatile {words}`", _prints(most), *("" if one is None else _seconds(*one) for one in best)])
    head = ("experiment", "command", "what it answers or prints", *(f"seconds on {kind}" for kind in _KINDS.values()))
    commits = ", ".join(sorted({run.commit for _, run in shown}))
    yield Table("experiments", f"{markdown(head, rows, numbers=False)}\nCommits: {commits}.\n", _files(shown))

    gaps = [(name, done) for of_devices in newest.values() for name, done in of_devices.items() if done[0].get("gap", {}).get("sides")]
    if gaps:
        compared = _compared([done for _, done in gaps])
        yield Table("gaps", markdown(_DIFFERENCE, [_difference(*done) for done in compared], numbers=False), _files(compared))
        speed_ups = [cells for name, (row, _) in gaps for cells in _speed_ups(name, row)]
        yield Table("speed-ups", markdown(_SPEED, speed_ups, numbers=False), _files(done for _, done in gaps))


def _newest(found: Sequence[Run]) -> tuple[dict[str, dict[str, Done]], dict[str, str]]:
    """Of each listed command, by device, the newest complete run, else the newest; and its experiments, as the newest run names them."""
    newest: dict[str, dict[str, Done]] = {}
    ids: dict[str, str] = {}
    for run in found:
        name = processor(run.document["devices"][0]["name"])
        for row in run.document["rows"]:
            of_devices = newest.setdefault(row["words"], {})
            ids[row["words"]] = row["ids"]
            if name not in of_devices or _complete(row) or not _complete(of_devices[name][0]):
                of_devices[name] = row, run
    return {words: newest[words] for words in gallery.listed() if words in newest}, ids


def _files(shown: Iterable[Done]) -> frozenset[str]:
    return frozenset(run.file for _, run in shown)


def _best(kind: str, of_devices: dict[str, Done]) -> Done | None:
    """Of a command's runs on devices of a kind a complete one, then the newest."""
    runs_of = [(row, run) for row, run in of_devices.values() if run.document["devices"][0]["kind"] == kind]
    return max(runs_of, key=lambda one: (_complete(one[0]), one[1].time), default=None)


def _complete(row: dict[str, Any]) -> bool:
    """Whether the command came to its end."""
    return row["code"] == 0 and not row.get("ended")


def _compared(gaps: Sequence[Done]) -> list[Done]:
    """Of each two sides that were compared, on whichever device, the newest complete run, else the newest."""
    latest: dict[tuple[str, tuple[str, ...]], Done] = {}
    for row, run in gaps:
        sides = row["gap"]["sides"]
        if len(sides) == 2 and all(times["all"] for times in sides.values()):
            key = row["words"], tuple(sides)
            before = latest.setdefault(key, (row, run))
            if (_complete(row), run.time) > (_complete(before[0]), before[1].time):
                latest[key] = row, run
    return list(latest.values())


def _difference(row: dict[str, Any], run: Run) -> list[str]:
    """The times of both sides, and what explains their ratio."""
    infos, sides = _infos(run), row["gap"]["sides"]
    ends = [times["all"] for times in sides.values()]
    times = ", ".join(f"{_told(side, infos)} {_time(end)}" for side, end in zip(sides, ends, strict=True))
    kernel = row["words"].removeprefix("study gap ")
    return [kernel, names.hardware(infos[0]), f"{times}: {ends[0] / ends[1]:.3g}", *_reasons(row)]


def _reasons(row: dict[str, Any]) -> tuple[str, str, str]:
    """Whose the difference is, by running the other's code; what is taken from both until they are equal; what then remains."""
    if _EQUAL in row["notes"]:
        return "none worth explaining", "", ""
    whose = _listed(_of_both(row, "code or driver"))
    level = _of_both(row, "until equal")
    remains = next((line for line in row["notes"].splitlines() if line.startswith(_REMAINS)), "")
    unsure = "; not certain: runs scatter by more than the difference" if "it is not certain" in row["notes"] else ""
    taken = {name: share for name, share in level.items() if name != _LEFT}
    return whose, _listed(taken) or "nothing", f"{percent(level.get(_LEFT))}{_because(remains)}{unsure}"


def _because(line: str) -> str:
    """What a remark says the rest is: the words after its figure."""
    found = re.search(r"(?:which is|is) (?:mostly )?(.*)", line)
    return f": {found[1]}" if found else ""


def _of_both(row: dict[str, Any], order: str) -> dict[str, float]:
    """Shares of the difference between both sides, without their names."""
    return {name.partition(": ")[2]: share for name, share in row["gap"].get(order, {}).items()}


def _infos(run: Run) -> list[DeviceInfo]:
    return from_json(json.dumps(run.document["devices"]).encode(), list[DeviceInfo])


def _told(side: str, infos: Sequence[DeviceInfo]) -> str:
    """A side with its runtime in place of its device's id: ``CUDA``, ``PoCL WPT=1``."""
    device, _, config = side.partition("/")
    runtime = next((names.runtime(info) for info in infos if info.id == device), device)
    return f"{runtime} {config}".strip()


def _speed_ups(device: str, row: dict[str, Any]) -> Iterator[list[str]]:
    """A line for each side with what explains its speed, where that was measured."""
    gap, kernel = row["gap"], row["words"].removeprefix("study gap ")
    for side, times in gap["sides"].items():
        shares = {name.removeprefix(f"{side}: "): share for name, share in gap["all orders"].items() if name.startswith(f"{side}: ")}
        if shares:
            name = f"{device}, {side}" if len(gap["sides"]) > 1 else device
            yield [kernel, name, _time(times["none"]), _time(times["all"]), _listed(shares)]


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
    devices = run.document["devices"]
    taking = dict.fromkeys(through(device).split()[0] for device in devices if device["id"] in row["command"])
    seconds = f"{row['seconds']:.0f}" + ("" if _complete(row) else "*") + ("+" if row.get("resumed") else "")
    return f"{seconds}: {names.hardware(_infos(run)[0])} {', '.join(taking)}".rstrip()
