"""The form of studies: found by their files, rows on disk as they come, interruptions survived, budgets kept, pages that need nothing."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from portatile.errors import UnknownNameError
from portatile.records import Config, Problem
from portatile.studies import memory
from portatile.studies.framework import discover, gallery, page, table
from portatile.studies.framework.conduct import COMPLETE, INTERRUPTED, OUT_OF_TIME, Conditions, Listener, StudyOutcome, conduct
from portatile.studies.framework.journal import Journal
from portatile.studies.framework.study import EXPERIMENTS, Column, Run, Study, StudyRequest
from support.devices import DEVICES
from support.invented_study import STUDY, Options, Row, asked, breaks_at, forget, measure, measured
from support.trials import DEVICE


@pytest.fixture(autouse=True)
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PORTATILE_DATA_DIR", str(tmp_path / "data"))
    forget()


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
    again = conduct(STUDY, asked())
    assert again.before == 4  # nobody has said that the table was written
    again.written()
    assert conduct(STUDY, asked()).before == 0  # what is complete is measured anew


def test_what_was_left_out_is_measured_when_the_study_goes_on() -> None:
    def hurried(run: Run) -> Iterator[Row]:
        for row in measure(run):
            yield replace(row, seconds=None, status="left out: about 9 s would be too long") if row.size in (2, 4) else row

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


@pytest.mark.parametrize("folder", [True, False])
def test_where_nothing_can_be_kept_a_study_is_measured_with_a_warning(folder: bool, tmp_path: Path) -> None:
    if folder:
        tmp_path /= "a file"
        tmp_path.touch()
    else:
        Journal(STUDY, asked(), folder=tmp_path)._path.mkdir()
    with pytest.warns(RuntimeWarning, match=r"cannot be written \(.*\): .*PORTATILE_DATA_DIR") as warned:
        result = conduct(STUDY, asked(), Conditions(folder=tmp_path))
    assert (result.ended, len(result.rows), len(warned)) == (COMPLETE, 4, 1)


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
    result = conduct(by_trials, asked(), Conditions(seconds=60.0, folder=tmp_path), Listener(say=heard.append))
    assert result.ended == COMPLETE
    result.written()
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


def test_a_page_says_the_answer_and_names_devices_as_people_do() -> None:
    """Ids stay in the command and in the data; chapters of two machines whose ids are equal name their own devices."""
    cuda = replace(DEVICES["gpu"], id="cuda:0", name="NVIDIA H100 80GB HBM3")
    other = replace(cuda, name="NVIDIA H200", id="cuda:0")
    told = replace(
        STUDY, answer=lambda rows: "cuda:0 wins by 10 %", notes=lambda rows: ["cuda:0: it wins; cuda:01 and cuda:0:1 are others", "31.9 us"]
    )
    chapters = [
        StudyOutcome(
            told,
            StudyRequest((SimpleNamespace(info=info),), Options()),  # type: ignore[arg-type]
            [Row("cuda:0", 1, 0.5)],
            COMPLETE,
            0,
            1.0,
            command,
        )
        for info, command in ((cuda, "portatile study invented a --of 1 --device cuda:0"), (other, "portatile study invented a --of 2"))
    ]
    text = page.render(chapters)
    assert text.count("H100 CUDA wins by 10\u00a0%") == 2, "on the card too, and no line ends before the sign"
    assert "H100 CUDA: it wins; cuda:01 and cuda:0:1 are others" in text
    assert '<td class="text">H200 CUDA</td>' in text
    assert "<li>31.9\u00a0µs</li>" in text
    assert "<code>portatile study invented a <span>--of</span> 1 <span>--device</span> cuda:0</code>" in text, (
        "no word breaks at its hyphens"
    )
    assert "Devices: H100 CUDA: NVIDIA H100 80GB HBM3." in text
    assert "<strong>invented a <span>--of</span> 2</strong>" in text
    assert 'id="invented-2"' in text


def test_a_gallery_shares_its_time_and_tells_what_it_left_out() -> None:
    def fail(run: Run) -> Iterator[Row]:
        raise UnknownNameError("thing", "x", ("y",))
        yield

    broken = replace(STUDY, name="broken", measure=fail, minutes=0.1)
    unable = replace(STUDY, name="unable", sample=lambda devices: None)
    files = replace(STUDY, name="files", sample=None)
    result = gallery.gallery([STUDY, broken, unable, files], (), Conditions(seconds=60.0))
    assert [(outcome.study.name, outcome.ended) for outcome in result.outcomes] == [("invented", COMPLETE)]
    result.outcomes[0].written()
    assert [one.name for one in result.skipped] == ["broken", "unable", "files"]
    assert "unknown thing" in result.skipped[0].reason
    assert gallery.gallery([STUDY], (), Conditions(seconds=-1.0)).skipped[0].reason == "the time was over"
    breaks_at.append(2)
    result = gallery.gallery([STUDY, replace(STUDY, name="later", minutes=2.0)], (), Conditions())
    assert result.interrupted
    assert [one.reason for one in result.skipped] == ["not reached"]


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
    assert {row.size: row.status for row in rows} == {10: "ok", 100: "ok", 1000: "left out: 2000 s would be too long"}


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
    assert study.answer([]) == ""


def test_text_stands_left_wherever_its_column_is() -> None:
    shown = (Column("device", "device"), Column("size", "size"), Column("time", "seconds", "s"), Column("", "status"))
    result = table.readable(shown, [Row("x", 1, 0.5), Row("y", 2, None, status="refused")], 3)
    assert (result.left, result.texts) == (1, {0, 3})
    assert [line[3] for line in result.cells] == ["", "ref"]
