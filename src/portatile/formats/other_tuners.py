"""Results of other tuners as trials. Fields of problem and device that their files lack stay empty."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeGuard

from portatile.device import ANY
from portatile.records import Config, DeviceInfo, Problem, Value
from portatile.trials import Status, Trial


@dataclass(frozen=True)
class ForeignResult:
    """A configuration that another tuner measured, with that tuner's names. ``dtype`` and ``sizes`` are empty if its file lacks them."""

    kernel: str
    device: str
    dtype: str
    sizes: Mapping[str, int]
    config: Config
    seconds: float


def device(name: str) -> DeviceInfo:
    """A device of which only the name is known; its back end is unknown, too."""
    return DeviceInfo(
        id=f"recorded:{name}",
        backend=ANY,
        name=name,
        vendor="",
        platform="",
        kind="gpu",
        architecture="",
        driver="",
        compiler="",
        compute_units=0,
        local_memory=0,
        global_memory=0,
        max_allocation=0,
        max_work_group_size=0,
        max_work_item_sizes=(0, 0, 0),
        fp64=False,
        fp16=False,
        images=False,
        image_2d_max=(0, 0),
        unified_memory=False,
        physical_id="",
    )


def problem(kernel: str, size: object) -> Problem:
    """The problem of a kernel: the numbers of ``size`` become sizes x, y, z; text becomes the option ``problem_size``."""
    numbers = size if isinstance(size, list) else [size]
    sizes = {axis: int(n) for axis, n in zip("xyz", numbers, strict=False) if isinstance(n, (int, float)) and math.isfinite(n)}
    options: dict[str, Value] = {"problem_size": size} if isinstance(size, str) and size else {}
    return Problem(kernel or "kernel", sizes, "", options)


def valid(seconds: object) -> TypeGuard[float]:
    """Whether a value is a duration. Tuners write 1e20 or more for a configuration that failed."""
    return isinstance(seconds, (int, float)) and not isinstance(seconds, bool) and 0 < seconds < 1e17


def trial(task: Problem, info: DeviceInfo, config: Config, status: Status, samples: tuple[float, ...], seconds: dict[str, float]) -> Trial:
    """A recorded evaluation. ``samples`` are kept only if it succeeded, ``seconds`` of phases only if they are positive."""
    phases = {name: spent for name, spent in seconds.items() if spent > 0}
    return Trial(task, dict(config), info, "", status, samples if status == "ok" else (), seconds=phases)
