"""Is performance portable, by recorded results? Winners, losses, cascade and the best configuration for all, without a device.

Files of trials (T4, caches of Kernel Tuner, portatile's own) of the same problem on several devices are compared configuration by
configuration: only those that were tried on every device can be judged. ``portable`` is the one that loses least over all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from portatile import workloads
from portatile.device import ANY
from portatile.errors import UsageError
from portatile.formatting import spelled
from portatile.records import Config, DeviceInfo, canonical
from portatile.studies import portable
from portatile.studies.framework.measured_configs import failure
from portatile.studies.framework.study import Column, Option, Run, Study, option
from portatile.studies.portability_rows import PortabilityRow, answer, figures, finish, scores
from portatile.tuning.search import replay
from portatile.tuning.search.replay import Recording


@dataclass(frozen=True)
class RecordedOptions:
    """A result store, what `results --json` or `tune --json` prints, T4, or a cache of Kernel Tuner; of two devices or more."""

    files: tuple[Path, ...] = option((), Option("Files of recorded trials.", argument=True))


def measure(run: Run) -> Iterator[PortabilityRow]:
    """Every winner on every device, problem by problem. Raises UsageError if no problem was recorded on two devices."""
    options: RecordedOptions = run.options
    if not options.files:
        raise UsageError("name files of recorded trials: `portatile study recorded-portability a100_T4.json mi250_T4.json`")
    groups = together([recording for file in options.files for recording in replay.recordings(file)])
    if not groups:
        raise UsageError(f"no problem in {', '.join(map(str, options.files))} was recorded on two devices or more")
    run.expect(sum(len(group) * (len(group) + 1) for group in groups))
    skipped: set[tuple[str, str]] = set()
    for group in groups:
        task = group[0].problem
        description = spelled({**task.sizes, **task.options})
        if (description, task.dtype) in skipped:  # another workload, or timed with cold caches
            description = f"{description}, {task.workload}{' cold' if group[0].cold else ''}"
        skipped.add((description, task.dtype))
        yield from (replace(row, problem=description) for row in matrix(group))


def together(recordings: Sequence[Recording]) -> list[list[Recording]]:
    """The recordings of one problem that were timed in one manner, where there are two devices or more; the largest of each device.

    Of problems that are no workload here the layouts are not compared: other tuners do not record them.
    """
    groups: dict[tuple[object, ...], dict[str, Recording]] = {}
    for recording in recordings:
        task = recording.problem
        key = task.workload, canonical(task.sizes), task.dtype, canonical(task.options), recording.cold
        known, name = groups.setdefault(key, {}), name_of(recording.device)
        if name not in known or len(recording.trials) > len(known[name].trials):
            known[name] = recording
    return [list(group.values()) for group in groups.values() if len(group) > 1]


def name_of(device: DeviceInfo) -> str:
    """A recorded device's name, with its back end where that is known."""
    return device.name if device.backend == ANY else f"{device.backend} {device.name}"


def times(recording: Recording) -> dict[str, float]:
    """Seconds of what was valid, by canonical configuration."""
    return {text: trial.comparable for text, trial in recording.table().items() if trial.status == "ok"}


def matrix(group: Sequence[Recording]) -> Iterator[PortabilityRow]:
    """Each device's winner, and the configuration that loses least, on every device."""
    known = {name_of(recording.device): times(recording) for recording in group}
    tried = {name_of(recording.device): recording.table() for recording in group}
    configs = {text: trial.config for recording in group for text, trial in recording.table().items()}
    winners = {name: min(found, key=lambda text, found=found: found[text]) for name, found in known.items() if found}  # type: ignore[misc]
    common = set.intersection(*(set(found) for found in known.values()))
    losses = {text: [found[text] / min(found.values()) for found in known.values()] for text in common}
    if losses:
        winners[portable.NAME] = min(losses, key=lambda text: sum(losses[text]))
    for recording in group:
        name = name_of(recording.device)
        for of, text in winners.items():
            where = (
                f"the best of {len(common)} that ran on all of {len(group)}" if of == portable.NAME else f"of {len(known[of])} valid ones"
            )
            row = _row(recording, of, where, configs[text])
            if (seconds := known[name].get(text)) is not None:
                yield replace(row, seconds=seconds, gflops=_gflops(recording, seconds), status="ok")
            else:
                trial = tried[name].get(text)
                yield replace(row, status="not recorded there" if trial is None else failure(trial))


def _row(recording: Recording, of: str, winner: str, config: Config) -> PortabilityRow:
    task, info = recording.problem, recording.device
    return PortabilityRow(
        workload=task.workload,
        problem=spelled(task.sizes),
        dtype=task.dtype,
        winner_of=of,
        found=winner,
        device=name_of(info),
        name=info.name,
        platform=info.platform,
        config=canonical(config),
    )


def _gflops(recording: Recording, seconds: float) -> float | None:
    """None for kernels that are no workload here, whose flops are unknown."""
    task = recording.problem
    if task.workload not in workloads.names():
        return None
    flops = workloads.get(task.workload).flops(task)
    return flops / seconds / 1e9 if flops else None


def notes(rows: Sequence[PortabilityRow]) -> list[str]:
    """Pennycook's measure and the configuration of each winner; what was not recorded, or failed."""
    lines = []
    for (problem, _, winner), score in scores(rows).items():
        of_winner = [row for row in rows if row.winner_of == winner and row.problem == problem]
        lines.append(f"{problem}: {winner} ({of_winner[0].found}): {score:.3f}; {of_winner[0].config}")
        lines += [f"{winner} on {row.device}: {row.status}" for row in of_winner if row.status != "ok"]
    return lines


STUDY = Study(
    name="recorded-portability",
    answers=("D1.7",),
    question="Is performance portable between devices whose results were recorded?",
    minutes=0.1,
    timed="what the files say was timed; nothing is measured.",
    row=PortabilityRow,
    key=("workload", "problem", "dtype", "winner_of", "device"),
    columns=(
        Column("winner of", "winner_of"),
        Column("on", "device"),
        Column("time", "seconds", "s"),
        Column("Gflop/s", "gflops"),
        Column("loss", "loss"),
        Column("", "status"),
    ),
    measure=measure,
    figures=figures,
    answer=answer,
    options=RecordedOptions,
    finish=finish,
    notes=notes,
    devices="none",
)
