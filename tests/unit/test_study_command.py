"""`portatile study`: every kind of file, rows kept when it is interrupted or out of time, mistakes that say what to write."""

from __future__ import annotations

import csv
import errno
import io
import json
import signal
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from portatile import output_files
from portatile.cli import main
from portatile.cli import study as study_command
from portatile.errors import UnknownNameError
from portatile.studies.framework import discover
from portatile.studies.framework.study import Run, Study
from support.invented_study import STUDY, Row, breaks_at, forget, measure, measured
from support.trials import DEVICE


@pytest.fixture(autouse=True)
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PORTATILE_DATA_DIR", str(tmp_path / "data"))
    forget()


@pytest.fixture
def invented(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(discover, "studies", lambda: {"invented": STUDY})


@pytest.mark.usefixtures("invented")
def test_the_command_writes_every_kind(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for kind, begins in ((".csv", "device,"), (".json", "[{"), (".svg", "<svg"), (".html", "<!doctype")):
        path = tmp_path / f"out{kind}"
        assert main(["study", "invented", "--sizes", "1,2", "-o", str(path)]) == 0
        assert path.read_text().startswith(begins)
        assert "Timed: nothing & nobody." in capsys.readouterr().out
    assert main(["study", "invented", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)) == 4
    assert main(["study", "invented", "--csv"]) == 0
    assert len(list(csv.DictReader(io.StringIO(capsys.readouterr().out)))) == 4


@pytest.mark.usefixtures("invented")
def test_the_command_keeps_and_shows_what_it_has(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    breaks_at.append(3)
    path = tmp_path / "out.csv"
    assert main(["study", "invented", "-o", str(path)]) == 130
    shown = capsys.readouterr().out
    assert "interrupted: 2 rows" in shown
    assert "200 ms" in shown
    assert path.read_text().count("\n") == 3
    breaks_at.clear()
    assert main(["study", "invented", "-o", str(path)]) == 0
    assert measured == [1, 2, 3, 4]
    assert path.read_text().count("\n") == 5


@pytest.mark.parametrize("study", [one for one in discover.studies().values() if one.problem == "none"], ids=lambda study: study.name)
def test_every_command_has_one_budget(study: Study) -> None:
    """Its time, or that of its searches."""
    command = study_command._command(study)
    assert ["--budget" in param.opts for param in command.params].count(True) == 1


@pytest.mark.usefixtures("invented")
def test_the_command_ends_in_time(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(run: Run) -> Iterator[Row]:
        for row in measure(run):
            time.sleep(0.01)
            yield row

    monkeypatch.setattr(discover, "studies", lambda: {"invented": replace(STUDY, measure=slow)})
    assert main(["study", "invented", "--budget", "1ms"]) == 0
    assert "out of time: 1 row" in capsys.readouterr().out
    assert main(["study", "invented", "--budget", "10"]) == 2
    assert "is not a time" in capsys.readouterr().err


@pytest.mark.usefixtures("invented")
@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
def test_a_request_to_end_is_an_interruption(name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def ended(run: Run) -> Iterator[Row]:
        for row in measure(run):
            if row.size == 3:
                signal.raise_signal(getattr(signal, name))
            yield row

    monkeypatch.setattr(discover, "studies", lambda: {"invented": replace(STUDY, measure=ended)})
    before = signal.getsignal(getattr(signal, name))
    assert main(["study", "invented"]) == 130
    assert "interrupted: 2 rows" in capsys.readouterr().out
    assert signal.getsignal(getattr(signal, name)) is before


@pytest.mark.usefixtures("invented")
def test_all_studies_are_one_page(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("portatile.cli.study._devices", lambda selectors, usual: (SimpleNamespace(info=DEVICE),))
    assert main(["study", "all", "--budget", "1m", "-o", str(tmp_path / "all.html")]) == 0
    assert "invented" in capsys.readouterr().out
    assert "<svg" in (tmp_path / "all.html").read_text()
    assert main(["study", "all", "-o", str(tmp_path / "all.csv")]) == 2
    count = len(measured)
    (tmp_path / "all.html").write_text("of yesterday")
    with monkeypatch.context() as full:
        full.setattr(output_files, "write", Mock(side_effect=OSError(errno.ENOSPC, "No space left on device")))
        assert main(["study", "all", "-o", str(tmp_path / "all.html")]) == 2
    assert "the same command continues from there" in capsys.readouterr().err
    assert len(measured) == count + 4
    assert main(["study", "all", "-o", str(tmp_path / "all.html")]) == 0
    assert len(measured) == count + 4
    assert "<svg" in (tmp_path / "all.html").read_text()
    assert main(["study", "all", "--budget", "20", "-o", str(tmp_path / "all.html")]) == 2


@pytest.mark.usefixtures("invented")
@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["invented", "--sizes", "big"], "128,256"),
        (["invented", "--word", "c"], "'a', 'b'"),
        (["invented", "-o", "x.txt"], ".html"),
        (["invented", "-o", "/nowhere/x.csv"], "no folder"),
        (["invent"], "Did you mean 'invented'?"),
        ([], "--list"),
    ],
)
def test_mistakes_end_with_2(args: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["study", *args]) == 2
    assert message in " ".join(capsys.readouterr().err.split())


def test_what_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["study", "--list"]) == 0
    shown = capsys.readouterr().out
    for study in discover.studies().values():
        assert study.question in shown
    assert shown.count("experiments in published papers") == 1
    with pytest.raises(UnknownNameError, match="Did you mean 'memory'"):
        discover.get("memori")


def test_an_element_type_is_named_once(recwarn: pytest.WarningsRecorder, capsys: pytest.CaptureFixture[str]) -> None:
    """`study phases` has the option of its own, for when no workload is named."""
    assert main(["study", "phases", "matmul", "--help"]) == 0
    assert capsys.readouterr().out.count("--dtype") == 1
    assert not [warning for warning in recwarn if "more than once" in str(warning.message)]
