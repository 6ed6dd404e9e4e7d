"""PyTorch's tensors in plain routines, on the CPU and on a GPU: conjugated and negated lazily, parameters, layouts, again and again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from torch.autograd import forward_ad  # noqa: E402

import portatile  # noqa: E402
from portatile.device.base import Device  # noqa: E402
from portatile.errors import ArgumentError  # noqa: E402

TURNS = 12  # calls until those on the same tensors are known by their addresses


@pytest.fixture
def drawn(device: Device) -> Callable[..., Any]:
    """Makes random tensors where the device reaches them."""
    place = "cpu"
    if device.info.kind != "cpu":
        if not torch.cuda.is_available() or not device.info.id.startswith("cuda"):
            pytest.skip("PyTorch's tensors do not lie on this device")
        place = f"cuda:{device.info.id.rpartition(':')[2]}"

    def draw(*shape: int, dtype: Any = None) -> Any:
        generator = torch.Generator().manual_seed(sum(shape))
        return (torch.rand(shape, generator=generator, dtype=dtype or torch.float32) - 0.25).to(place)

    return draw


def close(found: Any, expected: Any) -> None:
    torch.testing.assert_close(found.resolve_conj().resolve_neg(), expected.resolve_conj().resolve_neg(), rtol=1e-4, atol=1e-5)


def test_lazily_conjugated_tensors(device: Device, drawn: Callable[..., Any]) -> None:
    """By turns with those whose memory they share: the flag is all that differs."""
    a, b = drawn(33, 33, dtype=torch.complex64), drawn(33, 33, dtype=torch.complex64)
    out = torch.empty_like(a)
    where = device.info.id
    for turn in range(2 * TURNS):
        first = (a, a.conj(), a.mH, a.T)[turn // 2 % 4] if turn < TURNS else (a, a.conj())[turn % 2]
        second = b.conj() if turn % 3 == 2 else b
        assert portatile.matmul(first, second, out=out, device=where) is out
        close(out, first @ second)
        close(portatile.gemm(first, second, alpha=2.0, device=where), 2 * (first @ second))
    with pytest.raises(ArgumentError, match=r"read-only|lazily conjugated or negated"):
        portatile.matmul(a, b, out=out.conj(), device=where)
    triangle = torch.tril(a) + 33 * torch.eye(33, dtype=a.dtype, device=a.device)
    close(portatile.trsm(triangle.conj(), b, device=where), torch.linalg.solve_triangular(triangle.conj().resolve_conj(), b, upper=False))


@pytest.mark.parametrize("mode", ["no_grad", "inference_mode", "enable_grad"])
def test_new_results_are_what_pytorch_makes(device: Device, drawn: Callable[..., Any], mode: str) -> None:
    """Also of calls that are known by their addresses."""
    a, b = drawn(33, 33), drawn(33, 33)
    for _ in range(2):
        for _ in range(TURNS):
            with getattr(torch, mode)():
                found, expected = portatile.matmul(a, b, device=device.info.id), torch.mm(a, b)
            close(found, expected)
            for name in ("device", "dtype", "requires_grad", "is_leaf", "layout"):
                assert getattr(found, name) == getattr(expected, name)
            assert found.is_inference() == expected.is_inference()
            assert found.stride() == expected.stride()
        portatile.matmul(a, b, device=device.info.id)  # in no mode


def test_lazily_negated_tensors(device: Device, drawn: Callable[..., Any]) -> None:
    a, b = drawn(20, 20, dtype=torch.complex64), drawn(20, 20)
    negated = a.conj().imag
    assert negated.is_neg()
    for _ in range(TURNS):
        close(portatile.matmul(negated, b, device=device.info.id), negated.resolve_neg() @ b)
        close(portatile.matmul(a.imag, b, device=device.info.id), a.imag @ b)


def test_parameters_where_no_gradient_is_recorded(device: Device, drawn: Callable[..., Any]) -> None:
    """They are taken under ``no_grad`` and refused outside of it, also when they come again."""
    x, weight = drawn(16, 24), torch.nn.Parameter(drawn(8, 24))
    plain, out = drawn(24, 8).requires_grad_(), torch.empty(16, 8, device=x.device)
    for turn in range(2 * TURNS):
        for given in (weight.T, plain):
            if turn % 4 == 3:
                with pytest.raises(ArgumentError, match="requires gradients"):
                    portatile.matmul(x, given, out=out, device=device.info.id)
                continue
            with torch.no_grad() if turn % 2 else torch.inference_mode():
                assert portatile.matmul(x, given, out=out, device=device.info.id) is out
                close(out, x @ given)
                assert portatile.gemm(x, weight, trans_b="T", out=out, device=device.info.id) is out
                close(out, x @ weight.T)
    with torch.no_grad():
        close(portatile.matmul(weight, x.T, device=device.info.id), weight @ x.T)
    with pytest.raises(ArgumentError, match="requires gradients"):
        portatile.matmul(x, weight.T, device=device.info.id)


@pytest.mark.parametrize("name", ["expanded", "stepped", "transposed", "narrow", "empty"])
def test_layouts(device: Device, drawn: Callable[..., Any], name: str) -> None:
    a, b = {
        "expanded": (drawn(1, 6, 9).expand(4, 6, 9), drawn(9, 5)),
        "stepped": (drawn(12, 18)[::2, ::2], drawn(9, 10)[:, ::2]),
        "transposed": (drawn(9, 6).mT, drawn(5, 9).mT),
        "narrow": (drawn(7, 11).narrow(1, 1, 9), drawn(11, 7).narrow(0, 2, 9)),
        "empty": (drawn(0, 9), drawn(9, 5)),
    }[name]
    out = torch.empty_like(a @ b)
    for _ in range(TURNS):
        assert portatile.matmul(a, b, out=out, device=device.info.id) is out
        close(out, a @ b)
    with pytest.raises(ArgumentError, match=r"overlaps itself|shape"):
        portatile.matmul(drawn(6, 9), drawn(9, 5), out=torch.zeros(1, 5, device=a.device).expand(6, 5), device=device.info.id)


def test_the_same_memory_in_another_shape(device: Device, drawn: Callable[..., Any]) -> None:
    """Tensors at the same addresses that are described otherwise: what is known of the addresses does not help."""
    whole, b, place = drawn(64, 64), drawn(64, 64), drawn(64, 64)
    for turn in range(2 * TURNS):
        rows = (64, 48, 32)[turn % 3] if turn > TURNS else 64
        a, out = whole[:rows], place[:rows]
        portatile.matmul(a, b, out=out, device=device.info.id)
        close(out, a @ b)
        portatile.matmul(a, b.T, out=out, device=device.info.id)
        close(out, a @ b.T)


def test_tangents_are_refused(device: Device, drawn: Callable[..., Any]) -> None:
    """They would be lost, also where calls on the tensor's memory are known."""
    a, b = drawn(16, 16), drawn(16, 16)
    out = torch.empty_like(a)
    for _ in range(TURNS):
        portatile.matmul(a, b, out=out, device=device.info.id)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(a, torch.ones_like(a))
        assert dual.data_ptr() == a.data_ptr()
        with pytest.raises(ArgumentError, match="tangent"):
            portatile.matmul(dual, b, out=out, device=device.info.id)
        with pytest.raises(ArgumentError, match="tangent"):
            portatile.matmul(b, dual, device=device.info.id)
        portatile.matmul(a, b, out=out, device=device.info.id)
    close(out, a @ b)


@pytest.mark.parametrize("kind", ["vmap", "grad", "jvp", "functionalize", "trace"])
def test_transformed_functions_are_refused(device: Device, drawn: Callable[..., Any], kind: str) -> None:
    """Tensors of theirs have no memory; what is traced would be a constant."""
    a, b = drawn(3, 16, 16), drawn(16, 16)
    for _ in range(TURNS):
        portatile.matmul(a[0], b, device=device.info.id)

    def product(x: Any) -> Any:
        return portatile.matmul(x, b, device=device.info.id).sum()

    func = torch.func
    calls = {
        "vmap": lambda: func.vmap(product)(a),
        "grad": lambda: func.grad(product)(a[0]),
        "jvp": lambda: func.jvp(product, (a[0],), (a[1],)),
        "functionalize": lambda: func.functionalize(product)(a[0]),
        "trace": lambda: torch.jit.trace(product, a[0]),
    }
    with pytest.raises(ArgumentError, match=r"call the functions of portatile\.torch|tangent"):
        calls[kind]()
    close(portatile.matmul(a[0], b, device=device.info.id), a[0] @ b)
