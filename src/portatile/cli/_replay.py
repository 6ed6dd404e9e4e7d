"""`tune --replay`: the choice of a recording in a file, and the command without a workload."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from portatile.cli import _console, _options
from portatile.cli._workloads import WorkloadGroup
from portatile.device import matches
from portatile.errors import UsageError
from portatile.kernel import PREFIX
from portatile.records import Problem
from portatile.trials import Budget
from portatile.tuning.search import replay

Replayed = Callable[[replay.ReplayRequest, bool], int | None]


def chosen(path: Path, problem: Problem | None, device: str | None, cold: bool = False) -> replay.Recording:
    """The one recording in a file that matches; raises UsageError, which lists the recordings, where none or several do.

    Of a problem that was timed with warm and with cold caches, the one that ``cold`` asks for.
    """
    recordings = replay.recordings(path)
    fitting = [recording for recording in recordings if _fits(recording, problem, device)]
    same_start = [recording for recording in fitting if recording.cold == cold]
    fitting = same_start if same_start or cold else fitting
    if len(fitting) == 1:
        return fitting[0]
    there = "".join(
        f"\n  {recording.name}: {_console.counted(len(recording.trials), 'configuration')}" for recording in (fitting or recordings)[:20]
    )
    if not fitting:
        raise UsageError(f"{path} holds no trials of that problem and device; it holds:{there or ' none'}")
    advice = "name the problem (portatile tune WORKLOAD SIZES --replay FILE) or the device (--device)"
    if any(recording.problem.workload.startswith(PREFIX) for recording in fitting):
        advice += f"; kernels of your own go to a file each: portatile export FOLDER --format t4 --workload {PREFIX}NAME"
    raise UsageError(f"{path} holds {len(fitting)} recordings; {advice}:{there}")


def _fits(recording: replay.Recording, problem: Problem | None, device: str | None) -> bool:
    same = problem is None or _named_part(recording.problem) == _named_part(problem)
    return same and (device is None or matches(recording.device, device))


def _named_part(problem: Problem) -> tuple[object, ...]:
    """The part of a problem that the command line can name: all but its layout."""
    return problem.workload, dict(problem.sizes), problem.dtype, dict(problem.options)


def without_workload(group: WorkloadGroup, replayed: Replayed) -> WorkloadGroup:
    """Let ``group`` accept ``--replay`` without a sub-command, for recordings of kernels that are no workload here."""
    options = ("device", "budget", "strategy", "seed", "as_json", "recorded")
    group.params += [parameter for parameter in group.parameters if parameter.name in options]
    group.invoke_without_command = True
    own = group.callback

    def alone(**values: Any) -> int | None:
        context = click.get_current_context()
        recorded = values["recorded"]
        if context.invoked_subcommand is not None:
            typed = next((name for name in values if context.get_parameter_source(name) is not click.core.ParameterSource.DEFAULT), None)
            if typed is not None:
                raise UsageError(f"write options after the workload: portatile tune {context.invoked_subcommand} ...")
            return own() if own is not None else None
        if recorded is None:
            raise UsageError("name a workload, or a file of recorded trials with --replay; `portatile tune --help` lists the workloads")
        request = replay.ReplayRequest(
            chosen(recorded, None, _options.one_device(values["device"])),
            Budget.parse(values["budget"]),
            values["strategy"],
            values["seed"],
        )
        return replayed(request, values["as_json"])

    group.callback = alone
    return group
