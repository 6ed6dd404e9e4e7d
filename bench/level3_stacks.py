"""Stacks of level-3 problems on an NVIDIA GPU through CUDA, compared with PyTorch's batched calls in turns: device time, by replaying
graphs.

    python bench/level3_stacks.py --stacks 200x64,64x256,32x512 --dtype float64,complex64 --limit 60

A stack CxN has C matrices of order N. PyTorch has no triangles but in ``solve_triangular``, so its peers of the other routines are whole
products, ``bmm``: of SYR2K two, the second added to the first; of SYMM and TRMM with a matrix whose other triangle is there already.
Results are compared with PyTorch's first.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from statistics import median
from typing import Any

import in_torch
import portatile
from measure import facts, parser, print_table, save, slug, until_stopped

ROUTINES = ("syrk", "herk", "syr2k", "symm", "trmm", "trsm")
ROUNDS, _CALLS = 5, 4
_BURST = 1e-3  # seconds

Call = Callable[[], Any]


def operands(torch: Any, count: int, order: int, dtype: str) -> dict[str, Any]:
    """Two stacks, triangles near the identity, a symmetric stack, and room for a result."""
    kind = getattr(torch, dtype)
    torch.manual_seed(count + order)
    shift = 0.5 + 0.5j if kind.is_complex else 0.5
    a, b = (torch.rand((count, order, order), dtype=kind, device="cuda") - shift for _ in range(2))
    triangle = 1e-3 * a + torch.eye(order, dtype=kind, device="cuda")
    return {"a": a, "b": b, "t": triangle, "low": triangle.tril(), "whole": a.tril() + a.tril(-1).mT, "c": torch.zeros_like(b)}


def calls(torch: Any, routine: str, given: dict[str, Any]) -> tuple[Call, Call]:
    """The call of portatile and that of PyTorch, both into ``c``."""
    a, b, t, low, whole, c = (given[name] for name in ("a", "b", "t", "low", "whole", "c"))

    def two() -> None:
        torch.bmm(a, b.mT, out=c)
        torch.baddbmm(c, b, a.mT, out=c)

    return {
        "syrk": (lambda: portatile.syrk(a, out=c), lambda: torch.bmm(a, a.mT, out=c)),
        "herk": (lambda: portatile.herk(a, out=c), lambda: torch.bmm(a, a.mH, out=c)),
        "syr2k": (lambda: portatile.syr2k(a, b, out=c), two),
        "symm": (lambda: portatile.symm(a, b, out=c), lambda: torch.bmm(whole, b, out=c)),
        "trmm": (lambda: portatile.trmm(t, b, out=c), lambda: torch.bmm(low, b, out=c)),
        "trsm": (lambda: portatile.trsm(t, b, out=c), lambda: torch.linalg.solve_triangular(low, b, upper=False, out=c)),
    }[routine]


def checked(torch: Any, routine: str, given: dict[str, Any], both: tuple[Call, Call]) -> None:
    """Raise ValueError if the results differ."""
    c, results = given["c"], []
    for call in both:
        c.fill_(0 if routine in ("syrk", "herk", "syr2k") else float("nan"))
        call()
        torch.cuda.synchronize()
        results.append(torch.tril(c) if routine in ("syrk", "herk", "syr2k") else c.clone())
    error = float((results[0] - results[1]).abs().max() / results[1].abs().max())
    if not error <= 8 * torch.finfo(c.dtype).eps * c.shape[-1]:
        raise ValueError(f"portatile and PyTorch differ by {error:.1e}")


def replayed(torch: Any, call: Call) -> Call:
    """A graph of some calls, as a call."""
    stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    with torch.cuda.stream(stream):
        call()
        call()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph, stream=stream):
        for _ in range(_CALLS):
            call()
    return graph.replay


def burst(torch: Any, replay: Call, count: int) -> float:
    """Seconds of a call."""
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    for _ in range(count):
        replay()
    end.record()
    end.synchronize()
    return float(begin.elapsed_time(end)) / 1e3 / count / _CALLS


def measured(torch: Any, routine: str, count: int, order: int, dtype: str) -> dict[str, Any]:
    """A row: seconds of a call of each, by turns."""
    given = operands(torch, count, order, dtype)
    both = calls(torch, routine, given)
    checked(torch, routine, given, both)
    graphs = dict(zip(("portatile", "PyTorch"), (replayed(torch, call) for call in both), strict=True))
    counts = {name: max(1, round(_BURST / _CALLS / burst(torch, graph, 2))) for name, graph in graphs.items()}
    samples: dict[str, list[float]] = {name: [] for name in graphs}
    for round_ in range(ROUNDS):
        for name in list(graphs)[:: 1 if round_ % 2 else -1]:
            samples[name].append(burst(torch, graphs[name], counts[name]))
    ratio = median(samples["PyTorch"]) / median(samples["portatile"])
    return {"routine": routine, "count": count, "order": order, "dtype": dtype, "samples": samples, "ratio": ratio}


def asked() -> argparse.Namespace:
    """What the command line says."""
    commands = parser(__doc__, device="")
    commands.add_argument("--stacks", default="200x64,100x128,64x256,32x512,1000x32,500x100", help="CxN, separated by commas")
    commands.add_argument("--routines", default=",".join(ROUTINES), help="separated by commas")
    commands.add_argument("--dtype", default="float32,float64,complex64,complex128", help="separated by commas")
    commands.add_argument("--limit", type=float, default=120.0, help="seconds")
    return commands.parse_args()


def rows_of(torch: Any, options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """The rows for which there is time; failures are printed."""
    began = time.monotonic()
    for dtype in options.dtype.split(","):
        for text in options.stacks.split(","):
            count, order = map(int, text.split("x"))
            for routine in options.routines.split(","):
                if routine == "herk" and not dtype.startswith("complex"):
                    continue
                if time.monotonic() - began > options.limit:
                    return
                try:
                    yield measured(torch, routine, count, order, dtype)
                except (ValueError, RuntimeError, portatile.PortatileError) as error:
                    print("wrong:", routine, count, order, dtype, error, flush=True)


def main() -> None:
    """Measure, print a line for each, and save."""
    options = asked()
    import torch

    torch.backends.cuda.matmul.allow_tf32 = False
    name = in_torch.info().name
    rows, lines = [], []
    with until_stopped():
        for row in rows_of(torch, options):
            rows.append(row)
            times = [f"{median(row['samples'][who]) * 1e6:.1f}" for who in ("portatile", "PyTorch")]
            lines.append(["{routine} {count} of {order} {dtype}".format(**row), *times, f"{row['ratio']:.2f}"])
            print("  ".join(lines[-1]), flush=True)
    print_table([name, "us", "PyTorch", "ratio"], lines)
    document = {"bench": "level3_stacks", **facts(options.commit), "peer": in_torch.peer(), "device": name, "rows": rows}
    print(f"\nwritten to {save(f'level3_stacks-{slug(name)}', document, options.out)}")


if __name__ == "__main__":
    main()
