"""A configuration on paper: what is rejected, what is accepted, and bounds that no run can be below."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from portatile import model, workloads
from portatile.model import Demand, Peaks, Screen, estimate, hopeless, impossible, least_seconds, occupancy
from portatile.records import Arg, DeviceInfo, Launch, Plan, Resources, Size3, Source, Temporary
from portatile.tuning.search.planner import Planner
from support.seeds import new_seed
from support.trials import DEVICE

GPU = replace(
    DEVICE,
    kind="gpu",
    backend="cuda",
    architecture="sm_90",
    vendor="NVIDIA Corporation",
    local_memory=227 << 10,
    compute_units=132,
    max_work_item_sizes=(1024, 1024, 64),
)


def launch(items: int = 256, groups: int = 1000, local: int = 0, size: Size3 | None = None) -> Launch:
    shape = size or (items, 1, 1)
    args = (Arg("x"), Arg("t", "local", value=local)) if local else (Arg("x"),)
    return Launch(Source("k.cl", ""), "k", (shape[0] * groups, shape[1], shape[2]), shape, args)


@pytest.mark.parametrize(
    ("plan", "reason"),
    [
        (Plan((launch(2048),)), "2048 work-items in a group, the device allows 1024"),
        (Plan((launch(size=(1, 1, 128)),)), "the device allows (1024, 1024, 64)"),
        (Plan((launch(local=1 << 20),)), "1048576 bytes of local memory, the device has"),
        (Plan((launch(),), (Temporary("w", 1 << 29),)), "workspace w has 536870912 bytes"),
        (Plan((launch(),), tuple(Temporary(f"w{n}", 1 << 28) for n in range(5))), "its workspace has 1342177280 bytes"),
    ],
)
def test_what_cannot_run_is_named(plan: Plan, reason: str) -> None:
    for device in (DEVICE, GPU):
        assert reason in (impossible(plan, device) or "")


def test_what_can_run_passes() -> None:
    plan = Plan((launch(1024), launch(local=16 << 10)), (Temporary("w", 1 << 28),))
    for device in (DEVICE, GPU, replace(DEVICE, max_allocation=0, global_memory=0)):  # 0: of a recorded device, not known
        assert impossible(plan, device) is None


@pytest.mark.parametrize(
    ("registers", "local", "items", "expected"),
    [
        (32, 0, 256, 1.0),  # 2048 of 2048
        (64, 0, 256, 0.5),
        (255, 0, 256, 0.125),
        (128, 0, 512, 0.25),
        (168, 0, 384, 0.1875),  # one group of 12 warps
        (40, 0, 1024, 0.5),  # one of 1024, a second does not fit
        (255, 0, 512, 0.0),
        (32, 100 << 10, 256, 0.25),  # two groups of 101 KiB in 228
        (32, 227 << 10, 256, 0.125),
        (16, 0, 32, 0.5),  # at most 32 groups
    ],
)
def test_occupancy_of_a_hopper_multiprocessor(registers: int, local: int, items: int, expected: float) -> None:
    used = Resources(registers, 0, 0, local_memory=local)
    assert occupancy(used, launch(items), GPU) == expected
    assert occupancy(used, launch(items), replace(GPU, architecture="sm_90a")) == expected
    half, rest = local // 2, local - local // 2
    if local:
        assert occupancy(Resources(registers, 0, 0, half), launch(items, local=rest), GPU) == expected


def test_occupancy_is_not_made_up() -> None:
    assert occupancy(Resources(), launch(), GPU) is None
    assert occupancy(Resources(64), launch(), DEVICE) is None


def test_what_is_compiled_is_judged_by_registers_memory_and_spills() -> None:
    plan = Plan((launch(512),))
    assert "no group of k fits" in (hopeless(plan, {"k": Resources(255, 0, 0, 0)}, GPU, Screen()) or "")
    assert hopeless(plan, {"k": Resources(128, 0, 0, 0)}, GPU, Screen()) is None
    assert "bytes of local memory, the device has 32768" in (hopeless(plan, {"k": Resources(local_memory=1 << 26)}, DEVICE, Screen()) or "")
    assert hopeless(plan, {"k": Resources(local_memory=1 << 15)}, DEVICE, Screen()) is None
    spilling = {"k": Resources(128, 200, 200, 0)}
    assert hopeless(plan, spilling, GPU, Screen(spill_free=False)) is None
    assert "spills 400 bytes" in (hopeless(plan, spilling, GPU, Screen(spill_free=True)) or "")
    assert hopeless(plan, {"k": Resources(128, 8, 8, 0)}, GPU, Screen(spill_free=True)) is None
    assert hopeless(plan, {}, GPU, Screen(spill_free=True)) is None


def test_opencl_of_nvidia_is_judged_by_what_the_chip_has() -> None:
    info: DeviceInfo = replace(GPU, backend="opencl", local_memory=48 << 10)
    assert hopeless(Plan((launch(),)), {"k": Resources(64, 0, 0, 200 << 10)}, info, Screen()) is None
    assert hopeless(Plan((launch(),)), {"k": Resources(64, 0, 0, 228 << 10)}, info, Screen()) is not None


def test_spills_are_known_or_not() -> None:
    assert model.spills({"k": Resources(10, 0, 0), "p": Resources(10, 0, 4)}) is True
    assert model.spills({"k": Resources(10, 0, 0)}) is False
    assert model.spills({"k": Resources(local_memory=4)}) is None
    assert model.spills({}) is None


def test_nothing_known_bounds_nothing() -> None:
    work = Demand(1e12, 1e12)
    assert least_seconds(work, Peaks()) == 0
    assert estimate(Plan((launch(),)), work, GPU, Peaks()) == 0


def test_bounds_are_a_roofline() -> None:
    peaks = Peaks(1e12, 1e11)
    assert least_seconds(Demand(2e12, 1.0), peaks) == 2
    assert least_seconds(Demand(1.0, 2e11), peaks) == 2
    assert least_seconds(Demand(1.0, 1e6), peaks) == 1e-12  # so little stays in a cache
    big = Temporary("w", 1 << 30)
    with_workspace = estimate(Plan((launch(),), (big,)), Demand(1.0, 2e11), GPU, peaks)
    assert with_workspace == pytest.approx(2 + 2 * (1 << 30) / 1e11)


def test_a_plan_of_few_groups_has_part_of_the_peak() -> None:
    peaks, work = Peaks(1e12, 0), Demand(1e12, 0)
    assert estimate(Plan((launch(groups=132),)), work, GPU, peaks) == 1
    assert estimate(Plan((launch(groups=33), launch(groups=66))), work, GPU, peaks) == 2
    assert estimate(Plan((launch(groups=1),)), work, replace(DEVICE, compute_units=8), peaks) == 2  # a part of a processor may run faster


def test_an_estimate_is_never_below_the_bound_of_the_work() -> None:
    seed = new_seed("draws")
    dice = np.random.default_rng(seed)
    for _ in range(300):
        work = Demand(*(10.0 ** dice.uniform(3, 14, 2)))
        peaks = Peaks(*(10.0 ** dice.uniform(9, 14, 2)))
        plan = Plan((launch(groups=int(dice.integers(1, 400))),), (Temporary("w", int(dice.integers(0, 1 << 31))),))
        for device in (DEVICE, GPU):
            result = estimate(plan, work, device, peaks)
            assert math.isfinite(result)
            assert result >= least_seconds(work, peaks) * (1 - 1e-12)


def test_what_wastes_lanes_or_loads_much_ranks_behind() -> None:
    work = Demand(1e12, 1e9, loads=1e11)
    full, single = (Plan((launch(items),)) for items in (256, 1))
    assert model.likely(single, work, GPU, 2.0) > model.likely(full, work, GPU, 2.0)  # 31 of 32 lanes idle
    assert model.likely(single, work, DEVICE, 2.0) == model.likely(full, work, DEVICE, 2.0)  # a processor's vectors lie within an item
    for worse in (replace(work, loads=4e11), replace(work, waste=1.5)):
        assert model.likely(full, worse, GPU, 2.0) > model.likely(full, work, GPU, 2.0)


def test_the_ranking_knows_good_tiles_of_a_product() -> None:
    workload = workloads.get("gemm")
    problem = workload.problem({"m": 4096, "n": 4096, "k": 4096}, "float32")
    planner = Planner(workload, [problem], [], GPU)
    default = workload.default(problem, GPU)
    drawn = workload.space(problem, GPU).scatter(np.random.default_rng(0), 30)
    order = planner.ranked([*drawn, default])
    assert order.index(default) < len(order) // 5
    assert [config["FORM"] for config in order].index("cpu") > len(order) // 2
