"""What do several devices give together, from the host and where data lies on devices, and how fast do they copy to each other?

All figures of one or two GPUs and their CPU in one call of at most eight minutes; what does not fit into ``--seconds`` is left out, and
what was measured is printed and kept however the call ends. The first calls of each kind, which compile and try the ways, are not timed.

python3 bench/several_devices.py --device cuda:0 --device cuda:1 --device opencl:0:0
python3 bench/several_devices.py --device cuda:0 --device opencl:0:0        one GPU and the CPU
python3 bench/several_devices.py --only "matmul float64"                    one of the cases: also "matmul float32", magicfilter3d,
                                                                            coulomb_potential, mri_q, copies, tuning
python3 bench/several_devices.py --size 128 --grid 8 --repeat 1 --bytes 1000 --tune 0     whether it runs, in seconds
python3 bench/several_devices.py --only tuning --tune 12 --searches 5    searches on each GPU, on all at once, and one on all, by turns

Ways: ``host`` and ``device`` say where the operands lie, on the first device; ``GPUs`` are all devices but CPUs. ``halves`` is one call on
each GPU, of the part that lies there, ``a part on`` that of one GPU while the others have nothing to do. A CPU alone computes a part of the
problem, for its rate. ``of the sum`` is the rate over the sum of the rates that the devices of a way show alone from the same place. Each
case runs in a process of its own, so that a driver which ends that process takes no other case with it; ways with a CPU come last.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import permutations
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import device_links
import device_searches
import portatile
from measure import ChildError, facts, parser, print_table, rewrite, slug, until_stopped
from portatile import device as devices
from portatile import wavelets
from portatile.runtime.several_devices import splits

_COPY = 1 << 28  # bytes
_READY = 24  # calls at most that make a way ready: a first one compiles, and a split is tried a few times beside each device alone
_FEW, _SOON = 5, 3.0  # of them at least, which compile, and seconds of those after them: arrays that came so often are locked
_SAME = 3  # calls in a row by the same devices, after which it is settled who takes part
_TURNS, _ENOUGH = 40, 1.0  # times that ways are timed by turns at most, and seconds of all turns up to which there are more than asked for
_DRAWN = 512  # rows of a matrix
_CPU_PART = 16  # a CPU alone computes the problem divided by this
_COMPARING = 12.0  # seconds in which the winners of all searches are compared, on every device at once
_LONG = 20.0  # seconds of one way, after which no further sample is taken


@dataclass(frozen=True)
class Case:
    """A computation: ``call(operands, device)``, and the operands of share ``which`` of ``count``. ``placed``: Buffers are timed too."""

    name: str
    make: Callable[[np.random.Generator], tuple[Any, ...]]
    call: Callable[..., Any]
    part: Callable[[tuple[Any, ...], int, int], tuple[Any, ...]]
    placed: bool = True


@dataclass
class Way:
    """Samples of one way to compute a case; ``part`` of it was computed, by ``on``; ``split``: what the last call says of itself."""

    on: list[str]
    place: str
    part: float = 1.0
    seconds: list[float] = field(default_factory=list)
    shares: dict[str, float] = field(default_factory=dict)
    split: str = ""
    tells: bool = False  # whether a call says how it was shared

    @property
    def rate(self) -> float:
        """Of the problem a second."""
        return self.part / median(self.seconds)


def cases(n: int, grid: int) -> Iterator[Case]:
    """The filter of a batch of 64 orbitals, the sums over atoms and samples, and the products, which take longest."""

    def first_axis(operands: tuple[Any, ...], count: int, which: int) -> tuple[Any, ...]:
        size = operands[0].shape[0]
        return (operands[0][which * size // count : (which + 1) * size // count], *operands[1:])

    def voxels(operands: tuple[Any, ...], count: int, which: int) -> tuple[Any, ...]:
        size = operands[-1].shape[0]
        return (*operands[:5], *(one[which * size // count : (which + 1) * size // count] for one in operands[5:]))

    yield Case("magicfilter3d", lambda rng: (rng.random((64, grid, grid, grid)),), wavelets.magicfilter3d, first_axis)
    points = 16 * grid

    def potential(atoms: Any, rows: Any, device: Any = None) -> Any:
        return portatile.coulomb_potential(atoms, (len(rows), points), 0.1, origin=(0.0, 0.1 * rows[0], 0.0), device=device)

    def slab(operands: tuple[Any, ...], count: int, which: int) -> tuple[Any, ...]:
        rows = operands[1]
        return operands[0], rows[which * points // count : (which + 1) * points // count]

    yield Case("coulomb_potential", lambda rng: ((rng.random((4000, 4)) * grid).astype(np.float32), range(points)), potential, slab)
    yield Case("mri_q", lambda rng: tuple(rng.random(count, np.float32) for count in [2048] * 5 + [grid**3] * 3), portatile.mri_q, voxels)
    for dtype in ("float64", "float32"):
        yield Case(f"matmul {dtype}", lambda rng, d=dtype: (matrix(rng, n, d), matrix(rng, n, d)), portatile.matmul, first_axis)


def matrix(rng: np.random.Generator, n: int, dtype: str) -> Any:
    """Random rows, the same ones again and again: to draw all of a large matrix takes longer than to multiply it."""
    rows = min(n, _DRAWN)
    drawn = rng.random((rows, n), np.dtype(dtype).type)
    return np.concatenate([drawn] * (n // rows) + [drawn[: n % rows]])


def placed(operands: tuple[Any, ...], where: Any) -> tuple[Any, ...]:
    """The arrays among the operands on a device."""
    return tuple(portatile.Buffer.from_numpy(one, where) if isinstance(one, np.ndarray) else one for one in operands)


def finish(result: Any) -> None:
    """Wait for what a call queued."""
    if isinstance(result, (tuple, list)):
        for one in result:
            finish(one)
    elif isinstance(result, portatile.Buffer):
        result.device.default_queue().finish()


Run = Callable[[], Any]


def made_ready(way: Way, run: Run, until: float) -> None:
    """Runs before the first that counts: they compile, lock arrays, and try who should take part, until that is settled."""
    began, taking = time.monotonic(), list[tuple[str, ...]]()
    for number in range(_READY if way.tells else _FEW):
        finish(run())
        if number == _FEW:
            began = time.monotonic()
        if time.monotonic() > min(began + (_SOON if number >= _FEW else _LONG), until):
            break
        if way.tells and (split := splits.latest()) is not None:
            taking.append(tuple(share.device for share in split.shares if share.steps))
            told = split.forecast
            if number >= _FEW and len(set(taking[-_SAME:])) == 1 and (told is None or told.tried or told.decided):
                break


def by_turns(runs: Sequence[tuple[str, Way, Run]], repeat: int, until: float) -> Iterator[tuple[str, Way]]:
    """The ways with the seconds of each run to the end of what it queued, by turns, for clocks and load change; one at least."""
    for _, way, run in runs:
        made_ready(way, run, until)
    began = time.monotonic()
    for number in range(max(repeat, _TURNS)):
        for _, way, run in runs:
            start = time.perf_counter()
            finish(run())
            way.seconds.append(time.perf_counter() - start)
            split = splits.latest()
            if len(way.on) > 1 and split is not None and way.tells:
                steps = max(sum(share.steps for share in split.shares), 1)
                way.shares, way.split = {share.device: share.steps / steps for share in split.shares}, str(split)
        took = time.monotonic() - began
        if took > (_LONG * len(runs) if number + 1 < repeat else _ENOUGH) or began + took > until:
            break
    yield from ((name, way) for name, way, _ in runs)


def ways(case: Case, chosen: Sequence[Any], repeat: int, until: float) -> Iterator[tuple[str, Way]]:
    """The times of a case: each device alone, the GPUs, all devices; from the host and from devices."""
    operands = case.make(np.random.default_rng(0))
    gpus = [one for one in chosen if one.info.kind != "cpu"] or list(chosen)

    def shared(name: str, on: Sequence[Any], given: tuple[Any, ...]) -> tuple[str, Way, Run]:
        ids = [one.info.id for one in on]
        return name, Way(ids, name.split(",")[0], tells=len(ids) > 1), lambda: case.call(*given, device=ids)

    def alone(one: Any) -> tuple[str, Way, Run]:
        name, count = one.info.id, _CPU_PART if one not in gpus else 1
        given = operands if count == 1 else case.part(operands, count, 0)
        return f"host, {name} alone", Way([name], "host", 1 / count), lambda: case.call(*given, device=name)

    several, others = len(gpus) > 1, [one for one in chosen if one not in gpus]
    on_host = [alone(one) for one in gpus] + ([shared("host, GPUs", gpus, operands)] if several else [])
    yield from by_turns(on_host, repeat, until)
    yield from by_turns(on_devices(case, operands, gpus), repeat, until)
    there = placed(operands, gpus[0])
    if several:
        yield from by_turns([shared("device, GPUs", gpus, there)], repeat, until)
    if len(there) > 1 and case.call is portatile.matmul and several:
        crossed = there[0], portatile.Buffer.from_numpy(operands[1], gpus[-1])
        fetched = "device, b on the last GPU, one", Way([gpus[0].info.id], "device"), lambda: _fetched(case, crossed)
        yield from by_turns([shared("device, b on the last GPU", gpus, crossed), fetched], repeat, until)
        del crossed, fetched
    if others:
        every = [*map(alone, others), shared("host, all", chosen, operands), shared("device, all", chosen, there)]
        for one in every:  # a CPU's threads go on for a while, and would slow down what comes next
            yield from by_turns([one], repeat, until)


def on_devices(case: Case, operands: tuple[Any, ...], gpus: Sequence[Any]) -> list[tuple[str, Way, Run]]:
    """Each GPU alone with operands of its own; a part on each of several."""
    runs: list[tuple[str, Way, Run]] = []
    for one in gpus:
        there = placed(operands, one)
        runs.append((f"device, {one.info.id} alone", Way([one.info.id], "device"), lambda g=there: case.call(*g)))
    if len(gpus) > 1:
        halves = [placed(case.part(operands, len(gpus), which), one) for which, one in enumerate(gpus)]
        way = Way([one.info.id for one in gpus], "device")
        runs.append(("device, halves", way, lambda: [case.call(*half) for half in halves]))
        for one, half in zip(gpus, halves, strict=True):  # what the other GPUs and the calls on them add to it is the rest
            runs.append((f"device, a part on {one.info.id}", Way([one.info.id], "device", 1 / len(gpus)), lambda h=half: case.call(*h)))
    return runs


def _fetched(case: Case, crossed: tuple[Any, ...]) -> Any:
    """A product on one device, of whose operands the second is copied from another first."""
    return case.call(crossed[0], crossed[1].to_device(crossed[0].device))


def child(task: Mapping[str, Any]) -> None:
    """A search with an empty store, the winners of several by turns, or a case of which each way is a line."""
    if "case" in task:
        case = next(one for one in cases(task["size"], task["grid"]) if one.name == task["case"])
        for name, way in ways(case, devices.several(task["devices"]), task["repeat"], task["until"]):
            print(json.dumps({"name": name, "way": vars(way)}), flush=True)
    else:
        print(json.dumps(device_searches.winners_compared(task) if "winners" in task else device_searches.searched(task)))


def in_child(task: Mapping[str, Any]) -> Iterator[tuple[str, Way]]:
    """The ways of a case, as a process of its own gives them; raises ChildError where it ends before the last."""
    command = [sys.executable, str(Path(__file__).resolve()), "--child", json.dumps(task)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            for line in process.stdout:
                if line.startswith("{"):
                    answer = json.loads(line)
                    yield answer["name"], Way(**answer["way"])
        except BaseException:
            process.terminate()
            raise
    if process.returncode:
        raise ChildError(f"{task['case']} ended with {process.returncode} before its last way")


def table(found: Mapping[str, Mapping[str, Way]]) -> None:
    """Every way of each case: time, speed-up over the best GPU alone from the same place, rate over the sum of the rates, shares."""
    rows = []
    for case, every in found.items():
        alone = {(way.place, way.on[0]): way.rate for name, way in every.items() if name.endswith(" alone")}
        host = {name: rate for (place, name), rate in alone.items() if place == "host"}
        for name, way in every.items():
            single = [rate for (place, _), rate in alone.items() if place == way.place]
            rates = [alone.get((way.place, one), host.get(one)) for one in way.on]
            whole = sum(rate for rate in rates if rate) if all(rates) else 0.0
            shares = ", ".join(f"{one} {100 * share:.0f} %" for one, share in way.shares.items())
            over = f"{way.rate / max(single):.2f}" if single else ""
            rows.append([f"{case}: {name}", f"{median(way.seconds):.4g}", over, f"{way.rate / whole:.2f}" if whole else "", shares])
    if rows:
        print_table(["case", "seconds", "over the best", "of the sum", "shares"], rows)


@dataclass
class Measured:
    """All that was measured so far, in a file that is written again after each step: a driver may end the process."""

    options: Any
    chosen: Sequence[Any]
    cases: dict[str, dict[str, Way]] = field(default_factory=dict)
    copies: list[dict[str, Any]] = field(default_factory=list)
    links: list[dict[str, Any]] = field(default_factory=list)
    tuning: list[dict[str, Any]] = field(default_factory=list)
    compared: dict[str, Any] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._began = time.monotonic()
        self._name = f"several_devices-{slug(self.chosen[0].info.name)}-{datetime.now(UTC):%Y%m%dT%H%M%SZ}.json"
        known = [{"id": one.info.id, "name": one.info.name, "driver": one.info.driver} for one in self.chosen]
        self._facts = {"bench": "several_devices", **facts(self.options.commit), "devices": known}

    def write(self) -> Path:
        """The file, with what was measured until now."""
        rows = [
            {
                "case": case,
                "seconds": {name: way.seconds for name, way in every.items()},
                "ways": {n: vars(way) for n, way in every.items()},
            }
            for case, every in self.cases.items()
        ]
        sizes = {"size": self.options.size, "grid": self.options.grid}
        lists = {"copies": self.copies, "links": self.links, "tuning": self.tuning, "compared": self.compared, "left_out": self.left_out}
        return rewrite(self.options.out / self._name, json.dumps({**self._facts, **sizes, "cases": rows, **lists}, indent=1) + "\n")

    def asked(self, what: str) -> bool:
        """Whether this is to be measured."""
        return not self.options.only or what in self.options.only

    def measure(self) -> None:
        """Copies, the cases, and the searches, as far as the time goes."""
        searching = self.options.tune > 0 and self.asked("tuning")
        kinds = len(device_searches.kinds(self._gpus()))
        planned = kinds * self.options.searches * self.options.tune + _COMPARING
        until = self._began + self.options.seconds - (1.3 * planned if searching else 0.0)
        if self.asked("copies"):
            self._copy()
        for case in cases(self.options.size, self.options.grid):
            if self.asked(case.name) and time.monotonic() > until:
                self.left_out.append(case.name)
            elif self.asked(case.name):
                self._case(case.name, until)
        if searching:
            options = self.options
            for search in device_searches.tuned(__file__, self._gpus(), options.tune_size, options.tune, options.searches):
                self.tuning.append(search)
                self.write()
                device_searches.told([search])
            self.compared = device_searches.compared(__file__, self.tuning, self._gpus(), options.tune_size, _COMPARING)
            self.write()

    def _gpus(self) -> list[str]:
        return [one.info.id for one in self.chosen if one.info.kind != "cpu"] or [self.chosen[0].info.id]

    def _copy(self) -> None:
        """Copies between each two devices, and over the links of those with memory of their own."""
        nbytes, repeat = self.options.bytes, self.options.repeat
        for one, other in permutations(self.chosen, 2):
            rates = device_links.copied(one, other, nbytes, repeat)
            self.copies.append({"from": one.info.id, "to": other.info.id, "bytes_per_second": rates})
        far = [one for one in self.chosen if not one.info.unified_memory]
        self.links += device_links.links(far, nbytes, repeat) if far else []
        self.write()

    def _case(self, name: str, until: float) -> None:
        """Every way of a case, by a process of its own."""
        given = {key: getattr(self.options, key) for key in ("size", "grid", "repeat")}
        task = {"case": name, "devices": [one.info.id for one in self.chosen], "until": until, **given}
        try:
            for way_name, way in in_child(task):
                self.cases.setdefault(name, {})[way_name] = way
                self.write()
                print(f"{name}: {way_name}: {median(way.seconds):.4g} s {way.split}", flush=True)
        except ChildError as error:
            self.left_out.append(str(error))

    def tell(self) -> None:
        """What was measured, the table last."""
        print(f"\nwritten to {self.write()}\n")
        for copy in self.copies:
            print(f"{copy['from']} to {copy['to']}: {median(copy['bytes_per_second']) / 1e9:.1f} GB/s")
        for link in self.links:
            print(f"locked arrays, {link['way']} {' + '.join(link['devices'])}: {median(link['bytes_per_second']) / 1e9:.1f} GB/s")
        device_searches.told(self.tuning, self.compared.get("times", {}))
        if self.left_out:
            print(f"not measured: {'; '.join(self.left_out)}")
        table(self.cases)


def main() -> None:
    if "--child" in sys.argv:
        child(json.loads(sys.argv[-1]))
        return
    commands = parser(__doc__, "all")
    commands.add_argument("--size", type=int, default=16384, help="rows and columns of the matrices; default 16384")
    commands.add_argument("--grid", type=int, default=128, help="points of an axis of the volumes; default 128")
    commands.add_argument("--repeat", type=int, default=7, help="samples of each; default 7")
    commands.add_argument("--bytes", type=int, default=_COPY, help=f"bytes of a copy between devices; default {_COPY}")
    commands.add_argument("--seconds", type=float, default=450.0, help="begin nothing more after so many; default 450")
    commands.add_argument("--tune", type=float, default=45.0, help="seconds of each search, 0 for none; default 45")
    commands.add_argument("--searches", type=int, default=1, help="searches of each kind; default 1")
    commands.add_argument("--tune-size", type=int, default=4096, help="rows and columns of the tuned product; default 4096")
    commands.add_argument("--only", action="append", default=[], help="one of the cases, copies or tuning; repeat; default: all")
    options = commands.parse_args()
    measured = Measured(options, list(devices.several(options.device or devices.EVERY)))
    with until_stopped():
        measured.measure()
    measured.tell()


if __name__ == "__main__":
    main()
