"""TRSM: op(A) X = alpha B or X op(A) = alpha B for a triangular A: inverses or substitution on the diagonal, GEMM off it."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from portatile.records import Config, DeviceInfo, Plan, Problem, Value
from portatile.space import ParameterSpace
from portatile.workload import Expected, Inputs
from portatile.workloads import operands, structured
from portatile.workloads.blocks import is_complex
from portatile.workloads.triangular import reference, steps, substitution

_LINE = 256  # bytes of right-hand sides (one element of each) that a processor's work-item solves together
_LONG = 512  # the order of real systems from which smaller blocks pay, because they leave more work to products
_LARGE = 4096  # the order from which a GPU uses the largest blocks
_CHAINED, _FEW = 16, 64  # the chain of launches dominates if the order is at least _CHAINED times the right-hand sides (at least _FEW)


INVERTED = (
    "METHOD == 'substitute' or IB > 4",
    "METHOD == 'substitute' or NB > IB or PANEL == 8",
    "PANEL <= max(IB, 8)",
    "METHOD == 'substitute' or itemsize * (min(NB, 128) // 2 * ((16 if complex else 32) + PANEL) + 128) <= min(local_memory, 49152)",
    "METHOD == 'substitute' or itemsize * IB * (IB + 2) <= min(local_memory, 49152)",
)
"""The rules for methods that invert blocks."""


class Triangular(structured.TriangularOperand):
    """TRSM, X over B (m x n): op(A) X = alpha B (``side="L"``, A of order m) or X op(A) = alpha B (``"R"``, order n), row-major.

    ``uplo``: the triangle of A that is read. ``trans``: op (C conjugates and transposes, R conjugates). With ``diag="U"`` the diagonal
    counts as ones and is not read. With alpha = 0 X becomes zero whatever A and B hold. A zero on the diagonal gives infinities or NaN, as
    in the BLAS. With ``apart`` X is C (m x n), and B is only read. ``precision`` is that of the products off the diagonal; blocks on it are
    solved natively, in an order that depends on the configuration, so results may differ between devices.
    """

    name = "triangular"
    meanings: Mapping[str, str] = {
        "METHOD": "invert: all blocks on the diagonal are inverted at once, and each is solved by a product, which is fast. refine: as "
        "invert, with one step of iterative refinement for each block. substitute: blocks are solved by substitution, as accurately as "
        "the BLAS does for any triangle.",
        "NB": "Order of the blocks on the diagonal.",
        "IB": "Order of the blocks that substitution inverts before they are joined up to order NB; with substitute, unknowns that are "
        "kept in registers.",
        "WGS": "Work-items of a work-group; on a processor the right-hand sides that a work-item solves together, in vectors.",
        "PANEL": "Columns that a work-group joins at a time when blocks are inverted.",
    }
    aliases = ("trsm",)
    options: Mapping[str, tuple[Value, ...]] = {
        **structured.TriangularOperand.options,
        "precision": tuple(value for value in structured.PRECISIONS if value != "reproducible"),
    }

    def space(self, problem: Problem, device: DeviceInfo) -> ParameterSpace:
        """Blocks of at most twice the order; parameters that ``substitute`` does not use have one value for it."""
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
        """On a processor substitution, with vectors along the right-hand sides: it is nearly as fast as products.

        On other devices small systems are solved by substitution in one launch, larger ones by inverses, which are faster and little less
        accurate. Larger blocks mean fewer launches, which suits a GPU.
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
        """The order of a GPU's blocks: large if the chain of launches dominates, which it does the more the fewer right-hand sides there
        are, and otherwise as suits products that skip zeros.
        """
        order = structured.order(problem)
        sides = problem.sizes["n" if problem.options["side"] == "L" else "m"]
        return 512 if order >= min(_CHAINED * max(sides, _FEW), _LARGE) else 256 if order >= 512 else 128

    def plan(self, problem: Problem, config: Config, device: DeviceInfo) -> Plan:
        """The blocks on the diagonal in order, with products of growing size between them; no step if B is empty."""
        return steps.plan(problem, config, device)

    def inputs(self, problem: Problem, rng: np.random.Generator) -> Inputs:
        """A well-conditioned A whose other triangle is NaN, and a random B; see ``reference.inputs``."""
        given = reference.inputs(problem, self.shapes(problem), rng)
        given.operands.update(self.separate_result(problem))
        return given

    def reference(self, problem: Problem, inputs: Inputs, sample: np.random.Generator | None = None) -> dict[str, Expected]:
        """X by substitution in float64; with ``sample``, some of its columns (side L) or rows (side R)."""
        return {structured.result(problem): reference.solution(problem, self.shapes(problem), inputs, sample)}

    def bound(self, problem: Problem, config: Config) -> float:
        """The rounding error of substitution, and with inverses also theirs; see ``reference.bound``."""
        return reference.bound(problem, str(config["METHOD"]), int(config["NB"]))

    def awkward(self, problem: Problem) -> list[Problem]:
        """One element; orders below, between and above the blocks, with padded rows and offsets."""
        cases = (((1, 1), 0, 0), ((7, 5), 0, 0), ((45, 37), 3, 5), ((77, 20), 0, 0), ((299, 13), 1, 2))
        transposed = [((count, order), pad, offset) for (order, count), pad, offset in cases]
        return operands.padded_problems(self, problem, transposed if problem.options["side"] == "R" else cases)


def _processor(problem: Problem, device: DeviceInfo) -> Config:
    """Blocks and right-hand sides that stay in the nearest caches; fewer right-hand sides if there are cores for more work-items."""
    order, itemsize = structured.order(problem), problem.itemsize
    sides = _LINE // itemsize
    if problem.sizes["n" if problem.options["side"] == "L" else "m"] <= sides * (device.compute_units - 1):
        sides = 32
    most = 64 if order > _LONG and not is_complex(problem) else 128
    fits = [nb for nb in (128, 64, 32) if nb <= most and nb < 2 * order and nb * sides * itemsize <= device.local_memory]
    return {"METHOD": "substitute", "NB": fits[0] if fits else 16, "IB": substituted(problem, device), "WGS": sides, "PANEL": 8}


def substituted(problem: Problem, device: DeviceInfo) -> int:
    """The unknowns that the registers of a processor, or of a work-item, hold; half as many complex ones, unless
    registers are plentiful.
    """
    return 4 if device.kind == "cpu" and is_complex(problem) and not device.wide_vectors else 8


def _group(device: DeviceInfo, wanted: int) -> int:
    """The largest work-group of the space, up to ``wanted``, that the device supports."""
    return next((size for size in (256, 128, 64) if size <= min(wanted, device.max_work_group_size)), 32)


workload = Triangular()
