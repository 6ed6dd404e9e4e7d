"""TRSM: op(A) X = alpha B or X op(A) = alpha B for a triangular A, as inverses or substitution on the diagonal and GEMM beside it."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from portatile.records import Config, DeviceInfo, Plan, Problem, Value
from portatile.space import ParameterSpace
from portatile.workload import Expected, Inputs
from portatile.workloads import operands, structured
from portatile.workloads.blocks import is_complex
from portatile.workloads.triangular import reference, steps, substitution

_LINE = 256  # bytes of right-hand sides that a processor's work-item substitutes in
_LONG = 512  # the order of real systems from which smaller blocks leave more to products
_LARGE = 4096  # the order from which a GPU's blocks are the largest
_CHAINED, _FEW = 16, 64  # times the right-hand sides, or so many of them, are the order from which little but the chain takes time


INVERTED = (
    "METHOD == 'substitute' or IB > 4",
    "METHOD == 'substitute' or NB > IB or PANEL == 8",
    "PANEL <= max(IB, 8)",
    "METHOD == 'substitute' or itemsize * (min(NB, 128) // 2 * ((16 if complex else 32) + PANEL) + 128) <= min(local_memory, 49152)",
    "METHOD == 'substitute' or itemsize * IB * (IB + 2) <= min(local_memory, 49152)",
)
"""The rules of inverses."""


class Triangular(structured.TriangularOperand):
    """TRSM, X over B (m x n): op(A) X = alpha B (``side="L"``, A of order m) or X op(A) = alpha B (``"R"``, order n), row-major.

    ``uplo`` says which triangle of A is read, ``trans`` what op is (C conjugates and transposes, R conjugates), ``diag="U"`` that
    the diagonal counts as ones and is not read. alpha = 0 makes X zero whatever A and B hold. A zero on the diagonal gives infinities
    or NaN, as in BLAS. With ``apart`` X is C (m x n), and B is only read. ``precision`` is that of
    the products beside the diagonal; its blocks are solved natively, in an order that is the configuration's, so that results are not the
    same on every device.
    """

    name = "triangular"
    meanings: Mapping[str, str] = {
        "METHOD": "invert: blocks on the diagonal are inverted, all at once, and multiplied, which is fast. refine: then one step of "
        "iterative refinement for each block. substitute: blocks are solved by substitution, as accurately as BLAS does for every "
        "triangle.",
        "NB": "Order of the blocks on the diagonal.",
        "IB": "Order of the blocks that substitution inverts before they are joined to NB; with substitute, unknowns that are kept in "
        "registers.",
        "WGS": "Work-items of a group; on a processor the right-hand sides in which a work-item substitutes, in vectors.",
        "PANEL": "Columns that a work-group joins at a time, where blocks are inverted.",
    }
    aliases = ("trsm",)
    options: Mapping[str, tuple[Value, ...]] = {
        **structured.TriangularOperand.options,
        "precision": tuple(value for value in structured.PRECISIONS if value != "reproducible"),
    }

    def space(self, problem: Problem, device: DeviceInfo) -> ParameterSpace:
        """Blocks of at most twice the order; what ``substitute`` does not use is fixed for it."""
        return ParameterSpace(
            {
                "METHOD": ("invert", "refine", "substitute"),
                "NB": (16, 32, 64, 128, 256, 512),
                "IB": (4, 8, 16, 32),
                "WGS": (32, 64, 128, 256),
                "PANEL": (8, 16, 32),
            },
            (
                "NB == 16 or NB < 2 * order",
                "IB <= NB",
                "WGS <= max_work_group_size",
                "METHOD != 'substitute' or PANEL == 8",
                "METHOD != 'substitute' or device_kind != 'cpu' or itemsize * NB * WGS <= local_memory",
                *INVERTED,
                *substitution.RULES,
            ),
            {
                **problem.facts(),
                **device.facts(),
                **substitution.facts(device),
                "order": structured.order(problem),
                "complex": is_complex(problem),
            },
        )

    def default(self, problem: Problem, device: DeviceInfo) -> Config:
        """On a CPU substitution, whose vectors hold right-hand sides: as fast as products nearly.

        Elsewhere small orders by substitution in one launch, above them inverses, which are faster and little less accurate.
        Larger blocks make fewer launches, which is what a GPU asks for.
        """
        order, gpu = structured.order(problem), device.kind == "gpu"
        if device.kind == "cpu":
            return _processor(problem, device)
        alone = substitution.whole(device, order, problem.sizes["n" if problem.options["side"] == "L" else "m"], problem.itemsize)
        if alone is not None:
            return alone
        group, padded = _group(device, 256 if gpu else 64), 1 << max(order - 1, 0).bit_length()
        nb = min(padded, self._block(problem)) if gpu else 64
        return {"METHOD": "invert", "NB": nb, "IB": 16 if gpu else 32, "WGS": group, "PANEL": 16}

    @staticmethod
    def _block(problem: Problem) -> int:
        """A GPU's blocks: as large as the chain of launches asks for, which takes the longer the fewer right-hand sides there are, and as
        products by inverses like, which skip zeros.
        """
        order = structured.order(problem)
        sides = problem.sizes["n" if problem.options["side"] == "L" else "m"]
        return 512 if order >= min(_CHAINED * max(sides, _FEW), _LARGE) else 256 if order >= 512 else 128

    def plan(self, problem: Problem, config: Config, device: DeviceInfo) -> Plan:
        """The blocks on the diagonal in order, with products of growing size between them; no step for an empty B."""
        return steps.plan(problem, config, device)

    def inputs(self, problem: Problem, rng: np.random.Generator) -> Inputs:
        """A well-conditioned A whose other parts are NaN, a random B; see ``reference.inputs``."""
        given = reference.inputs(problem, self.shapes(problem), rng)
        given.operands.update(self.separate_result(problem))
        return given

    def reference(self, problem: Problem, inputs: Inputs, sample: np.random.Generator | None = None) -> dict[str, Expected]:
        """X by substitution in float64; with ``sample``, some of its columns (side L) or rows (side R)."""
        return {structured.result(problem): reference.solution(problem, self.shapes(problem), inputs, sample)}

    def bound(self, problem: Problem, config: Config) -> float:
        """The rounding of the substitution, and for inverses that of the inverses; see ``reference.bound``."""
        return reference.bound(problem, str(config["METHOD"]), int(config["NB"]))

    def awkward(self, problem: Problem) -> list[Problem]:
        """One element; orders below, between and above the blocks, with padded rows and offsets."""
        cases = (((1, 1), 0, 0), ((7, 5), 0, 0), ((45, 37), 3, 5), ((77, 20), 0, 0), ((299, 13), 1, 2))
        transposed = [((count, order), pad, offset) for (order, count), pad, offset in cases]
        return operands.padded_problems(self, problem, transposed if problem.options["side"] == "R" else cases)


def _processor(problem: Problem, device: DeviceInfo) -> Config:
    """Blocks and right-hand sides that stay in the first caches; fewer right-hand sides where there are cores for more work-items."""
    order, itemsize = structured.order(problem), problem.itemsize
    sides = _LINE // itemsize
    if problem.sizes["n" if problem.options["side"] == "L" else "m"] <= sides * (device.compute_units - 1):
        sides = 32
    most = 64 if order > _LONG and not is_complex(problem) else 128
    fits = [nb for nb in (128, 64, 32) if nb <= most and nb < 2 * order and nb * sides * itemsize <= device.local_memory]
    return {"METHOD": "substitute", "NB": fits[0] if fits else 16, "IB": substituted(problem, device), "WGS": sides, "PANEL": 8}


def substituted(problem: Problem, device: DeviceInfo) -> int:
    """The unknowns that a processor's registers hold, or a work-item's; of complex ones half as many, unless there are registers enough."""
    return 4 if device.kind == "cpu" and is_complex(problem) and not device.wide_vectors else 8


def _group(device: DeviceInfo, wanted: int) -> int:
    """The largest work-group of the space up to ``wanted`` that the device takes."""
    return next((size for size in (256, 128, 64) if size <= min(wanted, device.max_work_group_size)), 32)


workload = Triangular()
