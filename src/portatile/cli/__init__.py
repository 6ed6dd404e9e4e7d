"""The command line: finds the command files beside this one, runs one, and turns errors into exit codes.

A command is a file with a click command called ``command``; the first sentence of the file is its line in
``portatile --help``, which therefore imports none of them. Files whose name begins with an underscore are no commands.

Exit codes: 0 done; 1 a failure that is not the user's mistake; 2 a mistake that the message says how to mend; 130 interrupted.
"""

from __future__ import annotations

import ast
import errno
import importlib
import os
import pkgutil
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from keyword import iskeyword
from pathlib import Path

import click

from portatile import delays, settings
from portatile.cli._shown import shown
from portatile.errors import PortatileError, UsageError
from portatile.provenance import version
from portatile.user_warnings import in_a_line

_WHOLE = 1000  # characters of a summary; none is as long


class Suggesting(click.Group):
    """A group that suggests the nearest name for a wrong one. ``noun`` and ``plural`` say what its names are."""

    noun = "command"
    plural = "Commands"

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """One entry for each sub-command: its first sentence, whole, where click would cut it off."""
        known = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        rows = [(name, command.get_short_help_str(limit=_WHOLE)) for name, command in known if command is not None]
        if rows:
            with formatter.section(self.plural):
                formatter.write_dl(rows)

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        """Find a command as click does; an unknown name raises with a suggestion and the known names."""
        name = args[0]
        if name.startswith("-") or self.get_command(ctx, name) is not None:
            return super().resolve_command(ctx, args)
        known = self.list_commands(ctx)
        close = get_close_matches(name, known, n=1)
        hint = f" Did you mean '{close[0]}'?" if close else self.elsewhere(name)
        raise click.UsageError(f"No such {self.noun} '{name}'.{hint} There are: {', '.join(known)}.", ctx)

    def elsewhere(self, name: str) -> str:
        """Where else there is what somebody may mean by ``name``, as a sentence behind a space; empty if nowhere."""
        return ""


class Commands(Suggesting):
    """The commands, each imported when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of the command files, sorted."""
        return sorted(spelled(info.name) for info in pkgutil.iter_modules(__path__) if not info.name.startswith("_"))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The ``command`` of the file called ``cmd_name``."""
        if cmd_name not in self.list_commands(ctx):
            return None
        module = importlib.import_module(f"{__name__}.{stem(cmd_name)}")
        command: click.Command = module.command
        return command

    def elsewhere(self, name: str) -> str:
        """The commands that have ``name`` below them."""
        places, ctx = [], click.Context(self)
        for known in self.list_commands(ctx):
            group = self.get_command(ctx, known)
            if isinstance(group, click.Group) and name in group.list_commands(ctx):
                places.append(f"`portatile {known} {name}`")
        return f" There is {' and '.join(places)}." if places else ""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """One line for each command, read from its file without importing it."""
        rows = [(name, opening(name)) for name in self.list_commands(ctx)]
        if rows:
            with formatter.section("Commands"):
                formatter.write_dl(rows)


def spelled(stem: str) -> str:
    """The command of a file: ``compare-strategies`` of compare_strategies.py, ``import`` of import_.py."""
    return stem.rstrip("_").replace("_", "-")


def stem(name: str) -> str:
    """The file of a command, without ``.py``; a command that is a word of Python has an underscore behind it there."""
    return name.replace("-", "_") + ("_" if iskeyword(name) else "")


def opening(name: str) -> str:
    """The first sentence of a command file, without its full stop."""
    path = Path(__file__).with_name(f"{stem(name)}.py")
    text = " ".join((ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").split())
    return text.partition(". ")[0].removesuffix(".")


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120})
@click.version_option(version=version(), prog_name="portatile")
@click.pass_obj
def portatile(begin: Callable[[], object] | None) -> None:
    """One kernel text, every device, at that device's speed.

    \b
    Begin with `portatile doctor`, then with
    `portatile tune gemm -m 1024 -n 1024 -k 1024`.
    """
    if begin is not None:
        begin()


def main(args: Sequence[str] | None = None, begin: Callable[[], object] | None = None) -> int:
    """Run the command line with ``args`` (default: the process's) and return its exit code.

    ``begin`` is called when the command's modules are imported, before it runs. ``PORTATILE_DEBUG=1`` adds the traceback to an error's
    message.
    """
    _open_streams()
    try:
        with _plain_warnings(), delays.listening(_waiting):
            answer = portatile.main(args=None if args is None else list(args), prog_name="portatile", standalone_mode=False, obj=begin)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except UsageError as error:
        return _fail(error, 2)
    except PortatileError as error:
        return _fail(error, 1)
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        return 130
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE):
            return _fail(UsageError("this process may not open so many files; allow more (ulimit -n 256)"), 2, error)
        where = f"{error.filename}: " if error.filename else ""
        return _fail(UsageError(f"{where}{error.strerror or error}; choose another path or fix this one"), 2, error)
    except UnicodeEncodeError as error:
        return _fail(UsageError(f"{error.object!r} is not UTF-8; give names in UTF-8, or set PYTHONUTF8=1"), 2, error)
    except MemoryError as error:
        return _fail(UsageError(f"this needs more memory than is free ({error}); choose smaller sizes"), 2, error)
    return answer if isinstance(answer, int) else 0


def _open_streams() -> None:
    """Discard what is written to a closed standard output or error: ``portatile devices >&-``, or a service without them."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115


@contextmanager
def _plain_warnings() -> Iterator[None]:
    """Print each warning as one line, without its place in the source, which means nothing to a user of a command."""
    usual = warnings.formatwarning
    warnings.formatwarning = lambda message, *rest, **named: shown(in_a_line(message))
    try:
        yield
    finally:
        warnings.formatwarning = usual


def _waiting(notice: str) -> None:
    from portatile.cli import _console  # imports rich, which `portatile --help` does without

    _console.say(notice)


def _fail(error: PortatileError, code: int, cause: BaseException | None = None) -> int:
    if settings.debug():
        traceback.print_exception(cause or error, file=sys.stderr)
    click.echo(shown(f"portatile: {error}"), err=True)
    return code
