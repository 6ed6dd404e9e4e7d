"""What of the CUDA back end needs no GPU: NVRTC for any architecture, its report, and the packing of arguments."""

from __future__ import annotations

import ctypes
import struct

import numpy as np
import pytest

from portatile.device import ptxas
from portatile.device.cuda import compiler as cuda_compiler
from portatile.device.cuda.kernel import _Layout
from portatile.device.cuda.memory import CudaImage, CudaMemory
from portatile.errors import CompileError, DeviceNotFoundError
from portatile.records import Resources, Source

REASON = cuda_compiler.available()
needs_nvrtc = pytest.mark.skipif(REASON is not None, reason=f"no NVRTC: {REASON}")

TEXT = """
extern "C" __global__ void __launch_bounds__(128) first(float *a, int n, const double s)
{
    __shared__ float part[100];
    part[threadIdx.x] = a[n];
    __syncthreads();
    a[threadIdx.x] = part[99 - threadIdx.x] * FACTOR + s;
}
extern "C" __global__ void second() {}
"""
LOG = """ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'spilling' for 'sm_90'
ptxas info    : Function properties for spilling
    40 bytes stack frame, 36 bytes spill stores, 32 bytes spill loads
ptxas info    : Used 255 registers, used 1 barriers, 49152 bytes smem, 400 bytes cmem[0]
ptxas info    : Compiling entry function 'plain' for 'sm_90'
ptxas info    : Function properties for helper
    8 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Function properties for plain
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 12 registers
"""


def test_report_of_the_assembler() -> None:
    assert ptxas.parse(LOG) == {"spilling": Resources(255, 36, 32, 49152, 40), "plain": Resources(12, 0, 0, 0, 0)}
    assert ptxas.parse("nothing of the kind") == {}


@needs_nvrtc
@pytest.mark.parametrize("architecture", ["sm_80", "sm_90", "sm_90a", "sm_120"])
def test_compiles_without_a_gpu(architecture: str) -> None:
    binary = cuda_compiler.target(architecture).compile(Source("f.cu", TEXT, (("FACTOR", "(1 + 2)"),)))
    assert binary.kind == "cubin"
    assert binary.data[:4] == b"\x7fELF"
    first, second = binary.entries
    assert (first.name, [p.kind for p in first.parameters]) == ("first", ["buffer", "scalar", "scalar"])
    assert (second.name, second.parameters) == ("second", ())
    assert binary.resources["first"].local_memory == 400
    assert binary.resources["first"].registers > 0
    assert binary.resources["first"].spill_stores == 0


@needs_nvrtc
def test_ptx_is_text_for_the_architecture() -> None:
    binary = cuda_compiler.target("sm_80", "ptx").compile(Source("f.cu", TEXT, (("FACTOR", "3"),)))
    assert binary.kind == "ptx"
    assert ".target sm_80" in binary.data.decode()
    own = cuda_compiler.target("sm_80", "ptx").compile(Source("f.cu", TEXT, (("FACTOR", "3"),), ("-arch=sm_90a",)))
    assert ".target sm_90a" in own.data.decode()


@needs_nvrtc
def test_required_work_group_is_read() -> None:
    text = 'extern "C" __global__ __block_size__((8, 4, 2)) void f() {}'
    (entry,) = cuda_compiler.target("sm_90").compile(Source("f.cu", text)).entries
    assert entry.work_group == (8, 4, 2)


@needs_nvrtc
def test_error_has_file_line_and_log() -> None:
    with pytest.raises(CompileError, match="does not build for sm_90") as raised:
        cuda_compiler.target("sm_90").compile(Source("mine.cu", 'extern "C" __global__ void f()\n{\n    missing;\n}\n'))
    assert "mine.cu(3)" in raised.value.log


@needs_nvrtc
def test_unknown_architecture_raises() -> None:
    with pytest.raises(DeviceNotFoundError, match="sm_90"):
        cuda_compiler.target("hopper")
    with pytest.raises(DeviceNotFoundError, match="sm_90"):
        cuda_compiler.target("sm_11")
    with pytest.raises(CompileError):
        cuda_compiler.CudaTarget("sm_11").compile(Source("f.cu", TEXT, (("FACTOR", "3"),)))


@needs_nvrtc
def test_damaged_cubin_is_seen() -> None:
    data = cuda_compiler.target("sm_90").compile(Source("f.cu", TEXT, (("FACTOR", "3"),))).data
    assert cuda_compiler.is_whole(data)
    for damaged in (data[:-1], data[: len(data) // 2], b"", data[:63], b"x" * len(data)):
        assert not cuda_compiler.is_whole(damaged)


def test_arguments_lie_where_the_driver_looks() -> None:
    """Memory first, then scalars, local offsets, images and structures; each aligned as its type asks, found through its pointer."""
    kinds = [np.int32, CudaMemory, np.float64, np.void, int, CudaImage, np.float16, CudaMemory, np.uint8]
    layout = _Layout(kinds, ["i", "Q", "d", "3s", "I", "QQiiii", "e", "Q", "B"])
    scalars = (np.int32(-3), np.float64(0.5), np.float16(1.5), np.uint8(7))
    layout.struct.pack_into(layout.block, 0, 11, 22, *scalars, 128, 31, 32, 33, 34, 35, 36, b"abc")
    codes = [("i", -3), ("Q", 11), ("d", 0.5), ("3s", b"abc"), ("I", 128), ("QQiiii", 31), ("e", 1.5), ("Q", 22), ("B", 7)]
    for pointer, (code, value) in zip(layout.pointers, codes, strict=True):
        raw = ctypes.string_at(pointer, struct.calcsize(code))
        assert struct.unpack(code, raw)[0] == value
        assert code == "3s" or pointer % struct.calcsize(code[0]) == 0
