"""The time that devices take together, predicted from the time that each took alone.

It is the simulation of a shared product, with measured rates and links.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

from portatile.records import DeviceInfo
from portatile.studies.framework import simulation
from portatile.studies.framework.simulation import SharedProduct, Simulated, SimulatedMachine

_LEAST = 0.1  # of the seconds alone, that are computation at least: a link that was slow when it was measured


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
        crossing = work.shared_bytes + (work.rows * work.row_bytes if self.whole else 0.0)
        return work.rows * work.flops / max(self.seconds - crossing / self.link, _LEAST * self.seconds)


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
