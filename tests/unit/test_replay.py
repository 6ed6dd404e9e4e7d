"""Replay: the same search on recorded trials, whatever file they come from; its budget and its clock are simulated."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from portatile import strategies, workloads
from portatile.cli import main
from portatile.errors import ArgumentError, NoValidVariantError, UnknownNameError
from portatile.formatting import duration
from portatile.records import to_json
from portatile.trials import Budget, Trial
from portatile.tuning.search import replay, tuner
from support.recordings import OTHER, recorded, recording, write
from support.trials import DEVICE, PROBLEM, trial


def test_every_kind_of_file_replays_alike(tmp_path: Path) -> None:
    trials = recorded()
    paths = write(tmp_path, trials)
    assert set(paths) == {"store", "list", "run", "t4", "cache"}
    answers = []
    for path in paths.values():
        (found,) = replay.recordings(path)
        result = replay.run(replay.ReplayRequest(found, Budget(evaluations=25), "genetic", 5))
        answers.append([(dict(one.config), one.status == "ok", pytest.approx(one.median)) for one in result.trials])
        assert result.seconds == pytest.approx(25 * 0.75)
    assert all(answer == answers[0] for answer in answers)


@pytest.mark.parametrize("name", strategies.names())
def test_only_what_was_recorded_is_tried_and_each_once(name: str) -> None:
    found = recording(recorded()[::2])
    result = replay.run(replay.ReplayRequest(found, Budget(evaluations=1000), name, 1))
    tried = [tuple(one.config.items()) for one in result.trials]
    assert len(tried) == len(set(tried))
    assert all(one in found.trials for one in result.trials)
    assert result.best.median == min(one.median for one in result.trials)


def test_the_budget_counts_evaluations_and_simulated_seconds() -> None:
    by_count = replay.run(replay.ReplayRequest(recording(), Budget(evaluations=7), "random"))
    assert (len(by_count.trials), by_count.stopped) == (7, "budget")
    by_time = replay.run(replay.ReplayRequest(recording(), Budget(seconds=3.0), "random"))
    assert (len(by_time.trials), by_time.seconds, by_time.stopped) == (4, pytest.approx(3.0), "budget")
    everything = replay.run(replay.ReplayRequest(recording(), Budget(seconds=1e9), "random"))
    assert (len(everything.trials), everything.stopped) == (60, "exhausted")
    assert everything.best.median == min(one.median for one in recorded())


def test_a_seed_repeats() -> None:
    def order(seed: int) -> list[Trial]:
        return list(replay.run(replay.ReplayRequest(recording(), Budget(evaluations=15), "random", seed)).trials)

    assert order(4) == order(4)
    assert order(4) != order(5)


def test_the_listener_hears_of_every_trial() -> None:
    heard: list[tuner.Progress] = []
    result = replay.run(replay.ReplayRequest(recording(), Budget(evaluations=9), "random"), heard.append)
    assert [one.last for one in heard] == list(result.trials)
    assert [one.evaluations for one in heard] == list(range(1, 10))
    assert heard[-1].seconds == result.seconds
    assert heard[-1].best == result.best


def test_progress_can_be_printed() -> None:
    """``listen=print`` is a line for each trial: how far, how fast, and what was counted."""
    lines: list[str] = []
    result = replay.run(replay.ReplayRequest(recording(), Budget(evaluations=9), "random"), lambda progress: lines.append(str(progress)))
    assert all("\n" not in line and len(line) < 120 for line in lines)
    assert f" s  best {duration(result.best.median)}  9 tried (" in lines[-1]
    heard = tuner.Progress(result.problem, result.device, None, result.trials[0], 3, 2, 1.5, None, {"wrong": 1}, 2.0, warm=1)
    assert str(heard) == "   1.5 s  nothing valid yet  3 tried (2.0/s), 1 warm start, 2 from the store, failed: 1 wrong"
    assert str(replace(heard, seconds_left=2.4)).endswith("failed: 1 wrong, 2 s left")
    assert str(replace(heard, evaluations_left=7)).endswith("failed: 1 wrong, 7 trials left")


def test_an_interrupt_keeps_what_was_found() -> None:
    def interrupt(progress: tuner.Progress) -> None:
        if progress.evaluations == 5:
            raise KeyboardInterrupt

    result = replay.run(replay.ReplayRequest(recording(), Budget(evaluations=9), "random"), interrupt)
    assert (len(result.trials), result.stopped) == (5, "interrupted")


def test_the_default_comes_first_where_it_was_recorded() -> None:
    problem = workloads.get("matmul").problem({"m": 33, "n": 21, "k": 17})
    workload = workloads.get("matmul")
    default = workload.default(problem, DEVICE)
    rng = np.random.default_rng(0)
    configs = [workload.space(problem, DEVICE).sample(rng) for _ in range(30)]
    trials = [replace(trial(1, 1e-3 * (place + 1), problem=problem), config=config) for place, config in enumerate([*configs, default])]
    result = replay.run(replay.ReplayRequest(recording(trials), Budget(evaluations=1), "random"))
    assert dict(result.default.config) == dict(default)
    assert [dict(one.config) for one in result.trials] == [dict(default)]
    assert replay.run(replay.ReplayRequest(recording(), Budget(evaluations=1))).default.status == "skipped"


def test_the_later_of_two_trials_counts_and_other_parameters_are_left_out() -> None:
    old, new = trial(1, 5.0, problem=OTHER), trial(1, 2.0, problem=OTHER)
    strange = replace(new, config={"BLOCK": 3})
    (found,) = replay.group([old, trial(2, 4.0, problem=OTHER), strange, new], "mixed")
    assert [one.median for one in found.trials] == [2.0, 4.0]
    assert found.left_out == 1


def test_cold_trials_are_another_recording() -> None:
    warm, cold = trial(1, 1.0, problem=OTHER), replace(trial(1, 5.0, problem=OTHER), cold=True)
    first, second = replay.group([warm, cold], "both")
    assert (first.cold, [one.median for one in first.trials]) == (False, [1.0])
    assert (second.cold, [one.median for one in second.trials]) == (True, [5.0])
    assert second.name == f"{first.name}, cold"


def test_recordings_of_other_options_have_other_names() -> None:
    stream = workloads.get("stream")
    problems = [stream.problem({"n": 64}, "float32", {"operation": operation}) for operation in ("triad", "copy")]
    usual, other = replay.group([trial(1, 1.0, problem=problem) for problem in problems], "both")
    assert usual.name.startswith("stream n=64 float32 on ")
    assert other.name.startswith("stream n=64 operation=copy float32 on ")


def test_what_was_turned_away_later_was_still_measured() -> None:
    valid, skipped = trial(1, 1.0, problem=OTHER), replace(trial(1, 1.0, problem=OTHER), status="skipped", samples=())
    failed = replace(skipped, status="crash")
    for trials, status in (([valid, skipped], "ok"), ([skipped, valid], "ok"), ([skipped], "skipped"), ([valid, failed, skipped], "crash")):
        (found,) = replay.group(trials, "one")
        assert [one.status for one in found.trials] == [status]


def test_where_all_failed_it_says_so() -> None:
    failed = [replace(one, status="wrong", samples=()) for one in recorded()]
    with pytest.raises(NoValidVariantError, match="5 wrong"):
        replay.run(replay.ReplayRequest(recording(failed), Budget(evaluations=5)))


@pytest.mark.parametrize(
    ("text", "complaint"),
    [("{}", "holds no trials"), ("[{}]", r"problem.*\$\[0\]"), ("nonsense", "not JSON"), ('[{"problem": 3}]', r"\$\[0\]\.problem")],
)
def test_what_is_no_recording_is_a_mistake(text: str, complaint: str, tmp_path: Path) -> None:
    (tmp_path / "file.json").write_text(text)
    with pytest.raises(ArgumentError, match=complaint):
        replay.recordings(tmp_path / "file.json")


def test_a_wrong_strategy_is_a_mistake() -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'random'"):
        replay.run(replay.ReplayRequest(recording(), strategy="randon"))


# The command


def test_the_command_prints_what_live_tuning_prints(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path, recorded())["list"]
    assert main(["tune", "--replay", str(path), "--budget", "12", "--strategy", "random", "--seed", "3"]) == 0
    out, err = capsys.readouterr()
    assert "mystery x=8" in out
    assert "12 configurations in 9.0 s" in out
    assert "winner" in out
    assert "default" not in out
    assert "12 tried" in err
    assert main(["tune", "--replay", str(path), "--budget", "12", "--strategy", "random", "--seed", "3", "--json"]) == 0
    output = json.loads(capsys.readouterr().out)
    assert len(output["trials"]) == 12
    assert output["seconds_per_run"] == min(sorted(one["samples"])[1] for one in output["trials"] if one["status"] == "ok")
    assert output["gflops"] is None


def test_the_command_finds_the_problem_among_others(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    problem = workloads.get("matmul").problem({"m": 33, "n": 21, "k": 17})
    another = replace(DEVICE, name="another chip")
    groups = [recorded(), recorded(problem=problem), recorded(problem=problem, device=another), recorded(problem=PROBLEM)]
    (tmp_path / "list.json").write_bytes(to_json([one for group in groups for one in group]))
    path = str(tmp_path / "list.json")
    sizes = ["matmul", "-m", "33", "-n", "21", "-k", "17"]
    assert main(["tune", *sizes, "--replay", path, "--device", "another", "--budget", "5"]) == 0
    out = capsys.readouterr().out
    assert "on another chip" in out
    assert "Gflop/s" in out
    assert main(["tune", "--replay", path]) == 2
    assert "4 recordings" in capsys.readouterr().err
    assert main(["tune", *sizes, "--replay", path]) == 2
    assert "2 recordings" in capsys.readouterr().err
    assert main(["tune", "matmul", "-m", "3", "-n", "3", "-k", "3", "--replay", path]) == 2
    assert "no trials of that problem" in capsys.readouterr().err


def test_the_command_says_how_to_replay_a_kernel_of_ones_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own = [recorded(problem=replace(OTHER, workload=f"kernel:{name}")) for name in ("blur", "sharpen")]
    (tmp_path / "list.json").write_bytes(to_json([one for group in own for one in group]))
    assert main(["tune", "--replay", str(tmp_path / "list.json")]) == 2
    assert "portatile export FOLDER --format t4 --workload kernel:NAME" in capsys.readouterr().err
    assert main(["tune", "kernel:blur", "--replay", str(tmp_path / "list.json")]) == 2
    assert "kernel:blur is a kernel of your own: use it from Python" in " ".join(capsys.readouterr().err.split())


def test_the_command_replays_the_manner_that_it_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    problem = workloads.get("matmul").problem({"m": 33, "n": 21, "k": 17})
    warm = recorded(problem=problem)
    cold = [replace(one, cold=True, samples=tuple(5 * sample for sample in one.samples)) for one in warm]
    (tmp_path / "both.json").write_bytes(to_json([*warm, *cold]))
    (tmp_path / "warm.json").write_bytes(to_json(warm))
    given = ["tune", "matmul", "-m", "33", "-n", "21", "-k", "17", "--budget", "100", "--json", "--replay"]
    best = []
    for more in ([], ["--cold"]):
        assert main([*given, str(tmp_path / "both.json"), *more]) == 0
        best.append(json.loads(capsys.readouterr().out)["seconds_per_run"])
    assert best[1] == pytest.approx(5 * best[0])
    assert main([*given, str(tmp_path / "warm.json"), "--cold"]) == 2
    assert "no trials of that problem" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("args", "complaint"),
    [
        (["--budget", "3"], "name a workload"),
        (["--budget", "3", "matmul", "-m", "1", "-n", "1", "-k", "1"], "write options after the workload"),
        (["--replay", "nowhere.json"], "cannot be read"),
    ],
)
def test_mistakes_end_with_2(args: list[str], complaint: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tune", *args]) == 2
    assert complaint in capsys.readouterr().err
