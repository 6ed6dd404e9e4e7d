"""How fast are the named configurations of GEMM? Each preset, with images and without, compared with the default, on every device.

    python bench/presets.py --device cuda:0 --device opencl:0:0
    python bench/presets.py --size 256 --device pocl
    python bench/presets.py --staging --trans TN --device cuda:0

The blockings of the documents were made for other devices: what is asked is what they give here, and what their images cost or save.
With ``--staging`` one tile gets at its operands in every way there is: A and B from memory, images, images that show memory, or panels,
directly or through local memory, both alike and A otherwise than B. Every result is checked before it is timed; copies into images and
panels are part of the time, and their bytes are told.
"""

from __future__ import annotations

import argparse
from dataclasses import asdict
from itertools import product
from statistics import median
from typing import Any

from measure import facts, parser, print_table, save, slug, spread, until_stopped
from portatile import device as devices
from portatile import workloads
from portatile.device.base import Device
from portatile.errors import PortatileError
from portatile.measure import runs
from portatile.measure.runs import MeasurementLength, MeasurementOptions
from portatile.records import Config, Problem
from portatile.workloads.gemm import presets

DEFAULT = "default"
MIXED = (
    ("direct", "local"),
    ("local", "direct"),
    ("image", "local"),
    ("local", "image"),
    ("view", "local"),
    ("local", "view"),
    ("view local", "local"),
    ("view", "panels local"),
    ("panels", "direct"),
)
"""Ways to A and to B that differ."""


def named(problem: Problem, staging: bool) -> dict[str, Config]:
    """The configurations by name: the presets, or one tile in every way to its operands."""
    workload = workloads.get(problem.workload)
    if not staging:
        return {name: workload.preset(name, problem) for name in workload.presets}
    tile = presets.blocked(problem.dtype)
    alike = {way: presets.staged(tile, way, way) for way in presets.WAYS}
    return {name: point.config() for name, point in {**alike, **{f"{a} | {b}": presets.staged(tile, a, b) for a, b in MIXED}}.items()}


def measure(device: Device, problem: Problem, length: MeasurementLength, wanted: dict[str, Config]) -> list[dict[str, Any]]:
    """A row for the default and each of ``wanted``: its samples, or what went wrong; ``workspace`` in bytes, copies among it."""
    workload, rows = workloads.get(problem.workload), []
    configs = {DEFAULT: workload.default(problem, device.info), **wanted}
    with runs.prepared(device, problem) as ready:
        for name, config in configs.items():
            row = {"device": device.info.id, "dtype": problem.dtype, "preset": name, "config": dict(config)}
            try:
                row["workspace"] = workload.plan(problem, config, device.info).workspace
                timed = ready.timed(config, MeasurementOptions(length))
            except PortatileError as error:
                rows.append({**row, "error": str(error)})
                continue
            rate = workload.flops(problem) / median(timed.samples) / 1e9
            rows.append({**row, "samples": list(timed.samples), "gflops": rate, "spread": spread(timed.samples), "of_bound": timed.error})
    return rows


def parse() -> argparse.Namespace:
    commands = parser(__doc__)
    commands.add_argument("--size", type=int, default=2048, help="m, n and k")
    commands.add_argument("--dtype", default="float32,float64", help="separated by commas")
    commands.add_argument("--staging", action="store_true", help="one tile in every way to its operands, in place of the presets")
    commands.add_argument("--only", help="these rows, separated by commas, and the default")
    commands.add_argument("--trans", default="NN", help="transpositions of A and B, as in NN")
    commands.add_argument("--samples", type=int, default=7, help="bursts of 10 ms for each")
    return commands.parse_args()


def shown(options: argparse.Namespace, device: Device, dtype: str, length: MeasurementLength) -> list[dict[str, Any]]:
    """The rows of a device and a dtype, printed as a table."""
    trans = {"trans_a": options.trans[0], "trans_b": options.trans[1]}
    problem = workloads.get("gemm").problem(dict.fromkeys("mnk", options.size), dtype, trans)
    wanted = named(problem, options.staging)
    asked = options.only.split(",") if options.only else list(wanted)
    if strange := [name for name in asked if name not in wanted]:
        raise SystemExit(f"no such row: {', '.join(strange)}; there are {', '.join(wanted)}")
    found = measure(device, problem, length, {name: wanted[name] for name in asked})
    best = next((row["gflops"] for row in found if row["preset"] == DEFAULT and "gflops" in row), None)
    print(f"\ngemm {options.size} {dtype} {options.trans} on {device.info.name} ({device.info.id})")
    told = [row for row in found if "gflops" in row]
    shares = ["" if best is None else f"{row['gflops'] / best:.3f}" for row in told]
    space = [f"{row['workspace'] / 1e6:.1f}" for row in told]
    lines = [[row["preset"], f"{row['gflops']:.1f}", *more] for row, *more in zip(told, shares, space, strict=True)]
    print_table(["", "Gflop/s", "of default", "MB of workspace"], lines)
    for row in found:
        if "error" in row:
            print(f"{row['preset']}: {row['error']}")
    return found


def main() -> None:
    """Measure, print, save."""
    options = parse()
    chosen = [devices.get(selector) for selector in options.device] or devices.devices()
    length = MeasurementLength(options.samples, 0.0, 0.01)
    rows: list[dict[str, Any]] = []
    with until_stopped():
        for device, dtype in product(chosen, options.dtype.split(",")):
            if dtype != "float64" or device.info.fp64:
                rows += shown(options, device, dtype, length)
    document = {
        "bench": "presets",
        **facts(options.commit),
        "devices": {device.info.id: asdict(device.info) for device in chosen},
        "options": vars(options) | {"out": None},
        "presets": dict(workloads.get("gemm").presets),
        "rows": rows,
    }
    print(f"\nwritten to {save(f'presets-{slug(chosen[0].info.name)}', document, options.out)}")


if __name__ == "__main__":
    main()
