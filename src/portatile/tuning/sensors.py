"""A device's sensors while it is timed: clocks, temperature and power through NVIDIA's management library, where available."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from portatile.records import DeviceInfo

_LIBRARY = "libnvidia-ml.so.1"
_SM_CLOCK, _MEMORY_CLOCK, _TEMPERATURE_OF_GPU = 1, 2, 0
_LARGEST_CACHE = 512 << 20
_GPU_CACHE = 128 << 20


class Sensors:
    """The sensors of one GPU. A value that the driver refuses is left out."""

    def __init__(self, library: Any, handle: Any) -> None:
        self._library, self._handle = library, handle

    @classmethod
    def of(cls, device: DeviceInfo, open_library: Callable[[str], Any] = ctypes.CDLL) -> Sensors | None:
        """The sensors of a device; None if it is no NVIDIA GPU, or no driver answers."""
        if not device.physical_id.startswith("pci:") or not device.nvidia:
            return None
        try:
            library = open_library(_LIBRARY)
            handle = ctypes.c_void_p()
            place = device.physical_id.removeprefix("pci:") + ("" if "." in device.physical_id else ".0")
            if library.nvmlInit_v2() or library.nvmlDeviceGetHandleByPciBusId_v2(place.encode(), ctypes.byref(handle)):
                return None
        except (OSError, AttributeError):
            return None
        return cls(library, handle)

    def read(self) -> dict[str, float]:
        """The present ``clock_mhz``, ``memory_clock_mhz``, ``temperature_c`` and ``power_w``."""
        values = {
            "clock_mhz": self._ask(ctypes.c_uint, "nvmlDeviceGetClockInfo", _SM_CLOCK),
            "memory_clock_mhz": self._ask(ctypes.c_uint, "nvmlDeviceGetClockInfo", _MEMORY_CLOCK),
            "temperature_c": self._ask(ctypes.c_uint, "nvmlDeviceGetTemperature", _TEMPERATURE_OF_GPU),
            "power_w": self._ask(ctypes.c_uint, "nvmlDeviceGetPowerUsage"),
        }
        known = {name: float(value) for name, value in values.items() if value is not None}
        if "power_w" in known:
            known["power_w"] /= 1000  # milliwatts
        return known

    def under_load(self, run: Callable[[], object], seconds: float) -> Mapping[str, float]:
        """The values after ``run`` has been repeated for ``seconds``, at least once where that is not 0.

        The power is then the mean over that time, from the energy counter if there is one: on most GPUs the driver's own value is a mean
        over the last second, which hardly shows a shorter load.
        """
        if seconds <= 0:
            return self.read()
        before, started = self._millijoules(), time.perf_counter()
        while True:
            run()
            spent = time.perf_counter() - started
            if spent >= seconds:
                break
        after, values = self._millijoules(), self.read()
        if before is not None and after is not None and after > before:
            values["power_w"] = (after - before) / 1000 / spent
        return values | {"power_seconds": spent}

    def _millijoules(self) -> int | None:
        return self._ask(ctypes.c_ulonglong, "nvmlDeviceGetTotalEnergyConsumption")

    def _ask(self, kind: type[Any], function: str, *arguments: int) -> int | None:
        value = kind()
        try:
            failed = getattr(self._library, function)(self._handle, *arguments, ctypes.byref(value))
        except AttributeError:
            return None
        return None if failed else int(value.value)


def cache_bytes(device: DeviceInfo, folder: Path = Path("/sys/devices/system/cpu/cpu0/cache")) -> int:
    """An upper estimate of the bytes in the device's caches: for a CPU the last level by Linux, for a GPU 128 MiB."""
    if device.kind != "cpu":
        return _GPU_CACHE
    sizes = []
    for file in folder.glob("index*/size"):
        text = file.read_text().strip()
        if text[:-1].isdigit() and text[-1] in "KM":
            sizes.append(int(text[:-1]) << (10 if text[-1] == "K" else 20))
    return min(max(sizes, default=64 << 20), _LARGEST_CACHE)
