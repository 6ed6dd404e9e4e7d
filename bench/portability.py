"""How much each device's winner loses on every other device, for several problems in one run.

    python bench/portability.py --sizes 512,1024 --dtype float32,float64 --device nvidia --device cuda:0 --tune 30s

With --map TRR,TCR also the performance over these two parameters, on every device. Every trial runs in a process of its own; what fails
is a row with its reason.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict
from typing import Any

from measure import facts, parser, print_table, save, shapes, slug
from portatile import device as devices
from portatile import workloads
from portatile.errors import PortatileError
from portatile.records import Problem
from portatile.studies import pairs, portability, portability_rows
from portatile.trials import Budget
from portatile.workloads.speeds import described


def parse() -> argparse.Namespace:
    commands = parser(__doc__)
    commands.add_argument("--workload", default="gemm")
    commands.add_argument("--sizes", default="512", help="the workload's sizes, N (all equal) or MxNxK, separated by commas")
    commands.add_argument("--dtype", default="float32", help="separated by commas")
    commands.add_argument("--recorded", action="append", default=[], help="another machine's device with known results, as 'h200 cuda'")
    commands.add_argument("--tune", metavar="BUDGET", help="tune each problem on each device first; without: the best that is known")
    commands.add_argument("--map", metavar="DOWN,ACROSS", help="two parameters over which to measure")
    commands.add_argument("--map-sizes", help="sizes for the map; default: the first of --sizes")
    commands.add_argument("--map-device", action="append", default=[], help="devices for the map; default: all")
    commands.add_argument("--tries", type=int, default=4, help="configurations for each pair of the map")
    commands.add_argument("--no-matrix", action="store_true", help="only the map")
    return commands.parse_args()


def problems(name: str, sizes: str, dtypes: str) -> list[Problem]:
    """Every size with every element type."""
    workload = workloads.get(name)
    return [workload.problem(shape, dtype) for shape in shapes(sizes, workload.sizes) for dtype in dtypes.split(",")]


def matrix(chosen: list[Any], options: argparse.Namespace) -> list[dict[str, Any]]:
    """All rows, printed problem by problem."""
    document: list[dict[str, Any]] = []
    recorded = tuple(info for text in options.recorded for info in portability.recorded_devices(options.workload, text))
    for problem in problems(options.workload, options.sizes, options.dtype):
        request = portability.PortabilityRequest((problem,), None if options.tune is None else Budget.parse(options.tune), recorded)
        rows = portability.matrix(chosen, request)
        document += [asdict(row) for row in rows]
        scores = portability_rows.scores(rows)
        print(f"\n{options.workload} {described(problem)} {problem.dtype}: time over that of the device's own winner")
        lines = []
        for name in dict.fromkeys(row.winner_of for row in rows):
            mine = {row.device: row for row in rows if row.winner_of == name}
            cells = ["" if mine[c.info.id].loss is None else f"{mine[c.info.id].loss:.2f}" for c in chosen]
            own = mine[name].gflops if name in mine else None
            score = scores.get((described(problem), problem.dtype, name))
            lines.append([f"winner of {name}", *cells, "" if score is None else f"{score:.2f}", "" if own is None else f"{own:.0f}"])
        print_table(["", *(device.info.id for device in chosen), "PP", "own Gflop/s"], lines)
        for row in rows:
            if row.loss is None or row.objection or row.changed:
                ran = " ".join(filter(None, ("ran", row.changed and f"with {row.changed}", row.objection and f"though it {row.objection}")))
                why = row.status if row.loss is None else ran
                print(f"  {row.winner_of} on {row.device}: {why}")
    return document


def maps(options: argparse.Namespace, chosen: list[Any]) -> list[dict[str, Any]]:
    """The map on each device, printed as a table of Gflop/s."""
    down, across = options.map.split(",")
    chosen = [devices.get(selector) for selector in options.map_device] or chosen
    document: list[dict[str, Any]] = []
    for problem in problems(options.workload, options.map_sizes or options.sizes.partition(",")[0], options.dtype):
        for device in chosen:
            print(f"\n{described(problem)} {problem.dtype} on {device.info.id}: Gflop/s, {down} down, {across} across")
            try:
                rows = pairs.sweep(device, pairs.PairsRequest(problem, down, across, tries=options.tries))
            except PortatileError as error:
                print(f"  {error}", file=sys.stderr)
                continue
            document += [asdict(row) for row in rows]
            found = {(row.down_value, row.across_value): row for row in rows}
            names = list(dict.fromkeys(row.across_value for row in rows))
            lines = [
                [str(value), *("" if (g := found[value, other].gflops) is None else f"{g:.0f}" for other in names)]
                for value in dict.fromkeys(row.down_value for row in rows)
            ]
            print_table(["", *map(str, names)], lines)
    return document


def main() -> None:
    options = parse()
    chosen = [devices.get(selector) for selector in options.device] or devices.devices()
    document: dict[str, Any] = {
        "bench": "portability",
        **facts(options.commit),
        "devices": {device.info.id: asdict(device.info) for device in chosen},
        "options": vars(options) | {"out": None},
        "rows": [] if options.no_matrix else matrix(chosen, options),
        "maps": maps(options, chosen) if options.map else [],
    }
    name = f"portability-{slug(chosen[0].info.name)}"
    print(f"\nwritten to {save(name, document, options.out)}")


if __name__ == "__main__":
    main()
