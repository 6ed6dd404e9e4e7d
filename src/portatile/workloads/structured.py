"""What products with symmetric and triangular matrices share: random operands, float64 references, the bound, sizes of blocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import inf, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from portatile.dtypes import COMPLEX, ELEMENTS
from portatile.records import Call, Config, DeviceInfo, Problem, Value
from portatile.space import ParameterSpace
from portatile.workload import Cut, Expected, Inputs, Operand, Workload
from portatile.workloads import operands, precisions
from portatile.workloads.blocks import is_complex, precision
from portatile.workloads.gemm import reference as gemm
from portatile.workloads.gemm import zeros
from portatile.workloads.gemm.reals import TRANSPOSED
from portatile.workloads.gemm_terms import choice

_SPLIT = 100  # partial sums that a product may add up: more than in any configuration of gemm
ORDERS = (0, 32, 64, 128, 256, 512, 1024)  # orders of blocks that are tried; 0: no blocks
GROUPS = (32, 64, 128, 256)  # work-items of the kernels beside the products
PRECISIONS: tuple[Value, ...] = (precisions.NATIVE, "tf32", "3m", "emulated", "reproducible")
"""The precisions of the products: their type's own, or as ``precisions`` chooses them."""
_WORTH = 0.9  # emulated products must take less than this share of the native time, since they need further launches
_EMULATED = 1024  # the order of blocks with emulated products, each of which splits its operands again
CACHED = 16  # the order of the squares that a processor transposes: a row fills a cache line

Shapes = Mapping[str, tuple[int, ...]]


def order(problem: Problem) -> int:
    """The order of the square A, by the problem's side."""
    return problem.sizes["m"] if problem.options["side"] == "L" else problem.sizes["n"]


def space(problem: Problem, device: DeviceInfo, size: int) -> ParameterSpace:
    """The space: blocks NB of at most twice the order ``size``, or none (NB = 0) if ``zeros.skips_zeros``, and a work-group."""
    skips_zeros = _alone(problem, device)
    facts = {**device.facts(), "order": size, "skips_zeros": skips_zeros}
    alone = "NB > 0 or (skips_zeros and (WGS == 32 or device_kind != 'cpu'))"
    rules: tuple[str, ...] = ("NB == 32 or NB < 2 * order", alone, "WGS <= max_work_group_size")
    if precision(problem) == "reproducible":
        facts["everywhere"], rules = reproducible_block(size), (*rules, "NB == everywhere")
    return ParameterSpace({"NB": ORDERS, "WGS": GROUPS}, rules, facts)


def blocked(problem: Problem, size: int, device: DeviceInfo) -> Config:
    """The default: no blocks if ``zeros.skips_zeros`` and one product can compute everything, otherwise the blocks of ``block``."""
    if precision(problem) == "reproducible":
        return {"NB": reproducible_block(size), "WGS": group(device)}
    if _alone(problem, device):
        return {"NB": 0, "WGS": 32 if device.kind == "cpu" else group(device)}
    emulated = precision(problem) == "emulated" and device.kind == "gpu"
    return {"NB": _block(size, _EMULATED) if emulated else block(size, device), "WGS": group(device)}


def _alone(problem: Problem, device: DeviceInfo) -> bool:
    """Whether one product that skips zeros computes the whole problem."""
    return precision(problem) == precisions.NATIVE and zeros.skips_zeros(device)


def reproducible_block(size: int) -> int:
    """The order of blocks for reproducible results: the same on every device, since other blocks would mean other sums."""
    return _block(size, 256)


def block(size: int, device: DeviceInfo) -> int:
    """The order of blocks: about an eighth of the problem's, so that little is wasted on the diagonal, but enough to
    keep the device busy.
    """
    return _block(size, 256 if device.kind == "gpu" else 128)


def _block(size: int, least: int) -> int:
    return next(nb for nb in (1024, 512, 256, 128, 64, 32) if nb == 32 or (nb < 2 * size and nb <= max(least, size // 8)))


def group(device: DeviceInfo) -> int:
    """The size of a work-group: 64 if the device supports it, otherwise 32."""
    return 64 if device.max_work_group_size >= 64 else 32


def largest_group(device: DeviceInfo) -> int:
    """The largest of ``GROUPS`` that the device supports."""
    return next(group for group in reversed(GROUPS) if group == 32 or group <= device.max_work_group_size)


def inputs(problem: Problem, shapes: Shapes, rng: np.random.Generator, written: NDArray[np.bool_] | None = None) -> Inputs:
    """Operands uniform in [-0.5, 0.5), alpha and beta as for ``gemm``. If beta is 0, C is NaN, because it must not be read; with
    ``written`` only where that is true.
    """
    alpha, beta = gemm.factors(rng, problem.dtype)
    names = list(shapes)
    memory = {name: operands.random(rng, problem.layout[name], shape, problem.dtype) for name, shape in shapes.items()}
    scalars = {"alpha": alpha, "beta": beta} if names[-1] == "c" else {"alpha": alpha}
    if names[-1] == "c" and beta == 0:
        c = operands.view(memory["c"], problem.layout["c"], shapes["c"])
        c[... if written is None else (..., written)] = np.nan
    return Inputs(memory, scalars)


class RealOrComplex(Workload):
    """A workload for real and complex numbers: for real ones, options that conjugate mean the same as those that do not."""

    dtypes = COMPLEX

    def normalised(self, dtype: str, options: Mapping[str, Value]) -> Mapping[str, Value]:
        """The options without conjugates for real matrices, and without a ``precision`` that the dtype does not have."""
        given = dict(options)
        if not dtype.startswith("complex"):
            given |= {name: _real(str(value)) for name, value in given.items() if name.startswith("trans")}
            if given.get("mirror") in ("C", "R"):
                given["mirror"] = "T"
            if given.get("precision") == "3m":
                given["precision"] = precisions.NATIVE
        if dtype != "float32" and given.get("precision") == "tf32":
            given["precision"] = precisions.NATIVE
        return given

    def wins(self, problem: Problem, device: DeviceInfo) -> bool:
        """Whether the emulated products are expected to take clearly less time than all multiply-adds in one native product."""
        plan = self.plan(problem, self.default(problem, device), device)
        calls = [step.problem for step in plan.steps if isinstance(step, Call)]
        emulated = [call for call in calls if call.workload == precisions.EMULATED[problem.dtype]]
        if not any(choice.wins(call, device) for call in emulated):
            return False
        return sum(choice.least(call, device) for call in emulated) < _WORTH * choice.native_us(self.flops(problem) / 2, device)

    def distance(self, one: Problem, other: Problem) -> float:
        """As for any workload, but infinite between problems whose products have different precisions."""
        return super().distance(one, other) if precision(one) == precision(other) else inf


def _real(letters: str) -> str:
    """The letters of transpositions without conjugates; two equal letters become one."""
    letters_of_real = "".join(TRANSPOSED.get(one, one) for one in letters)
    return letters_of_real[0] if len(letters_of_real) == 2 and letters_of_real[0] == letters_of_real[1] else letters_of_real


class TriangularOperand(RealOrComplex):
    """A workload with a triangular A (of order m with ``side`` L, of order n with R) and an m x n B: TRSM and TRMM.

    The result overwrites B. With ``apart`` it is a further operand C, and B is only read.
    """

    products = True
    sizes: Mapping[str, str] = {"m": "rows of B", "n": "columns of B"}
    options: Mapping[str, tuple[Value, ...]] = {
        "side": ("L", "R"),
        "uplo": ("L", "U"),
        "trans": ("N", "T", "C", "R"),
        "diag": ("N", "U"),
        "apart": (False, True),
        "precision": PRECISIONS,
    }
    implied = frozenset({"apart", "precision"})
    operands = (Operand("a"), Operand("b", "inout"))
    scalars: Mapping[str, float] = {"alpha": 1.0}

    def operands_of(self, options: Mapping[str, Value]) -> tuple[Operand, ...]:
        """A and B; with ``apart`` also C, the result."""
        return (Operand("a"), Operand("b"), Operand("c", "out")) if options.get("apart") else self.operands

    def shapes(self, problem: Problem) -> dict[str, tuple[int, ...]]:
        """A is square, of the order that the side determines; B, and C if present, are m x n."""
        size, sides = order(problem), (problem.sizes["m"], problem.sizes["n"])
        return {"a": (size, size), **dict.fromkeys(("b", result(problem)), sides)}

    def separate_result(self, problem: Problem) -> dict[str, NDArray[Any]]:
        """The memory of C if the result is an operand of its own; otherwise nothing."""
        shapes = self.shapes(problem)
        return {name: operands.storage(problem.layout[name], shapes[name], problem.dtype) for name in shapes if name == "c"}

    def distance(self, one: Problem, other: Problem) -> float:
        """As for any workload, regardless of ``apart``."""
        return super().distance(_over(one), _over(other))

    def flops(self, problem: Problem) -> float:
        """m n times the order of A, four times as many for complex numbers: the BLAS's convention."""
        return operations(problem) * float(problem.sizes["m"] * problem.sizes["n"] * order(problem))

    def traffic(self, problem: Problem) -> float:
        """The bytes of A's triangle read once, and of B read and written once."""
        return traffic(problem)

    def cuts(self, problem: Problem, config: Config) -> tuple[Cut, ...]:
        """Cuts along the size that A does not have: columns of B if A is on the left, rows if it is on the right."""
        size, taken = ("n", "columns") if problem.options["side"] == "L" else ("m", "rows")
        return (Cut(size, dict.fromkeys(("b", result(problem)), taken)),)


def result(problem: Problem) -> str:
    """The operand of TRSM and TRMM that receives the result."""
    return "c" if problem.options.get("apart") else "b"


def _over(problem: Problem) -> Problem:
    """The same problem without ``apart``."""
    return replace(problem, options={name: value for name, value in problem.options.items() if name != "apart"})


def computed_triangle(problem: Problem) -> NDArray[np.bool_]:
    """A mask of the triangle of C that SYRK and SYR2K compute."""
    n = problem.sizes["n"]
    lower: NDArray[np.bool_] = np.tri(n, dtype=bool)
    return lower.T if problem.options["uplo"] == "U" else lower


def poison_unread(problem: Problem, memory: NDArray[Any], shape: tuple[int, ...], diagonal: bool = False) -> None:
    """Fill the triangle of A (of each A in a stack) that must not be read with NaN, and with ``diagonal`` the diagonal, too."""
    a = operands.view(memory, problem.layout["a"], shape)
    lower = np.tri(shape[-1], k=-1 if diagonal else 0, dtype=bool)
    a[..., ~(lower.T if problem.options["uplo"] == "U" else lower)] = np.nan


def views(problem: Problem, shapes: Shapes, given: Inputs) -> dict[str, NDArray[Any]]:
    """Views of the operands in their memory."""
    return {name: operands.view(given.operands[name], problem.layout[name], shape) for name, shape in shapes.items()}


def symmetric(a: NDArray[Any], upper: bool, hermitian: bool = False) -> NDArray[Any]:
    """The whole symmetric or Hermitian matrix of which one triangle is stored."""
    half = operands.wide(np.where(np.tri(len(a), dtype=bool).T if upper else np.tri(len(a), dtype=bool), a, 0))
    if hermitian:
        result: NDArray[Any] = half + half.conj().T - np.diag(np.diag(half).real)
        return result
    full: NDArray[Any] = half + half.T - np.diag(np.diag(half))
    return full


def triangle(a: NDArray[Any], upper: bool, unit: bool) -> NDArray[Any]:
    """The triangular matrix with its zeros, and with ones on the diagonal if ``unit``."""
    half = np.tri(len(a), k=-1 if unit else 0, dtype=bool)
    triangular: NDArray[Any] = operands.wide(np.where(half.T if upper else half, a, 0))
    return triangular + np.eye(len(a)) if unit else triangular


def product(
    problem: Problem,
    given: Inputs,
    name: str,
    left: NDArray[Any],
    right: NDArray[Any],
    sample: np.random.Generator | None,
    kept: NDArray[np.bool_] | None = None,
) -> Expected:
    """The expectation of alpha left right + beta C for the output ``name``; elements in the mask ``kept`` stay as they were."""
    alpha, beta = gemm.given_factors(problem, given)
    shape = (left.shape[0], right.shape[1])
    layout = problem.layout[name]
    c = operands.view(given.operands[name], layout, shape)
    rows, columns = (np.arange(side) if sample is None else operands.lines(sample, side, gemm.SAMPLE) for side in shape)
    chosen = np.ix_(rows, columns)
    if kept is not None and beta != 0:
        c = np.where(kept, 0, c)
    values, scale = gemm.product(alpha, left[rows], right[:, columns], beta, c[chosen])
    if kept is not None:
        before = operands.view(given.operands[name], layout, shape)[chosen]
        values, scale = np.where(kept[chosen], before, values), np.where(kept[chosen], 0, scale)
    if sample is None:
        return operands.whole(given.operands[name], layout, values, scale)
    places = operands.places(layout, rows[:, None], columns[None, :])
    return Expected(values.ravel(), scale.ravel(), places.ravel())


def bound(problem: Problem, terms: int) -> float:
    """gamma of a sum of ``terms`` products in any order, split into parts, with the factors and the last addition; see ``gemm.bound``.

    The bound of an emulated product is no larger, element by element. Three real products for a complex one triple the error of the
    imaginary part: see ``gemm3m``. tf32 truncates both factors of each term: see ``cut``.
    """
    more, wider = (4, sqrt(2)) if is_complex(problem) else (0, 1.0)
    if precision(problem) == "3m":
        more, wider = 8, sqrt(10)
    return wider * (operands.gamma(terms + _SPLIT + more, problem.dtype) + operands.gamma(terms + 3 + more, "float64")) + cut(problem)


def cut(problem: Problem) -> float:
    """The relative error of a term because tf32 truncates both of its factors; 0 in other precisions."""
    unit = ELEMENTS["tfloat32"].unit
    return 2 * unit * (1 + unit) if precision(problem) == "tf32" else 0.0


def operations(problem: Problem) -> float:
    """The floating-point operations of a multiply-add, relative to those of real numbers."""
    return 4.0 if is_complex(problem) else 1.0


def traffic(problem: Problem) -> float:
    """The bytes of one triangle of A read once, and of two m x n matrices (or of one that is read and written)."""
    size = order(problem)
    return float(problem.itemsize) * (size * (size + 1) // 2 + 2 * problem.sizes["m"] * problem.sizes["n"])


def reads(scalars: Mapping[str, float], output: str) -> frozenset[str]:
    """A and B unless alpha is 0, the output unless beta is 0."""
    return frozenset(("a", "b") if scalars["alpha"] != 0 else ()) | frozenset((output,) if scalars["beta"] != 0 else ())


def awkward(workload: Workload, problem: Problem, cases: Sequence[tuple[int, int]]) -> list[Problem]:
    """Problems of these sizes, in turn packed, and with padded rows, offsets and loose alignment."""
    problems = []
    for turn, sizes in enumerate(cases):
        bare = workload.problem(dict(zip(workload.sizes, sizes, strict=True)), problem.dtype, problem.options)
        pad, offset, alignment = ((0, 0, 128), (3, 5, 16), (4, 4, 128))[turn % 3]
        layout = {name: operands.padded(shape, pad, offset, alignment) for name, shape in workload.shapes(bare).items()}
        problems.append(workload.problem(bare.sizes, problem.dtype, problem.options, layout))
    return problems
