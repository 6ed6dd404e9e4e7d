"""A fleet and a shared product in simulated time: what each part takes was measured, how they wait for each other is simulated.

Tuning: the client proposes one trial after another, compilers and workers take them in turn. A product: the very ``Pieces`` that hand
out a product's rows, to devices whose clock is simulated.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite

import numpy as np

from portatile.runtime.in_parts.slabs import LEAST_SLABS
from portatile.runtime.several_devices.pieces import Pieces


@dataclass(frozen=True)
class TrialCost:
    """Seconds that a trial takes: to compile all its texts, of which there are so many, and on the device."""

    compile: float
    device: float
    texts: int = 1


@dataclass(frozen=True)
class Overheads:
    """Seconds of a fleet beside the trials: of the client and of the scheduler for each, of a message, and of a worker's start again.

    ``failing``: the share of trials that end their worker. ``start``: of a worker's device, operands and reference, once.
    """

    client: float = 0.02
    scheduler: float = 0.001
    message: float = 0.0005
    restart: float = 5.0
    start: float = 2.0
    failing: float = 0.0


@dataclass(frozen=True)
class Simulated:
    """Seconds from the first to the last, and the share of it in which each part was busy. ``ends``: when each trial was done."""

    seconds: float
    busy: Mapping[str, float]
    ends: Sequence[float] = ()

    @property
    def binds(self) -> str:
        """The part that is busiest."""
        return max(self.busy, key=lambda part: self.busy[part])


@dataclass
class _Servers:
    """Several equal servers, each of which does one thing at a time."""

    free: list[float]
    busy: float = 0.0

    def serve(self, ready: float, seconds: float) -> float:
        """When what is ready then, and takes so long, is done by the first that is free."""
        begin = max(ready, heapq.heappop(self.free))
        heapq.heappush(self.free, begin + seconds)
        self.busy += seconds
        return begin + seconds


def tuning(costs: Sequence[TrialCost], workers: int, compilers: int, overheads: Overheads | None = None, seed: int = 0) -> Simulated:
    """A search of these trials by so many workers; without ``compilers`` each worker compiles what it times.

    As many trials are under way as the fleet keeps: one for each worker and one for each compiler. The texts of a trial, which are taken to
    be alike, are compiled by several at once.
    """
    over, rng = overheads or Overheads(), np.random.default_rng(seed)
    slots = workers + compilers
    client, scheduler = _Servers([0.0]), _Servers([0.0])
    compiling = _Servers([0.0] * max(compilers, 1))
    timing = _Servers([over.start] * workers)
    finished: list[float] = []
    ends: list[float] = []
    for cost in costs:
        proposed = heapq.heappop(finished) if len(finished) >= slots else 0.0
        ready = scheduler.serve(client.serve(proposed, over.client) + over.message, over.scheduler) + over.message
        on_device = cost.device
        if compilers:
            ready = max(compiling.serve(ready, cost.compile / cost.texts) for _ in range(cost.texts)) + over.message
        else:
            on_device += cost.compile
        while rng.random() < over.failing:
            on_device += over.restart + cost.device
        done = timing.serve(ready, on_device) + 2 * over.message
        heapq.heappush(finished, done)
        ends.append(done)
    last = max(ends)
    shares = {"client": client.busy / last, "scheduler": scheduler.busy / last, "workers": timing.busy / (last * workers)}
    if compilers:
        shares["compilers"] = compiling.busy / (last * compilers)
    return Simulated(last, shares, ends)


@dataclass(frozen=True)
class SharedProduct:
    """A product C = A B cut along the rows of A and C: flops and bytes of one row, bytes that every device needs, rows.

    A piece has a multiple of ``period`` rows.
    """

    rows: int
    flops: float
    row_bytes: float
    shared_bytes: float
    period: int = 1


@dataclass(frozen=True)
class SimulatedMachine:
    """``rates``: flops a second of each device. ``links``: bytes a second of each device's own, either way; ``host`` of all links together.

    A device that reaches the host's memory has an infinite link. ``piece``: seconds that beginning and ending a piece costs. ``peer``:
    bytes a second from device to device, 0 where there are no such copies. ``start``: seconds of a call beside all pieces.
    """

    rates: tuple[float, ...]
    links: tuple[float, ...]
    host: float
    piece: float = 1e-4
    peer: float = 0.0
    start: float = 0.0

    def bandwidths(self) -> tuple[float, ...]:
        """Bytes a second of each link while all of them are used."""
        used = sum(map(isfinite, self.links))
        return tuple(min(link, self.host / used) if isfinite(link) else link for link in self.links)

    def arrival(self, nbytes: float, bandwidth: float) -> float:
        """Seconds until a device with such a link has what all need: with ``peer`` each brings a part from the host, for the others too."""
        used = sum(map(isfinite, self.links))
        if not self.peer or used < 2 or not isfinite(bandwidth):
            return nbytes / bandwidth
        return nbytes / used / bandwidth + nbytes * (1 - 1 / used) / self.peer


def in_two_lanes(computing: float, crossing: float) -> float:
    """Seconds of a piece by two lanes in turn, of which one computes while the other copies."""
    return max(computing, (computing + crossing) / 2)


@dataclass
class _Device:
    name: str
    rate: float
    bandwidth: float
    busy: dict[str, float] = field(default_factory=lambda: {"devices": 0.0, "links": 0.0, "pieces": 0.0})


def product(work: SharedProduct, machine: SimulatedMachine) -> Simulated:
    """The product by all devices; all links share the host's memory.

    A device has two lanes: while it computes the piece of one, the other's result goes back and its next piece comes. Nothing is computed
    beside the way there of a device's first piece, and the way back of its last one.
    """
    count, bandwidths = len(machine.rates), machine.bandwidths()
    devices = [_Device(str(number), rate, bandwidths[number]) for number, rate in enumerate(machine.rates)]
    pieces = Pieces(work.rows, work.period, {device.name: device.rate / work.flops for device in devices})
    for device in devices:
        device.busy["links"] += machine.arrival(work.shared_bytes, device.bandwidth)
    clock = [(machine.start + device.busy["links"], number) for number, device in enumerate(devices)]  # when each device is free
    heapq.heapify(clock)
    begun, last = set[int](), 0.0
    narrow = max(work.rows // (LEAST_SLABS * count), 1)  # of a piece that crosses a link
    while clock:
        now, number = heapq.heappop(clock)
        device = devices[number]
        piece = pieces.take(device.name, narrow if isfinite(device.bandwidth) else work.rows, wait=False)
        if piece is None:
            continue
        steps = piece[1] - piece[0]
        computing, one_way = steps * work.flops / device.rate, steps * work.row_bytes / 2 / device.bandwidth
        took = in_two_lanes(computing, 2 * one_way) + machine.piece + (0.0 if number in begun else one_way)
        begun.add(number)
        device.busy["devices"] += computing
        device.busy["links"] += one_way
        device.busy["pieces"] += machine.piece
        pieces.done(device.name, steps, took)
        last = max(last, now + took + one_way)
        heapq.heappush(clock, (now + took, number))
    shares = {part: sum(device.busy[part] for device in devices) / (last * count) for part in devices[0].busy}
    if bandwidths != machine.links:
        shares["host memory"] = shares.pop("links")
    return Simulated(last, shares)
