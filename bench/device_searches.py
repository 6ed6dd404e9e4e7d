"""Searches for a matrix product on each device alone, on several devices at once, and one search shared by several devices, over time."""

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
from portatile.records import canonical
from portatile.space import ParameterSpace
from portatile.store import ResultStore
from portatile.trials import Budget, Trial
from portatile.tuning.search import many_devices
from portatile.tuning.search.request import TuningRequest

OF_BEST = 1.02  # times the best known time, within which a search has found it


def kinds(ids: Sequence[str]) -> list[dict[str, Any]]:
    """The searches that are compared: on each device alone, on all at once, and, if Dask is installed, one search shared as a fleet."""
    alone: list[dict[str, Any]] = [{"devices": [name], "shared": False} for name in ids]
    if len(ids) == 1:
        return alone
    each = {"devices": list(ids), "shared": False}
    return [*alone, each, {**each, "shared": True}] if find_spec("distributed") else [*alone, each]


def tuned(script: str, ids: Sequence[str], size: int, seconds: float, searches: int) -> Iterator[dict[str, Any]]:
    """So many searches of each kind, by turns, each by ``script`` in a process with an empty store."""
    for kind in kinds(ids) * searches:
        with tempfile.TemporaryDirectory() as folder:
            try:
                yield {**kind, **afresh(script, {**kind, "budget": f"{seconds:g}s", "size": size}, folder)}
            except ChildError as error:
                yield {**kind, "error": str(error)[-300:]}


def compared(script: str, searches: Sequence[Mapping[str, Any]], ids: Sequence[str], size: int, seconds: float) -> dict[str, Any]:
    """All winners in turns on each device, in the final comparison of a search that tries nothing else."""
    winners = {canonical(config): config for one in searches for _, config in one.get("best", {}).values()}
    task = {"devices": list(ids), "winners": list(winners.values()), "budget": f"{seconds:g}s", "size": size}
    with tempfile.TemporaryDirectory() as folder:
        try:
            return {"devices": list(ids), **afresh(script, task, folder)} if winners else {}
        except ChildError as error:
            return {"devices": list(ids), "error": str(error)[-300:]}


def winners_compared(task: Mapping[str, Any]) -> dict[str, Any]:
    """The seconds of each winner on each device, with their interval if it was a finalist."""
    winners = tuple(task["winners"])
    space, budget = ParameterSpace.from_configs(winners), Budget.parse(task["budget"])
    request = TuningRequest(_problem(task), None, budget, "exhaustive", space=space, start=winners, model=False, warm=0, ranked=0)
    results = many_devices.tune(request, [one.info for one in devices.several(task["devices"])], ResultStore.default)
    times = {one.device.id: [_time(trial) for trial in one.trials if trial.status == "ok"] for one in results}
    return {"times": times}


def _time(trial: Trial) -> list[Any]:
    """Seconds of a trial, the ends of their interval, and the configuration."""
    return [trial.comparable, *(trial.interval or (trial.comparable, trial.comparable)), dict(trial.config)]


def _problem(task: Mapping[str, Any]) -> Any:
    return workloads.problem("gemm", "float32", dict.fromkeys("mnk", task["size"]))


def searched(task: Mapping[str, Any]) -> dict[str, Any]:
    """One search: of each device the seconds at which each better configuration was known, the best, the finalists, and the trials' phases.

    ``trials`` were evaluated, the first of them ``first`` seconds after the call. A shared search counts as its first device's.
    """
    names = task["devices"][:1] if task["shared"] else task["devices"]
    found: dict[str, list[tuple[float, float, Any]]] = {name: [] for name in names}
    first: dict[str, float] = {}
    began = time.monotonic()

    def listen(progress: Any) -> None:
        name = names[0] if task["shared"] else progress.device.id
        seconds = time.monotonic() - began
        first.setdefault(name, seconds)
        known = found[name]
        if progress.best is not None and (not known or progress.best.comparable < known[-1][1]):
            known.append((seconds, progress.best.comparable, dict(progress.best.config)))

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
    request = TuningRequest(_problem(task), None, Budget.parse(task["budget"]))
    with serve.local([one.info for one in devices.several(task["devices"])]) as address, ResultStore.default() as store:
        return [search.tune(request, address, store, listen)]


def _phases(result: Any) -> Counter[str]:
    """Seconds of each phase of all trials."""
    total: Counter[str] = Counter()
    for trial in result.trials:
        total.update(trial.seconds)
    return total


def told(searches: Sequence[Mapping[str, Any]], times: Mapping[str, Sequence[Any]] | None = None) -> None:
    """When each search had found what is within 2 % of the best that any found, ``times`` of all winners by turns where they are known."""
    for one in searches:
        on = f"tuning on {' + '.join(one['devices'])}{', one search' if one['shared'] else ''}"
        for name, steps in one.get("steps", {}).items():
            best, after, agrees = judged(one, name, searches, times or {})
            within = "never" if after is None else f"after {after:.1f} s"
            reached = f"{1e3 * steps[-1][1]:.3f} ms" if steps else "nothing"
            count = f"{one['trials'][name]} trials, the first after {one['first'].get(name, 0.0):.1f} s"
            print(f"{on}: {name} {reached} of {1e3 * best:.3f}, within 2 % of it {within}; {count}{'' if agrees else '; not the best'}")
        if "error" in one:
            print(f"{on} failed: {one['error']}")


def judged(
    search: Mapping[str, Any], name: str, searches: Sequence[Mapping[str, Any]], times: Mapping[str, Sequence[Any]]
) -> tuple[float, float | None, bool]:
    """The best known seconds on a device, when a search had found what is within 2 % of it, and whether its winner is as fast.

    What was compared by turns on the device counts as it was timed there, and the best of that is the best known. Else the searches' own
    times count. A winner is as fast that is the best configuration, or whose interval reaches the best.
    """
    confirmed = {canonical(config): (seconds, low) for seconds, low, _, config in times.get(name, ())}
    own = [(seconds, canonical(config)) for one in searches for seconds, config in one.get("best", {}).values()]
    best, fastest = min(((seconds, config) for config, (seconds, _) in confirmed.items()), default=None) or min(own, default=(0.0, ""))

    def known(step: Sequence[Any]) -> float:
        seconds: float = step[1]
        return confirmed.get(canonical(step[2]), (seconds,))[0] if len(step) > 2 else seconds

    after = next((step[0] for step in search["steps"][name] if known(step) <= OF_BEST * best), None)
    seconds, winner = search["best"][name]
    lows = [low for _, low, _, finalist in search.get("finalists", {}).get(name, []) if finalist == winner]
    return best, after, canonical(winner) == fastest or min(confirmed.get(canonical(winner), [seconds, *lows])) <= best
