"""Operands that matrix units cannot take as they lie are copied first: which, and bit for bit."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from portatile.device.cuda.info import capabilities
from portatile.records import Launch, Layout
from portatile.workloads.gemm.forms.hopper import point as hopper
from portatile.workloads.gemm.storage import k_fast
from support.matrix_units import HOPPER, OPENCL, WORKLOAD, launches, needs_nvrtc, problem
from support.ptx_machine.device import INFO, PtxDevice
from support.seeds import new_seed


@pytest.mark.parametrize(("dtype", "trans"), list(itertools.product(("float16", "int8"), ("NN", "NT", "TN", "TT"))))
def test_operands_that_units_cannot_take_are_copied_first(dtype: str, trans: str) -> None:
    """Bytes with k slow, and rows that are not aligned to 16 bytes: both operands by one launch."""
    case, point = problem(256, dtype, trans), hopper.tile(128, 128, 4)
    slow = dtype == "int8" and (trans[0] == "T" or trans[1] == "N")
    assert [step.kernel for step in launches(case, point)] == ["gemm_lines"] * slow + ["gemm"]
    odd = {name: Layout((257, 1)) if name != "c" else layout for name, layout in case.layout.items()}
    assert [step.kernel for step in launches(replace(case, layout=odd), point)] == ["gemm_lines", "gemm"]


@needs_nvrtc
@pytest.mark.parametrize(("dtype", "trans"), [("int8", "NN"), ("bfloat16", "TN"), ("tfloat32", "NT")])
def test_rows_that_begin_anywhere_are_copied_bit_for_bit(dtype: str, trans: str) -> None:
    """To lines along k with zeros behind them; what lies beside an operand is not read: it ends with its last element."""
    kind = np.dtype({"int8": np.int8, "bfloat16": np.uint16, "tfloat32": np.uint32}[dtype])
    rng = np.random.default_rng(new_seed(dtype + trans))
    sizes = {name: int(rng.integers(1, most // kind.itemsize)) for name, most in (("m", 40), ("n", 40), ("k", 160))}
    case = WORKLOAD.problem(sizes, dtype, {"trans_a": trans[0], "trans_b": trans[1]})
    shapes = {name: WORKLOAD.shapes(case)[name] for name in "ab"}
    places = {name: (int(rng.integers(3)), columns + 1 + columns % 2) for name, (_, columns) in shapes.items()}
    case = replace(case, layout={**case.layout, **{name: Layout((stride, 1), first) for name, (first, stride) in places.items()}})
    copy = launches(case, hopper.tile(128, 128, 4))[0]
    pitch = next(int(arg.value or 0) for arg in copy.args if arg.name == "pitch")
    device = PtxDevice(replace(INFO, architecture="sm_90", capabilities=capabilities("sm_90")))
    queue, values, expected = device.default_queue(), {}, {}
    for name, (rows, columns) in shapes.items():
        first, stride = places[name]
        stored = rng.integers(0, 100, first + (rows - 1) * stride + columns).astype(kind)
        matrix = np.lib.stride_tricks.as_strided(stored[first:], (rows, columns), (stride * kind.itemsize, kind.itemsize))
        lines = matrix if k_fast(case, name) else matrix.T
        expected[name] = np.zeros((len(lines), pitch), kind)
        expected[name][:, : sizes["k"]] = lines
        values[name], values[f"{name}_lines"] = device.allocate(stored.nbytes), device.allocate(expected[name].nbytes)
        queue.upload(values[name], stored)
        queue.fill(values[f"{name}_lines"], b"\x7f\x7f\x7f\x7f")
    args = [
        values[arg.name] if arg.kind == "buffer" else np.dtype(arg.dtype).type(1 if arg.value is None else arg.value) for arg in copy.args
    ]
    kernel = device.load(device.target.compile(*device.target.lower(copy.source))).kernel("gemm_lines")
    queue.launch(kernel, copy.global_size, copy.local_size, args)
    for name, lines in expected.items():
        got = np.empty_like(lines)
        queue.download(got, values[f"{name}_lines"])
        assert (got == lines).all(), f"{name} of {sizes}"


@needs_nvrtc
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


def test_operands_are_copied_to_aligned_rows_where_groups_cannot_share() -> None:
    """By one launch. None is where rows are aligned, or A and B are small."""
    for size, device, expected in ((3000, OPENCL, "b"), (3008, OPENCL, "none"), (3000, HOPPER, "none"), (504, OPENCL, "none")):
        config = WORKLOAD.default(problem(size, "bfloat16"), device)
        assert config["ALIGNED"] == expected
        assert WORKLOAD.space(problem(size, "bfloat16"), device).violated(config) is None
        steps = [step.kernel for step in WORKLOAD.plan(problem(size, "bfloat16"), config, device).steps if isinstance(step, Launch)]
        assert steps == ["gemm_aligned"] * (expected != "none") + ["gemm"]
