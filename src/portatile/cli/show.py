"""Print a configuration's parameters, kernel texts, instructions, registers and spills; needs no GPU."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import click

from portatile import cache, device, dialect, flat_plans, program, workloads
from portatile.cli import _console, _options, _t1
from portatile.cli._resources import cells, reported_columns
from portatile.cli._workloads import WorkloadCommand, flat_plan, per_workload
from portatile.device.target import Target
from portatile.dialect.preprocess import preprocess
from portatile.errors import ArgumentError, UnknownNameError, UsageError
from portatile.formats.t1 import Specification
from portatile.formatting import spelled
from portatile.kernel import Kernel
from portatile.records import Config, DeviceInfo, Launch, Plan, Problem, Resources, Source, Value, to_json
from portatile.select import choose
from portatile.space import ParameterSpace
from portatile.store import known_results
from portatile.workload import Workload

_STAGES = ("parameters", "template", "preprocessed", "lowered", "assembly", "ptx", "instructions", "resources")
_WIDTH = 120  # width of lines of prose
_KINDS = 4  # kinds that are named in a family of instructions


@dataclass(frozen=True)
class _Subject:
    """The object that is shown: launches and texts of one configuration for one device."""

    workload: Workload
    config: Config
    why: str
    info: DeviceInfo
    plan: Plan

    @property
    def sources(self) -> Sequence[Source]:
        return flat_plans.sources(self.plan)


@per_workload("show")
@click.option(
    "--config",
    "pairs",
    multiple=True,
    metavar="NAME=VALUE",
    help="Change one parameter of the configuration that would run; repeat.",
)
@click.option("--stage", type=_options.OneOf(_STAGES), default="template", show_default=True, help="What to print.")
@click.option("--backend", type=_options.OneOf(list(device.backends())), help="Default: that of the device, or of --arch.")
@click.option("--arch", help="Architecture, for example sm_90 or gfx942; needs no such device.")
@_options.device("selector")
@_options.document("Print one JSON document.")
def command(
    problem: Problem,
    pairs: tuple[str, ...],
    stage: str,
    backend: str | None,
    arch: str | None,
    selector: str | None,
    as_json: bool,
    preset: str | None = None,
) -> None:
    """Print the kernels of a configuration.

    `portatile show WORKLOAD --help` lists sizes and options; --stage selects what is printed:

    \b
    parameters    the configuration, and what each parameter means
    template      the text with everything generated, and the definitions that go with it
    preprocessed  without macros and conditionals, as the back end sees it
    lowered       what the compiler is given: with the prelude, or translated to CUDA C++
    assembly      the compiler's instructions: PTX, or an architecture's own of AMD's GPUs and of PoCL's processor (ptx: the same)
    instructions  how many of each family stand in them, and the most frequent kinds
    resources     registers, spills, local memory, work-groups

    \b
    portatile show gemm -m 512 -n 512 -k 512
    portatile show matmul -m 512 -n 512 -k 512 --stage assembly --backend cuda --arch sm_90
    portatile show kernel.json --stage resources --arch sm_90

    A T1 file (kernel.json) in place of a workload shows your own kernel that it describes. The text goes to standard output; which
    configuration it is goes to standard error.
    """
    _print(_subject(workloads.get(problem.workload), problem, preset, pairs, _info(backend, arch, selector)), stage, as_json)


def _file_shown(
    specification: Specification,
    pairs: tuple[str, ...],
    stage: str,
    backend: str | None,
    arch: str | None,
    selector: str | None,
    as_json: bool,
) -> None:
    """The kernel that a T1 file describes, in the configuration that it would run with."""
    kernel = Kernel.from_t1(specification)
    _print(_subject(kernel, kernel.problem(), None, pairs, _info(backend, arch, selector)), stage, as_json)


def _print(subject: _Subject, stage: str, as_json: bool) -> None:
    """A stage to standard output; which configuration it is to standard error, or into the document."""
    info = subject.info
    if as_json:
        click.echo(to_json(_document(subject, stage)))
        return
    which = f"{subject.workload.name} for {info.name} ({info.backend}), {subject.why}"
    _console.err.print(f"{which}\n{spelled(subject.config)}", markup=False, soft_wrap=True)
    if stage == "parameters":
        _parameters(subject)
        return
    if stage == "resources":
        _resources(subject, device.target(info))
        return
    if stage == "instructions":
        _instructions(device.target(info), [_text(source, "assembly", info) for source in subject.sources])
        return
    for source in subject.sources:
        click.echo(_text(source, stage, info))


def _document(subject: _Subject, stage: str) -> dict[str, object]:
    """What a stage prints, as fields: ``parameters``, ``launches`` with what they take, ``kernels`` with instructions, or ``texts``."""
    info = subject.info
    named = {"device": info.id, "name": info.name, "backend": info.backend, "architecture": info.architecture}
    facts = {"workload": subject.workload.name, **named, "config": dict(subject.config), "why": subject.why}
    if stage == "parameters":
        meanings = subject.workload.explained(subject.config)
        values = [{"name": name, "value": value, "meaning": meanings.get(name, "")} for name, value in subject.config.items()]
        return {**facts, "parameters": values}
    if stage == "resources":
        used = _used(subject, device.target(info))
        sizes = [{"kernel": step.kernel, "global": step.global_size, "local": step.local_size} for step, _ in used]
        return {**facts, "launches": [{**size, "resources": resources} for size, (_, resources) in zip(sizes, used, strict=True)]}
    if stage == "instructions":
        return {**facts, "kernels": _counted(device.target(info), [_text(source, "assembly", info) for source in subject.sources])}
    return {**facts, "texts": [{"file": source.file, "text": _text(source, stage, info)} for source in subject.sources]}


def _with_presets(workload: Workload, plain: click.Command) -> click.Command:
    """A workload's sub-command; ``--preset`` is for those that have any."""
    if not workload.presets:
        return plain
    meanings = "; ".join(f"{name}: {meaning}" for name, meaning in workload.presets.items())
    kind = _options.OneOf(list(workload.presets))
    option = click.Option(["--preset"], type=kind, metavar="NAME", help=f"A named configuration, which --config may change. {meanings}.")
    return WorkloadCommand(workload, params=[*plain.params, option], callback=plain.callback, help=plain.help)


command.wrapped = _with_presets
command = _t1.with_files(command, _file_shown)


def _info(backend: str | None, arch: str | None, selector: str | None) -> DeviceInfo:
    named = None if backend is None else device.backends()[backend]
    if arch is not None:
        if selector is not None or (named is not None and not named.offline):
            raise UsageError("--arch names what a compiler without a device compiles for: leave out --device and --backend opencl")
        return device.datasheet(arch, backend)
    if selector is None and named is not None and named.offline and not any(opened.info.backend == backend for opened in device.devices()):
        raise UsageError(f"there is no {named.title} device here; name an architecture, for example --arch {named.usual}")
    info = device.get(selector or backend).info
    if backend is not None and info.backend != backend:
        raise UsageError(f"{info.id} is a device of {info.backend}, not of {backend}")
    return info


def _subject(workload: Workload, problem: Problem, preset: str | None, pairs: tuple[str, ...], info: DeviceInfo) -> _Subject:
    space = workload.space(problem, info)
    if preset is None:
        chosen = choose(workload, problem, info, known_results()(problem.workload))
        start, why = chosen.config, chosen.explanation
    else:
        start, why = workload.preset(preset, problem), f"the preset {preset}: {workload.presets[preset]}"
    changes = dict(_parameter(space, pair) for pair in pairs)
    config: Config = {**start, **changes}
    reason = space.violated(config)
    if reason is not None:
        raise ArgumentError(f"this configuration is not legal: {reason}")
    config = space.complete(config)
    if changes:
        why = "changed by --config" if preset is None else f"the preset {preset}, changed by --config"
    return _Subject(workload, config, why, info, flat_plan(workload, problem, config, info))


def _parameter(space: ParameterSpace, pair: str) -> tuple[str, Value]:
    name, equals, text = pair.partition("=")
    if not equals:
        raise ArgumentError(f"--config {pair!r} is not NAME=VALUE")
    if name not in space.parameters:
        raise UnknownNameError("parameter", name, space.parameters)
    for value in space.parameters[name]:
        if str(value).lower() == text.lower() or (isinstance(value, bool) and text == str(int(value))):
            return name, value
    raise ArgumentError(f"{name}={text} is not one of {', '.join(map(str, space.parameters[name]))}")


def _text(source: Source, stage: str, info: DeviceInfo) -> str:
    """The text of one source at one stage."""
    if stage == "template":
        return "\n".join([f"// {source.file}", *(f"#define {name} {value}" for name, value in source.defines), source.text])
    if stage == "preprocessed":
        return f"// {source.file}\n{squeeze(preprocess(source.text, source.file, _macros(source), device.target(info).prelude))}"
    if stage == "lowered":
        return device.target(info).lower(source)[0].text
    target = device.target(info, device.backends()[info.backend].assembly)
    return target.assembly(target.compile(*target.lower(source)))


def _macros(source: Source) -> dict[str, str]:
    """The definitions of a text, those among its build options too (``-Dradius=2``)."""
    return dialect.definitions(source.options)[0] | dict(source.defines)


def squeeze(text: str) -> str:
    """The text with at most one empty line in a row."""
    lines: list[str] = []
    for line in map(str.rstrip, text.splitlines()):
        if line or (lines and lines[-1]):
            lines.append(line)
    return "\n".join(lines)


def _parameters(subject: _Subject) -> None:
    """The values of the parameters, each with the workload's explanation."""
    workload, config = subject.workload, subject.config
    meanings = workload.explained(config)
    wide = max(map(len, config)) + 2, max(len(str(value)) for value in config.values()) + 2
    for name, value in config.items():
        line = f"{name:{wide[0]}}{value!s:{wide[1]}}{meanings.get(name, '')}".rstrip()
        click.echo(textwrap.fill(line, _WIDTH, subsequent_indent=" " * sum(wide), break_on_hyphens=False))


def _used(subject: _Subject, target: Target) -> list[tuple[Launch, Resources]]:
    """Each launch with what it takes of the device."""
    binaries = {source: program.build(source, target, cache.default()) for source in _console.track(subject.sources, "compiling")}
    steps = [step for step in subject.plan.steps if isinstance(step, Launch)]
    return [(step, _with_arguments(binaries[step.source].resources.get(step.kernel, Resources()), step)) for step in steps]


def _resources(subject: _Subject, target: Target) -> None:
    used = _used(subject, target)
    columns = reported_columns([resources for _, resources in used])
    rows: Counter[tuple[str, ...]] = Counter()
    for step, resources in used:
        group, grid = ("x".join(map(str, size)) for size in (step.local_size, step.global_size))
        rows[step.kernel, *cells(resources, columns), group, grid] += 1
    titles = ("kernel", *columns, "work-group", "work-items", "launches")
    _console.out.print(_console.table("", titles, [[*row, str(count)] for row, count in rows.items()]))
    if any("?" in row for row in rows):
        _console.err.print("? : this compiler does not say", markup=False)


def _with_arguments(resources: Resources, launch: Launch) -> Resources:
    """The resources with the local memory that the launch passes as an argument, of which a compiler knows nothing."""
    passed = sum(int(arg.value) for arg in launch.args if arg.kind == "local" and arg.value is not None)
    return replace(resources, local_memory=resources.local_memory + passed) if resources.local_memory >= 0 else resources


def _counted(target: Target, texts: Sequence[str]) -> dict[str, dict[str, Counter[str]]]:
    """The instructions of each kernel by family and kind, as they stand in the text: a loop's body counts once."""
    counts: dict[str, dict[str, Counter[str]]] = {}
    for text in texts:
        for instruction in target.instructions(text):
            counts.setdefault(instruction.function, {}).setdefault(instruction.family, Counter())[instruction.kind] += 1
    return counts


def _instructions(target: Target, texts: Sequence[str]) -> None:
    """A line for each family of instructions in each kernel."""
    rows = []
    for kernel, families in _counted(target, texts).items():
        for family, kinds in sorted(families.items(), key=lambda item: -item[1].total()):
            named = ", ".join(f"{count} {kind}" for kind, count in kinds.most_common(_KINDS)) + (", ..." if len(kinds) > _KINDS else "")
            rows.append((kernel, family, named, str(kinds.total())))
    _console.out.print(_console.table("", ("kernel", "family", "kinds", "count"), rows, left=3))
