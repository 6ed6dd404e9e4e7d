"""The forms of GEMM on matrix units without a device: what they compile to, which operands are copied first, what a default chooses."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from portatile import workloads
from portatile.capabilities import of_nvidia, with_warp_groups
from portatile.device.amdgcn import compiler as amd
from portatile.device.base import Memory, Slot
from portatile.device.cuda import compiler, packed
from portatile.device.cuda import device as cuda_device
from portatile.device.cuda.info import capabilities
from portatile.device.target import EARLY_START
from portatile.errors import ArgumentError, DeviceNotFoundError
from portatile.records import DeviceInfo, Launch, Layout, Problem, TensorMap
from portatile.workloads.gemm import forms, plan, storage, units
from portatile.workloads.gemm.forms.hopper import point as hopper
from portatile.workloads.gemm.forms.matrix import point as matrix
from portatile.workloads.gemm.point import Point
from support.checking import check
from support.devices import on_paper
from support.ptx_machine.device import INFO, PtxDevice
from support.seeds import new_seed

WORKLOAD = workloads.get("gemm")
HOPPER = replace(on_paper("gpu"), capabilities=capabilities("sm_90"))
AMPERE = replace(on_paper("gpu", "sm_80"), capabilities=capabilities("sm_80"))
OPENCL = replace(on_paper("gpu"), backend="opencl", capabilities=with_warp_groups(of_nvidia("sm_90"), "sm_90"))


def problem(size: int, dtype: str, trans: str = "NN") -> Problem:
    return WORKLOAD.problem({"m": size, "n": size, "k": size}, dtype, {"trans_a": trans[0], "trans_b": trans[1]})


def launches(case: Problem, point: Point) -> list[Launch]:
    return [step for step in WORKLOAD.plan(case, point.config(), HOPPER).steps if isinstance(step, Launch)]


def number(step: Launch, name: str) -> int:
    """The value of a scalar."""
    return next(int(arg.value) for arg in step.args if arg.name == name and arg.value is not None)


def product(case: Problem, point: Point, device: DeviceInfo) -> Launch:
    """The launch that multiplies."""
    return next(step for step in WORKLOAD.plan(case, point.config(), device).steps if isinstance(step, Launch) and step.kernel == "gemm")


@pytest.mark.skipif(compiler.available() is not None, reason="NVRTC is missing")
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


@pytest.mark.skipif(compiler.available() is not None, reason="NVRTC is missing")
@pytest.mark.parametrize(("dtype", "trans"), [("bfloat16", "NN"), ("float16:float32", "TT"), ("int8", "NT")])
def test_fragments_are_multiplied_by_the_units(dtype: str, trans: str) -> None:
    source = product(problem(512, dtype, trans), matrix.tile((2, 2), (2, 2), 4), AMPERE).source
    target = compiler.target("sm_80", "ptx")
    binary = target.compile(*target.lower(source))
    text = target.assembly(binary)
    assert binary.resources["gemm"].spill_stores == 0
    assert "cp.async.cg" in text
    assert {"bfloat16": "m16n8k16.row.col.f32.bf16", "float16:float32": "m16n8k16.row.col.f32.f16", "int8": "m16n8k32"}[dtype] in text
    assert (".x4.trans" in text) == (dtype != "int8")  # k slow somewhere


@pytest.mark.skipif(compiler.available() is not None, reason="NVRTC is missing")
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


INTERPRETED = {
    "sums of bfloat16, k slow": ("bfloat16", "TN", {}, "sm_90"),
    "int8 that becomes half precision": ("int8:float16", "NT", {"scale_a": "rows", "scale_b": "columns", "bias": "rows"}, "sm_90"),
    "eight bits, promoted": ("float8_e4m3fn", "NT", {}, "sm_90"),
    "eight bits, promoted and scaled": ("float8_e5m2:bfloat16", "NT", {"scale_b": "columns", "activation": "relu"}, "sm_90"),
    "eight bits as halves": ("float8_e4m3fn:bfloat16", "NT", {}, "sm_80"),
}


@pytest.mark.drawn(1 / 4)
@pytest.mark.skipif(compiler.available() is not None, reason="NVRTC is missing")
@pytest.mark.parametrize("name", INTERPRETED)
def test_fragments_are_right_in_an_interpreter(name: str) -> None:
    """Which cuts the sums of eight-bit floats as the units do, so that the bound is tested too."""
    dtype, trans, options, architecture = INTERPRETED[name]
    rng = np.random.default_rng(new_seed(name))
    workload = workloads.get("gemm_epilogue" if options else "gemm")
    sizes = {"m": 20, "n": 24, "k": 130 if dtype.startswith("float8") else 70}
    case = workload.problem(sizes, dtype, {"trans_a": trans[0], "trans_b": trans[1], **options})
    point = matrix.tile((2, 1), (2, 4), 2)
    if dtype.startswith("float8"):
        point = replace(point, PROMOTE=units.PROMOTED)
    device = replace(INFO, architecture=architecture, capabilities=capabilities(architecture))
    verdict = check(PtxDevice(device), workload, case, point.config(), rng)
    assert verdict.ok, verdict.message


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


def test_tiles_of_any_width_need_operands_along_k() -> None:
    """What is copied across k comes 128 bytes at a time."""
    narrow = hopper.tile(128, 176, 4)
    assert launches(problem(512, "bfloat16", "NT"), narrow)
    assert launches(problem(512, "int8", "NN"), narrow)  # copied along k first
    with pytest.raises(ArgumentError, match="multiple of 4"):
        launches(problem(512, "bfloat16", "NN"), narrow)


def test_defaults_overlap_stores_of_short_sums_and_join_few_tiles() -> None:
    def chosen(dtype: str, trans: str, m: int, n: int, k: int) -> dict[str, object]:
        options = {"trans_a": trans[0], "trans_b": trans[1]}
        return dict(WORKLOAD.default(WORKLOAD.problem({"m": m, "n": n, "k": k}, dtype, options), HOPPER))

    assert chosen("bfloat16", "NN", 4096, 4096, 512)["ALTERNATE"]
    assert not chosen("bfloat16", "NN", 4096, 4096, 4096)["ALTERNATE"]
    assert not chosen("tfloat32", "NN", 4096, 4096, 512)["ALTERNATE"]
    few = chosen("bfloat16", "NN", 128, 2048, 4096)
    assert (few["JOIN"], few["SPLIT_K"]) == (True, 2)
    assert chosen("bfloat16", "NN", 64, 4096, 4096)["SPLIT_K"] == 1  # memory is read no faster by more groups
    assert chosen("float8_e4m3fn:bfloat16", "NT", 4096, 4096, 4096)["TCR"] == 11  # six turns of all multiprocessors, not seven


@pytest.mark.parametrize(("dtype", "trans"), list(itertools.product(("float16", "int8"), ("NN", "NT", "TN", "TT"))))
def test_operands_that_units_cannot_take_are_copied_first(dtype: str, trans: str) -> None:
    """Bytes with k slow, and rows that are not aligned to 16 bytes: both operands by one launch."""
    case, point = problem(256, dtype, trans), hopper.tile(128, 128, 4)
    slow = dtype == "int8" and (trans[0] == "T" or trans[1] == "N")
    assert [step.kernel for step in launches(case, point)] == ["gemm_lines"] * slow + ["gemm"]
    odd = {name: Layout((257, 1)) if name != "c" else layout for name, layout in case.layout.items()}
    assert [step.kernel for step in launches(replace(case, layout=odd), point)] == ["gemm_lines", "gemm"]


@pytest.mark.skipif(compiler.available() is not None, reason="NVRTC is missing")
@pytest.mark.parametrize(("dtype", "trans", "names"), [("bfloat16", "NN", "b"), ("int8", "NT", "ab"), ("float16", "TT", "ab")])
def test_rows_that_memory_does_not_read_whole_are_copied_to_aligned_ones(dtype: str, trans: str, names: str) -> None:
    """Bit for bit, by one launch; what lies past their ends is not read: an operand ends with its last element."""
    kind = np.dtype(np.int8 if dtype == "int8" else np.uint16)
    case = WORKLOAD.problem({"m": 21, "n": 37, "k": 1000 // kind.itemsize + 3}, dtype, {"trans_a": trans[0], "trans_b": trans[1]})
    shapes, first = {name: WORKLOAD.shapes(case)[name] for name in names}, 16 // kind.itemsize
    strides = {name: (columns * kind.itemsize // 32 * 2 + 3) * first for name, (_, columns) in shapes.items()}
    case = replace(case, layout={**case.layout, **{name: Layout((stride, 1), first) for name, stride in strides.items()}})
    copy, step = (one for one in launches(case, replace(hopper.tile(128, 128, 4), ALIGNED=names)) if one.kernel in ("gemm_aligned", "gemm"))
    pitches = dict(zip(names, (int(arg.value or 0) for arg in copy.args if arg.name == "pitch"), strict=True))
    assert [arg.value for arg in step.args if arg.name == "ld"][-len(names) - 1 : -1] == list(pitches.values())
    rng = np.random.default_rng(new_seed(dtype + trans))
    device = PtxDevice(replace(INFO, architecture="sm_90", capabilities=capabilities("sm_90")))
    queue, values, stored = device.default_queue(), {}, {}
    for name, (rows, columns) in shapes.items():
        stored[name] = rng.integers(0, 100, first + (rows - 1) * strides[name] + columns).astype(kind)
        values[name], values[f"{name}_aligned"] = (device.allocate(n) for n in (stored[name].nbytes, rows * pitches[name] * kind.itemsize))
        queue.upload(values[name], stored[name])
        queue.fill(values[f"{name}_aligned"], b"\x7f\x7f")
    args = [
        values[arg.name] if arg.kind == "buffer" else np.dtype(arg.dtype).type(1 if arg.value is None else arg.value) for arg in copy.args
    ]
    kernel = device.load(device.target.compile(*device.target.lower(copy.source))).kernel("gemm_aligned")
    queue.launch(kernel, copy.global_size, copy.local_size, args)
    for name, (rows, columns) in shapes.items():
        assert pitches[name] * kind.itemsize % 128 == 0
        got = np.empty((rows, pitches[name]), kind)
        queue.download(got, values[f"{name}_aligned"])
        steps = strides[name] * kind.itemsize, kind.itemsize
        assert (got[:, :columns] == np.lib.stride_tricks.as_strided(stored[name][first:], (rows, columns), steps)).all()
        assert (got[:, columns:].view(np.uint8) == 0x7F).all()


@pytest.mark.parametrize(("dtype", "instructions"), [("float16", "v_wmma_f32_16x16x16_f16"), ("int8", "v_wmma_i32_16x16x16_iu8")])
def test_fragments_become_amds_instructions(dtype: str, instructions: str) -> None:
    try:
        target = amd.target("gfx1100")
    except DeviceNotFoundError as error:
        pytest.skip(str(error))
    device = replace(on_paper("gpu"), backend="opencl", local_memory=65536)
    source = product(problem(500, dtype, "NT"), matrix.tile((2, 2), (2, 2), 2), device).source
    assert instructions in target.assembly(target.compile(*target.lower(source)))


@pytest.mark.skipif(compiler.available() is not None, reason="NVRTC is missing")
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
    many = plan.build(case, point, HOPPER, storage.Batch(5, 1000 * 1000, 0, 1000 * 1000))  # all problems share B
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


@pytest.mark.skipif(compiler.available() is not None, reason="NVRTC is missing")
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


def test_groups_share_what_they_read_where_rows_are_less_aligned() -> None:
    """1,000 numbers of 16 bits are no whole sectors of 32 bytes."""
    for size, device, cluster in ((1000, HOPPER, 2), (1008, HOPPER, 1), (1001, HOPPER, 1), (1000, OPENCL, 1)):
        config = WORKLOAD.default(problem(size, "bfloat16"), device)
        assert config["CLUSTER"] == cluster
        assert WORKLOAD.space(problem(size, "bfloat16"), device).violated(config) is None
    stored = Layout((1024, 1))
    padded = replace(problem(1000, "bfloat16"), layout=dict.fromkeys("abc", stored))
    assert WORKLOAD.default(padded, HOPPER)["CLUSTER"] == 1


def test_operands_are_copied_to_aligned_rows_where_groups_cannot_share() -> None:
    """By one launch. None is where rows are aligned, or A and B are small."""
    for size, device, expected in ((3000, OPENCL, "ab"), (3008, OPENCL, "none"), (3000, HOPPER, "none"), (504, OPENCL, "none")):
        config = WORKLOAD.default(problem(size, "bfloat16"), device)
        assert config["ALIGNED"] == expected
        assert WORKLOAD.space(problem(size, "bfloat16"), device).violated(config) is None
        steps = [step.kernel for step in WORKLOAD.plan(problem(size, "bfloat16"), config, device).steps if isinstance(step, Launch)]
        assert steps == ["gemm_aligned"] * (expected == "ab") + ["gemm"]


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


def test_large_products_have_clusters() -> None:
    """Where rows are aligned, too; small ones and those of eight-bit floats have none, and OpenCL has none at all."""
    chosen = [WORKLOAD.default(problem(size, dtype), HOPPER)["CLUSTER"] for dtype, size in (("bfloat16", 4096), ("bfloat16", 1024))]
    assert chosen == [2, 1]
    assert WORKLOAD.default(problem(4096, "float8_e4m3fn:bfloat16", "NT"), HOPPER)["CLUSTER"] == 1
    assert WORKLOAD.default(problem(4096, "bfloat16"), OPENCL)["CLUSTER"] == 1


def test_tiles_of_192_columns_where_they_fill_the_device() -> None:
    """3072^3: 384 tiles of 128 x 192 on 132 multiprocessors in three rounds, where 288 of 128 x 256 take three, too."""
    config = WORKLOAD.default(problem(3072, "bfloat16"), HOPPER)
    assert (config["TBR"], config["TRR"], config["TCR"]) == (2, 1, 12)


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


def test_a_default_is_legal_and_uses_what_the_device_has() -> None:
    for dtype, size in itertools.product(("bfloat16", "float16:float32", "int8"), (64, 500, 1024, 4096)):
        case = problem(size, dtype, "NT")
        for device, expected in ((HOPPER, {"hopper", "matrix"}), (AMPERE, {"matrix"}), (OPENCL, {"hopper", "matrix"})):
            config = WORKLOAD.default(case, device)
            assert config["FORM"] in expected
            assert WORKLOAD.space(case, device).violated(config) is None
            assert WORKLOAD.plan(case, config, device).steps
    assert WORKLOAD.default(problem(4096, "bfloat16"), HOPPER)["FORM"] == "hopper"
    assert WORKLOAD.default(problem(4096, "float32"), HOPPER)["FORM"] == "gpu"


@pytest.mark.parametrize(("name", "dtype"), [("gemm", "float8_e4m3fn"), ("gemm_blocks", "float8_e5m2:bfloat16")])
def test_sums_of_eight_bits_are_promoted(name: str, dtype: str) -> None:
    """A configuration that does not is refused, as one is that promotes others."""
    workload = workloads.get(name)
    for device, size in itertools.product((HOPPER, OPENCL), (100, 1000, 4096)):
        case = workload.problem(dict.fromkeys("mnk", size), dtype, {"trans_b": "T"})
        config = workload.default(case, device)
        assert config["FORM"] in ("hopper", "matrix")
        assert config["PROMOTE"] == units.PROMOTED
        assert workload.space(case, device).violated(config) is None
        with pytest.raises(ArgumentError, match="must be promoted"):
            workload.plan(case, {**config, "PROMOTE": 0}, device)
        assert workload.bound(case, config) < 0.035
    assert WORKLOAD.default(problem(1000, "float8_e4m3fn", "NT"), AMPERE)["FORM"] not in ("hopper", "matrix")
    with pytest.raises(ArgumentError, match="must be promoted"):
        WORKLOAD.plan(problem(128, "bfloat16"), replace(hopper.tile(128, 128, 4), PROMOTE=units.PROMOTED).config(), HOPPER)


@pytest.mark.skipif(compiler.available() is not None, reason="NVRTC is missing")
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


def test_other_types_are_refused() -> None:
    for point in (matrix.tile((2, 2), (2, 2), 4), hopper.tile(128, 128, 4)):
        with pytest.raises(ArgumentError, match="multiplies 16-bit and 8-bit floats, tfloat32 and int8"):
            WORKLOAD.plan(problem(128, "float32"), point.config(), HOPPER)
    with pytest.raises(ArgumentError, match="whole 64s"):
        forms.read({**matrix.tile((2, 2), (2, 2), 4).config(), "TRR": 1})
