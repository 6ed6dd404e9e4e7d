#!/usr/bin/env python3
"""Writes the tables and pictures of the pages in docs/ from the recorded results.

    PYTHONPATH=src python3 bench/pages.py           # write what differs
    PYTHONPATH=src python3 bench/pages.py --check   # only say what differs

A page says where a table belongs: between ``<!-- table NAME -->`` and ``<!-- end -->``; NAME may be a pattern, as in ``gemm-nvidia-*``, and
then every table that fits stands there under a heading of its own. Each module of ``tables/`` makes those of one bench.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from fnmatch import fnmatch
from importlib import import_module
from pathlib import Path

from measure import HERE, RESULTS
from recorded import Picture, Table

DOCS = HERE.parent / "docs"
_SPACE = re.compile(r"(<!-- table (\S+) -->\n).*?(<!-- end -->)", re.DOTALL)
_NUMBER = re.compile(r"\d+(?:\.\d+)?")


def tables_and_pictures(folder: Path = RESULTS) -> tuple[list[Table], list[Picture]]:
    """Every table and picture that the recorded results give."""
    parts = [
        part for path in sorted((HERE / "tables").glob("[a-z]*.py")) for part in import_module(f"tables.{path.stem}").from_results(folder)
    ]
    return [part for part in parts if isinstance(part, Table)], [part for part in parts if isinstance(part, Picture)]


def named(text: str) -> list[str]:
    """The tables, or patterns of tables, that a page has places for."""
    return [name for _, name, _ in _SPACE.findall(text)]


def filled(text: str, tables: list[Table]) -> str:
    """A page with the tables in their places; raises KeyError for a name that no table has."""

    def fill(match: re.Match[str]) -> str:
        start, name, end = match.groups()
        return f"{start}\n{inside(name, tables)}\n{end}"

    return _SPACE.sub(fill, text)


def inside(name: str, tables: list[Table]) -> str:
    """What stands in the place called ``name``."""
    chosen = [table for table in tables if fnmatch(table.name, name)]
    if not chosen and "*" not in name:  # of a pattern there may be none
        raise KeyError(f"no recorded result gives the table {name}")
    several = "*" in name
    return "\n".join(f"### {table.title}\n\n{table.text}" if several else table.text for table in chosen)


def uses(tables: list[Table]) -> dict[str, dict[str, object]]:
    """Of every table that a page shows: the page and the files, as the index says them."""
    shown: dict[str, dict[str, object]] = {}
    for page in sorted(DOCS.rglob("*.md")):
        for pattern in named(page.read_text()):
            for table in tables:
                if fnmatch(table.name, pattern):
                    shown[table.name] = {"page": page.relative_to(DOCS.parent).as_posix(), "files": sorted(table.files)}
    return shown


def files() -> Iterator[tuple[Path, str]]:
    """Every page and picture with what should be in it."""
    tables, pictures = tables_and_pictures()
    for page in sorted(DOCS.rglob("*.md")):
        text = page.read_text()
        if named(text):
            yield page, filled(text, tables)
    for picture in pictures:
        yield DOCS / "pictures" / picture.name, picture.text


def same(text: str, other: str) -> bool:
    """Whether two texts say the same: equal words, numbers equal to one in the last digit, whatever the spacing."""
    left, right = (" ".join(text.split()) for text in (text, other))
    if _NUMBER.sub("0", left) != _NUMBER.sub("0", right):
        return False
    pairs = zip(_NUMBER.findall(left), _NUMBER.findall(right), strict=True)
    return all(a == b or abs(float(a) - float(b)) <= 1.01 * 10.0 ** -max(_digits(a), _digits(b)) for a, b in pairs)


def _digits(number: str) -> int:
    return len(number.partition(".")[2])


def main() -> None:
    """Write, or only tell."""
    only = "--check" in sys.argv[1:]
    stale = [(path, text) for path, text in files() if not path.exists() or not same(path.read_text(), text)]
    for path, text in stale:
        print(f"{'differs' if only else 'written'}: {path.relative_to(DOCS.parent)}")
        if not only:
            path.write_text(text)
    if only and stale:
        sys.exit(1)


if __name__ == "__main__":
    main()
