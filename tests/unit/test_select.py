"""The fall-back order of select: this problem here, a near problem here, a near device, the default; and only what is legal."""

from dataclasses import replace

from portatile.records import Config, DeviceInfo, Layout, Problem
from portatile.select import choose
from portatile.space import ParameterSpace
from portatile.trials import Trial
from portatile.workload import Operand
from support.devices import GPU
from support.never_run import NeverRun

HERE = GPU


class Scale(NeverRun):
    """y = 2 x, as far as select is concerned."""

    name = "scale"
    sizes = {"n": "elements"}
    operands = (Operand("x"), Operand("y", "out"))

    def shapes(self, problem: Problem) -> dict[str, tuple[int, ...]]:
        return {"x": (problem.sizes["n"],), "y": (problem.sizes["n"],)}

    def space(self, problem: Problem, device: DeviceInfo) -> ParameterSpace:
        return ParameterSpace({"W": (1, 2, 4, 8)}, [lambda W, n: n % W == 0], {**problem.facts(), **device.facts()})

    def default(self, problem: Problem, device: DeviceInfo) -> Config:
        return {"W": 1}

    def flops(self, problem: Problem) -> float:
        return problem.sizes["n"]

    def traffic(self, problem: Problem) -> float:
        return 2.0 * problem.sizes["n"] * problem.itemsize


SCALE = Scale()


def trial(n: int, width: int, device: DeviceInfo = HERE, seconds: float = 1.0) -> Trial:
    return Trial(SCALE.problem({"n": n}), {"W": width}, device, "hash", "ok", (seconds,))


def pick(n: int, *trials: Trial) -> tuple[str, object]:
    choice = choose(SCALE, SCALE.problem({"n": n}), HERE, trials)
    return choice.reason, choice.config["W"]


def test_this_problem_on_this_device_comes_first() -> None:
    assert pick(64, trial(64, 4), trial(128, 8), trial(64, 2, replace(HERE, name="Chip B"))) == ("tuned", 4)


def test_of_equal_trials_the_faster() -> None:
    assert pick(64, trial(64, 4, seconds=2.0), trial(64, 2, seconds=1.0)) == ("tuned", 2)


def test_nearest_problem_of_this_device() -> None:
    assert pick(64, trial(512, 8), trial(128, 4), trial(64, 2, replace(HERE, name="Chip B"))) == ("near problem", 4)


def test_nearest_device_by_architecture_then_vendor() -> None:
    same_architecture = replace(HERE, name="Chip B", vendor="Other")
    same_vendor = replace(HERE, name="Chip C", architecture="a2")
    assert pick(64, trial(64, 2, same_vendor), trial(64, 4, same_architecture)) == ("near device", 4)
    assert pick(64, trial(64, 2, same_vendor), trial(64, 8, replace(HERE, kind="cpu"))) == ("near device", 2)


def test_processors_take_nothing_made_for_other_registers() -> None:
    """Virtual processors of many kinds have one name: the architecture tells them apart, and results for it come before others."""
    wide = replace(HERE, kind="cpu", name="pthread-Xeon", architecture="x86_64-rocketlake")
    older, newer = replace(wide, architecture="x86_64-haswell"), replace(wide, architecture="x86_64-znver4")
    arm = replace(wide, name="pthread-Neoverse", architecture="aarch64-neoverse-v1")

    def picked(device: DeviceInfo, *trials: Trial) -> tuple[str, object]:
        choice = choose(SCALE, SCALE.problem({"n": 64}), device, trials)
        return choice.reason, choice.config["W"]

    assert picked(wide, trial(64, 8, wide)) == ("tuned", 8)
    assert picked(older, trial(64, 8, wide)) == ("default", 1)
    assert picked(arm, trial(64, 8, older)) == ("default", 1)
    assert picked(newer, trial(64, 8, wide)) == ("near device", 8)
    assert picked(newer, trial(64, 8, wide), trial(64, 4, newer)) == ("tuned", 4)
    more = replace(wide, compute_units=64)
    assert picked(more, trial(64, 8, wide)) == ("tuned", 8)
    assert picked(more, trial(64, 8, wide, 0.1), trial(64, 4, more, 2.0)) == ("tuned", 4), "times of fewer cores say nothing here"


def test_devices_as_strange_as_each_other_are_not_mixed() -> None:
    """Times of two drivers on two machines say nothing of each other: the one with our driver is asked first."""
    ours = replace(HERE, name="Chip B", architecture="a2", driver="1")
    other = replace(HERE, name="Chip A2", architecture="a2", driver="2")
    assert pick(64, trial(64, 2, other, seconds=1.0), trial(64, 4, ours, seconds=3.0)) == ("near device", 4)


def test_a_like_device_that_measured_this_problem_answers_for_it() -> None:
    """However sure a workload is of its default: what was tried on other problems only says nothing against its winner here."""

    class Sure(Scale):
        def loss(self, problem: Problem, device: DeviceInfo) -> float:
            return 1.01

    twin = replace(HERE, name="Chip B")
    others = [trial(n, width, twin, seconds) for n in (32, 128, 256) for width, seconds in ((1, 1.0), (8, 1.1))]
    for default, chosen in ((1.05, ("near device", 4)), (0.95, ("near device", 1))):
        results = [trial(64, 4, twin, 1.0), trial(64, 1, twin, default), *others]
        choice = choose(Sure(), SCALE.problem({"n": 64}), HERE, results)
        assert (choice.reason, choice.config["W"]) == chosen
    assert choose(Sure(), SCALE.problem({"n": 64}), HERE, others).config == {"W": 1}


def test_illegal_here_is_passed_over() -> None:
    assert pick(63, trial(64, 4)) == ("default", 1)
    assert pick(62, trial(64, 4), trial(128, 2)) == ("near problem", 2)


def test_far_away_failed_and_other_kinds_do_not_count() -> None:
    assert pick(64, trial(2**20, 8)) == ("default", 1)
    assert pick(64, replace(trial(64, 8), status="wrong")) == ("default", 1)
    assert pick(64, trial(64, 8, replace(HERE, kind="cpu"))) == ("default", 1)
    assert pick(64) == ("default", 1)


def test_another_layout_is_a_near_problem() -> None:
    padded = Problem("scale", {"n": 64}, "float32", {}, {"x": Layout((1,), 3), "y": Layout((1,))})
    assert choose(SCALE, padded, HERE, [trial(64, 4)]).reason == "near problem"


def test_problems_of_another_version_of_the_workload_are_passed_over() -> None:
    for strange in (Problem("scale", {"m": 16}, "float32"), Problem("scale", {"n": 16}, "float32", {"mode": "old"})):
        assert pick(16, replace(trial(16, 4), problem=strange)) == ("default", 1)


def test_the_default_says_whether_anything_was_near() -> None:
    near = choose(SCALE, SCALE.problem({"n": 33}), HERE, [trial(32, 8)])
    far = choose(SCALE, SCALE.problem({"n": 33}), HERE, [trial(32 << 10, 8)])
    assert near.config == far.config == {"W": 1}
    assert "not legal here" in near.explanation
    assert "nothing near was tuned" in far.explanation
