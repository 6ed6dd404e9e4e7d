"""Write tuned kernels, or results, to a folder that other programs use without portatile."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import click

from portatile import device as devices
from portatile import output_files, workloads
from portatile.cli import _console, _options
from portatile.errors import UnknownNameError, UsageError
from portatile.formats import t4
from portatile.formatting import spelled
from portatile.kernel import PREFIX, Kernel
from portatile.records import DeviceInfo, Problem, Value
from portatile.shipping import folder as folders
from portatile.shipping import own_kernels
from portatile.store import Query, ResultStore, device_key, shipped
from portatile.trials import Trial
from portatile.workloads import precisions, speeds


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.argument("files", nargs=-1, metavar="[FILE.json]...", type=click.Path(path_type=Path))
@click.option("--format", "kind", type=_options.OneOf(["kernels", "t4"]), default="kernels", show_default=True, help="What to write.")
@_options.selection("Only this device, by its id here, or those of this back end or kind, or whose name, vendor or platform contains this.")
@click.option("--problem", "options", multiple=True, metavar="SIZES", help="Only this problem of --workload, tuned or not; repeat.")
@click.option("--dtype", default=None, help="Only this element type.")
@_options.store(exists=True)
def command(
    folder: Path,
    files: tuple[Path, ...],
    kind: str,
    workload: str | None,
    device: str | None,
    options: tuple[str, ...],
    dtype: str | None,
    path: Path | None,
) -> int:
    """Write tuned kernels or trials to FOLDER.

    \b
    portatile export kernels/ --workload gemm --problem "m=512 n=512 k=512"
    portatile export kernels/ kernel.json
    portatile export trials/ --format t4

    \b
    kernels  texts, binaries, a table of launches and loader.py, which runs them without portatile
    t4       every trial, one file for each problem on each device, in the auto-tuning community's JSON

    SIZES are sizes and options of a problem, such as "m=512 n=512 k=512 trans_a=T", or precision=emulated. A problem that is not tuned is
    exported with the configuration that a routine would use on --device, or on the default device. With a T1 file (kernel.json), only the
    kernel that it describes is exported, in its best known configuration.
    """
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is a file; name a folder")
    if files:
        if kind != "kernels" or workload is not None or options or dtype is not None or path is not None:
            raise UsageError("a T1 file says what is exported: of the options only --device goes with it")
        return _write_own(folder, files, device)
    if workload is not None and workload.startswith(PREFIX) and kind == "kernels":
        raise UsageError(
            f"{workload} is a kernel of your own; name its T1 file, or export it from Python, with portatile.export(folder, kernel)"
        )
    if workload is not None and workload not in workloads.names() and not workload.startswith(PREFIX):
        raise UnknownNameError("workload", workload, workloads.names())
    if options and workload is None:
        raise UsageError("--problem needs --workload, whose sizes and options it names")
    problems = [_problem(str(workload), text, dtype) for text in options]
    with ResultStore.reader(path) as store:
        trials = store.trials(Query(workload=workload)) if kind == "t4" else store.leaders(workload)
    if device is not None and kind == "kernels":
        trials = [*trials, *shipped(workload)]  # a selected device also exports its results that come with the package
    wanted_device = _chooser(device)
    selected = [trial for trial in trials if wanted_device(trial.device) and dtype in (None, trial.problem.dtype)]
    if options:
        selected = [trial for trial in selected if any(_same(trial.problem, problem) for problem in problems)]
    return _write_t4(folder, selected) if kind == "t4" else _write_kernels(folder, selected, problems, device)


def _write_kernels(folder: Path, trials: list[Trial], problems: list[Problem], device: str | None) -> int:
    items = folders.tuned({(trial.problem.key, device_key(trial.device)): trial for trial in reversed(trials)}.values())
    foreign = sorted({trial.problem.workload for trial in trials} - set(workloads.names()))
    missing = [problem for problem in problems if not any(_same(item.problem, problem) for item in items)]
    if missing:
        items += [folders.best_known(problem, devices.get(device).info) for problem in missing]
    if not items:
        own = f"; {', '.join(foreign)}: from Python, with portatile.export" if foreign else ""
        raise UsageError(f"no stored result matches; tune first, or name a problem with --workload and --problem{own}")
    with _console.bar("compiling", len(items)) as advance:
        shipped = folders.write(folder, items, advance)
    for item in shipped.items:
        sizes = spelled(item.problem.sizes)
        _console.out.print(f"{item.problem.workload} {sizes} {item.problem.dtype} for {item.info.name}: {item.why}", markup=False)
    written = [_console.counted(len(shipped.items), "problem"), _console.counted(shipped.programs, "text")]
    written.append(_console.counted(shipped.binaries, "binary", "binaries"))
    _console.out.print(f"{folder}: {', '.join(written)}", markup=False)
    elsewhere = {
        True: "it is exported by portatile.export in Python, or by the name of its T1 file",
        False: "it is no workload of this installation",
    }
    for reason in [*shipped.left_out, *(f"{name}: {elsewhere[name.startswith(PREFIX)]}" for name in foreign)]:
        _console.err.print(f"left out {reason}", markup=False)
    return 0 if shipped.items else 1


def _write_own(folder: Path, files: tuple[Path, ...], device: str | None) -> int:
    kernels = [Kernel.from_t1(file) for file in files]
    own_kernels.export(folder, *kernels, device=device)
    for kernel in kernels:
        _console.out.print(f"{kernel.describe()}: {kernel.explain(device).explanation}", markup=False)
    _console.out.print(f"{folder}: {_console.counted(len(kernels), 'kernel')}", markup=False)
    return 0


def _write_t4(folder: Path, kept: list[Trial]) -> int:
    if not kept:
        raise UsageError("no stored result matches; tune first")
    folder.mkdir(parents=True, exist_ok=True)
    groups: dict[tuple[str, DeviceInfo], list[Trial]] = {}
    for trial in kept:
        groups.setdefault((trial.problem.key, trial.device), []).append(trial)
    names: set[str] = set()
    for trials in groups.values():
        first = trials[0]
        parts = [
            first.problem.workload,
            *map(str, first.problem.sizes.values()),
            *(f"{name}-{value}" for name, value in speeds.unusual(first.problem).items()),
            first.problem.dtype,
            first.device.backend,
            first.device.name,
        ]
        stem = name = re.sub(r"[^A-Za-z0-9]+", "-", "-".join(parts)).strip("-").lower()
        while name in names:
            name = f"{stem}-{len(names)}"
        names.add(name)
        output_files.write(folder / f"{name}_T4.json", t4.write(trials))
        _console.out.print(f"{folder / name}_T4.json: {_console.counted(len(trials), 'trial')}", markup=False)
    return 0


def _problem(workload: str, text: str, dtype: str | None) -> Problem:
    """A problem from ``"m=512 n=512 k=512 trans_a=T"``."""
    known = workloads.get(workload)
    options: dict[str, Value] = {}
    for word in re.split(r"[\s,]+", text.strip()):
        name, equals, value = word.partition("=")
        if not equals:
            raise UsageError(f"--problem {text!r}: {word!r} is not NAME=VALUE")
        if name in known.sizes:
            if not value.isdigit():
                raise UsageError(f"--problem {text!r}: {name} is a whole number, not {value!r}")
            options[name] = int(value)
        else:
            choices = known.options.get(name, ())
            options[name] = next((choice for choice in choices if str(choice).lower() == value.lower()), value)
    precision = str(options.pop("precision", "")) if "precision" not in known.options else ""
    return precisions.problem(precision, workload, dtype or known.dtypes[0], options)[0]


def _same(problem: Problem, other: Problem) -> bool:
    """Whether two problems differ at most in the layout of their operands."""
    return (problem.workload, problem.sizes, problem.options, problem.dtype) == (other.workload, other.sizes, other.options, other.dtype)


def _chooser(device: str | None) -> Callable[[DeviceInfo], bool]:
    """A function that tells whether a trial's device is selected. An id selects a device of this machine, since other machines give the
    same id to other devices."""
    if device is None:
        return lambda info: True
    for candidate in devices.devices():
        if candidate.info.id == device.strip().lower():
            key = device_key(candidate.info)
            return lambda info: device_key(info) == key
    return lambda info: devices.matches(info, device, ids=False)
