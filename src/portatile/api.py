"""The public functions beside the routines: find devices, tune a workload, ask why a configuration was chosen."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from portatile import device as devices_room
from portatile import workloads
from portatile.device.base import Device
from portatile.errors import UnknownNameError
from portatile.records import Budget, Problem, Value
from portatile.routines import engine, runtime
from portatile.select import Choice
from portatile.store import ResultStore
from portatile.tuning import tuner
from portatile.tuning.tuner import Progress, Result


def devices() -> list[Device]:
    """Every device of every back end; ``device.info`` tells what it is. Opens none of them.

    >>> import portatile
    >>> [device.info.kind for device in portatile.devices()]  # doctest: +SKIP
    ['gpu', 'gpu', 'cpu']
    """
    return devices_room.devices()


def get_device(selector: str | None = None) -> Device:
    """The device that ``selector`` names (an id such as ``opencl:0:0``, or a part of a name or vendor), or the default one.

    Raises DeviceNotFoundError, which lists the devices there are.
    """
    return devices_room.get(selector)


def tune(
    workload: str,
    *,
    dtype: str = "float32",
    device: str | None = None,
    budget: str | float = "60s",
    strategy: str = "auto",
    seed: int = 0,
    listen: Callable[[Progress], None] | None = None,
    **sizes: int | str | bool,
) -> Result:
    """Search for the fastest configuration of a workload on a device; from then on the routines use it.

    ``sizes`` are the workload's sizes and options by name (``m=512, n=512, k=512, trans_a="T"``). ``budget`` is
    ``"30s"``, ``"200"`` evaluations, ``"60s,200"`` for whichever ends first, or seconds. ``listen`` hears of every trial.
    Every variant is checked against a reference before it is timed; all trials go to the result store. Raises
    NoValidVariantError when every variant failed.

    >>> import portatile
    >>> result = portatile.tune("matmul", m=32, n=32, k=32, budget="3")
    >>> result.best.status
    'ok'
    """
    request = tuner.Request(_problem(workload, dtype, sizes), device, Budget.parse(budget), strategy, seed)
    with ResultStore.default() as store:
        result = tuner.tune(request, store, listen)
    runtime.forget()
    return result


def explain(workload: str, *, dtype: str = "float32", device: str | None = None, **sizes: int | str | bool) -> Choice:
    """The configuration that the routines use for a problem, and where it comes from.

    >>> import portatile
    >>> portatile.explain("gemm", m=64, n=64, k=64).reason in ("tuned", "near problem", "near device", "default")
    True
    """
    return engine.Engine(devices_room.get(device)).choose(_problem(workload, dtype, sizes))


def _problem(name: str, dtype: str, given: Mapping[str, int | str | bool]) -> Problem:
    workload = workloads.get(name)
    sizes: dict[str, int] = {}
    options: dict[str, Value] = {}
    for key, value in given.items():
        if key in workload.sizes:
            sizes[key] = int(value)
        elif key in workload.options:
            options[key] = value
        else:
            raise UnknownNameError(f"size or option of {name}", key, [*workload.sizes, *workload.options])
    return workload.problem(sizes, dtype, options)
