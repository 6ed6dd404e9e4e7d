"""A race: variants that are nearly as fast as the best, checked again and timed in turn until they can be told apart."""

from __future__ import annotations

import time
from contextlib import ExitStack

from portatile.errors import DeviceError, PortatileError
from portatile.tuning import finals
from portatile.tuning.bench import Bench, Loaded, Record, runs_in
from portatile.tuning.protocol import Evaluated, Race, Raced

_LEAST_ROUNDS = 3


def hold(bench: Bench, job: Race) -> Raced:
    """Time the entries round by round, each round in another order, so that what disturbs the device disturbs all of them.

    One that is wrong now, or no longer runs, is out; one that is certainly slower than the leader runs no further. It ends when the
    others are certainly alike, after the last look, or with the time.
    """
    ends = time.perf_counter() + job.seconds
    results: dict[int, Evaluated] = {}
    try:
        with ExitStack() as stack:
            field: list[Loaded] = []
            for entry in job.entries:
                bench.announce("compile", 0.0)
                loaded = stack.enter_context(bench.load(entry, Record()))
                bench.announce("launch", 0.0)
                verdict = bench.check(loaded)
                if verdict.ok:
                    field.append(loaded)
                else:
                    message = f"right at first, wrong before the race: {verdict.message}"
                    results[entry.number] = loaded.record.outcome(entry, "wrong", message)
            _run(bench, field, ends)
            for loaded in field:
                if loaded.record.samples:
                    bench.burst(loaded, 1)
                    verdict = bench.outputs(loaded)
                    results[loaded.job.number] = (
                        loaded.record.outcome(loaded.job, "ok", error=max(loaded.record.errors))
                        if verdict.ok
                        else loaded.record.outcome(loaded.job, "wrong", f"right at first, wrong in the race: {verdict.message}")
                    )
    except DeviceError as error:
        return Raced((), str(error), broken=True)
    except PortatileError as error:
        return Raced((), str(error))
    decided = max((len(outcome.samples) for outcome in results.values()), default=0) >= _LEAST_ROUNDS
    told = (results[entry.number] for entry in job.entries if entry.number in results)
    if decided:
        return Raced(tuple(told))
    return Raced(tuple(outcome for outcome in told if outcome.status != "ok"), "there was no time for it")  # who is wrong is out anyway


def _run(bench: Bench, field: list[Loaded], ends: float) -> None:
    """Rounds, until everything is told or the time is up."""
    if len(field) < 2:
        return
    timing = field[0].job.timing
    runs = {}
    for loaded in field:
        first = bench.burst(loaded, 1)
        runs[loaded.job.number] = runs_in(timing, timing.burst, min(first, loaded.job.best or first))
    running = list(field)
    slowest = max(loaded.job.best or 0.0 for loaded in field)
    bench.announce("run", max(ends - time.perf_counter(), 0.0) + len(field) * max(slowest, timing.burst))
    for turn in range(1, finals.LOOKS[-1] + 1):
        started = time.perf_counter()
        shift = turn % len(running)
        for loaded in running[shift:] + running[:shift] if turn % 2 else reversed(running[shift:] + running[:shift]):
            loaded.record.samples.append(bench.burst(loaded, runs[loaded.job.number]))
        now = time.perf_counter()
        if now + (now - started) > ends:
            return
        if turn in finals.LOOKS:
            samples = [loaded.record.samples for loaded in running]
            first_place = samples[finals.leader(samples)]
            running = [loaded for loaded in running if not finals.slower(loaded.record.samples, first_place)]
            if all(loaded.record.samples is first_place or finals.alike(loaded.record.samples, first_place) for loaded in running):
                return
