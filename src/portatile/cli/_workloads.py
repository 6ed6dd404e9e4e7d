"""Groups with a sub-command for each workload: its sizes, options and dtypes become command-line options. Also the launches of a
configuration."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click

from portatile import flat_plans, workloads
from portatile.cli import Suggesting, _console, _options
from portatile.kernel import PREFIX
from portatile.records import Config, DeviceInfo, Plan, Problem, Value
from portatile.select import resolver
from portatile.store import known_results
from portatile.workload import Workload
from portatile.workloads import precisions

Action = Callable[..., int | None]
_EXAMPLE = 64  # a size that is small enough for every workload


class WorkloadGroup(Suggesting):
    """Calls ``action(problem, **parameters)`` for the workload that the sub-command names."""

    noun = "workload"
    plural = "Workloads"

    def __init__(self, name: str, action: Action, parameters: list[click.Parameter], text: str) -> None:
        super().__init__(name, help=text, subcommand_metavar="WORKLOAD ...")
        self.action, self.parameters = action, parameters
        self.of_file: Callable[[str], click.Command | None] = lambda name: None
        self.wrapped: Callable[[Workload, click.Command], click.Command] = lambda workload, command: command

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse as click does; an option that belongs after the workload gets a message that says so."""
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            if not any(error.option_name in parameter.opts for parameter in self.parameters):
                raise
            raise click.UsageError(
                f"{error.option_name} belongs behind the workload and its sizes, as in: {ctx.command_path} gemm -m 512 -n 512 -k 512 "
                f"{error.option_name} ...",
                ctx,
            ) from None

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        """The sub-command of a file, made by ``of_file``, or of a workload."""
        command = self.of_file(args[0])
        if command is not None:
            return args[0], command, args[1:]
        if args[0].startswith(PREFIX):
            raise click.UsageError(f"{args[0]} is a kernel of your own: use it from Python (portatile.Kernel), or name its T1 file", ctx)
        return super().resolve_command(ctx, [workloads.resolved(args[0]), *args[1:]])

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of all workloads."""
        return sorted(workloads.names())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The sub-command of one workload."""
        if cmd_name not in self.list_commands(ctx):
            return None
        workload = workloads.get(cmd_name)

        def run(**values: Any) -> int | None:
            chosen = {key: values.pop(key) for key in list(values) if key.startswith(("size_", "option_", "element_"))}
            return self.action(_problem(workload, chosen), **values)

        sizes = _problem_options(workload)
        flags = {flag for parameter in sizes for flag in parameter.opts}  # a study that also runs without a problem has its own --dtype
        own = [parameter for parameter in self.parameters if flags.isdisjoint(parameter.opts)]
        sized = WorkloadCommand(workload, params=[*sizes, *own], callback=run, help=_meaning(workload))
        return self.wrapped(workload, sized)


class WorkloadCommand(click.Command):
    """The command of one workload. Where sizes are missing its error lists all of them and their meanings."""

    def __init__(self, workload: Workload, **as_usual: Any) -> None:
        super().__init__(workload.name, **as_usual)
        self.workload = workload

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse as click does, with a clearer message."""
        try:
            return super().parse_args(ctx, args)
        except click.MissingParameter as error:
            if error.param is None or not (error.param.name or "").startswith("size_"):
                raise
            sizes = self.workload.sizes
            meanings = ", ".join(f"{_flag(name)} ({meaning.removesuffix('.')})" for name, meaning in sizes.items())
            example = " ".join(f"{_flag(name)} {_EXAMPLE}" for name in sizes)
            missing = f"{error.param.opts[0]} is missing: {self.name} has the sizes {meanings}."
            raise click.UsageError(f"{missing} For example: {ctx.command_path} {example}", ctx) from None


def per_workload(name: str) -> Callable[[Action], WorkloadGroup]:
    """Make a WorkloadGroup of a function whose first argument is the problem; click's option decorators go below this one."""

    def make(action: Action) -> WorkloadGroup:
        parameters: list[click.Parameter] = list(reversed(getattr(action, "__click_params__", [])))
        return WorkloadGroup(name, action, parameters, action.__doc__ or "")

    return make


def flat_plan(workload: Workload, problem: Problem, config: Config, info: DeviceInfo) -> Plan:
    """The launches of a configuration; problems that it calls use the best configuration known for them."""
    return flat_plans.flatten(workload.plan(problem, config, info), resolver(info, known_results()))


def option_value(workload: Workload, name: str, text: object) -> Value:
    """The value of an option from its text on the command line."""
    return next(value for value in workload.options[name] if _spell(value).lower() == str(text).lower())


def _meaning(workload: Workload) -> str:
    """The workload's docstring without markup: the computation and the meaning of its options."""
    return inspect.cleandoc(type(workload).__doc__ or "").replace("``", "")


def _problem_options(workload: Workload) -> list[click.Parameter]:
    options: list[click.Parameter] = []
    for size, meaning in workload.sizes.items():
        shown = f"{meaning[:1].upper()}{meaning[1:].removesuffix('.')}."
        options.append(click.Option([_flag(size), f"size_{size}"], type=_options.Whole(min=1), required=True, help=shown, metavar="N"))
    dtypes = _options.OneOf(workload.dtypes)
    options.append(
        click.Option(["--dtype", "element_type"], type=dtypes, default=workload.dtypes[0], show_default=True, help="Element type.")
    )
    for option, values in workload.options.items():
        kind, shown = _choice(values)
        flags = [_flag(option), f"option_{option}"]
        options.append(click.Option(flags, type=kind, default=_spell(values[0]), show_default=True, metavar=shown))
    if "precision" not in workload.options and precisions.choices(workload.name):  # another workload forms the product then
        values = (precisions.NATIVE, *precisions.choices(workload.name))
        kind, shown = _choice(values)
        text = "How the product is formed; the default is in its type's own precision."
        options.append(click.Option(["--precision", "element_precision"], type=kind, default=precisions.NATIVE, help=text, metavar=shown))
    return options


def _choice(values: Sequence[Value]) -> tuple[click.ParamType[Any], str]:
    """The click type of an option and its metavar: consecutive whole numbers are a range, not a list."""
    numbers = sorted(value for value in values if isinstance(value, int) and not isinstance(value, bool))
    if len(numbers) == len(values) > 4 and numbers == list(range(numbers[0], numbers[-1] + 1)):
        return _options.Whole(numbers[0], numbers[-1]), "N"
    spelled = [_spell(value) for value in values]
    return _options.OneOf(spelled, case_sensitive=False), f"[{'|'.join(spelled)}]"


def _problem(workload: Workload, chosen: Mapping[str, Any]) -> Problem:
    sizes: dict[str, int] = {}
    options: dict[str, Value] = {}
    for key, value in chosen.items():
        kind, _, name = key.partition("_")
        if kind == "size":
            sizes[name] = value
        elif kind == "option":
            options[name] = option_value(workload, name, value)
    precision = str(chosen.get("element_precision") or options.pop("precision", precisions.NATIVE))
    problem, note = precisions.problem(precision, workload.name, chosen["element_type"], {**options, **sizes})
    if note:
        _console.note(note)
    return problem


def _flag(name: str) -> str:
    return f"-{name}" if len(name) == 1 else f"--{name.replace('_', '-')}"


def _spell(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
