"""The fleet's processes: a scheduler, the workers of a machine (one for each device, one that compiles), or all of them on this machine.

A worker has a nanny, which starts it again when it was killed. When the scheduler goes, the workers wait for a new one at the same address.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from portatile import processes
from portatile.errors import UsageError
from portatile.fleet import members
from portatile.fleet.members import require, tag
from portatile.records import DeviceInfo

LOCAL = "local"
"""The address of a fleet that lives as long as the search: this machine's devices."""
_AGAIN = 1.0  # seconds before a scheduler that is gone is looked for again
_SILENT = 5.0  # seconds after which workers report that no scheduler answers: Dask itself waits much longer


def options(infos: Sequence[DeviceInfo], compilers: int) -> dict[str, dict[str, Any]]:
    """The options of Dask's nannies: a worker for each device, which does one task at a time, and one that compiles.

    Each worker finds its device in its environment. Raises UsageError for one piece of hardware that is named twice: its two workers
    would disturb each other's times.
    """
    known: dict[str, str] = {}
    for info in infos:
        if info.physical_id in known:
            raise UsageError(f"{known[info.physical_id]} and {info.id} are one piece of hardware; name one of them")
        known[info.physical_id] = info.id
    workers = {f"device {info.id}": _options({tag(info): 1}, 1, info.id) for info in infos}
    if compilers:
        workers["compiler"] = _options({members.compiles(): compilers}, compilers, "")
    return workers


def _options(resources: dict[str, int], threads: int, device: str) -> dict[str, Any]:
    environment = {**processes.environment(), "PORTATILE_DEVICE": device}
    # no memory limit, because operands lie in shared memory, which Dask cannot see; no dashboard for each worker
    return {"nthreads": threads, "resources": resources, "env": environment, "memory_limit": 0, "dashboard": False}


def spare_cores(infos: Sequence[DeviceInfo]) -> int:
    """Kernel texts that a machine may compile at once: none where a processor is timed, because compiling would disturb the times."""
    if any(info.kind == "cpu" for info in infos):
        return 0
    return max(processes.cores() - 2 * len(infos), 1)


@contextmanager
def local(infos: Sequence[DeviceInfo]) -> Iterator[str]:
    """A scheduler and workers for devices of this machine, in processes of their own that end with this block; gives the address."""
    distributed = require()
    workers = {
        number: {"cls": distributed.Nanny, "options": worker_options}
        for number, worker_options in enumerate(options(infos, spare_cores(infos)).values())
    }
    scheduler = {"cls": distributed.Scheduler, "options": {"dashboard": False, "port": 0, "host": "127.0.0.1"}}
    with _quiet(), distributed.SpecCluster(workers=workers, scheduler=scheduler, silence_logs=logging.ERROR) as cluster:
        asyncio.run(members.register(cluster.scheduler_address, infos))
        yield cluster.scheduler_address


def _quiet() -> Any:
    """A context in which the workers that are started say only what is wrong."""
    require()
    import dask

    return dask.config.set({"distributed.nanny.pre-spawn-environ.DASK_LOGGING__DISTRIBUTED": "error"})


def run_scheduler(host: str, port: int, say: Callable[[str], None]) -> None:
    """Run a scheduler until Ctrl-C; ``say`` is told its address."""
    distributed = require()

    async def serve() -> None:
        async with distributed.Scheduler(host=host, port=port, dashboard=False) as scheduler:
            say(scheduler.address)
            await scheduler.finished()

    with suppress(KeyboardInterrupt):
        asyncio.run(serve())


def run_workers(address: str, infos: Sequence[DeviceInfo], compilers: int, say: Callable[[str], None]) -> None:
    """Run this machine's workers until Ctrl-C. A scheduler that is not there, or goes, is waited for.

    Raises UsageError for a malformed address, and for hardware that is named twice.
    """
    require()
    members.check(address)
    logging.getLogger("distributed").setLevel(logging.ERROR)
    with suppress(KeyboardInterrupt), _quiet():
        asyncio.run(keep_workers(address, infos, compilers, say))


async def keep_workers(address: str, infos: Sequence[DeviceInfo], compilers: int, say: Callable[[str], None]) -> None:
    """``run_workers`` as a coroutine that runs until it is cancelled."""
    distributed = require()
    waiting = f"waiting for a scheduler at {address}; `portatile fleet scheduler` starts one"
    hint = asyncio.get_running_loop().call_later(_SILENT, say, waiting)

    async def keep_worker(name: str, worker_options: dict[str, Any]) -> None:
        while True:
            try:
                async with distributed.Nanny(address, **worker_options) as nanny:
                    hint.cancel()
                    await members.register(address, infos)
                    say(f"{name}: {nanny.worker_address} at {address}")
                    await nanny.finished()
                say(f"{name}: the scheduler is gone")
            except (OSError, RuntimeError) as error:
                if not isinstance(error, OSError) and not isinstance(error.__cause__, OSError):  # a TimeoutError is an OSError
                    raise
                say(f"{name}: no scheduler at {address} ({type(error).__name__})")
            await asyncio.sleep(_AGAIN)

    try:
        await asyncio.gather(*(keep_worker(name, worker_options) for name, worker_options in options(infos, compilers).items()))
    finally:
        hint.cancel()
