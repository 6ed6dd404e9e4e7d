"""A product of PyTorch tensors by portatile and by cuBLAS: operands, both calls, the check, and the timing."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import portatile
from portatile import dtypes, workloads
from portatile.records import Problem

MULTIPLES = {"int8": 16, "float8_e4m3fn": 16, "float8_e5m2": 16}
"""Of what cuBLAS, as PyTorch calls it, takes sides only, of operands with k fast."""
CUT_EIGHT_BITS = 0.0169
"""Of a sum of magnitudes: the error of matrix units that keep 14 bits of sums of floats of eight bits."""


class Shape(NamedTuple):
    """One product: C (m x n) = op(A) op(B). ``dtype`` is a problem's: ``bfloat16``, ``float8_e4m3fn:bfloat16``."""

    m: int
    n: int
    k: int
    trans: str
    dtype: str

    @property
    def flops(self) -> float:
        """2 m n k."""
        return 2.0 * self.m * self.n * self.k

    @property
    def problem(self) -> Problem:
        """As portatile knows it, packed."""
        sizes = {"m": self.m, "n": self.n, "k": self.k}
        return workloads.get("gemm").problem(sizes, self.dtype, {"trans_a": self.trans[0], "trans_b": self.trans[1]})


class Tensors:
    """A product of PyTorch tensors by portatile and by cuBLAS.

    Operands of eight bits cuBLAS takes in one layout and in sides of 16 only: what it multiplies are copies that are padded beforehand.
    """

    def __init__(self, shape: Shape, selector: str) -> None:
        import torch

        self._torch, self.shape, self._selector = torch, shape, selector
        types = dtypes.product(shape.dtype)
        kind, result = (getattr(torch, element.name) for element in (types.operand, types.result))
        sides = [
            self._operand(kind, rows, columns, letter)
            for rows, columns, letter in ((shape.m, shape.k, shape.trans[0]), (shape.k, shape.n, shape.trans[1]))
        ]
        self.sides = tuple(sides)
        self._padded = self._copies(MULTIPLES.get(types.operand.name, 1))
        self.out = torch.empty((shape.m, shape.n), dtype=result, device="cuda")
        self._whole = torch.empty((self._padded[0].shape[0], self._padded[1].shape[1]), dtype=result, device="cuda")
        self.peer = self._whole[: shape.m, : shape.n]
        self.calls = {"portatile": self._ours, "peer": self._theirs()}
        for call in (self._ours, self._ours, self.calls["peer"]):  # an untuned product that comes again may be timed first
            call()
        torch.cuda.synchronize()
        self.check((self.out.double() - self.peer.double()).abs().max(), selector)

    def _operand(self, kind: Any, rows: int, columns: int, letter: str) -> Any:
        """Random numbers, as they are stored and seen as op asks."""
        torch = self._torch
        stored = (columns, rows) if letter == "T" else (rows, columns)
        if kind == torch.int8:
            made = torch.randint(-127, 128, stored, dtype=kind, device="cuda")
        else:
            made = (torch.rand(stored, dtype=torch.float64 if kind == torch.float64 else torch.float32, device="cuda") - 0.5).to(kind)
        return made.T if letter == "T" else made

    def _copies(self, multiple: int) -> tuple[Any, Any]:
        """The operands as cuBLAS takes them: themselves, or padded copies with k fast."""
        if multiple == 1:
            return self.sides[0], self.sides[1]
        made = []
        for side in (self.sides[0], self.sides[1].T):
            rows, columns = (max(2 * multiple, -(-size // multiple) * multiple) for size in side.shape)
            padded = self._torch.zeros((rows, columns), dtype=self._torch.uint8, device="cuda").view(side.dtype)
            padded[: side.shape[0], : side.shape[1]] = side
            made.append(padded)
        return made[0], made[1].T

    def _ours(self) -> None:
        portatile.matmul(*self.sides, out=self.out, device=self._selector)

    def _theirs(self) -> Callable[[], None]:
        torch, (a, b), out = self._torch, self._padded, self._whole
        if a.dtype == torch.int8:
            return lambda: torch._int_mm(a, b, out=out)
        if a.dtype.itemsize == 1:
            one = torch.ones((), device="cuda")
            return lambda: torch._scaled_mm(a, b, scale_a=one, scale_b=one, out_dtype=out.dtype, use_fast_accum=False, out=out)
        return lambda: torch.mm(a, b, out=out)

    def check(self, error: Any, where: str) -> None:
        """End the bench where the largest difference from the peer's result is too large for the rounding of both."""
        types, k = dtypes.product(self.shape.dtype), self.shape.k
        sums = {"float64": 2.0**-52}.get(types.operand.name, 2.0**-23) * 8 * k
        if types.operand.itemsize == 1:
            sums = CUT_EIGHT_BITS * k / 4 if types.operand.unit else 0.0
        narrow = types.result.itemsize == 2
        allowed = sums + (4 * types.result.unit * float(self.peer.abs().max()) if narrow else 0.0)
        if not float(error) <= allowed:
            raise SystemExit(f"{self.shape} is wrong on {where}: {float(error)} of {allowed}")

    def on_host(self) -> list[Any]:
        """The operands as NumPy arrays, as they are stored."""
        element = dtypes.product(self.shape.dtype).operand
        bits = getattr(self._torch, f"int{8 * element.itemsize}")
        stored = [side if side.is_contiguous() else side.T for side in self.sides]
        return [side.view(bits).cpu().numpy().view(element.numpy) for side in stored]

    def repeated(self, name: str, count: int) -> Callable[[], float]:
        """What gives the seconds of a call, of so many one after the other."""

        def run() -> float:
            self._torch.cuda.synchronize()
            started = time.perf_counter()
            for _ in range(count):
                self.calls[name]()
            self._torch.cuda.synchronize()
            return (time.perf_counter() - started) / count

        return run

    def replay(self, name: str, count: int) -> Callable[[], float]:
        """What gives the seconds of a call, of so many in a replayed graph; raises RuntimeError for what cannot be captured."""
        torch, stream = self._torch, self._torch.cuda.Stream()
        with torch.cuda.stream(stream):
            self.calls[name]()
        stream.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            for _ in range(count):
                self.calls[name]()
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)

        def run() -> float:
            begin.record()
            graph.replay()
            end.record()
            end.synchronize()
            return float(begin.elapsed_time(end)) * 1e-3 / count

        return run
