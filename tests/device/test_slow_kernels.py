"""Tuning of kernels whose runs are long: a hopeless variant runs once, and who is nearly as fast as the best still races."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from portatile import model
from portatile.device.base import Device
from portatile.store import ResultStore
from portatile.trials import Budget
from portatile.tuning.final import reserved_time
from portatile.tuning.protocol import Timing
from portatile.tuning.search.tuner import TuningRequest, tune
from support.faulty import Faulty


@pytest.fixture(autouse=True)
def own_directories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PORTATILE_DATA_DIR", str(tmp_path / "data"))


@pytest.mark.lengthy
def test_a_hopeless_variant_runs_only_for_its_check(device: Device) -> None:
    """One that takes hundreds of times as long, and a tenth of a second; what a processor compiles at its launch does not count."""
    if device.info.kind != "cpu":
        pytest.skip(f"{device.info.id}: only on a processor does a hopeless run take long enough")
    workload = Faulty(("none", "slow"), (32,))
    timing = Timing(samples=3, burst=0.0005, most=0.05)
    size = 300_003 if device.info.compute_units > 4 else 100_003  # enough for a tenth of a second
    request = TuningRequest(
        workload.problem({"n": size}), device.info.id, Budget(evaluations=2), "exhaustive", workload=workload, timing=timing
    )
    with ResultStore(None) as store:
        tune(replace(request, budget=Budget(evaluations=1)), store)
        (best,) = store.trials()
        store.add(replace(best, samples=(1e-4,) * 3, conditions={}))  # as on a machine that nothing disturbs
        result = tune(request, store)
        stored = {str(trial.config["fault"]): trial for trial in store.trials()}
    slow = stored["slow"]
    assert slow.status == "ok"
    assert slow.message.startswith(model.SLOW)
    assert "when checked, not run again" in slow.message
    assert len(slow.samples) == 1
    assert "run" not in slow.seconds
    assert slow.seconds["launch"] <= slow.samples[0] * (1 + 1e-9)  # the rest of the launch was compiling
    assert slow.error is not None
    assert slow.error <= 1
    assert len(stored["none"].samples) > 1
    assert result.saved == {model.SLOW: 1}
    assert result.best.config["fault"] == "none"


@pytest.mark.lengthy
def test_a_race_that_is_not_held_is_told(device: Device, all_near: None, monkeypatch: pytest.MonkeyPatch) -> None:
    workload = Faulty(("none",), (16, 32, 64))
    timing = Timing(samples=3, burst=0.0005, most=0.05)
    request = TuningRequest(
        workload.problem({"n": 1003}), device.info.id, Budget(evaluations=3), "exhaustive", workload=workload, timing=timing
    )
    with ResultStore(None) as store:
        with monkeypatch.context() as patch:
            patch.setattr(reserved_time, "affordable", lambda took, seconds, entering: 0)
            unraced = tune(request, store)
        assert unraced.finalists == ()
        assert unraced.unraced.startswith("a few rounds take too long")
        assert "not raced" in repr(unraced)
        raced = tune(request, store)
        assert (len(raced.finalists), raced.unraced) == (3, "")
        assert "not raced" not in repr(raced)
        unwanted = tune(replace(request, timing=msgspec.structs.replace(timing, race=0.0)), store)
        assert unwanted.unraced == ""
