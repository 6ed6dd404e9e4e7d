"""The command line: commands are found, errors become exit codes and one line, names get suggestions."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path

import click
import pytest

from portatile import cli, workloads
from portatile.cli import main
from portatile.errors import CompileError, DeviceNotFoundError, PortatileError

FOLDER = Path(cli.__file__).parent
FILES = sorted(path for path in FOLDER.glob("*.py") if not path.name.startswith("_"))


@pytest.fixture
def raising(monkeypatch: pytest.MonkeyPatch) -> Callable[[BaseException], int]:
    """Runs `portatile broken`, a command that raises what it is given."""

    def run(error: BaseException) -> int:
        def fail() -> None:
            raise error

        monkeypatch.setattr(cli.Commands, "list_commands", lambda self, ctx: ["broken"])
        monkeypatch.setattr(cli.Commands, "get_command", lambda self, ctx, name: click.Command("broken", callback=fail))
        return main(["broken"])

    return run


def test_every_command_file_has_a_command_and_a_line_in_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    shown = capsys.readouterr().out
    context = click.Context(cli.portatile)
    for path in FILES:
        command = cli.portatile.get_command(context, cli.spelled(path.stem))
        assert isinstance(command, click.Command)
        assert cli.spelled(path.stem) in shown
        first = cli.opening(path.stem).split()
        assert first, f"{path.name} does not open with a sentence"
        assert first[0] in shown


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_command_answers_help(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([cli.spelled(path.stem), "--help"]) == 0
    assert "Usage: portatile" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("error", "code"),
    [(DeviceNotFoundError("no such device; there is: x"), 2), (CompileError("bad kernel"), 1), (PortatileError("failed"), 1)],
)
def test_errors_become_codes_and_a_line(
    error: PortatileError, code: int, raising: Callable[[BaseException], int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert raising(error) == code
    shown = capsys.readouterr()
    assert shown.err == f"portatile: {error}\n"
    assert shown.out == ""


def test_debug_shows_the_traceback(
    raising: Callable[[BaseException], int], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PORTATILE_DEBUG", "1")
    assert raising(CompileError("bad kernel")) == 1
    assert "Traceback" in capsys.readouterr().err


def test_an_interrupt_is_130(raising: Callable[[BaseException], int], capsys: pytest.CaptureFixture[str]) -> None:
    assert raising(KeyboardInterrupt()) == 130
    assert "interrupted" in capsys.readouterr().err


def test_a_bug_is_not_hidden(raising: Callable[[BaseException], int]) -> None:
    with pytest.raises(ZeroDivisionError):
        raising(ZeroDivisionError())


@pytest.mark.parametrize(
    ("args", "hint"),
    [
        (["tnue"], "Did you mean 'tune'?"),
        (["tune", "gemmm"], "Did you mean 'gemm'?"),
        (["tune", "gemm", "--buget", "3"], "--budget"),
        (["cache", "cleer"], "Did you mean 'clear'?"),
    ],
)
def test_wrong_names_get_suggestions(args: list[str], hint: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(args) == 2
    assert hint in capsys.readouterr().err


def test_tune_and_show_have_a_sub_command_for_each_workload(capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("tune", "show"):
        assert main([command, "--help"]) == 0
        shown = capsys.readouterr().out
        assert all(name in shown for name in workloads.names())


def test_a_workloads_sizes_and_options_are_options(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tune", "gemm", "--help"]) == 0
    shown = capsys.readouterr().out
    assert all(option in shown for option in ("-m ", "-n ", "-k ", "--dtype", "--trans-a", "--trans-b", "--budget", "--json"))


def test_a_missing_size_is_a_mistake(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tune", "gemm", "-m", "8", "-n", "8"]) == 2
    assert "'-k'" in capsys.readouterr().err


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_command_prints_no_more_than_it_is_told(path: Path) -> None:
    """Nothing runs when a command's file is imported: its body only defines."""
    allowed = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef, ast.Assign, ast.AnnAssign)
    for node in ast.parse(path.read_text()).body[1:]:
        assert isinstance(node, allowed), f"{path.name}:{node.lineno} runs when imported"
