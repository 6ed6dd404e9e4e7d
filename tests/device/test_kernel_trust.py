"""A user's own kernel after its text, its definition or the driver changed: what was tuned before is checked once, or it is not used."""

from __future__ import annotations

import json
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import portatile
from portatile import Kernel, TunedKernel
from portatile.device.base import Device
from portatile.errors import ArgumentError, NoValidVariantError
from portatile.records import Config
from portatile.runtime.one_device.certify import Certifier
from portatile.store import ResultStore
from portatile.trials import Budget, Trial
from portatile.tuning.protocol import Timing
from support.seeds import new_seed

pytestmark = pytest.mark.usefixtures("own_directories")

QUICK = Timing(samples=3, burst=0.0005, most=0.05, race=0.0)
TWICE = """kernel void twice(global const float *x, global float *y, int n) {
    int i = get_global_id(0);
    if (i < n && (RIGHT)) y[i] = 2 * x[i];
}
"""
N = 1003
FAST, SLOW = {"block": 64}, {"block": 8}


def twice(right: str = "1", **changes: Any) -> Kernel:
    """y := 2 x where ``right`` holds."""
    x = np.random.default_rng(new_seed("twice")).random(N, np.float32)
    base: dict[str, Any] = {
        "source": TWICE.replace("RIGHT", right),
        "name": "twice",
        "arguments": (x, np.zeros(N, np.float32), N),
        "parameters": {"block": [8, 64]},
        "global_size": "n",
        "local_size": "block",
        "reference": lambda x: 2 * x,
    }
    return Kernel(**{**base, **changes})


def tuned(kernel: Kernel, device: Device, evaluations: int = 2) -> TunedKernel:
    request = kernel.request(Budget(evaluations=evaluations), device.info.id, "exhaustive", 0, True)
    with ResultStore.default() as store:
        return kernel.tune_as(replace(request, timing=QUICK), store)


def won(device: Device, config: Config = FAST, **changes: Any) -> Trial:
    """Tune the right text, and have ``config`` win; ``changes`` are of its device record."""
    result = tuned(twice(), device)
    (trial,) = (trial for trial in result.trials if trial.config == config)
    trial = replace(trial, samples=(1e-9,) * 3, device=replace(trial.device, **changes))
    with ResultStore.default() as store:
        store.add(trial)
    return trial


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Every problem that a certifier computes adds its size."""
    seen: list[int] = []
    run = Certifier._run

    def counted(self: Certifier, workload: Any, problem: Any, plan: Any, bound: float) -> Any:
        seen.append(problem.sizes["n"])
        return run(self, workload, problem, plan, bound)

    monkeypatch.setattr(Certifier, "_run", counted)
    return seen


def call(kernel: Kernel, device: Device, n: int = N) -> bool:
    """Whether a call is right."""
    x, y = np.random.default_rng(new_seed("call")).random((2, n), np.float32)
    return bool(np.array_equal(kernel(x, y, n, device=device.info.id), 2 * x))


def test_a_winner_that_the_new_text_breaks_is_not_used(device: Device, runs: list[int], tmp_path: Path) -> None:
    won(device)
    changed = twice("get_local_id(0) < 32")  # right for groups of 8 alone
    with pytest.warns(RuntimeWarning, match=r"another kernel text fails with this one.*allowed error.*Tune it again") as warned:
        assert call(changed, device)
    assert "block=64" in str(warned[0].message)
    assert runs == [N]
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # once a process
        assert call(changed, device)
    with pytest.warns(RuntimeWarning, match="another kernel text"):  # other arguments are another choice, and nothing new to check
        assert call(changed, device, 500)
    later = twice("get_local_id(0) < 32")  # another process knows it from the cache
    with pytest.warns(RuntimeWarning, match="another kernel text"):
        assert call(later, device)
    with pytest.warns(RuntimeWarning, match="another kernel text"):
        choice = later.explain(device.info.id)
    assert (choice.config, choice.reason) == (SLOW, "default")
    with pytest.warns(RuntimeWarning, match="another kernel text"):
        folder = portatile.export(tmp_path / "kernels", later, device=device.info.id)
    (problem,) = json.loads((folder / "kernels.json").read_text())["problems"]
    assert problem["config"] == SLOW
    assert json.loads((folder / "trials.json").read_text()) == []
    assert runs == [N]


def test_a_winner_that_the_new_text_leaves_right_is_used(device: Device, runs: list[int]) -> None:
    won(device)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for kernel in (twice("n > 0"), twice("n > 0")):
            assert call(kernel, device)
            assert call(kernel, device, 40)
            choice = kernel.explain(device.info.id)
            assert (choice.config, choice.reason) == (FAST, "near problem")
            assert runs == [N]


def test_what_was_tuned_with_all_this_is_taken_at_its_word(device: Device, runs: list[int]) -> None:
    won(device)
    kernel = twice()
    assert call(kernel, device)
    assert call(kernel, device, 7)
    assert kernel.explain(device.info.id).config == FAST
    result = tuned(kernel, device)
    assert np.array_equal(result(np.ones(9, np.float32), np.zeros(9, np.float32), 9), np.full(9, 2.0))
    assert runs == []


@pytest.mark.parametrize(
    "changes",
    [
        {"reference": lambda x: 2.0 * x + 0},
        {"rtol": 1e-3},
        {"global_size": "n + 1"},
    ],
    ids=["reference", "tolerance", "launch"],
)
def test_another_definition_is_checked_as_another_text_is(device: Device, runs: list[int], changes: dict[str, Any]) -> None:
    won(device)
    kernel = twice(**changes)
    assert call(kernel, device)
    assert kernel.explain(device.info.id).config == FAST
    assert runs == [N]


def test_a_launch_that_covers_too_little_is_found(device: Device) -> None:
    won(device)
    with pytest.warns(RuntimeWarning, match="allowed error"):
        assert call(twice(global_size="n if block == 8 else n // 2"), device)


def test_after_another_driver_the_winner_is_checked_wherever_it_is_used(device: Device, runs: list[int], tmp_path: Path) -> None:
    trial = won(device, driver="the driver before")
    kernel = twice()
    tuned(kernel, device, 1)
    with ResultStore.default() as store:
        store.add(replace(trial, samples=(1e-12,) * 3))
    assert call(twice(), device)
    assert runs == [N]
    wrong = twice("get_local_id(0) < 32")
    result = tuned(wrong, device, 1)  # its default
    stale = replace(result, best=replace(trial, problem=wrong.problem()))
    x, y = np.ones((2, 60), np.float32)
    with pytest.warns(RuntimeWarning, match="the driver before fails with"):
        assert (stale(x, y, 60) == 2).all()
    assert runs == [N, N]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert (stale(x, y, 60) == 2).all()
    with pytest.warns(RuntimeWarning, match="the driver before fails with"):
        folder = portatile.export(tmp_path / "kernels", stale)
    assert json.loads((folder / "kernels.json").read_text())["problems"][0]["config"] == SLOW
    assert runs == [N, N]


def test_without_a_reference_memory_is_watched(device: Device, runs: list[int]) -> None:
    won(device)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert call(twice(reference=None), device)
    behind = TWICE.replace("i < n && (RIGHT)", "i < n || block == 64")
    with pytest.warns(RuntimeWarning, match="wrote .* (behind|before)"):
        assert call(twice(source=behind, reference=None), device)
    assert runs == [N, N]


def test_what_cannot_be_checked_is_not_used(device: Device) -> None:
    def broken(x: Any) -> Any:
        raise ValueError("no table here")

    won(device)
    with pytest.warns(RuntimeWarning, match="its reference failed: ValueError: no table here"):
        assert call(twice(reference=broken), device)
    x = np.ones(N, np.float32)
    with pytest.warns(RuntimeWarning, match="y held the expected values before"):
        assert call(twice("n > 0", arguments=(x, 2 * x, N)), device)
    with pytest.warns(RuntimeWarning, match="not legal for the arguments with which twice was defined"):
        assert call(twice("n > 0", constraints=f"block == 8 or n < {N}"), device, 100)


def test_a_call_does_not_change_what_is_checked_later(device: Device, runs: list[int]) -> None:
    kernel = twice("n > 0")
    x, y = (array.value for array in kernel.arguments.arrays)
    kernel(x, y, N, device=device.info.id)
    assert np.array_equal(y, 2 * x)
    held = kernel.inputs(kernel.problem(), np.random.default_rng(0)).operands
    assert not held["y"].any()
    won(device)
    kernel._results = twice()._results  # as in a process that begins
    kernel._by_arguments.clear()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kernel(x, y, N, device=device.info.id)
    assert runs == [N]


def test_images_are_checked_too(device: Device, runs: list[int]) -> None:
    if not device.info.images:
        pytest.skip(f"{device.info.name} has no images")
    text = """kernel void shift(read_only image2d_t from, write_only image2d_t to, int n) {
        int2 at = (int2)(get_global_id(0), get_global_id(1));
        if (all(at < get_image_dim(to)) && RIGHT) write_imagef(to, at, read_imagef(from, at) + n);
    }"""
    pixels = np.random.default_rng(new_seed("pixels")).random((9, 17, 4), np.float32)

    def shift(right: str) -> Kernel:
        return Kernel(
            text.replace("RIGHT", right),
            "shift",
            {"from": pixels, "to": np.zeros_like(pixels), "n": 3},
            {"block": [4, 16]},
            global_size=(17, 9),
            local_size="block, 1",
            reference={"to": pixels + 3},
        )

    first = shift("n")
    result = tuned(first, device)
    (trial,) = (trial for trial in result.trials if trial.config == {"block": 16})
    with ResultStore.default() as store:
        store.add(replace(trial, samples=(1e-9,) * 3))
    assert shift("n > 2").explain(device.info.id).config == {"block": 16}
    with pytest.warns(RuntimeWarning, match="allowed error"):
        assert shift("get_local_id(0) < 8").explain(device.info.id).config == {"block": 4}
    assert runs == [3, 3]


# Awkward arguments


def further(*sizes: int) -> list[Any]:
    rng = np.random.default_rng(new_seed("awkward"))
    return [(rng.random(n, np.float32), np.zeros(n, np.float32), n) for n in sizes]


def test_a_variant_that_is_right_by_luck_is_found(device: Device, runs: list[int]) -> None:
    x = np.ones(1024, np.float32)
    whole: dict[str, Any] = {"arguments": (x, 0 * x, 1024), "source": TWICE.replace("RIGHT", "i - get_local_id(0) + block <= n")}
    lucky = tuned(twice(**whole), device)
    assert "verified only on the arguments of its definition" in str(lucky)
    with pytest.raises(NoValidVariantError, match="n=1001: y"):
        tuned(twice(**whole, awkward=further(1001)), device)
    checked = tuned(twice(awkward=[*further(1, 37), {"y": np.zeros(5, np.float32), "x": np.ones(5, np.float32), "n": 5}]), device)
    assert "verified on 4 sets of arguments" in str(checked)
    assert checked.best.certificate is not None
    assert [check.sizes["n"] for check in checked.best.certificate.checks] == [1, 37, 5, N]
    won(device)
    with pytest.warns(RuntimeWarning, match="allowed error"):
        assert twice(**whole, awkward=further(1001)).explain(device.info.id).config == SLOW
    assert runs == [1024, 1001]


def test_mistakes_in_awkward_arguments() -> None:
    for changes, message in (
        ({"awkward": further(9, 9)}, r"awkward\[1\] of twice has the same sizes"),
        ({"awkward": further(N)}, r"awkward\[0\]"),
        ({"awkward": further(9)[0]}, "a list of arguments for calls of twice"),
        ({"awkward": [further(9)[0][:2]]}, "n is missing"),
        ({"awkward": [(np.ones(9, np.float32), [0], 9)]}, "pass a NumPy array, not a list"),
        ({"awkward": further(9), "reference": np.zeros(N)}, "a callable as the reference"),
    ):
        with pytest.raises(ArgumentError, match=message):
            twice(**changes)
    assert twice(awkward=further(9)).problem().key != twice().problem().key
    assert twice(awkward=()).problem().key == twice().problem().key
