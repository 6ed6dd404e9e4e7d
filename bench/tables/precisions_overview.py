"""Products in every type over cuBLAS at a glance: a row for each group of problems, with the least and greatest ratio in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from recorded import Run, Table, markdown, processor, runs
from tables.precisions import Rates, rates_of_units, shape, sides_of

Problem = tuple[str, tuple[int, ...], str]
"""A kind of ``matrix_units.py`` or a type of the emulated products, the sizes, and how the operands are stored."""
_TRANS = ("NN", "NT", "TN", "TT")


@dataclass(frozen=True)
class Group:
    """Problems of one row: what they are called, the ratios that are aimed at through CUDA and OpenCL, and who computes them."""

    name: str
    aims: tuple[float, float]
    problems: tuple[Problem, ...]
    ours: str = "default"
    opencl: str = "OpenCL"


def _squares(kinds: Sequence[str], sizes: Sequence[int], trans: Sequence[str]) -> tuple[Problem, ...]:
    return tuple((kind, (size,) * 3, way) for kind in kinds for size in sizes for way in trans)


def _awkward(*sizes: int) -> Group:
    kinds = ("bfloat16", "float16")
    return Group(
        f"bfloat16, float16: {shape(sizes if len(set(sizes)) > 1 else sizes[:1])}", (1.0, 0.9), tuple((kind, sizes, "NN") for kind in kinds)
    )


_UNITS = (
    Group(
        "bfloat16, float16: 2048, 4096, 8192, all transpositions",
        (0.97, 0.9),
        _squares(("bfloat16", "float16"), (2048, 4096, 8192), _TRANS),
    ),
    *(_awkward(size, size, size) for size in (512, 1000, 1024)),
    *(_awkward(*sizes) for sizes in ((4097, 4095, 4099), (8192, 64, 8192), (64, 64, 65536), (32, 512, 512, 512))),
    Group("float32 in TF32: 4096, 8192, NN", (1.0, 0.9), _squares(("tfloat32",), (4096, 8192), ("NN",))),
    Group("float32 in TF32: 4096, 8192, TN", (1.0, 0.9), _squares(("tfloat32",), (4096, 8192), ("TN",))),
    Group("int8: 4096, 8192, NT", (1.5, 1.3), _squares(("int8",), (4096, 8192), ("NT",))),
    Group("float8_e4m3fn, precise sums: 4096, NT", (0.95, 0.85), _squares(("float8",), (4096,), ("NT",))),
)
_EMULATED = (
    *(
        Group(
            f"{dtype} by three real products: 2048, 4096",
            (1.25, 1.2),
            _squares((f"{dtype}, residues",), (2048, 4096), ("NN",)),
            "3m",
            "OpenCL 3m",
        )
        for dtype in ("complex64", "complex128")
    ),
    Group("float32, emulated: 4096, 8192", (3.0, 2.5), _squares(("float32",), (4096, 8192), ("NN",)), "emulated"),
    Group(
        "float64, by residues: 4096, 8192, 16384", (1.35, 1.2), _squares(("float64, residues",), (4096, 8192, 16384), ("NN",)), "emulated"
    ),
    Group("complex64, by residues: 4096", (3.0, 3.0), _squares(("complex64, residues",), (4096,), ("NN",)), "emulated"),
    Group("complex128, by residues: 4096", (1.5, 1.5), _squares(("complex128, residues",), (4096,), ("NN",)), "emulated"),
)
_HEAD = (
    *("products", "cuBLAS, T/s", "CUDA, T/s", "CUDA / cuBLAS", "sustained", "aim"),
    *("OpenCL, T/s", "OpenCL / cuBLAS", "sustained", "aim", "commits"),
)


def from_results(folder: Path) -> Iterator[Table]:
    """A table for each device of which all of it, or nearly all, was measured."""
    units, emulated = runs("matrix_units", folder), [*runs("float32_terms", folder), *runs("residues", folder)]
    for device in sorted({processor(run.document["device"]) for run in (*units, *emulated)}):
        known = _newest([run for run in (*units, *emulated) if processor(run.document["device"]) == device])
        rows, files = [], set()
        for group in (*_UNITS, *_EMULATED):
            found = [known[problem] for problem in group.problems if problem in known]
            if any(group.ours in rates for _, rates in found):
                rows.append(_row(group, found))
                files |= {run.file for run, _ in found}
        text = markdown(_HEAD, rows)
        yield Table(f"precisions-overview-{'-'.join(device.lower().split())}", text, frozenset(files), f"At a glance, {device}")


def _newest(recorded: Sequence[Run]) -> dict[Problem, tuple[Run, Mapping[str, Rates]]]:
    """Of each problem the newest run that has it, and its participants' rates."""
    newest: dict[Problem, tuple[Run, Mapping[str, Rates]]] = {}
    for run in sorted(recorded, key=lambda run: run.time):
        if run.document["bench"] == "matrix_units":
            newest |= {key: (run, rates) for key, rates in rates_of_units(run).items() if "default" in rates and "cuBLAS" in rates}
            continue
        for (kind, sizes, data, trans), side in sides_of(run).items():
            rates = {name: (float(one["burst"]), float(one["sustained"])) for name, one in side.items() if one["burst"]}
            if data == "normal" and "cuBLAS" in rates:
                newest[kind, sizes, trans] = run, rates
    return newest


def _row(group: Group, found: Sequence[tuple[Run, Mapping[str, Rates]]]) -> list[str]:
    cells = [_span([rates["cuBLAS"][0] for _, rates in found], 0)]
    for name, aim in zip((group.ours, group.opencl), group.aims, strict=True):
        cells.append(_span([rates[name][0] for _, rates in found if name in rates], 0))
        for place in (0, 1):
            cells.append(_span([rates[name][place] / rates["cuBLAS"][place] for _, rates in found if _has(rates, name, place)]))
        cells.append(f"{aim:g}")
    return [group.name, *cells, ", ".join(dict.fromkeys(run.commit for run, _ in found))]


def _has(rates: Mapping[str, Rates], name: str, place: int) -> bool:
    return name in rates and rates[name][place] > 0 and rates["cuBLAS"][place] > 0


def _span(values: Sequence[float], digits: int = 2) -> str:
    """The least and the greatest; one where they are the same."""
    ends = dict.fromkeys(f"{value:.{digits}f}" for value in (min(values), max(values))) if values else {}
    return " to ".join(ends)
