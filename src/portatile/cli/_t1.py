"""`portatile tune FILE.json`: tune a user's own kernel, described in a T1 file, in place of a workload."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import click

from portatile.cli import _options, _tune_output
from portatile.cli._workloads import WorkloadGroup
from portatile.formats import t1
from portatile.kernel import Kernel
from portatile.trials import Budget
from portatile.tuning.search import tuner

Tuned = Callable[[Kernel, tuner.TuningRequest, bool, bool], int | None]


def with_files(group: WorkloadGroup, tuned: Tuned) -> WorkloadGroup:
    """Let a file's name stand for a workload in ``group``; ``tuned(kernel, request, as_json, oclgrind)`` does the work."""

    def of_file(name: str) -> click.Command | None:
        if not name.endswith(".json"):
            return None

        def run(
            device: str | tuple[str, ...] | None,
            budget: str,
            strategy: str,
            seed: int,
            fresh: bool,
            cold: bool,
            no_model: bool,
            objective: str,
            oclgrind: bool,
            as_json: bool,
        ) -> int | None:
            specification = t1.read(Path(name))
            kernel = Kernel.from_t1(specification)
            budget_given = click.get_current_context().get_parameter_source("budget") is not click.core.ParameterSource.DEFAULT
            limit = Budget.parse(budget) if budget_given or specification.budget is None else specification.budget
            request = kernel.request(limit, _options.one_device(device), strategy, seed, not fresh)
            return tuned(kernel, _tune_output.measured(request, cold, no_model, objective), as_json, oclgrind)

        parameters = [parameter for parameter in group.parameters if parameter.name not in ("recorded", "scheduler")]
        return click.Command(name, params=parameters, callback=run, help=f"The kernel that {name} describes (T1).")

    group.of_file = of_file
    return group
