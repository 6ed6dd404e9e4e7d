"""BLAS 3 of random sizes and options that nobody tuned, through PyTorch's arrays, beside cuBLAS called directly, by turns.

    python bench/level3_random.py --seed 7 --count 200 --limit 60
    python bench/level3_random.py --seed 7 --count 100 --routines syrk,syr2k --dtype complex128 --sizes 64,3000

Both sizes of a problem are log-uniform between --sizes, rounded to a multiple of 1, 4 or 8; side, triangle and transposition are drawn too;
routines and types take turns. Peers, samples and checks are those of ``level3_gpu.py``: a ratio is the time of the fastest of cuBLAS's
calls over portatile's, both with the host's part of a call, and every result is compared with float64 first. What problems are expected to
need is compiled beforehand, on all cores.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from statistics import geometric_mean, median
from typing import Any, NamedTuple

import numpy as np

import in_opencl
import in_torch
import portatile
from level3_gpu import CASES, UPDATES, Cublas, Cuda, measured
from measure import facts, parser, print_table, save, slug, until_stopped
from portatile import cache, device, flat_plans, program, workloads
from portatile.records import DeviceInfo, Problem, Value
from portatile.workloads import precisions
from random_shapes import ALIGNMENTS

SHARES = (0.92, 0.85)


class Task(NamedTuple):
    """One problem: ``case`` as in ``level3_gpu``; of updates ``m`` is the order and ``n`` the terms of a sum."""

    routine: str
    case: str
    m: int
    n: int
    dtype: str

    @property
    def problem(self) -> Problem:
        """As portatile knows it, packed."""
        side, uplo, trans = self.case[0], self.case[1], self.case[-1]
        if self.routine in UPDATES:
            given: dict[str, Value] = {"uplo": side, "trans": trans}
            return workloads.get(self.routine).problem({"n": self.m, "k": self.n}, self.dtype, given)
        given = {"side": side, "uplo": uplo}
        given |= {"trans_b": "N"} if self.routine == "symm" else {"trans": trans, "diag": "N", "apart": True}
        return workloads.get(self.routine).problem({"m": self.m, "n": self.n}, self.dtype, given)


def draw(seed: int, count: int, sizes: tuple[int, int], routines: Sequence[str], types: Sequence[str]) -> list[Task]:
    """``count`` problems, the same for the same seed."""
    rng = np.random.default_rng(seed)
    low, high = map(math.log, sizes)
    found = []
    for number in range(count):
        unit = ALIGNMENTS[rng.integers(len(ALIGNMENTS))]
        m, n = (max(unit, round(math.exp(rng.uniform(low, high)) / unit) * unit) for _ in range(2))
        side, uplo, trans = (letters[rng.integers(2)] for letters in ("LR", "LU", "NT"))
        routine, dtype = routines[number % len(routines)], types[number // len(routines) % len(types)]
        case = uplo + trans if routine in UPDATES else side + uplo if routine == "symm" else side + uplo + trans
        found.append(Task(routine, case, m, n, dtype))
    return found


def compile_all(tasks: Sequence[Task], info: DeviceInfo) -> float:
    """Fill the cache with what the tasks' defaults and their products need, on all cores; seconds."""
    started = time.perf_counter()
    with ProcessPoolExecutor(os.cpu_count(), get_context("spawn")) as pool:
        list(pool.map(_compile, tasks, [info] * len(tasks)))
    return time.perf_counter() - started


def _compile(task: Task, info: DeviceInfo) -> None:
    target = device.target(info)
    for source in flat_plans.sources(in_opencl.plan(precisions.preferred(task.problem, info), info)):
        try:
            target.settle(program.build(source, target, cache.default()))
        except portatile.PortatileError as error:  # the call says so too
            print(f"{task}: {error}", file=sys.stderr)


def summary(rows: Sequence[dict[str, Any]]) -> list[tuple[str, ...]]:
    """Geometric means, shares and the least ratios by type, routine and by how long the peer takes."""
    times: dict[str, Callable[[float], bool]] = {
        "peer under 50 us": lambda us: us < 50,
        "peer 50 us to 1 ms": lambda us: 50 <= us < 1000,
        "peer above 1 ms": lambda us: us >= 1000,
    }
    found = []
    for dtype in dict.fromkeys(row["dtype"] for row in rows):
        of_type = [row for row in rows if row["dtype"] == dtype]
        classes = {"all": of_type} | {
            routine: [row for row in of_type if row["routine"] == routine] for routine in dict.fromkeys(row["routine"] for row in rows)
        }
        classes |= {name: [row for row in of_type if within(peer_us(row))] for name, within in times.items()}
        for name, chosen in classes.items():
            ratios = [row["ratio"] for row in chosen]
            if ratios:
                shares = [f"{100 * sum(one >= limit for one in ratios) / len(ratios):.0f} %" for limit in SHARES]
                found.append((f"{dtype}: {name}", str(len(ratios)), f"{geometric_mean(ratios):.3f}", *shares, f"{min(ratios):.2f}"))
    return found


def peer_us(row: dict[str, Any]) -> float:
    """Microseconds of the fastest of the peer's calls."""
    return 1e6 * min(float(median(samples)) for name, samples in row["samples"].items() if name != row["precision"])


def rows_of(torch: Any, tasks: Sequence[Task], options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """The rows of the tasks for which there is time; failures are printed."""
    through, cublas, began = Cuda(torch), Cublas(torch), time.monotonic()
    for number, task in enumerate(tasks):
        if time.monotonic() - began > options.limit:
            print(f"{number} of {len(tasks)} problems within {options.limit:g} s", file=sys.stderr)
            return
        try:
            yield from measured(through, cublas, *task, [options.precision])
        except (ValueError, RuntimeError, portatile.PortatileError) as error:
            print("wrong:", *task, error, flush=True)


def asked() -> argparse.Namespace:
    """What the command line says."""
    commands = parser(__doc__, device="")
    commands.add_argument("--seed", type=int, default=1)
    commands.add_argument("--count", type=int, default=200)
    commands.add_argument("--sizes", default="64,6000", help="least and largest size")
    commands.add_argument("--routines", default=",".join(CASES), help="separated by commas")
    commands.add_argument("--dtype", default="float32,float64", help="separated by commas")
    commands.add_argument("--precision", default="default", help="native, emulated, or default: what a call takes by itself")
    commands.add_argument("--limit", type=float, default=math.inf, help="seconds after which no other problem begins")
    commands.add_argument("--worst", type=int, default=20, help="how many of the slowest to list")
    return commands.parse_args()


def main() -> None:
    """Draw, compile, check, time, print tables, save."""
    options = asked()
    low, high = map(int, options.sizes.split(","))
    tasks = draw(options.seed, options.count, (low, high), options.routines.split(","), options.dtype.split(","))
    info = in_torch.info()
    print(f"compiled in {compile_all(tasks, info):.0f} s", file=sys.stderr)
    import torch

    torch.backends.cuda.matmul.allow_tf32 = False
    rows: list[dict[str, Any]] = []
    with until_stopped():
        for row in rows_of(torch, tasks, options):
            rows.append(row)
    print_table(("problems", "number", "mean", *(f">= {limit}" for limit in SHARES), "least"), summary(rows))
    slow = sorted(rows, key=lambda row: row["ratio"])[: options.worst]
    cells = [("{routine} {case} {m} x {n} {dtype}".format(**row), f"{row['ratio']:.2f}", f"{peer_us(row):.0f} us") for row in slow]
    print_table((f"slowest, {info.name}", "ratio", "peer takes"), cells)
    document = {
        "bench": "level3_random",
        **facts(options.commit),
        "blas": {"name": f"cuBLAS of {in_torch.peer()}"},
        "device": info.name,
        "seed": options.seed,
        "sizes": [low, high],
        "rows": rows,
    }
    print(f"\nwritten to {save(f'level3_random-{slug(info.name)}', document, options.out)}")


if __name__ == "__main__":
    main()
