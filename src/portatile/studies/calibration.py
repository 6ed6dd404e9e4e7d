"""Calibration of GEMM's estimate for a device: times a designed set of products, fits the constants to them, and stores both."""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import numpy as np

from portatile import output_files, workloads
from portatile.errors import UsageError
from portatile.provenance import revision
from portatile.records import Config, DeviceInfo, Problem, Value, canonical
from portatile.studies.framework.measured_configs import Measuring, measured
from portatile.workloads.gemm.capabilities import local_limit, matrix_units
from portatile.workloads.gemm.forms.gpu import costs, fit, timings
from portatile.workloads.gemm.forms.gpu.costs import Costs, Model
from portatile.workloads.gemm.forms.gpu.timings import TimedCase, Timings

Measure = Callable[[Problem, Sequence[Config]], tuple[Mapping[str, float], bool]]
"""Seconds by ``canonical`` configuration, without those that failed; and whether the user ended it."""

_EACH = 20  # configurations of a shape
_LANES = 128  # multiply-adds of a multiprocessor in a cycle; what a device has less goes to the rates
_FEWEST = 3  # shapes that a fit needs


@dataclass(frozen=True)
class FittedModel:
    """A model, and for each element type the quality of the choices: with the previous constants, with its own, and on shapes that were
    not used for the fit.
    """

    model: Model
    judged: Mapping[str, tuple[fit.Judgement, fit.Judgement, fit.Judgement]]


def check(device: DeviceInfo) -> None:
    """Raise UsageError for a device whose choices no estimate makes."""
    if device.nvidia and costs.known(device, "float32") is not None:
        return
    if device.kind == "cpu":
        raise UsageError(
            f"{device.id} is a processor: its tiles follow from registers and caches, there is nothing to fit; "
            "`portatile tune gemm` finds what is faster for a shape"
        )
    raise UsageError(f"{device.id} runs forms of gemm that no estimate chooses, there is nothing to fit; use `portatile tune gemm`")


def dtypes(device: DeviceInfo) -> tuple[str, ...]:
    """The element types whose configurations the estimate chooses."""
    return ("float32", "float64") if matrix_units(device) else ("float32",)


def collect(
    device: DeviceInfo,
    seconds: float,
    path: Path,
    provenance: Mapping[str, str],
    advance: Callable[[], None] = lambda: None,
    measure: Measure | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Timings:
    """Time shapes of the design for so many seconds, at least one of each element type. ``path`` is updated after each shape, so that an
    interruption loses at most one. Timings of this device that ``path`` already has are kept and not repeated.
    """
    check(device)
    collected = Timings(device, provenance)
    if path.exists():
        before = timings.read(path)
        collected = replace(collected, shapes=before.shapes) if before.device.name == device.name else collected
    done = {(shape.sizes, shape.dtype, shape.trans) for shape in collected.shapes}
    start, first = clock(), len(dtypes(device))
    for sizes, trans in timings.designed():
        for dtype in dtypes(device):
            if (sizes, dtype, trans) in done:
                continue
            if clock() - start > seconds and first <= 0:
                return collected
            problem = _problem(sizes, dtype, trans)
            known = costs.known(device, dtype)
            assert known is not None
            points = timings.candidates(problem, device, local_limit(device), known, _EACH)
            by_config = {canonical(point.config()): point.config() for point in points}
            took, interrupted = (measure or _measure(device, advance))(problem, list(by_config.values()))
            rows = tuple((config, 1e6 * took[key]) for key, config in by_config.items() if key in took)
            if rows:
                collected = replace(collected, shapes=(*collected.shapes, timings.TimedShape(sizes, dtype, trans, rows)))
                write(path, collected)
            first -= 1
            if interrupted:
                return collected
    return collected


def fitted(measurements: Mapping[Path, Timings], command: str, advance: Callable[[], None] = lambda: None) -> FittedModel:
    """The model that describes timings best, by their files; it bears the name of the first one's device. Raises UsageError for timings
    through several compilers, and where there are too few.
    """
    device = next(iter(measurements.values())).device
    language, clock = device.can.language, float(device.clock_mhz or 1000)
    if {one.device.can.language for one in measurements.values()} != {language}:
        raise UsageError(f"{', '.join(map(str, measurements))} were timed through several compilers: not comparable")
    digests = " ".join(hashlib.sha256(path.read_bytes()).hexdigest() for path in measurements)
    names = " ".join(path.name for path in measurements)
    provenance = {"command": command, "commit": revision(), "timings": names, "sha256": digests}
    provenance["time"] = datetime.now(UTC).isoformat("T", "seconds")
    model = Model(device.architecture, device.name, clock, _LANES, {language: provenance}, {})
    judged = {}
    for dtype in ("float32", "float64"):
        cases, known = [case for one in measurements.values() for case in cases_of(one, dtype)], costs.known(device, dtype)
        if len(cases) < _FEWEST or known is None:
            continue
        start = _scaled(cases, replace(known, products=_LANES * clock))
        constants = fit.fit(cases, start, advance)
        model = model.holding(language, dtype, constants)
        judged[dtype] = fit.judge(cases, known), fit.judge(cases, constants), fit.held_out(cases, start)
    if not judged:
        raise UsageError(f"{names} has timings of fewer than {_FEWEST} shapes: give calibrate a larger --budget")
    return FittedModel(model, judged)


def cases_of(measurements: Timings, dtype: str) -> list[TimedCase]:
    """The shapes of an element type, and what the estimate may choose for each."""
    return timings.cases(measurements, dtype, workloads.get("gemm").problem)


def write(path: Path, record: Timings | Model) -> None:
    """A record as JSON, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    output_files.write(path, msgspec.json.format(msgspec.json.encode(record), indent=1) + b"\n")
    costs.forget()


def timings_file(device: DeviceInfo, folder: Path) -> Path:
    """The file with the timings of a device, beside that of its model."""
    own = costs.own_file(device.name, device.can.language, folder)
    return own.with_name(re.sub(r"^gemm-", "gemm-timings-", own.name))


def _problem(sizes: tuple[int, int, int], dtype: str, trans: str) -> Problem:
    options: dict[str, Value] = {"trans_a": trans[0], "trans_b": trans[1]}
    return workloads.get("gemm").problem(dict(zip("mnk", sizes, strict=True)), dtype, options)


def _scaled(cases: Sequence[TimedCase], start: Costs) -> Costs:
    """Rates scaled so that half of the timings are longer than estimated, because another device has other clocks and numbers of units."""
    ratio = float(np.exp(np.median(np.concatenate([np.log(case.took / case.estimated(start)) for case in cases]))))
    return replace(start, rates=tuple(rate / ratio for rate in start.rates))


def _measure(device: DeviceInfo, advance: Callable[[], None]) -> Measure:
    """Timing in the tuner's workers: checked before it is timed, isolated."""

    def timed(problem: Problem, configs: Sequence[Config]) -> tuple[Mapping[str, float], bool]:
        done = measured(problem, device.id, configs, Measuring(advance=advance))
        return {key: trial.comparable for key, trial in done.trials.items() if trial.status == "ok"}, done.interrupted

    return timed
