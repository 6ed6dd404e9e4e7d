"""How commands spell a problem and a speed."""

from __future__ import annotations

from portatile import workloads
from portatile.cli import _console
from portatile.kernel import Kernel
from portatile.records import Problem, spelled
from portatile.trials import Trial
from portatile.workload import Workload


def shape(problem: Problem) -> str:
    """``m=512 n=512 k=512 float32 trans_a=N trans_b=N``."""
    return f"{spelled(problem.sizes)} {problem.dtype} {spelled(problem.options)}".rstrip()


def titled(problem: Problem) -> str:
    """The workload's name before its shape."""
    return f"{problem.workload} {shape(problem)}"


def known(problem: Problem) -> Workload | None:
    """The problem's workload; None for a kernel of a user's own, or of another tuner."""
    return workloads.get(problem.workload) if problem.workload in workloads.names() else None


def speed(trial: Trial, workload: Workload | None) -> str:
    """Gflop/s; GB/s of the least traffic for a workload without floating-point operations; nothing for a kernel of another tuner."""
    if workload is None:
        return ""
    if isinstance(workload, Kernel):
        return workload.speed(trial)
    flops = workload.flops(trial.problem)
    if flops > 0:
        return _console.rate(flops / trial.median / 1e9, "Gflop/s")
    return _console.rate(workload.traffic(trial.problem) / trial.median / 1e9, "GB/s")
