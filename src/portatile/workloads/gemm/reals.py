"""Products of other types than float32 and float64, expressed as products of the real numbers that kernels compute with.

A complex product is a real one of twice the rows and columns. The rows of its A are the real and imaginary parts of A's rows in turn, and
so are the columns of its B:

      re a_i | S00 S01      S: the sums over k of all four products, as in any real product. Then
      im a_i | S10 S11      c_ij = (S00 - S11) + i (S01 + S10), in the 8 m n k operations that a complex product needs.
               re  im b_j

An operand with k slow is such a real matrix as it lies in memory. If k is fast, real and imaginary parts alternate along the rows, and are
separated when the operand is read or packed. A conjugate only changes the signs with which S01, S10 and S11 enter.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from portatile import dtypes
from portatile.dtypes import ProductTypes
from portatile.records import Layout, Problem, Value
from portatile.workloads.gemm import epilogue

_TYPES = "types"  # the option of a problem of real numbers that names the original dtype
EIGHT_BITS = ("float8_e4m3fn", "float8_e5m2")
"""Float types of whose sums matrix units keep 14 bits, so that partial sums are promoted: added in float32 registers from time to time."""
UNIT_TYPES = ("float16", "bfloat16", "tfloat32", "int8", *EIGHT_BITS)
"""Operand types of the prelude's matrix multiply-add, whether the device has matrix units or not."""
DOT_TYPES = ("bfloat16", "int8")
"""Operand types for which some processors add up the products of neighbours along k in one instruction."""
TRANSPOSED = {"N": "N", "T": "T", "C": "T", "R": "N"}
"""For each op whether it transposes: N, T, C (conjugate transpose) and R (conjugate), without the conjugate."""


def types_of(problem: Problem) -> ProductTypes:
    """The types of a product, also of one that ``computed`` made."""
    return dtypes.product(str(problem.options.get(_TYPES, problem.dtype)))


def plain(problem: Problem) -> bool:
    """Whether kernels read and write the operands without conversion, and only alpha and beta lie between sums and elements of C."""
    return types_of(problem).plain and not epilogue.options_of(problem)


def for_units(problem: Problem) -> bool:
    """Whether the forms on matrix units can compute the problem."""
    return types_of(problem).operand.name in UNIT_TYPES


def for_dots(problem: Problem) -> bool:
    """Whether the vnni form can compute the problem."""
    return types_of(problem).operand.name in DOT_TYPES


def computed(problem: Problem) -> Problem:
    """The product of real numbers that computes ``problem``: the problem itself if it is one."""
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
    """For products of ``dtypes.REMAINDERS`` the modulus of each product of the batch, whose sums are stored as bytes; otherwise empty."""
    return tuple(map(int, str(problem.options.get("moduli", "")).split()))


def in_place(problem: Problem, name: str) -> bool:
    """Whether A or B of a problem of real numbers is read as a real matrix without conversion."""
    types = types_of(problem)
    return types.plain or (types.complex and problem.options[f"trans_{name}"] == ("T" if name == "a" else "N"))


def parted(problem: Problem, name: str) -> bool:
    """Whether A or B has complex elements contiguous along k, each aligned to its size, so that they can be copied one by one."""
    return types_of(problem).complex and not in_place(problem, name) and problem.layout[name].vector_width(problem.itemsize) >= 2


def facts(problem: Problem) -> dict[str, Value]:
    """Facts about the types, for rules: the original dtype; whether it is plain, complex, for matrix units or dot products, or an 8-bit
    float; and whether A, B and C can be used as real matrices without conversion.
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
    """The types of a problem of real numbers for kernel texts: OpenCL C's names for those of A, B, C and the factors, and conversions."""
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
    """The options of a product of this dtype; without conjugates unless it is complex."""
    given = dict(options)
    if not dtype.startswith("complex"):
        given |= {name: TRANSPOSED.get(str(given[name]), given[name]) for name in ("trans_a", "trans_b") if name in given}
    return given
