"""Computations by several devices: together and each alone, by where the data begins; copies between devices; searches on two GPUs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import inf
from pathlib import Path
from statistics import median
from typing import Any

from recorded import Run, Table, markdown, processor, runs

_BEGINS = {
    "host": "on the host",
    "device": "on one GPU",
    "halves": "a half on each GPU",
    "b on the last GPU": "A on one GPU, B on the other",
}
_OF_BEST = 1.02  # times the best known time, within which a search has found it


def from_results(folder: Path) -> Iterator[Table]:
    """The newest run of each case on each set of devices, of the copies, and of the searches."""
    found = runs("several_devices", folder)
    if not found:
        return
    cases: dict[tuple[str, ...], tuple[Run, Mapping[str, Any]]] = {}
    copies: dict[tuple[str, ...], list[str]] = {}
    searches: dict[tuple[str, ...], Run] = {}
    copying: dict[tuple[str, ...], str] = {}
    for run in found:
        machine = tuple(_names(run).values())
        for case in run.document["cases"]:
            cases[case["case"], *machine] = run, case["ways"]
        for copy in run.document["copies"]:
            ends = _names(run)[copy["from"]], _names(run)[copy["to"]]
            copies[(*ends, copy["from"], copy["to"])] = [*ends, f"{median(copy['bytes_per_second']) / 1e9:.1f}", run.commit]
            copying[(*ends, copy["from"], copy["to"])] = run.file
        if any("best" in one for one in run.document["tuning"]):
            searches[machine] = run
    rows = [row for (case, *_), (run, ways) in cases.items() for row in _rows(run, case, ways)]
    head = (
        "",
        "data",
        "one GPU, ms",
        "CPU, ms",
        "GPUs, ms",
        "over one",
        "of their sum",
        "and CPU, ms",
        "over one",
        "of their sum",
        "devices",
        "commit",
    )
    yield Table("several-devices", markdown(head, rows, numbers=False), frozenset(run.file for run, _ in cases.values()))
    head = ("from", "to", "GB/s", "commit")
    yield Table("several-devices-copies", markdown(head, copies.values()), frozenset(copying.values()))
    told = [row for run in searches.values() for row in _search(run)]
    found_after = f"within {_OF_BEST - 1:.0%} of the best known after, s"
    head = (
        "searches on",
        "device",
        "searches",
        "best, ms (from, to)",
        found_after,
        "trials",
        "as fast as the best within the noise",
        "commit",
    )
    yield Table("several-devices-tuning", markdown(head, told), frozenset(run.file for run in searches.values()))


def _names(run: Run) -> dict[str, str]:
    """What each device of a run is called in the tables."""
    devices = run.document["devices"]
    short = {one["id"]: processor(one["name"]) for one in devices}
    alike = {one for one in short.values() if list(short.values()).count(one) > 1}
    return {name: f"{device}, {name}" if device in alike else device for name, device in short.items()}


def _machine(run: Run) -> str:
    """The devices of a run: how many of each."""
    listed = [processor(one["name"]) for one in run.document["devices"]]
    return ", ".join(f"{listed.count(name)} x {name}" if listed.count(name) > 1 else name for name in dict.fromkeys(listed))


def _rows(run: Run, case: str, ways: Mapping[str, Any]) -> Iterator[list[str]]:
    """A line for each place where the data may begin: times, and rates over the best device's alone, and over the sum of theirs."""
    rates = {name: way["part"] / median(way["seconds"]) for name, way in ways.items()}
    alone = {(ways[name]["place"], ways[name]["on"][0]): rate for name, rate in rates.items() if name.endswith(" alone")}
    for place, begins in _BEGINS.items():
        where = place if place == "host" else "device"
        near = {on: rate for (at, on), rate in alone.items() if at == where}
        shared = [f"{where}, {way}" for way in (("GPUs", "all") if place == where else (place,))]
        cells: list[str] = []
        for name in shared:
            of = sum(near.get(on) or alone.get(("host", on), 0.0) for on in ways[name]["on"]) if name in rates else 0.0
            cells += [_ms(rates[name]), f"{rates[name] / max(near.values()):.2f}", f"{rates[name] / of:.2f}"] if of and near else [""] * 3
        if any(cells):
            cpu = [rate for name, rate in rates.items() if place == "host" and name.endswith(" alone") and ways[name]["part"] < 1]
            cells += [""] * (6 - len(cells))
            yield [case, begins, _ms(max(near.values())), _ms(cpu[0]) if cpu else "", *cells, _machine(run), run.commit]


def _ms(rate: float) -> str:
    return f"{1e3 / rate:.3g}" if rate > 1 else f"{1e3 / rate:.0f}"


def _search(run: Run) -> Iterator[list[str]]:
    """Of the searches on each set of devices: when half of them had found what is within two per cent of the best that any found."""
    done = [one for one in run.document["tuning"] if "best" in one]
    best = min(seconds for one in done for seconds, _ in one["best"].values())
    for devices in dict.fromkeys(tuple(one["devices"]) for one in done):
        every = [one for one in done if tuple(one["devices"]) == devices]
        for name in devices:
            reached = [1e3 * one["best"][name][0] for one in every]
            after = sorted(next((at for at, seconds in one["steps"][name] if seconds <= _OF_BEST * best), inf) for one in every)
            middle = after[len(after) // 2]
            cells = [
                " + ".join(devices),
                _names(run)[name],
                str(len(every)),
                f"{median(reached):.3f} ({min(reached):.3f}, {max(reached):.3f})",
            ]
            cells += ["never" if middle == inf else f"{middle:.1f}", f"{median(one['trials'][name] for one in every):.0f}"]
            yield [*cells, f"{sum(_agrees(one, name, best) for one in every)} of {len(every)}", run.commit]


def _agrees(search: Mapping[str, Any], name: str, best: float) -> bool:
    """Whether the winner of a search is as fast as the best of all within the noise of its own final comparison."""
    seconds, config = search["best"][name]
    lows = [low for _, low, _, finalist in search.get("finalists", {}).get(name, []) if finalist == config]
    return min([seconds, *lows]) <= best
