"""What README and docs say is so: Python blocks run, commands parse, files and extras exist, links lead somewhere."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import click
import pytest

from portatile.cli import portatile
from support.unoptimised import environment

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md")), ROOT / "bench" / "README.md"]
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"\]\((?!https?:|#)([^)#]+)")


def blocks(kind: str) -> list[pytest.param]:  # type: ignore[valid-type]
    """The text of every block of a kind, with a name for each."""
    found = []
    for page in PAGES:
        texts = [text for language, text in _BLOCK.findall(page.read_text()) if language == kind]
        found += [pytest.param(text, id=f"{page.stem}-{number}") for number, text in enumerate(texts, 1)]
    return found


def commands() -> list[pytest.param]:  # type: ignore[valid-type]
    """Every command that a page tells the reader to type."""
    found = []
    for page in PAGES:
        for language, text in _BLOCK.findall(page.read_text()):
            lines = text.replace("\\\n", " ").splitlines()
            if language == "console":
                lines = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
            if language in ("bash", "console"):
                found += [(page.stem, part.strip()) for line in lines for part in line.split("&&") if part.strip()]
    return [pytest.param(command, id=f"{stem}-{command[:40]}") for stem, command in dict.fromkeys(found)]


def parse(words: list[str], exists: bool = True) -> None:
    """Parse a portatile command line without running it; raises click.UsageError for what would be a mistake, but where not ``exists``,
    not for files that a reader has and this test has not.
    """
    command: click.Command = portatile
    context: click.Context | None = None
    while isinstance(command, click.Group) and not words[0].startswith("-"):  # a group may have options of its own
        context = click.Context(command, info_name="portatile", parent=context)
        name, *words = words
        _, found, words = command.resolve_command(context, [name, *words])
        assert found is not None
        command = found
    files = [param.type for param in command.params if isinstance(param.type, click.Path) and param.type.exists and not exists]
    for kind in files:
        kind.exists = False
    try:
        command.make_context(command.name or "", list(words), parent=context)
    finally:
        for kind in files:
            kind.exists = True


@pytest.mark.drawn(1 / 3)
@pytest.mark.parametrize("text", blocks("python"))
def test_python_block_runs(text: str, tmp_path: Path) -> None:
    completed = subprocess.run(
        [sys.executable, "-c", text], env=environment(tmp_path), cwd=tmp_path, capture_output=True, text=True, timeout=240
    )
    assert completed.returncode == 0, completed.stderr


@pytest.mark.parametrize("line", commands())
def test_command_is_one(line: str) -> None:
    program, *rest = shlex.split(line.partition(">")[0], comments=True)
    while program == "export" or re.match("[A-Z_]+=", program):  # a variable, and what runs with it
        if not rest:
            return
        program, *rest = rest
    name = program.removeprefix(".venv/bin/")
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    if name == "portatile":
        parse(rest, exists=False)
    elif name == "pip":
        expected = [extra for word in rest for group in re.findall(r"\[(.*?)\]", word) for extra in group.split(",")]
        assert rest[0] == "install"
        assert set(expected) <= set(extras)
    elif name.startswith("python"):
        assert rest[0] == "-m" or (ROOT / rest[0]).is_file()
    else:
        tool = ROOT / program
        assert name in ("pre-commit", "apt") or (tool.is_file() and os.access(tool, os.X_OK))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_lead_somewhere(page: Path) -> None:
    targets = [page.parent / target for target in _LINK.findall(page.read_text())]
    assert [target for target in targets if not target.exists()] == []
    if page.is_relative_to(ROOT / "docs"):  # the site has nothing else
        assert [target for target in targets if not target.resolve().is_relative_to(ROOT / "docs")] == []


def test_a_wrong_command_would_be_seen() -> None:
    with pytest.raises(click.UsageError):
        parse(["tune", "gemm", "-m", "3", "--bugdet", "3s"])
