"""Every experiment by its one command: what it prints, what it draws, and how long it takes.

    python bench/experiments.py --device pocl --gallery experiments.html
    python bench/experiments.py --budget 540 --gallery gallery.html  # the best device, its other back ends, a processor
    python bench/experiments.py --list

Commands run in processes of their own, one after another, with sizes for processors or for GPUs; only the first device of each kind that a
command cannot do without takes part. With a budget each command has a fair share of what is left, and is then interrupted like by Ctrl-C: a
study shows and draws what it has. ``--gallery`` writes one page of all studies.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from measure import HERE, facts, parser, print_table, save, slug, until_stopped

KINDS = ("svg", "html", "csv", "json")
_PATIENCE = 20.0  # seconds for a command that was interrupted to show what it has


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
    ids = [device.info.id for device in devices if one.hosts or not gpu or device.info.kind == "gpu"]
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


def run(one: Experiment, words: list[str], folder: Path, seconds: float | None) -> dict[str, Any]:
    """Run a command, with its files in ``folder``; interrupt it after ``seconds``. What came of it."""
    study = words[0] == "study"
    outputs = [word for kind in KINDS for word in ("-o", str(folder / f"out.{kind}"))] if study else []
    for kind in KINDS:
        (folder / f"out.{kind}").unlink(missing_ok=True)
    environment = {**os.environ, "COLUMNS": "200"}
    began = time.monotonic()
    child = subprocess.Popen(
        [sys.executable, "-m", "portatile", *words, *outputs],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )
    try:
        out, told = child.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        child.send_signal(signal.SIGINT)
        try:
            out, told = child.communicate(timeout=_PATIENCE)
        except subprocess.TimeoutExpired:
            child.kill()
            out, told = child.communicate()
    except KeyboardInterrupt:
        child.send_signal(signal.SIGINT)
        child.communicate(timeout=_PATIENCE)
        raise
    took = time.monotonic() - began
    rows = json.loads((folder / "out.json").read_text()) if (folder / "out.json").exists() else []
    page = (folder / "out.html").read_text() if (folder / "out.html").exists() else ""
    shown = shlex.join([word.replace(f"{folder}/", "") for word in words])
    return {
        "ids": one.ids,
        "command": f"portatile {shown}",
        "words": one.words.replace("{folder}/", "").replace("{recording}", "recording.json").replace("{known}", "known.json"),
        "prints": one.prints,
        "seconds": took,
        "code": child.returncode,
        "lines": len(out.splitlines()),
        "rows": len(rows),
        "failing": sum(row.get("status", "ok") not in ("ok", "") for row in rows),
        "figures": page.count("<figure>"),
        "files": [kind for kind in KINDS if (folder / f"out.{kind}").exists()],
        "timed": next((line for line in out.splitlines() if line.startswith("Timed: ")), "").removeprefix("Timed: "),
        "columns": _headings(words[1]) if study else [],
        "notes": _notes(words[1], folder) if study else "",
        "gap": gap(rows) if words[:2] == ["study", "gap"] else {},
        "error": told.strip().splitlines()[-1] if child.returncode not in (0, 130) and told.strip() else "",
    }


def _headings(study: str) -> list[str]:
    from portatile.studies.form import discover

    return [column.heading for column in discover.get(study).columns if column.heading]


def _decoded(study: Any, folder: Path) -> list[Any]:
    from portatile.records import from_json

    path = folder / "out.json"
    return list(from_json(path.read_bytes(), list[study.row])) if path.exists() else []


def gap(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What a study of gaps came to: seconds without and with all optimisations of each side, and what explains them."""
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
    from portatile.studies.form import discover

    study = discover.get(name)
    rows = _decoded(study, folder)
    return "\n".join(study.notes(rows)) if rows else ""


def outcome(done: dict[str, Any], devices: Sequence[Any], folder: Path) -> Any:
    """A study's command as a chapter of the gallery; None for what is none or gave no row."""
    from portatile.studies.form import conduct, discover
    from portatile.studies.form.study import Asked

    words = shlex.split(done["command"])[1:]
    if words[0] != "study" or not done["rows"]:
        return None
    study = discover.get(words[1])
    ended = conduct.COMPLETE if done["code"] == 0 else conduct.OUT_OF_TIME
    asked = Asked(tuple(devices), study.options())
    return conduct.StudyOutcome(study, asked, _decoded(study, folder), ended, 0, done["seconds"], done["command"])


def parse() -> argparse.Namespace:
    commands = parser(__doc__, "the best one, its other back ends, and a processor")
    commands.add_argument("--only", default="", help="experiments, separated by commas: D3.2,gap")
    commands.add_argument("--budget", type=float, help="seconds for all together")
    commands.add_argument("--gallery", type=Path, help="write the studies as one page here")
    commands.add_argument("--list", action="store_true", help="print the commands and run none")
    return commands.parse_args()


def main() -> None:
    """Run, print a line for each, write the result and the page."""
    options = parse()
    from portatile import device as every
    from portatile.studies.form import page

    devices = [every.get(name) for name in options.device] or usual(every.get(), every.devices())
    wanted = {word.strip() for word in options.only.split(",") if word.strip()}
    chosen = [one for one in experiments() if not wanted or wanted & {*one.ids.split(", "), *one.words.split()}]
    rows: list[dict[str, Any]] = []
    chapters: list[Any] = []
    ends = None if options.budget is None else time.monotonic() + options.budget
    with until_stopped(), tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        recordings(folder)
        for number, one in enumerate(chosen):
            words = command(one, devices, folder)
            if options.list:
                print(f"{one.ids}: portatile {shlex.join(words).replace(place + '/', '')}")
                continue
            share = None
            if ends is not None:
                share = max(ends - time.monotonic(), 3.0) * one.minutes / sum(other.minutes for other in chosen[number:])
            done = run(one, words, folder, share)
            rows.append(done)
            if (chapter := outcome(done, devices, folder)) is not None:
                chapters.append(chapter)
            state = "" if done["code"] == 0 else f"code {done['code']} {done['error']}"
            print(
                f"{done['seconds']:7.1f} s  {one.ids}: {done['command']}  {done['rows']} rows, {done['figures']} figures {state}",
                flush=True,
            )
            if options.gallery is not None and chapters:
                options.gallery.write_text(page.render(chapters), encoding="utf-8")
    if not rows:
        return
    print_table(
        ["experiment", "seconds", "rows", "figures"], [[r["ids"], f"{r['seconds']:.1f}", str(r["rows"]), str(r["figures"])] for r in rows]
    )
    document = {"bench": "experiments", **facts(options.commit), "devices": [asdict(one.info) for one in devices], "rows": rows}
    print(f"\nwritten to {save(f'experiments-{slug(devices[0].info.name)}', document, options.out)}")


if __name__ == "__main__":
    main()
