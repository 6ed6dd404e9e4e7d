"""Which share of its copies a routine in slabs hides: the call compared with the same slabs' stages one after another.

    python bench/slabs.py --device cuda:0 --device opencl:0:0

A product, a potential and a convolution of NumPy arrays under ``memory_limit``. ``one piece`` is the call without that limit, ``whole``
the call with it, ``apart`` the same call with a wait after each stage of each slab, through one set of buffers: ``stage`` and ``collect``
are the host's copies to and from pinned memory, ``upload`` and ``download`` the link's, ``kernel`` the device's work, ``buffers`` what is
allocated. Were all of them hidden behind the longest, ``apart / whole`` would be what the column after it says. ``hidden`` is the share of
the copies, the host's and the link's, that the whole does not wait for; below 0 it loses. All give the same result.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median
from typing import Any
from unittest.mock import patch

import numpy as np

import portatile
from measure import facts, parser, print_table, save, slug, until_stopped
from portatile import device as devices
from portatile.device import staging
from portatile.device.base import Device, Memory
from portatile.runtime import perform
from portatile.runtime.in_parts import slab_pipeline, slabs, tasks
from portatile.runtime.one_device.engine import Engine
from portatile.workload import Cut

STAGES = ("buffers", "stage", "upload", "kernel", "download", "collect")
COPIES = ("stage", "upload", "download", "collect")


@dataclass(frozen=True)
class Case:
    """A call on NumPy arrays of ``sizes``, given a device's id, and the bytes of the device that it may take."""

    name: str
    sizes: Mapping[str, int]
    limit: int
    call: Callable[[str], np.ndarray]


def cases(small: bool) -> Iterator[Case]:
    """Arithmetic that takes about as long as its copies, one that takes longer, and one that hardly takes time; for CPUs small ones."""
    rng = np.random.default_rng(0)
    m, k = (1024, 128) if small else (8192, 2048)
    a, b = rng.random((m, k), np.float32), rng.random((k, m), np.float32)
    operands = 4 * (2 * m * k + m * m)
    yield Case("matmul", {"m": m, "n": m, "k": k}, operands // 2, lambda device: portatile.matmul(a, b, device=device))
    side, count = (512, 200) if small else (8192, 8000)
    atoms = (rng.random((count, 4)) * (side / 10)).astype(np.float32)
    nbytes = 4 * side * side
    sizes = {"atoms": count, "nx": side, "ny": side}
    yield Case("coulomb", sizes, nbytes // 2, lambda device: portatile.coulomb_potential(atoms, (side, side), 0.1, device=device))
    n, lines = 256, 4096 if small else 2**18
    psi, taps = rng.random((n, lines), np.float32), rng.random(16)
    sizes = {"n": n, "ndat": lines}
    yield Case("convolution", sizes, psi.nbytes, lambda device: portatile.convolve1d(psi, taps, lower=-8, device=device))


def one_by_one(seconds: dict[str, float]) -> Callable[[Engine, tasks.Task, Cut, int, Iterable[tuple[int, int]]], None]:
    """What stands in for the pipeline: the same slabs through one lane, each stage waited for and its ``seconds`` added up."""

    @contextmanager
    def charged(stage: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        seconds[stage] += time.perf_counter() - start

    def pipeline(engine: Engine, task: tasks.Task, cut: Cut, width: int, ranges: Iterable[tuple[int, int]]) -> None:
        size, own = task.problem.sizes[cut.size], list[Memory]()
        read = [name for name in cut.pieces if task.matrices[name].read]
        with charged("buffers"):
            lane = slab_pipeline._lane(engine.device, tasks.part(task, cut, 0, min(width, size)), cut, 0)
        queue = lane.queue
        try:
            with charged("upload"):
                shared = slab_pipeline._place([queue, queue], task, cut, own)
                queue.finish()
            for low, high in ranges:
                part = tasks.part(task, cut, low, high)
                prepared = tasks.prepared(engine, part)
                seconds["slabs"] += 1
                with charged("stage"):
                    for name in read:
                        staging.copied(lane.staged(part, name), part.matrices[name].array)
                with charged("upload"):
                    for name in read:
                        queue.upload(lane.device[name], lane.staged(part, name), blocking=False)
                    queue.finish()
                with charged("kernel"):
                    prepared.run(queue, {**shared, **lane.device}, part.scalars)
                    queue.finish()
                with charged("download"):
                    done = queue.download(lane.staged(part, task.output), lane.device[task.output], blocking=False)
                    queue.finish()
                with charged("collect"):
                    lane.pending = part, done, lane.staged(part, task.output)
                    slab_pipeline._collect(lane)
        finally:
            queue.finish()
            with charged("buffers"):
                lane.release()
                for memory in own:
                    memory.release()

    return pipeline


def measured(case: Case, device: Device, rounds: int) -> dict[str, Any]:
    """A row: seconds of the whole and of each stage by turns, after a first call of each that compiles."""
    selected = device.info.id
    whole: list[float] = []
    uncut: list[float] = []
    stages: list[dict[str, float]] = []
    perform.forget()
    for turn in range(rounds + 1):
        start = time.perf_counter()
        expected = case.call(selected)
        alone = time.perf_counter() - start
        with portatile.memory_limit(case.limit):
            start = time.perf_counter()
            result = case.call(selected)
            took = time.perf_counter() - start
            seconds = dict.fromkeys((*STAGES, "slabs"), 0.0)
            start = time.perf_counter()
            with patch.object(slabs, "pipeline", one_by_one(seconds)):
                again = case.call(selected)
            seconds["apart"] = time.perf_counter() - start
        if not seconds["slabs"] or not np.array_equal(result, again) or not np.array_equal(result, expected):
            raise SystemExit(f"{case.name}: it was not cut into slabs, or they differ")
        if turn:
            uncut.append(alone)
            whole.append(took)
            stages.append(seconds)
    middle = {stage: median(seconds[stage] for seconds in stages) for stage in STAGES}
    apart = median(seconds["apart"] for seconds in stages)
    row = {"routine": case.name, "sizes": dict(case.sizes), "limit": case.limit, "device": selected, "name": device.info.name}
    row |= {
        "driver": device.info.driver,
        "slabs": int(stages[0]["slabs"]),
        "uncut": median(uncut),
        "whole": median(whole),
        "stages": middle,
    }
    row |= {"sum": sum(middle.values()), "longest": max(middle, key=lambda stage: middle[stage]), "apart": apart}
    row |= {"hidden": (apart - row["whole"]) / sum(middle[stage] for stage in COPIES)}
    return row | {
        "samples": {"uncut": uncut, "whole": whole, **{stage: [seconds[stage] for seconds in stages] for stage in (*STAGES, "apart")}}
    }


def main() -> None:
    """Measure, print, save."""
    commands = parser(__doc__)
    commands.add_argument("--rounds", type=int, default=3, help="measurements of each, by turns")
    commands.add_argument("--small", action="store_true", help="small arrays on GPUs too")
    options = commands.parse_args()
    chosen = [devices.get(name) for name in options.device] if options.device else list(devices.devices())
    rows, lines = [], []
    with until_stopped():
        for device in chosen:
            for case in cases(options.small or device.info.kind == "cpu"):
                row = measured(case, device, options.rounds)
                rows.append(row)
                times = (row["uncut"], row["whole"], row["apart"], *row["stages"].values())
                hidden = row["apart"] - row["sum"] + row["stages"][row["longest"]]
                most = f"{row['apart'] / hidden:.2f} {row['longest']}"
                ratios = f"{row['apart'] / row['whole']:.2f}", most, f"{row['hidden']:.0%}"
                lines.append([row["routine"], device.info.id, str(row["slabs"]), *(f"{1e3 * one:.1f}" for one in times), *ratios])
                print(*lines[-1], flush=True)
    print()
    print_table(["", "device", "slabs", "one piece ms", "whole", "apart", *STAGES, "apart / whole", "at most", "hidden"], lines)
    document = {**facts(options.commit), "rows": rows}
    print(f"\nwritten to {save(f'slabs-{slug(chosen[0].info.name)}', document, options.out)}")


if __name__ == "__main__":
    main()
