"""TRSM, convolution, Coulombic potential and MRI: tuned beside default on every device, and beside PyTorch where it has a peer.

    python bench/workloads.py --seconds 15 --device cuda:0 --device opencl:0:0

Each problem is tuned in fresh stores for `--seconds`; both times are the tuner's medians of checked variants. Peers on an
NVIDIA GPU, timed in the same run: torch.linalg.solve_triangular for TRSM, a device copy of the same bytes for the convolution.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from measure import facts, print_table, save, slug
from portatile import device, workloads
from portatile.records import Budget, Problem, Value, canonical
from portatile.store import ResultStore
from portatile.tuning import tuner

try:
    import torch
except ImportError:
    torch = None


@dataclass(frozen=True)
class Task:
    """A problem, what its rate counts, and the peer that computes the same on a GPU."""

    workload: str
    sizes: dict[str, int]
    dtype: str
    unit: str
    work: float
    peer: Callable[[Problem], Callable[[], Any]] | None = None
    options: dict[str, Value] = field(default_factory=dict)


def solve(problem: Problem) -> Callable[[], Any]:
    """PyTorch's triangular solve of a well-conditioned lower triangle."""
    m, n, kind = problem.sizes["m"], problem.sizes["n"], getattr(torch, problem.dtype)
    a = torch.rand(m, m, dtype=kind, device="cuda").tril_() / m + 2 * torch.eye(m, dtype=kind, device="cuda")
    b = torch.rand(m, n, dtype=kind, device="cuda")
    return lambda: torch.linalg.solve_triangular(a, b, upper=False)


def copy(problem: Problem) -> Callable[[], Any]:
    """A copy of as many bytes as the convolution reads and writes."""
    x = torch.rand(problem.sizes["n"] * problem.sizes["ndat"], dtype=getattr(torch, problem.dtype), device="cuda")
    y = torch.empty_like(x)
    return lambda: y.copy_(x)


def tasks(scale: int) -> list[Task]:
    """The problems; ``scale`` divides their sizes, for machines that are not GPUs."""
    found = []
    for dtype, size in (("float64", 8), ("float32", 4)):
        for n, ndat in ((256, 65536 // scale), (512, 262144 // scale)):
            found.append(Task("convolution", {"n": n, "ndat": ndat}, dtype, "GB/s", 2e-9 * n * ndat * size, copy))
    side = 512 // scale
    atoms = 40000 // scale
    found.append(Task("coulomb", {"atoms": atoms, "nx": side, "ny": side, "nz": 1}, "float32", "Gpairs/s", 1e-9 * atoms * side**2))
    voxels = 64**3 // scale
    found.append(Task("mri", {"samples": 2048, "voxels": voxels}, "float32", "Gpairs/s", 2048e-9 * voxels))
    for dtype in ("float32", "float64"):
        for m, n in ((10240 // scale, 128), (1024 // scale, 1024 // scale), (4096 // scale, 4096 // scale)):
            found.append(Task("triangular", {"m": m, "n": n}, dtype, "Gflop/s", 1e-9 * m * m * n, solve))
    return found


def seconds_of(run: Callable[[], Any], repeat: int = 10, rounds: int = 7) -> list[float]:
    """Seconds a run, of ``rounds`` bursts, after one to warm up."""
    samples = []
    run()
    torch.cuda.synchronize()
    for _ in range(rounds):
        start = time.perf_counter()
        for _ in range(repeat):
            run()
        torch.cuda.synchronize()
        samples.append((time.perf_counter() - start) / repeat)
    return samples


def main() -> None:
    """Measure, print, save."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--device", action="append", help="as `portatile devices` names it; repeat; default: every device")
    parser.add_argument("--seconds", type=float, default=15.0, help="tuning time of each problem on each device")
    parser.add_argument("--scale", type=int, default=1, help="divide the sizes: 16 suits a small CPU")
    parser.add_argument("--only", help="one workload")
    parser.add_argument("--commit", help="what to record where there is no git")
    parser.add_argument("--out", type=Path, help="folder for the result; default bench/results")
    options = parser.parse_args()
    chosen = [device.get(name).info for name in options.device] if options.device else [d.info for d in device.devices()]
    rows: list[dict[str, Any]] = []
    lines = []
    for task in tasks(options.scale):
        if options.only not in (None, task.workload):
            continue
        problem = workloads.get(task.workload).problem(task.sizes, task.dtype, task.options)
        label = f"{task.workload} {'x'.join(map(str, task.sizes.values()))} {task.dtype}"
        peer = None
        if task.peer is not None and torch is not None and torch.cuda.is_available():
            samples = seconds_of(task.peer(problem))
            peer = median(samples)
            rows.append({"problem": label, "device": "torch", "version": torch.__version__, "samples": samples})
            lines.append([label, "PyTorch", f"{task.work / peer:.1f} {task.unit}", "", "1.00"])
        for info in chosen:
            with ResultStore(None) as store:
                result = tuner.tune(tuner.Request(problem, info.id, Budget(seconds=options.seconds)), store)
            best, default = result.best, result.default
            rows.append({"problem": label, "device": info.id, "name": info.name, "driver": info.driver, "trials": len(result.trials)})
            rows[-1] |= {"config": dict(best.config), "samples": best.samples, "default_samples": default.samples, "error": best.error}
            ratio = f"{peer / best.median:.2f}" if peer else ""
            lines.append([label, info.id, f"{task.work / best.median:.1f} {task.unit}", f"{task.work / default.median:.1f}", ratio])
            print(*lines[-1], canonical(best.config) if best.config != default.config else "the default", flush=True)
    print_table(["", "device", "tuned", "default", "to PyTorch"], lines)
    folder = {"folder": options.out} if options.out else {}
    path = save(f"workloads-{slug(chosen[0].name)}", {**facts(options.commit), "rows": rows}, **folder)
    print(f"\nwritten to {path}")


if __name__ == "__main__":
    main()
