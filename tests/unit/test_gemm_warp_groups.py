"""The form of GEMM on Hopper's warp groups: what it compiles to, its tensor maps, groups, clusters and counters."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from portatile import workloads
from portatile.device.base import Memory
from portatile.device.cuda import compiler, packed
from portatile.device.cuda import device as cuda_device
from portatile.device.launches import Slot
from portatile.device.target import EARLY_START
from portatile.errors import ArgumentError
from portatile.records import Launch, TensorMap
from portatile.workloads.gemm import plan, storage, units
from portatile.workloads.gemm.extras import Extras
from portatile.workloads.gemm.forms.hopper import point as hopper
from portatile.workloads.gemm.point import Point
from support.matrix_units import HOPPER, OPENCL, WORKLOAD, launches, needs_nvrtc, problem, product


@needs_nvrtc
def test_warp_groups_end_with_an_epilogue() -> None:
    workload = workloads.get("gemm_epilogue")
    case = workload.problem({"m": 500, "n": 500, "k": 500}, "int8:bfloat16", {"scale_a": "rows", "bias": "columns", "activation": "gelu"})
    step = next(
        step
        for step in workload.plan(case, hopper.tile(128, 128, 4).config(), HOPPER).steps
        if isinstance(step, Launch) and step.kernel == "gemm"
    )
    target = compiler.target("sm_90")
    binary = target.compile(*target.lower(step.source))
    assert binary.resources["gemm"].spill_stores == 0
    assert "serialized" not in binary.log


@pytest.mark.drawn(1)
@needs_nvrtc
@pytest.mark.parametrize(
    ("dtype", "trans", "point"),
    [
        ("bfloat16", "TN", hopper.tile(128, 256, 4)),
        ("int8", "NT", hopper.tile(64, 128, 4)),
        ("float8_e4m3fn:bfloat16", "NT", replace(hopper.tile(128, 176, 4), MAPS=1, PROMOTE=units.PROMOTED)),
        ("bfloat16", "NN", replace(hopper.tile(256, 128, 6, blocks=2), MAPS=1, ALTERNATE=True)),
        ("float16", "NN", replace(hopper.tile(128, 128, 4), MAPS=1, SPLIT_K=2, JOIN=True)),
    ],
)
def test_warp_groups_multiply_without_spills_and_without_waiting_for_each_product(dtype: str, trans: str, point: Point) -> None:
    source = product(problem(1000, dtype, trans), point, HOPPER).source
    target = compiler.target("sm_90")
    binary = target.compile(*target.lower(source))
    assert binary.resources["gemm"].spill_stores == 0
    assert "serialized" not in binary.log


@needs_nvrtc
@pytest.mark.parametrize("name", [pytest.param("gemm"), pytest.param("gemm_blocks", marks=pytest.mark.drawn(1 / 2))])
def test_promoted_sums_fit_the_registers(name: str) -> None:
    workload = workloads.get(name)
    case = workload.problem(dict.fromkeys("mnk", 4096), "float8_e4m3fn:bfloat16", {"trans_b": "T"})
    step = workload.plan(case, workload.default(case, HOPPER), HOPPER).steps[0]
    assert isinstance(step, Launch)
    target = compiler.target("sm_90")
    binary = target.compile(*target.lower(step.source))
    assert binary.resources["gemm"].spill_stores == 0
    assert "serialized" not in binary.log


@needs_nvrtc
@pytest.mark.parametrize("trans", ["NN", "TT", "TN"])
def test_of_four_bytes_one_operand_with_slow_k_goes_to_registers(trans: str) -> None:
    """So that no copy of it is made first; of a B with slow k the transpose is computed."""
    case = problem(1000, "tfloat32", trans)
    config = WORKLOAD.default(case, HOPPER)
    assert config["TURN"] == (trans == "NN")
    assert WORKLOAD.space(case, HOPPER).violated(config) is None
    steps = [step for step in WORKLOAD.plan(case, config, HOPPER).steps if isinstance(step, Launch)]
    assert [step.kernel for step in steps] == ["gemm_lines"] * (trans == "TN") + ["gemm"]
    source = product(case, hopper.Hopper(**{**hopper.tile(128, 256, 4).values(), "TURN": config["TURN"]}), HOPPER).source  # type: ignore[arg-type]
    target = compiler.target("sm_90")
    binary = target.compile(*target.lower(source))
    assert binary.resources["gemm"].spill_stores == 0
    assert "serialized" not in binary.log


def test_tiles_of_any_width_need_operands_along_k() -> None:
    """What is copied across k comes 128 bytes at a time."""
    narrow = hopper.tile(128, 176, 4)
    assert launches(problem(512, "bfloat16", "NT"), narrow)
    assert launches(problem(512, "int8", "NN"), narrow)  # copied along k first
    with pytest.raises(ArgumentError, match="multiple of 4"):
        launches(problem(512, "bfloat16", "NN"), narrow)


@needs_nvrtc
def test_the_host_makes_maps_of_operands_and_of_stacks_of_them() -> None:
    """Without spills, without products that wait for each other; maps are parameters, and nobody writes others to memory."""
    case = problem(1000, "bfloat16", "TN")
    point = replace(hopper.tile(128, 256, 4), MAPS=1)
    (step,) = WORKLOAD.plan(case, point.config(), HOPPER).steps
    assert isinstance(step, Launch)
    maps = {arg.name: arg.map for arg in step.args if arg.kind == "tensor_map"}
    one = TensorMap(2, 1000, 1000, 2000, 64, 64)
    assert maps == {"a": one, "b": one}
    target = compiler.target("sm_90")
    many = plan.build(case, point, HOPPER, Extras(storage.Batch(5, 1000 * 1000, 0, 1000 * 1000)))  # all problems share B
    (stacked,) = many.steps
    assert isinstance(stacked, Launch)
    maps = {arg.name: arg.map for arg in stacked.args if arg.kind == "tensor_map"}
    assert maps == {"a": replace(one, planes=5, step=2000 * 1000), "b": one}
    assert stacked.global_size == (132 * 384, 1, 1)  # groups go through all problems
    for launch in (step, stacked):
        binary = target.compile(*target.lower(launch.source))
        assert binary.resources["gemm"].spill_stores == 0
        assert "serialized" not in binary.log
        assert [parameter.name for parameter in binary.entries[0].parameters if parameter.kind == "tensor_map"] == ["a_map", "b_map"]
    with pytest.raises(ArgumentError, match="MAPS must be 0"):
        WORKLOAD.plan(case, point.config(), replace(OPENCL, capabilities=replace(OPENCL.can, tensor_maps=False)))
    with pytest.raises(ArgumentError, match="CLUSTER must be 1"):
        WORKLOAD.plan(case, hopper.tile(128, 256, 4, cluster=2).config(), OPENCL)


def test_tensor_maps_of_addresses_are_made_in_the_devices_context(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which a thread that launches for the first time does not have."""
    form, entered = TensorMap(2, 8, 8, 16, 64, 8), list[bool]()

    @contextmanager
    def current() -> Iterator[None]:
        entered.append(True)
        yield
        entered.pop()

    def encoded(address: int, form: TensorMap) -> bytes:
        assert entered
        return bytes([address]) * packed.SIZE

    for module in (packed, cuda_device):
        monkeypatch.setattr(module, "encoded", encoded)
    device: Any = SimpleNamespace(current=current)
    assert list(packed._writing(device, [Slot(1, Memory), Slot(0, form)])((7, 9))) == [9, bytes([7]) * 128]
    memory: Any = SimpleNamespace(handle=5)
    assert cuda_device.CudaDevice.tensor_map(device, memory, form).tobytes() == bytes([5]) * 128


def test_the_last_group_of_each_tile_counts_its_own() -> None:
    """Also where groups go through more tiles than there are groups, and those of all problems of a stack."""
    point = replace(hopper.tile(64, 64, 4), MAPS=1, SPLIT_K=4, JOIN=True)
    stacks = workloads.get("gemm_batched")
    stack = stacks.problem({"batch": 3, "m": 640, "n": 650, "k": 512}, "bfloat16", {"trans_a": "N", "trans_b": "N"})
    for made, tiles in (
        (WORKLOAD.plan(problem(1000, "bfloat16"), point.config(), HOPPER), 16 * 16),
        (stacks.plan(stack, point.config(batched=True), HOPPER), 3 * 10 * 11),
    ):
        last = made.steps[-1]
        assert isinstance(last, Launch)
        assert last.kernel == "gemm"  # which nothing follows
        sizes = {one.name: (one.nbytes, one.zeroed) for one in made.temporaries}
        assert sizes["planes"] == (tiles * 4 * 64 * 64 * 4, False)
        assert sizes["counters"] == (4 * tiles, True)


def test_many_groups_share_a_long_sum_and_the_sum_of_theirs() -> None:
    """As many loads run ahead of a sum as planes are added, 16 at most."""
    case = WORKLOAD.problem({"m": 64, "n": 64, "k": 65536}, "bfloat16")
    assert WORKLOAD.default(case, HOPPER)["SPLIT_K"] == 128
    for parts, ahead, shares in ((128, 16, 8), (64, 16, 4), (8, 8, 1), (2, 2, 1)):
        last = launches(case, replace(hopper.tile(64, 64, 8), SPLIT_K=parts))[-1]
        assert last.kernel == "gemm_reduce"
        assert last.local_size[1] == shares
        assert f"#pragma unroll {ahead}\n" in last.source.text
        assert EARLY_START in last.source.options
        assert "AFTER_PREVIOUS();" in last.source.text


def test_groups_go_from_tile_to_tile() -> None:
    launch = product(problem(4096, "bfloat16"), hopper.tile(128, 256, 4), HOPPER)
    assert launch.global_size[0] == 132 * launch.local_size[0]
    assert launch.source.options == ("-arch=sm_90a", EARLY_START)


def test_there_are_no_more_clusters_than_run_at_the_same_time() -> None:
    for cluster, groups in ((1, 132), (2, 132), (4, 120)):
        launch = product(problem(4096, "bfloat16"), hopper.tile(128, 256, 4, cluster=cluster), HOPPER)
        assert launch.global_size[0] == groups * launch.local_size[0]
