"""Winners on other devices and maps of two parameters: every pair is a row, none that fails ends the others, and the figures agree."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from portatile import workloads
from portatile.cli import main
from portatile.device.base import Device
from portatile.errors import ArgumentError, SpaceError, UnknownNameError
from portatile.records import DeviceInfo, Problem, canonical
from portatile.studies import pairs, portability, portability_rows
from portatile.studies.framework import measured_configs
from portatile.studies.framework.measured_configs import Measuring
from portatile.studies.framework.study import Run
from portatile.studies.portability import Winner
from portatile.trials import Budget
from portatile.workloads.gemm.forms.tma.point import Tma
from portatile.workloads.gemm.presets import MEDIUM

pytestmark = [pytest.mark.lengthy, pytest.mark.unoptimised]
GEMM = workloads.get("gemm")


@pytest.fixture(autouse=True)
def own_directories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PORTATILE_DATA_DIR", str(tmp_path / "data"))


def small() -> Problem:
    return GEMM.problem({"m": 40, "n": 56, "k": 24})


def course() -> Problem:
    """One that compiles sooner."""
    return workloads.problem("matmul", "float32", {"m": 24, "n": 16, "k": 40})


def absent(device: Device) -> Any:
    """A device that nobody can open."""
    return SimpleNamespace(info=replace(device.info, id="absent:0"))


@pytest.mark.drawn(1 / 3)
def test_every_winner_on_every_device(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    other = absent(device)
    large = {**MEDIUM.config(), "TBR": 32, "TBC": 32, "KB": 6}  # not in any space: 1024 work-items

    def chosen(info: DeviceInfo, problem: Problem, request: portability.PortabilityRequest) -> Winner:
        config = GEMM.default(problem, info) if info is device.info else large
        return Winner(info.id, config, "by hand")

    monkeypatch.setattr(portability, "winner", chosen)
    heard: list[str] = []
    run = Run((device, other), portability.PortabilityOptions(), say=heard.append)
    rows = portability.matrix([device, other], portability.PortabilityRequest((small(),)), run)
    assert [(row.winner_of, row.device) for row in rows] == [
        (a, b) for a in (device.info.id, "absent:0") for b in (device.info.id, "absent:0")
    ]
    own, elsewhere, foreign, unknown = rows
    assert (own.loss, own.status, own.objection) == (1.0, "ok", "")
    assert own.seconds is not None
    assert own.gflops == pytest.approx(2 * 40 * 56 * 24 / own.seconds / 1e9)
    assert foreign.objection
    assert foreign.status
    assert (foreign.loss is None) == (foreign.status != "ok")
    assert (elsewhere.status, unknown.status) == ("not reached", "not reached")
    result = portability_rows.scores(rows)
    assert result[own.problem, own.dtype, own.winner_of] == 1.0, "a device that was not reached is no failure"
    assert len(heard) == 5
    assert heard[-1].startswith("absent:0: no device matches 'absent:0'"), "why nothing ran is told"
    shown = portability_rows.table(rows)
    assert shown.columns == (device.info.id, "absent:0", "PP")
    assert shown.cells[0][0].text == "1.00"
    assert any("not reached in the time" in note and "absent:0" in note for note in portability_rows.notes(rows))


def test_a_configuration_that_no_plan_is_made_of_is_a_failed_trial(device: Device) -> None:
    """As one with tensor maps on a device without: the others are measured all the same."""
    if device.info.can.tensor_maps or not device.info.fp64:
        pytest.skip("a plan is made")
    problem = GEMM.problem({"m": 64, "n": 64, "k": 64}, "float64")
    own, foreign = GEMM.default(problem, device.info), Tma(TBR=1, TBC=2, TRR=1, TCR=1, KB=16, STAGES=3).config()
    done = measured_configs.measured(problem, device.info.id, [foreign, own])
    trials = [done.trials[canonical(config)] for config in (own, foreign)]
    assert [trial.status for trial in trials] == ["ok", "launch"]
    assert "takes no tensor maps from the host" in trials[1].message


def test_losses_and_pennycooks_measure(device: Device) -> None:
    blank = portability._row(small(), Winner(device.info.id, None, "none"), device, None)
    assert blank.status == "no winner: none"
    times = {("x", "x"): 1.0, ("x", "y"): 4.0, ("y", "x"): 2.0, ("y", "y"): 1.0}
    rows = portability_rows.finish([replace(blank, winner_of=a, device=b, seconds=time) for (a, b), time in times.items()])
    assert [row.loss for row in rows] == [1.0, 4.0, 2.0, 1.0]
    result = portability_rows.scores(rows)
    assert result[rows[0].problem, "float32", "x"] == pytest.approx(2 / 5)
    assert result[rows[0].problem, "float32", "y"] == pytest.approx(2 / 3)


def test_a_tuned_winner(device: Device) -> None:
    problem = course()
    result = portability.winner(device.info, problem, portability.PortabilityRequest((problem,), Budget(evaluations=2)))
    assert result.config in workloads.get("matmul").space(problem, device.info)
    assert result.found.startswith("tuned: 2 tried")
    assert portability.winner(device.info, problem, portability.PortabilityRequest((problem,))).found.startswith("tuned for this problem")


@pytest.mark.drawn(1 / 3)
def test_one_configuration_for_all(device: Device) -> None:
    request = portability.PortabilityRequest((course(),), portable=Budget(evaluations=2))
    own, best = portability.matrix([device], request)
    assert (own.winner_of, best.winner_of) == (device.info.id, "portable")
    assert (best.status, best.objection) == ("ok", "")
    assert best.found.startswith("searched for: 2 tried")
    assert any(note.startswith("portable: searched for") for note in portability_rows.notes([own, best]))


@pytest.mark.drawn(1 / 3)
def test_winners_of_devices_that_are_elsewhere(device: Device, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # rows that the TMA does not take: the form of the other device is one that runs here
    problem = GEMM.problem({"m": 63, "n": 63, "k": 63}, "float64")
    (elsewhere,) = portability.recorded_devices("gemm", "H200 cuda")
    assert portability.known(elsewhere, problem, "there").config is not None
    rows = portability.matrix([device], portability.PortabilityRequest((problem,), recorded=(elsewhere,)))
    assert [row.winner_of for row in rows] == [device.info.id, "cuda NVIDIA H200"]
    their = rows[1]
    assert (their.status, rows[0].loss) == ("ok", 1.0), their
    if device.info.kind == "cpu":
        assert their.changed == "MMA=False"
        assert json.loads(their.config)["MMA"] is False
    with pytest.raises(UnknownNameError, match="cuda NVIDIA H200"):
        portability.recorded_devices("gemm", "h300")
    sizes = ["-m", "63", "-n", "63", "-k", "63", "--dtype", "float64", "--device", device.info.id]
    assert main(["study", "portability", "gemm", *sizes, "--recorded", "h200 opencl", "-o", str(tmp_path / "m.csv")]) == 0
    assert "opencl NVIDIA H200: another machine's device" in capsys.readouterr().out
    written = list(csv.DictReader(io.StringIO((tmp_path / "m.csv").read_text())))
    assert [row["winner_of"] for row in written] == [device.info.id, "opencl NVIDIA H200"]


@pytest.mark.drawn(1 / 3)
def test_a_map(device: Device, tmp_path: Path) -> None:
    workload = workloads.get("matmul")
    problem = workload.problem({"m": 24, "n": 16, "k": 40})
    space = workload.space(problem, device.info)
    only = {"BLOCK": space.parameters["BLOCK"][:2], "ALGORITHM": ("global", "local")}
    request = pairs.PairsRequest(problem, "ALGORITHM", "BLOCK", only, tries=2)
    seen: list[None] = []
    kept = tmp_path / "trials.sqlite"
    rows = pairs.sweep(device, request, Measuring(trials=kept, advance=lambda: seen.append(None)))
    assert [(row.down_value, row.across_value) for row in rows] == pairs.pairs(space, request)
    assert max(row.relative or 0.0 for row in rows) == 1.0
    assert sum(row.tried for row in rows) <= len(rows) * 2
    assert seen
    for row in rows:
        assert (row.seconds is None) == (row.status != "ok")
        if row.seconds is not None:
            config = json.loads(row.config)
            assert (config["ALGORITHM"], config["BLOCK"]) == (row.down_value, row.across_value)
            assert config in space
            assert row.gflops == pytest.approx(2 * 24 * 16 * 40 / row.seconds / 1e9)
    again = pairs.sweep(device, request, Measuring(trials=kept))
    assert [row.seconds for row in again] == [row.seconds for row in rows]  # a map that was killed goes on by its trials


def test_pairs_start_near_the_base(device: Device) -> None:
    problem = small()
    base = GEMM.default(problem, device.info)
    space = GEMM.space(problem, device.info)
    request = pairs.PairsRequest(problem, "TR", "TC", {"TR": (base["TR"],), "TC": (base["TC"],)})
    (pair,) = pairs.pairs(space, request)
    assert next(iter(pairs._part(space, request, pair, base))) == base


def test_wrong_maps(device: Device) -> None:
    for wrong, error in [
        (pairs.PairsRequest(small(), "TQ", "TC"), UnknownNameError),
        (pairs.PairsRequest(small(), "TC", "TC"), ArgumentError),
        (pairs.PairsRequest(small(), "TR", "TC", {"TC": (5,)}), ArgumentError),
        (pairs.PairsRequest(small(), "TR", "TC", {"FORM": ("cpu",), "TXC": (True,), "TR": (2,), "TC": (2, 4)}), SpaceError),
    ]:
        with pytest.raises(error):
            pairs.sweep(device, wrong)


@pytest.mark.drawn(1 / 3)
def test_the_commands(device: Device, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = ["-m", "24", "-n", "16", "-k", "40", "--device", device.info.id]
    axes = ["--down", "ALGORITHM=global,local", "--across", "BLOCK=4,8", "--tries", "1"]
    assert main(["study", "map", "matmul", *sizes, *axes, "-o", str(tmp_path / "map.csv")]) == 0
    assert "global" in capsys.readouterr().out
    written = list(csv.DictReader(io.StringIO((tmp_path / "map.csv").read_text())))
    assert [(row["down_value"], row["across_value"]) for row in written] == [(a, b) for a in ("global", "local") for b in ("4", "8")]
    monkeypatch.setattr("portatile.cli.study._devices", lambda selectors, usual: (device, absent(device)))
    assert main(["study", "portability", "matmul", *sizes, "-o", str(tmp_path / "matrix.svg")]) == 0
    assert "absent:0" in capsys.readouterr().out
    assert (tmp_path / "matrix.svg").read_text().startswith("<svg")
    assert main(["study", "portability", "matmul", *sizes, "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)) == 4


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["map", "--down", "TQ", "--across", "TC"], "unknown parameter 'TQ'"),
        (["map", "--down", "TR=7", "--across", "TC"], "'7' is not one of"),
        (["map", "--down", "TR", "--across", "TC", "--fix", "FORM"], "write FORM=VALUE"),
        (["map", "--down", "TR", "--across", "TR"], "two parameters"),
        (["map", "--down", "TR", "--across", "TC", "-o", "x.txt"], "or .html"),
        (["map", "--down", "TR"], "--across is missing"),
        (["map", "--down", "TR", "--across", "TC", "-o", "/nowhere/x.csv"], "no folder"),
        (["portability", "--device", "opencl", "--device", "opencl"], "two devices or more"),
    ],
)
def test_mistakes_end_with_2(args: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["study", args[0], "gemm", "-m", "8", "-n", "8", "-k", "8", *args[1:]]) == 2
    assert message in " ".join(capsys.readouterr().err.split())


def test_values_of_a_parameter(device: Device) -> None:
    space = GEMM.space(small(), device.info)
    assert pairs.parameter(space, "TR") == ("TR", ())
    assert pairs.parameter(space, "TR=8,2") == ("TR", (8, 2))
    assert pairs.parameter(space, "SM=true") == ("SM", (True,))
