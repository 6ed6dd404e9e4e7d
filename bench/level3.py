"""TRSM, TRMM, SYMM, SYRK and SYR2K on a CPU, compared with SciPy's BLAS in turns on one core.

    python bench/level3.py --sizes 256,512,1000,2048 --routines trsm,trmm --dtype float32,float64 --pin 0

    python bench/level3.py --random 200 --seed 3 --sizes 8,1000 --burst 0.01 --dtype float32,float64,complex64,complex128 --threads 2

Both work on the same row-major memory, which the BLAS is told is a transposed column-major one. With one thread CPU time is counted, with
``--threads`` the time that passes. Every result is compared with the BLAS's in double precision first. portatile has Buffers; with
``--random`` both have NumPy arrays, as users call them: that many problems with log-uniform sides between the two ``--sizes``, of which
vectors are a tenth, and a table by the time of the BLAS.
"""

from __future__ import annotations

import argparse
import math
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import scipy
from scipy.linalg import blas

import portatile
from measure import Child, clock, facts, parser, print_table, save, serve, slug, spread, until_stopped
from portatile.device.buffer import Buffer
from tables.level3 import COLUMNS, summary

SEED = 5
VECTORS = 0.1  # the share of vectors among random problems
CASES = {
    "trsm": ("LLN", "LUN", "LLT", "RLN", "RUN", "RLT"),
    "trmm": ("LLN", "LUN", "LLT", "RLN", "RUN", "RLT"),
    "symm": ("LL", "RU"),
    "syrk": ("LN", "UT"),
    "syr2k": ("LN", "UT"),
}
"""Side, triangle and transposition; of syrk and syr2k the last two."""
UPDATES = {"syrk": 1, "syr2k": 2}
"""The routines of one triangle, and how many products each adds up."""
_LETTERS = {"float32": "s", "float64": "d", "complex64": "c", "complex128": "z"}


def draw(seed: int, count: int, low: int, high: int, routines: Sequence[str], dtypes: Sequence[str]) -> list[dict[str, Any]]:
    """So many problems, the same for the same seed."""
    rng, tasks = np.random.default_rng(seed), []
    for number in range(count):
        routine = routines[number % len(routines)]
        m, n = (round(math.exp(rng.uniform(math.log(low), math.log(high)))) for _ in range(2))
        case = CASES[routine][rng.integers(len(CASES[routine]))]
        if rng.random() < VECTORS and routine not in UPDATES:
            m, n = (m, 1) if case[0] == "L" else (1, n)
        tasks.append({"routine": routine, "case": case, "m": m, "n": n, "dtype": dtypes[number // len(routines) % len(dtypes)]})
    return tasks


def operands(routine: str, case: str, m: int, n: int, dtype: str) -> tuple[Any, ...]:
    """What the routine takes. The triangles are close to the identity, so that one may be applied thousands of times."""
    rng = np.random.default_rng(SEED)

    def random(*shape: int) -> Any:
        values = rng.random(shape) - 0.5
        return values + 1j * (rng.random(shape) - 0.5) if dtype.startswith("complex") else values

    if routine in UPDATES:
        return tuple(random(*((m, n) if case[1] == "N" else (n, m))).astype(dtype) for _ in range(UPDATES[routine]))
    order = m if case[0] == "L" else n
    a, b = random(order, order), random(m, n)
    if routine != "symm":
        a = 1e-3 / order**0.5 * a + np.eye(order)
    return a.astype(dtype), b.astype(dtype)


def peer(routine: str, case: str, given: tuple[Any, ...], c: Any) -> Any:
    """A call of the BLAS that overwrites ``c``, a row-major array, with the result."""
    call = getattr(blas, _LETTERS[c.dtype.name] + routine)
    lower = case[-2 if routine != "symm" else -1] == "L"
    if routine in UPDATES:  # the same triangle, of the transpose
        transposed = [array.T for array in given]
        return lambda: call(1.0, *transposed, c=c.T, trans=case[1] == "N", lower=not lower, overwrite_c=1)
    side = case[0] == "L"  # the transpose is multiplied from the other side
    if routine == "symm":
        return lambda: call(1.0, given[0].T, given[1].T, c=c.T, side=side, lower=not lower, overwrite_c=1)
    return lambda: call(1.0, given[0].T, c.T, side=side, lower=not lower, trans_a=case[2] == "T", overwrite_b=1)


def own(routine: str, case: str, given: tuple[Any, ...], c: Any) -> Any:
    """The same of portatile."""
    if routine in UPDATES:
        update = getattr(portatile, routine)
        return lambda: update(*given, uplo=case[0], trans=case[1], out=c)
    if routine == "symm":
        return lambda: portatile.symm(*given, side=case[0], uplo=case[1], out=c)
    call = portatile.trsm if routine == "trsm" else portatile.trmm
    return lambda: call(given[0], c, side=case[0], uplo=case[1], trans=case[2], out=c)


class Both:
    """Child: both participants; ``clock`` gives seconds, and ``arrays`` tells that portatile has NumPy arrays too."""

    def __init__(self, selector: str, arrays: bool, clock: Callable[[], float]) -> None:
        self.arrays, self.clock = arrays, clock
        self.device = portatile.get_device(selector or None)
        if self.device.info.kind != "cpu":
            raise ValueError(f"{self.device.info.id} is no processor: name one with --device")
        self.queue = self.device.default_queue()

    def prepare(self, routine: str, case: str, m: int, n: int, dtype: str) -> dict[str, Any]:
        """Make the operands and compare the results; answers the largest difference."""
        given = operands(routine, case, m, n, dtype)
        c = np.zeros((m, m), dtype) if routine in UPDATES else given[1].copy()
        host = [array.copy() for array in (*given, c)]
        ours: list[Any] = host if self.arrays else [Buffer.from_numpy(array, self.device) for array in host]
        self.calls = {"portatile": own(routine, case, tuple(ours[:-1]), ours[-1]), "BLAS": peer(routine, case, given, c)}
        double = "complex128" if dtype.startswith("complex") else "float64"
        wide = c.astype(double)
        peer(routine, case, tuple(array.astype(double) for array in given), wide)()
        for call in self.calls.values():
            call()
        self.queue.finish()
        scale = float(np.abs(wide).max())
        result = ours[-1] if self.arrays else ours[-1].numpy()
        errors = {name: float(np.abs(got - wide).max()) / scale for name, got in (("portatile", result), ("BLAS", c))}
        if not errors["portatile"] < 4 * np.finfo(dtype).eps * max(m, n):
            raise ValueError(f"{routine} {case} {m} x {n} {dtype} is wrong by {errors['portatile']:.1e} of its largest element")
        return {"errors": errors}

    def run(self, name: str, count: int) -> dict[str, Any]:
        """Seconds of ``count`` runs in a row."""
        start = self.clock()
        for _ in range(count):
            self.calls[name]()
        self.queue.finish()
        return {"seconds": self.clock() - start}


def measure(child: Child, task: dict[str, Any], options: argparse.Namespace) -> dict[str, Any]:
    """One row: the seconds of a run of each, by turns."""
    row: dict[str, Any] = {**task, **child.ask(do="prepare", **task), "samples": {"portatile": [], "BLAS": []}}
    counts = {}
    for name in row["samples"]:
        child.ask(do="run", name=name, count=2)  # calls that come again may be raced first
        once = child.ask(do="run", name=name, count=1)["seconds"]
        counts[name] = max(1, round(options.burst / max(once, 1e-6)))
    for round_ in range(options.rounds):
        for name in list(counts)[:: 1 if round_ % 2 else -1]:
            row["samples"][name].append(child.ask(do="run", name=name, count=counts[name])["seconds"] / counts[name])
    seconds = {name: median(samples) for name, samples in row["samples"].items()}
    row["gflops"] = {name: flops(**task) / taken / 1e9 for name, taken in seconds.items()}
    row["ratio"] = seconds["BLAS"] / seconds["portatile"]
    return row


def flops(routine: str, case: str, m: int, n: int, dtype: str) -> float:
    """The BLAS's convention."""
    each = 4 if dtype.startswith("complex") else 1
    if routine in UPDATES:
        return float(each * UPDATES[routine] * n * m * (m + 1))
    return float(each * m * n * (m if case[0] == "L" else n)) * (2 if routine == "symm" else 1)


def parse() -> argparse.Namespace:
    commands = parser(__doc__, "the default device", several=False)
    commands.add_argument(
        "--sizes", default="256,512,1024,2048", help="N or MxN, of the result (of syrk and syr2k N x K), separated by commas"
    )
    commands.add_argument("--routines", default=",".join(CASES), help="separated by commas")
    commands.add_argument("--cases", help="side, triangle and transposition, separated by commas; default: some of each routine")
    commands.add_argument("--dtype", default="float32,float64", help="separated by commas")
    commands.add_argument("--random", type=int, metavar="COUNT", help="so many random problems on NumPy arrays, between two --sizes")
    commands.add_argument("--seed", type=int, default=1, help="of the random problems")
    commands.add_argument("--seconds", type=float, default=math.inf, help="stop after so long")
    commands.add_argument("--threads", type=int, default=1, help="of each")
    commands.add_argument("--rounds", type=int, default=7, help="bursts of each")
    commands.add_argument("--burst", type=float, default=0.2, help="seconds")
    commands.add_argument("--pin", type=int, default=0, metavar="CORE", help="the first core")
    commands.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    return commands.parse_args()


def asked(options: argparse.Namespace, routines: list[str], dtypes: list[str]) -> list[dict[str, Any]]:
    """The problems to time: random ones, or every case of every routine at every size."""
    if options.random:
        return draw(options.seed, options.random, *map(int, options.sizes.split(",")), routines, dtypes)
    sizes = [tuple(map(int, (text.split("x") * 2)[:2])) for text in options.sizes.split(",")]
    return [
        {"routine": routine, "case": case, "m": m, "n": n, "dtype": dtype}
        for routine in routines
        for case in (options.cases.split(",") if options.cases else CASES[routine])
        for m, n in sizes
        for dtype in dtypes
    ]


def main() -> None:
    options = parse()
    if options.child:
        os.sched_setaffinity(0, set(range(options.pin, options.pin + options.threads)))
        host = Both(options.device, options.random is not None, lambda: clock()[options.threads == 1])
        serve({"hello": lambda: {"device": host.device.info.name}, "prepare": host.prepare, "run": host.run})
        return
    arguments = ["--child", "--pin", str(options.pin), "--threads", str(options.threads)]
    arguments += [*(["--device", options.device] if options.device else []), *(["--random", "0"] if options.random else [])]
    threads = str(options.threads)
    child = Child(Path(__file__), arguments, {"OPENBLAS_NUM_THREADS": threads, "POCL_MAX_PTHREAD_COUNT": threads})
    name = child.ask(do="hello")["device"]
    tasks = asked(options, options.routines.split(","), options.dtype.split(","))
    rows, lines = [], []
    started = time.monotonic()
    with until_stopped():
        for task in tasks:
            if time.monotonic() - started > options.seconds:
                break
            row = measure(child, task, options)
            rows.append(row)
            figures = [f"{row['gflops'][who]:.1f}" for who in ("portatile", "BLAS")]
            noise = max(spread(samples) for samples in row["samples"].values())
            lines.append(["{routine} {case} {m} x {n} {dtype}".format(**task), *figures, f"{row['ratio']:.2f}", f"{noise:.1%}"])
            print("  ".join(lines[-1]), flush=True)
    child.close()
    print()
    if options.random:
        print_table([name, *COLUMNS], summary(rows))
        lines = []
    if lines:
        print_table([name, "Gflop/s", "BLAS", "ratio", "spread"], lines)
    build = scipy.show_config(mode="dicts")["Build Dependencies"]["blas"]
    document = {
        "bench": "level3",
        **facts(options.commit),
        "blas": build,
        "device": name,
        "options": vars(options) | {"out": None},
        "rows": rows,
    }
    print(f"\nwritten to {save(f'level3-{slug(name)}', document, options.out)}")


if __name__ == "__main__":
    main()
