"""How fast are the named points of GEMM's generator? Each preset, with images and without, beside the default, on every device.

    python bench/presets.py --device cuda:0 --device opencl:0:0
    python bench/presets.py --size 256 --device pocl

The blockings of the documents were made for other devices: what is asked is what they give here, and what their images cost or save.
Every result is checked before it is timed; copies into images are part of the time.
"""

from __future__ import annotations

import argparse
from dataclasses import asdict
from statistics import median
from typing import Any

from measure import facts, parser, print_table, save, slug, spread, until_stopped
from portatile import device, workloads
from portatile.device.base import Device
from portatile.errors import PortatileError
from portatile.measure import runs
from portatile.measure.runs import Length, Way
from portatile.records import Problem

DEFAULT = "default"


def measure(chip: Device, problem: Problem, length: Length) -> list[dict[str, Any]]:
    """A row for each preset, and for the default: its samples, or what went wrong."""
    workload, rows = workloads.get(problem.workload), []
    configs = {DEFAULT: workload.default(problem, chip.info)}
    configs |= {name: workload.preset(name, problem) for name in workload.presets}
    with runs.prepared(chip, problem) as ready:
        for name, config in configs.items():
            row = {"device": chip.info.id, "dtype": problem.dtype, "preset": name, "config": dict(config)}
            try:
                timed = ready.timed(config, Way(length))
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
    commands.add_argument("--samples", type=int, default=7, help="bursts of 10 ms for each")
    return commands.parse_args()


def main() -> None:
    """Measure, print, save."""
    options = parse()
    chips = [device.get(selector) for selector in options.device] or device.devices()
    length = Length(options.samples, 0.0, 0.01)
    rows: list[dict[str, Any]] = []
    sizes = dict.fromkeys("mnk", options.size)
    with until_stopped():
        for chip in chips:
            for dtype in options.dtype.split(","):
                if dtype == "float64" and not chip.info.fp64:
                    continue
                found = measure(chip, workloads.get("gemm").problem(sizes, dtype), length)
                rows += found
                best = next((row["gflops"] for row in found if row["preset"] == DEFAULT and "gflops" in row), None)
                print(f"\ngemm {options.size} {dtype} on {chip.info.name} ({chip.info.id})")
                told = [row for row in found if "gflops" in row]
                shares = ["" if best is None else f"{row['gflops'] / best:.3f}" for row in told]
                lines = [[row["preset"], f"{row['gflops']:.1f}", share] for row, share in zip(told, shares, strict=True)]
                print_table(["", "Gflop/s", "of default"], lines)
                for row in found:
                    if "error" in row:
                        print(f"{row['preset']}: {row['error']}")
    document = {
        "bench": "presets",
        **facts(options.commit),
        "devices": {chip.info.id: asdict(chip.info) for chip in chips},
        "options": vars(options) | {"out": None},
        "presets": dict(workloads.get("gemm").presets),
        "rows": rows,
    }
    print(f"\nwritten to {save(f'presets-{slug(chips[0].info.name)}', document, options.out)}")


if __name__ == "__main__":
    main()
