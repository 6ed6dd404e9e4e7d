"""How fast is a matrix product on each device: in Gflop/s, relative to the measured peak, per watt, and per price?

Du et al., table 6, and figure 15, which compares with the CPU's BLAS (here NumPy's). Watts are measured while the product runs if there
is a readable counter, else ``--tdp`` states them. Prices come from the user's file, with source and date; nothing is assumed.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from portatile import ceilings, workloads
from portatile.device.base import Device
from portatile.errors import DeviceError, PortatileError, StoreError, UsageError
from portatile.figures.bars import BarChart
from portatile.figures.quantities import written
from portatile.figures.svg import Figure
from portatile.formatting import percent
from portatile.measure import peaks, runs
from portatile.measure.runs import MeasurementLength
from portatile.records import Problem
from portatile.studies.framework import power
from portatile.studies.framework.power import Power, StatedPower
from portatile.studies.framework.study import Column, Option, Run, Study, StudyRequest, option
from portatile.trials import now

_COLUMNS = ("name", "price", "currency", "date", "source")
_LOAD = 1.0  # seconds for which power is measured: counters move some ten times a second
_LENGTH = MeasurementLength(samples=5, seconds=0.5, burst=0.02)
_HOST = "host"
_SCATTER = 1.2  # a median this many times the fastest run is reported: something else used the processor or the device


@dataclass(frozen=True)
class EfficiencyRow:
    """One product by portatile or, on the ``host``, by NumPy. Unknown figures are None; if it did not run, ``status`` says why.

    ``seconds`` is the median run, from which the rates follow; ``fastest`` is the run that other programs disturb least.
    ``peak`` is Gflop/s of multiply-adds as measured on the device. ``watts`` come from ``power_from``; ``per_price`` is Gflop/s for
    one unit of ``currency``, at a price of ``price_date`` from ``price_source``.
    """

    device: str
    name: str
    driver: str
    by: str
    dtype: str
    size: int
    seconds: float | None = None
    gflops: float | None = None
    peak: float | None = None
    of_peak: float | None = None
    watts: float | None = None
    power_from: str = ""
    per_watt: float | None = None
    price: float | None = None
    currency: str = ""
    price_date: str = ""
    price_source: str = ""
    per_price: float | None = None
    error: float | None = None
    status: str = "ok"
    samples: int = 0
    time: str = ""
    fastest: float | None = None


@dataclass(frozen=True)
class EfficiencyOptions:
    """Products of ``size`` x ``size`` matrices with the best configuration known for each device: tune first."""

    size: int = option(1024, Option("Rows and columns of the matrices.", least=1))
    dtypes: tuple[str, ...] = option(("float32", "float64"), Option("float32 or float64; repeat. Default: both.", names=("--dtype",)))
    tdp: tuple[str, ...] = option(
        (), Option("Watts of a device whose power cannot be measured: H200=700, host=65; repeat.", metavar="NAME=WATTS")
    )
    prices: str | None = option(None, Option("A CSV file of prices: name,price,currency,date,source.", metavar="FILE"))
    load: float = option(_LOAD, Option("Seconds for which the power is measured.", least=0.0))


@dataclass(frozen=True)
class Price:
    """What the devices whose name contains ``name`` cost, where that stands and when it was so."""

    name: str
    amount: float
    currency: str
    date: str
    source: str


def prices(path: Path | None) -> list[Price]:
    """The lines of a price file. Raises UsageError for a missing column, an amount that is none, or a price without date or source."""
    if path is None:
        return []
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read: {error}") from error
    reader = csv.DictReader(text.splitlines())
    missing = [name for name in _COLUMNS if name not in (reader.fieldnames or ())]
    if missing:
        raise UsageError(f"{path} lacks {', '.join(missing)}; its first line is {','.join(_COLUMNS)}")
    listed = []
    for number, line in enumerate(reader, 2):
        try:
            amount = float(line["price"] or "")
        except ValueError:
            amount = 0.0
        words = [(line[name] or "").strip() for name in ("name", "currency", "date", "source")]
        if not 0 < amount < float("inf") or not all(words):
            raise UsageError(f"{path}, line {number}: a price has a name, a positive amount, a currency, a date and a source")
        listed.append(Price(words[0], amount, *words[1:]))
    return listed


def measure(run: Run) -> Iterator[EfficiencyRow]:
    """Every device, then NumPy on the host; the first element type of all before the next."""
    options: EfficiencyOptions = run.options
    known, stated = prices(Path(options.prices) if options.prices else None), [StatedPower.parse(text) for text in options.tdp]
    pairs = [(device, dtype) for device in run.devices for dtype in options.dtypes if dtype != "float64" or device.info.fp64]
    run.expect(len(pairs) + len(options.dtypes))
    processor = next((device for device in run.devices if device.info.kind == "cpu"), None)
    for dtype in options.dtypes:
        problem = workloads.get("gemm").problem(dict.fromkeys("mnk", options.size), dtype)
        for device in [device for device, of in pairs if of == dtype]:
            info = device.info
            row = _blank(info.id, info.name, info.driver, "portatile", problem)
            if not run.known(row):
                run.say(f"{dtype} on {info.id}")
                yield _priced(_on_device(device, problem, row, run, stated), known)
        name = f"{processor.info.name if processor else 'this processor'}, NumPy"
        row = _blank(_HOST, name, f"NumPy {np.__version__}", "NumPy", problem)
        if not run.known(row):
            run.say(f"{dtype} by NumPy")
            yield _priced(_by_numpy(problem, row, processor, run, stated), known)


def _blank(device: str, name: str, driver: str, by: str, problem: Problem) -> EfficiencyRow:
    return EfficiencyRow(device, name, driver, by, problem.dtype, problem.sizes["m"])


def _on_device(device: Device, problem: Problem, row: EfficiencyRow, run: Run, stated: Sequence[StatedPower]) -> EfficiencyRow:
    gemm = workloads.get("gemm")
    try:
        config = runs.known(problem, device).config
        with runs.prepared(device, problem) as ready, runs.loaded(device, problem, config) as executable:
            error = ready.check(executable, gemm.bound(problem, config), label=str(dict(config)))
            samples = ready.samples(executable, _LENGTH)
            median = float(np.median(samples))
            burst = max(round(0.05 / median), 1)

            def work() -> None:
                for _ in range(burst):
                    executable.run(ready.queue, ready.memory, ready.inputs.scalars)
                ready.queue.finish()

            drawn = power.under_load(work, run.options.load, device.info, stated)
    except PortatileError as failure:
        return replace(row, status=str(failure).splitlines()[0], time=now())
    row = replace(row, seconds=median, fastest=min(samples), samples=len(samples), error=error, time=now())
    flops = gemm.flops(problem)
    return _with_rates(row, flops, peak(device, problem.dtype, run.say, flops / min(samples)), drawn)


def _by_numpy(problem: Problem, row: EfficiencyRow, processor: Device | None, run: Run, stated: Sequence[StatedPower]) -> EfficiencyRow:
    """NumPy's product on existing arrays; NumPy's BLAS chooses its number of threads."""
    n, rng = problem.sizes["m"], np.random.default_rng(0)
    a, b = (rng.uniform(-1, 1, (n, n)).astype(problem.dtype) for _ in range(2))
    c = np.empty_like(a)
    np.matmul(a, b, out=c)
    rows = min(n, 4)
    exact = a[:rows].astype(np.float64) @ b.astype(np.float64)
    bound = n * np.finfo(c.dtype).eps * (np.abs(a[:rows]).astype(np.float64) @ np.abs(b).astype(np.float64))
    error = float(np.max(np.abs(c[:rows] - exact) / bound))
    if error > 1:
        return replace(row, status="NumPy's product is outside its bound", error=error, time=now())
    samples = runs.timed_on_host(partial(np.matmul, a, b, out=c), _LENGTH)
    drawn = power.under_load(lambda: np.matmul(a, b, out=c), run.options.load, None, stated)
    row = replace(row, seconds=float(np.median(samples)), fastest=min(samples), samples=len(samples), error=error, time=now())
    flops = 2.0 * n**3
    top = None if processor is None else peak(processor, problem.dtype, run.say, flops / min(samples))
    return _with_rates(row, flops, top, drawn)


def peak(device: Device, dtype: str, say: Callable[[str], None] = lambda text: None, reached: float = 0.0) -> float | None:
    """flop/s of multiply-adds for products, as kept, else as measured now and kept; None if that fails; ``say`` is given the reason.

    What was measured only briefly, or is less than the rate ``reached``, is measured again: other programs disturbed it.
    """
    known = ceilings.load(device.info)
    names = {"float32": ("fp32",), "float64": ("fp64", "mma")}[dtype]
    ceilings_known = [] if known is None else [ceiling for ceiling in known.measured if ceiling.name in names]
    if (
        known is None
        or not ceilings_known
        or any(ceiling.brief for ceiling in ceilings_known)
        or max(ceiling.rate for ceiling in ceilings_known) < reached
    ):
        say(f"the peak of {dtype} on {device.info.id}")
        try:
            questions = [question for question in peaks.arithmetic_quantities(device.info) if question.name in names]
            known = ceilings.add(device.info, [peaks.measure(device, question) for question in questions])
        except (DeviceError, StoreError) as error:
            if known is None or not ceilings_known:
                say(f"the peak of {device.info.id} is not known: {error}; `portatile bench peak` measures it")
                return None
    best = known.arithmetic(dtype, products=True)
    return None if best is None else best[1]


def _with_rates(row: EfficiencyRow, flops: float, top: float | None, drawn: Power | None) -> EfficiencyRow:
    assert row.seconds is not None
    rate = flops / row.seconds
    row = replace(row, gflops=rate / 1e9, peak=None if top is None else top / 1e9, of_peak=None if top is None else rate / top)
    if drawn is None:
        return row
    return replace(row, watts=drawn.watts, power_from=drawn.source, per_watt=rate / 1e9 / drawn.watts)


def _priced(row: EfficiencyRow, known: Sequence[Price]) -> EfficiencyRow:
    price = next((price for price in known if price.name.lower() in f"{row.device} {row.name}".lower()), None)
    if price is None:
        return row
    priced = replace(row, price=price.amount, currency=price.currency, price_date=price.date, price_source=price.source)
    return priced if row.gflops is None else replace(priced, per_price=row.gflops / price.amount)


def figures(rows: Sequence[EfficiencyRow]) -> list[Figure]:
    """Bars for each device, one for each element type: speed, share of the peak, speed per watt and for the price."""
    quantities = (
        ("gflops", "Speed", "Gflop/s"),
        ("of_peak", "Share of the measured peak", "%"),
        ("per_watt", "Speed per watt", "Gflop/s/W"),
        ("per_price", "Speed for the price", "Gflop/s for a unit of the currency"),
    )
    dtypes = tuple(dict.fromkeys(row.dtype for row in rows))
    charts: list[Figure] = []
    for field, title, unit in quantities:
        known = {(row.device, row.dtype): getattr(row, field) for row in rows}
        there = [(device, name) for device, name in dict.fromkeys((row.device, row.name) for row in rows)]
        groups = [(device, name) for device, name in there if any(known.get((device, dtype)) is not None for dtype in dtypes)]
        if groups:
            values = tuple(tuple(known.get((device, dtype)) for dtype in dtypes) for device, _ in groups)
            caption = f"{title} of {rows[0].size} x {rows[0].size} products in {' and '.join(dtypes)}."
            labels = tuple(f"{name} ({device})" for device, name in groups)
            charts.append(BarChart(title, caption, title.lower(), unit, labels, dtypes, values))
    return charts


def notes(rows: Sequence[EfficiencyRow]) -> list[str]:
    """Which times scatter, where watts and prices come from, and whose are missing."""
    lines = []
    for row in rows:
        if row.seconds and row.fastest and row.gflops and row.seconds > _SCATTER * row.fastest:
            times = row.seconds / row.fastest
            lines.append(
                f"{row.by} {row.dtype} on {row.device}: the median run took {times:.3g} times as long as the fastest, which reached "
                f"{written(row.gflops * times)} Gflop/s: something else was running; measure again where it is quiet"
            )
        if row.of_peak and row.of_peak > 1:
            lines.append(
                f"{row.by} {row.dtype} on {row.device}: above the measured peak: other programs disturbed its measurement "
                "(`portatile bench peak` repeats it), or the product uses other units"
            )
    for device in dict.fromkeys(row.device for row in rows if row.watts is None and row.status == "ok"):
        lines.append(f"{device}: its power cannot be read here (NVML, RAPL); state it with --tdp {device}=WATTS")
    for price in dict.fromkeys((row.name, row.price, row.currency, row.price_date, row.price_source) for row in rows if row.price):
        name, amount, currency, date, source = price
        lines.append(f"{name}: {amount:g} {currency} on {date}, {source}")
    return lines


def answer(rows: Sequence[EfficiencyRow]) -> str:
    """The fastest of each element type: its share of the peak, and per watt."""
    parts = []
    for dtype in dict.fromkeys(row.dtype for row in rows):
        best = max((row for row in rows if row.dtype == dtype and row.gflops), key=lambda row: row.gflops or 0.0, default=None)
        if best is not None:
            share = f", {percent(best.of_peak)} of its peak" if best.of_peak else ""
            watts = f", {written(best.per_watt)} Gflop/s per watt" if best.per_watt else ""
            parts.append(f"{dtype}: {written(best.gflops or 0.0)} Gflop/s on {best.device}{share}{watts}")
    return ". ".join(parts)


def _sample(devices: tuple[Device, ...]) -> StudyRequest:
    return StudyRequest(devices, EfficiencyOptions(size=4096 if all(device.info.kind == "gpu" for device in devices) else 512))


STUDY = Study(
    name="efficiency",
    answers=("D1.10",),
    question="How fast is a matrix product on each device, relative to the peak, per watt and per price?",
    minutes=1.0,
    timed="kernels back to back by the device's clock, NumPy's product by the host's; no transfers, no compilation. Rates are of the "
    "median run; watts are a mean over a load of a second.",
    row=EfficiencyRow,
    key=("device", "by", "dtype", "size"),
    columns=(
        Column("device", "device"),
        Column("name", "name"),
        Column("by", "by"),
        Column("element", "dtype"),
        Column("time", "seconds", "s"),
        Column("fastest", "fastest", "s"),
        Column("Gflop/s", "gflops"),
        Column("peak", "peak"),
        Column("of peak", "of_peak", "%"),
        Column("watts", "watts"),
        Column("from", "power_from"),
        Column("Gflop/s/W", "per_watt"),
        Column("price", "price"),
        Column("", "currency"),
        Column("Gflop/s for 1", "per_price"),
        Column("", "status"),
    ),
    measure=measure,
    figures=figures,
    answer=answer,
    options=EfficiencyOptions,
    notes=notes,
    devices="all",
    sample=_sample,
)
