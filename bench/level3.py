"""TRSM, TRMM, SYMM, SYRK and SYR2K on a processor beside the BLAS of SciPy, by turns on one core.

    python bench/level3.py --sizes 256,512,1000,2048 --routines trsm,trmm --dtype float32,float64 --pin 0

Both work on one thread and the same row-major memory, which the BLAS is told is a transposed column-major one; CPU time is counted. Every
result is compared with the BLAS's in float64 first.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import scipy
from scipy.linalg import blas

import portatile
from measure import Child, clock, facts, parser, print_table, save, serve, slug, spread, until_stopped
from portatile.device.buffer import Buffer

SEED = 5
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


def operands(routine: str, case: str, m: int, n: int, dtype: str) -> tuple[Any, ...]:
    """What the routine takes. The triangles are close to the identity, so that one may be applied thousands of times."""
    rng = np.random.default_rng(SEED)

    def drawn(*shape: int) -> Any:
        real = rng.random(shape) - 0.5
        return real + 1j * (rng.random(shape) - 0.5) if dtype.startswith("complex") else real

    if routine in UPDATES:
        return tuple(drawn(*((m, n) if case[1] == "N" else (n, m))).astype(dtype) for _ in range(UPDATES[routine]))
    order = m if case[0] == "L" else n
    a, b = drawn(order, order), drawn(m, n)
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
    """Child: both participants, each on one thread."""

    def __init__(self, selector: str) -> None:
        self.device = portatile.get_device(selector or None)
        if self.device.info.kind != "cpu":
            raise ValueError(f"{self.device.info.id} is no processor: name one with --device")
        self.queue = self.device.default_queue()

    def prepare(self, routine: str, case: str, m: int, n: int, dtype: str) -> dict[str, Any]:
        """Make the operands and compare the results; answers the largest difference."""
        given = operands(routine, case, m, n, dtype)
        c = np.zeros((m, m), dtype) if routine in UPDATES else given[1].copy()
        ours = [Buffer.from_numpy(array, self.device) for array in (*given, c)]
        self.calls = {"portatile": own(routine, case, tuple(ours[:-1]), ours[-1]), "BLAS": peer(routine, case, given, c)}
        kind = np.complex128 if c.dtype.kind == "c" else np.float64
        wide = c.astype(kind)
        peer(routine, case, tuple(array.astype(kind) for array in given), wide)()
        for call in self.calls.values():
            call()
        self.queue.finish()
        scale = float(np.abs(wide).max())
        errors = {name: float(np.abs(got - wide).max()) / scale for name, got in (("portatile", ours[-1].numpy()), ("BLAS", c))}
        if not errors["portatile"] < 4 * np.finfo(dtype).eps * max(m, n):
            raise ValueError(f"{routine} {case} {m} x {n} {dtype} is wrong by {errors['portatile']:.1e} of its largest element")
        return {"errors": errors}

    def run(self, name: str, count: int) -> dict[str, Any]:
        """CPU seconds of ``count`` runs in a row."""
        start = clock()[1]
        for _ in range(count):
            self.calls[name]()
        self.queue.finish()
        return {"seconds": clock()[1] - start}


def measure(child: Child, task: dict[str, Any], options: argparse.Namespace) -> dict[str, Any]:
    """One row: the seconds of a run of each, by turns."""
    row: dict[str, Any] = {**task, **child.ask(do="prepare", **task), "samples": {"portatile": [], "BLAS": []}}
    counts = {}
    for name in row["samples"]:
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
    commands.add_argument("--dtype", default="float32,float64", help="separated by commas; complex64 and complex128 too")
    commands.add_argument("--rounds", type=int, default=7, help="bursts of each")
    commands.add_argument("--burst", type=float, default=0.2, help="seconds")
    commands.add_argument("--pin", type=int, default=0, metavar="CORE", help="the core")
    commands.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    return commands.parse_args()


def main() -> None:
    options = parse()
    if options.child:
        os.sched_setaffinity(0, {options.pin})
        host = Both(options.device)
        serve({"hello": lambda: {"device": host.device.info.name}, "prepare": host.prepare, "run": host.run})
        return
    arguments = ["--child", "--pin", str(options.pin), *(["--device", options.device] if options.device else [])]
    child = Child(Path(__file__), arguments, {"OPENBLAS_NUM_THREADS": "1", "POCL_MAX_PTHREAD_COUNT": "1"})
    name = child.ask(do="hello")["device"]
    sizes = [tuple(map(int, (text.split("x") * 2)[:2])) for text in options.sizes.split(",")]
    rows, lines = [], []
    tasks = [
        {"routine": routine, "case": case, "m": m, "n": n, "dtype": dtype}
        for routine in options.routines.split(",")
        for case in (options.cases.split(",") if options.cases else CASES[routine])
        for m, n in sizes
        for dtype in options.dtype.split(",")
    ]
    with until_stopped():
        for task in tasks:
            row = measure(child, task, options)
            rows.append(row)
            figures = [f"{row['gflops'][who]:.1f}" for who in ("portatile", "BLAS")]
            noise = max(spread(samples) for samples in row["samples"].values())
            lines.append(["{routine} {case} {m} x {n} {dtype}".format(**task), *figures, f"{row['ratio']:.2f}", f"{noise:.1%}"])
            print("  ".join(lines[-1]), flush=True)
    child.close()
    print()
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
