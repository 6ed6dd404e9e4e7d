"""How fast does GEMM copy its operands into panels and images, plain and transposed, compared with a copy kernel and the driver?

    python bench/copies.py --device cuda:0 --device opencl:0:0
    python bench/copies.py --sizes 128,512 --device pocl

For each N an N x N operand: packed into panels, written into an image, each as it lies and transposed on the way; copied by ``stream``'s
kernel, and by the driver to a buffer and to an image. A rate counts every byte twice, read and written, and the share is of the copy
kernel's rate at the same N. What was copied is read back and compared before it is timed: whole where it is small, else at random places.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from measure import facts, parser, print_table, save, slug, until_stopped
from portatile import cache, program, workloads
from portatile import device as devices
from portatile.device.base import Device, Image, Memory, Queue
from portatile.errors import DeviceError, PortatileError
from portatile.execute import Executable
from portatile.measure import peaks, runs
from portatile.measure.runs import MeasurementLength
from portatile.records import Config, DeviceInfo, Launch, Plan
from portatile.workloads.gemm import forms, presets
from portatile.workloads.gemm.forms.cpu.point import register
from portatile.workloads.gemm.forms.gpu.point import pipeline
from portatile.workloads.gemm.point import Point

LENGTH = MeasurementLength(samples=5, seconds=0.0, burst=0.003)
GLANCE = MeasurementLength(samples=3, seconds=0.0, burst=0.002)
BASELINE = "copy kernel"
COLUMNS = (BASELINE, "driver", "driver to image", "panels", "panels transposed", "image", "image transposed")
WHOLE = 2**20  # elements that are compared one by one; of more, PLACES at random
PLACES = 2**16
LARGE = 4096  # N from which all copies go through memory
POISON = b"\xff\xff\xff\xff"  # no number


@dataclass(frozen=True)
class Places:
    """Elements of the operand by step of k and position across k; elements past its ends are 0 in a copy."""

    kk: NDArray[np.int64]
    across: NDArray[np.int64]

    @classmethod
    def of(cls, k: int, across: int, rng: np.random.Generator) -> Places:
        if k * across <= WHOLE:
            kk, place = np.divmod(np.arange(k * across), across)
            return cls(kk, place)
        corners = np.array([0, 0, k - 1, k - 1]), np.array([0, across - 1, 0, across - 1])
        drawn = rng.integers(k, size=PLACES), rng.integers(across, size=PLACES)
        return cls(*(np.concatenate(pair) for pair in zip(corners, drawn, strict=True)))

    def operand(self, stored: NDArray[Any], transposed: bool) -> NDArray[Any]:
        """What ``stored``, N x N, holds there: k slow, or with ``transposed`` k fast."""
        n = len(stored)
        kk, across = np.minimum(self.kk, n - 1), np.minimum(self.across, n - 1)
        return np.where((self.kk < n) & (self.across < n), stored[across, kk] if transposed else stored[kk, across], 0)


def panel_point(info: DeviceInfo, dtype: str) -> Point:
    """A point that packs B: its panels are as wide as those of fast points for the kind of device."""
    wide = dtype == "float32"
    if info.kind == "cpu":
        vectors = (16, 4) if info.wide_vectors else (8, 2)
        return register(vectors[0] if wide else vectors[0] // 2, 6, vectors[1])
    return replace(pipeline(4 if wide else 2, (16, 16), (2, 2), 16, 2, 8), PACK_B=True)


class Bench:
    """The copies of one element type on one device; ``largest`` is the largest N."""

    def __init__(self, device: Device, dtype: str, largest: int, queue: Queue, clock: Queue) -> None:
        self.device, self.dtype, self.queue, self.clock = device, dtype, queue, clock
        self.itemsize = np.dtype(dtype).itemsize
        self.rng = np.random.default_rng(largest)
        self.host = self.rng.random(largest * largest, dtype)
        point = panel_point(device.info, dtype)
        self.back = np.empty((largest + point.columns) * (largest + point.KB), dtype)  # what is read back
        self.source, self.target = device.allocate(self.host.nbytes), device.allocate(self.back.nbytes)
        queue.upload(self.source, self.host)
        self.copy_config = self._best_copy(min(largest, LARGE))

    def release(self) -> None:
        self.source.release()
        self.target.release()

    def rows(self, n: int) -> Iterator[dict[str, Any]]:
        """A row for each of ``COLUMNS``, with its samples or its error."""
        baseline = None
        for what, measure in self._copies().items():
            row: dict[str, Any] = {"device": self.device.info.id, "dtype": self.dtype, "n": n, "what": what}
            try:
                samples = measure(n)
            except PortatileError as error:
                yield {**row, "error": str(error)}
                continue
            rate = 2 * n * n * self.itemsize / median(samples) / 1e9
            baseline = rate if what == BASELINE else baseline
            yield {**row, "samples": list(samples), "rate": rate, "share": None if baseline is None else rate / baseline}

    def _copies(self) -> Mapping[str, Callable[[int], tuple[float, ...]]]:
        return dict(
            zip(
                COLUMNS,
                (
                    lambda n: self._by_kernel(n, self.copy_config, LENGTH),
                    self._by_driver,
                    self._by_driver_to_image,
                    lambda n: self._panels(n, False),
                    lambda n: self._panels(n, True),
                    lambda n: self._image(n, False),
                    lambda n: self._image(n, True),
                ),
                strict=True,
            )
        )

    def _samples(self, run: Callable[[], object], length: MeasurementLength = LENGTH) -> tuple[float, ...]:
        return runs.bursts(self.queue, self.clock, run, length)

    def _stored(self, n: int) -> NDArray[Any]:
        return self.host[: n * n].reshape(n, n)

    def _poison(self, nbytes: int) -> None:
        self.queue.fill(self.target, POISON, 0, nbytes)

    def _read(self, memory: Memory, shape: tuple[int, ...], dtype: str | None = None) -> NDArray[Any]:
        count = int(np.prod(shape)) * np.dtype(dtype or self.dtype).itemsize
        got = self.back.view(np.uint8)[:count].view(dtype or self.dtype).reshape(shape)
        self.queue.download(got, memory)
        return got

    def _compare(self, got: NDArray[Any], expected: NDArray[Any], what: str) -> None:
        wrong = int(np.count_nonzero(got != expected))
        if wrong:
            raise DeviceError(f"{what}: {wrong} of {expected.size} elements are wrong")

    def _same(self, n: int, what: str, got: NDArray[Any]) -> None:
        """The copy of the N x N elements as they lie."""
        places = Places.of(n, n, self.rng)
        self._compare(got.reshape(-1)[places.kk * n + places.across], places.operand(self._stored(n), False), what)

    def _by_kernel(self, n: int, config: Config, length: MeasurementLength) -> tuple[float, ...]:
        problem = workloads.get("stream").problem({"n": n * n}, self.dtype, {"operation": "copy"})
        memory = {"x": self.source, "y": self.source, "out": self.target}  # y is not read
        with runs.loaded(self.device, problem, config) as executable:
            self._poison(n * n * self.itemsize)
            executable.run(self.queue, memory, {"scalar": 1.0})
            self._same(n, BASELINE, self._read(self.target, (n, n)))
            return self._samples(lambda: executable.run(self.queue, memory, {"scalar": 1.0}), length)

    def _best_copy(self, n: int) -> Config:
        """The fastest of what is known and of a few others."""
        problem = workloads.get("stream").problem({"n": n * n}, self.dtype, {"operation": "copy"})
        configs = [runs.known(problem, self.device).config, *peaks.contenders(problem, self.device.info)]
        return min(configs, key=lambda config: min(self._by_kernel(n, config, GLANCE)))

    def _by_driver(self, n: int) -> tuple[float, ...]:
        nbytes = n * n * self.itemsize
        self._poison(nbytes)
        self.queue.copy(self.target, self.source, nbytes)
        self._same(n, "the driver's copy", self._read(self.target, (n, n)))
        return self._samples(lambda: self.queue.copy(self.target, self.source, nbytes))

    def _new_image(self, n: int) -> Image:
        """Of N pixels a row; what an operand of N x N fills when N is whole pixels."""
        pixel = 16 // self.itemsize
        return self.device.image(n, -(-n // pixel), 4, "float32" if self.dtype == "float32" else "uint32")

    def _by_driver_to_image(self, n: int) -> tuple[float, ...]:
        nbytes = n * n * self.itemsize
        if n * self.itemsize % 16:
            raise DeviceError(f"a row of {n} {self.dtype} is not whole pixels")
        with self._new_image(n) as image:
            form = image.form
            self._poison(nbytes)
            self.queue.copy(image, self.target, nbytes)
            self.queue.copy(image, self.source, nbytes)
            self._same(n, "the driver's image", self._read(image, form.shape, form.dtype).view(self.dtype))
            return self._samples(lambda: self.queue.copy(image, self.source, nbytes))

    def _step(self, n: int, point: Point, transposed: bool, target: str) -> Executable:
        """The launch of gemm's plan that writes ``target``."""
        workload = workloads.get("gemm")
        problem = workload.problem({"m": n, "n": n, "k": n}, self.dtype, {"trans_b": "T" if transposed else "N"})
        steps = workload.plan(problem, point.config(), self.device.info).steps
        (step,) = (s for s in steps if isinstance(s, Launch) and s.kernel != "gemm" and s.args[-1].name == target)
        return Executable(self.device, Plan((step,)), lambda source: program.build(source, self.device.target, cache.default()))

    def _panels(self, n: int, transposed: bool) -> tuple[float, ...]:
        point = panel_point(self.device.info, self.dtype)
        width, block = point.columns, point.block
        count, depth = -(-n // width), -(-n // block) * block
        memory, scalars = {"b": self.source, "b_panels": self.target}, {"alpha": 1.0}
        with self._step(n, point, transposed, "b_panels") as executable:
            self._poison(count * depth * width * self.itemsize)
            executable.run(self.queue, memory, scalars)
            got = self._read(self.target, (count, depth, width))
            places = Places.of(depth, count * width, self.rng)
            found = got[places.across // width, places.kk, places.across % width]
            self._compare(found, places.operand(self._stored(n), transposed), "the panels")
            return self._samples(lambda: executable.run(self.queue, memory, scalars))

    def _image(self, n: int, transposed: bool) -> tuple[float, ...]:
        point, pixel = forms.read(presets.preset("nakasato", self.dtype)), 16 // self.itemsize
        with self._new_image(n) as image, self._step(n, point, transposed, "b_image") as executable:
            form = image.form
            self._poison(form.nbytes)
            self.queue.copy(image, self.target, form.nbytes)
            memory, scalars = {"b": self.source, "b_image": image}, {"alpha": 1.0}
            executable.run(self.queue, memory, scalars)
            got = self._read(image, form.shape, form.dtype).view(self.dtype)  # rows of pixels, across it; along each, k
            places = Places.of(n, form.shape[0] * pixel, self.rng)
            found = got[places.across // pixel, places.kk, places.across % pixel]
            self._compare(found, places.operand(self._stored(n), transposed), "the image")
            return self._samples(lambda: executable.run(self.queue, memory, scalars))


def measure(device: Device, dtype: str, sizes: list[int], rows: list[dict[str, Any]]) -> None:
    """Add and print the rows of one element type on one device; sizes that do not fit into its memory are left out."""
    itemsize = np.dtype(dtype).itemsize
    fitting = [n for n in sizes if 4 * n * n * itemsize <= device.info.global_memory and 2 * n * n * itemsize <= device.info.max_allocation]
    if not fitting:
        return
    print(f"\nN x N {dtype} on {device.info.name} ({device.info.id}): GB/s, and the share of the copy kernel's")
    lines = []
    with device.queue() as queue, device.queue(profiling=True) as clock:
        bench = Bench(device, dtype, max(fitting), queue, clock)
        try:
            for n in fitting:
                found = list(bench.rows(n))
                rows += found
                lines.append([str(n), *("-" if "error" in row else f"{row['rate']:.0f} {row['share'] or 0:.2f}" for row in found)])
        finally:
            bench.release()
    print_table(["N", *COLUMNS], lines)
    for row in rows:
        if "error" in row and (row["device"], row["dtype"]) == (device.info.id, dtype):
            print(f"{row['what']}, {row['n']}: {row['error']}")


def parse() -> argparse.Namespace:
    commands = parser(__doc__)
    commands.add_argument("--sizes", default="512,1024,2048,4096,8192", help="N, separated by commas")
    commands.add_argument("--dtype", default="float32,float64", help="separated by commas")
    return commands.parse_args()


def main() -> None:
    """Measure, print, save."""
    options = parse()
    chosen = [devices.get(selector) for selector in options.device] or devices.devices()
    rows: list[dict[str, Any]] = []
    with until_stopped():
        for device in chosen:
            for dtype in options.dtype.split(","):
                if dtype != "float64" or device.info.fp64:
                    measure(device, dtype, [int(n) for n in options.sizes.split(",")], rows)
    document = {
        "bench": "copies",
        **facts(options.commit),
        "devices": {device.info.id: asdict(device.info) for device in chosen},
        "options": vars(options) | {"out": None},
        "rows": rows,
    }
    print(f"\nwritten to {save(f'copies-{slug(chosen[0].info.name)}', document, options.out)}")


if __name__ == "__main__":
    main()
