"""Operands that begin an output, B of triangles and C of products, in any order and with gaps, on a device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import portatile
from portatile.device.base import Device
from portatile.device.buffer import Buffer
from portatile.errors import ArgumentError
from support.seeds import new_seed

pytestmark = [pytest.mark.thinned(1 / 4), pytest.mark.unoptimised]

ORDERS = ("rows", "columns", "rows with gaps", "columns with gaps")
SHAPES = ((17, 9), (9, 1), (3, 8, 5))


def values(shape: tuple[int, ...], name: str) -> NDArray[np.float64]:
    return np.random.default_rng(new_seed(name)).standard_normal(shape)


def laid_out(array: NDArray, order: str, device: Device) -> Buffer:
    """The array as a Buffer, by rows or by columns, in a larger one where it has gaps."""
    stored = array if order.startswith("rows") else np.ascontiguousarray(array.swapaxes(-1, -2))
    if "gaps" in order:
        stored = np.concatenate([stored, stored[..., :1]], axis=-1)
    length = stored.shape[-1] - ("gaps" in order)
    buffer = Buffer.from_numpy(stored, device)[..., :length]
    return buffer if order.startswith("rows") else buffer.mT


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("order", ORDERS)
def test_a_new_result_begins_with_an_operand_of_any_order(device: Device, order: str, shape: tuple[int, ...]) -> None:
    *batch, m, _ = shape
    a = np.tril(values((*batch, m, m), "a")) + 2 * m * np.eye(m)
    b = values(shape, "b")
    on_device, stored = Buffer.from_numpy(a, device), laid_out(b, order, device)
    for _ in range(3):  # planned, and recorded
        np.testing.assert_allclose(portatile.trmm(on_device, stored).numpy(), a @ b, rtol=1e-12)
        np.testing.assert_allclose(portatile.trsm(on_device, stored).numpy(), np.linalg.solve(a, b), rtol=1e-10, atol=1e-12)
        if batch and order != "rows":
            continue
        c = laid_out(b, order, device)
        result = portatile.gemm(on_device, Buffer.from_numpy(b, device), c, beta=3.0)
        np.testing.assert_allclose(result.numpy(), a @ b + 3 * b, rtol=1e-10, atol=1e-10)
    assert (stored.numpy() == b).all()


@pytest.mark.parametrize("uplo", "LU")
@pytest.mark.parametrize("order", ORDERS)
def test_a_triangle_between_gaps(device: Device, order: str, uplo: str) -> None:
    a, c = values((11, 4), "a"), values((11, 11), "b")
    out = laid_out(np.full_like(c, 7), order, device)
    portatile.syrk(Buffer.from_numpy(a, device), laid_out(c, order, device), beta=2.0, uplo=uplo, out=out)
    written = np.tri(11, dtype=bool) if uplo == "L" else np.tri(11, dtype=bool).T
    np.testing.assert_allclose(out.numpy(), np.where(written, a @ a.T + 2 * c, 7), rtol=1e-12)


def test_an_output_of_another_order_is_refused(device: Device) -> None:
    a, b = Buffer.from_numpy(np.eye(6), device), Buffer.from_numpy(np.ones((6, 4)), device)
    with pytest.raises(ArgumentError, match="c is column-major and out row-major"):
        portatile.gemm(a, b, laid_out(np.ones((6, 4)), "columns", device), beta=1.0, out=b.copy())


@pytest.mark.parametrize("library", ["torch", "cupy"])
def test_results_of_other_libraries_keep_the_order(device: Device, library: str) -> None:
    if device.info.backend != "cuda":
        pytest.skip("CUDA arrays need a CUDA device")
    module = pytest.importorskip(library)
    put: Callable[[NDArray], Any] = (lambda x: module.from_numpy(x).cuda()) if library == "torch" else module.asarray
    a, b = np.tril(values((40, 40), "a")) + 80 * np.eye(40), values((23, 40), "b")
    on_device, columns = put(a), put(b).T
    for _ in range(4):
        solved, product = portatile.trsm(on_device, columns), portatile.gemm(on_device, on_device, put(a).T, beta=1.0)
        for got, expected in ((solved, np.linalg.solve(a, b.T)), (product, a @ a + a.T)):
            assert type(got) is type(on_device)
            np.testing.assert_allclose(got.cpu().numpy() if library == "torch" else got.get(), expected, rtol=1e-10, atol=1e-12)
