"""The routines as PyTorch operators: right, accepted by opcheck, differentiated as gradcheck wants it, traced by torch.compile."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

import portatile  # noqa: E402
from portatile import torch as portatile_torch  # noqa: E402
from portatile.device.base import Device  # noqa: E402
from portatile.errors import ArgumentError  # noqa: E402
from portatile.torch.dispatch import needs_no_operator  # noqa: E402


@pytest.fixture
def place(device: Device) -> tuple[str, str | None]:
    """Where tensors lie for a device, and what selects it."""
    if device.info.kind == "cpu":
        return "cpu", device.info.id
    if not torch.cuda.is_available() or not device.info.id.startswith("cuda"):
        pytest.skip("PyTorch's tensors do not lie on this device")
    return f"cuda:{device.info.id.rpartition(':')[2]}", None


def drawn(*shape: int, place: tuple[str, str | None], seed: int = 1, gradient: bool = True) -> Any:
    generator = torch.Generator().manual_seed(seed + sum(shape))
    made = torch.rand(shape, dtype=torch.float64, generator=generator) - 0.5
    return made.to(place[0]).requires_grad_(gradient)


def triangle(order: int, place: tuple[str, str | None]) -> Any:
    made = drawn(order, order, place=place, gradient=False) + 3 * torch.eye(order, dtype=torch.float64, device=place[0])
    return made.requires_grad_()


@pytest.mark.parametrize("letters", ["NN", "NT", "TN", "TT"])
def test_products_are_right_and_have_gradients(place: tuple[str, str | None], letters: str) -> None:
    m, n, k = 5, 7, 3
    a = drawn(*((m, k) if letters[0] == "N" else (k, m)), place=place)
    b = drawn(*((k, n) if letters[1] == "N" else (n, k)), place=place)
    c = drawn(m, n, place=place)

    def product(a: Any, b: Any, c: Any) -> Any:
        return portatile_torch.gemm(a, b, c, alpha=1.5, beta=-0.5, trans_a=letters[0], trans_b=letters[1], device=place[1])

    expected = 1.5 * (a if letters[0] == "N" else a.T) @ (b if letters[1] == "N" else b.T) - 0.5 * c
    torch.testing.assert_close(product(a, b, c), expected)
    assert torch.autograd.gradcheck(product, (a, b, c))


def test_stacks_broadcast_and_so_do_their_gradients(place: tuple[str, str | None]) -> None:
    a, b = drawn(3, 1, 4, 5, place=place), drawn(2, 5, 6, place=place)
    torch.testing.assert_close(portatile_torch.matmul(a, b, device=place[1]), a @ b)
    assert torch.autograd.gradcheck(lambda a, b: portatile_torch.matmul(a, b, device=place[1]), (a, b))


@pytest.mark.unoptimised
def test_vectors_are_taken_and_have_gradients(place: tuple[str, str | None]) -> None:
    """As a row of the first operand and a column of the second, beside matrices and stacks; and as right sides."""
    vector, square, stack = drawn(4, place=place), triangle(4, place), drawn(2, 4, 4, place=place)
    for a, b in ((vector, vector), (vector, square), (square, vector), (vector, stack), (stack, vector)):
        torch.testing.assert_close(portatile_torch.matmul(a, b, device=place[1]), a @ b)
        assert torch.autograd.gradcheck(lambda a, b: portatile_torch.matmul(a, b, device=place[1]), (a, b))
    for side in "LR":
        found = portatile_torch.trsm(square, vector, side=side, device=place[1])
        lower = torch.tril(square)
        torch.testing.assert_close(lower @ found if side == "L" else found @ lower, vector)
        assert torch.autograd.gradcheck(lambda a, b: portatile_torch.trsm(a, b, side=side, device=place[1]), (square, vector))  # noqa: B023
    with pytest.raises(ArgumentError, match="use \\* for scalars"):
        portatile_torch.matmul(vector[0], square)
    with pytest.raises(ArgumentError, match="pass a matrix"):
        portatile_torch.gemm(vector, square)


@pytest.mark.unoptimised
def test_products_and_their_gradients_have_the_precision_that_is_asked_for(place: tuple[str, str | None]) -> None:
    a, b = drawn(5, 3, place=place), drawn(3, 7, place=place)
    found = [portatile_torch.matmul(a, b, precision=how, device=place[1]) for how in ("reproducible", "emulated")]  # type: ignore[arg-type]
    torch.testing.assert_close(*found, rtol=0, atol=0)
    torch.testing.assert_close(found[0], a @ b)
    of_a, of_b = torch.autograd.grad(found[0].sum(), (a, b))
    torch.testing.assert_close(of_a, torch.ones_like(found[0]) @ b.T)
    torch.testing.assert_close(of_b, a.T @ torch.ones_like(found[0]))
    with pytest.raises(ArgumentError, match="'tf32', '3m' or 'emulated'"):
        portatile_torch.trsm(triangle(3, place), b, precision="reproducible", device=place[1])  # type: ignore[arg-type]


@pytest.mark.parametrize("letters", ["LLNN", "LUTN", "RLTU", "RUNN", "LLTU", "RLNN"])
def test_solutions_have_gradients(place: tuple[str, str | None], letters: str) -> None:
    side, uplo, trans, diag = letters
    a, b = triangle(4, place), drawn(*((4, 3) if side == "L" else (3, 4)), place=place)

    def solved(a: Any, b: Any) -> Any:
        return portatile_torch.trsm(a, b, side=side, uplo=uplo, trans=trans, diag=diag, alpha=1.5, device=place[1])

    half = a.tril() if uplo == "L" else a.triu()
    if diag == "U":
        half = half - torch.diag(torch.diag(half)) + torch.eye(4, dtype=torch.float64, device=place[0])
    op = half.T if trans == "T" else half
    expected = torch.linalg.solve(op, 1.5 * b) if side == "L" else torch.linalg.solve(op.T, 1.5 * b.T).T
    torch.testing.assert_close(solved(a, b), expected)
    assert torch.autograd.gradcheck(solved, (a, b))


@pytest.mark.parametrize("boundary", ["periodic", "zero", "grow", "shrink"])
def test_filters_have_gradients(place: tuple[str, str | None], boundary: Any) -> None:
    taps = [0.25, -1.0, 0.5, 2.0]
    lines, volume = drawn(9, 3, place=place), drawn(5, 6, 7, place=place)
    for psi, filtered in ((lines, portatile_torch.convolve1d), (volume, portatile_torch.convolve3d_separable)):
        assert torch.autograd.gradcheck(lambda psi: filtered(psi, taps, lower=-1, boundary=boundary, device=place[1]), (psi,))  # noqa: B023


def of_each_operator(place: tuple[str, str | None]) -> dict[str, tuple[Any, Any, tuple[Any, ...]]]:
    """A call of each operator, the same by PyTorch alone, and what both are given."""
    where: dict[str, Any] = {"device": place[1]}
    square = triangle(4, place).detach()
    a, b, c = (drawn(*shape, place=place, gradient=False) for shape in ((4, 3), (3, 5), (4, 5)))
    ops, taps = portatile_torch, [0.5, -1.0, 2.0]

    def filtered(psi: Any) -> Any:
        return sum(tap * torch.roll(psi, 1 - at, 0) for at, tap in enumerate(taps))

    def everywhere(psi: Any) -> Any:
        for _ in range(3):
            psi = filtered(psi).movedim(0, -1)
        return psi

    return {
        "matmul": (lambda a, b: ops.matmul(a, b, **where), torch.matmul, (a, b)),
        "gemm": (
            lambda a, b, c: ops.gemm(b, a, c, alpha=1.5, beta=-0.5, trans_a="T", trans_b="T", **where),
            lambda a, b, c: 1.5 * b.T @ a.T - 0.5 * c,
            (a, b, c.T.contiguous()),
        ),
        "trsm": (
            lambda a, b: ops.trsm(a, b, uplo="U", trans="T", alpha=2.0, **where),
            lambda a, b: torch.linalg.solve(a.triu().T, 2 * b),
            (square, a),
        ),
        "trsm, right": (
            lambda a, b: ops.trsm(a, b, side="R", diag="U", **where),
            lambda a, b: torch.linalg.solve(a.tril(-1).T + torch.eye(4, dtype=a.dtype, device=a.device), b.T).T,
            (square, c.T.contiguous()),
        ),
        "convolve1d": (lambda x: ops.convolve1d(x, taps, lower=-1, **where), filtered, (c,)),
        "convolve3d_separable": (
            lambda x: ops.convolve3d_separable(x, taps, lower=-1, **where),
            everywhere,
            (drawn(3, 4, 5, place=place, gradient=False),),
        ),
    }


@pytest.mark.parametrize("name", ["matmul", "gemm", "trsm", "trsm, right", "convolve1d", "convolve3d_separable"])
def test_functions_of_torch_func_transform_them(place: tuple[str, str | None], name: str) -> None:
    """Gradients, tangents, second derivatives and batches, each as PyTorch's own functions have them."""
    own, usual, given = of_each_operator(place)[name]
    func, every = torch.func, tuple(range(len(given)))
    tangents = tuple(torch.cos(7 * one) for one in given)

    def agree(transformed: Any) -> None:
        torch.testing.assert_close(transformed(own), transformed(usual))

    def loss(function: Any) -> Any:
        return lambda *given: (function(*given) ** 2).sum()

    stacked = tuple(torch.stack((one, 2 * one, one + 3)) for one in given)
    agree(lambda function: func.grad(loss(function), every)(*given))
    agree(lambda function: func.jvp(function, given, tangents))
    agree(lambda function: func.jvp(lambda one: function(one, *given[1:]), given[:1], tangents[:1]))
    agree(lambda function: func.vmap(function)(*stacked))
    agree(lambda function: func.vmap(func.grad(loss(function), every))(*stacked))
    agree(lambda function: func.jvp(func.grad(loss(function), every), given, tangents))
    with torch.autograd.forward_ad.dual_level():
        duals = map(torch.autograd.forward_ad.make_dual, given, tangents)
        found = torch.autograd.forward_ad.unpack_dual(own(*duals)).tangent
    torch.testing.assert_close(found, func.jvp(usual, given, tangents)[1])


def test_operators_alone_refuse_tangents(place: tuple[str, str | None]) -> None:
    """PyTorch would take a missing one as zeros."""
    a, b = drawn(4, 3, place=place, gradient=False), drawn(3, 5, place=place, gradient=False)

    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(a, a)
        with pytest.raises(ArgumentError, match="do not support tangents"):
            torch.ops.portatile.gemm(dual, b, None, 1.0, 0.0, "N", "N", place[1])


def test_tensors_with_steps_are_copied(place: tuple[str, str | None]) -> None:
    a, b = drawn(8, 6, place=place), drawn(1, 5, place=place)
    product = portatile_torch.matmul(a[::2, ::2], b.expand(3, 5), device=place[1])
    torch.testing.assert_close(product, a[::2, ::2] @ b.expand(3, 5))
    product.sum().backward()
    torch.testing.assert_close(a.grad[::2, ::2], b.sum().expand(4, 3))


def test_a_batch_of_products_is_one_of_stacks(place: tuple[str, str | None]) -> None:
    a, b, c = (drawn(*shape, place=place, gradient=False) for shape in ((2, 4, 3, 6), (6, 3, 5), (4, 5)))

    def product(a: Any, b: Any, c: Any) -> Any:
        return portatile_torch.gemm(a, b, c.expand(2, 4, 5), beta=2.0, device=place[1])

    found = torch.func.vmap(product, in_dims=(3, 0, None))(a, b, c)
    torch.testing.assert_close(found, torch.stack([a[..., at] @ b[at] + 2 * c for at in range(6)]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # of calls that are made one by one
        torch.func.vmap(lambda a: portatile_torch.matmul(a, b[0], device=place[1]), in_dims=3)(a)


def test_tensors_without_memory_have_shapes(place: tuple[str, str | None]) -> None:
    meta = portatile_torch.matmul(torch.empty(2, 4, 3, device="meta"), torch.empty(3, 5, device="meta"))
    assert (meta.device.type, meta.shape) == ("meta", (2, 4, 5))
    solution = portatile_torch.trsm(torch.empty(2, 4, 4, device="meta"), torch.empty(4, 5, device="meta"))
    assert (solution.device.type, solution.shape) == ("meta", (2, 4, 5))


def test_operators_are_what_pytorch_wants(place: tuple[str, str | None]) -> None:
    a, b = drawn(4, 5, place=place), drawn(5, 3, place=place)
    for operator, arguments in (
        ("gemm", (a, b, None, 1.0, 0.0, "N", "N", place[1])),
        ("gemm", (a, drawn(3, 5, place=place), drawn(4, 3, place=place), 1.0, 2.0, "N", "T", place[1])),
        ("trsm", (triangle(4, place), a, "L", "L", "N", "N", 1.0, place[1])),
        ("convolve1d", (a, [1.0, 2.0], 0, "periodic", place[1])),
        ("convolve3d_separable", (drawn(3, 4, 5, place=place), [1.0, 2.0], 0, "zero", place[1])),
    ):
        torch.library.opcheck(getattr(torch.ops.portatile, operator).default, arguments)


def test_a_compiled_function_traces_them(place: tuple[str, str | None]) -> None:
    def loss(a: Any, b: Any) -> Any:
        return portatile_torch.matmul(a, b, device=place[1]).relu().sum()

    a, b = drawn(6, 5, place=place), drawn(5, 4, place=place)
    result = torch.autograd.grad(torch.compile(loss, backend="aot_eager", fullgraph=True)(a, b), (a, b))
    expected = torch.autograd.grad((a @ b).relu().sum(), (a, b))
    for one, other in zip(result, expected, strict=True):
        torch.testing.assert_close(one, other)


def test_operators_are_dispatched_only_for_who_looks_on(place: tuple[str, str | None]) -> None:
    """Plain tensors without gradients go straight to the routine; modes, transformations and gradients see the operator."""
    from torch.utils._python_dispatch import TorchDispatchMode

    seen: list[str] = []

    class Seen(TorchDispatchMode):  # type: ignore[misc,no-any-unimported]
        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(str(function))
            return function(*args, **(kwargs or {}))

    a, b, square = drawn(4, 5, place=place, gradient=False), drawn(5, 3, place=place, gradient=False), triangle(4, place).detach()
    expected = a @ b, torch.linalg.solve_triangular(square.tril(), a, upper=False)

    def computed() -> tuple[Any, Any]:
        return portatile_torch.matmul(a, b, device=place[1]), portatile_torch.trsm(square, a, device=place[1])

    assert needs_no_operator(a, b, None)
    for one, other in zip(computed(), expected, strict=True):
        torch.testing.assert_close(one, other)
    with Seen():
        for one, other in zip(computed(), expected, strict=True):
            torch.testing.assert_close(one, other)
    assert {name for name in seen if "portatile" in name} == {"portatile.gemm.default", "portatile.trsm.default"}
    wanted = a.clone().requires_grad_()
    assert not needs_no_operator(wanted, b)
    with torch.no_grad():
        assert needs_no_operator(wanted, b)
    inside: list[bool] = []
    torch.func.grad(lambda x: inside.append(needs_no_operator(x)) or x.sum())(a)
    with torch.autograd.forward_ad.dual_level():
        inside.append(needs_no_operator(a))
    assert inside == [False, False]


def test_mistakes_are_told(place: tuple[str, str | None]) -> None:
    a = drawn(4, 5, place=place, gradient=False)
    with pytest.raises(ArgumentError, match="beta is not 0 and c is missing"):
        portatile_torch.gemm(a, a.T, beta=1.0, device=place[1])
    with pytest.raises(ArgumentError, match="inner dimensions differ"):
        portatile_torch.matmul(a, a, device=place[1])
    with pytest.raises(ArgumentError, match="two dimensions"):
        portatile_torch.convolve1d(a[0], [1.0], lower=0, device=place[1])


@pytest.mark.parametrize("dtype", ["float64", "complex128", "bfloat16"])
def test_the_routines_take_tensors_of_the_host(dtype: str) -> None:
    kind = getattr(torch, dtype)
    a, b = (drawn(*shape, place=("cpu", None), gradient=False).to(kind) for shape in ((5, 3), (3, 4)))
    out = torch.empty(5, 4, dtype=kind)
    assert portatile.gemm(a, b, out=out) is out
    torch.testing.assert_close(out, a @ b)
    if dtype != "bfloat16":
        array = np.empty((5, 4), dtype)
        assert portatile.matmul(a, b, out=array) is array  # what the caller passed, a tensor or not
        torch.testing.assert_close(torch.from_numpy(array), a @ b)
    torch.testing.assert_close(portatile.matmul(a, b[:, 0]), a @ b[:, 0])
    torch.testing.assert_close(portatile.gemm(a.conj(), b), a.conj() @ b)  # conjugated when it is read


def test_the_other_routines_take_tensors_of_the_host() -> None:
    psi = drawn(4, 4, 4, place=("cpu", None), gradient=False)
    expected = portatile.convolve3d_separable(psi.numpy().copy(), [1.0, 2.0], lower=0)
    assert portatile.convolve3d_separable(psi, [1.0, 2.0], lower=0, out=psi) is psi
    torch.testing.assert_close(psi, torch.from_numpy(expected))
    atoms = torch.tensor([[0.0, 0.0, 2.0, 1.0]])
    assert float(portatile.coulomb_potential(atoms, (2, 2), 0.5, out=torch.empty(2, 2))[0, 0]) == pytest.approx(0.5)
    assert portatile.compile("gemm", m=1, n=1, k=4)(atoms, atoms.reshape(4, 1)).item() == 5


@pytest.mark.parametrize(
    ("tensor", "message"),
    [
        (torch.ones(2, 2, requires_grad=True), "portatile.torch"),
        (torch.ones(2, 2).to_sparse(), "to_dense"),
        (torch.ones(2, 2, dtype=torch.complex64).conj(), "read-only"),
    ],
    ids=["gradient", "sparse", "conjugated"],
)
def test_tensors_of_the_host_that_do_not_fit_are_refused(tensor: Any, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        portatile.matmul(torch.ones(2, 2), torch.ones(2, 2), out=tensor)


def test_operators_refuse_tensors_without_strides() -> None:
    with pytest.raises(ArgumentError, match="to_dense"):
        portatile_torch.matmul(torch.ones(2, 2).to_sparse(), torch.ones(2, 2))


def drawn_complex(*shape: int, place: tuple[str, str | None]) -> Any:
    parts = (drawn(*shape, place=place, seed=seed, gradient=False) for seed in (1, 2))
    return torch.complex(*parts).requires_grad_()


@pytest.mark.parametrize("letters", ["NN", "NC", "TN", "TC", "CT", "CC"])
def test_complex_products_have_gradients(place: tuple[str, str | None], letters: str) -> None:
    m, n, k = 3, 2, 4
    a = drawn_complex(*((m, k) if letters[0] == "N" else (k, m)), place=place)
    b = drawn_complex(*((k, n) if letters[1] == "N" else (n, k)), place=place)
    assert torch.autograd.gradcheck(
        lambda a, b: portatile_torch.gemm(a, b, alpha=1.5, trans_a=letters[0], trans_b=letters[1], device=place[1]), (a, b)
    )


@pytest.mark.parametrize("how", ["LLN", "LUT", "RLC", "RUT", "LLC"])
def test_complex_solutions_have_gradients(place: tuple[str, str | None], how: str) -> None:
    side, uplo, trans = how
    a = (drawn_complex(3, 3, place=place) + 3 * torch.eye(3, device=place[0])).detach().requires_grad_()
    b = drawn_complex(*((3, 2) if side == "L" else (2, 3)), place=place)
    assert torch.autograd.gradcheck(
        lambda a, b: portatile_torch.trsm(a, b, side=side, uplo=uplo, trans=trans, alpha=0.5, device=place[1]), (a, b)
    )


@pytest.mark.parametrize("name", ["float16", "bfloat16", "int8", "float8_e4m3fn", "complex64"])
def test_shapes_alone_have_the_dtype_of_the_product(place: tuple[str, str | None], name: str) -> None:
    kind = getattr(torch, name)
    a, b = (torch.ones(shape, device=place[0]).to(kind) for shape in ((2, 16), (16, 3)))
    expected = portatile_torch.matmul(a, b, device=place[1])
    result = portatile_torch.matmul(a.to("meta"), b.to("meta"))
    assert (result.dtype, result.shape) == (expected.dtype, expected.shape)
    with pytest.raises(ArgumentError, match="inner dimensions"):
        portatile_torch.matmul(a.to("meta"), a.to("meta"))
