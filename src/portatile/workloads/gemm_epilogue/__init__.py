"""A product with an epilogue in the same launch: C = activation(scale_a scale_b alpha op(A) op(B) + beta C + bias)."""

from __future__ import annotations

from collections.abc import Mapping
from math import erf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from portatile import dtypes
from portatile.records import Config, Layout, Problem, Value
from portatile.workload import Cut, Expected, Inputs, Operand
from portatile.workloads import operands
from portatile.workloads.gemm import epilogue, forms
from portatile.workloads.gemm import reference as of_gemm
from portatile.workloads.gemm.by_forms import ProductByForms


class GemmEpilogue(ProductByForms):
    """C (m x n) = activation(s_i t_j alpha op(A) op(B) + beta C + bias) for real types, in the launches of a product.

    The vectors are ``scale_a`` (s, one for each row), ``scale_b`` (t, one for each column) and ``bias`` (one for each row or column, as the
    option says); each is present unless its option is ``none``. They have the type of the sums (float32 if operands are int8); with
    ``narrow="bias"`` the bias has C's type. The activation is ReLU, GELU (with the error function, or with its tanh approximation) or SiLU.
    The parameters are those of ``gemm``; all of k is computed in one launch, since a nonlinear function comes last.
    """

    name = "gemm_epilogue"
    options: Mapping[str, tuple[Value, ...]] = {**ProductByForms.options, **epilogue.CHOICES}
    dtypes = tuple(
        name for name in dtypes.PRODUCTS if not name.startswith(("complex", "tfloat")) and dtypes.product(name).scalar != "int32"
    )
    operands = (Operand("a"), Operand("b"), *(Operand(name) for name in epilogue.VECTORS), Operand("c", "inout"))

    def shapes(self, problem: Problem) -> dict[str, tuple[int, ...]]:
        """A, B and C as stored; a vector is one row, without elements if it is absent."""
        shapes = super().shapes(problem)
        vectors = {name: (1, self._length(problem, name)) for name in epilogue.VECTORS}
        return {"a": shapes["a"], "b": shapes["b"], **vectors, "c": shapes["c"]}

    def element(self, problem: Problem, operand: str) -> str:
        """The type of A and B, that of C, or for vectors that of the sums."""
        types = dtypes.product(problem.dtype)
        known = operand in epilogue.VECTORS
        return epilogue.element(operand, types, problem.options["narrow"]) if known else super().element(problem, operand)

    def inputs(self, problem: Problem, rng: np.random.Generator) -> Inputs:
        """Random operands as for ``gemm``, and random vectors."""
        given = super().inputs(problem, rng)
        shapes = self.shapes(problem)
        vectors = {name: operands.random(rng, problem.layout[name], shapes[name], self.element(problem, name)) for name in epilogue.VECTORS}
        return Inputs({**given.operands, **vectors}, given.scalars)

    def reference(self, problem: Problem, inputs: Inputs, sample: np.random.Generator | None = None) -> dict[str, Expected]:
        """C in float64, everywhere or in sampled rows and columns; its scale is that before the activation."""
        shapes = self.shapes(problem)
        stored = {name: operands.view(inputs.operands[name], problem.layout[name], shape) for name, shape in shapes.items()}
        a, b = (of_gemm.op(stored[name], str(problem.options[f"trans_{name}"])) for name in "ab")
        rows, columns = (
            np.arange(problem.sizes[s]) if sample is None else operands.lines(sample, problem.sizes[s], of_gemm.SAMPLE) for s in "mn"
        )
        alpha, beta = of_gemm.given_factors(problem, inputs)
        a, b, c = operands.wide(a[rows]), operands.wide(b[:, columns]), stored["c"][np.ix_(rows, columns)]
        a, b = self._scaled(problem, (a, b), {name: operands.wide(stored[name]) for name in epilogue.VECTORS}, (rows, columns))
        values, scale = of_gemm.product(alpha, a, b, beta, c)
        if problem.options["bias"] != "none":
            bias = operands.wide(stored["bias"])[0]
            added = bias[rows][:, None] if problem.options["bias"] == "rows" else bias[columns][None, :]
            values, scale = values + added, scale + np.abs(added)
        result = dtypes.product(problem.dtype).result
        values = of_gemm.held(activated(values, str(problem.options["activation"])), result)
        scale = np.where(scale > 0, np.maximum(scale, result.normal), 0)
        if sample is None:
            return {"c": operands.whole(inputs.operands["c"], problem.layout["c"], values, scale)}
        places = operands.places(problem.layout["c"], rows[:, None], columns[None, :])
        return {"c": Expected(values.ravel(), scale.ravel(), places.ravel())}

    def bound(self, problem: Problem, config: Config) -> float:
        """The bound of the product with three more roundings (two scales and the bias), times the activation's largest slope, plus the
        rounding of the activation and of the conversion to C's type.
        """
        types = dtypes.product(problem.dtype)
        kind = epilogue.real(types)
        terms = 0 if types.real == "uint32" else problem.sizes["k"] + forms.read(config).roundings(problem.sizes["k"])
        sums = operands.gamma(terms + 9, kind) + operands.gamma(problem.sizes["k"] + 9, "float64")
        function = epilogue.FUNCTION * operands.unit_roundoff(kind) if problem.options["activation"] in epilogue.ROUNDED else 0.0
        last = types.result.unit if types.result.stored not in ("float", "double") else 0.0
        return (epilogue.LIPSCHITZ * sums + function) * (1 + last) + last * epilogue.LIPSCHITZ

    def reads(self, problem: Problem, scalars: Mapping[str, float]) -> frozenset[str]:
        """The operands that are read, as for ``gemm``, and the vectors."""
        return super().reads(problem, scalars) | {name for name in epilogue.VECTORS if problem.options[name] != "none"}

    def cuts(self, problem: Problem, config: Config) -> tuple[Cut, ...]:
        """None, because a part would need its piece of each vector."""
        return ()

    def awkward(self, problem: Problem) -> list[Problem]:
        """The edge-case problems of ``gemm``, with vectors at offsets."""
        problems = []
        for one in super().awkward(problem):
            lengths = {name: self._length(one, name) for name in epilogue.VECTORS}
            layout = {name: Layout((max(length, 1), 1), one.layout["a"].offset) for name, length in lengths.items()}
            problems.append(self.problem(one.sizes, one.dtype, one.options, {**one.layout, **layout}))
        return problems

    def _scaled(
        self, problem: Problem, product: tuple[Any, Any], factors: Mapping[str, Any], chosen: tuple[NDArray[Any], NDArray[Any]]
    ) -> tuple[Any, Any]:
        """The ``chosen`` rows of op(A) and columns of op(B), times their scales."""
        (a, b), (rows, columns) = product, chosen
        if problem.options["scale_a"] != "none":
            a = a * factors["scale_a"][0, rows][:, None]
        if problem.options["scale_b"] != "none":
            b = b * factors["scale_b"][0, columns][None, :]
        return a, b

    def _length(self, problem: Problem, name: str) -> int:
        """The number of elements of a vector; 0 if it is absent."""
        return {"none": 0, "rows": problem.sizes["m"], "columns": problem.sizes["n"]}[str(problem.options[name])]


def activated(values: NDArray[Any], how: str) -> NDArray[Any]:
    """One of the activations in ``epilogue.CHOICES``, of float64 values."""
    if how == "relu":
        return np.where(values < 0, 0, values)
    if how in ("gelu", "gelu_tanh"):
        if how == "gelu":
            half = np.vectorize(erf, otypes=[float])(values / np.sqrt(2))
        else:
            half = np.tanh(np.sqrt(2 / np.pi) * (values + 0.044715 * values**3))
        result: NDArray[Any] = values * 0.5 * (1 + half)
        return result
    if how == "silu":
        with np.errstate(over="ignore"):
            values = values / (1 + np.exp(-values))
    return values


workload = GemmEpilogue()
