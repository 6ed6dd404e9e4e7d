"""Stream, convolution, Coulomb potential, MRI and TRSM on every device: as a call runs them, by default, tuned, and compared with peers.

    python bench/workloads.py --seconds 15 --device cuda:0 --device opencl:0:0

A table for each device, a line for each problem, the back ends beside each other: time, rate, the share of the ceiling that binds, the
ratio to a peer measured in the same run, and the rates by default and tuned. ``as it comes`` is the configuration that a call takes,
``default`` the workload's own, ``tuned`` the best that `--seconds` of tuning find from there (0: none). `pages.py` makes a page
of docs of the results.
Every kernel is checked before it is timed. Peers: PyTorch on an NVIDIA GPU; on a CPU SciPy and the text that one writes first, for which
one core should be pinned (`POCL_MAX_PTHREAD_COUNT=1 taskset -c 0`).
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from math import prod
from statistics import median
from typing import Any

import numpy as np

import workload_peers as peers
from measure import facts, parser, print_table, save, slug, until_stopped, version
from portatile import device as devices
from portatile import workloads
from portatile.device.base import Device
from portatile.device.buffer import Buffer
from portatile.errors import DeviceError, PortatileError
from portatile.measure import peaks, runs
from portatile.measure.runs import MeasurementLength, MeasurementOptions
from portatile.records import Config, DeviceInfo, Problem, Value
from portatile.store import ResultStore
from portatile.trials import Budget
from portatile.tuning.search import tuner
from portatile.workloads.convolution import BIGDFT
from tables.workloads import COLUMNS, Table, add, cells, figures
from volumes import VOLUMES, Array, Volume, by_scipy, right

_CHECKED = 20  # points along each side of a volume that is compared with the definition
_CEILINGS = ("copy", "fp32", "fp64", "mma", "special")
_TAPS = {"taps": 16, "lower": -8}
_ONE_UNIT = "functions' unit alone"  # no point or voxel takes a polynomial
_POTENTIAL: Config = {"WGX": 16, "WGY": 8, "SPLIT": 8, "PX": 8, "PY": 2, "UNROLL": 2, "POLY": 0, "DEGREE": 3, "RESIDENT": 0}
_MRI: Config = {"CHUNK": 1024, "TRIG": "direct", "POLY": 0}
# the best that searches of these alone found on an H200 where there are points or voxels enough for small groups
_MANY_POINTS: Config = {**_POTENTIAL, "WGY": 1, "UNROLL": 8}
_MANY_VOXELS: Config = {**_MRI, "WGS": 32, "SPLIT": 4, "PV": 6, "UNROLL": 4, "RESIDENT": 2}
_IN_OPENCL: Mapping[str, Config] = {"coulomb": {"WGY": 2, "PX": 16, "PY": 1}, "mri": {"WGS": 128, "SPLIT": 2, "RESIDENT": 0}}

# BigDFT's other passes: the magic filter's other boundaries, the wavelets' banks, the kinetic operator.
_PASSES: tuple[dict[str, Value], ...] = (
    {"boundary": "zero"},
    {"boundary": "grow"},
    {"boundary": "shrink"},
    {"bank": "analysis", "lower": -7},
    {"bank": "synthesis", "lower": -7},
    {"boundary": "grow", "bank": "synthesis"},
    {"boundary": "shrink", "bank": "analysis"},
    {"taps": 29, "lower": -14},
)


@dataclass(frozen=True)
class Task:
    """A problem; what its rate counts; other forms, as changes to the default, some otherwise through OpenCL; its peer."""

    workload: str
    sizes: dict[str, int]
    dtype: str
    unit: str
    work: float
    options: dict[str, Value] = field(default_factory=dict)
    forms: Mapping[str, Config] = field(default_factory=dict)
    opencl: Mapping[str, Config] = field(default_factory=dict)
    torch: Callable[[Problem], peers.Run] | None = None

    @property
    def label(self) -> str:
        kind = "".join(f" {value}" for name, value in self.options.items() if name not in ("taps", "lower"))
        taps = f" {self.options['taps']} taps" if "taps" in self.options else ""
        return f"{self.workload}{kind}{taps} {'x'.join(map(str, self.sizes.values()))} {self.dtype}"


def tasks(scale: int) -> Iterator[Task]:
    """The problems; ``scale`` divides their sizes, for machines that are not GPUs."""
    n = 2**26 // scale
    yield Task("stream", {"n": n}, "float64", "GB/s", 16e-9 * n, {"operation": "copy"}, torch=peers.copy)
    yield Task("stream", {"n": n}, "float64", "GB/s", 24e-9 * n, {"operation": "triad"}, torch=peers.triad)
    for dtype, size in (("float64", 8), ("float32", 4)):
        for points, lines in ((256, 65536 // scale), (512, 262144 // scale)):
            work = 2e-9 * points * lines * size
            yield Task("convolution", {"n": points, "ndat": lines}, dtype, "GB/s", work, forms={"16 x 16": BIGDFT}, torch=peers.copy)
    for options in _PASSES:
        yield passing({"n": 256, "ndat": 65536 // scale}, "float64", options)
    for points, lines in ((128, 16384), (243, 59049 // scale), (510, 65536 // scale), (509, 65535 // scale)):
        yield passing({"n": points, "ndat": lines}, "float64", {"boundary": "periodic"})
    if scale == 1:  # as many again would take a CPU long, and tell nothing new
        for points, lines in ((243, 59049), (510, 65536), (509, 65535)):
            yield passing({"n": points, "ndat": lines}, "float32", {"boundary": "periodic"})
        for options in (_PASSES[1], _PASSES[2], _PASSES[3], _PASSES[4], _PASSES[7]):
            yield passing({"n": 256, "ndat": 65536}, "float32", options)
        for dtype in ("float64", "float32"):
            yield passing({"n1": 256, "n2": 256, "ndat": 256}, dtype, {"boundary": "periodic"}, "convolution2d")
            yield passing({"n1": 256, "n2": 256, "n3": 256}, dtype, {"boundary1": "periodic"}, "stencil")
    shrink = max(int(scale**0.5), 1)
    for side in (512, 2048):
        sizes = {"atoms": 40000 // scale, "nx": side // shrink, "ny": side // shrink, "nz": 1}
        pairs = float(np.prod(list(sizes.values())))
        alone = _MANY_POINTS if side > 512 else _POTENTIAL
        opencl = {_ONE_UNIT: {**alone, **_IN_OPENCL["coulomb"]}} if side > 512 else {}
        yield Task("coulomb", sizes, "float32", "Gpairs/s", 1e-9 * pairs, forms={_ONE_UNIT: alone}, opencl=opencl)
    for kind in ("q", "fhd"):
        for side in (64, 128):
            sizes = {"samples": 2048, "voxels": side**3 // scale}
            pairs = float(np.prod(list(sizes.values())))
            alone = _MANY_VOXELS if side > 64 else _MRI
            opencl = {_ONE_UNIT: {**alone, **_IN_OPENCL["mri"]}} if side > 64 else {}
            yield Task("mri", sizes, "float32", "Gpairs/s", 1e-9 * pairs, {"kind": kind}, forms={_ONE_UNIT: alone}, opencl=opencl)
    for dtype in ("float32", "float64"):
        for m, count in ((10240 // scale, 128), (1024 // scale, 1024 // scale), (4096 // scale, 4096 // scale)):
            yield Task("triangular", {"m": m, "n": count}, dtype, "Gflop/s", 1e-9 * m * m * count, torch=peers.solve)


def passing(sizes: dict[str, int], dtype: str, options: dict[str, Value], name: str = "convolution") -> Task:
    """A pass over lines, or over two axes at once, beside a copy of as many bytes."""
    workload = workloads.get(name)
    work = 1e-9 * workload.traffic(workload.problem(sizes, dtype, options))
    return Task(name, sizes, dtype, "GB/s", work, options, torch=peers.copy)


def measured_ceilings(device: Device, quick: bool) -> dict[str, float]:
    """Rates of plain copies, multiply-adds and special functions on a device, in bytes, operations and functions a second.

    A measurement that is refused, on a busy machine say, is told and left out.
    """
    rates: dict[str, float] = {}
    way = MeasurementOptions(MeasurementLength(samples=3, seconds=0.1, burst=0.01))
    functions = ("rsqrt",) if device.info.kind == "gpu" else ()  # one unit's, all as fast; a CPU computes them by plain arithmetic
    for quantity in (*peaks.memory_quantities(device.info), *peaks.arithmetic_quantities(device.info)):
        if quantity.name in _CEILINGS and quantity.options.get("quantity") in (None, "fma", "product", *functions):
            fewer = {"chains": 2**15, "rounds": 256} if quick and device.info.kind == "cpu" else {}  # a GPU would be done before it is told
            problem = peaks.problem(quantity, device.info, 2**22 if quick else None, **fewer)
            try:
                rate = peaks.measure(device, quantity, problem, way).rate
            except DeviceError as error:
                print(f"no ceiling: {error}")
                continue
            rates[quantity.name] = max(rate, rates.get(quantity.name, 0.0))
    return rates


def binding(task: Task, problem: Problem, info: DeviceInfo, limits: Mapping[str, float]) -> tuple[str, float] | None:
    """The ceiling under which a run takes longest at best, and those seconds; None if one of them is not known."""
    workload = workloads.get(task.workload)
    plain = "fp64" if task.dtype == "float64" else "fp32"
    work = {
        "copy": workload.traffic(problem),
        "mma" if workload.products and plain == "fp64" and "mma" in limits else plain: workload.flops(problem),
    }
    if info.kind == "gpu":
        work["special"] = workload.functions(problem)
    if not work.keys() <= limits.keys():
        return None
    bounds = {name: amount / limits[name] for name, amount in work.items()}
    name = max(bounds, key=lambda which: bounds[which])
    return name, bounds[name]


class Bench:
    """Rows for people and for the file, task by task, device by device."""

    def __init__(self, chosen: list[Device], seconds: float, length: MeasurementLength, quick: bool) -> None:
        self.devices, self.seconds, self.length = chosen, seconds, length
        self.limits = {device.info.id: measured_ceilings(device, quick) for device in chosen}
        self.rows: list[dict[str, Any]] = []
        self.lines: list[list[str]] = []

    def add(self, task: Task, name: str, form: str, samples: list[float], peer: float | None, **more: Any) -> None:
        """One row; ``peer`` are its seconds; of ``more`` a ``share`` of the ``ceiling`` that it names is printed."""
        seconds = median(samples)
        self.rows.append({"problem": task.label, "device": name, "form": form, "samples": samples, "work": task.work, "unit": task.unit})
        self.rows[-1] |= more
        share = f"{more['share']:.2f} {more['ceiling']}" if "share" in more else ""
        ratio = f"{peer / seconds:.3f}" if peer else ""
        self.lines.append([task.label, name, form, f"{seconds * 1e6:.1f}", f"{task.work / seconds:.1f} {task.unit}", share, ratio])
        print(*self.lines[-1], flush=True)

    def run(self, task: Task) -> None:
        """The task's peers and all its forms on every device."""
        problem = workloads.get(task.workload).problem(task.sizes, task.dtype, task.options)
        peer = None
        if task.torch is not None and peers.on_gpu():
            samples = peers.torch_samples(task.torch(problem))
            peer = median(samples)
            self.add(task, peers.torch_version(), "peer", samples, peer, driver=peers.torch_driver())
            peers.torch.cuda.empty_cache()
        for device in self.devices:
            try:
                self._on(device, task, problem, peer)
            except PortatileError as error:
                print(f"{task.label} on {device.info.id}: {error}", flush=True)
                self.rows.append({"problem": task.label, "device": device.info.id, "driver": device.info.driver, "error": str(error)})

    def _on(self, device: Device, task: Task, problem: Problem, peer: float | None) -> None:
        info, workload = device.info, workloads.get(task.workload)
        choice = runs.known(problem, device)
        default = workload.default(problem, info)
        forms: dict[str, Config] = {
            "as it comes": choice.config,
            **({} if dict(default) == dict(choice.config) else {"default": default}),
            **{
                name: {**default, **changes}
                for name, changes in {**task.forms, **(task.opencl if info.backend == "opencl" else {})}.items()
            },
        }
        trials = {}
        if self.seconds:
            with ResultStore(None) as store:
                result = tuner.tune(tuner.TuningRequest(problem, info.id, Budget(seconds=self.seconds), start=(choice.config,)), store)
            trials = {form: len(result.trials) for form in ("as it comes", "tuned")}
            if dict(result.best.config) != dict(choice.config):
                forms["tuned"] = result.best.config
        bound = binding(task, problem, info, self.limits[info.id])
        space = workload.space(problem, info)
        with runs.prepared(device, problem) as ready:
            if info.kind == "cpu":
                peer = self._cpu_peer(device, task, ready)
            for form, config in forms.items():
                if space.violated(config) is None:
                    timed = ready.timed(config, MeasurementOptions(self.length))
                    more: dict[str, Any] = {"config": dict(config), "error": timed.error, "searched": trials.get(form, 0)}
                    more |= {"reason": choice.reason, "driver": info.driver}
                    more |= {"ceiling": bound[0], "share": bound[1] / timed.median} if bound else {}
                    self.add(task, info.id, form, list(timed.samples), peer, **more)

    def _cpu_peer(self, device: Device, task: Task, ready: runs.PreparedRun) -> float | None:
        if task.workload == "convolution" and (ready.problem.options["bank"], ready.problem.options["boundary"]) == ("single", "periodic"):
            name, samples = f"SciPy {version('scipy')}", peers.scipy_samples(ready.problem, 50 * self.length.burst)
            driver = ""
        elif task.workload in ("coulomb", "mri"):
            name, samples = f"{device.info.id}, naive text", peers.naive_samples(device, ready, self.length)
            driver = device.info.driver
        else:
            return None
        self.add(task, name, "peer", samples, median(samples), driver=driver)
        return median(samples)

    def volume(self, side: int, dtype: str, name: str) -> None:
        """A filter of volumes as a user calls it; the magic filter also in three passes, and in those of BigDFT's 16 x 16 form."""
        volume, size = VOLUMES[name], np.dtype(dtype).itemsize
        sizes = {**({"orbitals": volume.orbitals} if volume.orbitals else {}), "n1": side, "n2": side, "n3": side}
        points = prod(volume.shape(side))
        task = Task(name, sizes, dtype, "GB/s", 1e-9 * volume.moves * size * points)
        rng = np.random.default_rng(0)
        x, field = rng.random(volume.shape(side)).astype(dtype), rng.random((side,) * 3).astype(dtype)
        peer = None
        if peers.on_gpu():
            samples = [volume.moves / 2 * seconds for seconds in peers.torch_samples(peers.copy_of(points, dtype))]
            peer = median(samples)
            self.add(task, peers.torch_version(), f"{volume.moves / 2:g} copies", samples, peer, driver=peers.torch_driver())
        elif any(device.info.kind == "cpu" for device in self.devices):
            self._check(volume, lambda x, field: volume.plain(by_scipy, x, field), dtype, "SciPy")
            samples = peers.host_samples(lambda: volume.plain(by_scipy, x, field), 50 * self.length.burst)
            peer = median(samples)
            self.add(task, f"SciPy {version('scipy')}", "peer", samples, peer, driver="")
        for device in self.devices:
            try:
                self._volume_on(device, task, volume, (x, field), peer)
            except PortatileError as error:
                print(f"{task.label} on {device.info.id}: {error}", flush=True)
                self.rows.append({"problem": task.label, "device": device.info.id, "driver": device.info.driver, "error": str(error)})

    def _volume_on(self, device: Device, task: Task, volume: Volume, arrays: tuple[Array, Array], peer: float | None) -> None:
        x, dtype, queue, identity = arrays[0], task.dtype, device.default_queue(), device.info.id

        def called(x: Array, field: Array) -> Array:
            with Buffer.from_numpy(x, device) as psi, Buffer.from_numpy(field, device) as on_grid:
                result: Array = (volume.call(psi, on_grid) if volume.potential else volume.call(psi)).numpy()
                return result

        self._check(volume, called, dtype, identity)
        with (
            Buffer.from_numpy(x, device) as psi,
            Buffer.from_numpy(arrays[1], device) as field,
            Buffer.empty(x.shape, dtype, device) as out,
        ):
            operands = (psi, field) if volume.potential else (psi,)
            into = {"out": out} if volume.in_place else {}

            def burst(count: int) -> float:
                start = time.perf_counter()
                for _ in range(count):
                    volume.call(*operands, **into)
                queue.finish()
                return (time.perf_counter() - start) / count

            burst(2)
            count = max(int(4 * self.length.burst / burst(2)), 2)
            samples = [burst(count) for _ in range(self.length.samples)]
        limits, plain = self.limits[identity], "fp64" if dtype == "float64" else "fp32"
        bounds = {"copy": 1e9 * task.work, plain: 2.0 * volume.multiplies * x.size}
        if bounds.keys() <= limits.keys():
            name = max(bounds, key=lambda which: bounds[which] / limits[which])
            more: dict[str, Any] = {"ceiling": name, "share": bounds[name] / limits[name] / median(samples)}
        else:
            more = {}
        self.add(task, identity, "as it comes", samples, peer, driver=device.info.driver, **more)
        if volume.name != "magicfilter3d":
            return
        side = x.shape[-1]
        problem = workloads.get("convolution").problem({"n": side, "ndat": side * side}, dtype, _TAPS)
        with runs.prepared(device, problem) as ready:
            for form, config in {"3 passes": runs.known(problem, device).config, "16 x 16, 3 passes": BIGDFT}.items():
                samples = [3 * sample for sample in ready.timed(config, MeasurementOptions(self.length)).samples]
                self.add(task, identity, form, samples, peer, config=dict(config), driver=device.info.driver)

    @staticmethod
    def _check(volume: Volume, called: Callable[[Array, Array], Array], dtype: str, who: str) -> None:
        """A small case against the definition, before anything is timed."""
        rng = np.random.default_rng(1)
        x, field = rng.random(volume.shape(_CHECKED)).astype(dtype), rng.random((_CHECKED,) * 3).astype(dtype)
        if not right(volume, called(x, field), x, field):
            raise DeviceError(f"{volume.name} of {_CHECKED}^3 points is wrong by {who}")


def main() -> None:
    """Measure, print, save."""
    commands = parser(__doc__)
    commands.add_argument("--seconds", type=float, default=15.0, help="tuning time of each problem on each device; 0: none")
    commands.add_argument("--scale", type=int, default=1, help="divide the sizes: 16 suits a small CPU")
    commands.add_argument("--only", help=f"workloads, separated by commas; {', '.join(VOLUMES)} are among them")
    commands.add_argument("--match", default="", help="of these only problems in whose lines this regular expression is found")
    commands.add_argument("--quick", action="store_true", help="short measurements, for trying")
    options = commands.parse_args()
    chosen = [devices.get(name) for name in options.device] if options.device else list(devices.devices())
    length = (
        MeasurementLength(samples=3, seconds=0.0, burst=0.002) if options.quick else MeasurementLength(samples=9, seconds=0.0, burst=0.01)
    )
    only = options.only.split(",") if options.only else None
    bench = Bench(chosen, options.seconds, length, options.quick)
    with until_stopped():
        for task in tasks(options.scale):
            if (only is None or task.workload in only) and re.search(options.match, task.label):
                bench.run(task)
        for name, volume in VOLUMES.items():
            side = max(256 // max(int(options.scale**0.5), 1) // (2 if volume.orbitals else 1), 16)
            for dtype in ("float64", "float32") if name == "magicfilter3d" and options.scale == 1 else ("float64",):
                if only is None or name in only:
                    bench.volume(side, dtype, name)
    limits = [f"{device.info.id}: " + ", ".join(f"{n} {r:.4g}" for n, r in bench.limits[device.info.id].items()) for device in chosen]
    tables: dict[str, Table] = {device.info.name: {} for device in chosen}
    for problem, device, form, figure in figures(bench.rows, bench.limits):
        info = devices.get(device).info
        add(tables[info.name], problem, info.backend, form, figure)
    for name, table in tables.items():
        print(f"\n{name}: {' / '.join(device.info.id for device in chosen if device.info.name == name)}")
        print_table(COLUMNS, cells(table))
    print("\nCeilings (B/s, flop/s, functions/s)", *limits, sep="\n")
    told = ("id", "name", "driver", "compiler")
    described = [{name: getattr(device.info, name) for name in told} for device in chosen]
    document = {**facts(options.commit), "devices": described, "ceilings": bench.limits, "scale": options.scale, "rows": bench.rows}
    print(f"\nwritten to {save(f'workloads-{slug(chosen[0].info.name)}', document, options.out)}")


if __name__ == "__main__":
    main()
