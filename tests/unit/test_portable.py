"""One configuration for several devices: cascades, the search with times that are made up, and what recorded files say."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from portatile import workloads
from portatile.cli import main
from portatile.formats import t4
from portatile.records import Config, DeviceInfo, canonical
from portatile.studies import cascade, portable, recorded_portability
from portatile.studies.framework import measured_configs
from portatile.studies.portable import Search
from portatile.trials import Budget, Trial
from portatile.tuning.search import replay
from support.trials import DEVICE, trial

MATMUL = workloads.get("matmul")
PROBLEM = MATMUL.problem({"m": 64, "n": 64, "k": 64})
OTHER = replace(DEVICE, id="other:0", name="Another")


def test_a_cascade_falls_in_the_order_of_efficiency() -> None:
    result = cascade.stages([4.0, 1.0, 2.0])
    assert [one.efficiency for one in result] == [1.0, 0.5, 0.25]
    assert [one.measure for one in result] == pytest.approx([1.0, 2 / 3, 3 / 7])
    assert cascade.stages([0.5])[0].efficiency == 1.0
    assert [stage.measure for stage in cascade.stages([1.0, None])] == [1.0, 0.0]
    assert cascade.measure([]) == 0.0
    efficiencies, measures = cascade.figures("gemm", {"a": [1.0, 2.0], "b": [1.0, None]})
    assert [curve.points for curve in measures.series] == [((1.0, 1.0), (2.0, pytest.approx(2 / 3))), ((1.0, 1.0), (2.0, 0.0))]
    assert "Cascade" in efficiencies.draw("x")
    assert cascade.figures("gemm", {"a": [1.0]}) == []


def made_up(config: Config, info: DeviceInfo) -> float:
    """The first device wants large blocks, the other one small ones; both can live with 16."""
    block = int(config["BLOCK"])
    best = 64 if info is DEVICE else 4
    far = abs(best.bit_length() - block.bit_length())
    return (1.0 + far**2) * (1.0 if config["VECTOR"] == 4 else 1.5) * (10.0 if info is DEVICE else 1.0)


def test_the_search_finds_the_compromise() -> None:
    asked: list[int] = []

    def seconds(info: DeviceInfo, configs: Sequence[Config]) -> Mapping[str, float]:
        asked.append(len(configs))
        return {canonical(config): made_up(config, info) for config in configs if config["ALGORITHM"] != "sequential"}

    first = MATMUL.default(PROBLEM, DEVICE)
    small = {**first, "BLOCK": 4, "DEPTH": 0, "WPT": 1, "VECTOR": 4}
    heard: list[str] = []
    result = portable.search(Search(PROBLEM, (DEVICE, OTHER), (first, small), Budget(evaluations=120), seed=3), seconds, heard.append)
    assert result is not None
    assert (result.config["BLOCK"], result.config["VECTOR"]) == (16, 4)
    assert result.tried <= 120
    assert max(asked) <= 8
    assert heard
    # who cannot win any more goes no further
    assert sum(asked[1::2]) < sum(asked[::2])
    few = portable.search(Search(PROBLEM, (DEVICE, OTHER), (first, small), Budget(evaluations=2)), seconds)
    assert few is not None
    assert few.tried == 2


def test_nothing_runs_everywhere() -> None:
    def seconds(info: DeviceInfo, configs: Sequence[Config]) -> Mapping[str, float]:
        return {} if info is OTHER else {canonical(config): 1.0 for config in configs}

    start = MATMUL.default(PROBLEM, DEVICE)
    assert portable.search(Search(PROBLEM, (DEVICE, OTHER), (start,), Budget(evaluations=4)), seconds) is None


def recorded(device: DeviceInfo, times: Mapping[int, float]) -> list[Trial]:
    return [trial(tile, seconds, device=device) for tile, seconds in times.items()]


def test_recorded_devices(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Tile 2 wins here, 8 there; 4 loses least over both; 16 was tried on one only."""
    here, there = tmp_path / "here_T4.json", tmp_path / "there_T4.json"
    here.write_bytes(t4.write(recorded(DEVICE, {2: 1.0, 4: 1.2, 8: 4.0, 16: 0.9})))
    there.write_bytes(t4.write(recorded(OTHER, {2: 8.0, 4: 2.4, 8: 2.0})))
    assert main(["study", "recorded-portability", str(here), str(there), "-o", str(tmp_path / "p.svg")]) == 0
    shown = capsys.readouterr().out
    assert "portable" in shown
    assert "Cascade" in (tmp_path / "p.svg").read_text()
    assert main(["study", "recorded-portability", str(here), str(there), "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    losses = {(row["winner_of"].partition(" ")[0], row["name"]): row["loss"] for row in rows}
    assert len(rows) == 6
    best = next(row for row in rows if row["winner_of"] == portable.NAME)
    assert json.loads(best["config"])["TILE"] == 4
    assert sorted(loss for (of, _), loss in losses.items() if of == portable.NAME and loss) == pytest.approx([1.2, 1.2 / 0.9])
    assert [row["status"] for row in rows].count("not recorded there") == 1


def test_one_device_is_no_comparison(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    only = tmp_path / "only_T4.json"
    only.write_bytes(t4.write(recorded(DEVICE, {2: 1.0})))
    assert main(["study", "recorded-portability", str(only)]) == 2
    assert "two devices" in capsys.readouterr().err
    assert main(["study", "recorded-portability"]) == 2


def test_caches_of_kernel_tuner(tmp_path: Path) -> None:
    """Their devices are known by name alone."""
    found = []
    for name, times in (("A100", (1.0, 2.0)), ("MI250", (3.0, 1.0))):
        cache = {f"{block}": {"block": block, "time": time} for block, time in zip((16, 32), times, strict=True)}
        document = {"device_name": name, "kernel_name": "k", "problem_size": 64, "tune_params_keys": ["block"]}
        path = tmp_path / f"{name}.json"
        path.write_text(json.dumps({**document, "tune_params": {"block": [16, 32]}, "objective": "time", "cache": cache}))
        found += replay.recordings(path)
    (group,) = recorded_portability.together(found)
    rows = list(recorded_portability.matrix(group))
    assert [(row.winner_of, row.device, row.seconds) for row in rows] == [
        ("A100", "A100", 1e-3),
        ("MI250", "A100", 2e-3),
        ("portable", "A100", 2e-3),
        ("A100", "MI250", 3e-3),
        ("MI250", "MI250", 1e-3),
        ("portable", "MI250", 1e-3),
    ]
    assert {row.gflops for row in rows} == {None}


def test_alike_devices_share_what_was_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """The store answers for the second with the trial of the first: it counts there too, another hardware's does not."""
    mine = trial(4, device=replace(DEVICE, id="opencl:0:0"))
    other = trial(8, device=replace(DEVICE, id="opencl:1:0", name="another"))
    monkeypatch.setattr(measured_configs.devices, "get", lambda name: SimpleNamespace(info=replace(DEVICE, id=name)))
    answer = SimpleNamespace(stopped="exhausted", trials=(mine, other))
    monkeypatch.setattr(measured_configs.tuner, "tune", lambda request, store, listener: answer)
    result = measured_configs.measured(mine.problem, "opencl:0:1", [mine.config, other.config])
    assert list(result.trials.values()) == [mine]
