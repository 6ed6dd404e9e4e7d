"""The recorded results: runs of a bench, oldest first, and their index with the hash, command, commit and device of each file.

`results.py` checks, adds and prunes them; `pages.py` writes the tables of the pages from them.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from measure import RESULTS

INDEX = "index.json"
LIMIT = 2_000_000  # bytes of the folder
PLATFORMS = {"Portable Computing Language": "PoCL", "Intel(R) OpenCL": "Intel"}
_COMMIT = re.compile(r"[0-9a-f]{7,40}")


class ResultError(ValueError):
    """A result that may not be recorded, or an index that does not fit its folder."""


@dataclass(frozen=True)
class Run:
    """One recorded run of a bench: its file's name and what is in it."""

    file: str
    document: Any

    @property
    def time(self) -> str:
        """When it was measured; ISO 8601."""
        return str(self.document["time"])

    @property
    def commit(self) -> str:
        """The commit that was measured, in seven digits."""
        return str(self.document["commit"])[:7]


@dataclass(frozen=True)
class Table:
    """A table of a page, as Markdown, and the files that its figures come from. ``title`` is a heading where pages show several."""

    name: str
    text: str
    files: frozenset[str]
    title: str = ""


@dataclass(frozen=True)
class Picture:
    """A drawing, by its file name in docs/pictures."""

    name: str
    text: str


def read(path: Path) -> Any:
    """The document in a ``.json`` or ``.json.gz`` file."""
    data = path.read_bytes()
    return json.loads(gzip.decompress(data) if path.suffix == ".gz" else data)


def runs(family: str, folder: Path = RESULTS) -> list[Run]:
    """The recorded runs of ``family.py``, the oldest first."""
    listed = [Run(path.name, read(path)) for path in folder.glob(f"{family}-*.json.gz")]
    return sorted(listed, key=lambda run: (run.time, run.file))


def digest(path: Path) -> str:
    """The SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def clean(document: Any) -> str:
    """The commit of a result; raises ResultError if it is missing or the tree had changes."""
    commit = str(document.get("commit") or "") if isinstance(document, Mapping) else ""
    if not _COMMIT.fullmatch(commit):
        raise ResultError(f"the commit is {commit or 'missing'}: measure a committed tree (or give --commit)")
    return commit


def devices(document: Any) -> list[str]:
    """The names of the devices that a result is of, as far as it says."""
    return sorted(set(_names(document))) or sorted(filter(None, (document.get("device"), document.get("machine"))))


def _names(value: Any) -> Iterator[str]:
    """Every device's name in a document: a record with a name, and a platform, driver or status beside it."""
    if isinstance(value, Mapping):
        if isinstance(value.get("name"), str) and value.keys() & {"platform", "driver", "winner_of", "slabs", "phases"}:
            yield value["name"]
        if isinstance(value.get("device"), str) and "ranking" in value:
            yield value["device"]
        for part in value.values():
            yield from _names(part)
    elif isinstance(value, Sequence) and not isinstance(value, str):
        if len(value) == 3 and all(isinstance(part, str) for part in value):  # name, platform, driver
            yield value[0]
        for part in value[:50]:
            yield from _names(part)


def load_index(folder: Path = RESULTS) -> dict[str, Any]:
    """``files``: name -> sha256, command, commit, device; ``tables``: name -> page and files."""
    path = folder / INDEX
    index: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {"tables": {}, "files": {}}
    return index


def save_index(index: Mapping[str, Any], folder: Path = RESULTS) -> None:
    """Write it, sorted by name."""
    ordered = {part: dict(sorted(index[part].items())) for part in ("tables", "files")}
    (folder / INDEX).write_text(json.dumps(ordered, indent=1, ensure_ascii=False) + "\n")


def take(path: Path, command: str = "", folder: Path = RESULTS) -> tuple[str, dict[str, Any]]:
    """Compress a result into the folder; its name there and its entry of the index. Raises ResultError if it is not fit."""
    document = read(path)
    commit = clean(document)
    typed = command or document.get("command", "")
    if not typed:
        raise ResultError("it does not say which command made it: give --command")
    name = path.name.removesuffix(".gz").removesuffix(".json") + ".json.gz"
    target = folder / name
    target.write_bytes(gzip.compress(json.dumps(document, separators=(",", ":")).encode(), 9, mtime=0))
    return name, {"sha256": digest(target), "command": typed, "commit": commit, "device": ", ".join(devices(document))}


def processor(name: str) -> str:
    """A device's name without what PoCL and vendors put around it."""
    return re.sub(r"\(R\)|^(pthread|cpu)-|skylake-avx512-|haswell-", "", name)


def through(device: Mapping[str, Any]) -> str:
    """The back end or runtime that reached a device: CUDA, OpenCL (a GPU's), or PoCL and its like with a version."""
    if device.get("backend", str(device.get("id", "")).partition(":")[0]) == "cuda":
        return "CUDA"
    name = PLATFORMS.get(device["platform"], "OpenCL")
    return name if name == "OpenCL" else f"{name} {'.'.join(re.findall(r'[0-9]+', device['driver'])[:2])}"


def natural(text: str) -> list[tuple[int, str]]:
    """A key that sorts numbers within texts by their value."""
    return [(int(part) if part.isdigit() else -1, part) for part in re.split(r"(\d+)", text)]


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]], numbers: bool = True) -> str:
    """A table; columns after the first are right-aligned where they hold ``numbers``."""
    line = " --- |" + (" ---: |" if numbers else " --- |") * (len(head) - 1)
    return "\n".join([f"| {' | '.join(head)} |", f"|{line}", *(f"| {' | '.join(row)} |" for row in rows)]) + "\n"
