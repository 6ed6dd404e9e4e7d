"""The first screen: each winner's share of its ceiling, the roofline of all kernels, and the summary figures above both."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import geometric_mean, median

from portatile.device import names
from portatile.figures import quantities
from portatile.figures.roofline import Roof, Roofline, RooflineDot
from portatile.figures.shares import Dot, ShareChart
from portatile.figures.svg import Figure
from portatile.reports.groups import Group
from portatile.store import device_key
from portatile.trials import Trial

_LONGEST = 26  # letters of a row's name
_ROWS = 16  # kinds of problems beyond which element types share a row


@dataclass(frozen=True)
class PlacedGroup:
    """A group, where on the page its section is, and a short name of its device where there are several."""

    group: Group
    anchor: str
    device: str = ""

    @property
    def title(self) -> str:
        """The problem, and the device if there are several."""
        return " ".join(part for part in (self.group.problem.workload, self.group.title, self.device and f"· {self.device}") if part)


@dataclass(frozen=True)
class HeadFigure:
    """A figure at the head of the page."""

    figure: str
    meaning: str


def tiles(groups: Sequence[Group]) -> list[HeadFigure]:
    """Problems, devices, trials; the usual share of the ceiling and the usual speed-up, where they are known."""
    trials, failed = sum(len(group.trials) for group in groups), sum(group.failed for group in groups)
    problems, devices = len({group.problem.key for group in groups}), len({device_key(group.device) for group in groups})
    shown = [
        HeadFigure(str(problems), "problem tuned" if problems == 1 else "problems tuned"),
        HeadFigure(str(devices), "device" if devices == 1 else "devices, each back end its own"),
        HeadFigure(f"{trials:,}".replace(",", quantities.NARROW), f"trials, {failed} of them failed" if failed else "trials, none failed"),
    ]
    shares = [share[1] for group in groups if group.best is not None and (share := group.share(group.best)) is not None]
    if shares:
        shown.append(HeadFigure(quantities.percent(median(shares)), "of the ceiling (median)"))
    gains = [gain for group in groups if group.best is not None and (gain := group.speedup(group.best)) is not None]
    if gains and max(gains) > 1.005:
        usual = "over the default" if len(gains) == 1 else f"over the default (mean); at most {quantities.times(max(gains))}"
        shown.append(HeadFigure(quantities.times(geometric_mean(gains)), usual))
    return shown


def figures(placed: Sequence[PlacedGroup]) -> list[Figure]:
    """The shares and the roofline; where no ceiling is known the speed-ups. Each if there is anything to show on it."""
    shares = _shares(placed)
    charts = [_speedups(placed) if shares is None else shares, _roofline(placed)]
    return [figure for figure in charts if figure is not None]


def _shares(placed: Sequence[PlacedGroup]) -> Figure | None:
    names_of_devices, dots = _device_names(placed), []
    for place in placed:
        group = place.group
        if group.best is None or (share := group.share(group.best)) is None:
            continue
        began = None if group.default is None or group.default.status != "ok" else group.share(group.default)
        label = f"{_caption(place)}: {quantities.percent(share[1])} of {share[0]}, {_reached(group, group.best)}"
        dot = Dot(share[1], None if began is None else began[1], label, f"#{place.anchor}", names_of_devices.index(_device_name(place)))
        dots.append((group, dot))
    if not dots:
        return None
    text = (
        "Each mark is a winner: the share of its ceiling, the measured limit of arithmetic, memory or special functions, that it reaches."
    )
    text += f" The tail begins at the default. {_half([dot.share for _, dot in dots], quantities.percent)}"
    return ShareChart("How near to the ceiling", text.rstrip(), "share of the ceiling", _rows(dots), tuple(names_of_devices))


def _speedups(placed: Sequence[PlacedGroup]) -> Figure | None:
    names_of_devices, dots = _device_names(placed), []
    for place in placed:
        group = place.group
        if group.best is not None and (gain := group.speedup(group.best)) is not None:
            label = f"{_caption(place)}: {quantities.times(gain)} the default, {_reached(group, group.best)}"
            dots.append((group, Dot(gain, 1.0, label, f"#{place.anchor}", names_of_devices.index(_device_name(place)))))
    if not dots:
        return None
    text = f"Each mark is a winner; the tail begins at the default, 1. {_half([dot.share for _, dot in dots], quantities.times)}"
    return ShareChart(
        "How much faster than the default", text.rstrip(), "times as fast as the default", _rows(dots), tuple(names_of_devices), "×"
    )


def _rows(placed: Sequence[tuple[Group, Dot]]) -> tuple[tuple[str, tuple[Dot, ...]], ...]:
    """A row for each workload and element type, or for each workload where those are too many."""
    by_type = len({(group.problem.workload, group.problem.dtype) for group, _ in placed}) <= _ROWS
    rows: dict[str, list[Dot]] = {}
    for group, dot in placed:
        name = f"{group.problem.workload} {group.problem.dtype}" if by_type else group.problem.workload
        rows.setdefault(name if len(name) <= _LONGEST else f"{name[: _LONGEST - 1]}…", []).append(dot)
    return tuple((name, tuple(dots)) for name, dots in rows.items())


def _roofline(placed: Sequence[PlacedGroup]) -> Figure | None:
    kernels, devices = [], _devices(placed)
    for place in placed:
        group = place.group
        if group.best is None or not group.flops or not group.traffic:
            continue
        intensity = group.flops / group.traffic
        label = f"{_caption(place)}: {_reached(group, group.best)}, {quantities.digits(intensity)} operations a byte"
        series = devices.index(group.device.name)
        kernels.append(RooflineDot(intensity, group.flops / group.best.comparable, label, f"#{place.anchor}", series))
    alike = [[place.group for place in placed if place.group.device.name == name] for name in devices]
    roofs = tuple(_roof(names.hardware(groups[0].device), groups) for groups in alike)
    if not kernels or not any(roof.bandwidth or roof.levels for roof in roofs):
        return None
    text = (
        "Speed over arithmetic intensity, both logarithmic. A kernel below the slope is limited by memory, one below a level by arithmetic."
        " A cache can lift a kernel above the slope."
    )
    return Roofline("Roofline", text, roofs, tuple(kernels))


def _caption(place: PlacedGroup) -> str:
    return f"{place.group.problem.workload} {place.group.title}, {place.group.device.name} ({place.group.way})"


def _reached(group: Group, trial: Trial) -> str:
    return ", ".join(part for part in (group.speed(trial), quantities.duration(trial.comparable)) if part)


def _half(values: Sequence[float], written: Callable[[float], str]) -> str:
    return f"Half of the {len(values)} reach {written(median(values))} or more." if len(values) > 2 else ""


def _device_name(place: PlacedGroup) -> str:
    """The short name of a winner's device, each back end its own."""
    return place.device or names.hardware(place.group.device)


def _device_names(placed: Sequence[PlacedGroup]) -> list[str]:
    return list(dict.fromkeys(map(_device_name, placed)))


def _devices(placed: Sequence[PlacedGroup]) -> list[str]:
    """The hardware by name: back ends of one share its roof."""
    return list(dict.fromkeys(place.group.device.name for place in placed))


def _roof(name: str, groups: Sequence[Group]) -> Roof:
    """The highest ceilings that any back end measured, of the element types that the groups use."""
    measured = {device_key(group.device): group.ceilings for group in groups if group.ceilings is not None}.values()
    dtypes = {group.problem.dtype for group in groups if group.flops}
    bandwidth = max((1e9 * known.bandwidth for known in measured if known.bandwidth), default=None)
    kinds = [("fp32", "float32", "float32"), ("fp64", "float64", "float64"), ("mma", "fp64 matrix", "float64")]
    levels = []
    for quantity, title, dtype in kinds:
        rate = max((rate for known in measured if (rate := known.best(quantity)) is not None), default=None)
        if rate is not None and dtype in dtypes:
            levels.append((title, rate))
    return Roof(name, bandwidth, tuple(levels))
