"""The rows of ``study portability``: Pennycook's measure, the figures, the answer and the remarks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from portatile.figures.heat import Cell, Heat
from portatile.figures.quantities import written
from portatile.figures.svg import Figure
from portatile.formatting import rate
from portatile.studies import cascade, portable

NOT_REACHED = "not reached"


@dataclass(frozen=True)
class PortabilityRow:
    """The winner of the device ``winner_of`` on ``device``. If it did not run, seconds, ``gflops``, ``loss`` and ``error`` are None.

    ``found``: where the winner comes from; ``config``: what ran, as JSON; ``changed``: the parameters in which that differs from the
    winner.
    """

    workload: str
    problem: str
    dtype: str
    winner_of: str
    found: str
    device: str
    name: str
    platform: str
    seconds: float | None = None
    gflops: float | None = None
    loss: float | None = None
    error: float | None = None
    objection: str = ""
    changed: str = ""
    status: str = ""
    config: str = ""


def scores(rows: Sequence[PortabilityRow]) -> dict[tuple[str, str, str], float]:
    """Pennycook's measure by problem, element type and device that the winner belongs to; without winners that were not measured yet."""
    return {key: cascade.measure(losses) for key, losses in measured_losses(rows).items()}


def measured_losses(rows: Sequence[PortabilityRow]) -> dict[tuple[str, str, str], list[float | None]]:
    """The losses of each winner on the devices that were measured; without winners of which some are still to come.

    What a study did not reach in its time is not known: it is no failure.
    """
    unknown = {(row.problem, row.dtype, row.device) for row in rows if row.winner_of == row.device and row.status == NOT_REACHED}
    groups: dict[tuple[str, str, str], list[float | None]] = {}
    incomplete = set()
    for row in rows:
        key = row.problem, row.dtype, row.winner_of
        if (row.problem, row.dtype, row.device) in unknown:
            continue
        groups.setdefault(key, []).append(row.loss)
        if row.status == NOT_REACHED:
            incomplete.add(key)
    return {key: losses for key, losses in groups.items() if key not in incomplete}


def finish(rows: Sequence[PortabilityRow]) -> list[PortabilityRow]:
    """Losses, and the rows winner by winner."""
    own = {(row.problem, row.dtype, row.device): row.seconds for row in rows if row.winner_of == row.device}
    done = []
    for row in rows:
        best = own.get((row.problem, row.dtype, row.device))
        done.append(replace(row, loss=row.seconds / best) if row.seconds and best else row)
    problems = list(dict.fromkeys((row.problem, row.dtype) for row in done))
    winners = list(dict.fromkeys(row.winner_of for row in done))
    return sorted(done, key=lambda row: (problems.index((row.problem, row.dtype)), winners.index(row.winner_of)))


def table(rows: Sequence[PortabilityRow]) -> Heat:
    """The losses of one problem as a table: a line for each winner, a column for each device, and PP."""
    places, winners = (list(dict.fromkeys(names)) for names in zip(*((row.device, row.winner_of) for row in rows), strict=True))
    measures = scores(rows)
    lines = []
    for name in winners:
        by_device = {row.device: row for row in rows if row.winner_of == name}
        cells = [_cell(by_device[place]) if place in by_device else Cell(None, "-") for place in places]
        score = measures.get((rows[0].problem, rows[0].dtype, name))
        score_cell = Cell(None, "?", "not all was measured") if score is None else Cell(score, f"{score:.2f}", "harmonic mean of 1 / loss")
        lines.append((*cells, score_cell))
    title = f"{rows[0].workload} {rows[0].problem} {rows[0].dtype}"
    caption = "Down: whose winner; across: where it runs; figures: its time over that of the device's own winner. PP: Pennycook's measure."
    return Heat(title, "winner of", "on", tuple(winners), (*places, "PP"), tuple(lines), caption)


def _cell(row: PortabilityRow) -> Cell:
    if row.loss is None:
        return Cell(None, row.status.partition(":")[0] or "?", row.status)
    mark = "*" if row.objection else ""
    speed = "" if row.gflops is None else f"{row.gflops:.1f} Gflop/s."
    return Cell(min(1 / row.loss, 1.0), f"{_times(row.loss)}{mark}", f"{speed} {row.objection}".strip())


def _times(loss: float) -> str:
    return f"{loss:.2f}" if loss < 10 else written(loss)


def figures(rows: Sequence[PortabilityRow]) -> list[Figure]:
    """A table of losses for each problem, and its cascade."""
    groups: dict[tuple[str, str], list[PortabilityRow]] = {}
    for row in rows:
        groups.setdefault((row.problem, row.dtype), []).append(row)
    charts: list[Figure] = []
    groups = {name: group for name, group in groups.items() if any(row.loss is not None for row in group)}
    for (problem, dtype), group in groups.items():
        losses = {winner_of: of_winner for (_, _, winner_of), of_winner in measured_losses(group).items()}
        charts += [table(group), *cascade.figures(f"{group[0].workload} {problem} {dtype}", losses)]
    return charts


def notes(rows: Sequence[PortabilityRow]) -> list[str]:
    """What each device is, where each winner comes from, why something did not run, and which constraints were ignored."""
    here = {row.device: row for row in rows}
    lines = []
    for name, any_row in here.items():
        own = next((row for row in rows if row.winner_of == row.device == name), None)
        speed = "" if own is None or own.gflops is None else f", {rate(own.gflops, 'Gflop/s')}"
        lines.append(f"{name}: {any_row.name} ({any_row.platform}){speed}; {own.found if own else 'no winner of its own'}")
    for other in dict.fromkeys(row.winner_of for row in rows):
        if other == portable.NAME:
            best = next(row for row in rows if row.winner_of == other)
            lost = ", ".join(f"{row.loss:.2f} on {row.device}" for row in rows if row.winner_of == other and row.loss is not None)
            lines.append(f"{other}: {best.found}; it takes {lost or 'part nowhere'}; {best.config}")
        elif other not in here:
            lines.append(f"{other}: another machine's device; {next(row.found for row in rows if row.winner_of == other)}")
    for row in rows:
        if row.changed:
            lines.append(f"{row.winner_of} on {row.device}: with {row.changed}, because the device lacks the instructions")
        if row.loss is None and row.status != NOT_REACHED:
            lines.append(f"{row.winner_of} on {row.device}: {row.status}")
    unmeasured = dict.fromkeys(f"{row.winner_of} on {row.device}" for row in rows if row.status == NOT_REACHED)
    lines += [f"not reached in the time: {', '.join(unmeasured)}"] if unmeasured else []
    objections = dict.fromkeys((row.winner_of, row.device, row.objection) for row in rows if row.objection)
    return lines + [f"* {winner_of} on {place}: not in the device's space, it {text}" for winner_of, place, text in objections]


def answer(rows: Sequence[PortabilityRow]) -> str:
    """For each winner its largest loss, or the device on which it does not run."""
    parts = []
    for (problem, dtype, winner), losses in measured_losses(rows).items():
        elsewhere = [row for row in rows if (row.problem, row.dtype, row.winner_of) == (problem, dtype, winner) and row.device != winner]
        failed = next((row.device for row in elsewhere if row.loss is None), None)
        if failed is not None:
            parts.append(f"the winner of {winner} does not run on {failed}")
        elif elsewhere:
            worst = max(elsewhere, key=lambda row: row.loss or 0.0)
            what = f"{winner} configuration" if winner == portable.NAME else f"winner of {winner}"
            parts.append(f"the {what} takes up to {written(worst.loss or 0.0)} times the time of a device's own ({worst.device})")
        else:
            parts.append(f"{winner} has no other device: its performance portability is {cascade.measure(losses):.2f}")
    text = "; ".join(parts)
    return f"T{text[1:]}" if text.startswith("the ") else text
