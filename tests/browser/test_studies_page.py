"""The page of all studies in a real browser: it fits a desktop and a phone, light and dark, leads by keyboard to each study, and prints."""

from __future__ import annotations

from pathlib import Path

import portatile
from support.browsers import Tabs

PAGE = Path(__file__).parents[2] / "docs" / "measurements" / "gallery.html"

_UNNAMED = "all => all.filter(one => !one.querySelector('.answer')).map(one => one.querySelector('strong').textContent)"
_WIDE = """() => [...document.querySelectorAll('section > *, .cards li')].filter(one => one.getBoundingClientRect().right > innerWidth + 1)
    .map(one => one.className || one.tagName)"""


_ASTRAY = """() => [...document.querySelectorAll('figure svg')].flatMap(chart => {
    const edge = chart.getBoundingClientRect();
    const words = [...chart.querySelectorAll('text')].map(one => [one.textContent, one.getBoundingClientRect()]);
    const touch = (a, b) => a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 3 && b.top < a.bottom - 3;
    const outside = words.filter(([, box]) => box.left < edge.left - 1 || box.right > edge.right + 1);
    const covered = words.filter(([, box], place) => words.slice(place + 1).some(([, other]) => touch(box, other)));
    return [...outside, ...covered].map(([said]) => said)
})"""
_CUT = """() => {
    document.querySelectorAll('details').forEach(one => one.open = true);
    return [...document.querySelectorAll('.wide[tabindex]')].filter(one => one.scrollWidth > one.clientWidth + 1).map(one => one.ariaLabel)
}"""


def test_a_chart_that_goes_on_beyond_the_screen_says_so(tabs: Tabs, tmp_path: Path) -> None:
    """By a shadow at the edge, which is gone where the chart ends."""
    page = tmp_path / "wide.html"
    style = (Path(portatile.__file__).parent / "studies/framework/page.css").read_text()
    page.write_text(
        f"<style>:root {{ --paper: #fff; --quiet: #000 }} {style}</style><div class=wide><div style='width: 50rem; height: 9rem'>"
    )
    with tabs(viewport={"width": 390, "height": 844}) as tab:
        tab.goto(page.as_uri())
        ends = [tab.screenshot(clip={"x": 380, "y": 40, "width": 10, "height": 20})]
        tab.evaluate("document.querySelector('.wide').scrollLeft = 9999")
        ends.append(tab.screenshot(clip={"x": 380, "y": 40, "width": 10, "height": 20}))
        plain = tab.screenshot(clip={"x": 380, "y": 400, "width": 10, "height": 20})
    assert ends[0] != plain
    assert ends[1] == plain


def test_the_gallery_fits_every_screen_and_says_its_answers(tabs: Tabs) -> None:
    said: list[str] = []
    colours = {}
    for width, scheme in ((1280, "light"), (390, "dark")):
        with tabs(viewport={"width": width, "height": 844}, color_scheme=scheme) as tab:
            tab.on("console", lambda message: said.append(message.text))
            tab.on("request", lambda request: said.append(request.url) if not request.url.startswith(("file:", "data:")) else None)
            tab.goto(PAGE.as_uri())
            colours[scheme] = tab.evaluate("getComputedStyle(document.body).backgroundColor")
            assert tab.evaluate("document.documentElement.scrollWidth") <= width
            assert tab.evaluate(_WIDE) == []
            assert tab.evaluate(_ASTRAY) == [], "words that leave their chart or touch another"
            assert tab.evaluate(_CUT) == [], "tables that are wider than their column"
            assert tab.locator(".cards li").count() == tab.locator("main section").count() > 20
            assert tab.locator(".cards li").evaluate_all(_UNNAMED) == []
            for key in ("Tab", "Tab", "Enter"):  # past how the page was made
                tab.keyboard.press(key)
            assert tab.evaluate("location.hash") == f"#{tab.locator('main section').first.get_attribute('id')}"
            tab.emulate_media(media="print")
            assert not tab.locator(".back").first.is_visible()
    assert PAGE.stat().st_size < 1_000_000, "it is committed"
    assert colours["light"] != colours["dark"]
    assert said == [], "no errors, and nothing is fetched"


def test_a_table_is_sorted_by_its_headings(tabs: Tabs) -> None:
    """Times by their size, whatever their unit: by the keyboard, and the other way round by a second press."""
    seconds = (
        """all => all.map(one => parseFloat(one.textContent) * ({ "µs": 1e-6, ms: 1e-3, s: 1 })[one.textContent.trim().split(/\\s/)[1]])"""
    )
    with tabs() as tab:
        tab.goto(PAGE.as_uri())
        table = tab.locator("#phases table")
        button = table.get_by_role("button", name="build")
        place = table.locator("thead th").evaluate_all("all => all.findIndex(one => one.textContent === 'build') + 1")
        button.focus()
        tab.keyboard.press("Enter")
        descending = table.locator(f"tbody td:nth-child({place})").evaluate_all(seconds)
        assert descending == sorted(descending, reverse=True)
        assert len(set(descending)) > 3
        assert table.locator("thead [aria-sort=descending]").inner_text().startswith("build")
        button.click()
        assert table.locator(f"tbody td:nth-child({place})").evaluate_all(seconds) == descending[::-1]
        table.get_by_role("button", name="device").click()
        devices = table.locator("tbody td:first-child").all_inner_texts()
        assert devices == sorted(devices)
