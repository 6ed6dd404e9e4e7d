"""Batched TRSM: op(A_i) X_i = alpha B_i for many small triangles of one order, in a few launches for all of them."""

from __future__ import annotations

from collections.abc import Mapping

from portatile.records import Config, DeviceInfo, Layout, Plan, Problem, Value
from portatile.space import ParameterSpace
from portatile.workloads import structured
from portatile.workloads.batched import Batched, Strides, native
from portatile.workloads.blocks import is_complex
from portatile.workloads.structured import order, result
from portatile.workloads.triangular import INVERTED, Triangular, reference, steps, substituted, substitution
from portatile.workloads.triangular import workload as single
from portatile.workloads.triangular.recursion import SystemBatch

_BLOCKS = (16, 32, 64, 128, 256, 512)
_SUBSTITUTED = 128  # the order of blocks that one launch solves by substitution, at most
_SIDES = (16, 32, 64, 128, 256)
_INVERTED = 256  # the order of the blocks that a GPU inverts


class TriangularBatched(Batched, Triangular):
    """A stack of triangular systems, X_i over B_i (m x n): op(A_i) X_i = alpha B_i, or X_i op(A_i) = alpha B_i, for ``batch`` of one shape.

    A is batch x order x order, B is batch x m x n, with any strides along the batch; with a stride of 0 all systems share one A. Options
    are those of ``triangular``.
    """

    name = "triangular_batched"
    meanings: Mapping[str, str] = {
        "METHOD": "substitute or invert, as for triangular.",
        "NB": "Order of the blocks that one launch solves by substitution, or that are inverted, with products between them.",
        "IB": "Unknowns that substitution keeps in registers; with invert, order of the blocks that substitution inverts.",
        "WGS": "Work-items of a work-group; on a processor the right-hand sides that a work-item solves together.",
        "PANEL": "Columns that a work-group joins at a time when blocks are inverted.",
    }
    aliases = ("trsm_batched",)
    options: Mapping[str, tuple[Value, ...]] = native(Triangular.options, apart=True)
    sizes: Mapping[str, str] = {"batch": "systems", "m": "rows of each B", "n": "columns of each B"}
    single = single

    def space(self, problem: Problem, device: DeviceInfo) -> ParameterSpace:
        """Blocks of at most twice the order."""
        return ParameterSpace(
            {"METHOD": ("invert", "substitute"), "NB": _BLOCKS, "IB": (4, 8, 16, 32), "WGS": _SIDES, "PANEL": (8, 16, 32)},
            (
                "NB == 16 or NB < 2 * order",
                "IB <= NB",
                "WGS <= max_work_group_size",
                f"METHOD != 'substitute' or (PANEL == 8 and NB <= {_SUBSTITUTED})",
                "METHOD != 'substitute' or device_kind != 'cpu' or itemsize * NB * WGS <= local_memory",
                "WGS >= 32 or (device_kind == 'cpu' and METHOD == 'substitute')",
                *INVERTED,
                *substitution.RULES,
            ),
            {**problem.facts(), **device.facts(), **substitution.facts(device), "order": order(problem), "complex": is_complex(problem)},
        )

    def canonical(self, config: Config) -> Config:
        """Configurations that were recorded when there was only one method, with that method's name."""
        return {"METHOD": "substitute", "PANEL": 8, **config}

    def default(self, problem: Problem, device: DeviceInfo) -> Config:
        """Substitution; on GPUs with the whole order in one launch, or inverses for larger orders; on processors with blocks as large as
        local memory holds beside the right-hand sides of a work-group, which is as wide as those of one system.
        """
        n, sides = order(problem), problem.sizes["n" if problem.options["side"] == "L" else "m"]
        if device.kind != "cpu":
            nb = min(max(1 << (n - 1).bit_length(), 16), _INVERTED)
            inverses: Config = {"METHOD": "invert", "NB": nb, "IB": 16, "WGS": structured.largest_group(device), "PANEL": 16}
            return substitution.whole(device, n, sides, problem.itemsize, stacked=True) or inverses
        group = min(next((size for size in _SIDES if sides <= size <= 64), 64), device.max_work_group_size)
        fits = [nb for nb in _BLOCKS if nb <= _SUBSTITUTED and nb < 2 * n and nb * group * problem.itemsize <= device.local_memory]
        return {"METHOD": "substitute", "NB": max(fits, default=16), "IB": substituted(problem, device), "WGS": group, "PANEL": 8}

    def plan(self, problem: Problem, config: Config, device: DeviceInfo) -> Plan:
        """The steps of one system, each over the whole batch; a batch that is too long for a launch is divided."""

        def made(first: Problem, apart: Strides, count: int) -> Plan:
            return steps.plan(first, self.canonical(config), device, SystemBatch(count, apart["a"], apart["b"], apart[result(first)]))

        return self.in_parts(problem, made)

    def bound(self, problem: Problem, config: Config) -> float:
        """The rounding error of the method; see ``triangular``."""
        return reference.bound(problem, str(config.get("METHOD", "substitute")), int(config["NB"]))

    def awkward(self, problem: Problem) -> list[Problem]:
        """Problems with gaps between rows and between matrices, offsets, a shared triangle, and orders that no block divides."""
        problems = []
        for count, rows, columns, pad, offset, shared in (
            (1, 1, 1, 0, 0, False),
            (5, 7, 3, 3, 5, False),
            (3, 45, 17, 0, 0, True),
            (2, 77, 9, 4, 4, False),
        ):
            sizes = (rows, columns) if problem.options["side"] == "L" else (columns, rows)
            bare = self.problem(dict(zip(self.sizes, (count, *sizes), strict=True)), problem.dtype, problem.options)
            layout = {}
            for name, (_, m, n) in self.shapes(bare).items():
                step = 0 if shared and name == "a" else m * (n + pad) + 3 * pad
                layout[name] = Layout((step, n + pad, 1), offset, 16 if pad % 4 else 128)
            problems.append(self.problem(bare.sizes, problem.dtype, problem.options, layout))
        return problems


workload = TriangularBatched()
