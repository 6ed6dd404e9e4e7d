"""Kernel text from templates: what is kept of them for the next process, and plans without texts."""

from __future__ import annotations

from pathlib import Path

import jinja2
import pytest

from portatile import template, workloads
from portatile.tuning.search.planner import Planner
from support.devices import GPU

TEXT = "{% for i in range(n) %}x{{ i }};{% endfor %}"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a template, and an empty cache."""
    monkeypatch.setenv("PORTATILE_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "text.cl").write_text(TEXT)
    return tmp_path


def expanded(folder: Path, n: int) -> str:
    """As a process that has not expanded anything yet."""
    template._environment.cache_clear()
    template._template.cache_clear()
    template._of_late.clear()
    return template.load(str(folder / "module.py"), "text.cl", {}, n=n).text


def test_a_template_is_compiled_once_for_all_processes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert expanded(folder, 2) == "x0;x1;"
    compiled = jinja2.Environment.compile
    monkeypatch.setattr(jinja2.Environment, "compile", lambda *given, **named: pytest.fail("it was kept"))
    assert expanded(folder, 3) == "x0;x1;x2;"
    monkeypatch.setattr(jinja2.Environment, "compile", compiled)
    (folder / "text.cl").write_text("y{{ n }}")
    assert expanded(folder, 3) == "y3"


def test_a_text_is_not_that_of_other_values(folder: Path) -> None:
    """Which may be equal and have another type, be in a mapping, or be nothing that can be looked up."""
    (folder / "text.cl").write_text("{{ n }} {{ of.x }}")
    for n, x in ((1, 1), (True, 1), (1, True), (1.0, 1), ([1], 1), (1, [1]), (1, 1)):
        assert template.load(str(folder / "module.py"), "text.cl", {}, n=n, of={"x": x}).text == f"{n} {x}"


def test_what_was_kept_and_is_damaged_is_made_again(folder: Path) -> None:
    expanded(folder, 1)
    (kept,) = (folder / "cache" / "templates").glob("*/*.bin")
    kept.write_bytes(kept.read_bytes()[:-9])
    assert expanded(folder, 2) == "x0;x1;"


def test_a_folder_that_cannot_be_written_is_no_matter(folder: Path) -> None:
    (folder / "cache").write_text("a file")
    assert expanded(folder, 2) == "x0;x1;"


def test_plans_without_texts_are_made_for_ranking_only() -> None:
    """What these call is not kept for plans that run."""
    workload = workloads.get("trmm")
    problem = workload.problem({"m": 96, "n": 64}, "float64", {"side": "L", "uplo": "L", "trans": "N", "diag": "N"})
    planner = Planner(workload, [problem], (), GPU)
    planner.ranked([workload.default(problem, GPU)])
    steps = planner.default_plan().steps
    assert steps
    assert all(step.source.text for step in steps)  # type: ignore[union-attr]
    with template.without_texts():
        assert not any(step.source.text for step in Planner(workload, [problem], (), GPU).default_plan().steps)  # type: ignore[union-attr]
