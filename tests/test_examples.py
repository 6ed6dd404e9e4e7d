"""Every example runs as a user would run it: its own process, nothing tuned before, and its own assertions hold."""

from __future__ import annotations

import doctest
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import portatile
from support.unoptimised import environment, optimiser

__all__ = ["optimiser"]  # of what is marked
ROOT = Path(__file__).parents[1]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
_BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
PAGES = [page for page in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))) if _BLOCK.search(page.read_text())]


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 3


@pytest.mark.drawn(1 / 4)
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_runs(path: Path, tmp_path: Path) -> None:
    completed = subprocess.run(
        [sys.executable, str(path)], env=environment(tmp_path), cwd=tmp_path, capture_output=True, text=True, timeout=240
    )
    assert completed.returncode == 0, completed.stderr
    assert completed.stdout.strip()


@pytest.mark.drawn(1 / 8)
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_code_of_a_page_runs(page: Path, tmp_path: Path) -> None:
    """The Python of a page, from its first block to its last, as one program."""
    (tmp_path / "page.py").write_text("\n".join(_BLOCK.findall(page.read_text())))
    completed = subprocess.run(
        [sys.executable, "page.py"], env=environment(tmp_path), cwd=tmp_path, capture_output=True, text=True, timeout=240
    )
    assert completed.returncode == 0, completed.stderr


FUNCTIONS = [name for name in portatile.__all__ if inspect.isfunction(getattr(portatile, name))]


@pytest.mark.unoptimised
@pytest.mark.drawn(1 / 2)
@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.usefixtures("own_directories")
def test_docstring_example_is_true(name: str) -> None:
    for test in doctest.DocTestFinder(recurse=False).find(getattr(portatile, name), name):
        result = doctest.DocTestRunner().run(test)
        assert result.failed == 0, f"see the report above: portatile.{name}"


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_public_function_has_an_example(name: str) -> None:
    in_docstring = f"portatile.{name}(" in (getattr(portatile, name).__doc__ or "")
    assert in_docstring or any(f"portatile.{name}(" in path.read_text() for path in EXAMPLES), f"portatile.{name} has no example that runs"
