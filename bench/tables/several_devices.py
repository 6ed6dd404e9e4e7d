"""Routines on several devices together and on each alone, by where the data is; copies between devices; searches on two GPUs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from math import inf
from pathlib import Path
from statistics import median
from typing import Any

from device_searches import OF_BEST, judged
from portatile.figures import svg
from portatile.figures.bars import BarChart
from recorded import Picture, Run, Table, markdown, processor, runs

_BEGINS = {
    "host": "on the host",
    "device": "on one GPU",
    "halves": "a half on each GPU",
    "b on the last GPU": "A on one GPU, B on the other",
}
_CROSSED = re.compile(r"([\d.e+]+) GB crossed the links")  # in the explanation of a call
_PAIR = 2  # GPUs of the picture
_LEAST = 3  # samples; a way with fewer was cut off when the time ran out


_CASES = (
    "routine, where the data is",
    "one GPU, ms",
    "CPU, ms",
    "all GPUs, ms",
    "speed-up",
    "share of the sum",
    "links alone, ms",
    "GPUs and CPU, ms",
    "speed-up",
    "share of the sum",
    "commit",
)
_HALVES = (
    "routine and devices",
    "whole, ms",
    "one half alone, ms",
    "both halves, ms",
    "whole / one half",
    "whole / both halves",
    "added by the second call, us",
    "commit",
)
_PART = "device, a part on "
_SEARCHES = (
    "searches on",
    "device",
    "searches",
    "best, ms (from, to)",
    f"within {OF_BEST - 1:.0%} of the best known after, s",
    "trials",
    "as fast as the best within the noise",
    "commit",
)


def from_results(folder: Path) -> Iterator[Table | Picture]:
    """The newest run of each case on each set of devices, whole and in halves, of the copies and links, and of each commit's searches.

    The picture is of the newest run of each case on two GPUs.
    """
    found = runs("several_devices", folder)
    if found:
        yield Picture("several-devices.svg", svg.document([_chart(found)]))
        yield from _cases(found)
        yield from (_halves(found), _copies(found), _all_links(found), _searches(found))


def _cases(found: Sequence[Run]) -> Iterator[Table]:
    """A table for each set of devices of one host."""
    newest = {(case["case"], *_host(run)): (run, case["ways"]) for run in found for case in run.document["cases"]}
    links = _both_ways(found)
    machines: dict[str, list[tuple[Run, str, Any]]] = {}
    for (case, *_), (run, ways) in newest.items():
        machines.setdefault(_machine(run), []).append((run, case, ways))
    for machine, listed in machines.items():
        rows = [row for run, case, ways in listed for row in _rows(run, case, ways, links)]
        name = f"several-devices-on-{'-'.join(re.findall(r'[a-z0-9]+', machine.lower()))}"
        yield Table(name, markdown(_CASES, rows), frozenset(run.file for run, *_ in listed), machine)


def _chart(found: Sequence[Run]) -> BarChart:
    """The speed-up of two GPUs over one: with half of the data on each, with data on the host, and at most by the rate of their links."""
    pairs = [run for run in found if len([one for one in run.document["devices"] if one["id"].startswith("cuda:")]) == _PAIR]
    newest: dict[str, tuple[Run, Mapping[str, Any]]] = {}
    for run in pairs:
        newest |= {case["case"]: (run, case["ways"]) for case in run.document["cases"] if _enough(case["ways"], "host, GPUs")}
    links, groups, values = _both_ways(found), list[str](), list[tuple[float | None, ...]]()
    for case, (run, ways) in newest.items():
        whole = [way for name, way in ways.items() if name.endswith(" alone") and way["part"] == 1]
        alone = {place: min(median(way["seconds"]) for way in whole if way["place"] == place) for place in ("host", "device")}
        halves = alone["device"] / median(ways["device, halves"]["seconds"]) if _enough(ways, "device, halves") else None
        bound = _links_alone(run, ways["host, GPUs"], links)
        most = min(alone["host"] / (float(bound) / 1e3), float(_PAIR)) if bound else None
        groups.append(case)
        values.append((halves, alone["host"] / median(ways["host, GPUs"]["seconds"]), most))
    caption = "Data on the host crosses the links of both GPUs. The last bar is the highest speed-up that the links allow, at most 2."
    series = "half of the data on each GPU", "data on the host", "limit for data on the host"
    names = dict.fromkeys(re.sub(r"NVIDIA | \d+GB.*", "", run.document["devices"][0]["name"]) for run, _ in newest.values())
    return BarChart(f"Speed-up of two GPUs over one: {', '.join(names)}", caption, "speed-up", "", tuple(groups), series, tuple(values))


def _enough(ways: Mapping[str, Any], name: str) -> bool:
    """Whether a way was timed often enough."""
    return name in ways and len(ways[name]["seconds"]) >= _LEAST


def _halves(found: Sequence[Run]) -> Table:
    """The time of one half alone (of the slower GPU), of both at once, and how much the second call adds."""
    every = [(run, case["case"], case["ways"]) for run in found for case in run.document["cases"]]
    whole_runs = [one for one in every if any(way.startswith(_PART) for way in one[2]) and "device, halves" in one[2]]
    newest = {(name, *_host(run)): (run, name, ways) for run, name, ways in whole_runs}
    rows = []
    for run, name, ways in newest.values():
        whole = min(median(way["seconds"]) for one, way in ways.items() if one.startswith("device, ") and one.endswith(" alone"))
        half = max(median(way["seconds"]) for one, way in ways.items() if one.startswith(_PART))
        both = median(ways["device, halves"]["seconds"])
        times = [_ms(1 / one) for one in (whole, half, both)]
        added = f"{1e6 * (both - half):.0f}"
        rows.append([f"{name}, {_machine(run)}", *times, f"{whole / half:.2f}", f"{whole / both:.2f}", added, run.commit])
    return Table("several-devices-halves", markdown(_HALVES, rows), frozenset(run.file for run, *_ in newest.values()))


def _copies(found: Sequence[Run]) -> Table:
    newest: dict[tuple[str, ...], tuple[Run, float]] = {}
    for run in found:
        names = _names(run)
        for copy in run.document["copies"]:
            newest[names[copy["from"]], names[copy["to"]], copy["from"], copy["to"]] = run, median(copy["bytes_per_second"])
    rows = [[*ends[:2], f"{rate / 1e9:.1f}", run.commit] for ends, (run, rate) in newest.items()]
    used = frozenset(run.file for run, _ in newest.values())
    return Table("several-devices-copies", markdown(("from", "to", "GB/s", "commit"), rows), used)


def _all_links(found: Sequence[Run]) -> Table:
    newest = {_host(run): run for run in found if run.document.get("links")}
    head = ("GPUs", "cores", "host to GPU, GB/s", "GPU to host, GB/s", "both ways, GB/s", "commit")
    rows = [row for run in newest.values() for row in _links(run)]
    return Table("several-devices-links", markdown(head, rows), frozenset(run.file for run in newest.values()))


def _searches(found: Sequence[Run]) -> Table:
    newest = {(*_host(run), run.commit): run for run in found if any("best" in one for one in run.document["tuning"])}
    rows = [row for run in newest.values() for row in _search(run)]
    return Table("several-devices-tuning", markdown(_SEARCHES, rows), frozenset(run.file for run in newest.values()))


def _names(run: Run) -> dict[str, str]:
    """The name of each device of a run in the tables."""
    devices = run.document["devices"]
    short = {one["id"]: processor(one["name"]) for one in devices}
    alike = {one for one in short.values() if list(short.values()).count(one) > 1}
    return {name: f"{device}, {name}" if device in alike else device for name, device in short.items()}


def _machine(run: Run) -> str:
    """The devices of a run, how many of each, and the cores of their host."""
    listed = [processor(one["name"]) for one in run.document["devices"]]
    names = ", ".join(f"{listed.count(name)} x {name}" if listed.count(name) > 1 else name for name in dict.fromkeys(listed))
    return f"{names}; {run.document['cores']} cores"


def _both_ways(found: Sequence[Run]) -> dict[tuple[str, ...], float]:
    """The bytes a second between page-locked host arrays and these devices, both ways at once, in the newest run on a host."""
    ends = [(run, link) for run in found for link in run.document.get("links", ()) if link["way"] == "both ways"]
    return {_linked(run, link["devices"]): median(link["bytes_per_second"]) for run, link in ends}


def _linked(run: Run, devices: Sequence[str]) -> tuple[str, ...]:
    """These devices and their host."""
    return *(_names(run)[name] for name in devices), str(run.document["cores"])


def _host(run: Run) -> tuple[str, ...]:
    """All devices of a run and their host, which is identified by its number of cores."""
    return _linked(run, list(_names(run)))


def _links_alone(run: Run, way: Mapping[str, Any], links: Mapping[tuple[str, ...], float]) -> str:
    """The milliseconds that the links need for the bytes of a shared call, both ways at once; empty if that was not recorded."""
    crossed, rate = _CROSSED.search(way.get("split", "")), links.get(_linked(run, way["on"]))
    return "" if crossed is None or rate is None else _ms(rate / (1e9 * float(crossed[1])))


def _rows(run: Run, case: str, ways: Mapping[str, Any], links: Mapping[tuple[str, ...], float]) -> Iterator[list[str]]:
    """A row for each place where the data may be: times, and rates relative to the best device and to the sum of all devices."""
    rates = {name: way["part"] / median(way["seconds"]) for name, way in ways.items() if len(way["seconds"]) >= _LEAST}
    alone = {(ways[name]["place"], ways[name]["on"][0]): rate for name, rate in rates.items() if name.endswith(" alone")}
    for place, begins in _BEGINS.items():
        where = place if place == "host" else "device"
        near = {on: rate for (at, on), rate in alone.items() if at == where}
        shared = [f"{where}, {way}" for way in (("GPUs", "all") if place == where else (place,))]
        cells: list[str] = []
        for name in shared:
            of = sum(near.get(on) or alone.get(("host", on), 0.0) for on in ways[name]["on"]) if name in rates else 0.0
            cells += [_ms(rates[name]), f"{rates[name] / max(near.values()):.2f}", f"{rates[name] / of:.2f}"] if of and near else [""] * 3
            if name is shared[0]:
                cells.append(_links_alone(run, ways[name], links) if place == "host" and name in ways else "")
        if any(cells):
            cpu = [rate for name, rate in rates.items() if place == "host" and name.endswith(" alone") and ways[name]["part"] < 1]
            cells += [""] * (len(_CASES) - 4 - len(cells))
            yield [f"{case}, {begins}", _ms(max(near.values())), _ms(cpu[0]) if cpu else "", *cells, run.commit]


def _links(run: Run) -> Iterator[list[str]]:
    """The rates of copies of page-locked arrays, for each GPU alone and for all at once."""
    links = run.document["links"]
    rates = {(tuple(link["devices"]), link["way"]): median(link["bytes_per_second"]) / 1e9 for link in links}
    for devices in dict.fromkeys(names for names, _ in rates):
        cells = [f"{rates[devices, way]:.1f}" for way in ("to", "from", "both ways")]
        yield [" + ".join(_names(run)[name] for name in devices), str(run.document["cores"]), *cells, run.commit]


def _ms(rate: float) -> str:
    return f"{1e3 / rate:.3g}" if rate > 1 else f"{1e3 / rate:.0f}"


def _search(run: Run) -> Iterator[list[str]]:
    """For each set of devices: after how many seconds half of the searches were within two per cent of the best of all searches."""
    done = [one for one in run.document["tuning"] if "best" in one]
    times = run.document.get("compared", {}).get("times", {})
    for devices, shared in dict.fromkeys((tuple(one["devices"]), one.get("shared", False)) for one in done):
        every = [one for one in done if (tuple(one["devices"]), one.get("shared", False)) == (devices, shared)]
        for name in devices[:1] if shared else devices:
            reached = [1e3 * one["best"][name][0] for one in every]
            found = [judged(one, name, done, times) for one in every]
            after = sorted(inf if at is None else at for _, at, _ in found)
            middle = after[len(after) // 2]
            cells = [
                " + ".join(devices) + (", one search" if shared else ""),
                "either" if shared else _names(run)[name],
                str(len(every)),
                f"{median(reached):.3f} ({min(reached):.3f}, {max(reached):.3f})",
            ]
            cells += ["never" if middle == inf else f"{middle:.1f}", f"{median(one['trials'][name] for one in every):.0f}"]
            yield [*cells, f"{sum(agrees for *_, agrees in found)} of {len(every)}", run.commit]
