"""Products on matrix units, and accurate products made of them, over cuBLAS: the newest measurement of each on each device."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod
from pathlib import Path
from typing import Any

from recorded import Run, Table, markdown, processor, runs

Key = tuple[str, ...]
KINDS = {
    "tfloat32": "float32 in TF32",
    "float8": "float8_e4m3fn to bfloat16",
    "float8-blocks": "float8_e4m3fn to bfloat16, a scale for each block",
    "int8-scaled": "int8 to bfloat16, scales of rows and columns",
    "bfloat16-gelu": "bfloat16, bias and GELU",
}


def from_results(folder: Path) -> Iterator[Table]:
    """For each device a table of types on matrix units and one of emulated products."""
    yield from _of(runs("matrix_units", folder), _units, "matrix-units", "Matrix units")
    yield from _of([*runs("float32_terms", folder), *runs("residues", folder)], _emulated, "emulated", "Emulated products")


def _of(recorded: list[Run], rows_of: Any, name: str, title: str) -> Iterator[Table]:
    """A table for each device; of what was measured twice stands the newer."""
    for device in sorted({processor(run.document["device"]) for run in recorded}):
        newest: dict[Key, tuple[Run, list[str]]] = {}
        mine = [run for run in recorded if processor(run.document["device"]) == device]
        for run in mine:
            for key, row in rows_of(run).items():
                newest[key] = run, row
        head = _UNITS if rows_of is _units else _EMULATED
        text = markdown((*head, "commit"), [[*key, *row, run.commit] for key, (run, row) in newest.items()])
        peers = ", ".join(dict.fromkeys(run.document["peer"] for run in mine if run.document["peer"]))
        files = frozenset(run.file for run, _ in newest.values())
        yield Table(f"{name}-{'-'.join(device.lower().split())}", f"cuBLAS by {peers}.\n\n{text}", files, f"{title}, {device}")


_UNITS = (
    "type",
    "m x n x k",
    "stored",
    "CUDA, Top/s",
    "cuBLAS",
    "CUDA / cuBLAS",
    "OpenCL",
    "OpenCL / cuBLAS",
    "OpenCL / cuBLAS queued",
)
Rates = tuple[float, float]
"""In bursts and sustained; 0 where that was not measured."""


def rates_of_units(run: Run) -> dict[tuple[str, tuple[int, ...], str], dict[str, Rates]]:
    """By kind, sizes and transposition the rates of each participant."""
    rates: dict[tuple[str, tuple[int, ...], str], dict[str, Rates]] = {}
    for row in run.document["rows"]:
        key = row["kind"], tuple(row["sizes"]), row["trans"]
        rates.setdefault(key, {})[row["name"]] = row["tflops"], row.get("sustained", 0.0)
    return rates


def _units(run: Run) -> dict[Key, list[str]]:
    """By type, shape and transposition: portatile's rate, cuBLAS's, their ratio; that through OpenCL, also over cuBLAS without graphs."""
    cells = {}
    for (kind, sizes, trans), rate in rates_of_units(run).items():
        if "default" in rate:
            peer = rate.get("cuBLAS")
            ours, other = ((spelled(rate[name]), over(rate[name], peer)) if name in rate else ("", "") for name in ("default", "OpenCL"))
            queued = over(rate["OpenCL"][:1], rate.get("cuBLAS queued", ())[:1]) if "OpenCL" in rate else ""
            key = KINDS.get(kind, kind), shape(sizes), trans
            cells[key] = [ours[0], spelled(peer) if peer else "", ours[1], *other, queued]
    return cells


def spelled(rates: Sequence[float]) -> str:
    """A rate in bursts and, in brackets, sustained."""
    return f"{rates[0]:.0f}" + (f" ({rates[1]:.0f})" if len(rates) > 1 and rates[1] else "")


def over(rates: Sequence[float], peer: Sequence[float] | None) -> str:
    """How many times as fast in bursts and, in brackets, sustained."""
    if not peer or not peer[0]:
        return ""
    sustained = len(rates) > 1 and rates[1] and peer[1]
    return f"{rates[0] / peer[0]:.2f}" + (f" ({rates[1] / peer[1]:.2f})" if sustained else "")


_EMULATED = (
    *("type", "m x n x k", "operands", "emulated, Tflop/s", "native", "cuBLAS", "emulated / cuBLAS", "OpenCL", "OpenCL / cuBLAS"),
    *("error: emulated", "native", "cuBLAS", "OpenCL"),
)


def _emulated(run: Run) -> dict[Key, list[str]]:
    """By type, shape and operands: rates in bursts and sustained, and largest errors, of the emulated and native product and of cuBLAS."""
    sides = {(kind, shape(sizes), data): side for (kind, sizes, data, trans), side in sides_of(run).items() if trans == "NN"}
    return {key: _cells(side) for key, side in sides.items() if side.keys() >= {"emulated", "cuBLAS"}}


def sides_of(run: Run) -> dict[tuple[str, tuple[int, ...], str, str], dict[str, Mapping[str, Any]]]:
    """By type, sizes, operands and transposition the rates and the largest error of each participant."""
    sides: dict[tuple[str, tuple[int, ...], str, str], dict[str, Mapping[str, Any]]] = {}
    for row in run.document["rows"]:
        dtype = row.get("dtype", "float32")
        name = {"default": "emulated", "residues": "emulated"}.get(row["name"], row["name"])
        kind = f"{dtype}, residues" if run.document["bench"] == "residues" else dtype
        key = kind, tuple(row["sizes"]), row["data"], row.get("trans", "NN")
        sides.setdefault(key, {})[name] = _rated(row, run.document["bench"])
    return sides


def _rated(row: Mapping[str, Any], bench: str) -> dict[str, float]:
    """A row with rates in Tflop/s, and its largest error in units of 2 ** -24 or of 2 ** -53 of the sum of products' magnitudes."""
    if bench == "residues":  # in eps, which is two such units
        return {"burst": row["burst"], "sustained": row["sustained"], "error": 2 * row["largest"]}
    flops = 2 * prod(row["sizes"]) / 1e12
    sustained = flops / row["sustained"] if row["sustained"] else 0.0
    return {"burst": flops / row["burst"], "sustained": sustained, "error": row["largest"]}


def _cells(side: Mapping[str, Mapping[str, float]]) -> list[str]:
    names = "emulated", "native", "cuBLAS", "OpenCL"
    rates = [f"{side[name]['burst']:.1f} ({side[name]['sustained']:.1f})" if side.get(name, {}).get("burst") else "" for name in names]
    both = {name: (side[name]["burst"], side[name]["sustained"]) if name in side else (0.0, 0.0) for name in names}
    ratios = [over(both[name], both["cuBLAS"]) if both[name][0] else "" for name in ("emulated", "OpenCL")]
    return [*rates[:3], ratios[0], rates[3], ratios[1], *(f"{side[name]['error']:.2f}" if name in side else "" for name in names)]


def shape(sizes: Sequence[int]) -> str:
    """As a reader would say it."""
    return str(sizes[0]) if len(set(sizes)) == 1 else " x ".join(map(str, sizes))
