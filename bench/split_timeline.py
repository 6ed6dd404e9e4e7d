"""How long does each device's thread spend on copies, kernels, waiting and preparing, in a computation on several devices?

python3 bench/split_timeline.py --device cuda:0 --device opencl:0:0              MRI-Q and the filter of 64 orbitals, from the host
python3 bench/split_timeline.py --device cuda:0 --device opencl:0:0 --only magicfilter3d --steps     each step of the last call, too

Prints for each case the seconds of each device alone, of a call that must share (in steady state), and of one that may choose, with what it
chose; then the seconds of the last shared call in each kind of step, by thread. Steps may contain others: ``upload`` holds a ``copy``.
A kind of steps that waits for the device: ``fetch``, ``collect``, ``kernels in place``. Takes less than a minute on a GPU.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import median
from typing import Any

import numpy as np

from measure import parser, print_table
from portatile import device as devices
from portatile.device import staging
from portatile.runtime import perform
from portatile.runtime.in_parts import slab_pipeline
from portatile.runtime.one_device import engine
from portatile.runtime.several_devices import forecast, splits
from portatile.runtime.several_devices.pieces import Pieces
from portatile.wavelets import over_devices
from several_devices import Case, cases

_STEPS = (  # the kind of step, and the function that does it
    ("wait for a piece", Pieces, "take"),
    ("prepare", engine.Engine, "prepare"),
    ("memory of lanes", slab_pipeline, "_memories"),
    ("whole operands", slab_pipeline, "_place"),
    ("send", slab_pipeline, "_send"),
    ("launch", engine.LoadedPlan, "run"),
    ("collect", slab_pipeline, "_collect"),
    ("kernels in place", perform, "start"),
    ("upload", staging, "upload"),
    ("fetch", staging, "download"),
    ("copy", staging, "copied"),
    ("take a part", over_devices._Result, "take"),
)
_READY = 6  # calls before those that count


@contextmanager
def recorded(into: list[tuple[str, str, float, float]]) -> Iterator[None]:
    """While this lasts, each step is noted: thread, kind, begin and end."""
    former = [(owner, name, getattr(owner, name)) for _, owner, name in _STEPS]
    try:
        for (kind, owner, name), (_, _, function) in zip(_STEPS, former, strict=True):
            setattr(owner, name, _noted(kind, function, into))
        yield
    finally:
        for owner, name, function in former:
            setattr(owner, name, function)


def _noted(kind: str, function: Callable[..., Any], into: list[tuple[str, str, float, float]]) -> Callable[..., Any]:
    def run(*given: Any, **named: Any) -> Any:
        began = time.perf_counter()
        try:
            return function(*given, **named)
        finally:
            into.append((threading.current_thread().name, kind, began, time.perf_counter()))

    return run


@contextmanager
def shared() -> Iterator[None]:
    """While this lasts every problem is shared, however little a device would do."""
    former = forecast._quickest, forecast._LITTLE
    forecast._quickest, forecast._LITTLE = (lambda together, alone: ""), 0.0  # type: ignore[assignment]
    try:
        yield
    finally:
        forecast._quickest, forecast._LITTLE = former  # type: ignore[assignment]


def seconds(run: Callable[[], Any], repeat: int, ready: int = 2) -> list[float]:
    """Of each call after those that make it ready."""
    taken = []
    for _ in range(ready + repeat):
        began = time.perf_counter()
        run()
        taken.append(time.perf_counter() - began)
    return taken[ready:]


def shown(case: Case, ids: list[str], repeat: int, every: bool) -> None:
    """All figures of a case."""
    operands = case.make(np.random.default_rng(0))
    alone = {}
    for one in ids:
        cpu = devices.get(one).info.kind == "cpu"
        given = case.part(operands, 16, 0) if cpu else operands
        alone[one] = median(seconds(lambda g=given, d=one: case.call(*g, device=d), repeat)) * (16 if cpu else 1)
        print(f"{case.name}: {one} alone {1e3 * alone[one]:.2f} ms", flush=True)
    whole = 1 / sum(1 / each for each in alone.values())
    with shared():
        taken = seconds(lambda: case.call(*operands, device=ids), repeat, _READY)
        print(f"{case.name}: shared {1e3 * median(taken):.2f} ms, {whole / median(taken):.2f} of the sum; {splits.latest()}", flush=True)
        steps: list[tuple[str, str, float, float]] = []
        with recorded(steps):
            began = time.perf_counter()
            case.call(*operands, device=ids)
            took = time.perf_counter() - began
    rows = []
    for thread, kind in dict.fromkeys((thread, kind) for thread, kind, _, _ in steps):
        mine = [(low, high) for who, what, low, high in steps if (who, what) == (thread, kind)]
        total = sum(high - low for low, high in mine)
        first, last = 1e3 * (mine[0][0] - began), 1e3 * (mine[-1][1] - began)
        rows.append([thread, kind, str(len(mine)), f"{1e3 * total:.3f}", f"{100 * total / took:.0f} %", f"{first:.2f} to {last:.2f}"])
    print_table(["thread", f"step, of {1e3 * took:.2f} ms", "times", "ms", "of the call", "from, to (ms)"], rows)
    if every:
        for thread, kind, low, high in sorted(steps, key=lambda step: step[2]):
            print(f"{1e3 * (low - began):9.3f} {1e3 * (high - low):9.3f} ms  {thread}  {kind}")
    taken = seconds(lambda: case.call(*operands, device=ids), repeat, _READY)
    best = min(alone.values())
    print(
        f"{case.name}: free to choose {1e3 * median(taken):.2f} ms, {best / median(taken):.2f} of the best alone; {splits.latest()}\n",
        flush=True,
    )


def main() -> None:
    commands = parser(__doc__, "all")
    commands.add_argument("--grid", type=int, default=128, help="points of an axis of the volumes; default 128")
    commands.add_argument("--size", type=int, default=8192, help="rows and columns of the matrices; default 8192")
    commands.add_argument("--repeat", type=int, default=5, help="samples of each; default 5")
    commands.add_argument("--only", action="append", default=[], help="a case of several_devices.py; repeat; default: mri_q, magicfilter3d")
    commands.add_argument("--steps", action="store_true", help="print every step of the last shared call")
    options = commands.parse_args()
    ids = [one.info.id for one in devices.several(options.device or devices.EVERY)]
    for case in cases(options.size, options.grid):
        if case.name in (options.only or ["mri_q", "magicfilter3d"]):
            shown(case, ids, options.repeat, options.steps)


if __name__ == "__main__":
    main()
