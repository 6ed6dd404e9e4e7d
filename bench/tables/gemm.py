"""The newest recorded speed of every matrix product: a table for each device, and a picture for each GPU.

A row is a problem; its figures may come from several runs, each the newest in which that problem was measured on that device.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from html import escape
from math import ceil, floor, prod
from pathlib import Path
from typing import Any

from measure import slug
from recorded import Picture, Run, markdown, runs
from recorded import Table as Page

DTYPES = ("float32", "float64")
BACKENDS = {"cuda": "CUDA", "opencl": "OpenCL"}
_SPELT = {"N": ("A", "B"), "T": ("A^T", "B^T")}

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
    def order(self) -> tuple[bool, bool, int, str, tuple[int, ...]]:
        """Squares, then other shapes, then stacks; each by its work, what is stored plainly before what is transposed."""
        sizes = dict(self.sizes)
        return (
            "batch" in sizes,
            len(set(sizes.values())) > 1,
            prod(sizes.values()),
            "" if self.trans == "NN" else self.trans,
            tuple(sizes.values()),
        )


@dataclass(frozen=True)
class Figure:
    """How many times as fast as the peer: in short bursts, and in longer runs where they were measured."""

    product: Product
    dtype: str
    device: Mapping[str, Any]
    cpu: str
    peer: str
    commit: str
    file: str
    burst: float
    sustained: float | None
    share: float | None = None
    """Of the device's own multiply-adds, measured in the same run."""
    ceiling: str = ""


Series = tuple[str, str]  # dtype and back end
Table = dict[Product, dict[Series, Figure]]


def figures(recorded: Iterable[Run], pinned: bool) -> Iterator[Figure]:
    """What portatile chooses, the oldest first: with every participant on one core of a CPU, or without such bounds."""
    for run in recorded:
        document = run.document
        if (document["options"].get("pin") is not None) != pinned:
            continue
        for problem in document["problems"]:
            product = Product(tuple(problem["sizes"].items()), problem["trans"])
            for row in problem["rows"]:
                place, _, selector = row["place"].partition(" ")
                if place == "portatile" and row["name"] == "tuned" and row.get("ratio") is not None:
                    where = document["devices"][selector], f"{document.get('cores', 1)} cores of {document['cpu']}", row["peer"]
                    speeds = row["ratio"], row.get("ratio_sustained"), row.get("share"), row.get("ceiling", "")
                    yield Figure(product, problem["dtype"], *where, run.commit, run.file, *speeds)


def tables(recorded: list[Run]) -> dict[str, Table]:
    """By the GPU's name, or by cores and platform of a CPU: the newest figure in every place."""
    by_title: dict[str, Table] = {}
    for pinned in (False, True):
        for figure in figures(recorded, pinned):
            device = figure.device
            title = _platform(figure, pinned) if device["kind"] == "cpu" else device["name"]
            if device["kind"] == "cpu" or not pinned:
                by_title.setdefault(title, {}).setdefault(figure.product, {})[figure.dtype, device["backend"]] = figure
    return by_title


def _platform(figure: Figure, pinned: bool) -> str:
    device = figure.device
    name = "PoCL" if device["platform"] == "Portable Computing Language" else device["platform"].split("(")[0]
    version = ".".join(device["driver"].split("-")[0].split("+")[0].split(".")[:2])
    cpu = figure.cpu.replace("(R)", "")
    return f"{'One core of ' + cpu.partition(' of ')[2] if pinned else cpu}, {name} {version}"


def _table(title: str, table: Table) -> Page:
    newest = [figure for row in table.values() for figure in row.values()][-1]
    on_gpu = newest.device["kind"] == "gpu"
    series = [(dtype, backend) for dtype in DTYPES for backend in BACKENDS if any((dtype, backend) in row for row in table.values())]
    names = [f"{dtype} {BACKENDS[backend]}" if on_gpu else dtype for dtype, backend in series]
    shared = any(figure.share is not None for row in table.values() for figure in row.values())
    rows = [
        [
            product.name,
            *(_spelled(table[product].get(column)) for column in series),
            *([_shares(table[product], series)] if shared else []),
            ", ".join(sorted({figure.commit for figure in table[product].values()})),
        ]
        for product in _sorted(table)
    ]
    head = ["m x n x k", *names, *(["% of peak"] if shared else []), "commit"]
    picture = f"![{title}: speed over its library](../pictures/{_slug(title)}.svg)\n\n" if on_gpu else ""
    text = f"{picture}Speed over {newest.peer}.\n\n{markdown(head, rows)}"
    files = frozenset(figure.file for row in table.values() for figure in row.values())
    return Page(_slug(title) if on_gpu else f"cpu-{_slug(title)}", text, files, title)


def _sorted(table: Table) -> list[Product]:
    return sorted(table, key=lambda product: product.order)


def _spelled(figure: Figure | None) -> str:
    if figure is None:
        return ""
    return f"{figure.burst:.2f}" if figure.sustained is None else f"{figure.burst:.2f} ({figure.sustained:.2f})"


def _shares(row: Mapping[Series, Figure], series: list[Series]) -> str:
    """Of the device's own multiply-adds, in the order of the columns."""
    shares = [row[column].share if column in row else None for column in series]
    return " / ".join("-" if share is None else f"{100 * share:.0f}" for share in shares) if any(shares) else ""


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
    products, known = _sorted(table), [figure for row in table.values() for figure in row.values()]
    speeds = [10 * figure.burst for figure in known]
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
                figure = table[product].get((dtype, backend))
                if figure is not None:
                    label = f"{product.name}, {dtype}, {spelt}: {figure.burst:.2f}"
                    parts.append(_mark(backend, axis.at(figure.burst), _at(line), label))
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


def _mark(backend: str, x: float, y: int, label: str) -> str:
    title = f"<title>{escape(label)}</title>"
    if backend == "cuda":
        return f'<circle class="cuda" cx="{x:.1f}" cy="{y}" r="4.5">{title}</circle>'
    return f'<path class="opencl" d="M{x - 4:.1f} {y - 4}h8v8h-8z">{title}</path>'


def _at(line: int) -> int:
    return _TOP + _ROW * line + _ROW // 2


def _slug(title: str) -> str:
    return "gemm-" + slug(title)


# Of README's picture: what is shown of the GPU that has most rows.
SHOWN = ("512", "1000", "1024", "1537", "2048", "3001", "4096", "8192", "1 x 4096 x 4096", "4096 x 8 x 4096", "64 x 64 x 65536")
SHOWN += ("8192 x 64 x 8192", "16384 x 16384 x 64", "4097 x 4095 x 4099", "64 of 128^3")


def from_results(folder: Path) -> Iterator[Page | Picture]:
    """A table for each device, a picture for each GPU, and README's picture."""
    by_title = sorted(tables(runs("gemm", folder)).items(), key=lambda item: ("NVIDIA" not in item[0], -len(item[1]), item[0]))
    for title, table in by_title:
        page = _table(title, table)
        yield page
        if page.name == _slug(title):
            yield Picture(f"{page.name}.svg", picture(title, table))
    some = {product: row for product, row in by_title[0][1].items() if product.name in SHOWN} if by_title else {}
    if some:
        yield Picture("speed.svg", picture(by_title[0][0], some))
