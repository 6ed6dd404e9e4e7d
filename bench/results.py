#!/usr/bin/env python3
"""Manages bench/results, which holds only results that a table uses, from committed trees, each listed in the index.

    PYTHONPATH=src python3 bench/results.py add FILE... [--command 'bench/gemm.py --sizes 512']
    PYTHONPATH=src python3 bench/results.py prune
    PYTHONPATH=src python3 bench/results.py check

``add`` compresses files, enters them, writes the pages anew, and says what is wrong then; ``prune`` removes what no table uses; ``check``
says what is wrong, and ends with code 1 if anything is.

A file whose index entry has ``kept``, the reason, stays though no table uses it.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pages
from measure import RESULTS
from recorded import INDEX, LIMIT, ResultError, clean, digest, load_index, read, save_index, take


def wrong(index: dict[str, Any], folder: Path = RESULTS) -> Iterator[str]:
    """Everything about the folder that should not be so, a line each."""
    there = {path.name: path for path in folder.iterdir() if path.name != INDEX}
    for name in sorted(there.keys() ^ index["files"].keys()):
        yield f"{name}: {'not in the index: results.py add' if name in there else 'in the index, but gone'}"
    used = {name for table in index["tables"].values() for name in table["files"]}
    for name in sorted(there.keys() & index["files"].keys()):
        entry = index["files"][name]
        if digest(there[name]) != entry["sha256"]:
            yield f"{name}: the hash is another"
        if name not in used and not entry.get("kept"):
            yield f"{name}: no table uses it: results.py prune"
        try:
            if not entry.get("kept") and clean(read(there[name])) != entry["commit"]:
                yield f"{name}: the commit is another"
        except ResultError as error:
            yield f"{name}: {error}"
        if not entry["command"] or not entry["device"]:
            yield f"{name}: the index does not say command and device"
    for name in sorted(used - there.keys()):
        yield f"{name}: a table uses it, and it is gone"
    size = sum(path.stat().st_size for path in folder.iterdir())
    if size > LIMIT:
        yield f"{size} bytes; at most {LIMIT}"


def check(_: argparse.Namespace) -> None:
    """Index, hashes, commits, size, and whether the index names the files that the tables use now."""
    index = load_index()
    complaints = list(wrong(index))
    if index["tables"] != dict(sorted(pages.uses(pages.tables_and_pictures()[0]).items())):
        complaints.append("the index names other files than the tables use: results.py add, without a file")
    print("\n".join(complaints) or f"{len(index['files'])} files, {len(index['tables'])} tables: all is well")
    sys.exit(bool(complaints))


def add(options: argparse.Namespace) -> None:
    """Take files in, then bring index and pages up to date."""
    index = load_index()
    for path in options.files:
        try:
            name, entry = take(path, options.command)
        except ResultError as error:
            sys.exit(f"{path}: {error}")
        index["files"][name] = entry
        if path.resolve().parent == RESULTS.resolve() and path.name != name:
            path.unlink()
        print(f"{name}: {entry['commit'][:7]}, {entry['device']}")
    index["tables"] = pages.uses(pages.tables_and_pictures()[0])
    save_index(index)
    sys.argv[1:] = []
    pages.main()
    for complaint in wrong(index):
        print(complaint)


def prune(_: argparse.Namespace) -> None:
    """Remove what no table uses."""
    index = load_index()
    index["tables"] = pages.uses(pages.tables_and_pictures()[0])
    used = {name for table in index["tables"].values() for name in table["files"]}
    for name in [name for name, entry in index["files"].items() if name not in used and not entry.get("kept")]:
        del index["files"][name]
        (RESULTS / name).unlink(missing_ok=True)
        print(f"removed {name}")
    save_index(index)


def main() -> None:
    """Parse and do."""
    commands = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    kinds = commands.add_subparsers(required=True)
    adding = kinds.add_parser("add")
    adding.add_argument("files", nargs="*", type=Path)
    adding.add_argument("--command", default="", help="how it was made, where the file does not say")
    adding.set_defaults(do=add)
    kinds.add_parser("prune").set_defaults(do=prune)
    kinds.add_parser("check").set_defaults(do=check)
    options = commands.parse_args()
    options.do(options)


if __name__ == "__main__":
    main()
