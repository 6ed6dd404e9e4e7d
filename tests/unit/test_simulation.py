"""Simulated time of fleets and shared products: exact where it can be reckoned by hand, and what binds is named."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from portatile import device, workloads
from portatile.cli import main
from portatile.device import datasheet
from portatile.errors import DeviceError
from portatile.studies import hybrid, scale
from portatile.studies.framework import prediction, shared_run, simulation
from portatile.studies.framework.prediction import SingleDevice, TransferRates
from portatile.studies.framework.shared_run import SharedRun, SharedTimes
from portatile.studies.framework.simulation import Overheads, SharedProduct, SimulatedMachine, TrialCost
from portatile.studies.framework.study import Run
from portatile.studies.scale import ScaleRow
from portatile.trials import Certificate, Check, Standing
from support.devices import CPU, GPU
from support.trials import trial

FREE = Overheads(client=0.0, scheduler=0.0, message=0.0, start=0.0)
COSTS = [TrialCost(3.0, 1.0)] * 24


def test_workers_that_compile_themselves() -> None:
    assert simulation.tuning(COSTS, 1, 0, FREE).seconds == pytest.approx(24 * 4)
    assert simulation.tuning(COSTS, 6, 0, FREE).seconds == pytest.approx(4 * 4)
    assert simulation.tuning(COSTS, 6, 0, replace(FREE, start=2.0)).seconds == pytest.approx(2 + 4 * 4)


def test_compilers_run_ahead_of_one_worker() -> None:
    assert simulation.tuning(COSTS, 1, 1, FREE).seconds == pytest.approx(24 * 3 + 1)
    result = simulation.tuning(COSTS, 1, 12, FREE)
    assert result.seconds == pytest.approx(3 + 24)
    assert result.binds == "workers"


def test_one_client_binds_many_workers() -> None:
    many = simulation.tuning(COSTS * 50, 1000, 0, replace(FREE, client=0.1))
    assert many.binds == "client"
    assert many.seconds == pytest.approx(0.1 * 1200 + 4, rel=0.01)


def test_trials_that_end_workers_are_tried_again() -> None:
    assert simulation.tuning(COSTS * 20, 1, 0, replace(FREE, failing=0.5, restart=4.0), seed=1).seconds > 1.5 * 24 * 20 * 4


def test_products_are_shared_by_rate_until_links_or_memory_bind() -> None:
    work = SharedProduct(4096, flops=1e9, row_bytes=1e3, shared_bytes=0.0)
    fast = SimulatedMachine((1e12,), links=(1e12,), host=1e13, piece=0.0)
    assert simulation.product(work, fast).seconds == pytest.approx(4.096)
    uneven = simulation.product(work, replace(fast, rates=(3e12, 1e12), links=(1e12, 1e12)))
    assert uneven.seconds == pytest.approx(1.024, rel=0.02)
    assert simulation.product(replace(work, row_bytes=1e10), fast).binds == "links"
    crowded = simulation.product(replace(work, row_bytes=1e10), replace(fast, rates=(1e12,) * 20, links=(1e12,) * 20))
    assert crowded.binds == "host memory"


def test_what_all_devices_need_comes_over_all_links() -> None:
    """Half of it over each link, the other half from the other device; the first way there and the last way back are waited for."""
    machine = SimulatedMachine((1e12, 1e12), links=(1e9, 1e9), host=1e12, piece=0.0)
    assert machine.arrival(1e9, 1e9) == pytest.approx(1.0)
    assert replace(machine, peer=5e9).arrival(1e9, 1e9) == pytest.approx(0.5 + 0.1)
    assert replace(machine, peer=5e9, host=1e9).bandwidths() == (5e8, 5e8)
    work = SharedProduct(4096, flops=1e9, row_bytes=0.0, shared_bytes=1e9)
    assert simulation.product(work, replace(machine, peer=5e9)).seconds == pytest.approx(0.6 + 2.048, rel=0.04)
    one = replace(machine, rates=(1e12,), links=(1e9,))
    assert simulation.product(replace(work, shared_bytes=0.0, row_bytes=1e5), one).seconds == pytest.approx(4.096 + 0.0512 + 0.0032)


def test_a_recorded_run_stands_beside_its_simulation() -> None:
    trials = [replace(trial(n), seconds={"compile": 0.5, "run": 0.5}, time=f"2026-11-23T10:00:{n:02}+00:00") for n in range(10)]
    row = scale.as_recorded(trials, 0, FREE)
    assert row is not None
    assert row.seconds == pytest.approx(9.0)
    assert row.measured == 9.0
    assert scale.as_recorded(trials[:1], 0, FREE) is None
    assert (scale.compilers_of(CPU, 12), scale.compilers_of(GPU, 12)) == (CPU.compute_units, 12)
    assert "off by +0 %" in scale.notes([row])[-1]


def test_texts_of_a_recorded_trial_are_compiled_at_once() -> None:
    """Two texts of 2 s each by two compilers: a trial every 2 s. Finalists are simulated, but nobody knows when they were tried."""
    sizes = {"m": 8, "n": 8, "k": 8}
    proof = Certificate("1", "c", "text", (Check(sizes, 0.1, 1.0), Check(sizes, 0.1, 1.0)))
    trials = [
        replace(trial(n), seconds={"compile": 4.0, "run": 0.1}, certificate=proof, time=f"2026-11-23T10:00:{2 * n:02}.500+00:00")
        for n in range(6)
    ]
    assert scale.cost_of(trials[0]) == TrialCost(4.0, pytest.approx(0.1), 2)
    row = scale.as_recorded(trials, 2, FREE)
    assert row is not None
    assert (row.seconds, row.measured) == (pytest.approx(10.0), 10.0)
    final = replace(trials[-1], standing=Standing(0.1, (0.1, 0.1), 1, False, ""), time="2026-11-23T10:01:00+00:00")
    row = scale.as_recorded([final, *trials[:-1]], 2, FREE)
    assert row is not None
    assert (row.seconds, row.measured) == (pytest.approx(8.0), 8.0)
    rejected = replace(trial(7, status="skipped"), seconds={"compile": 3.0})
    assert scale.cost_of(rejected) == TrialCost(3.0, 0.0)
    assert scale.cost_of(replace(rejected, seconds={})) is None


def test_what_devices_take_together_follows_from_each_alone() -> None:
    gpu = replace(datasheet("sm_90", "cuda"), physical_id="one")
    cpu = replace(gpu, kind="cpu", compute_units=2, physical_id="processor")
    work = SharedProduct(4096, flops=1e9, row_bytes=1e3, shared_bytes=1e9)
    alone = SingleDevice(gpu, 1.5, link=1e9)  # a second for what every device needs
    assert alone.rate(work) * (0.5 - 4.096e-3) == pytest.approx(4.096e12)
    other = replace(alone, info=replace(gpu, physical_id="another"))
    assert prediction.together(work, [alone, other], 2, TransferRates(1e12)).seconds == pytest.approx(1.25, abs=0.01)
    assert prediction.together(work, [alone, alone], 2, TransferRates(1e12)).seconds == pytest.approx(1.5, abs=0.01), (
        "one GPU by two back ends"
    )
    assert prediction.together(work, [alone, other], 2, TransferRates(1e9)).seconds == 1.5, "the host's memory binds"
    part = SingleDevice(cpu, 1.0)
    assert prediction.together(work, [part, part], 2, TransferRates(1e12)).binds == "one device"
    assert prediction.together(work, [part, part], 4, TransferRates(1e12)).seconds == pytest.approx(0.5, abs=0.02), (
        "pieces are of few widths"
    )
    assert prediction.share(cpu, [gpu, cpu], 1) == 0.5


def test_devices_here_are_told_beside_their_prediction() -> None:
    def row(count: int, devices: str, seconds: float | None, measured: float) -> ScaleRow:
        return ScaleRow(scale.HERE, count, seconds, measured, None, None, "", None, devices)

    rows = scale.finish([row(1, "one", None, 1.0), row(1, "other", None, 2.0), row(2, "one + other", 0.69, 0.75)])
    assert [one.speedup for one in rows] == pytest.approx([1, 0.5, 4 / 3])
    assert rows[2].off == pytest.approx(-0.08)
    assert scale.notes(rows) == ["devices here: the predicted time is off by -8 % (the worst of 1)"]
    assert [chart.title for chart in scale.figures(rows)] == ["A product here"]


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Three devices that reach the host's memory: one takes a second, the others two; one pair and all three cannot run.

    A call that is shared takes 0.05 s beside its computation, as one of half of the rows tells.
    """
    took = {("cuda:0",): 1.0, ("cuda:1",): 2.0, ("cuda:2",): 2.0, ("cuda:0", "cuda:1"): 0.7}

    def timed(run: SharedRun) -> SharedTimes:
        if run.together:
            assert (run.problem.sizes["m"], run.problem.sizes["n"]) == (2048, 4096)
            whole = 1 / sum(1 / took[name,] for name in run.devices)
            return SharedTimes((whole / 2 + 0.05,), 1.0, {}, 0.0)
        if run.devices not in took:
            raise DeviceError("it fell off the bus")
        assert run.problem.sizes["m"] == 4096
        return SharedTimes((took[run.devices], 9.0), 1.0, {}, 0.0)

    monkeypatch.setattr(shared_run, "timed", timed)
    info = replace(datasheet("sm_90", "cuda"), unified_memory=True)
    return tuple(SimpleNamespace(info=replace(info, id=f"cuda:{n}", physical_id=str(n)), exchanges=lambda other: True) for n in range(3))


def test_every_set_is_measured_after_its_prediction(here: Any) -> None:
    run = Run(here, scale.ScaleOptions(measure=4096))
    rows = {row.devices: row for row in scale.finish(list(scale._here(run, shared_run.subsets([one.info.id for one in here]))))}
    assert rows["cuda:1"].measured == 2.0
    assert rows["cuda:0 + cuda:1"].seconds == pytest.approx(2 / 3 + 0.05, rel=0.05)
    assert rows["cuda:0 + cuda:1"].off == pytest.approx(0.024, abs=0.05)
    assert rows["cuda:0 + cuda:1 + cuda:2"].seconds == pytest.approx(0.5 + 0.05, rel=0.05)
    assert rows["cuda:0 + cuda:1 + cuda:2"].status == "it fell off the bus"
    assert len(rows) == 7


def test_sets_of_a_hybrid_computation_stand_beside_their_prediction(here: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hybrid.every, "devices", list)  # no core is timed
    problem = workloads.problem("gemm", "float64", dict.fromkeys("mnk", 4096))
    rows = hybrid.finish(list(hybrid.measure(Run(here, hybrid.HybridOptions(), problem))))
    pair = next(row for row in rows if row.devices == "cuda:0 + cuda:1")
    assert pair.predicted == pytest.approx(2 / 3 + 0.05, rel=0.05)
    assert pair.off == pytest.approx(pair.predicted / 0.7 - 1)
    assert pair.predicted_speedup == pytest.approx(1 / pair.predicted)
    assert all(row.predicted is None for row in rows if row.count == 1)
    assert f"predicted time is off by {100 * pair.off:+.0f} %" in " ".join(hybrid.notes(rows))
    (chart,) = hybrid.figures(rows)
    assert chart.title == "Speed-up over the best single device"
    assert "at worst" in hybrid.answer(rows)


def test_who_would_do_too_little_takes_no_part_in_a_prediction(here: Any) -> None:
    problem = workloads.problem("gemm", "float64", dict.fromkeys("mnk", 4096))
    found = prediction.work_of(problem, here)
    assert found is not None
    together = prediction.Together(here, problem, *found, 1)
    for one, seconds in zip(here, (1.0, 2.0, 100.0), strict=True):
        together.took_alone(one.info.id, seconds)
    pair, every = together.predicted(["cuda:0", "cuda:1"]), together.predicted([one.info.id for one in here])
    assert every is pair, "what it takes was measured once"
    assert pair.seconds == pytest.approx(2 / 3 + 0.05, rel=0.05)
    assert together.predicted(["cuda:0", "cuda:2"]).binds == "one device"


def test_a_problem_is_a_product_along_the_size_that_devices_share() -> None:
    info = datasheet("sm_90", "cuda")
    apart, linked = (
        [SimpleNamespace(info=info, exchanges=lambda other: False)] * 2,
        [SimpleNamespace(info=info, exchanges=lambda other: True)] * 2,
    )
    found = prediction.work_of(workloads.problem("gemm", "float64", {"m": 64, "n": 32, "k": 16}), apart)
    assert found is not None
    size, work = found
    assert (size, work.rows) == ("m", 64)
    assert work.flops == 2 * 32 * 16
    assert work.row_bytes == 8 * (16 + 32)
    assert work.shared_bytes == 8 * 16 * 32
    found = prediction.work_of(workloads.problem("mri", "float32", {"samples": 10, "voxels": 1000}), linked)
    assert found is not None
    assert (found[0], found[1].row_bytes) == ("voxels", 4 * (3 + 2))
    wide = workloads.problem("gemm", "float64", {"m": 128, "n": 256, "k": 16})
    assert [prediction.work_of(wide, devices)[0] for devices in (apart, linked)] == ["n", "m"]  # type: ignore[index]
    assert prediction.work_of(workloads.problem("gemm", "float64", {"m": 1, "n": 1, "k": 16}), apart) is None


def test_two_lanes_hide_copies_up_to_the_time_of_computation() -> None:
    assert simulation.in_two_lanes(4.0, 3.0) == 4.0
    assert simulation.in_two_lanes(4.0, 6.0) == 5.0
    gpu, work = datasheet("sm_90", "cuda"), SharedProduct(4096, flops=1e9, row_bytes=1e6, shared_bytes=1e9)
    cut, ends = 4.096, 4.096 / 16
    for computing in (8.0, 2.0):  # the link binds in the second
        seconds = 1.0 + ends + simulation.in_two_lanes(computing, cut)
        rate = SingleDevice(gpu, seconds, link=1e9, whole=False).rate(work)
        assert rate == pytest.approx(4096e9 / computing)


def test_one_device_is_skipped_with_a_reason() -> None:
    (row,) = scale._here(Run((), scale.ScaleOptions()), [])
    assert row.measured is None
    assert scale.notes([row]) == ["not measured: no device; name several with --device"]


def test_the_command(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device, "devices", list)  # a machine without any
    assert main(["study", "scale", "--trials", "200"]) == 0
    shown = capsys.readouterr().out
    assert "1000" in shown
    assert "limited by" in shown
    assert "not measured: no device" in shown


def test_shared_runs_go_on_while_they_become_faster() -> None:
    assert shared_run._settling([5.0, 4.0, 3.0, 2.0], 2)
    assert not shared_run._settling([5.0, 4.0, 3.0, 2.0, 1.5, 1.4], 2), "three times as many at most"
    assert not shared_run._settling([2.0, 3.0, 2.5, 2.2, 2.1], 4)
