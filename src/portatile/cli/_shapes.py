"""`tune WORKLOAD --shapes FILE`: many shapes within one budget, the result of each, and how good the selection for others is."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from types import TracebackType
from typing import Any

import click
from rich.status import Status

from portatile import device as devices
from portatile import workloads
from portatile.cli import _console, _formatting, _options, _tune_output
from portatile.cli._workloads import WorkloadCommand, WorkloadGroup, option_value
from portatile.errors import UsageError
from portatile.formatting import duration, percent
from portatile.measure import first_ceilings
from portatile.records import DeviceInfo, Problem, to_json
from portatile.store import ResultStore, device_key
from portatile.trials import Budget
from portatile.tuning.search import held_out, shapes, shapes_file, tuner
from portatile.tuning.search.held_out import Regret
from portatile.workload import Workload
from portatile.workloads import precisions, speeds

_SHARED = ("device", "budget", "strategy", "seed", "fresh", "as_json")  # options with the same meaning for many shapes as for one
_ELEMENTS = ("element_type", "element_precision")
_PLAIN_SECONDS = 10.0  # between lines of progress where there is no terminal
_RULES = {"dispatcher": "the choice", "nearest": "nearest shape's", "default": "the default"}


def with_shapes(group: WorkloadGroup) -> WorkloadGroup:
    """Give every workload's sub-command the option ``--shapes``, in place of its sizes."""
    group.wrapped = _WorkloadOrShapes
    return group


class _WorkloadOrShapes(WorkloadCommand):
    """A workload's sub-command, and a second one for command lines with ``--shapes``."""

    def __init__(self, workload: Workload, plain: click.Command) -> None:
        shown = click.Option(
            ["--shapes"], metavar="FILE", expose_value=False, help="Tune every shape in FILE (one per line) instead of a single shape."
        )
        super().__init__(workload, params=[*plain.params, shown], callback=plain.callback, help=plain.help)
        self.plain = plain

    def make_context(self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any) -> click.Context:
        """The context of the command that the arguments ask for."""
        if any(word.partition("=")[0] == "--shapes" for word in args) and not {"-h", "--help"} & set(args):
            self._refuse(args)
            return self._many().make_context(info_name, args, parent, **extra)
        return super().make_context(info_name, args, parent, **extra)

    def _refuse(self, args: list[str]) -> None:
        """Raise UsageError for options that do not go with many shapes, and say why."""
        allowed = (*_SHARED, *_ELEMENTS)
        flags = {word.partition("=")[0] for word in args}
        for parameter in self.plain.params:
            name = parameter.name or ""
            flag = next((flag for flag in parameter.opts if flag in flags), None)
            if flag is not None and name not in allowed and not name.startswith("option_"):
                why = "the file says the sizes" if name.startswith("size_") else "it is for one problem at a time"
                raise UsageError(f"{flag} does not go with --shapes: {why}")

    def _many(self) -> click.Command:
        file = click.Option(["--shapes", "path"], required=True, type=click.Path(dir_okay=False, path_type=Path))
        own = [p for p in self.plain.params if p.name in (*_SHARED, *_ELEMENTS) or (p.name or "").startswith("option_")]

        def run(path: Path, element_type: str, element_precision: str = "", **values: Any) -> None:
            spelled = {key.removeprefix("option_"): values.pop(key) for key in list(values) if key.startswith("option_")}
            options = {name: option_value(self.workload, name, text) for name, text in spelled.items()}
            values["device"] = _options.one_device(values["device"])
            problems = shapes_file.read(path, self.workload, element_type, options, element_precision)
            if note := precisions.computed(element_precision, self.workload.name, element_type).note:
                _console.note(note)
            _tune(workloads.get(problems[0].workload), problems, **values)

        return click.Command(self.name, params=[file, *own], callback=run, help=self.help)


def _tune(
    workload: Workload, problems: tuple[Problem, ...], device: str | None, budget: str, strategy: str, seed: int, fresh: bool, as_json: bool
) -> None:
    request = shapes.ShapesRequest(problems, device, Budget.parse(budget), strategy, seed, resume=not fresh)
    first_ceilings.ensure(devices.get(device).info, _console.note)
    with ResultStore.default() as store, _Watch() as watch:
        result = shapes.tune(request, store, watch)
    if as_json:
        click.echo(_document(result, workload))
    else:
        _print(result, workload)


class _Watch:
    """Shows progress: a live line on a terminal, elsewhere a line for each shape and from time to time. A context manager."""

    def __init__(self) -> None:
        self._live = Status("opening the device", console=_console.err) if _console.err.is_terminal else None
        self._printed: tuple[shapes.ShapeStep | None, float] = (None, 0.0)

    def __enter__(self) -> _Watch:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._live is not None:
            self._live.stop()

    def __call__(self, step: shapes.ShapeStep, progress: tuner.Progress) -> None:
        """Show the present shape and its progress."""
        what = "searching" if step.phase == "search" else "winners on"
        best = "nothing valid yet" if progress.best is None else f"best {duration(progress.best.comparable)}"
        warm = f", {_console.counted(progress.warm, 'warm start')}" if progress.warm else ""
        line = f"{what} {step.number}/{step.total}  {_formatting.shape(progress.problem)}: {best}, {progress.evaluations} tried{warm}"
        if self._live is not None:
            self._live.update(line)
        elif step != self._printed[0] or time.monotonic() - self._printed[1] >= _PLAIN_SECONDS:
            _console.err.print(line, markup=False, soft_wrap=True)
            self._printed = step, time.monotonic()


def _print(tuned: shapes.ShapesResult, workload: Workload) -> None:
    rows = []
    for result in tuned.results:
        faster = f"{result.default.comparable / result.best.comparable:.2f} x" if result.default.status == "ok" else ""
        rows.append(
            [
                _formatting.shape(result.problem),
                duration(result.best.comparable),
                speeds.speed(result.best, workload),
                faster,
                _place_of_best(result),
                "" if result.warm_best is None else f"{result.warm_best.comparable / result.best.comparable:.2f} x",
            ]
        )
    if rows:
        device = tuned.results[0].device
        _console.out.print(f"{workload.name} on {device.name} ({device.platform}, {device.id})\n", markup=False)
        _console.out.print(_console.table("", ("shape", "time", "speed", "speed-up", "winner found", "best warm start"), rows))
        if warm := _warm(tuned.results):
            _console.out.print(warm, markup=False)
    else:
        _console.out.print("nothing was tuned: the budget did not suffice for one shape, or none has a valid configuration")
    for problem in tuned.unreached:
        _console.out.print(f"not reached: {_formatting.shape(problem)}", markup=False)
    _console.out.print(f"\nwinners measured on the other shapes: {tuned.crossed} of {tuned.wanted}; {tuned.seconds:.1f} s", markup=False)
    print_regrets(tuned.regrets)


def print_regrets(by_device: Mapping[str, Sequence[Regret]]) -> None:
    """Print a row for each rule, and the shapes with the largest regret of the selection."""
    if not any(by_device.values()):
        _console.out.print("no regret known: that needs two shapes or more with several configurations each", markup=False)
        return
    rows = []
    for name, regrets in by_device.items():
        summary = held_out.summary(regrets)
        rows.append(
            [
                _RULES.get(name, name),
                percent(summary.mean, 1),
                percent(summary.worst, 1),
                str(len(regrets) - summary.unknown),
                str(summary.unknown),
            ]
        )
    _console.out.print("\neach shape held out: how much longer the chosen configuration takes than the shape's best")
    _console.out.print(_console.table("", ("rule", "mean", "worst", "shapes", "not measured"), rows))
    worst = sorted((r for r in by_device["dispatcher"] if r.value is not None), key=lambda regret: -(regret.value or 0.0))[:3]
    for regret in worst:
        _console.out.print(f"  {_formatting.shape(regret.problem)}: {percent(regret.value, 1)}", markup=False)


def show_regrets(store: ResultStore, workload: str | None, device: str | None, as_json: bool) -> None:
    """Print the regrets of a store's results, for each workload of this package and each device."""
    pairs: dict[tuple[str, str], DeviceInfo] = {}
    for trial in store.leaders(workload):
        if trial.problem.workload in workloads.names() and (device is None or devices.matches(trial.device, device)):
            pairs.setdefault((trial.problem.workload, device_key(trial.device)), trial.device)
    documents = []
    for place, ((name, _), info) in enumerate(sorted(pairs.items())):
        with _console.err.status(f"holding out each shape of {name}"):
            regrets = shapes.regrets(workloads.get(name), store, info)
        if as_json:
            documents.append({"workload": name, "device": info, "regrets": regrets_document(regrets)})
        else:
            _console.out.print(f"{chr(10) * bool(place)}{name} on {info.name} ({info.platform})", markup=False)
            print_regrets(regrets)
    if as_json:
        click.echo(to_json(documents).decode())
    elif not pairs:
        _console.out.print("no stored result matches; begin with: portatile tune gemm --shapes FILE", markup=False)


def _document(tuned: shapes.ShapesResult, workload: Workload) -> str:
    table = [
        {
            "problem": result.problem,
            "config": result.best.config,
            "seconds_per_run": result.best.comparable,
            "default_seconds": result.default.comparable if result.default.status == "ok" else None,
            "gflops": workload.flops(result.problem) / result.best.comparable / 1e9,
            "trials": len(result.trials),
            **_tune_output.warm_document(result),
            "found_at": result.found_at,
            "found_by": result.found_by,
        }
        for result in tuned.results
    ]
    device = tuned.results[0].device if tuned.results else None
    rest = {"unreached": tuned.unreached, "crossed": tuned.crossed, "wanted": tuned.wanted, "seconds": tuned.seconds}
    return to_json({"device": device, "shapes": table, **rest, "regrets": regrets_document(tuned.regrets)}).decode()


def regrets_document(by_device: Mapping[str, Sequence[Regret]]) -> dict[str, object]:
    """Every rule's summary and its regrets, for JSON."""
    document: dict[str, object] = {}
    for name, regrets in by_device.items():
        each = [{"problem": r.problem, "config": r.config, "seconds": r.seconds, "best": r.best, "regret": r.value} for r in regrets]
        known = held_out.summary(regrets)
        measured = known.unknown < len(regrets)
        document[name] = {
            "mean": known.mean if measured else None,
            "worst": known.worst if measured else None,
            "unknown": known.unknown,
            "shapes": each,
        }
    return document


def _warm(results: Sequence[tuner.TuningResult]) -> str:
    """A sentence on the warm starts of all shapes that had some; empty if none had."""
    pairs = [(result, best) for result in results if (best := result.warm_best) is not None]
    if not pairs:
        return ""
    after = median(best.comparable / result.best.comparable for result, best in pairs)
    defaults = [result.default.comparable / result.best.comparable for result, _ in pairs if result.default.status == "ok"]
    default = f", the default {median(defaults):.2f}" if defaults else ""
    never = sum(result.matched_at is None for result, _ in pairs)
    many = _console.counted(len(pairs), "shape")
    return (
        f"warm starts, {many} (medians, the winner's time is 1): the best of them {after:.2f}{default}; "
        f"the search itself found nothing as fast as the best of them on {never} of {len(pairs)}"
    )


def _place_of_best(result: tuner.TuningResult) -> str:
    return f"at {result.found_at} of {len(result.trials)} ({result.found_by})"
