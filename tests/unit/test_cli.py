"""The command line: commands are found, errors become exit codes and one line, names get suggestions."""

from __future__ import annotations

import ast
import inspect
import os
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import pytest
from click.shell_completion import ShellComplete

from portatile import cache, cli, settings, workloads
from portatile.cli import _options, main
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


def every_command(command: click.Command) -> Iterator[click.Command]:
    """A command and all below it."""
    yield command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from every_command(below)


def test_every_command_takes_what_its_options_give() -> None:
    """A function whose argument was renamed, and not its option, fails only when it is called."""
    for command in every_command(cli.portatile):
        if command.callback is not None:
            takes = inspect.signature(command.callback).parameters
            if all(parameter.kind is not parameter.VAR_KEYWORD for parameter in takes.values()):
                gives = {parameter.name for parameter in command.params if parameter.expose_value}
                assert gives <= set(takes), command.name


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


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (FileNotFoundError(2, "No such file or directory", "/nowhere/x"), "/nowhere/x"),
        (MemoryError("Unable to allocate 9 TiB"), "Unable to allocate 9 TiB"),
        (UnicodeEncodeError("utf-8", "\udcc3.cl", 0, 1, "surrogates not allowed"), "UTF-8"),
    ],
)
def test_what_the_system_refuses_is_one_line(
    error: BaseException, said: str, raising: Callable[[BaseException], int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert raising(error) == 2
    shown = capsys.readouterr().err
    assert shown.startswith("portatile: ")
    assert shown.count("\n") == 1
    assert said in shown


@pytest.mark.parametrize("said", ["much", "-1", "nan", "inf", "1e400", " "])
def test_a_setting_that_cannot_be_read_is_one_line(said: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PORTATILE_CACHE_MAX_MB", said)
    assert main(["cache", "info"]) == 2
    shown = capsys.readouterr().err
    assert shown == f"portatile: PORTATILE_CACHE_MAX_MB={said!r} is not a number of megabytes; write for example 512\n"


def test_settings_that_say_nothing_and_folders_that_no_shell_expanded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PORTATILE_CACHE_MAX_MB", "")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PORTATILE_CACHE_DIR", "~/kept")
    monkeypatch.setenv("PORTATILE_DATA_DIR", "~nobody-of-that-name/kept")
    loaded = settings.load()
    assert loaded.cache_max_bytes == 512 * 2**20
    assert loaded.cache_dir == tmp_path / "kept"
    assert loaded.data_dir == Path("~nobody-of-that-name/kept").absolute()


def test_standard_output_may_be_closed(tmp_path: Path) -> None:
    env = {**os.environ, "PORTATILE_CACHE_DIR": str(tmp_path)}
    for redirected in (">&-", ">&- 2>&-", "<&- >&- 2>&-"):
        command = f"exec {sys.executable} -m portatile cache info {redirected}"
        completed = subprocess.run(["sh", "-c", command], env=env, capture_output=True, text=True, timeout=60)
        assert (completed.returncode, completed.stderr) == (0, ""), redirected


def test_entries_that_stay_are_told(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PORTATILE_CACHE_DIR", str(tmp_path))
    cache.default().put("0" * 32, b"kernel")
    monkeypatch.setattr(Path, "unlink", lambda self, missing_ok=False: (_ for _ in ()).throw(PermissionError(13, "no")))
    assert main(["cache", "clear"]) == 2
    assert "cannot be removed" in capsys.readouterr().err


def test_a_warning_is_one_line_without_a_place_in_the_source(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def warn() -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.showwarning = usual
            warnings.warn("the store cannot be written", RuntimeWarning, stacklevel=1)

    def usual(message: Warning | str, category: type[Warning], name: str, line: int, *rest: object) -> None:
        print(warnings.formatwarning(message, category, name, line), end="")

    monkeypatch.setattr(cli.Commands, "list_commands", lambda self, ctx: ["warns"])
    monkeypatch.setattr(cli.Commands, "get_command", lambda self, ctx, name: click.Command("warns", callback=warn))
    before = warnings.formatwarning
    assert main(["warns"]) == 0
    assert capsys.readouterr().out == "portatile: warning: the store cannot be written\n"
    assert warnings.formatwarning is before


def test_a_bug_is_not_hidden(raising: Callable[[BaseException], int]) -> None:
    with pytest.raises(ZeroDivisionError):
        raising(ZeroDivisionError())


@pytest.mark.parametrize(
    ("args", "hint"),
    [
        (["tnue"], "Did you mean 'tune'?"),
        (["tune", "gemn"], "Did you mean 'gemm'?"),
        (["tune", "gemm", "--buget", "3"], "--budget"),
        (["cache", "cleer"], "Did you mean 'clear'?"),
        (["show", "gemm", "-m", "1", "-n", "1", "-k", "1", "--stage", "asembly"], "Did you mean 'assembly'?"),
        (["tune", "gemm", "-m", "ten"], "'ten' is not a valid integer."),
        (["tune", "mine.py"], "mine.py is Python: run it"),
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


@pytest.mark.parametrize("words", [["study", "map", "--budget", "4s"], ["show", "--stage", "parameters", "gemm"]])
def test_options_belong_behind_the_workload(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    assert f"{words[-2] if words[0] == 'study' else words[1]} belongs behind the workload" in capsys.readouterr().err


def test_a_workloads_sizes_and_options_are_options(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tune", "gemm", "--help"]) == 0
    shown = capsys.readouterr().out
    assert all(option in shown for option in ("-m ", "-n ", "-k ", "--dtype", "--trans-a", "--trans-b", "--budget", "--json"))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["gemm", "-m", "8", "-n", "8", "-k", "8", "--precision", "emulated", "--dtype", "float64"], "gemm_residues for "),
        (["gemm", "-m", "8", "-n", "8", "-k", "8", "--precision", "emulated", "--dtype", "float16"], "no emulated product of float16"),
        (["syrk", "-n", "8", "-k", "8", "--precision", "reproducible"], "syrk for "),
        (["trsm", "-m", "8", "-n", "8", "--precision", "tf32", "--dtype", "float64"], "is for products of float32; these are of float64"),
        (["trsm", "-m", "8", "-n", "8", "--precision", "reproducible"], "not one of 'native', 'tf32', '3m', 'emulated'"),
    ],
)
def test_a_precision_is_an_option(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", *words, "--stage", "parameters"]) == (2 if "not one of" in said or "these are" in said else 0)
    assert said in capsys.readouterr().err


def test_an_option_of_many_whole_numbers_is_a_range(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tune", "convolution", "--help"]) == 0
    shown = capsys.readouterr().out
    assert "1<=x<=64" in shown
    assert "-63<=x<=63" in shown
    assert "|33|" not in shown
    assert main(["tune", "convolution", "-n", "8", "--ndat", "8", "--taps", "65"]) == 2
    assert "65 is not in the range 1<=x<=64" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["-m", "3"], "the file says the sizes"),
        (["--replay", "x.json"], "--replay does not go with --shapes"),
        (["--budget", "1"], "it has 2 numbers; a line is: m n k"),
        (["--precision", "emulated"], "it has 2 numbers; a line is: m n k"),
        (["--precision", "exact"], "'exact' is not one of 'native', 'tf32', '3m', 'emulated', 'reproducible'"),
    ],
)
def test_many_shapes_say_what_is_wrong(words: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "shapes.txt").write_text("1 2\n")
    assert main(["tune", "gemm", "--shapes", str(tmp_path / "shapes.txt"), *words]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("command", ["results", "report"])
def test_a_store_that_is_not_there_is_not_made(command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, "--store", str(tmp_path / "none.sqlite")]) == 2
    assert "there is no result store" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_results_take_the_workload_as_a_word(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["results", "gemm"]) == 0
    short = capsys.readouterr().out
    assert main(["results", "--workload", "gemm"]) == 0
    assert capsys.readouterr().out == short
    assert main(["results", "gem"]) == 2
    assert "Did you mean 'gemm'?" in capsys.readouterr().err
    assert main(["results", "gemm", "--workload", "stream"]) == 2
    assert "two workloads" in capsys.readouterr().err


@pytest.mark.parametrize("args", [["-k", "99999999999999999999"], ["-k", "3", "--seed", "-1"]])
def test_numbers_that_nothing_can_be_are_mistakes(args: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tune", "gemm", "-m", "3", "-n", "3", *args]) == 2
    shown = capsys.readouterr().err
    assert "larger than any memory" in shown or "--seed" in shown


def test_a_missing_size_is_a_mistake(capsys: pytest.CaptureFixture[str]) -> None:
    """All sizes are told, with what they mean and a line that can be typed."""
    for command in ("tune", "show"):
        assert main([command, "gemm", "-m", "8", "-n", "8"]) == 2
        shown = capsys.readouterr().err
        assert "-k is missing: gemm has the sizes -m (rows of C), -n (columns of C), -k (terms of each sum)" in shown
        assert f"portatile {command} gemm -m 64 -n 64 -k 64" in shown


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_command_prints_no_more_than_it_is_told(path: Path) -> None:
    """Nothing runs when a command's file is imported: its body only defines."""
    allowed = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef, ast.Assign, ast.AnnAssign)
    for node in ast.parse(path.read_text()).body[1:]:
        assert isinstance(node, allowed), f"{path.name}:{node.lineno} runs when imported"


@pytest.mark.parametrize("command", [["tune", "gemm", "--shapes", "-"], ["tune", "--replay", "x.json"], ["results"], ["cache", "warm"]])
def test_a_second_device_is_refused(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*command, "--device", "one", "--device", "two"]) == 2
    assert "--device is given 2 times" in capsys.readouterr().err


def test_a_routine_may_stand_for_its_workload(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tune", "trsm", "-m", "4"]) == 2
    assert "triangular has the sizes" in capsys.readouterr().err
    assert workloads.get("trsm").name == workloads.resolved("trsm") == "triangular"
    assert workloads.resolved("tram") == "tram"
    assert "trsm" not in workloads.names()


@pytest.mark.parametrize(
    ("words", "known"),
    [
        (["tune", "gemm_"], {"gemm_batched", "gemm_epilogue"}),
        (["show", "gemm", "--stage", "p"], {"parameters", "preprocessed", "ptx"}),
        (["tune", "gemm", "--strategy", "ge"], {"genetic"}),
    ],
)
def test_shells_complete_words(words: list[str], known: set[str]) -> None:
    *before, begun = words
    offered = ShellComplete(cli.portatile, {}, "portatile", "_PORTATILE_COMPLETE").get_completions(before, begun)
    assert known <= {item.value for item in offered}


@pytest.mark.parametrize("command", ["tune", "show"])
def test_a_text_is_no_workload(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, "scan.cl"]) == 2
    error = capsys.readouterr().err
    assert "scan.cl is a kernel's text" in error
    assert "T1 file" in error


@pytest.mark.parametrize(("name", "said"), [("gap", "`portatile study gap`"), ("gemm", "`portatile show gemm` and `portatile tune gemm`")])
def test_a_name_of_another_group_is_led_there(name: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([name]) == 2
    assert f"No such command '{name}'. There is {said}. There are: bench," in capsys.readouterr().err.replace("\n", " ")


@pytest.mark.parametrize(("text", "seconds"), [("90", 90.0), ("1.5", 1.5), ("90s", 90.0), ("2m", 120.0), ("300ms", 0.3), ("1e2", 100.0)])
def test_times_may_have_a_unit(text: str, seconds: float) -> None:
    assert _options.Seconds(min=0).convert(text, None, None) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["soon", "nan", "-3s", "5days", ""])
def test_what_is_no_time_is_told(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["watch", "--wait", text]) == 2
    assert "write for example 90s or 5m" in " ".join(capsys.readouterr().err.split())
