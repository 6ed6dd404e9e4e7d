"""How arguments are packed for a CUDA kernel, without a GPU: kernels that NVRTC compiled, images and samplers made by hand."""

from __future__ import annotations

import ctypes
import struct
import threading
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from portatile.device.base import Argument
from portatile.device.cuda import compiler as cuda_compiler
from portatile.device.cuda.kernel import CudaKernel
from portatile.device.cuda.memory import CudaImage, CudaMemory
from portatile.errors import LaunchError
from portatile.images import ImageForm, Sampler
from portatile.records import Entry, Source

pytestmark = pytest.mark.skipif(cuda_compiler.available() is not None, reason=str(cuda_compiler.available()))

OWN = """
struct Image { unsigned long long texture, data; int width, height, pitch, channels; };
extern "C" __global__ void k(Image from, float *to, int n) { to[threadIdx.x] = from.width * n; }
"""
OPENCL = """
__kernel void k(read_only {type} p, sampler_t s, __global int *o, __local float *l, int n) {{ o[0] = n + get_image_width(p); l[0] = s; }}
"""
DEVICE: Any = SimpleNamespace(generation=0, info=SimpleNamespace(id="cuda:0"), free=lambda pointer, generation: None)


def kernel(entry: Entry) -> CudaKernel:
    """A kernel as the driver would have loaded it."""
    result = CudaKernel.__new__(CudaKernel)
    result.name, result.entry, result.device, result.lock = entry.name, entry, DEVICE, threading.Lock()
    result.layouts, result._sizes, result._opted = {}, None, 48 * 1024
    return result


def image(form: ImageForm) -> CudaImage:
    return CudaImage(DEVICE, 0x700, form, 512, 9 if form.type == "image2d_t" else None)


def packed(made: CudaKernel, args: list[Argument], formats: list[str]) -> list[tuple[Any, ...]]:
    """What the driver would read for each parameter, in the kernel's order."""
    made.pack(args)
    pointers = made.layouts[tuple(map(type, args))].pointers
    return [struct.unpack(f, ctypes.string_at(pointers[i] or 0, struct.calcsize(f))) for i, f in enumerate(formats)]


@pytest.fixture(autouse=True)
def without_a_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    """Images are dropped without asking a driver to destroy their texture."""
    monkeypatch.setattr(CudaImage, "release", lambda self: None)
    monkeypatch.setattr(CudaMemory, "release", lambda self: None)


def test_a_kernel_in_cuda_takes_an_image_by_value() -> None:
    """Nobody described its parameters: PTX only tells their bytes."""
    (entry,) = cuda_compiler.CudaTarget("sm_90", "ptx").compile(Source("own.cu", OWN)).entries
    assert [p.type for p in entry.parameters] == ["b8", "u64", "u32"]
    form = ImageForm("image2d_t", (5, 7, 4))
    result = packed(kernel(entry), [image(form), CudaMemory(DEVICE, 0x800, 64), np.int32(3)], ["QQiiii", "Q", "i"])
    assert result == [(9, 0x700, 7, 5, 512, form.code), (0x800,), (3,)]


@pytest.mark.parametrize(
    "form",
    [
        ImageForm("image1d_t", (7, 4)),
        ImageForm("image1d_buffer_t", (7, 4), "uint32"),
        ImageForm("image1d_array_t", (3, 7, 4), "float16"),
        ImageForm("image2d_t", (5, 7, 4)),
        ImageForm("image2d_array_t", (3, 5, 7, 1), "uint8", normalized=True),
        ImageForm("image3d_t", (3, 5, 7, 2)),
    ],
    ids=lambda form: form.type,
)
def test_every_image_is_the_struct_of_the_prelude(form: ImageForm) -> None:
    source, entries = cuda_compiler.CudaTarget("sm_90", "ptx").lower(Source("k.cl", OPENCL.format(type=form.type)))
    ptx = cuda_compiler.CudaTarget("sm_90", "ptx").compile(source, entries).data.decode()
    args: list[Argument] = [image(form), Sampler("edge", linear=True), CudaMemory(DEVICE, 0x800, 64), 100, np.int32(5)]
    flat = form.type == "image2d_t"
    result = packed(kernel(entries[0]), args, ["QQiiii" if flat else "QQiiiiiI", "I", "Q", "I", "i"])
    plane = (9 if flat else 0, 0x700, form.width, form.height, 512, form.code)
    assert result == [plane if flat else (*plane, form.depth, 512 * form.height), (18,), (0x800,), (0,), (5,)]
    assert f"k_param_0[{32 if flat else 40}]" in ptx

    other = ImageForm("image3d_t", (2, 2, 2, 1)) if form.type != "image3d_t" else ImageForm("image1d_t", (2, 1))
    with pytest.raises(LaunchError, match=rf"argument 0 \({form.type} p\) of kernel 'k' does not take an {other.type}"):
        kernel(entries[0]).pack([image(other), *args[1:]])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ImageForm("image2d_t", (5, 7)), "height, width, channels"),
        (lambda: ImageForm("image3d_t", (2, 5, 7, 3)), "channels are 1, 2 or 4"),
        (lambda: ImageForm("image1d_t", (5, 1), "float64"), "types float32"),
        (lambda: ImageForm("image1d_t", (0, 1)), "empty"),
        (lambda: ImageForm("image1d_t", (5, 1), "float32", normalized=True), "8 and 16 bits"),
        (lambda: Sampler("repeat"), "normalized"),
        (lambda: Sampler("wrap"), "clamp"),  # type: ignore[arg-type]
    ],
)
def test_impossible_images_and_samplers_raise(make: Any, message: str) -> None:
    with pytest.raises(LaunchError, match=message):
        make()
