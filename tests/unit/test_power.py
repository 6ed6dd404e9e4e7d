"""Power from counters that begin again, counters that nobody may read, and what the user states; prices with their sources."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from portatile.errors import UsageError
from portatile.studies import efficiency
from portatile.studies.framework import power
from portatile.studies.framework.power import Counter, StatedPower
from support.trials import DEVICE

CPU = replace(DEVICE, id="opencl:0:0", kind="cpu", name="Some Processor")
GPU = replace(DEVICE, id="cuda:0", kind="gpu", name="Some H200")


def package(folder: Path, name: str, joules: float) -> Path:
    path = folder / name
    path.mkdir()
    (path / "energy_uj").write_text(f"{joules * 1e6:.0f}\n")
    (path / "max_energy_range_uj").write_text("10000000\n")
    return path


def test_counters_of_whole_packages(tmp_path: Path) -> None:
    package(tmp_path, "intel-rapl:0", 5)
    package(tmp_path, "intel-rapl:0:0", 2)  # a part of it
    (tmp_path / "intel-rapl:1").mkdir()
    (counter,) = power.counters(tmp_path)
    assert counter.joules() == 5
    assert counter.since(2) == 3
    assert counter.since(9) == pytest.approx(6)  # it has begun again at 10 J
    assert Counter(tmp_path / "nothing", 1).since(1) is None
    assert power.counters(tmp_path / "nowhere") == []


def test_a_processors_power_while_it_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = package(tmp_path, "intel-rapl:0", 1)
    counters = power.counters
    monkeypatch.setattr(power, "counters", lambda: counters(tmp_path))

    def work() -> None:
        time.sleep(0.01)
        (path / "energy_uj").write_text("3000000")

    for device in (CPU, None):
        (path / "energy_uj").write_text("1000000")
        result = power.under_load(work, 0.005, device)
        assert result is not None
        assert result.source == "RAPL"
        assert 0 < result.watts <= 2 / 0.01


def test_stated_power(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(power, "counters", list)
    monkeypatch.setattr(power.Sensors, "of", lambda device: None)
    stated = [StatedPower.parse(text) for text in ("h200=700", "host=65")]
    found = [power.under_load(lambda: None, 0.0, device, stated) for device in (GPU, None, CPU)]
    assert [one and (one.watts, one.source) for one in found] == [(700, "stated"), (65, "stated"), None]
    assert power.under_load(lambda: None, 0.0, CPU, [StatedPower.parse("9.5")]) == power.Power(9.5, "stated")
    for wrong in ("H200", "H200=", "x=-1", "x=inf"):
        with pytest.raises(UsageError, match="is not a power"):
            StatedPower.parse(wrong)


def test_a_gpus_sensor_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    class Fake:
        def under_load(self, run: Any, seconds: float) -> dict[str, float]:
            return {"power_w": 321.0}

    monkeypatch.setattr(power.Sensors, "of", lambda device: Fake())
    assert power.under_load(lambda: None, 0.0, GPU, [StatedPower("", 1.0)]) == power.Power(321.0, "NVML")


HEAD = "name,price,currency,date,source\n"


def test_prices(tmp_path: Path) -> None:
    path = tmp_path / "prices.csv"
    path.write_text(HEAD + "h200,30000,USD,2026-01-02,a list\n")
    assert efficiency.prices(path) == [efficiency.Price("h200", 30000.0, "USD", "2026-01-02", "a list")]
    assert efficiency.prices(None) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name,price\nx,1\n", "lacks currency, date, source"),
        (HEAD + "h200,free,USD,2026,list\n", "line 2"),
        (HEAD + "h200,1,USD,2026,list\nh200,1,USD,2026,\n", "line 3"),
        (HEAD + "h200,-1,USD,2026,list\n", "positive"),
    ],
)
def test_a_price_without_its_source_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "prices.csv"
    path.write_text(text)
    with pytest.raises(UsageError, match=message):
        efficiency.prices(path)
