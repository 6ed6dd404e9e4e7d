"""Configurations of a product and cuBLAS, timed in turns in one child process, which is killed if one of them hangs; for candidates.py."""

from __future__ import annotations

import math
import multiprocessing as mp
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import in_torch
from portatile import workloads
from portatile.records import Binary, Config, DeviceInfo, Launch, Problem
from portatile.workload import Workload

ROUNDS = 7
UNITS = ("float16", "bfloat16", "int8", "tfloat32")
ROUNDING = {"float16": 2.0**-11, "bfloat16": 2.0**-8}
SUMS = {"float64": 1e-12, "tfloat32": 2.0**-9, "int8": 0.0}
HELD = {"tfloat32": "float32"}


@dataclass(frozen=True)
class Case:
    """A product: its element type, its letters, its sizes, and how many share a launch."""

    dtype: str
    trans: str
    sizes: tuple[int, int, int]
    batch: int = 1

    def __str__(self) -> str:
        return f"{f'{self.batch}*' if self.batch > 1 else ''}{'x'.join(map(str, self.sizes))} {self.trans} {self.dtype}"

    @property
    def flops(self) -> float:
        return 2.0 * self.batch * math.prod(self.sizes)

    @property
    def workload(self) -> Workload:
        return workloads.get("gemm_batched" if self.batch > 1 else "gemm")

    @property
    def problem(self) -> Problem:
        sizes = dict(zip("mnk", self.sizes, strict=True)) | ({"batch": self.batch} if self.batch > 1 else {})
        return self.workload.problem(sizes, self.dtype, {"trans_a": self.trans[0], "trans_b": self.trans[1]})


def built_of(work: Mapping[Case, Mapping[str, Config]], info: DeviceInfo) -> dict[str, Binary]:
    """Every kernel text of every candidate, compiled."""
    texts = {
        step.source
        for case, configs in work.items()
        for config in configs.values()
        for step in case.workload.plan(case.problem, config, info).steps
        if isinstance(step, Launch)
    }
    return in_torch.compiled(texts, info.architecture)


class Child:
    """The process that runs candidates; it is replaced if it hangs or dies."""

    def __init__(self, built: Mapping[str, Binary], patience: float) -> None:
        self._built, self._patience = built, patience
        self._start()

    def _start(self) -> None:
        self._end, theirs = mp.get_context("spawn").Pipe()
        self._process = mp.get_context("spawn").Process(target=serve, args=(theirs, dict(self._built)), daemon=True)
        self._process.start()
        theirs.close()
        if not self._end.poll(90) or self._end.recv() != ("ready",):
            raise SystemExit("the child did not start")

    def timed(self, case: Case, configs: Mapping[str, Config]) -> tuple[dict[str, list[float]], dict[str, str]]:
        """Samples in seconds of cuBLAS and of the right candidates, and the errors of the others."""
        bad: dict[str, str] = {}
        while True:
            at = ""
            self._end.send((case, {name: config for name, config in configs.items() if name not in bad}))
            try:
                while True:
                    if not self._end.poll(self._patience):
                        raise TimeoutError
                    kind, *said = self._end.recv()
                    if kind == "at":
                        at = said[0]
                    elif kind == "bad":
                        bad[said[0]] = said[1]
                        if "CUDA" in said[1] or "illegal" in said[1]:  # the context is lost
                            raise EOFError
                    else:
                        return said[0], bad
            except (TimeoutError, EOFError) as error:
                bad.setdefault(at, "hangs" if isinstance(error, TimeoutError) else "dies")
                self._process.kill()
                self._process.join()
                self._start()
                if at in ("", "cuBLAS"):
                    return {}, bad

    def stop(self) -> None:
        self._process.kill()


def serve(end: Any, built: dict[str, Binary]) -> None:
    """The child process: it reports which candidate it runs, errors of candidates, and at the end the samples of a case."""
    import torch

    torch.zeros(1, device="cuda")
    end.send(("ready",))
    while True:
        case, configs = end.recv()
        try:
            end.send(("times", _case(torch, end, case, configs, built)))
        except Exception as error:  # the parent goes on with another child
            end.send(("bad", "cuBLAS", f"CUDA: {type(error).__name__}: {str(error)[:200]}"))


def _case(torch: Any, end: Any, case: Case, configs: Mapping[str, Config], built: Mapping[str, Binary]) -> dict[str, list[float]]:
    """Seconds per run of cuBLAS and of each configuration, in turns; errors before or after the timing are sent to the parent instead."""
    from portatile import device

    info = device.get("cuda").info
    torch.backends.cuda.matmul.allow_tf32 = case.dtype == "tfloat32"
    shapes = case.workload.shapes(case.problem)
    result = torch.int32 if case.dtype == "int8" else getattr(torch, HELD.get(case.dtype, case.dtype))
    operands = {name: _drawn(torch, case.dtype, shapes[name]) for name in "ab"}
    x, y = (operands[name].mT if trans == "T" else operands[name] for name, trans in zip("ab", case.trans, strict=True))
    end.send(("at", "cuBLAS"))
    peer = _peer(torch, case, x, y, torch.empty(shapes["c"], dtype=result, device="cuda"))
    count = _burst(torch, peer)
    graphs = {"cuBLAS": _graph(torch, peer, count)}
    check = _checker(torch, case, x, y)
    calls, results = [peer], {}  # a call keeps its memory
    for name, config in configs.items():
        end.send(("at", name))
        try:
            c = torch.empty(shapes["c"], dtype=result, device="cuda").fill_(77 if case.dtype == "int8" else math.nan)
            plan = case.workload.plan(case.problem, config, info)
            call = in_torch.launches(torch, plan, {**operands, "c": c}, {"alpha": 1.0, "beta": 0.0}, built)
            call()
            check(c)
            calls.append(call)
            graphs[name], results[name] = _graph(torch, call, count), c
        except Exception as error:  # one candidate's failure
            end.send(("bad", name, f"{type(error).__name__}: {str(error)[:200]}"))
    samples = _samples(torch, end, graphs, count)
    for name, c in results.items():  # after many launches one after the other, as before the first
        try:
            check(c)
        except ValueError as error:
            del samples[name]
            end.send(("bad", name, f"after {ROUNDS * count} launches: {error}"))
    return samples


def _peer(torch: Any, case: Case, x: Any, y: Any, out: Any) -> Callable[[], Any]:
    """cuBLAS's product of ``x`` and ``y``."""
    if case.dtype == "int8":
        return lambda: torch._int_mm(x, y)
    return lambda: torch.matmul(x, y, out=out)


def _burst(torch: Any, call: Callable[[], Any]) -> int:
    """How many runs last about 0.4 ms."""
    call()
    torch.cuda.synchronize()
    begin, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    call()
    stop.record()
    stop.synchronize()
    return int(max(3, min(40, 4e-4 / max(begin.elapsed_time(stop) * 1e-3, 4e-6))))


def _checker(torch: Any, case: Case, x: Any, y: Any) -> Callable[[Any], None]:
    """A check of some rows of a product within the bound of its sums; it raises ValueError."""
    rows = torch.arange(min(case.sizes[0], 64), device="cuda") * (case.sizes[0] - 1) // max(min(case.sizes[0], 64) - 1, 1)
    lhs, rhs = x[..., rows, :].double(), y.double()
    expected, scale = lhs @ rhs, lhs.abs() @ rhs.abs()
    allowed = ROUNDING.get(case.dtype, 0.0) * expected.abs() + SUMS.get(case.dtype, 1e-5) * scale
    return lambda c: _check(torch, c[..., rows, :], expected, allowed)


def _samples(torch: Any, end: Any, graphs: Mapping[str, Any], count: int) -> dict[str, list[float]]:
    """Seconds a run of each graph, which holds ``count`` runs, in rounds of all."""
    begin, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    samples: dict[str, list[float]] = {name: [] for name in graphs}
    for _ in range(ROUNDS):
        for name, graph in graphs.items():
            end.send(("at", name))
            begin.record()
            graph.replay()
            stop.record()
            stop.synchronize()
            samples[name].append(begin.elapsed_time(stop) * 1e-3 / count)
    return samples


def _drawn(torch: Any, dtype: str, shape: tuple[int, ...]) -> Any:
    if dtype == "int8":
        return torch.randint(-128, 128, shape, device="cuda", dtype=torch.int8)
    return torch.randn(shape, device="cuda", dtype=torch.float64 if dtype == "float64" else torch.float32).to(
        getattr(torch, HELD.get(dtype, dtype))
    )


def _graph(torch: Any, call: Callable[[], Any], count: int) -> Any:
    """A CUDA graph of so many consecutive calls, which has run once."""
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        call()
    side.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(count):
            call()
    graph.replay()
    torch.cuda.synchronize()
    return graph


def _check(torch: Any, got: Any, expected: Any, allowed: Any) -> None:
    """Raise ValueError if elements exceed the rounding bound."""
    torch.cuda.synchronize()
    wrong = ~((got.double() - expected).abs() <= allowed + 1e-30)
    if bool(wrong.any()):
        raise ValueError(f"{int(wrong.sum())} of {wrong.numel()} elements are wrong, first at {wrong.nonzero()[0].tolist()}")
