"""Recorded searches with invented times, and the files that hold them."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from pathlib import Path

import numpy as np

from portatile.formats import t4
from portatile.records import DeviceInfo, Problem, to_json
from portatile.store import ResultStore
from portatile.trials import Trial
from portatile.tuning.search import replay
from support.trials import DEVICE

OTHER = Problem("mystery", {"x": 8}, "float32")


def recorded(seed: int = 3, problem: Problem = OTHER, device: DeviceInfo = DEVICE) -> list[Trial]:
    """A space of 60 configurations, a tenth of which fail; each took 0.25 s to compile and 0.5 s to run."""
    rng = np.random.default_rng(seed)
    made = []
    for tile in range(10):
        for width in (1, 2, 4, 8, 16, 32):
            seconds = 1e-3 * (1 + abs(tile - 6) + abs(math.log2(width) - 3) + 0.2 * rng.random())
            failed = rng.random() < 0.1
            samples = () if failed else (seconds, seconds * 1.01, seconds * 0.99)
            phases = {"compile": 0.25, "run": 0.5}
            made.append(Trial(problem, {"TILE": tile, "WIDTH": width}, device, "s", "crash" if failed else "ok", samples, seconds=phases))
    return made


def recording(trials: list[Trial] | None = None) -> replay.Recording:
    (found,) = replay.group(trials or recorded(), "recorded")
    return found


def write(folder: Path, trials: list[Trial]) -> dict[str, Path]:
    """The trials in every kind of file that holds all of them."""
    with ResultStore(folder / "store.sqlite") as store:
        for one in trials:
            store.add(one)
    (folder / "list.json").write_bytes(to_json(trials))
    (folder / "t4.json").write_bytes(t4.write(trials))
    bare = [asdict(trial) | {"problem": None, "device": None} for trial in trials]
    (folder / "run.json").write_bytes(to_json({"problem": trials[0].problem, "device": trials[0].device, "trials": bare}))
    entries = {}
    for one in trials:
        time = one.median * 1e3 if one.status == "ok" else "RuntimeFailedConfig"
        phases = {"compile_time": one.seconds["compile"] * 1e3, "benchmark_time": one.seconds["run"] * 1e3}
        entries[str(len(entries))] = {**one.config, "time": time, "times": [sample * 1e3 for sample in one.samples], **phases}
    names = list(trials[0].config)
    (folder / "cache.json").write_text(json.dumps({"device_name": "chip", "kernel_name": "k", "tune_params_keys": names, "cache": entries}))
    return {path.stem: path for path in folder.iterdir() if path.suffix in (".sqlite", ".json")}
