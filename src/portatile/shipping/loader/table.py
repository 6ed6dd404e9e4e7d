"""The table of an exported folder: its problems, checked before anything runs, and the files that it names."""

from __future__ import annotations

import hashlib
import json
import math
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
FORMAT = "portatile-folder-1"
_ROLES = ("in", "out", "inout")
DTYPES: tuple[str, ...] = ("bool", "float16", "float32", "float64", "complex64", "complex128")
DTYPES += tuple(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))


def problems() -> list[dict[str, Any]]:
    """The problems of the folder: workload, sizes, options, dtype, device, config and launches of each.

    Raises ValueError for a table that is damaged or of another format.
    """
    table: dict[str, Any] = json.loads((HERE / "kernels.json").read_text(encoding="utf-8"))
    if table.get("format") != FORMAT:
        raise ValueError(f"kernels.json is of format {table.get('format')!r}; this loader reads {FORMAT!r}")
    if table.get("digest") != table_digest(table):
        raise ValueError("kernels.json was changed or damaged: its digest is not that of its content; export the folder again")
    return [{**problem, "programs": table["programs"]} for problem in table["problems"]]


def table_digest(table: dict[str, Any]) -> str:
    """The right value of ``digest`` for a table with these other fields. It reveals damage; it does not prove an author."""
    parts = {name: part for name, part in table.items() if name != "digest"}
    return content_digest(json.dumps(parts, sort_keys=True, separators=(",", ":")).encode())


def content_digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def check(problem: dict[str, Any]) -> None:
    """Raise ValueError where a problem's sizes, strides, names or launches do not fit: kernels would run outside their arrays."""
    arrays = {}
    for o in problem["operands"]:
        fits = _are_counts(0, *o["shape"], *o["strides"], o["offset"]) and _are_counts(1, o["elements"])
        if fits and 0 not in o["shape"]:
            fits = o["offset"] + sum((n - 1) * step for n, step in zip(o["shape"], o["strides"], strict=False)) < o["elements"]
        if not (fits and len(o["shape"]) == len(o["strides"]) and o["role"] in _ROLES and o["dtype"] in DTYPES):
            raise ValueError(f"kernels.json: the operand {o['name']} does not lie in its memory")
        arrays[o["name"]] = o["elements"] * np.dtype(o["dtype"]).itemsize
    for t in problem["temporaries"]:
        image = t["kind"] == "image"
        if not (_are_counts(1, t["width"], t["height"], t["channels"]) if image else _are_counts(0, t["nbytes"])):
            raise ValueError(f"kernels.json: the temporary {t['name']} has no size")
        arrays[t["name"]] = t.get("nbytes", 0)
    if not all(map(is_number, problem["scalars"].values())):
        raise ValueError("kernels.json: a scalar is no number")
    for launch in problem["launches"]:
        sizes = [launch["global"], launch["local"]]
        fits = all(len(size) == 3 and _are_counts(1, *size) for size in sizes) and not any(map(int.__mod__, *sizes))
        if not fits or launch["program"] not in problem["programs"]:
            raise ValueError(f"kernels.json: the launch of {launch['kernel']} has no whole work-groups, or no program")
        for arg in launch["args"]:
            if not _passes(arg, arrays, problem["scalars"]):
                raise ValueError(f"kernels.json: the argument {arg['name']} of {launch['kernel']} names nothing that it could be")


def _passes(arg: dict[str, Any], arrays: dict[str, int], scalars: dict[str, Any]) -> bool:
    """Whether an argument can be passed."""
    kind, value = arg["kind"], arg["value"]
    if kind == "view":
        pixels = value * arg["channels"] * np.dtype(arg["dtype"]).itemsize if _are_counts(1, value, arg["channels"]) else math.inf
        return pixels <= arrays.get(arg["name"], 0)
    if kind == "tensor_map":
        m = arg["map"]
        if not (_are_counts(0, *m.values()) and m["itemsize"] in (1, 2, 4)):
            return False
        end = m["offset"] + max(m["planes"] - 1, 0) * m["step"] + max(m["rows"] - 1, 0) * m["pitch"] + m["columns"] * m["itemsize"]
        return bool(end <= arrays.get(arg["name"], 0))
    if kind == "scalar" and isinstance(value, str):
        return bool(arg["dtype"] == f"V{len(bytes.fromhex(value))}")
    if kind == "scalar":
        return arg["dtype"] in DTYPES and (arg["name"] in scalars if value is None else is_number(value))
    return arg["name"] in arrays if kind in ("buffer", "image") else kind == "local" and _are_counts(1, value)


def _are_counts(least: int, *values: Any) -> bool:
    return all(type(value) is int and least <= value < 2**48 for value in values)


def is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)


def part(name: str, digest: str) -> bytes:
    """A file of the folder; raises ValueError where it lies elsewhere or is not what was exported."""
    path = (HERE / name).resolve()
    if HERE not in path.parents:
        raise ValueError(f"kernels.json: {name} is no file of this folder")
    data = path.read_bytes()
    if content_digest(data) != digest:
        raise ValueError(f"{name} was changed or damaged: its digest is not the one in kernels.json; export the folder again")
    return data
