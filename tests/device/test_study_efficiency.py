"""The efficiency study: products on every device beside NumPy's, with figures only where somebody knows them."""

from __future__ import annotations

from pathlib import Path

import pytest

from portatile.device.base import Device
from portatile.measure.runs import MeasurementLength
from portatile.studies import efficiency
from portatile.studies.framework.conduct import conduct
from portatile.studies.framework.power import Power
from portatile.studies.framework.study import StudyRequest

pytestmark = [pytest.mark.usefixtures("own_directories"), pytest.mark.unoptimised]


def test_speed_peak_power_and_price(device: Device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(efficiency, "_LENGTH", MeasurementLength(2, 0.0, 0.001))
    monkeypatch.setattr(efficiency, "peak", lambda *_: 1e12)
    monkeypatch.setattr(efficiency.power, "under_load", lambda run, seconds, info, stated: None if info is None else Power(50.0, "NVML"))
    prices = tmp_path / "prices.csv"
    prices.write_text(f"name,price,currency,date,source\n{device.info.id},200,EUR,2026-01-02,a list\n")
    options = efficiency.EfficiencyOptions(32, ("float32",), prices=str(prices))
    own, host = conduct(efficiency.STUDY, StudyRequest((device,), options)).rows
    assert (own.device, own.by, own.status, host.device, host.by) == (device.info.id, "portatile", "ok", "host", "NumPy")
    for row in (own, host):
        assert row.gflops == pytest.approx(2 * 32**3 / row.seconds / 1e9)
        assert row.error <= 1
    assert own.peak == 1000
    assert own.of_peak == pytest.approx(own.gflops / 1000)
    assert (own.watts, own.power_from, own.currency, own.price_date, own.price_source) == (50, "NVML", "EUR", "2026-01-02", "a list")
    assert own.per_watt == pytest.approx(own.gflops / 50)
    assert own.per_price == pytest.approx(own.gflops / 200)
    assert (host.watts, host.per_watt, host.price, host.per_price) == (None, None, None, None)
    shown = efficiency.figures([own, host])
    assert [figure.title for figure in shown] == ["Speed", "Share of the measured peak", "Speed per watt", "Speed for the price"]
    assert len(shown[0].groups) == 2
    assert len(shown[2].groups) == 1
    result = efficiency.notes([own, host])
    assert any("--tdp host=WATTS" in line for line in result)
    assert any("200 EUR on 2026-01-02, a list" in line for line in result)
