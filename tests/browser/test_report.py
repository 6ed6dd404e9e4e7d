"""The report in a real browser: it draws, keeps to itself, fits a phone, follows the colour scheme and obeys the keyboard."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from portatile.reports import page, tables
from portatile.reports.groups import Group, gather
from support import reporting
from support.browsers import Tabs

_BOXES = "all => all.map(one => { const box = one.getBoundingClientRect(); return [box.width, box.height]; })"
_FOCUS = """() => {
    const one = document.activeElement, style = getComputedStyle(one);
    return {tag: one.tagName.toLowerCase(), text: one.textContent.slice(0, 60), kind: one.getAttribute("class") ?? "",
            href: one.getAttribute("href") ?? "", seen: style.outlineStyle !== "none" || style.stroke !== "none",
            chart: one.closest("svg")?.querySelector("title")?.id ?? ""};
}"""


@pytest.fixture(scope="module")
def groups() -> list[Group]:
    return gather(reporting.everything(120))


@pytest.fixture(scope="module")
def path(groups: list[Group], tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("report") / "report.html"
    made.write_text(page.render(groups, lambda workload: []), encoding="utf-8")
    return made


@contextmanager
def opened(tabs: Tabs, path: Path, **options: Any) -> Iterator[Any]:
    """A tab that shows the page, and fails the test if anything is said on the console or asked of a server."""
    asked: list[str] = []
    said: list[str] = []
    with tabs(**options) as tab:
        tab.on("request", lambda request: asked.append(request.url))
        tab.on("console", lambda message: said.append(message.text))
        tab.on("pageerror", lambda error: said.append(str(error)))
        tab.goto(path.as_uri())
        yield tab
    assert [url for url in asked if not url.startswith((path.as_uri(), "data:"))] == []
    assert said == []


@pytest.mark.parametrize("scripts", [True, False], ids=["script", "no-script"])
def test_charts_draw(tabs: Tabs, path: Path, scripts: bool) -> None:
    with opened(tabs, path, java_script_enabled=scripts) as tab:
        shown = tab.locator("svg.chart:visible")
        assert shown.count() >= 12
        assert all(width > 100 and height > 20 for width, height in shown.evaluate_all(_BOXES))
        marks = tab.locator("svg.chart:visible .mark")
        assert marks.count() > 30
        assert all(width >= 1 and height >= 1 for width, height in marks.evaluate_all(_BOXES))
        assert tab.title() == "Tuning report"  # no text became markup


def test_figures_keep_the_scale(tabs: Tabs, path: Path, groups: list[Group]) -> None:
    """The bars' lengths are in proportion to the counts."""
    with opened(tabs, path) as tab:
        tab.locator("#problem-1 details.failures > summary").click()
        boxes = tab.locator("#problem-1 svg[aria-labelledby$=failures-t] .mark").evaluate_all(_BOXES)
        counts = [len(groups[0].trials) - groups[0].failed, *(failure.count for failure in groups[0].failures)]
        assert len(boxes) == len(counts)
        unit = boxes[0][0] / counts[0]
        assert [width for width, _ in boxes] == pytest.approx([unit * count for count in counts], abs=2)


def test_downloads_hold_the_data(tabs: Tabs, path: Path, groups: list[Group], tmp_path: Path) -> None:
    with opened(tabs, path) as tab:
        with tab.expect_download() as waiting:
            tab.locator("#problem-1 figure a[download$=trials\\.csv]").first.click()
        waiting.value.save_as(tmp_path / "trials.csv")
        assert waiting.value.suggested_filename == "convolution-n256-ndat64-float32-trials.csv"
        with tab.expect_download() as waiting:
            tab.get_by_role("link", name="All trials as JSON").click()
        waiting.value.save_as(tmp_path / "trials.json")
    assert (tmp_path / "trials.csv").read_bytes() == tables.trials_csv(groups[0]).encode()
    with (tmp_path / "trials.csv").open(newline="") as file:
        assert len(list(csv.DictReader(file))) == len(groups[0].trials)
    assert (tmp_path / "trials.json").read_bytes() == tables.trials_json(groups)


def test_nothing_is_wider_than_the_screen_and_no_table_than_its_column(tabs: Tabs, path: Path) -> None:
    with opened(tabs, path) as tab:
        tab.evaluate("document.querySelectorAll('details').forEach(fold => { fold.open = true; })")
        for width in (320, 390, 768, 1280):  # nothing on the page is drawn by its width when it is loaded
            tab.set_viewport_size({"width": width, "height": 844})
            assert tab.evaluate("document.documentElement.scrollWidth") <= width
            wide = "all => all.filter(one => one.scrollWidth > one.parentElement.clientWidth + 1).map(one => one.caption.textContent)"
            assert tab.locator("table").evaluate_all(wide) == []


def test_a_long_name_is_broken(tabs: Tabs, path: Path) -> None:
    with opened(tabs, path) as tab:
        tab.evaluate(
            "document.querySelectorAll('.summary th a, section.problem h2').forEach(one => one.append('of_a_generator_'.repeat(12)))"
        )
        for width in (390, 768, 1280):
            tab.set_viewport_size({"width": width, "height": 844})
            assert tab.evaluate("document.documentElement.scrollWidth") <= width


def test_the_colour_scheme_is_followed(tabs: Tabs, path: Path) -> None:
    seen = {}
    for scheme in ("light", "dark"):
        with opened(tabs, path, color_scheme=scheme) as tab:
            seen[scheme] = tab.evaluate("[document.body, document.querySelector('.chart .label')].map((one, place) => "
                                        "getComputedStyle(one)[place ? 'fill' : 'backgroundColor'])")  # fmt: skip
    assert seen == {"light": ["rgb(252, 252, 250)", "rgb(29, 32, 35)"], "dark": ["rgb(21, 23, 26)", "rgb(231, 232, 233)"]}


def test_print_is_light_and_without_links_to_data(tabs: Tabs, path: Path) -> None:
    with opened(tabs, path, color_scheme="dark") as tab:
        tab.emulate_media(media="print", color_scheme="dark")
        assert tab.locator("a[download]:visible").count() == 0
        assert tab.evaluate("getComputedStyle(document.body).color") == "rgb(29, 32, 35)"
        assert tab.pdf(format="A4").startswith(b"%PDF")
        assert tab.locator("details.plain[open]").count() == 0  # opened for the print and closed again


def test_every_stop_of_the_keyboard_is_seen(tabs: Tabs, path: Path) -> None:
    with opened(tabs, path) as tab:
        stops = []
        for _ in range(400):
            tab.keyboard.press("Tab")
            stop = tab.evaluate(_FOCUS)
            if stop["tag"] == "body":
                break
            stops.append(stop)
        assert stops[0]["href"] == "#content"
        assert all(stop["seen"] for stop in stops)
        assert stops[-1]["tag"] != "body"
        links = tab.locator("nav a:visible, main a:not(.mark):visible, summary:visible").count()
        assert sum(stop["tag"] in ("a", "summary") and "mark" not in stop["kind"] for stop in stops[1:]) == links
        charts = [stop["chart"] for stop in stops if stop["chart"]]
        assert len(charts) == len(set(charts)) == tab.locator("svg.chart:visible:has(.mark)").count()  # one stop each


def test_arrow_keys_move_inside_a_chart(tabs: Tabs, path: Path) -> None:
    with opened(tabs, path) as tab:
        marks = tab.locator("#problem-1 svg[aria-labelledby$=importance-t] .mark")
        labels = marks.evaluate_all("all => all.map(one => one.getAttribute('aria-label'))")
        assert len(labels) > 1
        assert labels[0].startswith("WINDOW explains")
        marks.first.focus()
        said = [tab.locator("#tip").text_content()]
        for _ in labels[1:]:
            tab.keyboard.press("ArrowDown")
            said.append(tab.locator("#tip").text_content())
        assert said == labels
        tab.keyboard.press("Home")
        assert tab.evaluate("document.activeElement.getAttribute('aria-label')") == labels[0]
        tab.keyboard.press("Escape")
        assert tab.locator("#tip").is_hidden()


def test_the_pointer_is_told_values(tabs: Tabs, path: Path) -> None:
    with opened(tabs, path) as tab:
        tab.locator("#problem-1 svg[aria-labelledby$=trials-t] .mark").last.hover()
        assert tab.locator("#tip").is_visible()
        assert "trial " in (tab.locator("#tip").text_content() or "")


def test_without_a_script_every_value_is_a_stop(tabs: Tabs, path: Path) -> None:
    with opened(tabs, path, java_script_enabled=False) as tab:
        marks = tab.locator("svg.chart .mark")
        assert marks.evaluate_all("all => all.every(one => one.tabIndex === 0 && one.querySelector('title'))")


def test_the_skip_link_skips(tabs: Tabs, path: Path) -> None:
    with opened(tabs, path) as tab:
        tab.keyboard.press("Tab")
        assert tab.evaluate("document.activeElement.getBoundingClientRect().top") >= 0
        tab.keyboard.press("Enter")
        assert tab.evaluate("document.activeElement.id") == "content"


def test_kernel_text_unfolds(tabs: Tabs, path: Path) -> None:
    with opened(tabs, path) as tab:
        fold = tab.locator("#problem-1 summary", has_text="Configuration 1").first
        text = fold.locator("xpath=..").locator("pre").first
        assert text.is_hidden()
        fold.focus()
        tab.keyboard.press("Enter")
        assert text.is_visible()
        assert "__kernel" in (text.text_content() or "")


def test_an_empty_report(tabs: Tabs, tmp_path: Path) -> None:
    (tmp_path / "empty.html").write_text(page.render([], lambda workload: []), encoding="utf-8")
    with opened(tabs, tmp_path / "empty.html", viewport={"width": 390, "height": 844}) as tab:
        assert tab.locator("main").inner_text().count("portatile tune") == 1
        assert tab.evaluate("document.documentElement.scrollWidth") <= 390


def test_failures_are_folded(tabs: Tabs, path: Path) -> None:
    with opened(tabs, path) as tab:
        failed = tab.locator("#problem-1 details.failures")
        assert "trials failed" in failed.locator("> summary").inner_text()
        assert failed.locator("svg").is_hidden()


def test_problems_are_chosen(tabs: Tabs, path: Path) -> None:
    """By workload, state and words: sections, rows and the contents agree; the others' marks fade."""
    with opened(tabs, path) as tab:
        rows, sections, entries = (
            tab.locator(at) for at in (".summary tbody tr:visible", "section.problem:visible", ".problems li:visible")
        )
        assert rows.count() == sections.count() == entries.count() == 3
        tab.get_by_label("State").select_option("failed")
        assert rows.count() == sections.count() == entries.count() == 1
        assert tab.locator(".filter output").inner_text() == "1 of 3"
        assert "gemm" in rows.inner_text()
        faded = tab.locator(".overview a.mark")
        assert faded.count() == tab.locator(".overview a.mark.faded").count() == 2
        tab.get_by_role("button", name="Show all").click()
        tab.get_by_label("Find").fill("ndat")
        assert sections.evaluate_all("all => all.map(one => one.dataset.workload)") == ["convolution"]
        tab.get_by_label("Workload").select_option("gemm")
        assert sections.count() == 0


def test_the_summary_is_sorted_by_its_headings(tabs: Tabs, path: Path) -> None:
    with opened(tabs, path) as tab:
        first = tab.locator(".summary tbody tr").first
        button = tab.get_by_role("button", name="Trials")
        button.focus()
        tab.keyboard.press("Enter")
        assert tab.locator(".summary thead [aria-sort=descending]").inner_text().startswith("Trials")
        assert first.get_attribute("data-problem") == "problem-1"
        button.click()
        assert first.get_attribute("data-problem") == "problem-2"
        tab.get_by_role("button", name="Time").click()
        assert tab.locator(".summary tbody tr").last.get_attribute("data-problem") == "problem-2"  # not known: last in both orders
        tab.get_by_role("button", name="Time").click()
        assert tab.locator(".summary tbody tr").last.get_attribute("data-problem") == "problem-2"


@pytest.mark.parametrize("width", [390, 1280])
def test_the_contents_stay_in_sight(tabs: Tabs, path: Path, width: int) -> None:
    with opened(tabs, path, viewport={"width": width, "height": 800}) as tab:
        tab.locator(".contents a", has_text="Devices").click()
        tab.wait_for_function("scrollY > 500")
        assert tab.locator(".contents .chapters").evaluate("one => one.getBoundingClientRect().top") >= 0
        tab.wait_for_function("document.querySelector('.contents a[aria-current]')?.hash === '#devices'")


def test_a_mark_of_the_overview_leads_to_its_problem(tabs: Tabs, path: Path) -> None:
    with opened(tabs, path) as tab:
        mark = tab.locator(".overview a.mark").first
        mark.hover()
        assert "the default" in (tab.locator("#tip").text_content() or "")
        mark.focus()
        tab.keyboard.press("Enter")
        assert tab.evaluate("location.hash") == "#problem-1"
