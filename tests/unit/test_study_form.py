"""The form of studies: found by their files, rows on disk as they come, interruptions survived, budgets kept, pages that need nothing."""

from __future__ import annotations

import csv
import io
import json
import signal
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from portatile.cli import main
from portatile.cli import study as study_command
from portatile.errors import UnknownNameError, UsageError
from portatile.figures.bars import BarChart
from portatile.records import Config, Problem, to_json
from portatile.studies import memory, strategies
from portatile.studies.form import discover, gallery, page, table
from portatile.studies.form.conduct import COMPLETE, INTERRUPTED, OUT_OF_TIME, Conditions, Listener, conduct
from portatile.studies.form.journal import Journal
from portatile.studies.form.study import EXPERIMENTS, Asked, Column, Option, Run, Study, option
from support.recordings import recorded
from support.trials import DEVICE


@dataclass(frozen=True)
class Row:
    device: str
    size: int
    seconds: float | None
    share: float | None = None
    status: str = "ok"


@dataclass(frozen=True)
class Options:
    sizes: tuple[int, ...] = option((1, 2, 3, 4), "Sizes.")
    word: str = option("a", Option("A word.", choices=("a", "b")))


measured: list[int] = []
breaks_at: list[int] = []


def measure(run: Run) -> Iterator[Row]:
    run.expect(len(run.options.sizes))
    for size in run.options.sizes:
        row = Row("x", size, None)
        if run.known(row):
            continue
        if size in breaks_at:
            raise KeyboardInterrupt
        measured.append(size)
        yield replace(row, seconds=size / 10)


def finish(rows: Sequence[Row]) -> list[Row]:
    best = min((row.seconds or 1.0 for row in rows), default=1.0)
    return [replace(row, share=best / (row.seconds or 1.0)) for row in rows]


def figures(rows: Sequence[Row]) -> list[BarChart]:
    values = tuple((row.seconds,) for row in rows)
    return [BarChart("Bars", "said", "time", "s", tuple(str(row.size) for row in rows), ("t",), values)]


STUDY = Study(
    name="invented",
    answers=("D0.0",),
    question="Is <this> a question?",
    minutes=1.0,
    timed="nothing & nobody.",
    row=Row,
    key=("device", "size"),
    columns=(Column("device", "device"), Column("size", "size"), Column("time", "seconds", "s"), Column("", "status")),
    measure=measure,
    figures=figures,
    options=Options,
    finish=finish,
    devices="none",
    sample=lambda devices: Asked((), Options()),
)


@pytest.fixture(autouse=True)
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PORTATILE_DATA_DIR", str(tmp_path / "data"))
    measured.clear()
    breaks_at.clear()


def asked(**changes: Any) -> Asked:
    return Asked((), replace(Options(), **changes))


def test_a_study_that_is_interrupted_goes_on() -> None:
    breaks_at.append(3)
    first = conduct(STUDY, asked())
    assert (first.ended, [row.size for row in first.rows], first.before) == (INTERRUPTED, [1, 2], 0)
    assert [row.share for row in first.rows] == [1.0, 0.5]
    breaks_at.clear()
    heard: list[str] = []
    counted: list[int] = []
    second = conduct(STUDY, asked(), listener=Listener(counted.append, lambda: counted.append(1), heard.append))
    assert (second.ended, [row.size for row in second.rows], second.before) == (COMPLETE, [1, 2, 3, 4], 2)
    assert measured == [1, 2, 3, 4]
    assert counted == [4, 1, 1, 1, 1]
    assert "--fresh" in heard[0]
    assert conduct(STUDY, asked()).before == 0  # what is complete is measured anew


def test_what_was_left_out_is_measured_when_the_study_goes_on() -> None:
    def hurried(run: Run) -> Iterator[Row]:
        for row in measure(run):
            yield replace(row, seconds=None, status="left out: about 9 s are too long") if row.size in (2, 4) else row

    first = conduct(replace(STUDY, measure=hurried), asked())
    assert (first.ended, [row.status[:8] for row in first.rows]) == (OUT_OF_TIME, ["ok", "left out", "ok", "left out"])
    second = conduct(STUDY, asked())
    assert (second.ended, second.before, sorted(row.size for row in second.rows)) == (COMPLETE, 2, [1, 2, 3, 4])
    assert {row.status for row in second.rows} == {"ok"}


def test_a_killed_study_leaves_its_rows() -> None:
    """Nothing is told to a generator that a killed process held: the rows are there all the same."""
    process = STUDY.measure(Run((), Options()))
    journal = Journal(STUDY, asked())
    for _ in range(2):
        journal.add(next(process))
    with journal._path.open("ab") as file:
        file.write(b'{"device":"x","size":3,"sec')  # the last line was under way
    measured.clear()
    assert [row.size for row in conduct(STUDY, asked()).rows] == [1, 2, 3, 4]
    assert measured == [3, 4]


def test_another_question_or_fresh_starts_again() -> None:
    breaks_at.append(3)
    conduct(STUDY, asked())
    assert conduct(STUDY, asked(word="b")).before == 0
    assert conduct(STUDY, asked(), Conditions(fresh=True)).before == 0
    assert measured == [1, 2, 1, 2, 1, 2]


def test_a_study_ends_with_its_time(tmp_path: Path) -> None:
    slow = replace(STUDY, measure=lambda run: (time.sleep(0.02) or row for row in measure(run)))
    result = conduct(slow, asked(), Conditions(seconds=0.01, folder=tmp_path))
    assert (result.ended, len(result.rows)) == (OUT_OF_TIME, 1)
    assert len(conduct(slow, asked(), Conditions(folder=tmp_path)).rows) == 4


def test_a_study_of_trials_gives_all_its_rows_when_its_time_is_over(tmp_path: Path) -> None:
    def late(run: Run) -> Iterator[Row]:
        assert run.trials is not None
        assert run.seconds_left is not None
        run.trials.touch()
        time.sleep(0.02)
        yield from measure(run)

    by_trials = replace(STUDY, measure=late, by_trials=True)
    result = conduct(by_trials, asked(), Conditions(seconds=0.01, folder=tmp_path))
    assert (result.ended, len(result.rows)) == (OUT_OF_TIME, 4)
    heard: list[str] = []
    assert conduct(by_trials, asked(), Conditions(seconds=60.0, folder=tmp_path), Listener(say=heard.append)).ended == COMPLETE
    assert "--fresh" in heard[0]
    assert list(tmp_path.iterdir()) == []


def test_tables() -> None:
    rows = [Row("x", 1, 0.5), Row("y", 20, None, status="too large\nby far")]
    assert table.columns(Row) == ("device", "size", "seconds", "share", "status")
    assert table.to_csv(Row, rows).splitlines()[2].startswith("y,20,,,")
    shown = table.readable(STUDY.columns, rows)
    assert shown.cells == (("x", "1", "500 ms", ""), ("y", "20", "", "too large"))
    assert (shown.headings, shown.left) == (("device", "size", "time", ""), 1)
    assert table.readable(STUDY.columns, rows[:1]).headings == ("device", "size", "time")


class _Tags(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))


def test_the_page_needs_nothing_else() -> None:
    result = conduct(STUDY, asked())
    skipped = [page.Skipped("absent", "What?", "no <device>")]
    text = page.render([result, result], skipped)
    assert "Is &lt;this&gt; a question?" in text
    assert text.count(EXPERIMENTS) == 1
    assert text.index(EXPERIMENTS) < text.index("D0.0"), "said before the first number"
    assert "nothing &amp; nobody." in text
    assert "no &lt;device&gt;" in text
    tags = _Tags(text).seen
    assert sum(tag == "svg" for tag, _ in tags) == 4  # each study's figure, and the first again on its card
    assert sum(tag == "svg" for tag, _ in _Tags(page.render([result])).seen) == 1
    for _, attrs in tags:
        assert all((attrs.get(name) or "data:").startswith(("data:", "#")) for name in ("src", "href"))
    link = next(attrs["href"] for _, attrs in tags if attrs.get("download") == "invented.csv")
    assert link is not None
    assert link.count("%0A") == 5


def test_a_gallery_shares_its_time_and_tells_what_it_left_out() -> None:
    def fail(run: Run) -> Iterator[Row]:
        raise UnknownNameError("thing", "x", ("y",))
        yield

    broken = replace(STUDY, name="broken", measure=fail, minutes=0.1)
    unable = replace(STUDY, name="unable", sample=lambda devices: None)
    files = replace(STUDY, name="files", sample=None)
    result = gallery.gallery([STUDY, broken, unable, files], (), Conditions(seconds=60.0))
    assert [(outcome.study.name, outcome.ended) for outcome in result.outcomes] == [("invented", COMPLETE)]
    assert [one.name for one in result.skipped] == ["broken", "unable", "files"]
    assert "unknown thing" in result.skipped[0].reason
    assert gallery.gallery([STUDY], (), Conditions(seconds=-1.0)).skipped[0].reason == "the time was over"
    breaks_at.append(2)
    result = gallery.gallery([STUDY, replace(STUDY, name="later", minutes=2.0)], (), Conditions())
    assert result.interrupted
    assert [one.reason for one in result.skipped] == ["not reached"]


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
    assert "is no time" in capsys.readouterr().err


def test_a_product_that_would_take_longer_than_is_left_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a smaller one of the same kernel on the same device; what is not known is tried."""

    def product(device: Any, problem: Problem, config: Config, repeat: int) -> memory.MemoryRow:
        row = memory._blank(DEVICE, problem, config)
        return replace(row, kernel=1e-6 * problem.sizes["m"] ** 3, status="ok")

    monkeypatch.setattr(memory, "product", product)
    device: Any = SimpleNamespace(info=DEVICE)
    run = Run((device,), memory.MemoryRequest((10, 100, 1000), (4, 8), repeat=1), until=time.monotonic() + 600)
    rows = [row for row in memory.measure(replace(run, known=lambda row: row.device == "host")) if row.algorithm != "sequential"]
    assert [(row.size, row.block) for row in rows[:4]] == [(10, 8), (10, 8), (10, 4), (10, 4)]
    assert {row.size: row.status for row in rows} == {10: "ok", 100: "ok", 1000: "left out: 2000 s are too long"}


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


@pytest.mark.parametrize("study", discover.studies().values(), ids=lambda study: study.name)
def test_every_study_is_whole(study: Study) -> None:
    names = table.columns(study.row)
    assert set(study.key) <= set(names)
    assert {column.name for column in study.columns} <= set(names)
    assert study.question.endswith("?")
    assert study.timed.endswith(".")
    assert study.answers
    study.options()  # every option has a default
    assert list(study.figures([])) == []
    assert list(study.finish([])) == []


def test_the_curves_of_strategies_are_read_where_places_double() -> None:
    rows = [
        strategies.StrategiesRow("r", name, "evaluations", float(place), 0.1, 0.2, 0.3, to_95, None, score, 0.0)
        for name, score, to_95 in (("slow", None, None), ("quick", 0.5, 7.0))
        for place in range(1, 11)
    ]
    assert [row.place for row in strategies.few(rows) if row.strategy == "slow"] == [1.0, 2.0, 4.0, 8.0, 10.0]
    assert strategies.notes(rows)[0].endswith("quick (7), slow (never)")
    assert "rounding allows" in table.legend((Column("error", "place"), Column("error", "error")), [SimpleNamespace(error=0.5)])
    assert table.legend((Column("error", "error"),), [SimpleNamespace(error=None)]) == ""


def test_recordings_without_a_valid_trial_are_left_out(tmp_path: Path) -> None:
    problem = Problem("matmul", {"m": 8, "n": 8, "k": 8}, "float32", {}, {})
    broken = [replace(trial, problem=problem, status="crash", samples=()) for trial in recorded()]
    file = tmp_path / "trials.json"
    said: list[str] = []
    file.write_bytes(to_json([*broken, *recorded()]))
    options = strategies.StrategiesOptions(files=(file,), strategies="random", repeats=1, budget="5")
    assert {row.strategy for row in strategies.measure(Run((), options, say=said.append))} == {"random"}
    (left_out,) = (line for line in said if line.startswith("left out"))
    assert left_out.startswith("left out matmul m=8 n=8 k=8")
    assert left_out.endswith("none of its 60 configurations is valid")
    file.write_bytes(to_json(broken))
    with pytest.raises(UsageError, match=r"no recorded configuration in .* is valid"):
        list(strategies.measure(Run((), options)))


def test_text_stands_left_wherever_its_column_is() -> None:
    shown = (Column("device", "device"), Column("size", "size"), Column("time", "seconds", "s"), Column("", "status"))
    result = table.readable(shown, [Row("x", 1, 0.5), Row("y", 2, None, status="refused")], 3)
    assert (result.left, result.texts) == (1, {0, 3})
    assert [line[3] for line in result.cells] == ["", "ref"]


def test_an_element_type_is_named_once(recwarn: pytest.WarningsRecorder, capsys: pytest.CaptureFixture[str]) -> None:
    """`study phases` has the option of its own, for when no workload is named."""
    assert main(["study", "phases", "matmul", "--help"]) == 0
    assert capsys.readouterr().out.count("--dtype") == 1
    assert not [warning for warning in recwarn if "more than once" in str(warning.message)]
