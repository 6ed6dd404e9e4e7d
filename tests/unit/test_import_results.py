"""`portatile import`: trials come in once, as a whole file or not at all, and it says what for."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from portatile import device, select, workloads
from portatile.cli import main
from portatile.errors import UsageError
from portatile.formats import t4
from portatile.records import Problem, to_json
from portatile.shipping import import_results
from portatile.store import ResultStore, known_results
from portatile.trials import Trial
from support.recordings import recorded, write
from support.trials import DEVICE, some

GEMM = workloads.get("gemm").problem({"m": 8, "n": 8, "k": 8})


@pytest.fixture(autouse=True)
def own_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PORTATILE_DATA_DIR", str(tmp_path / "data"))


def held() -> list[Trial]:
    with ResultStore.default() as store:
        return store.trials()


@pytest.mark.parametrize("kind", ["list", "run", "t4"])
def test_trials_come_in_once(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trials = [replace(one, problem=GEMM) for one in some(4)]
    path = tmp_path / "results.json"
    run = {
        "problem": GEMM,
        "device": DEVICE,
        "trials": [asdict(trial) | {"problem": None, "device": None} for trial in trials],
        "stopped": "budget",
    }
    path.write_bytes({"list": to_json(trials), "run": to_json(run), "t4": t4.write(trials)}[kind])
    valid = sum(trial.status == "ok" for trial in trials)
    assert main(["import", str(path)]) == 0
    assert (
        f"chip (opencl, platform): {len(trials)} trials came in, {valid} of them valid; used for near devices only"
        in capsys.readouterr().out
    )
    assert held() == trials
    assert main(["import", str(path)]) == 0
    assert f"0 trials came in, 0 of them valid, {len(trials)} were there" in capsys.readouterr().out
    assert held() == trials


def test_one_evaluation_in_two_files_is_one_trial(tmp_path: Path) -> None:
    trials = [replace(one, problem=GEMM) for one in some(5)]
    (tmp_path / "list.json").write_bytes(to_json(trials))
    (tmp_path / "t4.json").write_bytes(t4.write(trials))
    assert main(["import", str(tmp_path / "t4.json"), str(tmp_path / "list.json")]) == 0
    assert held() == trials


def test_a_device_of_this_machine_is_used_as_if_tuned_here(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mine = device.devices()[0].info
    trials = [replace(one, problem=GEMM, device=info) for info in (mine, replace(mine, name="another GPU")) for one in some(6, 3)]
    (tmp_path / "list.json").write_bytes(to_json(trials))
    assert main(["import", str(tmp_path / "list.json")]) == 0
    here, there = capsys.readouterr().out.splitlines()
    assert mine.name in here
    assert here.endswith("used as if tuned here")
    assert "another GPU" in there
    assert there.endswith("none such")


def test_results_of_another_device_are_near(tmp_path: Path) -> None:
    workload = workloads.get("matmul")
    problem = workload.problem({"m": 64, "n": 64, "k": 64})
    default = workload.default(problem, DEVICE)
    config = next(other for other in workload.space(problem, DEVICE) if other != dict(default))
    tuned = replace(some(10, 1)[0], problem=problem, config=config, device=replace(DEVICE, name="another chip"))
    (tmp_path / "list.json").write_bytes(to_json([tuned]))
    before = select.choose(workload, problem, DEVICE, held())
    assert main(["import", str(tmp_path / "list.json")]) == 0
    after = select.choose(workload, problem, DEVICE, known_results()("matmul"))
    assert (before.reason, after.reason, dict(after.config)) == ("default", "near device", config)


def plain() -> list[dict[str, Any]]:
    document: list[dict[str, Any]] = json.loads(to_json([replace(one, problem=GEMM) for one in some(7, 4)]))
    return document


def breaking(*path: str | int, value: object) -> Callable[[list[dict[str, Any]]], None]:
    def change(trials: list[dict[str, Any]]) -> None:
        place: Any = trials
        for step in path[:-1]:
            place = place[step]
        place[path[-1]] = value

    return change


@pytest.mark.parametrize(
    ("change", "place"),
    [
        (breaking(2, "status", value="fine"), "`$[2].status`"),
        (breaking(0, "samples", value=[1.0, "x"]), "`$[0].samples[1]`"),
        (breaking(0, "samples", value=[1.0, -2.0]), "`$[0].samples[1]`"),
        (breaking(0, "samples", value=[]), "`$[0].samples`"),
        (breaking(1, "config", value={}), "`$[1].config`"),
        (breaking(1, "config", value={"TILE": [1]}), "`$[1].config"),
        (breaking(3, "device", "backend", value="abacus"), "`$[3].device.backend`"),
        (breaking(3, "device", "name", value=""), "`$[3].device.name`"),
        (breaking(3, "problem", "sizes", value={"m": 8, "n": 8}), "`$[3].problem`"),
        (breaking(3, "problem", "options", "trans_a", value="X"), "`$[3].problem`"),
        (breaking(3, "problem", "layout", "a", value={"strides": [1]}), "`$[3].problem`"),
    ],
)
def test_a_malformed_file_is_refused_as_a_whole(
    change: Callable[[list[dict[str, Any]]], None], place: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good, bad = plain(), plain()
    change(bad)
    (tmp_path / "good.json").write_text(json.dumps(good))
    (tmp_path / "bad.json").write_text(json.dumps(bad))
    assert main(["import", str(tmp_path / "good.json"), str(tmp_path / "bad.json")]) == 2
    shown = capsys.readouterr().err
    assert place in shown
    assert "bad.json" in shown
    assert held() == []


def test_a_malformed_run_is_refused_with_its_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = {"problem": json.loads(to_json(GEMM)), "device": json.loads(to_json(DEVICE)), "trials": plain()}
    run["trials"][2]["status"] = "fine"
    (tmp_path / "run.json").write_text(json.dumps(run))
    assert main(["import", str(tmp_path / "run.json")]) == 2
    assert "`$.trials[2].status`" in capsys.readouterr().err


def test_what_names_no_problem_is_left_to_replay(tmp_path: Path) -> None:
    paths = write(tmp_path, recorded())
    with pytest.raises(UsageError, match="replay"):
        import_results.read(paths["cache"])
    foreign = json.loads(paths["t4"].read_text())
    del foreign["metadata"]
    (tmp_path / "foreign.json").write_text(json.dumps(foreign))
    with pytest.raises(UsageError, match=r"foreign.json.*replay"):
        import_results.read(tmp_path / "foreign.json")


def test_a_problem_that_leaves_out_its_defaults_is_the_whole_one(tmp_path: Path) -> None:
    trials = plain()
    for one in trials:
        one["problem"] |= {"options": {}, "layout": {}}
    (tmp_path / "list.json").write_text(json.dumps(trials))
    assert {trial.problem.key for trial in import_results.read(tmp_path / "list.json")} == {GEMM.key}


def test_results_of_a_workload_that_is_not_here_are_kept(tmp_path: Path) -> None:
    trials = [replace(one, problem=Problem("future", {"n": 3}, "float32")) for one in some(8, 2)]
    (tmp_path / "list.json").write_bytes(to_json(trials))
    assert import_results.read(tmp_path / "list.json") == trials


@pytest.mark.parametrize(("text", "complaint"), [("nonsense", "not JSON"), ('{"a": 1}', "holds no trials"), ("3", "holds no trials")])
def test_what_holds_no_trials_is_refused(text: str, complaint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file.json").write_text(text)
    assert main(["import", str(tmp_path / "file.json")]) == 2
    assert complaint in capsys.readouterr().err
    assert main(["import", str(tmp_path)]) == 2
    assert "not a folder that" in capsys.readouterr().err


def test_an_unwritten_device_is_not_mistaken(tmp_path: Path) -> None:
    """Every record of the same evaluation is one, whatever a later version adds to it; another evaluation is another."""
    one = replace(some(9, 1)[0], problem=GEMM)
    with ResultStore(tmp_path / "own.sqlite") as store:
        store.add(one)
        later = [replace(one, cold=True), replace(one, samples=(1.0, 2.0)), replace(one, config={"TILE": 99})]
        (arrived,) = import_results.add(store, later, [DEVICE])
        assert (arrived.added, arrived.known, arrived.here) == (2, 1, True)


def test_a_store_is_not_imported_but_says_what_is(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    ResultStore(tmp_path / "results.sqlite").close()
    assert main(["import", str(tmp_path / "results.sqlite")]) == 2
    assert "results --store" in capsys.readouterr().err
