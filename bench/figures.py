#!/usr/bin/env python3
"""The newest recorded reading of every product as a page of tables, docs/measurements/gemm.md, and as a picture of each GPU beside it.

    python3 bench/figures.py

A row is a problem; its figures may come from several runs, each the newest in which that problem was measured on that device.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from html import escape
from math import ceil, floor, prod
from pathlib import Path
from typing import Any

from measure import HERE, RESULTS

DOCS = HERE.parent / "docs"
DTYPES = ("float32", "float64")
BACKENDS = {"cuda": "CUDA", "opencl": "OpenCL"}
_SPELT = {"N": ("A", "B"), "T": ("A^T", "B^T")}

_HEAD = """# Figures of matrix products

Written by `bench/figures.py` from `bench/results/`, where the samples are: of each row the newest reading. `bench/README.md` says how they
are taken. Every figure is the speed over the vendor's library in the same run, by turns, by medians; out of the box, without tuning by the
user; row-major random operands, results checked.
"""

# Of the picture. Okabe and Ito's blue and vermilion, which people with any colour vision tell apart, and different shapes.
_WIDTH, _ROW, _LEFT, _TOP, _GAP = 760, 20, 150, 56, 40
_STYLE = (
    "text{font:12px sans-serif;fill:#333}.title{font-weight:bold}.end{text-anchor:end}.mid{text-anchor:middle}"
    ".grid{stroke:#ddd}.peer{stroke:#555;stroke-width:1.5}.cuda{fill:#0072b2}.opencl{fill:none;stroke:#d55e00;stroke-width:2}.page{fill:#fff}"
    "@media(prefers-color-scheme:dark){text{fill:#ddd}.grid{stroke:#333}.peer{stroke:#aaa}.page{fill:#0d1117}.cuda{fill:#56b4e9}}"
)


@dataclass(frozen=True)
class Product:
    """A problem without its dtype: sizes by name, and how A and B are stored."""

    sizes: tuple[tuple[str, int], ...]
    trans: str

    @property
    def name(self) -> str:
        """As a reader would say it."""
        sizes = dict(self.sizes)
        batch, shape = sizes.pop("batch", 1), list(sizes.values())
        told = f"{shape[0]}{'^3' if batch > 1 else ''}" if len(set(shape)) == 1 else " x ".join(map(str, shape))
        if batch > 1:
            told = f"{batch} of {told}"
        return told if self.trans == "NN" else f"{told}, {_SPELT[self.trans[0]][0]} {_SPELT[self.trans[1]][1]}"

    @property
    def order(self) -> tuple[bool, bool, int, str]:
        """Squares, then other shapes, then stacks; each by its work, what is stored plainly before what is transposed."""
        sizes = dict(self.sizes)
        return "batch" in sizes, len(set(sizes.values())) > 1, prod(sizes.values()), "" if self.trans == "NN" else self.trans


@dataclass(frozen=True)
class Reading:
    """How many times as fast as the peer: in short bursts, and in longer runs where they were measured."""

    product: Product
    dtype: str
    device: Mapping[str, Any]
    cpu: str
    peer: str
    commit: str
    burst: float
    sustained: float | None
    share: float | None = None
    """Of the device's own multiply-adds, measured in the same run."""
    ceiling: str = ""


Series = tuple[str, str]  # dtype and back end
Table = dict[Product, dict[Series, Reading]]


def readings(pinned: bool) -> Iterator[Reading]:
    """What portatile chooses, the oldest first: with every participant on one core of a CPU, or without such bounds."""
    runs = [json.loads(path.read_text()) for path in RESULTS.glob("gemm-*.json")]
    for run in sorted(runs, key=lambda run: str(run["time"])):
        if (run["options"].get("pin") is not None) != pinned:
            continue
        for problem in run["problems"]:
            product = Product(tuple(problem["sizes"].items()), problem["trans"])
            for row in problem["rows"]:
                place, _, selector = row["place"].partition(" ")
                if place == "portatile" and row["name"] == "tuned" and row.get("ratio") is not None:
                    about = product, problem["dtype"], run["devices"][selector], run["cpu"], row["peer"], run["commit"].split()[0][:7]
                    yield Reading(*about, row["ratio"], row.get("ratio_sustained"), row.get("share"), row.get("ceiling", ""))


def tables() -> dict[str, Table]:
    """By the GPU's name, or by the platform that drives a CPU: the newest reading in every place."""
    found: dict[str, Table] = {}
    for pinned in (False, True):
        for reading in readings(pinned):
            device = reading.device
            if (device["kind"] == "cpu") is pinned:
                title = _platform(reading) if pinned else device["name"]
                found.setdefault(title, {}).setdefault(reading.product, {})[reading.dtype, device["backend"]] = reading
    return found


def _platform(reading: Reading) -> str:
    device = reading.device
    name = "PoCL" if device["platform"] == "Portable Computing Language" else device["platform"].split("(")[0]
    version = ".".join(device["driver"].split("-")[0].split("+")[0].split(".")[:2])
    return f"One core of {reading.cpu.replace('(R)', '')}, {name} {version}"


def page(found: Mapping[str, Table]) -> str:
    """The text of docs/measurements/gemm.md."""
    return "\n".join([_HEAD, *(f"## {title}\n\n{_section(title, table)}" for title, table in found.items())])


def _section(title: str, table: Table) -> str:
    newest = [reading for row in table.values() for reading in row.values()][-1]
    on_gpu = newest.device["kind"] == "gpu"
    said = "In short bursts; in brackets in runs of 0.1 s and more, which power binds" if on_gpu else "CPU time, all on the same core"
    series = [(dtype, backend) for dtype in DTYPES for backend in BACKENDS if any((dtype, backend) in row for row in table.values())]
    names = [f"{dtype} {BACKENDS[backend]}" if on_gpu else dtype for dtype, backend in series]
    shared = any(reading.share is not None for row in table.values() for reading in row.values())
    extra = (" share |", " --- |") if shared else ("", "")
    head = f"| m x n x k | {' | '.join(names)} | commit |{extra[0]}\n| --- |{' ---: |' * len(names)} --- |{extra[1]}\n"
    rows = (
        f"| {product.name} | {' | '.join(_told(table[product].get(one)) for one in series)} | {_commits(table[product])} |"
        + (f" {_shares(table[product], series)} |" if shared else "")
        for product in _sorted(table)
    )
    said += "; share: of the device's own multiply-adds, measured in the same run" if shared else ""
    picture = f"![{title}: speed over its library](../pictures/{_slug(title)}.svg)\n\n" if on_gpu else ""
    return f"{picture}{said}; peer: {newest.peer}.\n\n{head}" + "\n".join(rows) + "\n"


def _sorted(table: Table) -> list[Product]:
    return sorted(table, key=lambda product: product.order)


def _told(reading: Reading | None) -> str:
    if reading is None:
        return ""
    return f"{reading.burst:.2f}" if reading.sustained is None else f"{reading.burst:.2f} ({reading.sustained:.2f})"


def _shares(row: Mapping[Series, Reading], series: list[Series]) -> str:
    """Of each reading that has one, in the order of the columns: 92 % of fp32 CUDA."""
    found = [(one, row[one]) for one in series if one in row]
    return ", ".join(
        f"{100 * reading.share:.0f} % of {reading.ceiling}" + (f" {BACKENDS[one[1]]}" if reading.device["kind"] == "gpu" else "")
        for one, reading in found
        if reading.share is not None
    )


def _commits(row: Mapping[Series, Reading]) -> str:
    return ", ".join(sorted({reading.commit for reading in row.values()}))


@dataclass(frozen=True)
class Axis:
    """Speeds from ``low`` to ``high`` tenths of the peer's, on ``width`` of the paper from ``left`` on."""

    low: int
    high: int
    left: float
    width: float

    def at(self, speed: float) -> float:
        """Where a speed stands."""
        return self.left + self.width * (10 * speed - self.low) / (self.high - self.low)


def picture(title: str, table: Table) -> str:
    """A self-contained SVG: a line for each product, the speed over the peer across, a panel for each dtype."""
    products, known = _sorted(table), [reading for row in table.values() for reading in row.values()]
    speeds = [10 * reading.burst for reading in known]
    low, high = min(8, floor(min(speeds))), max(12, ceil(max(speeds)))
    bottom, peer = _TOP + _ROW * len(products), known[-1].peer.rpartition(", ")[2]
    width = (_WIDTH - _LEFT - _GAP * len(DTYPES)) / len(DTYPES)
    parts = [_text("end", _LEFT - 10, _at(line) + 4, product.name) for line, product in enumerate(products)]
    for place, dtype in enumerate(DTYPES):
        axis = Axis(low, high, _LEFT + place * (width + _GAP), width)
        parts.append(_text("title mid", axis.left + width / 2, 40, dtype))
        parts.extend(_tick(axis, tenths, bottom) for tenths in range(low, high + 1))
        for line, product in enumerate(products):
            for backend, spelt in BACKENDS.items():
                reading = table[product].get((dtype, backend))
                if reading is not None:
                    said = f"{product.name}, {dtype}, {spelt}: {reading.burst:.2f}"
                    parts.append(_mark(backend, axis.at(reading.burst), _at(line), said))
    for x, (backend, spelt) in zip((_LEFT, _LEFT + 70), BACKENDS.items(), strict=True):
        parts += [_mark(backend, x, 14, spelt), _text("", x + 12, 18, spelt)]
    parts.append(_text("end", _WIDTH - _GAP, 18, f"speed over {peer} = 1, more is better"))
    height = bottom + 28
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}" role="img">'
    about = f"<title>{escape(title)}: matrix products, speed over {escape(peer)}</title>"
    return f'{head}{about}<style>{_STYLE}</style><rect class="page" width="100%" height="100%"/>{"".join(parts)}</svg>\n'


def _text(kind: str, x: float, y: float, text: str) -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y}">{escape(text)}</text>'


def _tick(axis: Axis, tenths: int, bottom: int) -> str:
    x = axis.at(tenths / 10)
    line = f'<path class="{"peer" if tenths == 10 else "grid"}" d="M{x:.1f} {_TOP - 8}V{bottom}"/>'
    return line + (_text("mid", x, bottom + 18, f"{tenths / 10:.1f}") if tenths % 2 == 0 else "")


def _mark(backend: str, x: float, y: int, said: str) -> str:
    title = f"<title>{escape(said)}</title>"
    if backend == "cuda":
        return f'<circle class="cuda" cx="{x:.1f}" cy="{y}" r="4.5">{title}</circle>'
    return f'<path class="opencl" d="M{x - 4:.1f} {y - 4}h8v8h-8z">{title}</path>'


def _at(line: int) -> int:
    return _TOP + _ROW * line + _ROW // 2


def _slug(title: str) -> str:
    return "gemm-" + title.lower().replace(" ", "-")


def files() -> dict[Path, str]:
    """What there is to write, by path."""
    found = tables()
    drawn = {
        DOCS / "pictures" / f"{_slug(title)}.svg": picture(title, table)
        for title, table in found.items()
        if not title.startswith("One core")
    }
    return {DOCS / "measurements" / "gemm.md": page(found), **drawn}


if __name__ == "__main__":
    for path, text in files().items():
        path.write_text(text)
        print(path)
