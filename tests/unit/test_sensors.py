"""What a device says of itself, asked of a library that answers as NVIDIA's does."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from portatile.tuning.search.objective import Goal
from portatile.tuning.sensors import Sensors, cache_bytes
from support.trials import DEVICE, trial

GPU = replace(DEVICE, kind="gpu", vendor="NVIDIA Corporation", physical_id="pci:0000:3b:00")


class Library:
    """One GPU at 0000:3b:00.0, which uses 250 W; ``lacking`` are functions that the driver refuses."""

    def __init__(self, *lacking: str) -> None:
        self.lacking = lacking
        self.millijoules = 1000
        self.asked: list[bytes] = []

    def nvmlInit_v2(self) -> int:
        return 0

    def nvmlDeviceGetHandleByPciBusId_v2(self, place: bytes, handle: Any) -> int:
        self.asked.append(place)
        return 0 if place == b"0000:3b:00.0" else 6

    def _answer(self, function: str, target: Any, value: int) -> int:
        if function in self.lacking:
            return 3
        target._obj.value = value
        return 0

    def nvmlDeviceGetClockInfo(self, handle: Any, kind: int, target: Any) -> int:
        return self._answer("clock", target, {1: 1980, 2: 2619}[kind])

    def nvmlDeviceGetTemperature(self, handle: Any, kind: int, target: Any) -> int:
        return self._answer("temperature", target, 41)

    def nvmlDeviceGetPowerUsage(self, handle: Any, target: Any) -> int:
        return self._answer("power", target, 250_000)

    def nvmlDeviceGetTotalEnergyConsumption(self, handle: Any, target: Any) -> int:
        self.millijoules += 500
        return self._answer("energy", target, self.millijoules)


def sensors(library: Library) -> Sensors:
    result = Sensors.of(GPU, lambda name: library)
    assert result is not None
    return result


def test_readings() -> None:
    library = Library()
    assert sensors(library).read() == {"clock_mhz": 1980, "memory_clock_mhz": 2619, "temperature_c": 41, "power_w": 250}
    assert library.asked == [b"0000:3b:00.0"]


def test_what_is_refused_is_left_out() -> None:
    assert set(sensors(Library("temperature", "power")).read()) == {"clock_mhz", "memory_clock_mhz"}


def test_no_library_no_sensors() -> None:
    def missing(name: str) -> Any:
        raise OSError(f"{name}: cannot open shared object file")

    assert Sensors.of(GPU, missing) is None
    assert Sensors.of(GPU, lambda name: object()) is None
    assert Sensors.of(DEVICE, lambda name: Library()) is None
    assert Sensors.of(replace(GPU, physical_id="pci:0000:99:00"), lambda name: Library()) is None


def test_power_is_joules_over_the_time_under_load() -> None:
    runs: list[int] = []
    result = sensors(Library()).under_load(lambda: runs.append(1), 0.01)
    assert runs
    assert result["power_seconds"] >= 0.01
    assert result["power_w"] * result["power_seconds"] == pytest.approx(0.5)  # 500 mJ between two questions
    without = sensors(Library("energy")).under_load(lambda: None, 0.01)
    assert without["power_w"] == 250
    assert "power_seconds" not in sensors(Library()).under_load(lambda: runs.clear(), 0)
    assert runs


def test_energy_is_power_times_time() -> None:
    goal = Goal("energy", GPU)
    hot, cool = (
        replace(trial(n, seconds), conditions={"power_w": watts, "power_seconds": 1.0})
        for n, seconds, watts in ((1, 1.0, 400.0), (2, 1.2, 300.0))
    )
    assert goal.score(hot) == 400
    assert goal.score(cool) == 360
    assert goal.as_finished(cool).median == 360
    assert goal.answers(cool)
    assert not goal.answers(trial(3))
    assert goal.answers(trial(3, status="crash"))


def test_cache_size_is_what_the_system_says(tmp_path: Path) -> None:
    for place, text in enumerate(("48K", "2048K", "36M", "?")):
        (tmp_path / f"index{place}").mkdir()
        (tmp_path / f"index{place}" / "size").write_text(text + "\n")
    assert cache_bytes(DEVICE, tmp_path) == 36 << 20
    assert cache_bytes(DEVICE, tmp_path / "none") == 64 << 20
    assert cache_bytes(GPU, tmp_path) == 128 << 20
