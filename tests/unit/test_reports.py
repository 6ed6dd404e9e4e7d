"""The report without a browser: tables that are true, a page that is well-formed, closed, escaped and accessible."""

from __future__ import annotations

import base64
import csv
import io
import json
import re
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import pytest

from portatile import cli, flat_plans, reports, workloads
from portatile.errors import UnknownNameError, UsageError
from portatile.figures import quantities, svg
from portatile.records import canonical
from portatile.reports import page
from portatile.reports.groups import Group, gather
from portatile.reports.write import Selection, report, select
from support import reporting

pytestmark = pytest.mark.usefixtures("own_directories")

VOID = {"meta", "link", "img", "input"}
FOLDER = Path(reports.__file__).parent


@pytest.fixture(scope="module")
def trials() -> list[reporting.Trial]:
    return reporting.everything(150)


@pytest.fixture(scope="module")
def groups(trials: list[reporting.Trial]) -> list[Group]:
    return gather(trials)


@pytest.fixture(scope="module")
def html(groups: list[Group]) -> str:
    return page.render(groups, lambda workload: [])


class Reader(HTMLParser):
    """Reads the page and complains about what does not nest."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.texts: dict[str, list[str]] = {}
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        assert len(set(names)) == len(names), f"{tag} repeats an attribute"
        self.tags.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        assert self.open
        assert self.open[-1] == tag, f"</{tag}> in <{self.open[-1]}> at {self.getpos()}"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        if self.open:
            self.texts.setdefault(self.open[-1], []).append(data)

    def all(self, tag: str) -> list[dict[str, str]]:
        return [attrs for name, attrs in self.tags if name == tag]


@pytest.fixture(scope="module")
def read(html: str) -> Reader:
    return Reader(html)


def link(read: Reader, name: str) -> str:
    """What the download called ``name`` holds."""
    (found,) = (attrs["href"] for attrs in read.all("a") if attrs.get("download") == name)
    head, _, data = found.partition(",")
    assert head.endswith(";base64")
    return base64.b64decode(data).decode()


# The data behind the figures


def test_every_csv_holds_what_its_figure_shows(read: Reader, groups: list[Group]) -> None:
    group = groups[0]
    rows = list(csv.DictReader(io.StringIO(link(read, "convolution-n256-ndat64-float32-trials.csv"))))
    assert len(rows) == len(group.trials)
    for row, step in zip(rows, group.steps, strict=True):
        assert row["status"] == step.trial.status
        assert row["seconds_per_run"] == ("" if step.trial.status != "ok" else repr(step.trial.median))
        assert row["WINDOW"] == str(step.trial.config["WINDOW"])
        assert row["OVERLAY"] == str(step.trial.config["OVERLAY"]).lower()
    shares = list(csv.DictReader(io.StringIO(link(read, "convolution-n256-ndat64-float32-importance.csv"))))
    assert shares[0]["parameter"] == "WINDOW"
    values = list(csv.DictReader(io.StringIO(link(read, "convolution-n256-ndat64-float32-effects.csv"))))
    assert sum(int(row["valid"]) for row in values if row["parameter"] == "WINDOW") == len(group.ranked)
    failures = list(csv.DictReader(io.StringIO(link(read, "convolution-n256-ndat64-float32-failures.csv"))))
    assert sum(int(row["count"]) for row in failures) == group.failed
    assert all("<script>" in row["message"] for row in failures)
    best = list(csv.DictReader(io.StringIO(link(read, "convolution-n256-ndat64-float32-best.csv"))))
    assert len(best) == len(group.ranked)
    summary = list(csv.DictReader(io.StringIO(link(read, "summary.csv"))))
    assert [row["workload"] for row in summary] == [group.problem.workload for group in groups]


def test_the_json_holds_every_trial(read: Reader, groups: list[Group]) -> None:
    document = json.loads(link(read, "trials.json"))
    assert len(document["devices"]) == 1
    assert len(document["problems"]) == len(groups)
    told = [trial for group in groups for trial in group.trials]
    assert len(document["trials"]) == len(told)
    for row, trial in zip(document["trials"], told, strict=True):
        assert document["problems"][row["problem"]]["workload"] == trial.problem.workload
        assert row["samples"] == list(trial.samples)
        assert row["config"] == trial.config


# The page


def test_the_page_needs_nothing_else(html: str, read: Reader) -> None:
    for tag, attrs in read.tags:
        for name in ("src", "href", "srcset", "data", "action", "poster", "xlink:href"):
            assert name not in attrs or attrs[name].startswith(("data:", "#")), f"<{tag} {name}={attrs[name][:60]}>"
        assert "style" not in attrs
        assert not any(name.startswith("on") for name in attrs)
    text = svg.style() + page._file("page.css") + page._file("page.js")
    assert not re.search(r"url\(|@import|https?:|fetch\(|XMLHttpRequest|import\(", text)
    assert "http:" not in html
    assert "https:" not in html
    (policy,) = (attrs["content"] for attrs in read.all("meta") if "content" in attrs and "default-src" in attrs["content"])
    assert policy.startswith("default-src 'none'")


def test_text_does_not_break_out(html: str, read: Reader) -> None:
    assert len(read.all("script")) == 2  # the sorting of tables, and the page's own
    assert read.all("img") == read.all("i") == read.all("b") == read.all("u") == read.all("em")[1:] == []
    assert any(reporting.HOSTILE in text for text in read.texts["pre"])  # and yet it can be read
    assert "document.title='broken'" not in html.replace("&#39;", "´")


def test_headings_are_in_order(read: Reader) -> None:
    levels = [int(tag[1]) for tag, _ in read.tags if re.fullmatch(r"h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(later - level <= 1 for level, later in pairwise(levels))


def test_ids_are_unique_and_references_lead_somewhere(read: Reader) -> None:
    ids = [attrs["id"] for _, attrs in read.tags if "id" in attrs]
    assert len(ids) == len(set(ids))
    for _, attrs in read.tags:
        for name in ("aria-labelledby", "aria-describedby"):
            assert set(attrs.get(name, "").split()) <= set(ids)
        if attrs.get("href", "").startswith("#"):
            assert attrs["href"][1:] in ids


def test_every_figure_speaks(read: Reader) -> None:
    charts = [attrs for attrs in read.all("svg") if attrs.get("class") == "chart"]
    assert len(charts) == len(read.all("figure")) >= 12
    assert all(attrs["role"] == "group" and attrs["aria-labelledby"] and attrs["aria-describedby"] for attrs in charts)
    assert all(attrs["aria-hidden"] == "true" for attrs in read.all("svg") if attrs.get("class") != "chart")
    assert all(text.strip() for text in read.texts["desc"])
    marks = [attrs for _, attrs in read.tags if attrs.get("class", "").startswith("mark")]
    assert marks
    assert all(attrs["tabindex"] == "0" and (attrs.get("role") == "img" or attrs["href"].startswith("#problem-")) for attrs in marks)


def test_tables_have_captions_and_scopes(read: Reader) -> None:
    assert len(read.all("caption")) == len(read.all("table")) >= 4
    assert all(attrs.get("scope") in ("col", "row") for attrs in read.all("th"))


def test_landmarks_and_language(read: Reader) -> None:
    assert read.all("html")[0]["lang"] == "en"
    assert [len(read.all(tag)) for tag in ("header", "main", "footer")] == [1, 1, 1]
    assert next(attrs for attrs in read.all("a"))["href"] == "#content"
    assert all(
        "tabindex" in attrs and attrs["role"] == "region" and attrs["aria-label"]
        for attrs in read.all("div")
        if attrs.get("class") == "wide"
    )


def test_the_kernel_text_of_the_winner_is_there(read: Reader, groups: list[Group]) -> None:
    best = groups[0].best
    assert best is not None
    plan = workloads.get("convolution").plan(groups[0].problem, best.config, reporting.DEVICE)
    (source,) = flat_plans.sources(plan)
    assert any(source.text in text for text in read.texts["code"])
    assert all(any(f"#define {name} {value}\n" in text for text in read.texts["code"]) for name, value in source.defines)
    assert not any("is not the one that was measured" in text for text in read.texts["p"])


def test_text_that_is_not_known_is_said_to_be(html: str, trials: list[reporting.Trial]) -> None:
    assert "is not installed here" in html
    strange = replace(trials[0], config={**trials[0].config, "WINDOW": 7})
    assert "does not take this configuration" in page.render(gather([strange]), lambda workload: [])
    newer = replace(trials[0], source="another text")
    assert "is not the one that was measured" in page.render(gather([newer]), lambda workload: [])


def test_a_kernel_of_ones_own_is_known_when_it_is_given(trials: list[reporting.Trial]) -> None:
    installed = workloads.get("convolution")

    class Mine(type(installed)):  # type: ignore[misc]
        name = "kernel:mine"

    own = [replace(trial, problem=replace(trial.problem, workload=Mine.name)) for trial in trials[:5]]
    (unknown,), (known,) = gather(own), gather(own, [Mine()])
    assert unknown.best is not None
    assert unknown.speed(unknown.best) == ""
    assert known.flops == installed.flops(trials[0].problem)
    pages = [page.render([group], lambda workload: []) for group in (unknown, known)]
    assert ["is not installed here" in text for text in pages] == [True, False]
    assert ["__kernel" in text for text in pages] == [False, True]


def test_the_contents_tell_texts_of_one_kernel_apart(trials: list[reporting.Trial]) -> None:
    texts = [f"{letter}{'0123456789abcde'}" for letter in "ab"]
    problems = [replace(trials[0].problem, workload="kernel:mine", options={"version": text, "checked": "reference"}) for text in texts]
    own = [replace(trial, problem=problem) for problem in problems for trial in trials[:3]]
    both, one = (page.render(gather(listed), lambda workload: []) for listed in (own, own[:3]))
    for text in texts:
        assert f" {text[:6]}…</a></li>" in both
    assert f" {texts[0][:6]}…</a></li>" not in one


def test_certificate_race_and_conditions_are_shown(html: str) -> None:
    assert "The winner of the final comparison" in html
    assert "What the winner was checked on" in html
    assert f"1500{quantities.NBSP}MHz" in html
    assert f"200{quantities.NBSP}W" in html


def _luminance(colour: str) -> float:
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _contrast(one: str, other: str) -> float:
    low, high = sorted((_luminance(one), _luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
def test_contrast(scheme: int) -> None:
    """WCAG AA: 4.5 for text, 3 for what charts are drawn with."""
    blocks = re.findall(r":root \{([^}]*--paper[^}]*)\}", svg.style())
    assert len(blocks) == 2
    colours = dict(re.findall(r"--(\w+): (#[0-9a-f]{6});", blocks[scheme]))
    for text in ("ink", "quiet", "accent"):
        for ground in ("paper", "sheet"):
            assert _contrast(colours[text], colours[ground]) >= 4.5, (text, ground)
    for drawn in ("accent", "point", "level", "bad"):
        assert _contrast(colours[drawn], colours["paper"]) >= 3, drawn


# The command


def test_a_store_becomes_a_page(tmp_path: Path, trials: list[reporting.Trial], capsys: pytest.CaptureFixture[str]) -> None:
    store = reporting.fill(tmp_path / "other.sqlite", trials[:12])
    assert cli.main(["report", "--store", str(store), "-o", str(tmp_path / "page.html")]) == 0
    assert capsys.readouterr().out.strip() == str(tmp_path / "page.html")
    Reader((tmp_path / "page.html").read_text(encoding="utf-8"))


def test_the_summary_as_json(tmp_path: Path, trials: list[reporting.Trial], capsys: pytest.CaptureFixture[str]) -> None:
    store = reporting.fill(tmp_path / "other.sqlite", [*trials[:12], *reporting.owns()])
    assert cli.main(["report", "--store", str(store), "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["trials"] for row in rows] == [12, 4]
    assert rows[0]["seconds_per_run"] == pytest.approx(min(reporting.finite(trials[:12])))
    assert canonical(rows[1]["config"]) == canonical(reporting.owns()[0].config)
    assert list(tmp_path.glob("*.html")) == []


def test_an_empty_store_is_no_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["report", "-o", str(tmp_path / "page.html")]) == 0
    assert "portatile tune gemm" in capsys.readouterr().err
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    Reader(text)
    assert "the result store is empty" in text
    assert not (tmp_path / "data").exists()  # looking makes no store


@pytest.mark.parametrize(
    ("args", "hint"),
    [
        (["--store", "missing.sqlite"], "there is no result store"),
        (["--workload", "gemn"], "Did you mean 'gemm'"),
        (["-o", "missing/page.html"], "cannot be written"),
    ],
)
def test_mistakes(args: list[str], hint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main(["report", *args]) == 2
    assert hint in capsys.readouterr().err


def test_selection(tmp_path: Path, trials: list[reporting.Trial]) -> None:
    store = reporting.fill(tmp_path / "other.sqlite", [*trials[:3], *reporting.owns()])
    chosen: Callable[..., list[str]] = lambda **wish: [group.problem.workload for group in select(Selection(store, **wish))]  # noqa: E731
    assert chosen(workload="convolution") == ["convolution"]
    assert chosen(workload=reporting.OWN.workload) == [reporting.OWN.workload]
    assert len(chosen(device="PAPER")) == 2
    assert chosen(device="abacus") == []
    with pytest.raises(UnknownNameError):
        chosen(workload="nobody")
    with pytest.raises(UsageError):
        report(tmp_path / "page.html", store=tmp_path / "nowhere")
    assert report(tmp_path / "page.html", store=store, device="abacus") == tmp_path / "page.html"
    assert "no trial in the store is of this" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_the_first_sentence_names_devices_as_people_do(trials: list[reporting.Trial]) -> None:
    for count in (1, 2):
        infos = [replace(trials[0].device, id=f"opencl:0:{place}", name=f"NVIDIA H{place}00") for place in range(1, count + 1)]
        told = page._summary_sentence(gather([replace(trials[0], device=info) for info in infos]))
        assert told.startswith(f"1{quantities.NBSP}problem on H100 ")
        assert (" and H200 " in told) is (count == 2)
