"""The clock of tuning and measuring: the time of work that runs back to back on a queue, in one burst."""

from __future__ import annotations

from collections.abc import Callable

from portatile.device.base import Queue


def back_to_back(queue: Queue, clock: Queue, run: Callable[[], object], runs: int) -> float:
    """Device seconds of each of so many ``runs``, of which ``run`` queues one on ``queue``; waits for them.

    ``queue`` is a plain one, as in use. ``clock``, a queue that takes times, which costs microseconds at each command, holds only a marker
    before and one behind them all.
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
