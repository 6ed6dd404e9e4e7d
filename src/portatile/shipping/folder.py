"""A folder of tuned kernels that runs without portatile: texts, binaries, a table of launches, and a loader.

``kernels.json`` is the table, ``programs/`` holds texts and binaries, ``trials.json`` the measurements behind the choice (which `portatile
import` reads), ``loader.py`` runs the kernels. docs/internals/exported-folder.md describes the table.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

from portatile import cache, device, flat_plans, program, workloads
from portatile.device.base import Device
from portatile.device.target import Target
from portatile.errors import CompileError, UsageError
from portatile.records import Arg, Binary, Config, DeviceInfo, Entry, Launch, Plan, Problem, Source, digest
from portatile.select import choose, resolver
from portatile.shipping import loader
from portatile.shipping.loader import opencl_devices, table
from portatile.store import device_key, known_results
from portatile.trials import Trial
from portatile.workload import Workload

TABLE, TRIALS, PROGRAMS = "kernels.json", "trials.json", "programs"


@dataclass(frozen=True)
class ShippedItem:
    """A configuration of a problem for a device, and the trial it comes from, if any."""

    problem: Problem
    config: Config
    info: DeviceInfo
    why: str
    trial: Trial | None = None

    def entry(self, programs: ShippedPrograms) -> dict[str, Any]:
        """The entry in the table; adds the kernels to ``programs``. Raises UsageError or CompileError for what cannot be exported."""
        workload = workloads.get(self.problem.workload)
        reason = workload.space(self.problem, self.info).violated(self.config)
        if reason is not None:
            raise UsageError(f"its configuration is not legal: {reason}")
        kinds = {workload.element(self.problem, operand.name) for operand in workload.operands_of(self.problem.options)}
        if foreign := sorted(kinds - set(table.DTYPES)):
            raise UsageError(f"NumPy has no {' and no '.join(foreign)}: programs could not pass such arrays without portatile")
        info, shipped = _portable(self.info), self
        if info is not self.info and workload.space(self.problem, info).violated(self.config) is not None:
            shipped = replace(self, config=workload.default(self.problem, info), why="the default for any such device")
        plan = flat_plans.flatten(workload.plan(self.problem, shipped.config, info), resolver(info, known_results()))
        return table_entry(shipped, plan, _operands(workload, self.problem), workload.scalars, programs)


@dataclass
class ExportedFolder:
    """The result of an export; ``left_out`` has the reason for each item that was not written."""

    items: list[ShippedItem] = field(default_factory=list)
    programs: int = 0
    binaries: int = 0
    left_out: list[str] = field(default_factory=list)


def best_known(problem: Problem, info: DeviceInfo) -> ShippedItem:
    """A problem with the configuration that the routines would use on the device: tuned, of a near problem, or the default."""
    choice = choose(workloads.get(problem.workload), problem, _portable(info), known_results()(problem.workload))
    return ShippedItem(problem, choice.config, info, choice.explanation, choice.trial if choice.reason == "tuned" else None)


def tuned(trials: Iterable[Trial]) -> list[ShippedItem]:
    """An item for each trial of a workload that this installation has."""
    known = workloads.names()
    return [ShippedItem(t.problem, t.config, t.device, "tuned for this problem", t) for t in trials if t.problem.workload in known]


def write(folder: Path, items: Sequence[ShippedItem], done: Callable[[], None] | None = None) -> ExportedFolder:
    """Write the items' kernels to ``folder``, which is new, empty, or an earlier export; ``done`` is called after each item.

    Binaries are added for the OpenCL devices of this machine, and cubin and PTX for CUDA, which needs NVRTC but no GPU. An item that cannot
    be exported is skipped, and its reason recorded. Raises UsageError for a folder that holds something else.
    """
    _make_room(folder)
    shipped, programs, problems = ExportedFolder(), ShippedPrograms(folder), []
    for item in items:
        try:
            problems.append(item.entry(programs))
            shipped.items.append(item)
        except (UsageError, CompileError) as error:
            shipped.left_out.append(f"{item.problem.workload} on {item.info.name}: {str(error).splitlines()[0]}")
        if done is not None:
            done()
    written: dict[str, Any] = {"format": table.FORMAT, "problems": problems, "programs": programs.table}
    written = json.loads(msgspec.json.encode(written))  # in the form in which the loader reads it
    written["digest"] = table.table_digest(written)
    (folder / TABLE).write_bytes(msgspec.json.format(msgspec.json.encode(written), indent=1))
    trials = [item.trial for item in shipped.items if item.trial is not None]
    (folder / TRIALS).write_bytes(msgspec.json.encode(trials))
    (folder / "loader.py").write_text(loader.text(), encoding="utf-8")
    shipped.programs = len(programs.table)
    shipped.binaries = sum(len(entry["binaries"]) for entry in programs.table.values())
    return shipped


def _portable(info: DeviceInfo) -> DeviceInfo:
    """The device with only the properties that kernels may assume on another machine.

    It lacks instructions that a similar processor may not have, because they would abort its process. Through OpenCL it lacks warp groups,
    because drivers cannot build such a text without portatile.
    """
    can = info.can
    bare = replace(can, dot_types=(), half_vectors=False, warp_groups=can.warp_groups and can.language != "OpenCL C")
    return info if bare == info.can else replace(info, capabilities=bare)


def _make_room(folder: Path) -> None:
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is a file; name a folder")
    there = {path.name for path in folder.iterdir()} if folder.exists() else set()
    if there - {PROGRAMS} and TABLE not in there:  # an interrupted export has programs, but no table yet
        raise UsageError(f"{folder} holds something else; name a new folder, or an earlier export")
    if (folder / PROGRAMS).is_dir():
        shutil.rmtree(folder / PROGRAMS)
    (folder / PROGRAMS).mkdir(parents=True)


class ShippedPrograms:
    """The texts and binaries of a folder, each written once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.table: dict[str, dict[str, Any]] = {}
        self._targets: dict[str, tuple[tuple[Target, Device | None], ...]] = {}

    def add(self, source: Source, info: DeviceInfo) -> str:
        """The name of a text for a device; it is written at its first use, with the binaries that can be made here."""
        name = digest(source.digest, info.backend, info.architecture if device.backends()[info.backend].offline else device_key(info))[:16]
        if name in self.table:
            return name
        targets = self._compilers(info)
        entry: dict[str, Any] = {"backend": info.backend, "file": source.file, "defines": dict(source.defines), "binaries": []}
        if not device.backends()[info.backend].offline:
            lowered, _ = _AbsentTarget().lower(source)
            entry["text"] = f"{PROGRAMS}/{name}.cl"
        else:
            lowered, _ = targets[0][0].lower(source)
            entry["text"] = f"{PROGRAMS}/{name}.cu"
        entry["options"] = list(lowered.options)
        entry["symbols"] = {}
        for target, loaded_by in targets:
            entry["binaries"].append(self._binary(name, source, target, loaded_by, entry["symbols"]))
        data = lowered.text.encode()
        (self.folder / entry["text"]).write_bytes(data)
        entry["digest"] = table.content_digest(data)
        self.table[name] = entry
        return name

    def _binary(self, name: str, source: Source, target: Target, opened: Device | None, symbols: dict[str, str]) -> dict[str, Any]:
        binary = program.build(source, target, cache.default())
        symbols.update({entry.name: entry.symbol for entry in binary.entries})
        data = target.payload(binary)
        about: dict[str, Any] = {"kind": binary.kind, "architecture": target.architecture, "compiler": target.compiler}
        if opened is not None:
            about["built_by"] = opencl_devices.OpenCl(opened.cl_device).identity  # type: ignore[attr-defined]
        product = device.backends()[target.backend].product(binary.kind)
        path = f"{PROGRAMS}/{name}{product.ending if product else '.bin'}"
        (self.folder / path).write_bytes(data)
        return {**about, "file": path, "digest": table.content_digest(data)}

    def _compilers(self, info: DeviceInfo) -> tuple[tuple[Target, Device | None], ...]:
        """The compilers of binaries for a device; for an OpenCL device, with the device itself."""
        key = device_key(info)
        if key not in self._targets:
            backend = device.backends()[info.backend]
            if backend.offline:
                targets = (backend.target(info.architecture, product.name) for product in backend.products if product.compiled)
                self._targets[key] = tuple((target, None) for target in targets)
            else:
                here = next((opened for opened in device.devices() if device_key(opened.info) == key), None)
                self._targets[key] = () if here is None else ((here.target, here),)
        return self._targets[key]


class _AbsentTarget(Target):
    """The target of an OpenCL device that is absent: its text can be written, its binary cannot."""

    backend = architecture = compiler = ""

    def compile(self, source: Source, entries: tuple[Entry, ...] = ()) -> Binary:
        raise CompileError(f"{source.file}: the device is not here")


def table_entry(
    item: ShippedItem, plan: Plan, operands: list[dict[str, Any]], scalars: Mapping[str, float], programs: ShippedPrograms
) -> dict[str, Any]:
    """An item's entry in the table; ``plan`` is flat."""
    problem, info = item.problem, item.info
    return {
        "workload": problem.workload,
        "sizes": dict(problem.sizes),
        "options": dict(problem.options),
        "dtype": problem.dtype,
        "device": {name: getattr(info, name) for name in ("name", "platform", "backend", "kind", "architecture", "driver")},
        "config": dict(item.config),
        "why": item.why,
        "seconds_per_run": item.trial.median if item.trial is not None else None,
        "operands": operands,
        "scalars": dict(scalars),
        "temporaries": [msgspec.to_builtins(temporary) for temporary in plan.temporaries],
        "launches": _launches(plan, programs, info),
    }


def _operands(workload: Workload, problem: Problem) -> list[dict[str, Any]]:
    shapes, records = workload.shapes(problem), []
    for operand in workload.operands_of(problem.options):
        if operand.name not in shapes:
            continue
        layout, shape = problem.layout[operand.name], shapes[operand.name]
        place = {"strides": list(layout.strides), "offset": layout.offset, "elements": max(layout.extent(shape), 1)}
        records.append(
            {"name": operand.name, "role": operand.role, "dtype": workload.element(problem, operand.name), "shape": list(shape), **place}
        )
    return records


def _launches(plan: Plan, programs: ShippedPrograms, info: DeviceInfo) -> list[dict[str, Any]]:
    records = []
    for step in plan.steps:
        assert isinstance(step, Launch)
        name = programs.add(step.source, info)
        symbol = programs.table[name]["symbols"].get(step.kernel, step.kernel)
        sizes = {"global": list(step.global_size), "local": list(step.local_size)}
        records.append({"program": name, "kernel": step.kernel, "symbol": symbol, **sizes, "args": [_argument(arg) for arg in step.args]})
    return records


def _argument(arg: Arg) -> dict[str, Any]:
    more = {"channels": arg.channels} if arg.kind == "view" else {"map": msgspec.to_builtins(arg.map)} if arg.map is not None else {}
    return {"kind": arg.kind, "name": arg.name, "dtype": arg.dtype, "value": arg.value, **more}
