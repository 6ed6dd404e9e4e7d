"""Searches for a matrix product on one device, on several at once, and on several that share one: when each had found what."""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from typing import Any

import portatile
from measure import ChildError, afresh
from portatile import device as devices
from portatile import workloads
from portatile.fleet import search, serve
from portatile.store import ResultStore
from portatile.trials import Budget
from portatile.tuning.search.request import TuningRequest

OF_BEST = 1.02  # times the best known time, within which a search has found it


def kinds(ids: Sequence[str]) -> list[dict[str, Any]]:
    """The searches that are compared: on the first device; on each of several at once; where Dask is, one that those share as a fleet."""
    alone, each = {"devices": list(ids[:1]), "shared": False}, {"devices": list(ids), "shared": False}
    if len(ids) == 1:
        return [alone]
    return [alone, each, {**each, "shared": True}] if find_spec("distributed") else [alone, each]


def tuned(script: str, ids: Sequence[str], size: int, seconds: float, searches: int) -> Iterator[dict[str, Any]]:
    """So many searches of each kind, by turns, each by ``script`` in a process with an empty store."""
    for kind in kinds(ids) * searches:
        with tempfile.TemporaryDirectory() as folder:
            try:
                yield {**kind, **afresh(script, {**kind, "budget": f"{seconds:g}s", "size": size}, folder)}
            except ChildError as error:
                yield {**kind, "error": str(error)[-300:]}


def searched(task: Mapping[str, Any]) -> dict[str, Any]:
    """One search: of each device the seconds at which each better configuration was known, the best, the finalists, and the trials' phases.

    ``trials`` were evaluated, the first of them after ``first`` seconds. A shared search counts as its first device's.
    """
    names = task["devices"][:1] if task["shared"] else task["devices"]
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in names}
    first: dict[str, float] = {}
    began = time.monotonic()

    def listen(progress: Any) -> None:
        name = names[0] if task["shared"] else progress.device.id
        seconds = time.monotonic() - began if task["shared"] else progress.seconds
        first.setdefault(name, seconds)
        known = found[name]
        if progress.best is not None and (not known or progress.best.comparable < known[-1][1]):
            known.append((seconds, progress.best.comparable))

    results = dict(zip(names, _shared(task, listen) if task["shared"] else _each(task, listen), strict=True))
    finalists = {
        name: [[trial.standing.seconds, *trial.standing.interval, trial.config] for trial in one.trials if trial.standing is not None]
        for name, one in results.items()
    }
    return {
        "steps": found,
        "first": first,
        "best": {name: [one.best.comparable, one.best.config] for name, one in results.items()},
        "finalists": finalists,
        "trials": {name: sum(trial.status != "skipped" for trial in one.trials) for name, one in results.items()},
        "phases": {name: dict(_phases(one)) for name, one in results.items()},
        "seconds": time.monotonic() - began,
    }


def _each(task: Mapping[str, Any], listen: Any) -> list[Any]:
    """A search on each of the devices."""
    results: list[Any] = portatile.tune(
        "gemm", budget=task["budget"], device=task["devices"], listen=listen, **dict.fromkeys("mnk", task["size"])
    )
    return results


def _shared(task: Mapping[str, Any], listen: Any) -> list[Any]:
    """One search whose trials go to whichever device is free."""
    problem = workloads.problem("gemm", "float32", dict.fromkeys("mnk", task["size"]))
    request = TuningRequest(problem, None, Budget.parse(task["budget"]))
    with serve.local([one.info for one in devices.several(task["devices"])]) as address, ResultStore.default() as store:
        return [search.tune(request, address, store, listen)]


def _phases(result: Any) -> Counter[str]:
    """Seconds of each phase of all trials."""
    total: Counter[str] = Counter()
    for trial in result.trials:
        total.update(trial.seconds)
    return total


def told(searches: Sequence[Mapping[str, Any]]) -> None:
    """When each search had found what is within 2 % of the best that any found."""
    best = min((seconds for one in searches for seconds, _ in one.get("best", {}).values()), default=0.0)
    for one in searches:
        on = f"tuning on {' + '.join(one['devices'])}{', one search' if one['shared'] else ''}"
        for name, steps in one.get("steps", {}).items():
            within = next((f"{at:.1f} s" for at, seconds in steps if seconds <= OF_BEST * best), "never")
            reached = f"{1e3 * steps[-1][1]:.3f} ms" if steps else "nothing"
            count = f"{one['trials'][name]} trials, the first after {one['first'].get(name, 0.0):.1f} s"
            print(f"{on}: {name} {reached} of {1e3 * best:.3f}, within 2 % of it after {within}; {count}")
        if "error" in one:
            print(f"{on} failed: {one['error']}")
