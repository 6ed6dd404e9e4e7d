"""The members of a fleet: the devices that workers advertise, workers with the same device, and the connection to their scheduler."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from portatile.errors import DeviceError, DeviceNotFoundError, PortatileError, UsageError
from portatile.records import DeviceInfo, canonical, digest, from_json, to_json
from portatile.store import device_key

DEATHS = 1
"""Workers that a task may end before the next one that it ends quarantines it."""
_OURS, _COMPILES, _BEGUN = "portatile", "compile", "portatile-begun"
_CONNECT_SECONDS = 5.0
_RETURN_SECONDS = 60.0  # how long to wait for a scheduler that is gone
_PAUSE = 0.5
_ADDRESS = re.compile(r"([a-z]+://)?.+:\d+|inproc://.+")


@dataclass(frozen=True)
class FleetMember:
    """One worker: where it runs, and its device; one without a device compiles."""

    host: str
    device: DeviceInfo | None = None


@lru_cache(maxsize=1)
def version() -> str:
    """A digest of the package's files. Machines with different versions must not share a search."""
    root = Path(__file__).parent.parent
    files = sorted(path for path in root.rglob("*") if path.suffix in (".py", ".cl", ".h", ".json") and path.is_file())
    return digest(*(f"{path.relative_to(root).as_posix()}\n{digest(path.read_text(encoding='utf-8'))}" for path in files))[:16]


def tag(info: DeviceInfo) -> str:
    """The resource of workers whose trials are comparable: this portatile, the same device, the same driver."""
    return f"{_OURS}-{version()}-{digest(device_key(info), info.driver)[:16]}"


def compiles() -> str:
    """The resource of workers that compile."""
    return f"{_OURS}-{version()}-{_COMPILES}"


def _advertised(worker: Mapping[str, Any]) -> tuple[str, str, str] | None:
    """A worker's resource, its version, and its device (or that it compiles); None for a worker of another program."""
    for name in worker["resources"]:
        match name.split("-"):
            case [own, version, what] if own == _OURS:
                return name, version, what
    return None


class Fleet:
    """The workers of a scheduler, asked once each."""

    def __init__(self, address: str) -> None:
        """Connect. Raises UsageError if there is no scheduler."""
        self.address = address
        self._known: dict[str, DeviceInfo] = {}  # by tag
        self._workers: Mapping[str, Any] = {}  # as the scheduler last reported them
        self.client = _connect(address)
        _quarantine(self.client)

    def close(self) -> None:
        """Disconnect from the scheduler; the workers stay."""
        with suppress(Exception):
            self.client.close(timeout=2)

    def reconnect(self) -> None:
        """Wait for a scheduler that has gone, and connect again. Raises DeviceError if it does not come back."""
        self.close()
        until = time.monotonic() + _RETURN_SECONDS
        while True:
            try:
                self.client = _connect(self.address)
                _quarantine(self.client)
                return
            except UsageError as error:
                if time.monotonic() > until:
                    raise DeviceError(f"the scheduler {self.address} is gone and did not come back: {error}") from error
                time.sleep(_PAUSE)

    @property
    def connected(self) -> bool:
        """Whether the scheduler answers."""
        return bool(self.client.status == "running")

    def members(self) -> Mapping[str, FleetMember]:
        """Our workers by address, the last known ones while the scheduler is gone. Raises UsageError if some run another portatile."""
        members, different = {}, set()
        for address, worker in self._present().items():
            if (advertised := _advertised(worker)) is None:
                continue
            name, other, what = advertised
            if other != version():
                different.add(worker["host"])
            elif what == _COMPILES:
                members[address] = FleetMember(worker["host"])
            elif (info := self._device(name)) is not None:
                members[address] = FleetMember(worker["host"], info)
        if different:
            raise UsageError(
                f"another portatile runs on {', '.join(sorted(different))}: its files differ from those here. "
                "Install the same version on all machines, and start the workers there again"
            )
        return members

    def choose(self, selector: str | None) -> DeviceInfo:
        """The device to tune on: the most numerous of those that the selector names, or of all; GPUs before CPUs.

        Raises DeviceNotFoundError, which lists what there is.
        """
        matching: dict[str, list[DeviceInfo]] = {}
        for member in self.members().values():
            if member.device is not None and (selector is None or _named(member.device, selector)):
                matching.setdefault(tag(member.device), []).append(member.device)
        if not matching:
            there = sorted(
                {f"{one.device.id} ({one.device.name}, {one.host})" for one in self.members().values() if one.device is not None}
            )
            problem = "has no device" if selector is None else f"has no device that matches {selector!r}"
            raise DeviceNotFoundError(f"the fleet at {self.address} {problem}; there is: {', '.join(there) or 'none'}")
        return max(matching.values(), key=lambda group: (group[0].kind != "cpu", len(group)))[0]

    def with_device(self, info: DeviceInfo) -> Mapping[str, FleetMember]:
        """The workers with this device, by address."""
        needed = tag(info)
        return {address: member for address, member in self.members().items() if member.device is not None and tag(member.device) == needed}

    def compilers(self) -> int:
        """The number of texts that the fleet can compile at once."""
        return int(sum(worker["resources"].get(compiles(), 0) for worker in self._present().values()))

    def submit(self, function: Callable[..., Any], *args: Any, **where: Any) -> Any:
        """The future of a task, cancelled if the scheduler is gone. ``where``: keyword arguments of Dask's ``Client.submit``."""
        future = self._answer(lambda: self.client.submit(function, *args, **where))
        return _cancelled() if future is None else future

    def ended_by(self, what: str) -> int:
        """The number of lost workers that had last reported to begin ``what``. Dask's own count includes tasks that only waited on a lost
        worker."""
        begun = self._answer(lambda: self.client.get_metadata([_BEGUN], default={})) or {}
        return sum(last == what for worker, last in begun.items() if worker not in self._present())

    def cancel(self, futures: Iterable[Any]) -> None:
        """Cancel tasks; does nothing if the scheduler has gone."""
        self._answer(lambda: self.client.cancel([future for future in futures if not isinstance(future, Future)]))

    def _present(self) -> Mapping[str, Any]:
        """The scheduler's facts about all workers by address; the last known ones while it is gone."""
        scheduler = self._answer(lambda: self.client.scheduler_info(n_workers=-1))
        self._workers = scheduler.get("workers", self._workers) if scheduler else self._workers
        return self._workers

    def _answer(self, question: Callable[[], Any]) -> Any:
        """The scheduler's answer; None if it has gone, for which Dask raises several kinds of errors."""
        try:
            return question()
        except OSError:
            return None
        except Exception:
            if self.connected:
                raise
            return None

    def _device(self, name: str) -> DeviceInfo | None:
        """The device registered under a tag; None if its worker has not registered it yet."""
        if name not in self._known:
            device = self._answer(lambda: self.client.get_metadata([_OURS, name], default=None))
            if device is None:
                return None
            self._known[name] = from_json(device, DeviceInfo)
        return self._known[name]


def _cancelled() -> Future[bytes]:
    never: Future[bytes] = Future()
    never.cancel()
    return never


def _named(info: DeviceInfo, selector: str) -> bool:
    name_part = selector.strip().lower()
    words = (info.id, info.name, info.vendor, info.platform, info.backend, info.kind, info.architecture)
    return any(name_part in word.lower() for word in words)


def _connect(address: str) -> Any:
    """A client of the scheduler; raises UsageError if no scheduler answers, or the address is malformed."""
    distributed = require()
    check(address)
    try:
        return distributed.Client(address, timeout=_CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError) as error:  # a TimeoutError is an OSError
        advice = "start one with `portatile fleet scheduler`, or say --scheduler local"
        raise UsageError(f"there is no scheduler at {address}, or it cannot be reached from here; {advice}") from error


def check(address: str) -> None:
    """Raise UsageError if this is not the address of a scheduler."""
    if not _ADDRESS.fullmatch(address):
        raise UsageError(f"{address!r} is not an address: write tcp://HOST:PORT, as `portatile fleet scheduler` prints it, or local")


def _quarantine(client: Any) -> None:
    """Configure Dask so that a task fails when it ends its second worker (not its fourth), and so that lost workers are noticed soon."""

    def once(dask_scheduler: Any) -> None:
        import dask

        dask_scheduler.allowed_failures = DEATHS
        dask.config.set({"distributed.comm.timeouts.connect": "5s"})

    client.run_on_scheduler(once)


def require() -> Any:
    """Dask distributed; raises UsageError, which says what to install."""
    try:
        import distributed
    except ImportError:
        raise UsageError("a fleet needs Dask distributed: pip install 'portatile[cluster]', in a clone '.[cluster]'") from None
    return distributed


def begins(what: str) -> None:
    """Tell the scheduler what this worker does next, to which its end would be attributed. Does nothing outside workers."""
    distributed = require()
    try:
        worker = distributed.get_worker()
    except ValueError:
        return
    distributed.utils.sync(worker.loop, worker.scheduler.set_metadata, keys=[_BEGUN, worker.address], value=what)


def registered(infos: Sequence[DeviceInfo]) -> dict[str, str]:
    """The devices as the scheduler keeps them, by tag: a worker's resources hold only numbers."""
    return {tag(info): to_json(info).decode() for info in infos}


async def register(address: str, infos: Sequence[DeviceInfo]) -> None:
    """Tell a scheduler of devices, whose workers have connected to it."""
    distributed = require()
    async with distributed.Client(address, asynchronous=True, set_as_default=False) as client:
        for name, details in registered(infos).items():
            await client.set_metadata([_OURS, name], details)


@contextmanager
def connected(address: str) -> Iterator[Fleet]:
    """A fleet, disconnected at the end of the block."""
    fleet = Fleet(address)
    try:
        yield fleet
    finally:
        fleet.close()


def described(error: BaseException) -> str:
    """The first line of a worker's error."""
    return str(error).splitlines()[0] if isinstance(error, PortatileError) and str(error) else f"{type(error).__name__}: {error}"


def key_of(*parts: object) -> str:
    """A task's name, which depends only on what it computes: two clients with the same request share the result."""
    return f"portatile-{digest(canonical([str(part) for part in parts]))[:24]}"
