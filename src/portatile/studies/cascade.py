"""The cascade plot of performance portability: efficiency and Pennycook's measure as one device after another is added.

Sewall, Pennycook, Jacobsen, Deakin and McIntosh-Smith, "Interpreting and visualizing performance portability metrics", P3HPC 2020. For each
configuration the devices are ordered by its efficiency on them, the best first: a line that stays up is portable, one that falls is not,
and where it reaches 0 is the first device that cannot run it. Pennycook's measure over the first k devices is their harmonic mean.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from portatile.figures.lines import ChartAxis, LineChart, Series
from portatile.figures.svg import Figure

Losses = Mapping[str, Sequence[float | None]]
"""Of each configuration, time over the device's best on each of the devices; None if it does not run."""


@dataclass(frozen=True)
class Stage:
    """After ``devices`` of them: the efficiency on the last one added, and Pennycook's measure over all so far."""

    devices: int
    efficiency: float
    measure: float


def stages(losses: Sequence[float | None]) -> list[Stage]:
    """The cascade of one configuration. Efficiencies are at most 1: a device's own best may have been beaten by chance.

    Examples:
        >>> stages([2.0, 1.0])
        [Stage(devices=1, efficiency=1.0, measure=1.0), Stage(devices=2, efficiency=0.5, measure=0.6666666666666666)]
    """
    ordered = sorted((0.0 if loss is None else min(1 / loss, 1.0) for loss in losses), reverse=True)
    listed: list[Stage] = []
    total = 0.0
    for count, efficiency in enumerate(ordered, 1):
        total += 1 / efficiency if efficiency else float("inf")
        listed.append(Stage(count, efficiency, count / total))
    return listed


def measure(losses: Sequence[float | None]) -> float:
    """Pennycook's measure: the harmonic mean of efficiencies, 0 if a device cannot run it, or if there are no devices."""
    return stages(losses)[-1].measure if losses else 0.0


def figures(title: str, losses: Losses) -> list[Figure]:
    """Efficiencies, and the measure; none for fewer than two devices."""
    cascades = {name: stages(of_name) for name, of_name in losses.items()}
    most = max((len(cascade) for cascade in cascades.values()), default=0)
    if most < 2:
        return []
    ticks = tuple(float(count) for count in range(1, most + 1))
    charts: list[Figure] = []
    for field, heading, caption in (
        ("efficiency", "Cascade of efficiencies", "Each configuration's devices in the order of its efficiency there, the best first."),
        ("measure", "Performance portability", "Pennycook's measure over a configuration's best devices: their harmonic mean."),
    ):
        curves = tuple(
            Series(name, tuple((float(stage.devices), getattr(stage, field)) for stage in cascade)) for name, cascade in cascades.items()
        )
        charts.append(LineChart(f"{heading}: {title}", caption, ChartAxis("devices"), ChartAxis(field, "%"), curves, ticks))
    return charts
