"""Charts as SVG: well formed, named for those who do not see them, every value a mark that the keyboard reaches, inside its frame."""

from __future__ import annotations

import re
import shutil
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from portatile.errors import UsageError
from portatile.figures import png, quantities, scales, svg
from portatile.figures.bars import BarChart
from portatile.figures.heat import Cell, Heat, colour
from portatile.figures.lines import ChartAxis, LineChart, Series
from portatile.figures.roofline import Roof, Roofline, RooflineDot
from portatile.figures.shares import Dot, ShareChart

SVG = "{http://www.w3.org/2000/svg}"
CURVES = (
    Series("one & two", ((128, 1e-4), (256, 8e-4), (1024, 0.05))),
    Series("three", ((128, 1e-5), (256, 8e-5), (1024, 0.005)), ((128, 8e-6, 2e-5), (1024, 0.004, 0.008))),
)


def lines(log: bool = True) -> LineChart:
    return LineChart(
        "Time <over> size", "What it shows.", ChartAxis("size", log=log), ChartAxis("time", "s", log=log), CURVES, (128, 256, 1024)
    )


def bars(stacked: bool) -> BarChart:
    return BarChart(
        "Phases", "Where the time goes.", "time", "s", ("cold", "cached"), ("build", "run"), ((2.0, 0.5), (None, 0.25)), stacked
    )


def heat() -> Heat:
    cells = ((Cell(1.0, "1 < 2", "a & b"), Cell(None, "-")), (Cell(0.2, "5"), Cell(2.0, "much")))
    return Heat("A & B", "down", "across", ("1", "2"), ("x", "y"), cells, "said")


def shares(unit: str = "%") -> ShareChart:
    dots = (Dot(0.5, 0.25, "half & more", "#one", 0), Dot(0.505, None, "near", "#two", 1), Dot(7.0, 1.0, "beyond", "#three", 1))
    return ShareChart("How near", "What it shows.", "share", (("gemm <b>", dots), ("trsm", dots[:1])), ("A", "B & C"), unit)


def roofline() -> Roofline:
    roofs = (Roof("fast", 4e12, (("float32", 6e13), ("float64", 3e13))), Roof("slow", 2e10, (("float32", 1e11),)), Roof("none", None, ()))
    kernels = tuple(RooflineDot(10.0**place, 1e10 * 2**place, f"kernel {place}", "#one", place) for place in range(3))
    return Roofline("Roofline", "What it shows.", roofs, kernels)


ALL = [lines(), lines(log=False), bars(True), bars(False), heat(), shares(), shares("×"), roofline()]


@pytest.mark.parametrize("figure", ALL, ids=lambda figure: type(figure).__name__)
def test_a_chart_is_named_and_reached_by_keyboard(figure: svg.Figure) -> None:
    root = ElementTree.fromstring(str(figure.draw("f")))
    assert root.attrib["aria-labelledby"] == "f-t"
    assert (root.findtext("title"), root.findtext("desc")) == (figure.title, figure.text)
    marks = [node for node in root.iter() if node.attrib.get("tabindex") == "0"]
    assert len(marks) >= 3
    assert all(node.attrib.get("role") == "img" or node.attrib["href"].startswith("#") for node in marks)
    assert all(next(node.iter("title")).text for node in marks)


@pytest.mark.parametrize("figure", ALL, ids=lambda figure: type(figure).__name__)
def test_what_is_drawn_lies_inside(figure: svg.Figure) -> None:
    root = ElementTree.fromstring(str(figure.draw("f")))
    width, height = map(float, root.attrib["viewBox"].split()[2:])
    for text in root.iter("text"):
        assert 0 <= float(text.attrib["x"]) <= width
        assert 0 <= float(text.attrib["y"]) <= height
    for path in root.iter("path"):
        for x, y in re.findall(r"[ML](-?[\d.]+) (-?[\d.]+)", path.attrib["d"]):
            assert -1 <= float(x) <= width + 1
            assert -1 <= float(y) <= height + 1


def test_marks_tell_their_values() -> None:
    titles = re.findall(r"<title>([^<]+)</title>", str(lines().draw("f")))
    assert "one &amp; two: time 100\u202fµs at size 128" in titles
    assert "cold, build: 2\u202fs" in re.findall(r"<title>([^<]+)</title>", str(bars(True).draw("f")))


def test_a_stack_ends_with_its_sum_and_bars_without_a_value_are_left_out() -> None:
    assert ">2.5\u202fs</text>" in str(bars(True).draw("f"))
    assert str(bars(False).draw("f")).count('class="mark') == 3


def test_a_logarithmic_axis_leaves_out_what_it_cannot_show() -> None:
    chart = LineChart("t", "s", ChartAxis("x", log=True), ChartAxis("y", log=True), (Series("a", ((0, 1), (1, 0), (2, 3), (4, 5))),))
    assert str(chart.draw("f")).count('class="mark') == 2
    assert "svg" in str(LineChart("t", "s", ChartAxis("x"), ChartAxis("y", log=True), (Series("a", ()),)).draw("f"))


def test_a_logarithmic_axis_within_a_decade_has_ticks() -> None:
    assert len(scales.Scale(1.3e-3, 3.9e-3, 0, 100, log=True).ticks()) >= 2
    assert len(scales.Scale(5.1, 6.9, 0, 100, log=True).ticks()) >= 2


def test_a_document_needs_no_style_sheet_variables() -> None:
    drawn = svg.document(ALL, "Timed: kernels & nothing else")
    root = ElementTree.fromstring(drawn)
    assert "var(" not in drawn
    assert len(root.findall(f"{SVG}svg")) == len(ALL)
    texts = [node.text for node in root.iter(f"{SVG}text")]
    assert {"Time <over> size", "Timed: kernels & nothing else", "1 < 2", "down"} <= set(texts)
    assert float(root.attrib["height"]) >= sum(float(part.attrib["height"]) for part in root.findall(f"{SVG}svg"))


def test_a_document_says_below_each_figure_what_it_shows() -> None:
    figure = lines()
    drawn = svg.document([figure, figure], "Timed: nothing else")
    assert drawn.count(f">{figure.text}</text>") == 2
    assert drawn.index(f">{figure.text}</text>") < drawn.rindex('class="heading"') < drawn.index("Timed")


def test_labels_have_room_in_wide_faces() -> None:
    """DejaVu Sans, the widest that systems use, draws these words as wide at eleven pixels."""
    for words, pixels in (("gemm m=4096 n=4096 k=4096, H200 CUDA cached", 295.7), ("MMMM", 38.0), ("fill it", 23.9)):
        assert pixels <= svg.width_of(words) <= 1.15 * pixels


def test_many_points_have_no_symbols() -> None:
    points = tuple((float(x), float(x)) for x in range(1, 100))
    chart = LineChart("t", "s", ChartAxis("x"), ChartAxis("y"), (Series("many", points), Series("few", points[:9])))
    assert str(chart.draw("f")).count('class="mark') == 9


def test_shades_are_ordered() -> None:
    assert sum(colour(1.0)) < sum(colour(0.5)) < sum(colour(0.0))
    assert colour(2.0) == colour(1.0)


def test_quantities() -> None:
    assert [quantities.written(value, "s") for value in (0, 2e-6, 1.5)] == ["0", "2\u202fµs", "1.5\u202fs"]
    assert [quantities.written(value) for value in (0.1234, 12.0, 20000.0)] == ["0.123", "12", "20000"]
    assert quantities.written(-0.5, "%") == "-50\u202f%"


def test_pixels_or_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if any(shutil.which(name) for name in png._PROGRAMS):
        png.write(svg.document([heat()]), tmp_path / "x.png")
        assert (tmp_path / "x.png").read_bytes().startswith(b"\x89PNG")
    monkeypatch.setattr(png.shutil, "which", lambda name: None)
    with pytest.raises(UsageError, match="install one of"):
        png.write(svg.document([heat()]), tmp_path / "y.png")
