"""Short names of devices for figures and tables: ``H200 CUDA``, ``EPYC PoCL``."""

from __future__ import annotations

import re
from collections.abc import Sequence

from portatile.device import backends
from portatile.records import DeviceInfo

_AROUND = re.compile(
    r"\((?:R|TM|C)\)|^(?:pthread|cpu)-(?:[a-z0-9-]+-(?=[A-Z]))?|@.*|[- ]\d+ ?GB\b"
    r"|\b(?:NVIDIA|GeForce|AMD|Intel|Processor|CPU|Laptop GPU|HBM\w*|\d+-Core)\b"
)
_PLATFORMS = {"Portable Computing Language": "PoCL", "Intel(R) OpenCL": "Intel OpenCL"}


def hardware(info: DeviceInfo) -> str:
    """A device's name without vendor, memory size and trade marks: ``H100`` for ``NVIDIA H100 80GB HBM3``."""
    return " ".join(_AROUND.sub(" ", info.name).split()) or info.name


def runtime(info: DeviceInfo) -> str:
    """The runtime's name if it has one, else the back end: ``PoCL``, ``CUDA``, ``OpenCL``."""
    known = backends().get(info.backend)
    return _PLATFORMS.get(info.platform, known.title if known is not None else info.backend)


def short(infos: Sequence[DeviceInfo]) -> list[str]:
    """A name for each device: hardware and runtime, with the driver's version or the id only where needed to distinguish two."""
    names = [f"{hardware(info)} {runtime(info)}" for info in infos]
    for part in (_version, lambda info: info.id):
        alike: dict[str, set[str]] = {}
        for name, info in zip(names, infos, strict=True):
            alike.setdefault(name, set()).add(part(info))
        names = [f"{name} {part(info)}" if len(alike[name]) > 1 else name for name, info in zip(names, infos, strict=True)]
    return names


def _version(info: DeviceInfo) -> str:
    """The first two numbers of a driver's version."""
    return ".".join(re.findall(r"\d+", info.driver)[:2])
