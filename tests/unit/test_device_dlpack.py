"""DLPack capsules own what they say: the memory lives as long as a consumer, and no longer."""

from __future__ import annotations

import gc
import sys
import weakref
from types import SimpleNamespace

import numpy as np
import pytest

from portatile.device import dlpack, foreign_arrays
from portatile.device.buffer import Buffer, is_cuda_array
from portatile.device.dlpack import Strided
from portatile.device.foreign_arrays import caller_stream
from portatile.errors import ArgumentError


class Owner:
    """Stands for memory."""


def exported(dtype: str = "f8") -> tuple[object, weakref.ref[Owner]]:
    owner = Owner()
    kind = np.dtype(dtype)
    view = Strided(4096, (2, 3), (4 * kind.itemsize, kind.itemsize), kind, 1, owner)
    return dlpack.export(view), weakref.ref(owner)


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i4", "u8", "c16"])
def test_round_trip(dtype: str) -> None:
    capsule, owner = exported(dtype)
    result = dlpack.take(capsule)
    size = np.dtype(dtype).itemsize
    assert (result.pointer, result.shape, result.strides, result.dtype, result.device_id) == (
        4096,
        (2, 3),
        (4 * size, size),
        np.dtype(dtype),
        1,
    )
    del capsule
    gc.collect()
    assert owner() is not None
    del result
    gc.collect()
    assert owner() is None
    assert not dlpack._exported


def test_unconsumed_capsule_lets_go() -> None:
    capsule, owner = exported()
    assert owner() is not None
    del capsule
    gc.collect()
    assert owner() is None


def test_capsule_is_consumed_once() -> None:
    capsule, _ = exported()
    result = dlpack.take(capsule)
    with pytest.raises(ArgumentError, match="once only"):
        dlpack.take(capsule)
    del result


def test_host_memory_is_refused() -> None:
    with pytest.raises(ArgumentError, match="only CUDA memory"):
        dlpack.take(np.arange(3.0).__dlpack__())


def test_odd_strides_are_refused() -> None:
    with pytest.raises(ArgumentError, match="strides"):
        dlpack.export(Strided(4096, (2,), (3,), np.dtype("f4"), 0, None))


def test_host_arrays_are_no_cuda_arrays() -> None:
    array = np.arange(3.0)
    assert not is_cuda_array(array)
    assert not is_cuda_array([1, 2])
    with pytest.raises(ArgumentError, match="is not in accessible CUDA memory"):
        Buffer.wrap(array)


def test_stream_of_an_array() -> None:
    class Array:
        """What Numba says of an array."""

        def __init__(self, **interface: object) -> None:
            self.__cuda_array_interface__ = interface

    assert caller_stream(Array(stream=7)) == 7
    assert caller_stream(Array(stream=None)) == 1
    assert caller_stream(Array()) == 1
    assert is_cuda_array(Array())


def test_packed_strides() -> None:
    for shape in [(), (5,), (2, 3, 4), (2, 0, 3)]:
        expected = np.empty(shape, np.float32).strides
        if 0 not in shape:
            assert dlpack.packed(shape, 4) == expected
        else:
            assert len(dlpack.packed(shape, 4)) == len(expected)


@pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3fn"])
def test_types_that_the_interface_does_not_name(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """PyTorch calls bfloat16 two bytes, and says nothing of tensors of eight-bit floats: their bytes are asked."""
    bits = {"bfloat16": "<V2", "float8_e4m3fn": "|u1"}[name]

    class Tensor:
        """What PyTorch says of a tensor."""

        dtype = f"torch.{name}"
        is_cuda = True
        new_empty = None
        __cuda_array_interface__ = {"shape": (3, 4), "typestr": bits, "data": (4096, False), "strides": None}

        def view(self, kind: object) -> object:
            assert kind == "bytes"
            return self

    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(uint8="bytes"))
    monkeypatch.setattr(foreign_arrays, "_cuda", lambda: SimpleNamespace(ordinal=lambda pointer: 0))
    view = foreign_arrays.strided(Tensor())
    assert (view.dtype.name, view.shape, view.strides[-1]) == (name, (3, 4), view.dtype.itemsize)


@pytest.mark.parametrize(("said", "expected"), [((2, 1), 1), ((13, 1), 0), (None, 0)], ids=["device memory", "managed memory", "no word"])
def test_the_gpu_of_an_array_is_the_one_that_its_library_names(said: object, expected: int, monkeypatch: pytest.MonkeyPatch) -> None:
    array = SimpleNamespace(__cuda_array_interface__={"shape": (3,), "typestr": "<f4", "data": (4096, False)})
    if said is not None:
        array.__dlpack_device__ = lambda: said
    monkeypatch.setattr(foreign_arrays, "_cuda", lambda: SimpleNamespace(ordinal=lambda pointer: 0))
    assert foreign_arrays.strided(array).device_id == expected
