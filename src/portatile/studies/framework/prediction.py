"""The time that devices take together, predicted from the time that each took alone.

It is the simulation of a shared product, with measured rates and links. What a shared call costs beside copies and computation is
measured too, with half of the problem's rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf, prod

import numpy as np

from portatile import processes, workloads
from portatile.device.base import Device
from portatile.dtypes import itemsize
from portatile.records import DeviceInfo, Problem
from portatile.runtime.in_parts import slabs
from portatile.runtime.one_device import memory_limit
from portatile.runtime.several_devices import forecast, several
from portatile.studies.framework import links, shared_run, simulation
from portatile.studies.framework.shared_run import SharedRun
from portatile.studies.framework.simulation import SharedProduct, Simulated, SimulatedMachine

_LEAST = 0.1  # of the seconds alone, that are computation at least: a link that was slow when it was measured
_PART = 2  # the part of a problem that says what sharing costs is one of so many; small arrays of a smaller part would cross unlocked
_COPIED = 1 << 26, 1 << 29  # bytes of a copy that shows a link's rate, at least and at most
_RAMP = 4  # the first and the last slab of a device alone are thinner by this, because nothing is computed beside them


@dataclass(frozen=True)
class SingleDevice:
    """A device and the seconds that it took alone for the whole product, with the operands on the host.

    ``link``: measured bytes a second to it, infinite for one that reaches the host's memory. ``whole``: the operands travel before and
    after the computation, not beside it.
    """

    info: DeviceInfo
    seconds: float
    link: float = inf
    whole: bool = True

    def rate(self, work: SharedProduct) -> float:
        """Flops a second without the transfers."""
        cut = work.rows * work.row_bytes / self.link  # seconds of all slabs on the link, there and back
        ends = cut if self.whole else cut / (_RAMP * slabs.LEAST_SLABS)
        left = max(self.seconds - work.shared_bytes / self.link - ends, _LEAST * self.seconds)
        if not self.whole and left < cut:  # the link binds, of two lanes in turn
            left = max(2 * left - cut, _LEAST * self.seconds)
        return work.rows * work.flops / left


@dataclass(frozen=True)
class TransferRates:
    """How arrays reach several devices: bytes a second of host arrays over all ``host`` links together, and from ``peer`` to peer, 0 where
    there are no such copies. ``start``: seconds of a shared call beside copies and computation.
    """

    host: float
    peer: float = 0.0
    start: float = 0.0


def shared(
    work: SharedProduct, devices: Sequence[SingleDevice], cores: int, ways: TransferRates, timed: SharedProduct | None = None
) -> Simulated:
    """The product by all of them. ``cores``: those that this process may use. ``timed``: the product that each was timed at, if not it."""
    factors = [share(device.info, [other.info for other in devices], cores) for device in devices]
    rates = tuple(device.rate(timed or work) * factor for device, factor in zip(devices, factors, strict=True))
    links = tuple(device.link for device in devices)
    return simulation.product(work, SimulatedMachine(rates, links, ways.host, peer=ways.peer, start=ways.start))


def together(work: SharedProduct, devices: Sequence[SingleDevice], cores: int, ways: TransferRates) -> Simulated:
    """The product by all of them, or by the fastest alone where that is sooner: so a call chooses, too."""
    by_all, alone = shared(work, devices, cores, ways), min(device.seconds for device in devices)
    return by_all if by_all.seconds < alone else Simulated(alone, {"one device": 1.0})


def share(device: DeviceInfo, devices: Sequence[DeviceInfo], cores: int) -> float:
    """The part of its rate alone that a device has while all of ``devices`` compute: several may be the same piece of hardware.

    Processors share the cores, as far as there are too few of them; the back ends of another device share that.
    """
    same = [other for other in devices if other.physical_id == device.physical_id]
    if device.kind != "cpu":
        return 1 / len(same)
    return min(1.0, cores / sum(other.compute_units for other in same))


def work_of(problem: Problem, devices: Sequence[Device]) -> tuple[str, SharedProduct] | None:
    """The size along which devices share a problem, and the problem as a product whose rows are its steps; None where it is not cut."""
    workload = workloads.get(problem.workload)
    nbytes = {name: prod(shape) * itemsize(workload.element(problem, name)) for name, shape in workload.shapes(problem).items()}
    ways = workload.cuts(problem, workload.default(problem, devices[0].info))
    cuts = [way for way in ways if not way.sums and problem.sizes[way.size] >= _PART]
    cuts.sort(key=lambda way: sum(size for name, size in nbytes.items() if name not in way.pieces))
    cut = several.preferred(cuts, problem.sizes, devices)
    if cut is None:
        return None
    rows, pieces = problem.sizes[cut.size], sum(size for name, size in nbytes.items() if name in cut.pieces)
    flops = max(workload.flops(problem), 1.0) / rows
    return cut.size, SharedProduct(rows, flops, pieces / rows, float(sum(nbytes.values()) - pieces), max(cut.period, 1))


class Together:
    """What sets of devices take for a problem, as predicted from ``alone``, what each took for it by itself, and from their links.

    ``size`` is what they share, ``work`` the problem as a product with so many rows. ``host``: bytes a second that the host's memory gives
    at most. What is measured of a set is measured once.
    """

    def __init__(self, devices: Sequence[Device], problem: Problem, size: str, work: SharedProduct, repeat: int, host: float = inf) -> None:
        self._devices = {device.info.id: device for device in devices}
        self._problem, self._size, self._work, self._repeat, self._host = problem, size, work, repeat, host
        self._predictions: dict[tuple[str, ...], Simulated] = {}
        self.alone: dict[str, SingleDevice] = {}

    def took_alone(self, name: str, seconds: float) -> None:
        """Learn what a device took by itself, and how fast arrays travel to it."""
        device, work = self._devices[name], self._work
        if device.info.unified_memory:
            self.alone[name] = SingleDevice(device.info, seconds)
            return
        cut, shared = work.rows * work.row_bytes, work.shared_bytes
        whole = not memory_limit.too_large(device, (int(cut), int(shared))) and cut < slabs.BESIDE
        self.alone[name] = SingleDevice(device.info, seconds, links.to_each(device, np.ones(self._copied, np.uint8)), whole)

    def predicted(self, names: Sequence[str]) -> Simulated:
        """The problem by these devices, each of which is in ``alone``; those that would do too little take no part, as in a call.

        Raises what measuring a part of the problem raises.
        """
        enough = tuple(forecast.doing_enough({name: self.alone[name].seconds for name in names}))
        if enough not in self._predictions:
            devices = [self.alone[name] for name in enough]
            ways = TransferRates(inf) if len(enough) == 1 else self._ways(enough)
            self._predictions[enough] = together(self._work, devices, processes.cores(), ways)
        return self._predictions[enough]

    def _start(self, names: Sequence[str], ways: TransferRates) -> float:
        """Seconds of a shared call beside copies and computation: what a part of it takes longer than is predicted without them.

        They are below 0 for short problems, of which each device takes one piece, where the simulation counts several.
        """
        rows = max(self._work.rows // _PART, 1)
        sizes = {**self._problem.sizes, self._size: rows}
        problem = workloads.get(self._problem.workload).problem(sizes, self._problem.dtype, self._problem.options)
        took = min(shared_run.timed(SharedRun(problem, tuple(names), self._repeat, together=True)).seconds)
        cut = work_of(problem, [self._devices[name] for name in names])  # of so few rows the columns may be shared
        part = replace(self._work, rows=rows) if cut is None else cut[1]
        return took - shared(part, [self.alone[name] for name in names], processes.cores(), ways, self._work).seconds

    @property
    def _copied(self) -> int:
        """Bytes of a copy that shows how fast this problem's arrays travel."""
        least, most = _COPIED
        return int(min(max(self._work.shared_bytes, self._work.rows * self._work.row_bytes / 2, least), most))

    def _ways(self, names: Sequence[str]) -> TransferRates:
        """How arrays reach these devices, and what a shared call of theirs costs beside that."""
        linked, nbytes = [one for name in names if not (one := self._devices[name]).info.unified_memory], self._copied
        ways = TransferRates(min(links.to_all(linked, nbytes), self._host), links.between(linked, nbytes))
        return replace(ways, start=self._start(names, ways))
