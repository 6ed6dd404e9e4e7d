"""Ways to compute a triangle of C, each forced, by turns beside the default of SYRK or SYR2K and cuBLAS: does the estimate order them?

    python bench/triangles.py --problems syrk:2184x2192:UN,syr2k:2251x318:UT --dtype float64 --limit 60
    python bench/triangles.py --draws 20 --seed 5 --sizes 400,4000 --through opencl

The ways are whole tiles of several points, square tiles, quarters of those on the diagonal, tiles that groups share, and a rest in smaller
tiles (docs/internals/triangles.md): of each kind the --most that the estimate expects the least of. Times are the device's: through CUDA
of replayed graphs, through OpenCL as in ``level3_gpu.py``; each way is compared with float64 first. In the end stands, for each kind and
tile, what is measured over what is expected: the estimate is right where these are one number.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import islice
from multiprocessing import get_context
from statistics import geometric_mean, median
from typing import Any

import in_opencl
import in_torch
import portatile
from level3_gpu import Cublas, Cuda, OpenCl, burst, by_turns, expected, operands, peers
from level3_random import draw
from measure import facts, parser, print_table, save, slug, until_stopped
from portatile import cache, device, program, workloads
from portatile.execute import Executable
from portatile.records import DeviceInfo, Launch, Plan, Problem, Source, Value
from portatile.workloads import blocks, syrk
from portatile.workloads.gemm import plan as gemm_plan
from portatile.workloads.gemm.capabilities import local_limit
from portatile.workloads.gemm.extras import Extras, Triangle
from portatile.workloads.gemm.forms.gpu import costs, ranking, sharing
from portatile.workloads.gemm.forms.gpu.estimate import Structure
from portatile.workloads.gemm.forms.gpu.point import Gpu
from portatile.workloads.gemm.forms.gpu.stream import SharedTiles, Sharing, Tailed
from portatile.workloads.gemm.forms.gpu.triangle import Doubled, Quarters
from portatile.workloads.gemm.reals import computed

PAIRS = {"syrk": ("a", "a"), "syr2k": ("a", "b")}
_KINDS: dict[type, str] = {Doubled: "doubled", SharedTiles: "shared", Quarters: "quarters", Tailed: "rest", type(None): "whole"}
_DRAWN_SIZES, _LOOKED = "400,4000", 40  # variants among which whole tiles are looked for
_CALLS = 8  # of a graph
FACTORS = {"alpha": 1.0, "beta": 0.0}


@dataclass(frozen=True)
class Case:
    """SYRK or SYR2K of this order and so many terms; ``letters``: triangle and transposition."""

    routine: str
    order: int
    terms: int
    letters: str
    dtype: str

    def __str__(self) -> str:
        return f"{self.routine} {self.letters} {self.order} x {self.terms} {self.dtype}"

    @property
    def problem(self) -> Problem:
        options: dict[str, Value] = {"uplo": self.letters[0], "trans": self.letters[1]}
        return workloads.get(self.routine).problem({"n": self.order, "k": self.terms}, self.dtype, options)

    @property
    def product(self) -> Problem:
        """A times the transpose of B, which is A in SYRK."""
        problem, (first, second) = self.problem, PAIRS[self.routine]
        operands = {"a": (first, problem.layout[first]), "b": (second, problem.layout[second]), "c": ("c", problem.layout["c"])}
        sizes, letters = (self.order, self.order, self.terms), syrk.op_of(problem, (first, second))
        return blocks.product(problem, blocks.BlockProduct(sizes, operands, letters, ("alpha", "beta"))).problem

    @property
    def triangle(self) -> Triangle:
        """What is not wanted."""
        return Triangle("c", "below" if self.letters[0] == "U" else "above", mirrored=self.routine == "syrk")

    def plan(self, way: sharing.Way, info: DeviceInfo) -> Plan:
        """The launches of a way."""
        point, shared = way.found
        return gemm_plan.build(self.product, point, info, Extras(triangle=self.triangle, sharing=shared))


def ways(case: Case, info: DeviceInfo, most: int) -> dict[str, sharing.Way]:
    """By name the ways of each kind that are expected to take the least time."""
    product = computed(case.product)
    every = sharing.doubled_ways(product, info) if case.routine == "syr2k" else _shared(case, product, info, most)
    chosen: dict[str, sharing.Way] = {}
    counts: dict[str, int] = defaultdict(int)
    for way in sorted(every, key=lambda one: one.took):
        kind = kind_of(way.found[1])
        if counts[kind] < most and (name := named(way)) not in chosen:
            chosen[name] = way
            counts[kind] += 1
    return chosen


def _shared(case: Case, product: Problem, info: DeviceInfo, most: int) -> Iterator[sharing.Way]:
    """Whole tiles that the estimate ranks first, and ways to share tiles whose operands come as those of the first."""
    known = costs.known(info, product.dtype)
    if known is None:
        return
    found = ranking.candidates(product, info, local_limit(info), known, structure=Structure("c", same=True), alone=True)
    points: dict[tuple[Any, ...], Gpu] = {}
    for place in found.took.argsort()[:_LOOKED]:
        point = found.point(int(place))
        points.setdefault((point.rows, point.columns, point.items, point.KB, point.PACK_A, point.PACK_B), point)
    for number, point in enumerate(islice(points.values(), most)):
        every = sharing.ways(product, info, case.triangle.zeros, point, mirrored=True)
        yield from every if number == 0 else islice(every, 1)


def kind_of(shared: Sharing | None) -> str:
    """A word for a sharing."""
    return _KINDS.get(type(shared), type(shared).__name__)


def named(way: sharing.Way) -> str:
    """A way in a few words: its kind and tile, and what is packed."""
    point, shared = way.found
    tile = f"{kind_of(shared)} {point.rows}x{point.columns} of {point.items} KB {point.KB} DOUBLE {point.DOUBLE}"
    smaller = f" and {shared.smaller.rows} of {shared.smaller.items}" if isinstance(shared, Tailed) else ""
    split = f" k in {point.SPLIT_K}" + (f" of clusters of {point.CLUSTER}" if point.CLUSTER > 1 else "") if point.SPLIT_K > 1 else ""
    return tile + smaller + split + " packed" * (point.PACK_A or point.PACK_B)


Call = Callable[[], Any]
Timed = tuple[Callable[[Call, int], float], Call]
"""What times bursts of so many calls, in seconds of one, and what it calls."""


class OnCuda(Cuda):
    """PyTorch's arrays in a stream of its own, and the device's time: that of replayed graphs of some calls."""

    def __init__(self, torch: Any, plans: Sequence[Plan]) -> None:
        super().__init__(torch)
        self.stream = torch.cuda.Stream()
        torch.cuda.set_stream(self.stream)
        self.built = in_torch.compiled(_texts(plans), in_torch.info().architecture)

    def forced(self, plan: Plan, operands: Mapping[str, Any]) -> Call:
        """What queues a plan."""
        return in_torch.launches(self.torch, plan, operands, FACTORS, self.built)

    def timed(self, call: Call) -> Timed:
        """A graph of ``_CALLS`` calls."""
        call()
        self.torch.cuda.synchronize()
        graph = self.torch.cuda.CUDAGraph()
        with self.torch.cuda.graph(graph, stream=self.stream):
            for _ in range(_CALLS):
                call()
        return (lambda replay, count: self.burst(replay, max(1, count // _CALLS)) / _CALLS), partial(_replay, graph, call)

    peer = timed


def _replay(graph: Any, _captured: Call) -> None:
    """Replay a graph. What was captured is kept meanwhile: its kernels and workspaces are the graph's too."""
    graph.replay()


class OnOpenCl(OpenCl):
    """Buffers, in bursts behind a long copy."""

    def __init__(self, torch: Any, plans: Sequence[Plan]) -> None:
        super().__init__(torch)
        with ProcessPoolExecutor(os.cpu_count(), get_context("spawn")) as pool:
            texts = _texts(plans)
            list(pool.map(_compile, texts, [self.device.info] * len(texts)))

    def forced(self, plan: Plan, operands: Mapping[str, Any]) -> Call:
        """What queues a plan."""
        target, memory = device.target(self.device.info), {name: operand.memory for name, operand in operands.items()}
        executable = Executable(self.device, plan, lambda text: program.build(text, target, cache.default()))
        return lambda: executable.run(self.queue, memory, FACTORS)

    def timed(self, call: Call) -> Timed:
        """The call itself."""
        return self.burst, call

    def peer(self, call: Call) -> Timed:
        """The same of cuBLAS's call, in PyTorch's stream."""
        return partial(burst, self.torch), call


def _texts(plans: Sequence[Plan]) -> list[Source]:
    return list(dict.fromkeys(step.source for plan in plans for step in plan.steps if isinstance(step, Launch)))


def _compile(text: Source, info: DeviceInfo) -> None:
    target = device.target(info)
    try:
        target.settle(program.build(text, target, cache.default()))
    except portatile.PortatileError as error:  # its way is left out
        print(str(error)[:300], file=sys.stderr)


def measured(through: OnCuda | OnOpenCl, info: DeviceInfo, cublas: Cublas, case: Case, chosen: dict[str, sharing.Way]) -> dict[str, Any]:
    """A row: seconds of a call of cuBLAS, of the default and of each way that is right."""
    torch = through.torch
    given = operands(torch, case.routine, case.letters, case.order, case.terms, case.dtype)
    wide = expected(torch, case.routine, case.letters, given)
    kept = torch.tril if case.letters[0] == "L" else torch.triu
    allowed = 8 * torch.finfo(given[-1].dtype).eps * math.sqrt(max(case.order, case.terms)) * float(wide.abs().max())
    mine = through.given(given)
    placed = {"a": mine[0], "b": mine[-2], "c": mine[-1]}
    plans = {"default": in_opencl.plan(case.problem, info)} | {name: case.plan(way, info) for name, way in chosen.items()}
    timed = {"cuBLAS": through.peer(peers(torch, cublas, case.routine, case.letters, given)["cuBLAS"])}
    for name, plan in plans.items():
        given[-1].fill_(float("nan"))
        try:
            call = through.forced(plan, placed)
            call()
            error = float((kept(through.result(mine)).to(wide.dtype) - wide).abs().max())
            if not error <= allowed:
                raise ValueError(f"wrong by {error:.1e}, allowed {allowed:.1e}")
            timed[name] = through.timed(call)
        except (KeyError, ValueError, RuntimeError, portatile.PortatileError) as error:
            print(f"{case}, {name}: {str(error)[:200]}", flush=True)
    return {
        "routine": case.routine,
        "order": case.order,
        "terms": case.terms,
        "case": case.letters,
        "dtype": case.dtype,
        "samples": by_turns(timed),
        "expected_us": {name: way.took for name, way in chosen.items()},
        "kinds": {name: kind_of(way.found[1]) for name, way in chosen.items()},
    }


def shown(case: Case, row: dict[str, Any]) -> None:
    """A problem's ways, with their speed over cuBLAS's."""
    took = {name: 1e6 * median(samples) for name, samples in row["samples"].items()}
    print(f"{case}: cuBLAS {took['cuBLAS']:.1f} us")
    for name, us in sorted(took.items(), key=lambda one: one[1]):
        if name != "cuBLAS":
            told = row["expected_us"].get(name, math.nan)
            print(f"    {took['cuBLAS'] / us:.2f}  {us:7.1f} us  expected {told:7.1f}  {name}", flush=True)


def summary(rows: Sequence[dict[str, Any]]) -> Iterator[tuple[str, ...]]:
    """By type, kind and tile what is measured over what is expected."""
    found: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        for name, us in row["expected_us"].items():
            if name in row["samples"]:
                found[f"{row['routine']} {row['dtype']} {name}"].append(1e6 * median(row["samples"][name]) / us)
    for name, factors in sorted(found.items()):
        yield name, str(len(factors)), f"{geometric_mean(factors):.3f}", f"{min(factors):.2f}", f"{max(factors):.2f}"


def asked() -> argparse.Namespace:
    """What the command line says."""
    commands = parser(__doc__, device="")
    commands.add_argument("--problems", default="", help="ROUTINE:ORDERxTERMS:LETTERS, separated by commas")
    commands.add_argument("--draws", type=int, default=0, help="random problems beside them, as level3_random.py draws them")
    commands.add_argument("--seed", type=int, default=1)
    commands.add_argument("--sizes", default=_DRAWN_SIZES, help="least and largest size of the random ones")
    commands.add_argument("--dtype", default="float64", help="separated by commas")
    commands.add_argument("--through", choices=("cuda", "opencl"), default="cuda", help="portatile's back end")
    commands.add_argument("--most", type=int, default=2, help="ways of a kind")
    commands.add_argument("--limit", type=float, default=120.0, help="seconds after which no other problem begins")
    return commands.parse_args()


def cases(options: argparse.Namespace) -> list[Case]:
    """The named problems of each type, then the random ones."""
    types = options.dtype.split(",")
    found = []
    for text in filter(None, options.problems.split(",")):
        routine, sizes, letters = text.split(":")
        order, terms = map(int, sizes.split("x"))
        found += [Case(routine, order, terms, letters, dtype) for dtype in types]
    low, high = map(int, options.sizes.split(","))
    drawn = draw(options.seed, options.draws, (low, high), list(PAIRS), types)
    return found + [Case(one.routine, one.m, one.n, one.case, one.dtype) for one in drawn]


def main() -> None:
    """Choose ways, compile, check and time them by turns, print, save."""
    options, began = asked(), time.monotonic()
    gpu = in_opencl.opened() if options.through == "opencl" else device.get("cuda")
    if gpu is None:
        raise SystemExit("there is no OpenCL device that is a GPU")
    chosen = {case: ways(case, gpu.info, options.most) for case in cases(options)}
    plans = [case.plan(way, gpu.info) for case, found in chosen.items() for way in found.values()]
    plans += [in_opencl.plan(case.problem, gpu.info) for case in chosen]
    import torch

    torch.backends.cuda.matmul.allow_tf32 = False
    through = OnOpenCl(torch, plans) if options.through == "opencl" else OnCuda(torch, plans)
    print(f"ready after {time.monotonic() - began:.0f} s", flush=True)
    cublas, rows = Cublas(torch), []
    with until_stopped():
        for number, (case, found) in enumerate(chosen.items()):
            if time.monotonic() - began > options.limit:
                print(f"{number} of {len(chosen)} problems within {options.limit:g} s")
                break
            rows.append(measured(through, gpu.info, cublas, case, found))
            shown(case, rows[-1])
    print_table((f"{through.name}, {options.through}: measured over expected", "number", "mean", "least", "most"), list(summary(rows)))
    document = {"bench": "triangles", **facts(options.commit), "peer": in_torch.peer(), "device": through.name, "through": options.through}
    print(f"\nwritten to {save(f'triangles-{slug(through.name)}-{options.through}', {**document, 'rows': rows}, options.out)}")


if __name__ == "__main__":
    main()
