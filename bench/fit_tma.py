"""Fit the constants of the tma form's estimate to recorded times of its configurations.

    PYTHONPATH=src python3 bench/fit_tma.py tiles-nvidia-h200-20261126T101000Z.json.gz

The timings lie in `bench/results/`; `portatile calibrate gemm --refit` reads the same files for the gpu form. Written is
`src/portatile/workloads/gemm/forms/tma/costs.json`. The constants are those with the least sum of logarithms of estimated over measured
times, squared where they are small, in which what is slow beside the fastest counts less. Printed is how much longer the chosen
configuration takes than the fastest one that was timed, over shapes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from statistics import fmean

import numpy as np
from scipy.optimize import least_squares

import constants
from portatile import workloads
from portatile.workloads.gemm.forms import read as point_of
from portatile.workloads.gemm.forms.gpu import timings
from portatile.workloads.gemm.forms.tma import costs, estimate
from portatile.workloads.gemm.forms.tma.point import Tma, rows_aligned

_POWER = 2.0  # a timing weighs the best one's share of it to this power
_SOFT = 0.1  # of a logarithm: what is misjudged by more counts by its size
_HELD = 0.05, 1.0  # how much a factor e of a constant, of a rate away from its start weighs beside a misjudged timing
_START = costs.TmaCosts(
    **{
        "launch": 1.6,
        "fill": 0.03,
        "first": 0.2,
        "wait": 0.15,
        "turn": 0.02,
        "asked": 0.06,
        "rates": (0.99, 0.98, 0.99),
        "warps": 0.9,
        "even": 0.8,
    },
    **{
        "box": 0.02,
        "loaded": 3.0,
        "cached": 8.0,
        "read": 5.0,
        "stored": 4.0,
        "ragged": 2.0,
        "exchanged": 0.3,
        "gather": 0.9,
        "gathered": 0.01,
    },
    **{"arrive": 1.2, "alone": 0.04, "add": 3.3, "added": 3.5},
)
"""Where every fit begins, so that the same timings give the same constants."""
_NAMES = tuple(name for name in costs.TmaCosts.__dataclass_fields__ if name != "rates")


@dataclass(frozen=True, eq=False)
class Case:
    """One problem: its configurations as the estimate sees them, and their microseconds."""

    shape: estimate.TmaShape
    columns: estimate.TmaColumns
    took: np.ndarray


def cases(files: Sequence[timings.Timings], language: str) -> list[Case]:
    """Every problem of float64 with timings of the form through a compiler."""
    found = []
    for file in files:
        for timed in file.shapes:
            rows = [(point_of(config), took) for config, took in timed.rows if config["FORM"] == Tma.FORM]
            if timed.dtype != "float64" or not rows or file.device.can.language != language:
                continue
            options = {"trans_a": timed.trans[0], "trans_b": timed.trans[1]}
            problem = workloads.get("gemm").problem(dict(zip("mnk", timed.sizes, strict=True)), "float64", options)
            points = [point for point, _ in rows if isinstance(point, Tma)]
            if not rows_aligned(problem):
                continue
            columns = estimate.columns_of(points, file.device.local_memory)
            found.append(Case(estimate.shape_of(problem, file.device), columns, np.array([took for _, took in rows])))
    return found


def fitted(timed: Sequence[Case], start: costs.TmaCosts) -> costs.TmaCosts:
    """The constants that fit best, starting from ``start``."""
    first = _logs(start)
    hold = np.where(np.arange(len(first)) < len(_NAMES), *_HELD)

    def misses(logs: np.ndarray) -> np.ndarray:
        now = _costs(logs, start)
        judged = [(case.took.min() / case.took) ** _POWER * _missed(case, now) for case in timed]
        return np.concatenate([*judged, hold * (logs - first)])

    most = np.where(np.arange(len(first)) < len(_NAMES), np.inf, 0.0)  # no rate is above 1
    bounds = np.full(len(first), -np.inf), most
    return _costs(least_squares(misses, np.minimum(first, most - 1e-6), bounds=bounds, loss="soft_l1", f_scale=_SOFT, max_nfev=60).x, start)


def chosen(timed: Sequence[Case], known: costs.TmaCosts) -> list[float]:
    """For each problem the time of the configuration with the least estimate over that of the fastest."""
    return [float(case.took[np.argmin(estimate.microseconds(case.shape, case.columns, known))] / case.took.min()) for case in timed]


def _missed(case: Case, known: costs.TmaCosts) -> np.ndarray:
    return np.asarray(np.log(estimate.microseconds(case.shape, case.columns, known) / case.took))


def _logs(known: costs.TmaCosts) -> np.ndarray:
    return np.log([*(getattr(known, name) for name in _NAMES), *known.rates])


def _costs(logs: np.ndarray, like: costs.TmaCosts) -> costs.TmaCosts:
    values = [float(value) for value in np.exp(logs)]
    return replace(like, **dict(zip(_NAMES, values, strict=False)), rates=tuple(values[len(_NAMES) :]))


def main() -> None:
    """Fit the constants for which there are timings, keep the others, write them, and print how good the choices are."""
    paths = constants.named_results(__doc__)
    files = [timings.read(path) for path in paths]
    found = dict(costs.known())
    for language in sorted({file.device.can.language for file in files}):
        if timed := cases(files, language):
            found[language] = result = fitted(timed, _START)
            for said, known in (("before", costs.of(language)), ("fitted", result)):
                lost = chosen(timed, known)
                print(f"{language}: {len(timed)} shapes, chosen over fastest {said}: mean {fmean(lost):.3f}, most {max(lost):.2f}")
    constants.write(costs.FILE, "fit_tma.py", paths, {language: asdict(one) for language, one in found.items()})
    costs.known.cache_clear()


if __name__ == "__main__":
    main()
