"""How fast are the kernels that copy a matrix into an image or into panels, compared with the driver's copies?

Du et al., figure 7: copy kernels, plain and transposing, over the size, beside clEnqueueCopyBufferToImage. Images and panels hold
neighbours across k next to each other, so B, contiguous along n, is copied as it lies, and A, contiguous along k, is transposed. The
kernels are those of ``gemm``; a product with them is checked before they are timed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from portatile import ceilings, workloads
from portatile.device.base import Device, Memory
from portatile.errors import DeviceError, PortatileError
from portatile.execute import Executable
from portatile.figures.lines import ChartAxis, LineChart, Series
from portatile.figures.quantities import written
from portatile.figures.svg import Figure
from portatile.measure import runs
from portatile.measure.runs import MeasurementLength, PreparedRun
from portatile.records import Config, Launch, Plan, Problem, Temporary
from portatile.studies.framework.study import Column, Option, Run, Study, StudyRequest, option
from portatile.trials import now

_LENGTH = MeasurementLength(samples=5, seconds=0.1)

_CACHED = 1.05  # a copy this many times as fast as the copy kernel stays in a cache


@dataclass(frozen=True)
class PackingRow:
    """One copy of a ``size`` x ``size`` matrix to ``target``: image, panels or buffer; by a ``kernel`` of ours or by the ``driver``.

    ``rate``: GB/s (10^9 bytes), every byte counted twice, read and written; ``of_copy``: share of what the device's copying kernel
    reached when ceilings were measured. If it did not run, these and the seconds are None and ``status`` says why.
    """

    device: str
    name: str
    driver: str
    target: str
    by: str
    transposes: bool
    dtype: str
    size: int
    seconds: float | None = None
    rate: float | None = None
    of_copy: float | None = None
    status: str = "ok"
    samples: int = 0
    time: str = ""


@dataclass(frozen=True)
class PackingOptions:
    """Matrices of these sizes in one element type."""

    sizes: tuple[int, ...] = option((256, 512, 1024, 2048), "Rows and columns of the matrices.")
    dtype: str = option("float32", Option("Element type.", choices=("float32", "float64")))


def measure(run: Run) -> Iterator[PackingRow]:
    """Every copy of every size on every device."""
    options: PackingOptions = run.options
    gemm = workloads.get("gemm")
    run.expect(len(run.devices) * len(options.sizes) * len(_KINDS))
    for device, size in product(run.devices, options.sizes):
        problem = gemm.problem(dict.fromkeys("mnk", size), options.dtype)
        missing = [row for kind in _KINDS if not run.known(row := _row(device, problem, *kind))]
        if missing:
            with runs.prepared(device, problem) as ready:
                for row in missing:
                    yield _measured(ready, row)


_KINDS = (
    ("image", "kernel", False),
    ("image", "kernel", True),
    ("panels", "kernel", False),
    ("panels", "kernel", True),
    ("image", "driver", False),
    ("buffer", "driver", False),
)


def config(problem: Problem, target: str, operand: str) -> Config:
    """A configuration of Nakasato's blocking with operands in images, or ``operand`` in panels: packing both takes one launch."""
    gemm = workloads.get("gemm")
    if target == "image":
        return gemm.preset("nakasato", problem)
    return {**gemm.preset("nakasato-plain", problem), "PACK_A": operand == "a", "PACK_B": operand == "b"}


def packing(plan: Plan, operand: str) -> tuple[Launch, Temporary]:
    """The launch of a plan that brings an operand into a temporary, and that. Raises DeviceError if the plan has none."""
    temporaries = {temporary.name: temporary for temporary in plan.temporaries}
    for step in plan.steps:
        if isinstance(step, Launch) and {arg.name for arg in step.args} & {"a", "b", "c"} == {operand}:
            written = [arg.name for arg in step.args if arg.name in temporaries]
            if len(written) == 1:
                return step, temporaries[written[0]]
    raise DeviceError(f"the plan does not copy operand {operand}")


def _row(device: Device, problem: Problem, target: str, by: str, transposes: bool) -> PackingRow:
    info = device.info
    columns = target, by, transposes, problem.dtype, problem.sizes["m"]
    return PackingRow(info.id, info.name, info.driver, *columns)


def _measured(ready: PreparedRun, row: PackingRow) -> PackingRow:
    try:
        with ExitStack() as stack:
            copy = _kernel(ready, row, stack) if row.by == "kernel" else _driver(ready, row, stack)
            samples = runs.bursts(ready.queue, ready.clock, copy, _LENGTH)
    except PortatileError as error:
        return replace(row, status=str(error).splitlines()[0], time=now())
    seconds = float(np.median(samples))
    rate = 2 * row.size**2 * ready.problem.itemsize / seconds / 1e9
    known = ceilings.load(ready.device.info)
    reached = rate / known.copy if known is not None and known.copy else None
    return replace(row, seconds=seconds, rate=rate, of_copy=reached, samples=len(samples), time=now())


def _kernel(ready: PreparedRun, row: PackingRow, stack: ExitStack) -> Callable[[], object]:
    """Check a product that copies an operand so, then give what runs that copy."""
    operand = "a" if row.transposes else "b"
    gemm, chosen = workloads.get("gemm"), config(ready.problem, row.target, operand)
    product = stack.enter_context(runs.loaded(ready.device, ready.problem, chosen))
    ready.check(product, gemm.bound(ready.problem, chosen), label=str(chosen))
    launch, temporary = packing(product.plan, operand)
    alone = Plan((launch,), (temporary,))
    executable: Executable = stack.enter_context(runs.loaded_plan(ready.device, alone))
    return lambda: executable.run(ready.queue, ready.memory, ready.inputs.scalars)


def _driver(ready: PreparedRun, row: PackingRow, stack: ExitStack) -> Callable[[], object]:
    """The driver's copy of B's bytes, checked once."""
    source, queue, nbytes = ready.memory["b"], ready.queue, row.size**2 * ready.problem.itemsize
    target: Memory
    packed: NDArray[Any]
    if row.target == "image":
        if row.size % 4:
            raise DeviceError("an image of four channels takes sizes that 4 divides")
        if not ready.device.info.images:
            raise DeviceError("the device has no images")
        pixel = 16 // ready.problem.itemsize
        packed = np.empty((row.size // pixel, row.size, 4), np.float32 if pixel == 4 else np.uint32)
        target = stack.enter_context(ready.device.image(row.size, row.size // pixel, 4, packed.dtype.name))
    else:
        packed = np.empty(nbytes, np.uint8)
        target = stack.enter_context(ready.device.allocate(nbytes))
    queue.copy(target, source, nbytes)
    sent = np.ascontiguousarray(ready.inputs.operands["b"]).reshape(-1).view(np.uint8)[:nbytes]
    queue.download(packed, target)
    if not np.array_equal(packed.reshape(-1).view(np.uint8), sent):
        raise DeviceError("the driver's copy arrives wrongly")
    return lambda: queue.copy(target, source, nbytes)


def label(row: PackingRow) -> str:
    """The name of a copy in figures."""
    return f"{row.device} {row.by} to {row.target}{', transposing' if row.transposes else ''}"


def figures(rows: Sequence[PackingRow]) -> list[Figure]:
    """Bandwidth over the size, a curve for each kind of copy on each device."""
    valid = [row for row in rows if row.rate]
    if not valid:
        return []
    curves = []
    for name in dict.fromkeys(label(row) for row in valid):
        curves.append(Series(name, tuple((float(row.size), row.rate or 0.0) for row in valid if label(row) == name)))
    caption = "GB/s (10^9 bytes) read and written, over the rows and columns of the matrix."
    x, y = ChartAxis("size", log=True), ChartAxis("bandwidth", "GB/s")
    return [LineChart("Bandwidth of packing", caption, x, y, tuple(curves), tuple(sorted({float(row.size) for row in valid})))]


def answer(rows: Sequence[PackingRow]) -> str:
    """The rates of the kernels at the largest size, beside the driver's."""
    parts = []
    for device in dict.fromkeys(row.device for row in rows):
        largest = max((row.size for row in rows if row.device == device and row.rate), default=0)
        there = [row for row in rows if (row.device, row.size) == (device, largest) and row.rate]
        rates: dict[str, list[str]] = {}
        for row in there:
            rates.setdefault(row.target, []).append(f"{row.by}{', transposing' * row.transposes} {written(row.rate or 0.0)}")
        measured_rates = "; ".join(f"to {target} by {', '.join(ways)}" for target, ways in rates.items())
        parts += [f"{device} at {largest}, GB/s: {measured_rates}"] if measured_rates else []
    return ". ".join(parts)


def _sample(devices: tuple[Device, ...]) -> StudyRequest:
    gpu = all(device.info.kind == "gpu" for device in devices)
    return StudyRequest(devices, PackingOptions((1024, 2048, 4096, 8192) if gpu else (128, 256, 512)))


def notes(rows: Sequence[PackingRow]) -> list[str]:
    """Why some copies are faster than memory."""
    sizes = sorted({row.size for row in rows if row.of_copy is not None and row.of_copy > _CACHED})
    if not sizes:
        return []
    which = ", ".join(map(str, sizes))
    return [f"above 100 % of copy at {which}: matrices this small stay in a cache; the copy that they are compared with does not"]


STUDY = Study(
    name="packing",
    answers=("D1.6",),
    question="How fast are the kernels that pack a matrix or copy it into an image, compared with the driver's copies?",
    minutes=1.0,
    timed="one copy within the device, back to back by the device's clock; no transfers from or to the host, no compilation.",
    row=PackingRow,
    key=("device", "target", "by", "transposes", "dtype", "size"),
    columns=(
        Column("device", "device"),
        Column("to", "target"),
        Column("by", "by"),
        Column("transposes", "transposes"),
        Column("size", "size"),
        Column("time", "seconds", "s"),
        Column("GB/s", "rate"),
        Column("of copy", "of_copy", "%"),
        Column("", "status"),
    ),
    measure=measure,
    figures=figures,
    answer=answer,
    options=PackingOptions,
    notes=notes,
    sample=_sample,
)
