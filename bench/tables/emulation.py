"""Where emulated products begin to win, level 3 made of them, and how their errors are distributed beside native ones'."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from portatile.figures import svg
from portatile.figures.lines import ChartAxis, LineChart, Series
from recorded import Picture, Run, Table, markdown, processor, runs
from tables.level3 import newest_rows
from tables.precisions import shape

_FORMS = ("hopper", "matrix")  # how names of forced configurations begin
_SHOWN = (("float32", (4096, 4096, 4096)), ("float64", (4096, 4096, 4096)), ("complex128", (4096, 4096, 4096)))
_NAMES = {"default": "emulated", "residues": "emulated", "native": "native", "cuBLAS": "cuBLAS"}


def from_results(folder: Path) -> Iterator[Table | Picture]:
    """For each device a table of where emulation begins, one of level 3, and one of errors; a picture of the newest errors."""
    terms, residues, level3 = (runs(name, folder) for name in ("float32_terms", "residues", "level3"))
    for device in _devices(terms):
        yield from _beginning(device, _of(terms, device))
    for device in _devices(level3):
        yield from _level3(device, _of(level3, device))
    counted = [run for run in (*terms, *residues) if any(row.get("histogram") for row in run.document["rows"])]
    for device in _devices(counted):
        mine = sorted(_of(counted, device), key=lambda run: run.time)
        yield from _errors(device, mine, drawn=mine[-1].time == max(run.time for run in counted))


def _devices(recorded: Sequence[Run]) -> list[str]:
    return sorted({processor(run.document["device"]) for run in recorded})


def _of(recorded: Sequence[Run], device: str) -> list[Run]:
    return [run for run in recorded if processor(run.document["device"]) == device]


def _slug(device: str) -> str:
    return "-".join(device.lower().split())


def _beginning(device: str, recorded: Sequence[Run]) -> Iterator[Table]:
    """Microseconds of the fastest emulated product that was forced, of the native one and cuBLAS's, and of what a call takes. Where
    none was forced, that is compared.
    """
    newest: dict[str, tuple[Run, dict[str, float]]] = {}
    for run in recorded:
        by_shape: dict[tuple[int, ...], dict[str, float]] = {}
        for row in run.document["rows"]:
            if row["trans"] == "NN" and row["data"] == "normal":
                by_shape.setdefault(tuple(row["sizes"]), {})[row["name"]] = 1e6 * row["burst"]
        for sizes, took in by_shape.items():
            if {"native", "default"} <= took.keys():
                newest[shape(sizes)] = run, took
    rows = []
    for name, (run, took) in newest.items():
        forced = min((time for form, time in took.items() if form.startswith(_FORMS)), default=None)
        cells = [took.get("cuBLAS"), took["native"], forced, took["default"]]
        share = took["native"] / (forced or took["default"])
        rows.append([name, *("" if one is None else f"{one:.1f}" for one in cells), f"{share:.2f}", run.commit])
    if rows:
        head = ("m x n x k", "cuBLAS, us", "native, us", "emulated, us", "what a call takes, us", "native over emulated", "commit")
        files = frozenset(run.file for run, _ in newest.values())
        yield Table(f"emulation-begins-{_slug(device)}", markdown(head, rows), files, f"Where emulation of float32 begins to win, {device}")


def _level3(device: str, recorded: Sequence[Run]) -> Iterator[Table]:
    """Emulated TRSM and SYRK over cuBLAS, what a call of float32 takes by itself, and the native ones."""
    both: dict[tuple[str, ...], dict[str, tuple[Run, Mapping[str, Any]]]] = {}
    cuda = [run for run in recorded if run.document.get("through") != "opencl"]
    for (routine, case, size, precision, dtype), found in newest_rows(cuda).items():
        if routine in ("trsm", "syrk") and (precision in ("native", "emulated") or (precision, dtype) == ("default", "float32")):
            both.setdefault((routine, case, size, dtype), {})[precision] = found
    rows, files = [], set()
    for key, found in both.items():
        if found.keys() - {"native"}:
            rows.append([*key, *(f"{found[name][1]['ratio']:.2f}" if name in found else "" for name in ("emulated", "default", "native"))])
            rows[-1].append(", ".join(dict.fromkeys(run.commit for run, _ in found.values())))
            files |= {run.file for run, _ in found.values()}
    if rows:
        head = ("routine", "case", "size", "type", "emulated over cuBLAS", "what a call takes", "native", "commit")
        yield Table(f"emulation-level3-{_slug(device)}", markdown(head, rows), frozenset(files), f"Level 3 of emulated products, {device}")


def _errors(device: str, recorded: Sequence[Run], drawn: bool) -> Iterator[Table | Picture]:
    """The share of sampled elements whose error has each power of two, in units of u sum |a| |b|."""
    newest: dict[tuple[str, tuple[int, ...]], tuple[Run, dict[str, Mapping[str, int]]]] = {}
    for run in recorded:
        for row in run.document["rows"]:
            if row["data"] == "normal" and row.get("trans", "NN") == "NN" and row["name"] in _NAMES and row.get("histogram"):
                key = row.get("dtype", "float32"), tuple(row["sizes"])
                held, sides = newest.get(key, (run, {}))
                newest[key] = run, {**(sides if held is run else {}), _NAMES[row["name"]]: row["histogram"]}
    shown = [(key, *newest[key]) for key in _SHOWN if key in newest]
    if not shown:
        return
    powers = sorted({int(power) for _, _, sides in shown for counts in sides.values() for power in counts})
    columns = [(key[0], name, counts) for key, _, sides in shown for name, counts in sides.items()]
    rows = [[f"2^{power}", *(f"{share:.1f} %" if (share := _share(counts, power)) else "" for _, _, counts in columns)] for power in powers]
    head = ("error from", *(f"{dtype}, {name}" for dtype, name, _ in columns))
    files = frozenset(run.file for _, run, _ in shown)
    name = f"emulation-errors-{_slug(device)}"
    yield Table(name, markdown(head, rows), files, f"Errors, {device}")
    charts = [_chart(*key, sides, device) for key, _, sides in shown]
    if drawn:
        yield Picture("emulation-errors.svg", svg.document(charts))


def _share(counts: Mapping[str, int], power: int) -> float:
    """Per cent of the elements."""
    return 100 * counts.get(str(power), 0) / sum(counts.values())


def _chart(dtype: str, sizes: tuple[int, ...], sides: Mapping[str, Mapping[str, int]], device: str) -> LineChart:
    series = tuple(
        Series(name, tuple((float(power), _share(counts, power)) for power in range(min(map(int, counts)), max(map(int, counts)) + 1)))
        for name, counts in sides.items()
    )
    return LineChart(
        f"{dtype}, {shape(sizes)}, {device}",
        "The share of sampled elements by the power of two of their error, in units of u times the sum of |a| |b|; normal operands.",
        ChartAxis("power of two of the error", zero=False),
        ChartAxis("of the elements", "%"),
        series,
    )
