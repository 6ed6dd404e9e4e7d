"""List every device and its capabilities. --device and PORTATILE_DEVICE accept the ids."""

from __future__ import annotations

from collections import Counter

import click

from portatile import device
from portatile.cli import _console, _options
from portatile.errors import DeviceNotFoundError
from portatile.records import DeviceInfo, to_json

_COLUMNS = ("id", "name", "vendor", "driver", "units", "local memory", "work-group", "fp64", "fp16", "images", "memory", "same hardware as")


@click.command()
@_options.document("Print every field as JSON.")
def command(as_json: bool) -> int:
    """List every device of every back end; the one marked with * is the default."""
    infos = [opened.info for opened in device.devices()]
    default = _default_id()
    if as_json:
        click.echo(to_json({"default": default, "devices": infos}))
        return 0 if infos else 2
    if not infos:
        device.get()  # raises with what was looked for
    title = "Devices" if default is None else "Devices (* the default)"
    _console.out.print(_console.table(title, _COLUMNS, (_row(info, infos, default) for info in infos), left=4))
    if default is None:
        _console.err.print("no default: PORTATILE_DEVICE or PYOPENCL_CTX names none of them", markup=False)
    return 0


def _default_id() -> str | None:
    try:
        return device.get().info.id
    except DeviceNotFoundError:
        return None


def _row(info: DeviceInfo, infos: list[DeviceInfo], default: str | None) -> tuple[str, ...]:
    shared = Counter(other.physical_id for other in infos)[info.physical_id] > 1
    twins = ", ".join(other.id for other in infos if other.physical_id == info.physical_id and other.id != info.id)
    group = f"{info.max_work_group_size} ({' x '.join(map(str, info.max_work_item_sizes))})"
    return (
        info.id + (" *" if info.id == default else ""),
        info.name,
        info.vendor,
        info.driver,
        str(info.compute_units),
        _console.nbytes(info.local_memory),
        group,
        _yes(info.fp64),
        _yes(info.fp16),
        f"{info.image_2d_max[0]} x {info.image_2d_max[1]}" if info.images else "no",
        _console.nbytes(info.global_memory),
        twins if shared else "",
    )


def _yes(flag: bool) -> str:
    return "yes" if flag else "no"
