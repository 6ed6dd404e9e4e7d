"""Fit the model that chooses configurations for untuned shapes to your GPU. The fitted model is used from then on."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import click

from portatile import device as devices
from portatile import settings
from portatile.cli import _console, _files, _options
from portatile.errors import UsageError
from portatile.provenance import revision
from portatile.records import DeviceInfo, to_json
from portatile.studies import calibration
from portatile.trials import Budget
from portatile.workloads.gemm.forms.gpu import costs, fit, timings
from portatile.workloads.gemm.forms.gpu.costs import Model


@click.command("calibrate")
@click.argument("workload", type=_options.OneOf(["gemm"]), default="gemm")
@_options.device("selector")
@click.option("--budget", default="10m", show_default=True, help="Time for the timings; fitting takes some seconds more.")
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the model to this file, not the data directory.",
)
@click.option(
    "--refit",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Fit to the timings in this file instead of measuring; repeat for several files.",
)
@click.option("--judge", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Judge the model on the timings in this file.")
@_options.document()
def command(
    workload: str,
    selector: str | None,
    budget: str,
    output: Path | None,
    refit: tuple[Path, ...],
    judge: Path | None,
    as_json: bool,
) -> None:
    """Time products of many shapes and fit the model to them, which then chooses the configurations of untuned products.

    The timings are stored beside the model, for --refit; a second run continues the first one. The table shows how good the choices are:
    the shortest measured time of a shape over the time of the configuration that the model chooses.

    \b
    portatile calibrate gemm --device cuda --budget 10m
    portatile calibrate gemm --refit h100.json --judge h200.json
    """
    if output is not None:
        _files.writable(output)
    if refit:
        rows, records = _refitted(refit, judge, output)
    elif judge is not None:
        rows, records = _judged(timings.read(judge), None), []
    else:
        rows, records = _calibrated(devices.get(selector).info, budget, output)
    if as_json:
        names = ("fitted on", "judged on", "dtype", "shapes", "mean", "worst")
        click.echo(to_json({"rows": [dict(zip(names, row, strict=True)) for row in rows], "models": records}).decode())
        return
    shown = [(*row[:3], str(row[3]), *(("" if math.isnan(figure) else f"{figure:.3f}") for figure in row[4:])) for row in rows]
    columns = ("fitted on", "judged on", "", "shapes", "mean share of best", "worst")
    _console.out.print(_console.table("choices by the estimate", columns, shown, left=3))


Row = tuple[str, str, str, int, float, float]


def _calibrated(info: DeviceInfo, budget: str, output: Path | None) -> tuple[list[Row], list[Model]]:
    calibration.check(info)
    seconds = Budget.parse(budget).seconds
    if seconds is None:
        raise UsageError(f"--budget {budget}: calibrate takes a time, for example 10m")
    folder = settings.load().data_dir
    path = calibration.timings_file(info, folder) if output is None else output.with_name(f"{output.stem}-timings.json")
    provenance = {"command": f"portatile calibrate gemm --device {info.id} --budget {budget}", "commit": revision()}
    with _console.bar("configurations timed", 0) as advance:
        collected = calibration.collect(info, seconds, path, provenance, advance)
    _console.say(f"timed {_console.counted(len(collected.shapes), 'shape')}; {path}")
    return _stored({path: collected}, provenance["command"], output)


def _refitted(refit: Sequence[Path], judge: Path | None, output: Path | None) -> tuple[list[Row], list[Model]]:
    collected = {path: timings.read(path) for path in refit}
    origin = " ".join(("portatile calibrate gemm", *(f"--refit {path.name}" for path in refit)))
    if judge is None or output is not None:
        return _stored(collected, origin, output)
    fitted, other = calibration.fitted(collected, origin), timings.read(judge)
    language = next(iter(collected.values())).device.can.language
    if other.device.can.language != language:
        raise UsageError(f"{refit[0]} was timed through {language}, {judge} through {other.device.can.language}: not comparable")
    rows = _judged(other, fitted.model)
    if judge not in refit:
        rows += _rows(other.device, calibration.fitted({judge: other}, "judged"))
    return rows, [fitted.model]


def _stored(collected: Mapping[Path, timings.Timings], origin: str, output: Path | None) -> tuple[list[Row], list[Model]]:
    fitted, device = calibration.fitted(collected, origin), next(iter(collected.values())).device
    own = costs.own_file(device.name, device.can.language, settings.load().data_dir)
    target = own if output is None else output
    model = fitted.model
    if output is not None and output.exists() and output.stat().st_size:
        before = costs.read(output)
        if before.device == model.device:  # the other compiler's constants stay
            model = replace(model, made={**before.made, **model.made}, costs={**before.costs, **model.costs})
    calibration.write(target, model)
    _console.err.print(f"the model is in {target}", markup=False, soft_wrap=True)
    return _rows(device, fitted), [model]


def _rows(device: DeviceInfo, fitted: calibration.FittedModel) -> list[Row]:
    name = _named(device)
    return [
        _row(of, name, dtype, judged)
        for dtype, (before, after, held_out) in fitted.judged.items()
        for of, judged in (("what was known", before), (name, after), (f"{name}, other shapes", held_out))
    ]


def _judged(collected: timings.Timings, model: Model | None) -> list[Row]:
    """Judge a model on timings; without a model, judge what would choose on their device now."""
    rows = []
    for dtype in ("float32", "float64"):
        known = costs.known(collected.device, dtype) if model is None else model.of(collected.device.can.language, dtype)
        cases = calibration.cases_of(collected, dtype)
        if known is not None and cases:
            of = "what is known" if model is None else f"{model.device}, {collected.device.can.language}"
            rows.append(_row(of, _named(collected.device), dtype, fit.judge(cases, known)))
    return rows


def _row(of: str, on: str, dtype: str, judged: fit.Judgement) -> Row:
    return of, on, dtype, judged.shapes, judged.mean, judged.worst


def _named(device: DeviceInfo) -> str:
    return f"{device.name}, {device.can.language}"
