"""The devices of this machine. Back ends are found by their folders; devices are selected by id, name, vendor or kind.

- Interfaces: ``base`` (Device, Queue, Memory), ``event``, ``module``, ``launches``, ``resources``, ``target`` (a compiler),
  ``vendor_blas``, ``backend`` (a folder that implements all of these).
- Checks and names for all back ends: ``copies``, ``ranges``, ``names``, ``clock``, ``exit_gate`` (keeps threads out of drivers while the
  interpreter exits).
- What users call: ``public``.
- Arrays: ``buffer``, ``strides``, ``masked_arrays``, ``foreign_arrays``, ``dlpack``.
- Transfers between host and device, and memory for them: ``staging``, ``side_by_side``, ``page_locked``, ``pool``.
- Compilers' messages and output: ``excerpts``, ``advice``, ``ptx``, ``ptxas``, ``x86``.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
import threading
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path

from portatile import open_files, settings
from portatile.device.backend import BackEnd, Finding, Survey
from portatile.device.base import Device
from portatile.device.target import Target
from portatile.errors import ArgumentError, DeviceNotFoundError, UnknownNameError
from portatile.records import DeviceInfo

__all__ = [
    "ANY",
    "COLD_COMPILER",
    "EVERY",
    "Device",
    "Selector",
    "backends",
    "check",
    "datasheet",
    "devices",
    "findings",
    "get",
    "matches",
    "private_caches",
    "several",
    "target",
]

COLD_COMPILER: Mapping[str, str] = {
    "POCL_KERNEL_CACHE": "0",
    "CUDA_CACHE_DISABLE": "1",
    "PYOPENCL_NO_CACHE": "1",
    "NEO_CACHE_PERSISTENT": "0",
}
"""Environment variables that disable the drivers' own caches, so that compile times are those of a first compilation."""

_CACHE_FOLDERS = ("POCL_CACHE_DIR", "CUDA_CACHE_PATH", "NEO_CACHE_DIR")

Selector = str | Sequence[str]
"""A device by its id, name, vendor, back end or kind; a list of such names for several devices; or ``all``."""

EVERY = "all"
"""The selector of all devices."""

ANY = "opencl"
"""The back end that records of other programs mean if they name none."""

_CALLED = {"Portable Computing Language": "PoCL"}  # common names of platforms, by the names that drivers report

_lock = threading.RLock()
_surveys: dict[str, Survey] = {}


def _abandon() -> None:
    for survey in _surveys.values():
        for device in survey.devices:
            device.abandon()


if hasattr(os, "register_at_fork"):  # a forked child lacks the driver's threads: its first command would wait forever
    os.register_at_fork(after_in_child=_abandon)


@lru_cache(maxsize=1)
def backends() -> Mapping[str, BackEnd]:
    """The back ends by name, the preferred one first: one per folder beside this file. None of their modules is loaded."""
    folders = [module.name for module in pkgutil.iter_modules(__path__) if module.ispkg]
    every: list[BackEnd] = [importlib.import_module(f"{__name__}.{name}").BACKEND for name in folders]
    return {backend.name: backend for backend in sorted(every, key=lambda backend: -backend.rank)}


def private_caches(folder: Path) -> dict[str, str]:
    """Environment variables with which drivers keep their caches below ``folder``, which is created."""
    folders = {name: folder / name.lower() for name in _CACHE_FOLDERS}
    for path in folders.values():
        path.mkdir(parents=True, exist_ok=True)
    return {**{name: str(path) for name, path in folders.items()}, "XDG_CACHE_HOME": str(folder), "PYOPENCL_NO_CACHE": "1"}


def devices() -> list[Device]:
    """Every device of every back end, the same objects at every call; creates no context."""
    return [device for name in sorted(backends()) for device in _survey(name).devices]


def findings() -> list[Finding]:
    """The findings of all back ends: what is usable, absent or broken."""
    return [finding for name in sorted(backends()) for finding in _survey(name).findings]


def target(info: DeviceInfo, product: str = "") -> Target:
    """The compiler for a device, which need not be present if its back end is ``offline``. ``product``: see ``BackEnd.target``."""
    backend = backends()[info.backend]
    return backend.target(info.architecture, product) if backend.offline else get(info.id).target


def datasheet(architecture: str, backend: str | None = None) -> DeviceInfo:
    """A present device of the architecture, else a common one from its data sheet; with ``backend`` only of that back end.

    Raises UnknownNameError for an architecture that no back end lists.
    """
    offline = [back_end for back_end in backends().values() if back_end.offline and backend in (None, back_end.name)]
    plain = architecture.rstrip("af") if architecture.startswith("sm_") else architecture
    for back_end in offline:
        for described in _survey(back_end.name).devices:
            if described.info.architecture.rstrip("af") == plain:
                return described.info
        if (known := back_end.datasheet(architecture)) is not None:
            return known
    title = backends()[backend].title if backend is not None else "GPU"
    raise UnknownNameError(f"{title} architecture", architecture, [name for back_end in offline for name in back_end.datasheets()])


def _survey(name: str) -> Survey:
    """The survey of one back end, made once, without loading other back ends. Raises UsageError where too few files may be open."""
    survey = _surveys.get(name)
    if survey is None:
        with _lock:
            survey = _surveys.get(name)
            if survey is None:
                open_files.check()
                survey = _surveys[name] = backends()[name].survey()
    return survey


def get(selector: str | None = None) -> Device:
    """The device that ``selector`` names, ignoring case: an id, a part of a name, vendor or platform, a back end, or ``cpu`` or ``gpu``.

    Without a selector: ``PORTATILE_DEVICE``, else ``PYOPENCL_CTX`` as pyopencl reads it, else the best device. GPUs come before CPUs; if
    several back ends reach one device, the one of the highest rank is used; Oclgrind is never chosen. Raises DeviceNotFoundError, which
    lists the devices.
    """
    if selector is not None:
        check(selector)
        return _match(selector, f"no device matches {selector!r}")
    own, pyopencl = settings.selection()
    if own is not None:
        return _match(own, f"no device matches PORTATILE_DEVICE={own!r}")
    if pyopencl is not None:
        return _match_pyopencl(pyopencl)
    return _best()


@lru_cache(maxsize=1)
def _best() -> Device:
    first = next(iter(backends()))  # its devices rank above all others: if it has one, other back ends are not loaded
    usable = _survey(first).devices or [device for device in devices() if not _is_oclgrind(device)]
    if not usable:
        raise DeviceNotFoundError(_listing("there is no device"))
    return max(usable, key=_rank)


def several(selector: Sequence[str] | str) -> tuple[Device, ...]:
    """The devices that a list of selectors names, or ``all``: each physical device once, through the back end that ``get`` prefers.

    Raises ArgumentError for an empty list and for a device that is named twice, DeviceNotFoundError for an unknown device.
    """
    if isinstance(selector, str):
        if selector.strip().lower() != EVERY:
            return (get(selector),)
        chosen: dict[str, Device] = {}
        for opened in sorted(devices(), key=_rank, reverse=True):
            if not _is_oclgrind(opened):
                chosen.setdefault(opened.info.physical_id, opened)
        if not chosen:
            raise DeviceNotFoundError(_listing("there is no device"))
        return tuple(chosen.values())
    check(selector, (Sequence,))
    named = [get(name) for name in selector]
    if not named:
        raise ArgumentError("device is an empty list; name devices by their ids, or leave it out")
    for place, opened in enumerate(named):
        if opened in named[:place]:
            first, second = selector[named.index(opened)], selector[place]
            how = f"as {first!r}" if first == second else f"as {first!r} and as {second!r}"
            raise ArgumentError(f"device {opened.info.id} is named twice, {how}: name each device once; `portatile devices` lists them")
    return tuple(named)


def check(selector: object, lists: tuple[type, ...] = ()) -> None:
    """Raise ArgumentError for a selector that is not text, such as a number or a Device. ``lists``: types that may hold several names."""
    if selector is not None and not isinstance(selector, (str, *lists)):
        several = ", several by a list of ids" if lists else ""
        given = f"{type(selector).__name__} {selector!r}"
        raise ArgumentError(f"name a device by its id, such as 'opencl:0:0' (device.info.id){several}, not by {given}")


def matches(info: DeviceInfo, word: str, ids: bool = True) -> bool:
    """Whether a word names a device (present, or of a stored result): its back end or kind, or a part of its name, vendor, platform or id.

    Without ``ids`` the id is ignored, because other machines use the same id for other devices.
    """
    word = word.strip().lower()
    own = (*_names(info), info.id) if ids else _names(info)
    return word in (info.backend, info.kind) or any(word in text.lower() for text in own)


def _names(info: DeviceInfo) -> tuple[str, ...]:
    return info.name, info.vendor, info.platform, _CALLED.get(info.platform, "")


def _match(selector: str, message: str) -> Device:
    word = selector.strip().lower()
    name, colon, _ = word.partition(":")
    if colon and name in backends():  # an id, which needs no other back end
        for device in _survey(name).devices:
            if device.info.id == word:
                return device
    candidates = devices()
    matching = [device for device in candidates if word and any(word in text.lower() for text in _names(device.info))]
    matching += [device for device in candidates if word in (device.info.backend, device.info.kind)]
    if not matching:
        parts = [part.strip() for part in selector.split(",")]
        hint = f"; several are a list of names: {parts}, on the command line --device for each" if len(parts) > 1 else ""
        raise DeviceNotFoundError(_listing(f"{message}{hint}"))
    return max(matching, key=lambda device: (not _is_oclgrind(device), *_rank(device)))


def _match_pyopencl(text: str) -> Device:
    """``PYOPENCL_CTX``: platform, or platform:device, each a number or a part of a name; of a list of devices the first is taken."""
    platform, _, rest = text.partition(":")
    device = rest.split(",")[0] or "0"
    message = f"no device matches PYOPENCL_CTX={text!r}"
    candidates = [d for d in devices() if d.info.backend == "opencl" and _is_named(platform, d.info.id.split(":")[1], d.info.platform)]
    if rest:
        candidates = [d for d in candidates if _is_named(device, d.info.id.split(":")[2], d.info.name)]
    if not candidates:
        raise DeviceNotFoundError(_listing(message))
    return candidates[0]


def _is_named(word: str, number: str, name: str) -> bool:
    return word == number if word.isdigit() else word.lower() in name.lower()


def _is_oclgrind(device: Device) -> bool:
    """Whether it is Oclgrind, a simulator that finds errors in kernels and is thousands of times slower: it must be selected by name."""
    return "oclgrind" in device.info.platform.lower()


def _rank(device: Device) -> tuple[int, int, int]:
    info = device.info
    return {"gpu": 2, "accelerator": 1, "cpu": 0}[info.kind], backends()[info.backend].rank, info.compute_units


def _listing(message: str) -> str:
    """The message, followed by the existing devices and by what is broken or, if there is no device, absent."""
    here = devices()
    statuses = ("broken",) if here else ("broken", "absent")
    lines = [f"{message}. Devices: " + (", ".join(f"{d.info.id} ({d.info.name})" for d in here) or "none")]
    lines += [f"{f.subject}: {f.detail}" + (f" - {f.remedy}" if f.remedy else "") for f in findings() if f.level in statuses]
    if any(f.level == "absent" for f in findings()) and here:
        lines.append("`portatile doctor` says what is absent, and how to get it")
    return "\n".join(lines)
