"""Buffers as arrays: other shapes over the same memory, copies, products, pickles, and other libraries' view of a CPU device's memory."""

from __future__ import annotations

import copy
import gc
import pickle
from itertools import product
from typing import Any

import numpy as np
import pytest

import portatile
from portatile import Buffer, array_api
from portatile.device.base import Device
from portatile.device.dlpack import packed
from portatile.device.strides import reshaped
from portatile.dtypes import ELEMENTS
from portatile.errors import ArgumentError
from support.seeds import new_seed

pytestmark = pytest.mark.unoptimised

H = np.arange(24.0).reshape(2, 3, 4)


@pytest.fixture
def held(device: Device) -> Buffer:
    return Buffer.from_numpy(H, device)


def test_length_and_iteration(held: Buffer) -> None:
    assert len(held) == 2
    assert [one.shape for one in held] == [(3, 4)] * 2
    assert held[:0], "a Buffer is there, whatever its length"
    with pytest.raises(TypeError, match="no length"):
        len(held[0, 0, 0])


@pytest.mark.parametrize("name", ["float8_e5m2", "float8_e4m3fn", "bfloat16"])
def test_views_of_types_that_numpy_has_no_name_for(device: Device, name: str) -> None:
    array = np.arange(24).reshape(2, 3, 4).astype(ELEMENTS[name].numpy)
    buffer = Buffer.from_numpy(array, device)
    for key in ((..., 1), (slice(None), 1), (0, 2, 3), slice(None, None, -1), (slice(None), None, slice(1, None, 2))):
        np.testing.assert_array_equal(buffer[key].numpy().astype("f4"), array[key].astype("f4"))
    part = Buffer.from_numpy(np.zeros((2, 3, 6), array.dtype), device)[..., 1:5]
    part.assign(array)
    np.testing.assert_array_equal(part.numpy().astype("f4"), array.astype("f4"))


@pytest.mark.parametrize("key", [True, False, np.True_, (0, True), 1.0, [0], np.array([0])])
def test_what_would_copy_is_no_index(held: Buffer, key: object) -> None:
    """NumPy takes a bool for a mask, and gives a copy."""
    with pytest.raises(ArgumentError, match="would copy"):
        held[key]


def test_shapes_of_the_same_memory(held: Buffer) -> None:
    for shape in ((24,), (-1, 4), (6, 2, 2), (1, 24, 1)):
        for made in (held.reshape(shape), held.reshape(*shape)):
            assert made.memory is held.memory
            assert (made.numpy() == H.reshape(shape)).all()
    assert (held[:, 1:].reshape(2, 8).numpy() == H[:, 1:].reshape(2, 8)).all()
    assert (held.mT.numpy() == H.swapaxes(1, 2)).all()
    with pytest.raises(ArgumentError, match=r"\.copy\(\) first"):
        held.T.reshape(24)
    for wrong in ((5, 5), (-1, -1), (7, -1), (2.0, 12)):
        with pytest.raises(ArgumentError):
            held.reshape(wrong)


def test_reshaping_is_numpys() -> None:
    """The strides of every shape of small arrays, against what NumPy makes of views."""
    rng = np.random.default_rng(new_seed("reshaped"))
    seen = set()
    for shape in product((1, 2, 3, 4), repeat=3):
        whole = np.arange(np.prod(shape) * 8).reshape([2 * size for size in shape])
        view = whole[tuple(slice(None, None, int(rng.choice([1, 2, -1]))) for _ in shape)][tuple(map(slice, shape))]
        view = np.ascontiguousarray(view) if rng.random() < 0.3 else view.transpose(rng.permutation(3))
        for expected in ((view.size,), (1, view.size), (view.size // 2, 2), (2, view.size // 2, 1), view.shape[::-1]):
            if np.prod(expected) != view.size:
                continue
            result = reshaped(view.shape, view.strides, expected, view.itemsize)
            copied = view.reshape(expected)
            if result is None:
                assert not np.shares_memory(copied, view)
            else:
                assert (np.lib.stride_tricks.as_strided(view, expected, result) == copied).all()
            seen.add(result is None)
    assert seen == {True, False}


def test_copies_are_their_own(held: Buffer) -> None:
    for view, expected in ((held, H), (held[:, ::-1, ::2], H[:, ::-1, ::2]), (held.T, H.T), (held[:0], H[:0])):
        for made in (view.copy(), copy.copy(view), copy.deepcopy(view)):
            assert made.memory is not held.memory
            assert made.strides == packed(expected.shape, 8)
            assert (made.numpy() == expected).all()


def test_a_copy_in_many_pieces(device: Device) -> None:
    whole = np.arange(200.0 * 100).reshape(200, 100)
    assert (Buffer.from_numpy(whole, device)[:, ::2].copy().numpy() == whole[:, ::2]).all()


def test_assigning_leaves_what_is_between(held: Buffer) -> None:
    held[:, :, 1].assign(np.full((2, 3), -1.0))
    expected = H.copy()
    expected[:, :, 1] = -1
    assert (held.numpy() == expected).all()


def test_pickles(held: Buffer, monkeypatch: pytest.MonkeyPatch) -> None:
    restored = pickle.loads(pickle.dumps(held[:, 1:]))
    assert restored.device is held.device
    assert (restored.numpy() == H[:, 1:]).all()
    rebuild, (array, _) = held.__reduce__()
    assert (rebuild(array, "opencl:99:99").numpy() == H).all(), "on the default device, where its own is not there"


def test_products(held: Buffer) -> None:
    assert np.allclose((held @ held.mT).numpy(), H @ H.swapaxes(1, 2))
    assert (held @ held[0].reshape(-1)[:4]).shape == (2, 3)


def test_released_ones_are_refused_by_name(device: Device) -> None:
    """Also where the same call was recorded before."""
    a, b, out, stack = (Buffer.from_numpy(np.ones(shape, np.float32), device) for shape in ((5, 4), (4, 3), (5, 3), (2, 5, 4)))
    for _ in range(2):
        portatile.matmul(a, b, out=out)
        portatile.matmul(stack, b)
    for released in (a, out, stack):
        released.release()
    with pytest.raises(ArgumentError, match="a is a Buffer whose memory was released"):
        portatile.matmul(stack, b)
    with pytest.raises(ArgumentError, match="a is a Buffer whose memory was released"):
        portatile.matmul(a, b)
    with pytest.raises(ArgumentError, match="out is a Buffer whose memory was released"):
        portatile.matmul(Buffer.from_numpy(np.ones((5, 4), np.float32), device), b, out=out)
    with pytest.raises(ArgumentError, match="released"):
        a.numpy()


def test_released_volumes_are_refused_by_name(device: Device) -> None:
    volume, out, field = (Buffer.from_numpy(np.ones((4, 4, 4), np.float32), device) for _ in range(3))
    portatile.wavelets.apply_potential(volume, field)
    portatile.convolve3d_separable(volume, [0.5, 0.5], lower=0, out=out)
    field.release()
    with pytest.raises(ArgumentError, match="the potential is a Buffer whose memory was released"):
        portatile.wavelets.apply_potential(volume, field)
    out.release()
    with pytest.raises(ArgumentError, match="out is a Buffer whose memory was released"):
        portatile.convolve3d_separable(volume, [0.5, 0.5], lower=0, out=out)
    volume.release()
    for call in (
        portatile.wavelets.density,
        portatile.wavelets.magicfilter3d,
        lambda psi: portatile.convolve3d_separable(psi, [1.0], lower=0),
    ):
        with pytest.raises(ArgumentError, match="psi is a Buffer whose memory was released"):
            call(volume)


def _seen_by_host(device: Device) -> bool:
    return device.info.kind == "cpu" and not device.info.can.addresses


def test_numpy_sees_a_cpus_memory(held: Buffer) -> None:
    if not _seen_by_host(held.device):
        with pytest.raises(ArgumentError, match=r"\.numpy\(\)"):
            np.asarray(held)
        return
    for seen in (np.asarray(held), np.from_dlpack(held)):
        assert (seen == H).all()
        assert np.shares_memory(seen, np.asarray(held))
    shown = np.asarray(held)
    shown[0, 0, 0] = 5
    assert held.numpy()[0, 0, 0] == 5
    assert not np.shares_memory(np.array(held), shown)
    assert np.asarray(held, "float32").dtype == np.float32
    assert (np.asarray(held[:, ::-1, 1]) == shown[:, ::-1, 1]).all()
    with pytest.raises(ValueError, match="without a copy"):
        held.__array__("float32", copy=False)


def test_what_numpy_sees_outlives_the_buffer(held: Buffer) -> None:
    if not _seen_by_host(held.device):
        pytest.skip("the host does not reach this memory")
    seen, device = [np.asarray(held), np.from_dlpack(held)], held.device
    del held
    gc.collect()
    others = [Buffer.from_numpy(np.zeros_like(H), device) for _ in range(4)]
    assert all((one == H).all() for one in seen)
    del others


def test_dlpack_to_the_host(held: Buffer) -> None:
    if not (_seen_by_host(held.device) or held.device.info.can.addresses):
        with pytest.raises(AttributeError):
            held.__dlpack_device__()
        return

    class OnHost:
        """What asks for the host's memory."""

        def __dlpack_device__(self) -> tuple[int, int]:
            return 1, 0

        def __dlpack__(self, **asked: Any) -> object:
            return held.__dlpack__(dl_device=(1, 0))

    assert (np.from_dlpack(OnHost()) == H).all()
    with pytest.raises(BufferError):
        held.__dlpack__(dl_device=(7, 0))


def test_the_array_api(held: Buffer) -> None:
    xp = held.__array_namespace__()
    assert xp is held.__array_namespace__(api_version="2023.12") is array_api
    with pytest.raises(ArgumentError, match=r"2023\.12"):
        held.__array_namespace__(api_version="2021.12")
    device = held.device
    assert (xp.matmul(held, xp.matrix_transpose(held)).numpy() == H @ H.swapaxes(1, 2)).all()
    assert (xp.permute_dims(held, (2, 0, 1)).numpy() == H.transpose(2, 0, 1)).all()
    assert (xp.moveaxis(held, 0, -1).numpy() == np.moveaxis(H, 0, -1)).all()
    assert (xp.reshape(held.T, (24,)).numpy() == H.T.reshape(24)).all()
    with pytest.raises(ArgumentError):
        xp.reshape(held.T, (24,), copy=False)
    assert xp.expand_dims(held, axis=-1).shape == (2, 3, 4, 1)
    assert xp.squeeze(xp.expand_dims(held, axis=1), axis=1).shape == H.shape
    with pytest.raises(ArgumentError):
        xp.squeeze(held, axis=0)
    assert [one.shape for one in xp.unstack(held, axis=1)] == [(2, 4)] * 3
    assert (xp.astype(held, xp.float32).numpy() == H.astype("f4")).all()
    assert xp.astype(held, xp.float64, copy=False) is held
    assert xp.asarray(held) is held
    assert xp.asarray(held, copy=True).memory is not held.memory
    assert xp.asarray([[1, 2]], dtype=xp.float32, device=device).shape == (1, 2)
    for made, value in ((xp.zeros, 0), (xp.ones, 1)):
        assert (made((2, 2), device=device).numpy() == value).all()
        assert made((2, 2), device=device).dtype == xp.float64
    for like, value in ((xp.zeros_like, 0), (xp.ones_like, 1)):
        assert (like(held).numpy() == np.full(H.shape, value)).all()
    assert (xp.full(3, 7, device=device).numpy() == 7).all()
    assert xp.empty_like(held, dtype=xp.int8).dtype == np.int8
    assert (xp.from_dlpack(np.arange(3.0), device=device).numpy() == np.arange(3)).all()
    assert xp.isdtype(held.dtype, ("integral", "real floating"))
    assert not xp.isdtype(held.dtype, "integral")
    assert xp.result_type(held, xp.float32) == xp.float64
    assert not xp.can_cast(held, xp.float32)
    assert xp.finfo(held).bits == 64
    assert xp.iinfo(xp.int8).max == 127
    assert not hasattr(xp, "sin")


def test_what_the_array_api_says_of_itself(held: Buffer) -> None:
    assert {"matmul", "float64", "bool"} <= set(dir(array_api))
    assert not {"np", "sys", "Buffer"} & set(dir(array_api))
    result = held.__array_namespace__().__array_namespace_info__()
    assert held.device in result.devices()
    assert result.default_device() in result.devices()
    assert result.dtypes(kind="real floating") == {"float32": np.float32, "float64": np.float64}
    assert result.default_dtypes()["real floating"] == np.float64
    assert not result.capabilities()["boolean indexing"]
    assert held.to_device(held.device) is held
