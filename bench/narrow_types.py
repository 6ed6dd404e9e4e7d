"""Products of bfloat16, int8 and float16 on one CPU core, compared with float32 and with PyTorch.

    python bench/narrow_types.py --sizes 1024,2048 --pin 0 --torch /path/to/python

Each participant lives in a process of its own on the core, with one thread, and all have a turn in every round. Times are CPU time of the
process, packing included, of calls of ``portatile.matmul(a, b, out=out)`` on NumPy arrays that need no tuning, and of ``torch.mm`` or
``torch._int_mm`` (oneDNN) where ``--torch`` names an interpreter with PyTorch. Every result is checked before it is timed.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from measure import Child, facts, parser, print_table, save, serve, spread, until_stopped

RESULTS = {"float32": "float32", "float16": "float32", "bfloat16": "float32", "int8": "int32"}
ROUNDS = 9
PEER_ROUNDS_SECONDS = 2.0  # a call that takes longer is not repeated: PyTorch converts float16 one by one


def operands(dtype: str, sizes: tuple[int, int, int]) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """A and B of a type that NumPy has, or of float32 for bfloat16."""
    m, n, k = sizes
    rng = np.random.default_rng(7)
    if dtype == "int8":
        return rng.integers(-128, 128, (m, k)).astype(np.int8), rng.integers(-128, 128, (k, n)).astype(np.int8)
    return tuple((rng.random(shape) - 0.5).astype("float32" if dtype == "bfloat16" else dtype) for shape in ((m, k), (k, n)))  # type: ignore[return-value]


class Ours:
    """portatile's calls."""

    def __init__(self, device: str | None) -> None:
        self.device = device
        self.calls: dict[str, Callable[[], Any]] = {}

    def prepare(self, dtype: str, sizes: list[int]) -> dict[str, Any]:
        """Make operands, check the product."""
        import ml_dtypes

        import portatile

        m, n, k = sizes
        a, b = operands(dtype, (m, n, k))
        if dtype == "bfloat16":
            a, b = a.astype(ml_dtypes.bfloat16), b.astype(ml_dtypes.bfloat16)
        out = np.empty((m, n), RESULTS[dtype])
        portatile.matmul(a, b, out=out, device=self.device)
        rows = slice(None, None, max(m // 64, 1))
        exact = a[rows].astype(np.float64) @ b.astype(np.float64)
        if not np.allclose(out[rows], exact, rtol=0, atol=0 if dtype == "int8" else k * 2.0**-22):
            raise AssertionError(f"{dtype} {sizes} is wrong")
        self.calls[dtype] = lambda: portatile.matmul(a, b, out=out, device=self.device)
        return {}

    def run(self, dtype: str) -> dict[str, Any]:
        """Seconds of CPU time of one call."""
        return {"seconds": timed(self.calls[dtype])}


class Peer:
    """PyTorch's calls."""

    def __init__(self) -> None:
        self.calls: dict[str, Callable[[], Any]] = {}

    def prepare(self, dtype: str, sizes: list[int]) -> dict[str, Any]:
        """Make operands, warm up."""
        import torch

        torch.set_num_threads(1)
        a, b = (torch.from_numpy(operand) for operand in operands(dtype, (sizes[0], sizes[1], sizes[2])))
        if dtype == "bfloat16":
            a, b = a.bfloat16(), b.bfloat16()
        self.calls[dtype] = (lambda: torch._int_mm(a, b)) if dtype == "int8" else (lambda: torch.mm(a, b))
        return {"seconds": timed(self.calls[dtype])}

    def run(self, dtype: str) -> dict[str, Any]:
        """Seconds of CPU time of one call."""
        return {"seconds": timed(self.calls[dtype])}


def timed(call: Callable[[], Any]) -> float:
    """Seconds of CPU time of a call."""
    started = time.process_time()
    call()
    return time.process_time() - started


def child(kind: str, pin: int, device: str | None) -> None:
    """A participant: answers until its input ends."""
    os.sched_setaffinity(0, {pin})
    chosen: Ours | Peer = Peer() if kind == "torch" else Ours(device)
    serve({"prepare": chosen.prepare, "run": chosen.run})


def rows(options: argparse.Namespace, children: dict[str, Child], size: int) -> list[dict[str, Any]]:
    """A row for each type that each participant knows, from rounds in which all have turns."""
    dtypes = options.dtype.split(",")
    turns: list[tuple[str, str]] = []
    for name, process in children.items():
        for dtype in dtypes:
            first = process.ask(do="prepare", dtype=dtype, sizes=[size] * 3).get("seconds", 0.0)
            if first < PEER_ROUNDS_SECONDS:
                turns.append((name, dtype))
    samples: dict[tuple[str, str], list[float]] = {turn: [] for turn in turns}
    for _ in range(options.rounds):
        for name, dtype in turns:
            samples[name, dtype].append(children[name].ask(do="run", dtype=dtype)["seconds"])
    return [
        {"participant": name, "dtype": dtype, "size": size, "gops": 2e-9 * size**3 / statistics.median(taken), "samples": taken}
        for (name, dtype), taken in samples.items()
    ]


def main() -> None:
    """Measure, print a table, save."""
    commands = parser(__doc__, "the best", several=False)
    commands.add_argument("--sizes", default="1024,2048", help="sides of square products")
    commands.add_argument("--dtype", default=",".join(RESULTS))
    commands.add_argument("--pin", type=int, default=0, metavar="CORE", help="the core")
    commands.add_argument("--rounds", type=int, default=ROUNDS)
    commands.add_argument("--torch", help="an interpreter that has PyTorch")
    commands.add_argument("--child", help=argparse.SUPPRESS)
    options = commands.parse_args()
    if options.child:
        child(options.child, options.pin, options.device)
        return
    alone = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "POCL_MAX_PTHREAD_COUNT": "1"}
    common = ["--pin", str(options.pin), *(["--device", options.device] if options.device else [])]
    children = {"portatile": Child(Path(__file__), ["--child", "portatile", *common], alone)}
    if options.torch:
        children["torch"] = Child(Path(__file__), ["--child", "torch", *common], {**alone, "PYTHONPATH": ""}, options.torch)
    found: list[dict[str, Any]] = []
    with until_stopped():
        for size in (int(text) for text in options.sizes.split(",")):
            found += rows(options, children, size)
    for process in children.values():
        process.close()
    speeds = {(row["participant"], row["dtype"], row["size"]): row["gops"] for row in found}
    cells = []
    for row in found:
        base = speeds.get((row["participant"], "float32", row["size"]))
        ratio = f"{row['gops'] / base:.2f}" if base else ""
        cells.append(
            (f"{row['size']} {row['dtype']} {row['participant']}", f"{row['gops']:.1f}", ratio, f"{100 * spread(row['samples']):.0f} %")
        )
    print_table(("product", "Gop/s", "over float32", "spread"), cells)
    if found:
        print(save("narrow_types", {**facts(options.commit), "rows": found}, options.out), file=sys.stderr)


if __name__ == "__main__":
    main()
