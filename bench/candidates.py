"""Which configuration should GEMM's default be for shapes where the default loses? Candidates beside the default and cuBLAS.

    python bench/candidates.py --limit 220 --out results --tiles /tmp/tiles.json
    python bench/candidates.py --kinds float16,bfloat16 --draws 0

Needs a CUDA device and PyTorch. Of types on matrix units the candidates are tiles of the hopper form with k split and whole, of
float32 and float64 what the estimate of the gpu form ranks first, and the default of every other form. All candidates of a
shape, the default and cuBLAS take turns as replayed CUDA graphs in one child process, which is killed where a candidate says nothing for
--patience seconds: it is left out, and the others go on in a new child. Each is checked against float64 before it is timed and after.

A ratio is cuBLAS's median over the candidate's. In the end stand the best candidates, and what they have that the default has not.
--tiles writes the times as ``portatile calibrate gemm --refit`` reads them.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

import in_torch
from by_turns import UNITS, Case, Child, built_of
from measure import facts, print_table, save, slug
from portatile.records import Config, DeviceInfo
from portatile.workloads.gemm.capabilities import local_limit
from portatile.workloads.gemm.forms import canonical, ranked
from portatile.workloads.gemm.forms.gpu import costs, timings
from portatile.workloads.gemm.forms.hopper import point as hopper
from random_shapes import draw

SHAPES = "512x512x512,1024x1024x1024,1000x1000x1000,2048x2048x2048,4097x4095x4099,8192x64x8192,64x64x65536,32*512x512x512"
"""Of types on matrix units; a number before a star: so many products in one launch."""
LOSERS = (
    "3445x1811x34 TN float32,7759x2073x69 TN float32,1491x6813x44 NT float32,5441x35x8751 TN float32,128x6448x5216 TT float32,"
    "4110x6565x64 TN float32,228x524x7748 NT float32,198x3007x54 NT float32,"
    "66x4598x90 NT float64,443x327x863 TN float64,392x2720x2208 TN float64,35x67x6389 TN float64,3024x40x304 TN float64,"
    "252x225x309 NN float64"
)
"""Products of float32 and float64 that lost on an H200; beside them stand --draws random ones."""
TILES = (
    *(hopper.tile(128, 256, 4), hopper.tile(256, 128, 4, blocks=2), hopper.tile(128, 128, 6), hopper.tile(128, 64, 8)),
    *(hopper.tile(64, 256, 4), hopper.tile(64, 128, 6), hopper.tile(64, 128, 8), hopper.tile(64, 64, 8), hopper.tile(64, 64, 12)),
)
_PAIRED = 3  # points that are tried with PAIRS too
_MORE = 8  # candidates of types on matrix units, whose shapes are few
BETTER = 1.02  # the default's time over a candidate's from which it is worth choosing


def cases(options: argparse.Namespace) -> Iterator[Case]:
    """Shapes on matrix units first, then those that lost, then random ones."""
    kinds = options.kinds.split(",")
    for kind in (kind for kind in kinds if kind in UNITS):
        for text in filter(None, options.shapes.split(",")):
            batch, _, sides = text.rpartition("*")
            m, n, k = map(int, sides.split("x"))
            yield Case(kind, "NT" if kind == "int8" else "NN", (m, n, k), int(batch or 1))
    for text in filter(None, options.losers.split(",")):
        sides, trans, kind = text.split()
        m, n, k = map(int, sides.split("x"))
        if kind in kinds:
            yield Case(kind, trans, (m, n, k))
    plain = [kind for kind in kinds if kind not in UNITS]
    for shape in draw(options.seed, options.draws, 32, 10000, plain) if plain else ():
        yield Case(shape.dtype, shape.trans, (shape.m, shape.n, shape.k))


def candidates(case: Case, device: DeviceInfo, most: int) -> dict[str, Config]:
    """Configurations by name: the default, and at most so many other legal ones."""
    default = case.workload.default(case.problem, device)
    configs: dict[str, Config] = {"default": default}
    batched = case.batch > 1
    space = case.workload.space(case.problem, device)
    for config in _on_units(case, device) if case.dtype in UNITS else _plain(case, device, most):
        config = canonical(config, batched)
        # stages beyond those that a search tries are legal where local memory has them
        if (
            len(configs) <= (most + _MORE if case.dtype in UNITS else most)
            and config not in configs.values()
            and (case.dtype in UNITS or space.violated(config) is None)
        ):
            configs[named(config, default)] = config
    return configs


def named(config: Config, default: Config) -> str:
    """The name of a configuration: its differences from the default."""
    differs = [f"{name}={value}" for name, value in config.items() if default.get(name) != value]
    return " ".join([*differs, *(f"no {name}" for name in default if name not in config)]) or "default"


def _on_units(case: Case, device: DeviceInfo) -> Iterator[Config]:
    """Tiles of warp groups, those that fill the device best first; with few of them k is split."""
    m, n, k = case.sizes
    scored = []
    for tile in TILES:
        if tile.local_bytes(4) > local_limit(device):
            continue
        tiles = case.batch * tile.groups(case.problem)
        waste = -(-m // tile.rows) * tile.rows * -(-n // tile.columns) * tile.columns / (m * n)
        for split in (1, 2, 4, 8, 16, 32, 64):
            if split == 1 or (tiles * split <= device.compute_units and split * 256 <= k):
                rounds = -(-tiles * split // device.compute_units)
                scored.append(
                    (waste * rounds * device.compute_units / (tiles * split) * (1 + 0.1 * (split > 1)), replace(tile, SPLIT_K=split))
                )
    points = [point for _, point in sorted(scored, key=lambda pair: pair[0])]
    for place, point in enumerate(points):  # the host's maps cost a group nothing: the others only for comparison
        yield replace(point, MAPS=1).config(batched=case.batch > 1)
        if place < 2:
            yield point.config(batched=case.batch > 1)


def _plain(case: Case, device: DeviceInfo, most: int) -> Iterator[Config]:
    """What other forms would choose, then the best of each tile by the estimate, and the best of what is left. With PAIRS only where that
    is another text: of float32 whose rows are aligned to two elements.
    """
    default = case.workload.default(case.problem, device)
    if case.dtype == "float32" and default["FORM"] == "gpu":
        yield {**default, "PAIRS": True}
    for form in ranked():
        if form.name in ("thin", "gpu") and (point := form.default(form.point.view(case.problem), device, 1)) is not None:
            yield point.config()
    known = costs.known(device, case.dtype)
    points = [] if known is None else timings.candidates(case.problem, device, local_limit(device), known, 2 * most)
    for place, point in enumerate(points):
        if case.dtype == "float32" and place < _PAIRED:
            yield replace(point, PAIRS=True).config()
        yield point.config()


def shown(rows: list[dict[str, Any]]) -> None:
    """The best of each shape, and of each difference from the default how often it wins and by how much."""
    cells = []
    for row in rows:
        peer, default, best = row["medians"]["cuBLAS"], row["medians"].get("default", math.nan), row["best"]
        rate = f"{row['flops'] / peer / 1e12:.1f}"
        cells.append((row["case"], rate, f"{peer / default:.2f}", f"{peer / row['medians'][best]:.2f}", best))
    print_table(("product", "cuBLAS Tflop/s", "default", "best", "by"), cells)
    for dtype in dict.fromkeys(row["dtype"] for row in rows):
        these = [row for row in rows if row["dtype"] == dtype and "default" in row["medians"]]
        for label in ("default", "best"):
            speeds = [row["medians"]["cuBLAS"] / row["medians"][row["best"] if label == "best" else label] for row in these]
            shares = [f"{100 * sum(speed >= limit for speed in speeds) / len(speeds):.0f} %" for limit in (0.92, 0.85)]
            mean = statistics.geometric_mean(speeds)
            print(f"{dtype} {label}: mean {mean:.3f}, {shares[0]} at .92, {shares[1]} at .85, {len(speeds)} shapes")
        gains: dict[str, list[float]] = defaultdict(list)
        for row in these:
            for name, config in row["configs"].items():
                if name != "default" and name in row["medians"]:
                    changed = " ".join(key for key in config if config[key] != row["configs"]["default"].get(key))
                    gains[changed].append(row["medians"]["default"] / row["medians"][name])
        often = sorted(gains.items(), key=lambda one: -statistics.geometric_mean(one[1]))
        lines = [(key, str(len(one)), f"{statistics.geometric_mean(one):.3f}", f"{max(one):.2f}") for key, one in often if len(one) >= 3]
        print_table((f"{dtype}: what differs from the default", "times", "mean gain", "largest"), lines[:12])
    print("\ndefaults to set:")
    for row in rows:
        gain = row["medians"].get("default", math.inf) / row["medians"][row["best"]]
        if gain >= BETTER:
            print(f"  {row['case']}: {gain:.2f} times as fast with {json.dumps(row['configs'][row['best']])}")


def main() -> None:
    """Choose candidates, compile and check them, time them in turns, print the best setting, and save."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--kinds", default="bfloat16,float32,float64")
    options.add_argument("--shapes", default=SHAPES)
    options.add_argument("--losers", default=LOSERS)
    options.add_argument("--draws", type=int, default=30)
    options.add_argument("--seed", type=int, default=11)
    options.add_argument("--most", type=int, default=14, help="candidates of a shape beside the default")
    options.add_argument("--limit", type=float, default=220.0, help="seconds")
    options.add_argument("--patience", type=float, default=10.0, help="seconds that a candidate may be silent")
    options.add_argument("--commit", help="where this is no git repository")
    options.add_argument("--out", type=Path, help="folder for the result")
    options.add_argument("--tiles", type=Path, help="file for the times of float32 and float64")
    parsed = options.parse_args()
    from portatile import device

    info, begin = device.get("cuda").info, time.perf_counter()
    work = {case: candidates(case, info, parsed.most) for case in cases(parsed)}
    built = built_of(work, info)
    count = sum(map(len, work.values()))
    print(f"{len(built)} texts for {count} candidates of {len(work)} products after {time.perf_counter() - begin:.0f} s", file=sys.stderr)
    child, rows = Child(built, parsed.patience), []
    for case, configs in work.items():
        if time.perf_counter() - begin > parsed.limit:
            print(f"out of time before {case}")
            break
        samples, bad = child.timed(case, configs)
        for name, why in bad.items():
            print(f"bad: {case}, {name}: {why}")
        medians = {name: statistics.median(seconds) for name, seconds in samples.items()}
        ours = {name: took for name, took in medians.items() if name != "cuBLAS"}
        if ours:
            row = {"case": str(case), "dtype": case.dtype, "trans": case.trans, "sizes": case.sizes, "batch": case.batch}
            row |= {"flops": case.flops, "configs": configs, "samples": samples, "medians": medians, "bad": bad}
            rows.append(row | {"best": min(ours, key=lambda name: ours[name])})
    child.stop()
    shown(rows)
    document = {**facts(parsed.commit), "device": info.name, "peer": in_torch.peer(), "rows": rows}
    if parsed.out:
        print(save(f"candidates-{slug(info.name)}", document, parsed.out))
    if parsed.tiles:
        parsed.tiles.write_bytes(msgspec.json.encode(tiles(info, document)))


def tiles(info: DeviceInfo, document: Mapping[str, Any]) -> dict[str, Any]:
    """The times of float32 and float64 as a file of timings of the estimate."""
    shapes = [
        {
            **{name: row[name] for name in ("sizes", "dtype", "trans")},
            "rows": [
                [config, row["medians"][name] * 1e6]
                for name, config in row["configs"].items()
                if name in row["medians"] and config["FORM"] == "gpu"
            ],
        }
        for row in document["rows"]
        if row["dtype"] in ("float32", "float64")
    ]
    return {"device": info, "made": {"command": document["command"], "commit": document["commit"]}, "shapes": shapes}


if __name__ == "__main__":
    main()
