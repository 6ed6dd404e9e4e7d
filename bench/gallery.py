"""One page of all studies, from the rows of several runs of experiments.py: of each command the newest complete run.

python bench/gallery.py gallery.rows.json.gz newer.rows.json.gz --prefer H200 -o gallery.html

The rows are written beside the page again: a later run of a few commands joins them.
"""

from __future__ import annotations

import argparse
import gzip
import json
import shlex
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from measure import HERE, rewrite


def spelled(words: str) -> str:
    """The words of an experiment as results name it: without the folder in which it ran."""
    return words.replace("{folder}/", "").replace("{recording}", "recording.json").replace("{known}", "known.json")


def listed() -> list[str]:
    """The experiments' words, in their order."""
    return [spelled(one["words"]) for one in tomllib.loads((HERE / "experiments.toml").read_text(encoding="utf-8"))["experiment"]]


def keep(page_file: Path, commands: Iterable[tuple[dict[str, Any], Sequence[Any]]]) -> None:
    """Write the results of commands, with their rows and the devices of their run, beside the page."""
    document = {"commands": [{**command, "devices": [asdict(info) for info in infos]} for command, infos in commands]}
    page_file.with_suffix(".rows.json.gz").write_bytes(gzip.compress(json.dumps(document).encode(), mtime=0))


def kept(files: Sequence[Path]) -> Iterator[tuple[dict[str, Any], list[Any]]]:
    """The commands in the files, each with the devices of its run."""
    from portatile.records import DeviceInfo, from_json

    for file in files:
        for command in json.loads(gzip.decompress(file.read_bytes()))["commands"]:
            yield command, from_json(json.dumps(command["devices"]).encode(), list[DeviceInfo])


def newest(files: Sequence[Path], preferred: str = "") -> list[tuple[dict[str, Any], list[Any]]]:
    """For each listed command the run to show, in the order of the experiments: a complete run rather than one that was cut off, then one
    on a device whose name contains ``preferred``, then the newest.
    """
    chosen: dict[str, tuple[tuple[bool, bool], dict[str, Any], list[Any]]] = {}
    for command, devices in kept(files):
        rank = bool(command["complete"]), any(preferred in info.name for info in devices)
        before = chosen.get(command["words"])
        if before is None or rank >= before[0]:
            chosen[command["words"]] = rank, command, devices
    return [chosen[words][1:] for words in listed() if words in chosen]


def chapter(command: dict[str, Any], infos: Sequence[Any]) -> Any:
    """A study's command as a chapter of the page; None for other commands, and for studies without rows or figures."""
    from portatile.records import from_json
    from portatile.studies.framework import conduct, discover, page
    from portatile.studies.framework.study import StudyRequest

    words = shlex.split(command["command"])[1:]
    if words[0] != "study" or not command["rows"]:
        return None
    try:
        study = discover.get(words[1])
        told = command["command"] + json.dumps(command["rows"])
        named: Any = tuple(SimpleNamespace(info=info) for info in infos if info.id in told)
        rows = from_json(json.dumps(command["rows"]).encode(), list[study.row])  # type: ignore[name-defined]
        ended = conduct.COMPLETE if command["complete"] else conduct.OUT_OF_TIME
        made = conduct.StudyOutcome(study, StudyRequest(named, study.options()), rows, ended, 0, command["seconds"], command["command"])
        page.render([made])
    except Exception as error:  # the others are drawn
        print(f"         {command['command']} is not on the page: {type(error).__name__}: {error}", flush=True)
        return None
    return made


def written(page_file: Path, chapters: Sequence[Any]) -> None:
    """Write the page of these chapters."""
    from portatile.studies.framework import page

    rewrite(page_file, page.render(chapters))


def main() -> None:
    """Draw the page."""
    commands = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands.add_argument("files", nargs="+", type=Path, help="what runs of experiments.py kept, the oldest first")
    commands.add_argument("-o", "--output", type=Path, required=True, help="the page")
    commands.add_argument("--prefer", default="", help="a part of a device's name: of complete runs those on it")
    options = commands.parse_args()
    chosen = newest(options.files, options.prefer)
    chapters = [made for command, infos in chosen if (made := chapter(command, infos)) is not None]
    written(options.output, chapters)
    keep(options.output, chosen)
    print(f"{len(chapters)} studies on {options.output}, {options.output.stat().st_size / 1e3:.0f} kB")


if __name__ == "__main__":
    main()
