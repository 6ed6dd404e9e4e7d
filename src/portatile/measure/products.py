"""Matrix products to compare: the algorithms, the kernel of each algorithm and each rung of the ladder, and plain Python's."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from portatile import workloads
from portatile.device.base import Device
from portatile.errors import ArgumentError
from portatile.measure import runs
from portatile.records import Config, Problem
from portatile.workloads import matmul as ladder
from portatile.workloads.gemm import presets, rungs

ALGORITHMS = {
    "host": "three loops of Python on the host, no device",
    "sequential": "one work-item",
    "global": "one element of C each, from global memory",
    "local": "square tiles in local memory",
    "tuned": "the best known of these kernels",
    "gemm": "the best known of the fast generator",
}
_LAST_OF_MATMUL = max(ladder.RUNGS)
RUNGS = (*ladder.RUNGS, *rungs.TITLES)
PRESETS = presets.PRESETS
_HOST_LIMIT = 2**27  # multiplications in plain Python, at most: they take a minute or two


@dataclass(frozen=True)
class MatrixProduct:
    """A product of matrices, C (m x n) = A (m x k) B, by an algorithm or, if given, by a rung of the ladder or one of ``PRESETS``.

    ``block`` is the edge of the work-group or tile of algorithms that have one, None for their default. ``switches``: parameters that are
    switched on, such as LDG and SHUFFLE. ``carveout``: the percentage of a multiprocessor's unified memory that is local memory, None for
    the driver's choice.
    """

    algorithm: str
    rung: int | None
    sizes: dict[str, int]
    block: int | None
    dtype: str
    preset: str | None = None
    switches: tuple[str, ...] = ()
    carveout: int | None = None

    @property
    def title(self) -> str:
        """A title for people."""
        m, n, k = (self.sizes[name] for name in "mnk")
        what = f"preset {self.preset}" if self.preset else f"rung {self.rung}" if self.rung else self.algorithm
        return f"{what}{''.join(f' with {name}' for name in self.switches)}, {m} x {n} x {k}, {self.dtype}"

    def choose(self, opened: Device) -> tuple[Problem, Config]:
        """Problem and configuration; raises ArgumentError if it cannot run on the device."""
        problem, config = self._chosen(opened)
        space = workloads.get(problem.workload).space(problem, opened.info)
        added: Config = {**dict.fromkeys(self.switches, True), **({} if self.carveout is None else {"CARVEOUT": self.carveout})}
        if missing := [name for name in added if name not in space.parameters]:
            raise ArgumentError(f"{self.title} has no {', '.join(missing)}; `portatile study ladder` tries the fast rungs without and with")
        config = {**config, **added}
        if any(config.get(name) for name in ("LDG", "SHUFFLE", "PLAIN")) and not opened.info.nvidia:
            message = f"{self.title} takes instructions of NVIDIA's GPUs"
            raise ArgumentError(f"{message}, which {opened.info.id} is not; choose another --device, or omit them")
        why = space.violated(config) if added else None
        if why:
            raise ArgumentError(f"{self.title} cannot run on {opened.info.id}: {why}")
        return problem, config

    def _chosen(self, opened: Device) -> tuple[Problem, Config]:
        """Problem and configuration without the switches."""
        name = "gemm" if self.preset or self.algorithm == "gemm" or (self.rung or 0) > _LAST_OF_MATMUL else "matmul"
        workload = workloads.get(name)
        problem = workload.problem(self.sizes, self.dtype)
        if self.preset is not None:
            return problem, workload.preset(self.preset, problem)
        if self.rung is not None and name == "gemm":
            return problem, rungs.rung(self.rung, self.dtype)
        if self.rung is None and self.algorithm in ("gemm", "tuned"):
            return problem, runs.known(problem, opened).config
        config = dict(ladder.RUNGS[self.rung] if self.rung else {**ladder.BASE, "ALGORITHM": self.algorithm})
        if self.algorithm == "sequential" and self.rung is None:
            config["BLOCK"] = 2
        elif self.block is not None:
            config["BLOCK"] = self.block
        why = workload.space(problem, opened.info).violated(config)
        if why:
            raise ArgumentError(f"{self.title} cannot run on {opened.info.id}: {why}")
        return problem, config

    @property
    def flops(self) -> float:
        """2 m n k, however it is computed."""
        return workloads.get("matmul").flops(workloads.get("matmul").problem(self.sizes, self.dtype))

    def on_the_host(self, seed: int) -> tuple[float, dict[str, NDArray[Any]]]:
        """Seconds that plain Python takes, and the matrices a, b and c; raises ArgumentError for sizes that would take minutes."""
        if math.prod(self.sizes.values()) > _HOST_LIMIT:
            most = int(_HOST_LIMIT ** (1 / 3))
            raise ArgumentError(f"{self.title}: plain Python would take minutes; take up to {most} rows and columns")
        workload = workloads.get("matmul")
        problem = workload.problem(self.sizes, self.dtype)
        memory, shapes = workload.inputs(problem, np.random.default_rng(seed)).operands, workload.shapes(problem)
        a, b = (np.asarray(memory[name], self.dtype).reshape(shapes[name]) for name in "ab")
        start = time.perf_counter()
        c = ladder.sequential(a, b)
        return time.perf_counter() - start, {"a": a, "b": b, "c": c}
