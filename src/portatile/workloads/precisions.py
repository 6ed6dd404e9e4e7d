"""Which workload computes a product in another precision than its type's own, and the note for users if there is none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from portatile import workloads
from portatile.dtypes import product
from portatile.errors import ArgumentError
from portatile.records import DeviceInfo, Problem, Value

EMULATED: Mapping[str, str] = {"float32": "gemm_terms", **dict.fromkeys(("float64", "complex64", "complex128"), "gemm_residues")}
"""For each dtype the workload that computes an accurate product from products of narrower types; its bound is no larger than the native
one.
"""
REPRODUCIBLE: Mapping[str, str] = dict.fromkeys(("float32", "float64", "complex64", "complex128"), "gemm_residues")
"""For each dtype the workload whose results have the same bits on every device, back end and run."""
BY_ITSELF = frozenset({"float32", "complex64"})
"""Dtypes whose product is emulated without being asked, if its workload ``wins``. On an H200 large ones take a third of the native time.
Those of float64 and complex128 gain too little, and lose much on data of which most elements must be computed again. Other computations
that consist of products have them emulated without being asked only for float32.
"""
BY_ITSELF_NOTE = "computed as with precision='emulated': faster here, and its error bound is no larger; precision='native' turns that off"
IN_PLACE_OF_THREE = "computed as with precision='emulated': faster here than three real products, and its error bound is smaller"
BEYOND: Mapping[str, str] = {
    "gemm_terms": "rows and columns that two terms do not hold, of infinities, NaN or very different magnitudes, are computed natively",
    "gemm_residues": "elements that rounding to integers could spoil, infinities and NaN are computed again, as k multiply-adds each",
}
"""For each workload what happens to numbers outside its range."""
ACCURACY_GIVEN_UP: Mapping[str, str] = {
    "tf32": "matrix units cut both factors of each term to ten bits of their fractions: of |A| |B| that may cost 2^-9",
    "3m": "relative to the sums of moduli the error of the imaginary part may be three times that of four real products",
}
"""For each precision what accuracy is given up for speed."""
NATIVE = "native"
"""The value of the option ``precision``, of computations that consist of products, for products in their type's own precision."""
PRODUCTS = ("gemm", "gemm_batched")
FUSED = ("gemm_epilogue", "gemm_blocks")
"""Products with an epilogue or block scales in the same launch."""
_LEAST = 1 << 27  # multiply-adds below which no device is expected to gain from an emulated float32 product


class Computed(NamedTuple):
    """The workload and the dtype that compute a product; ``note`` says so if that is not what was asked for.

    A computation that consists of products keeps its workload and gets ``options`` that choose their precision.
    """

    workload: str
    dtype: str
    note: str = ""
    options: Mapping[str, Value] = {}


def choices(workload: str) -> tuple[str, ...]:
    """The precisions other than its own that a workload offers; empty if it has no products, or only native ones."""
    if workload in (*PRODUCTS, *FUSED):
        return ("tf32", "3m", "emulated", "reproducible")
    return tuple(str(value) for value in workloads.get(workload).options.get("precision", ()) if value != NATIVE)


def computed(precision: str, workload: str, dtype: str, options: Mapping[str, Value] | None = None) -> Computed:
    """What computes ``workload`` for ``dtype`` in a precision (tf32, 3m, emulated, reproducible), or in its own if ``precision`` is empty.

    ``options``: the problem's options by name; only those of an epilogue matter.

    If there is no emulated product, the native one is returned with a ``note``. Raises ArgumentError if a promise (reproducible bits)
    cannot be kept, or if the workload does not have the precision.
    """
    if precision in ("", NATIVE):
        return Computed(workload, dtype)
    known = choices(workload)
    if precision not in known:
        names = f"the precisions {', '.join(known)} and its own" if known else "no precision but its own"
        raise ArgumentError(f"precision={precision!r}: {workload} has {names}")
    if workload in FUSED:
        return _fused(precision, workload, dtype, options or {})
    if precision == "tf32":
        if dtype != "float32":
            raise ArgumentError(f"precision='tf32' is for products of float32; these are of {dtype}")
        return Computed(workload, "tfloat32") if workload in PRODUCTS else Computed(workload, dtype, options={"precision": precision})
    if precision == "3m":
        if not product(dtype).complex:
            raise ArgumentError(f"precision='3m' is for products of complex64 and complex128; these are of {dtype}")
        if workload == "gemm_batched":
            return Computed(workload, dtype, "stacks are multiplied by four real products")
        return Computed("gemm3m", dtype) if workload == "gemm" else Computed(workload, dtype, options={"precision": precision})
    if workload not in PRODUCTS:
        return Computed(workload, dtype, options={"precision": precision})
    emulated = EMULATED if precision == "emulated" else REPRODUCIBLE
    if dtype in emulated and workload == "gemm":
        return Computed(emulated[dtype], dtype)
    if product(dtype).real == "uint32":
        return Computed(workload, dtype, "sums of integers are exact by themselves")
    if precision == "emulated":
        return Computed(workload, dtype, f"there is no emulated product of {dtype} here: the native product runs")
    types = ", ".join(emulated)
    raise ArgumentError(f"precision='reproducible' is for products of {types}; these are of {dtype}: convert them")


def _fused(precision: str, workload: str, dtype: str, options: Mapping[str, Value]) -> Computed:
    """The product, followed by a launch for bias and activation. Vectors of scales need the native product."""
    computed_as = computed(precision, "gemm", dtype)
    if (computed_as.workload, computed_as.dtype) == ("gemm", dtype):
        return Computed(workload, dtype, computed_as.note)
    if workload == "gemm_blocks" or any(options.get(name, "none") != "none" for name in ("scale_a", "scale_b")):
        if precision == "reproducible":
            raise ArgumentError("precision='reproducible' goes with scales that are numbers, not with vectors: apply these to the product")
        return Computed(workload, dtype, f"there is no product in {precision} with vectors of scales: the native product runs")
    return Computed(computed_as.workload, computed_as.dtype, "bias and activation follow the product in a launch of their own")


def chosen_by_device(precision: str) -> bool:
    """Whether the device may choose another precision of no larger bound instead of this one; an empty string means that none was asked
    for.
    """
    return precision in ("", "3m")


def preferred(problem: Problem, *devices: DeviceInfo) -> Problem:
    """The problem to compute if the device chooses: the emulated one if it wins on all devices, otherwise ``problem``.

    A complex product as three real ones is also emulated if that is faster than four real ones, since it then also beats three.
    """
    emulated = _emulated(problem)
    if emulated is None:
        return problem
    workload = workloads.get(emulated.workload)
    return emulated if all(workload.wins(emulated, device) for device in devices) else problem


def accuracy_given_up(precision: str, problem: Problem, device: DeviceInfo) -> str:
    """What is given for speed where ``problem`` is computed for one of a ``precision``; empty where nothing is."""
    there = {
        "tf32": "tfloat32" in device.can.matrix_types,
        "3m": problem.workload == "gemm3m" or problem.options.get("precision") == "3m",
    }
    return ACCURACY_GIVEN_UP[precision] if there.get(precision) else ""


def _emulated(problem: Problem) -> Problem | None:
    """A product, or a computation that consists of large ones, in emulated precision; None where that does not run by itself."""
    if problem.workload == "gemm3m":
        return workloads.get(EMULATED[problem.dtype]).problem(problem.sizes, problem.dtype, problem.options, problem.layout)
    if problem.dtype not in BY_ITSELF:
        return None
    if problem.workload == "gemm":
        return workloads.get(EMULATED[problem.dtype]).problem(problem.sizes, problem.dtype, problem.options, problem.layout)
    workload = workloads.get(problem.workload)
    known = "emulated" in workload.options.get("precision", ()) and "precision" not in problem.options
    if not known or problem.dtype != "float32" or workload.flops(problem) < 2 * _LEAST:
        return None
    return workload.problem(problem.sizes, problem.dtype, {**problem.options, "precision": "emulated"}, problem.layout)


def one_by_one(precision: str, dtype: str, work: int) -> bool:
    """Whether the products of a stack, of ``work`` multiply-adds each, are computed one after another because no workload emulates a whole
    stack. Products that fall back to native ones are not.
    """
    if precision == "emulated" and dtype == "float32" and work < _LEAST:
        return False
    return dtype in {"emulated": EMULATED, "reproducible": REPRODUCIBLE}.get(precision, {})


def problem(precision: str, name: str, dtype: str, values: Mapping[str, Value]) -> tuple[Problem, str]:
    """The problem of ``workloads.problem`` in a precision, and the note of ``computed``. Raises ArgumentError if the workload does not have
    the precision.
    """
    if not precision:
        return workloads.problem(name, dtype, values), ""
    workload = workloads.get(name).name
    computed_as = computed(precision, workload, dtype, values)
    left = workloads.get(workload).options.keys() - workloads.get(computed_as.workload).options.keys()  # of an epilogue
    options = {key: value for key, value in values.items() if key not in left}
    return workloads.problem(computed_as.workload, computed_as.dtype, {**options, **computed_as.options}), computed_as.note
