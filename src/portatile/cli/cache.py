"""Show, clear or fill the cache of compiled kernels."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import click
import msgspec

from portatile import cache, device, flat_plans, program, settings, store, workloads
from portatile.cli import Suggesting, _console, _formatting, _options
from portatile.cli._workloads import flat_plan
from portatile.device.target import Target
from portatile.errors import ArgumentError, CompileError, UsageError
from portatile.formats import bounded_reading
from portatile.records import Config, DeviceInfo, Launch, Plan, Problem, to_json


@dataclass(frozen=True)
class CachedConfig:
    """A configuration that ``warm`` compiles; `portatile tune --json` prints one, with further fields."""

    problem: Problem
    config: Config


@click.group(cls=Suggesting)
def command() -> None:
    """Compiled kernels on disk. `portatile cache warm` fills the cache before the first use."""


@command.command()
@_options.document("Print one JSON document.")
def info(as_json: bool) -> None:
    """Show where the cache is, how many kernels it holds, and its limit."""
    summary = cache.default().info()
    if as_json:
        click.echo(to_json({"folder": str(summary.path), "entries": summary.entries, "bytes": summary.nbytes, "limit": summary.limit}))
        return
    _console.out.print(f"folder   {summary.path}", markup=False)
    _console.out.print(f"entries  {summary.entries}")
    _console.out.print(f"size     {_console.nbytes(summary.nbytes)} of at most {_console.nbytes(summary.limit)}")


@command.command()
def clear() -> None:
    """Remove every compiled kernel."""
    binaries = cache.default()
    _console.out.print(f"removed {_console.counted(binaries.clear(), 'entry', 'entries')}")
    if left := binaries.info().entries:
        raise UsageError(f"{_console.counted(left, 'entry', 'entries')} in {binaries.root} cannot be removed; may you write there?")


@command.command()
@click.argument("file", required=False, type=click.Path(path_type=Path))
@_options.device("selector")
@click.option("--arch", help="Compile for this CUDA architecture, for example sm_90, without such a device; needs FILE.")
def warm(file: Path | None, selector: str | None, arch: str | None) -> int:
    """Compile the configurations in FILE, or everything that was tuned on the device, ahead of use.

    FILE is JSON: an object with "problem" and "config" as `portatile tune --json` prints it, or a list of such objects. With --arch,
    a container image for machines with GPUs can be prepared on a machine without one.
    """
    if arch is not None and (selector is not None or file is None):
        raise UsageError("--arch compiles what FILE lists and needs no device: name FILE, and leave out --device")
    info, target = _place(selector, arch)
    items = _read(file) if file else _winners(info)
    binaries = cache.default()
    compiled = known = 0
    failures: list[str] = []
    plans: list[tuple[CachedConfig, Plan]] = []
    for item in items:
        reason = workloads.get(item.problem.workload).space(item.problem, info).violated(item.config)
        if reason is None:
            plans.append((item, flat_plan(workloads.get(item.problem.workload), item.problem, item.config, info)))
        else:
            failures.append(f"{_formatting.titled(item.problem)}: {reason}")
    if target.defers and all(math.prod(step.local_size) == 1 for _, plan in plans for step in plan.steps if isinstance(step, Launch)):
        settings.for_single_items()
    for item, plan in _console.track(plans, "compiling"):
        for source in flat_plans.sources(plan):
            try:
                binary = program.build(source, target, binaries)
                target.settle(binary)
            except CompileError as error:
                failures.append(f"{_formatting.titled(item.problem)}: {str(error).splitlines()[0]}")
                continue
            compiled, known = compiled + ("compile" in binary.seconds), known + ("compile" not in binary.seconds)
    if not items:
        there = f"{file} lists nothing" if file else f"nothing is tuned on {info.name}"
        _console.out.print(f"{there}; nothing to compile", markup=False)
        return 0
    _console.out.print(
        f"{_console.counted(len(items), 'configuration')} for {info.name}: "
        f"compiled {_console.counted(compiled, 'program')}, {known} from the cache",
        markup=False,
    )
    for failure in failures:
        _console.err.print(f"left out {failure}", markup=False)
    return 1 if failures and not compiled + known else 0


def _place(selector: str | None, arch: str | None) -> tuple[DeviceInfo, Target]:
    """The architecture to compile for, and its compiler."""
    if arch is None:
        opened = device.get(selector)
        return opened.info, opened.target
    info = device.datasheet(arch)
    return info, device.backends()[info.backend].target(arch)


def _read(file: Path) -> list[CachedConfig]:
    try:
        configs = msgspec.convert(bounded_reading.json_document(bounded_reading.content(file)), type=list[CachedConfig] | CachedConfig)
    except ArgumentError:
        raise
    except (ValueError, msgspec.MsgspecError) as error:
        raise UsageError(f"{file}: {error}. It must hold objects with 'problem' and 'config', as `portatile tune --json` prints") from None
    return configs if isinstance(configs, list) else [configs]


def _winners(info: DeviceInfo) -> list[CachedConfig]:
    with store.ResultStore.reader() as results:
        trials = [trial for trial in results.leaders() if store.device_key(trial.device) == store.device_key(info)]
    ours = set(workloads.names())  # a user's own kernel compiles where it is defined
    return [CachedConfig(trial.problem, trial.config) for trial in trials if trial.problem.workload in ours]
