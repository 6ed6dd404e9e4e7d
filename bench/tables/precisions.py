"""Products on matrix units, and accurate products made of them, over cuBLAS: the newest measurement of each on each device."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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


_UNITS = ("type", "m x n x k", "stored", "Top/s", "cuBLAS", "over cuBLAS", "OpenCL", "over cuBLAS", "over cuBLAS queued")


def _units(run: Run) -> dict[Key, list[str]]:
    """By type, shape and transposition: portatile's rate, cuBLAS's, their ratio; that through OpenCL, also over cuBLAS without graphs."""
    rates: dict[Key, dict[str, float]] = {}
    for row in run.document["rows"]:
        key = KINDS.get(row["kind"], row["kind"]), _shape(row["sizes"]), row["trans"]
        rates.setdefault(key, {})[row["name"]] = row["tflops"]
    cells = {}
    for key, rate in rates.items():
        if "default" in rate:
            peer = rate.get("cuBLAS")
            ours, other = ((f"{rate[name]:.0f}", _over(rate[name], peer)) if name in rate else ("", "") for name in ("default", "OpenCL"))
            queued = _over(rate["OpenCL"], rate.get("cuBLAS queued")) if "OpenCL" in rate else ""
            cells[key] = [ours[0], f"{peer:.0f}" if peer else "", ours[1], *other, queued]
    return cells


def _over(rate: float, peer: float | None) -> str:
    return f"{rate / peer:.2f}" if peer else ""


_EMULATED = (
    *("type", "m x n x k", "operands", "emulated, Tflop/s", "native", "cuBLAS", "over cuBLAS", "OpenCL", "over cuBLAS"),
    *("largest error", "native", "cuBLAS", "OpenCL"),
)


def _emulated(run: Run) -> dict[Key, list[str]]:
    """By type, shape and operands: rates in bursts and sustained, and largest errors, of the emulated and native product and of cuBLAS."""
    sides: dict[Key, dict[str, Mapping[str, Any]]] = {}
    for row in run.document["rows"]:
        dtype = row.get("dtype", "float32")
        name = {"default": "emulated", "residues": "emulated"}.get(row["name"], row["name"])
        kind = f"{dtype}, residues" if run.document["bench"] == "residues" else dtype
        if row.get("trans", "NN") == "NN" and name in ("emulated", "native", "cuBLAS", "OpenCL"):
            sides.setdefault((kind, _shape(row["sizes"]), row["data"]), {})[name] = _rated(row, run.document["bench"])
    return {key: _cells(side) for key, side in sides.items() if side.keys() >= {"emulated", "cuBLAS"}}


def _rated(row: Mapping[str, Any], bench: str) -> dict[str, float]:
    """A row with rates in Tflop/s, and its largest error in units of 2 ** -24 or of 2 ** -53 of the sum of products' magnitudes."""
    if bench == "residues":  # in eps, which is two such units
        return {"burst": row["burst"], "sustained": row["sustained"], "error": 2 * row["largest"]}
    flops = 2 * prod(row["sizes"]) / 1e12
    return {"burst": flops / row["burst"], "sustained": flops / row["sustained"], "error": row["largest"]}


def _cells(side: Mapping[str, Mapping[str, float]]) -> list[str]:
    names = "emulated", "native", "cuBLAS", "OpenCL"
    rates = [f"{side[name]['burst']:.1f} ({side[name]['sustained']:.1f})" if side.get(name, {}).get("burst") else "" for name in names]
    ratios = [_ratio(side.get(name, {}), side["cuBLAS"]) for name in ("emulated", "OpenCL")]
    return [*rates[:3], ratios[0], rates[3], ratios[1], *(f"{side[name]['error']:.2f}" if name in side else "" for name in names)]


def _ratio(ours: Mapping[str, float], peer: Mapping[str, float]) -> str:
    """In bursts and, in brackets, sustained."""
    if not ours.get("burst") or not peer["burst"]:
        return ""
    return f"{ours['burst'] / peer['burst']:.2f} ({ours['sustained'] / peer['sustained']:.2f})"


def _shape(sizes: list[int]) -> str:
    return str(sizes[0]) if len(set(sizes)) == 1 else " x ".join(map(str, sizes))
