"""Runs the command of every experiment: what it prints, what it draws, and how long it takes.

    python bench/experiments.py --device pocl --gallery experiments.html
    python bench/experiments.py --budget 540 --gallery gallery.html  # the best device, its other back ends, a processor
    python bench/experiments.py --list

Commands run in processes of their own, one after another, with sizes for processors or for GPUs; only the first device of each kind that a
command cannot do without takes part. With a budget each command has a fair share of what is left. A study is told of it; what takes
longer is interrupted like by Ctrl-C, and shows what it has; what does not stop is killed. Result and page are written anew after each
command. A second run on the same machine goes on with the studies that were interrupted. ``--gallery`` writes one page of all studies, and
beside it the rows, of which gallery.py makes one page of several runs.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import signal
import sys
import tempfile
import time
import tomllib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import gallery
from measure import HERE, Ended, facts, parser, print_table, rewrite, slug, supervised, until_stopped

KINDS = ("json", "html", "csv", "svg")
_PATIENCE = 20.0  # seconds for a command that was interrupted to show what it has
_LONGEST = 1800.0  # seconds of a command without a budget: none may hang for ever
_LEAST = 8.0  # seconds with which a command is begun, while there are so many
_SPARE = 8.0  # seconds of a budget for the last one to stop, and for the page
_STARTS = 3.0  # ... of which a study needs so many to begin, and to show what it has
_OVER = "out of time"
_RESUMED = "goes on where an earlier run was interrupted"


@dataclass(frozen=True)
class Experiment:
    """One of ``experiments.toml``, which says what each field is."""

    ids: str
    words: str
    small: str = ""
    large: str = ""
    minutes: float = 1.0
    prints: str = ""
    several: bool = False
    between: str = ""
    no_device: bool = False
    hosts: bool = False
    once: bool = False


def experiments() -> list[Experiment]:
    """Those of the list beside this file."""
    listed = tomllib.loads((HERE / "experiments.toml").read_text(encoding="utf-8"))
    return [Experiment(**one) for one in listed["experiment"]]


def usual(best: Any, found: Sequence[Any]) -> list[Any]:
    """The best device, the other back ends of its hardware, and a processor if it is none."""
    others = [one for one in found if one is not best and one.info.physical_id == best.info.physical_id]
    hosts = [one for one in found if one.info.kind == "cpu" and one is not best and "oclgrind" not in one.info.platform.lower()]
    return [best, *others, *hosts[:1]] if best.info.kind != "cpu" else [best]


def command(one: Experiment, devices: Sequence[Any], folder: Path) -> list[str]:
    """The words after ``portatile`` on these devices, in which files of recorded trials are those of ``folder``."""
    gpu = any(device.info.kind == "gpu" for device in devices)
    files = {"folder": str(folder), "recording": str(folder / "recording.json"), "known": str(folder / "known.json")}
    words = [word.format(**files) for word in shlex.split(f"{one.words} {one.large if gpu else one.small}")]
    taking = [device for device in devices if one.hosts or not gpu or device.info.kind == "gpu"]
    if one.once:
        taking = list({device.info.physical_id or device.info.id: device for device in reversed(taking)}.values())[::-1]
    ids = [device.info.id for device in taking]
    if "gap" in words and gpu:
        same = [device.info.id for device in devices if device.info.physical_id == devices[0].info.physical_id]
        return [*words, "--between", *same[:2]] if len(same) > 1 else [*words, "--device", ids[0]]
    if "gap" in words and one.between:
        return [*words, "--between", ids[0], f"{ids[0]}/{one.between}"]
    if one.no_device:
        return words
    return [*words, *(word for name in (ids if one.several else ids[:1]) for word in ("--device", name))]


def recordings(folder: Path) -> None:
    """Two recordings of an invented kernel on two devices, for studies that need no device: their times are formulas."""
    for name, shift in (("recording", 0.0), ("known", 1.0)):
        cache = {}
        for x in (1, 2, 4, 8, 16, 32):
            for y in (1, 2, 4, 8, 16):
                for unroll in (0, 1, 2):
                    time_of = (
                        1.0
                        + abs(x.bit_length() - 4.0 - shift / 2)
                        + abs(y.bit_length() - 3.0)
                        + 0.3 * abs(unroll - 1)
                        + 0.05 * ((7 * x + 3 * y) % 5)
                    )
                    cache[f"{x},{y},{unroll}"] = {
                        "block_size_x": x,
                        "block_size_y": y,
                        "unroll": unroll,
                        "time": time_of,
                        "times": [time_of],
                    }
        keys = ["block_size_x", "block_size_y", "unroll"]
        document = {"device_name": name, "kernel_name": "invented", "problem_size": [1024, 1024], "tune_params_keys": keys, "cache": cache}
        (folder / f"{name}.json").write_text(json.dumps(document))


def run(one: Experiment, words: list[str], folder: Path, seconds: float, patience: float) -> dict[str, Any]:
    """Run a command, with its files in ``folder``; interrupt it after ``seconds``, kill it ``patience`` later. What came of it."""
    study = words[0] == "study"
    outputs = [word for kind in KINDS for word in ("-o", str(folder / f"out.{kind}"))] if study else []
    for kind in KINDS:
        (folder / f"out.{kind}").unlink(missing_ok=True)
    limit = ["--budget", f"{max(seconds - _STARTS, _STARTS):.0f}s"] if study and seconds < _LONGEST and _limited(words) else []
    done = supervised([sys.executable, "-m", "portatile", *words, *limit, *outputs], seconds, patience, {**os.environ, "COLUMNS": "200"})
    shown = shlex.join([word.replace(f"{folder}/", "") for word in words])
    row = {
        "ids": one.ids,
        "command": f"portatile {shown}",
        "words": gallery.spelled(one.words),
        "prints": one.prints,
        "seconds": done.seconds,
        "code": done.code,
        "ended": done.ended or (_OVER if any(line.startswith(f"{_OVER}: ") for line in done.out.splitlines()) else ""),
        "resumed": _RESUMED in done.told,
        "lines": len(done.out.splitlines()),
        "rows": 0,
        "failing": 0,
        "figures": 0,
        "files": [kind for kind in KINDS if (folder / f"out.{kind}").exists()],
        "timed": next((line for line in done.out.splitlines() if line.startswith("Timed: ")), "").removeprefix("Timed: "),
        "columns": [],
        "notes": "",
        "gap": {},
        "error": _error(done),
    }
    try:
        found = _found(words[1], folder) if study else {}
        return {**row, **found, "error": "" if found.get("rows") and done.code == -signal.SIGINT else row["error"]}
    except Exception as error:  # whatever is wrong with one row's files, the others are not lost
        return {**row, "error": row["error"] or f"its files cannot be read: {type(error).__name__}: {error}"[:200]}


def _limited(words: Sequence[str]) -> bool:
    """Whether a study's ``--budget`` limits the study, not its searches."""
    from portatile.cli import _study_options
    from portatile.errors import PortatileError
    from portatile.studies.framework import discover

    try:
        own = _study_options.parameters(discover.get(words[1]).options)
    except PortatileError:  # there is no such study
        return False
    return not any("--budget" in option.opts for option in own)


def _error(done: Ended) -> str:
    """Why a command failed, in one line; empty if it completed, or was interrupted and showed its results so far."""
    if done.ended == "killed":
        return f"killed: it did not stop within its time, {done.seconds:.0f} s"
    if done.code in (0, 130):
        return ""
    if done.code == -signal.SIGINT:
        return f"interrupted before it had anything, after {done.seconds:.0f} s"
    last = done.told.strip().splitlines()[-1:]
    return last[0][:200] if last else f"ended with code {done.code}"


def _found(study: str, folder: Path) -> dict[str, Any]:
    """What a study's files hold."""
    rows = json.loads((folder / "out.json").read_text()) if (folder / "out.json").exists() else []
    page = (folder / "out.html").read_text() if (folder / "out.html").exists() else ""
    return {
        "rows": len(rows),
        "failing": sum(row.get("status", "ok") not in ("ok", "") for row in rows),
        "figures": page.count("<figure>"),
        "columns": _headings(study),
        "notes": _notes(study, folder),
        "gap": gap(rows) if study == "gap" else {},
    }


def _headings(study: str) -> list[str]:
    from portatile.studies.framework import discover

    return [column.heading for column in discover.get(study).columns if column.heading]


def _decoded(study: Any, folder: Path) -> list[Any]:
    from portatile.records import from_json

    path = folder / "out.json"
    return list(from_json(path.read_bytes(), list[study.row])) if path.exists() else []


def gap(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The outcome of a gap study: seconds of each side without and with all optimisations, and what explains them."""
    built = [row for row in rows if not row["order"] and row["seconds"]]
    sides = {}
    for side in dict.fromkeys(row["side"] for row in built):
        mine = {row["on"]: row["seconds"] for row in built if row["side"] == side}
        names = next(row["offered"] for row in built if row["side"] == side).split(",")
        sides[side] = {"none": mine.get("nothing"), "all": mine.get(" + ".join(names))}

    def shares(order: str) -> dict[str, float]:
        return {
            f"{row['side']}: {row['added']}": row["explained"] for row in rows if row["order"] == order and row["explained"] is not None
        }

    return {"sides": sides, **{order: shares(order) for order in ("all orders", "until equal", "code or driver", "difference")}}


def _notes(name: str, folder: Path) -> str:
    from portatile.studies.framework import discover

    study = discover.get(name)
    rows = _decoded(study, folder)
    return "\n".join(study.notes(rows)) if rows else ""


def kept(done: dict[str, Any], folder: Path) -> dict[str, Any]:
    """What the page of all studies takes of a command: its rows too."""
    rows = json.loads((folder / "out.json").read_text()) if done["rows"] else []
    complete = done["code"] == 0 and not done["ended"]
    return {"words": done["words"], "command": done["command"], "seconds": done["seconds"], "complete": complete, "rows": rows}


@dataclass
class Keeper:
    """What was measured so far, on disk after each command: the result; with ``page`` all studies as a page, and the rows beside it."""

    result: Path
    document: dict[str, Any]
    page: Path | None
    commands: list[dict[str, Any]] = field(default_factory=list)
    chapters: list[Any] = field(default_factory=list)

    def add(self, row: dict[str, Any], command: dict[str, Any], infos: Sequence[Any]) -> None:
        """Keep a command's row, and what the page takes of it."""
        self.document["rows"].append(row)
        rewrite(self.result, json.dumps(self.document, indent=1) + "\n")
        if self.page is None:
            return
        self.commands.append(command)
        gallery.keep(self.page, [(one, infos) for one in self.commands])
        made = gallery.chapter(command, infos)
        if made is not None:
            self.chapters.append(made)
            gallery.written(self.page, self.chapters)


@dataclass
class Clock:
    """The time of all commands together: ``ends`` is of the monotonic clock, None without a budget."""

    ends: float | None

    def share(self, one: Experiment, waiting: Sequence[Experiment]) -> tuple[float, float]:
        """Seconds for the first of those ``waiting``, and how long it may take to stop; nothing if it is not worth beginning."""
        if self.ends is None:
            return _LONGEST, _PATIENCE
        left = self.ends - time.monotonic()
        share = max(left * one.minutes / sum(other.minutes for other in waiting), min(_LEAST, left))
        return (share, min(_PATIENCE, max(left - share, 0.0) + _SPARE / 2)) if left > 1.0 else (0.0, 0.0)


def parse() -> argparse.Namespace:
    commands = parser(__doc__, "the best one, its other back ends, and a processor")
    commands.add_argument("--only", default="", help="experiments, separated by commas: D3.2,gap,study gap gemm")
    commands.add_argument("--budget", type=float, help="seconds for all together")
    commands.add_argument("--gallery", type=Path, help="write the studies as one page here, and their rows beside it")
    commands.add_argument("--list", action="store_true", help="print the commands and run none")
    return commands.parse_args()


def main() -> None:
    """Run, print a line for each, write the result and the page."""
    options = parse()
    began = time.monotonic()
    from portatile import device as every

    devices = [every.get(name) for name in options.device] or usual(every.get(), every.devices())
    wanted = {word.strip() for word in options.only.split(",") if word.strip()}
    chosen = [one for one in experiments() if not wanted or wanted & {*one.ids.split(", "), *one.words.split(), one.words}]
    result = options.out / f"experiments-{slug(devices[0].info.name)}-{datetime.now(UTC):%Y%m%dT%H%M%SZ}.json"
    document = {"bench": "experiments", **facts(options.commit), "devices": [asdict(one.info) for one in devices], "rows": []}
    keeper, infos = Keeper(result, document, options.gallery), [one.info for one in devices]
    clock = Clock(None if options.budget is None else began + options.budget - _SPARE)
    with until_stopped(), tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        recordings(folder)
        for number, one in enumerate(chosen):
            words = command(one, devices, folder)
            if options.list:
                print(f"{one.ids}: portatile {shlex.join(words).replace(place + '/', '')}")
                continue
            seconds, patience = clock.share(one, chosen[number:])
            if not seconds:
                print(f"not reached: {', '.join(other.words for other in chosen[number:])}", flush=True)
                break
            done = run(one, words, folder, seconds, patience)
            keeper.add(done, kept(done, folder), infos)
            state = done["error"] or done["ended"]
            print(
                f"{done['seconds']:7.1f} s  {one.ids}: {done['command']}  {done['rows']} rows, {done['figures']} figures  {state}",
                flush=True,
            )
    rows = document["rows"]
    if not rows:
        return
    table = [[r["ids"], r["words"], f"{r['seconds']:.1f}", str(r["rows"]), str(r["figures"]), r["error"] or r["ended"]] for r in rows]
    print_table(["experiment", "command", "seconds", "rows", "figures", ""], table)
    print(f"\n{len(rows)} of {len(chosen)} commands in {time.monotonic() - began:.0f} s; written to {result}")
    if keeper.page is not None and keeper.chapters:
        print(f"{len(keeper.chapters)} studies on {keeper.page}, {keeper.page.stat().st_size / 1e3:.0f} kB")


if __name__ == "__main__":
    main()
