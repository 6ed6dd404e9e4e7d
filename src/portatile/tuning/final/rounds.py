"""The final comparison, the worker's side: the finalists are checked again and timed in turns until they can be told apart."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack

from portatile.errors import CompileError, DeviceError, LaunchError, PortatileError
from portatile.tuning.final import ranking
from portatile.tuning.protocol import Evaluate, Evaluated, FinalistsTimed, Race
from portatile.tuning.worker.bench import Bench, LoadedVariant, Record, runs_within
from portatile.verify import worst

_COMPARED, _ALWAYS_COMPARED = 12, 3  # rounds after which results are compared, the second whatever that takes
_ALWAYS_ENTERED = 2  # finalists that enter whatever it takes; another one only if there is time for it and for its rounds
_COMPARING = 0.25  # the largest share of the time of the rounds that comparing may take


def hold(bench: Bench, job: Race) -> FinalistsTimed:
    """Time the finalists round by round, each round in another order, so that a disturbance of the device affects all of them.

    If loading takes longer than expected, the last entries do not take part and have no outcome.

    A finalist that is wrong now, or no longer runs, drops out. One that is certainly slower than the leader does not run again. The
    rounds end when the others are certainly equal, after the last examination, or when the time is up, but not before enough rounds to
    decide, however long loading took.
    """
    ends = time.perf_counter() + job.seconds
    results: dict[int, Evaluated] = {}
    try:
        with ExitStack() as stack:
            bench.restore()  # a search does not look for what its variants wrote far away: no finalist is to be blamed for that
            field: list[LoadedVariant] = []
            began = time.perf_counter()
            for number, entry in enumerate(job.entries):
                each = (time.perf_counter() - began) / max(number, 1)
                if len(field) >= _ALWAYS_ENTERED and time.perf_counter() + each + _least(job.entries[: number + 1]) > ends:
                    break  # it is not among the fastest, and there is no time for it
                if (loaded := _enter(bench, entry, results)) is not None:
                    field.append(stack.enter_context(loaded))
            _run(bench, field, results, max(ends, time.perf_counter() + job.least))
            for loaded in field:
                if loaded.record.samples and loaded.job.number not in results:
                    _leave(bench, loaded, results)
    except DeviceError as error:
        return FinalistsTimed((), str(error), broken=True)
    except PortatileError as error:
        return FinalistsTimed((), str(error))
    decided = max((len(outcome.samples) for outcome in results.values()), default=0) >= ranking.LEAST_ROUNDS
    ordered = (results[entry.number] for entry in job.entries if entry.number in results)
    if decided:
        return FinalistsTimed(tuple(ordered))
    return FinalistsTimed(tuple(outcome for outcome in ordered if outcome.status != "ok"))  # undecided; failures count anyway


def _least(entries: Sequence[Evaluate]) -> float:
    """Seconds of the fewest rounds that can decide between these."""
    return sum(entry.best or 0.0 for entry in entries) * ranking.LEAST_ROUNDS


def _enter(bench: Bench, entry: Evaluate, results: dict[int, Evaluated]) -> LoadedVariant | None:
    """Load and check a finalist; None if it is wrong or does not run. A lack of memory is not recorded as its failure."""
    record = Record()
    try:
        bench.announce("compile", 0.0)
        with ExitStack() as stack:
            loaded = stack.enter_context(bench.load(entry, record))
            bench.announce("launch", 0.0)
            verdict = bench.check(loaded)
            if verdict.ok:
                bench.burst(loaded, 1)
                verdict = worst([bench.check_canaries(loaded), bench.outputs(loaded)])
            if verdict.ok:
                verdict = bench.in_other_memory(loaded)
            if verdict.ok:
                stack.pop_all()
                return loaded
        results[entry.number] = record.outcome(entry, "wrong", f"right in the search, wrong in the final comparison: {verdict.message}")
    except (CompileError, LaunchError) as error:
        _drop(bench, entry, record, error, results)
    except DeviceError:
        if not bench.alive():
            raise
    return None


def _drop(bench: Bench, entry: Evaluate, record: Record, error: CompileError | LaunchError, results: dict[int, Evaluated]) -> None:
    """Drop a finalist that no longer runs; raises DeviceError if the device itself no longer works."""
    if not bench.alive():
        raise DeviceError(str(error)) from error
    record.samples.clear()
    results[entry.number] = record.outcome(entry, "compile" if isinstance(error, CompileError) else "launch", str(error))


def _leave(bench: Bench, loaded: LoadedVariant, results: dict[int, Evaluated]) -> None:
    """Record the outcome of a finalist that ran; it counts if its results are still right."""
    try:
        bench.burst(loaded, 1)
        verdict = bench.outputs(loaded)
    except LaunchError as error:
        _drop(bench, loaded.job, loaded.record, error, results)
        return
    record = loaded.record
    results[loaded.job.number] = (
        record.outcome(loaded.job, "ok", error=max(record.errors))
        if verdict.ok
        else record.outcome(loaded.job, "wrong", f"right in the search, wrong in the final comparison: {verdict.message}")
    )


def _compare(bench: Bench, loaded: LoadedVariant, results: dict[int, Evaluated]) -> float:
    """Drop a finalist whose results are wrong after this round; returns the seconds that the comparison took."""
    started = time.perf_counter()
    verdict = bench.outputs(loaded)
    if not verdict.ok:
        results[loaded.job.number] = loaded.record.outcome(
            loaded.job, "wrong", f"right in the search, wrong in some runs of the final comparison: {verdict.message}"
        )
    return time.perf_counter() - started


def _run(bench: Bench, field: list[LoadedVariant], results: dict[int, Evaluated], ends: float) -> None:
    """Run rounds until the finalists are distinguished or the time is up; those that drop out go into ``results``."""
    if len(field) < 2:
        return
    timing = field[0].job.timing
    runs: dict[int, int] = {}

    def timed(loaded: LoadedVariant) -> float | None:
        number = loaded.job.number
        try:
            return bench.burst(loaded, runs.get(number, 1))
        except LaunchError as error:
            _drop(bench, loaded.job, loaded.record, error, results)
            return None

    for loaded in field:
        first = timed(loaded)
        if first is not None:
            runs[loaded.job.number] = runs_within(timing, timing.burst, min(first, loaded.job.best or first))
    running = [loaded for loaded in field if loaded.job.number in runs]
    slowest = max((loaded.job.best or 0.0 for loaded in running), default=0.0)
    bench.announce("run", max(ends - time.perf_counter(), 0.0) + (1 + ranking.LEAST_ROUNDS) * len(running) * max(slowest, timing.burst))
    began, comparing = time.perf_counter(), 0.0
    for turn in range(1, ranking.LOOKS[-1] + 1):
        started = time.perf_counter()
        compared = turn <= _COMPARED and (turn <= _ALWAYS_COMPARED or comparing < _COMPARING * (started - began))
        shift = turn % max(len(running), 1)
        for loaded in running[shift:] + running[:shift] if turn % 2 else reversed(running[shift:] + running[:shift]):
            seconds = timed(loaded)
            if seconds is not None:
                loaded.record.samples.append(seconds)
            if seconds is not None and compared:
                comparing += _compare(bench, loaded, results)
        running = [loaded for loaded in running if loaded.job.number not in results]
        now = time.perf_counter()
        if len(running) < 2 or (turn >= ranking.LEAST_ROUNDS and now + (now - started) > ends):
            return
        if turn in ranking.LOOKS:
            samples = [loaded.record.samples for loaded in running]
            first_place = samples[ranking.leader(samples)]
            running = [loaded for loaded in running if not ranking.slower(loaded.record.samples, first_place)]
            if all(loaded.record.samples is first_place or ranking.alike(loaded.record.samples, first_place) for loaded in running):
                return
