"""Products of Buffers through one back end of a GPU, timed in bursts by portatile's clock: back to back, and each after a fill."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

import numpy as np

import portatile
from portatile import Buffer, device, dtypes
from portatile.device.clock import back_to_back
from tensor_products import Tensors

MANNERS = ("buffers", "apart")
_AHEAD, _FILLS = 1 << 30, 3  # bytes that a device fills while the host queues a burst, and how often
_BURST = {"buffers": 40, "apart": 20}  # calls of it, at most
_LASTS = 2e-3  # seconds of a burst, at most
_TRIES = 5  # how often it is repeated where the host was disturbed
_COVERED = 0.9  # of the time of the fills: within that the host has to queue a burst
_BETWEEN = 4096  # bytes that are filled between calls
_ONE = b"\x00\x00\x80\x3f"


class Bursts:
    """Calls on Buffers of one device.

    A burst is queued by the host while the device is busy, less a burst of a single call, over the calls between: so neither the wait
    for the first one nor waking after the last one counts. ``buffers`` are calls one behind the other. ``apart`` each comes behind a small
    fill, less the time of as many fills: no call can begin before the one before has ended, as it can through CUDA.
    """

    def __init__(self, opened: device.Device) -> None:
        self.device = opened
        self._queue, self._clock = self.device.default_queue(), self.device.queue(profiling=True)
        self._ahead, self._between = self.device.allocate(_AHEAD), self.device.allocate(_BETWEEN)
        self._covered = _COVERED * min(self._filling() for _ in range(3))
        self._apart = min(self._slope(self._fill_between, _BURST["apart"]) for _ in range(5))

    def calls(self, product: Tensors) -> dict[str, Callable[[], float]]:
        """Check a call and return, by the names of its samples, the functions that give seconds per call."""
        sides = [Buffer.from_numpy(side, self.device) for side in product.on_host()]
        given = [side if tensor.is_contiguous() else side.T for side, tensor in zip(sides, product.sides, strict=True)]
        element = dtypes.product(product.shape.dtype).result
        out = Buffer.from_numpy(np.full((product.shape.m, product.shape.n), np.nan if element.unit else -1, element.numpy), self.device)

        def call() -> None:
            portatile.matmul(*given, out=out)

        def call_apart() -> None:
            self._fill_between()
            call()

        call()
        call()  # an untuned product that comes again may be timed first
        product.check(np.abs(out.numpy().astype(np.float64) - product.peer.double().cpu().numpy()).max(), self.device.info.id)
        once = min(back_to_back(self._queue, self._clock, call, 1) for _ in range(3))
        counts = {manner: max(2, min(most, round(_LASTS / once))) for manner, most in _BURST.items()}
        one_behind_the_other = partial(self._slope, call, counts["buffers"])
        found = {"buffers": one_behind_the_other, "apart": lambda: self._slope(call_apart, counts["apart"]) - self._apart}
        return {f"{manner} on {self.device.info.backend}": found[manner] for manner in MANNERS}

    def _fill_between(self) -> None:
        self._queue.fill(self._between, _ONE)

    def _slope(self, call: Callable[[], None], count: int) -> float:
        """Seconds per call, from the difference between bursts of different lengths."""
        return (self._burst(call, count + 1) - self._burst(call, 1)) / count

    def _burst(self, call: Callable[[], None], count: int) -> float:
        """Seconds of so many calls, which the host queues while the device is busy. If the host is too slow for that, the least of some
        tries."""
        queued = 0.0

        def noted() -> None:
            nonlocal queued
            call()
            queued = time.perf_counter()

        took = []
        for _ in range(_TRIES):
            self._fill()
            began = time.perf_counter()
            seconds = back_to_back(self._queue, self._clock, noted, count) * count
            if queued - began < self._covered:
                return seconds
            took.append(seconds)
        return min(took)

    def _fill(self) -> None:
        for _ in range(_FILLS):
            self._clock.fill(self._ahead, _ONE)

    def _filling(self) -> float:
        """Seconds that the device is busy before a burst."""
        began = time.perf_counter()
        self._fill()
        self._clock.finish()
        return time.perf_counter() - began
