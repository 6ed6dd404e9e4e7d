"""The clock of tuning and measuring: device seconds of consecutive runs."""

from __future__ import annotations

from collections.abc import Callable

from portatile.device.base import Queue


def back_to_back(queue: Queue, clock: Queue, run: Callable[[], object], runs: int) -> float:
    """The mean device seconds of ``runs`` calls of ``run``, each of which queues its commands on ``queue``; waits for them.

    ``queue`` does not profile, as in normal use, because profiling adds microseconds to each command. ``clock`` is a profiling queue of the
    same device, which only receives two markers, one before all runs and one after them.
    """
    start = clock.marker()
    clock.flush()
    queue.wait_for(start)
    for _ in range(runs):
        run()
    last = queue.marker()
    queue.flush()
    clock.wait_for(last)
    end = clock.marker()
    end.wait()
    return end.seconds_since(start) / runs
