"""Products of other types than float32 and float64 as products of the reals that kernels calculate with.

A complex product is a real one of twice the rows and columns: A's rows are its real and imaginary parts by turns, and so are B's columns.

      re a_i | S00 S01      S = the sums over k of all four, as of any real product, and then
      im a_i | S10 S11      c_ij = (S00 - S11) + i (S01 + S10): 8 m n k operations, as many as there must be
               re  im b_j

An operand with k slow is such a real matrix as it lies in memory. Of one with k fast real and imaginary parts alternate along its rows, so
they are told apart when it is read or packed. Conjugates only change signs of what S01, S10 and S11 give.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from portatile import dtypes
from portatile.dtypes import ProductTypes
from portatile.records import Layout, Problem, Value
from portatile.workloads.gemm import epilogue

_TYPES = "types"  # the option of a computed problem that says what it was before
EIGHT_BITS = ("float8_e4m3fn", "float8_e5m2")
"""Floats of whose sums matrix units keep 14 bits, so that these are added to others by and by."""
UNIT_TYPES = ("float16", "bfloat16", "tfloat32", "int8", *EIGHT_BITS)
"""Operands that the prelude's matrix multiply-add takes, on matrix units or without."""
DOT_TYPES = ("bfloat16", "int8")
"""Operands of which some processors add up the products of neighbours along k in one instruction."""
TRANSPOSED = {"N": "N", "T": "T", "C": "T", "R": "N"}
"""Whether op transposes: of N, T, C (conjugate transpose) and R (conjugate)."""


def types_of(problem: Problem) -> ProductTypes:
    """The types of a product, also of one that is computed."""
    return dtypes.product(str(problem.options.get(_TYPES, problem.dtype)))


def plain(problem: Problem) -> bool:
    """Whether kernels read and write a problem's operands as they lie, and sums become elements of C by alpha and beta alone."""
    return types_of(problem).plain and not epilogue.options_of(problem)


def for_units(problem: Problem) -> bool:
    """Whether the forms on matrix units compute it."""
    return types_of(problem).operand.name in UNIT_TYPES


def for_dots(problem: Problem) -> bool:
    """Whether the vnni form computes it."""
    return types_of(problem).operand.name in DOT_TYPES


def computed(problem: Problem) -> Problem:
    """The product of reals that stands for ``problem``: itself where it is one."""
    types = types_of(problem)
    if problem.dtype in ("float32", "float64") or _TYPES in problem.options:
        return problem
    parts = types.operand.components
    sizes = {**problem.sizes, "m": parts * problem.sizes["m"], "n": parts * problem.sizes["n"]}
    options: dict[str, Value] = {name: TRANSPOSED[str(problem.options[name])] for name in ("trans_a", "trans_b")}
    layout = {
        name: Layout((parts * one.strides[0], *one.strides[1:]), parts * one.offset, one.alignment) for name, one in problem.layout.items()
    }
    conjugated = "".join(name for name in "ab" if problem.options[f"trans_{name}"] in ("C", "R"))
    return Problem(
        problem.workload,
        sizes,
        types.real,
        {**options, **epilogue.options_of(problem), **_passed_on(problem), _TYPES: problem.dtype, "conjugated": conjugated},
        layout,
    )


def _passed_on(problem: Problem) -> dict[str, Value]:
    return {name: problem.options[name] for name in ("block", "moduli") if name in problem.options}


def moduli(problem: Problem) -> tuple[int, ...]:
    """For products of ``dtypes.REMAINDERS`` the modulus of each product of the stack, whose sums are stored as bytes; otherwise empty."""
    return tuple(map(int, str(problem.options.get("moduli", "")).split()))


def in_place(problem: Problem, name: str) -> bool:
    """Whether A or B of a computed problem is read as a real matrix as it lies."""
    types = types_of(problem)
    return types.plain or (types.complex and problem.options[f"trans_{name}"] == ("T" if name == "a" else "N"))


def parted(problem: Problem, name: str) -> bool:
    """Whether A or B of a computed problem has complex elements along k that are copied one at a time: each aligned to its size."""
    return types_of(problem).complex and not in_place(problem, name) and problem.layout[name].vector_width(problem.itemsize) >= 2


def facts(problem: Problem) -> dict[str, Value]:
    """Facts for rules about a computed problem's types: their name; whether they are float32 or float64 throughout, complex, for matrix
    units, for products of neighbours, or floats of eight bits; and whether A, B and C can be used as real matrices without conversion.
    """
    types = types_of(problem)
    values: dict[str, Value] = {"types": str(problem.options.get(_TYPES, problem.dtype)), "plain": plain(problem), "complex": types.complex}
    values["unit_type"], values["dot_type"] = for_units(problem), for_dots(problem)
    values["block"] = epilogue.block_of(problem)
    values["eight_bits"] = types.operand.name in EIGHT_BITS
    values["exact_c"] = types.result.stored == types.operand.real and not epilogue.options_of(problem)
    values |= {f"in_place_{name}": in_place(problem, name) for name in "ab"}
    return values | {f"parted_{name}": parted(problem, name) for name in "ab"}


def spelled(problem: Problem) -> dict[str, Any]:
    """The types of a computed problem for kernel texts: OpenCL C's types of A, B, C and the factors, and conversions."""
    types = types_of(problem)
    real = {"float32": "float", "float64": "double", "uint32": "uint"}[problem.dtype]
    conjugated = str(problem.options.get("conjugated", ""))
    return {
        "PLAIN": plain(problem),
        "COMPLEX": types.complex,
        "CONVERTED": types.converted,
        "A_KIND": types.operand.name,
        "C_KIND": types.result.name,
        "stored": types.operand.stored,
        "stored_c": types.result.stored,
        "factor": f"{real}2" if types.complex else {"int32": "int", "float32": "float", "float64": "double"}[types.scalar],
        "EPILOGUE": {**dict.fromkeys(epilogue.CHOICES, "none"), **epilogue.options_of(problem)},
        "NARROW": [name for name in epilogue.VECTORS if types.result.stored == "ushort" and name == problem.options.get("narrow")],
        "conjugated": conjugated,
        "BLOCK": epilogue.block_of(problem),
        "MODULI": moduli(problem),
    }


def without_conjugates(dtype: str, options: Mapping[str, Value]) -> Mapping[str, Value]:
    """The options of a product of this dtype: without conjugates where there are no complex numbers."""
    given = dict(options)
    if not dtype.startswith("complex"):
        given |= {name: TRANSPOSED.get(str(given[name]), given[name]) for name in ("trans_a", "trans_b") if name in given}
    return given
