"""The devices as users see them: ``portatile.devices`` and ``portatile.get_device``."""

from __future__ import annotations

from portatile import device as device_module
from portatile.device.base import Device


def devices() -> list[Device]:
    """Every device of every back end, without opening any; ``device.info`` describes each.

    Examples:
        >>> import portatile
        >>> [device.info.kind for device in portatile.devices()]  # doctest: +SKIP
        ['gpu', 'gpu', 'cpu']
    """
    return device_module.devices()


def get_device(selector: str | None = None) -> Device:
    """The device that ``selector`` names (an id such as ``opencl:0:0``, a part of a name, ``cpu`` or ``gpu``), or the default one.

    Raises DeviceNotFoundError, which lists the known devices.

    Examples:
        >>> import portatile
        >>> portatile.get_device().info.id in [device.info.id for device in portatile.devices()]
        True
    """
    return device_module.get(selector)
