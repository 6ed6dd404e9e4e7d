"""The spelling of a problem and a speed in commands."""

from __future__ import annotations

from portatile import ceilings
from portatile.ceilings import Binding
from portatile.formatting import spelled
from portatile.kernel.definition import PREFIX as OWN
from portatile.records import Problem
from portatile.trials import Trial
from portatile.workload import Workload
from portatile.workloads import speeds

_BEYOND = 1.05  # a share of a ceiling that measurements which scatter do not explain
_WHY = {"memory": "the operands stay in a cache between runs", "special": "polynomials compute such functions, not the special units"}


def shape(problem: Problem) -> str:
    """``m=512 n=512 k=512 float32 trans_a=N trans_b=N``."""
    return f"{spelled(problem.sizes)} {problem.dtype} {spelled(problem.options)}".rstrip()


def titled(problem: Problem) -> str:
    """The workload's name before its shape."""
    return f"{problem.workload} {shape(problem)}"


def brief(problem: Problem) -> str:
    """The workload's name and its shape, without options that have their first value and without the version of a user's own kernel."""
    other_tuners = speeds.known(problem) is None and not problem.workload.startswith(OWN)
    options = problem.options if other_tuners else speeds.unusual(problem)
    return " ".join(filter(None, (problem.workload, spelled(problem.sizes), problem.dtype, spelled(options))))


def ceiling(trial: Trial, workload: Workload | None) -> str:
    """The share of the ceiling that binds a valid trial: ``73 % memory``; empty if it is not known."""
    binding = _binding(trial, workload)
    return "" if binding is None else str(binding)


def beyond_ceiling(trial: Trial, workload: Workload | None) -> str:
    """Why a trial is faster than the ceiling; empty unless it is by more than the scatter of measurements."""
    binding = _binding(trial, workload)
    if binding is None or binding.share < _BEYOND:
        return ""
    return f"more than 100 % of {binding.name}: {_WHY.get(binding.name, 'the ceiling is too low; `portatile bench peak` tells')}"


def _binding(trial: Trial, workload: Workload | None) -> Binding | None:
    if workload is None or trial.status != "ok":
        return None
    return ceilings.binding(ceilings.load(trial.device), ceilings.work_of(workload, trial.problem), trial.comparable)
