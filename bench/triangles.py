"""Ways to compute a triangle of C, each forced, by turns beside SYRK's default and cuBLAS's: does the estimate put them in order?

    python bench/triangles.py --problems 2184x2192:UN,2251x318:UT --dtype float64 --limit 60
    python bench/triangles.py --draws 20 --seed 5 --sizes 400,4000 --through opencl

The ways are whole tiles of several points, square tiles, quarters of those on the diagonal, tiles that groups share, and a rest in smaller
tiles (docs/internals/triangles.md): of each kind the --most that the estimate expects the least of. Times are seconds of a call in bursts,
as in ``level3_gpu.py``, so that a problem should take tens of microseconds; each way is compared with float64 first. In the end stands,
for each kind and tile, what is measured over what is expected: the estimate is right where these are one number.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import islice
from multiprocessing import get_context
from statistics import geometric_mean, median
from typing import Any

import in_torch
import portatile
from in_opencl import opened
from level3_gpu import Cublas, Cuda, OpenCl, burst, by_turns, expected, operands, own, peers
from level3_random import draw
from measure import facts, parser, print_table, save, slug, until_stopped
from portatile import cache, device, program, workloads
from portatile.execute import Executable
from portatile.records import DeviceInfo, Launch, Plan, Problem, Source
from portatile.workloads import blocks, syrk
from portatile.workloads.gemm import plan as gemm_plan
from portatile.workloads.gemm.capabilities import local_limit
from portatile.workloads.gemm.forms.gpu import costs, ranking, sharing
from portatile.workloads.gemm.forms.gpu.estimate import Structure
from portatile.workloads.gemm.forms.gpu.point import Gpu
from portatile.workloads.gemm.forms.gpu.stream import SharedTiles, Sharing, Tailed
from portatile.workloads.gemm.forms.gpu.triangle import Quarters
from portatile.workloads.gemm.reals import computed

_KINDS: dict[type, str] = {SharedTiles: "shared", Quarters: "quarters", Tailed: "rest", type(None): "whole"}
_DRAWN_SIZES, _LOOKED = "400,4000", 40  # variants among which whole tiles are looked for


@dataclass(frozen=True)
class Case:
    """SYRK of this order and so many terms; ``letters``: triangle and transposition."""

    order: int
    terms: int
    letters: str
    dtype: str

    def __str__(self) -> str:
        return f"syrk {self.letters} {self.order} x {self.terms} {self.dtype}"

    @property
    def problem(self) -> Problem:
        options = {"uplo": self.letters[0], "trans": self.letters[1]}
        return workloads.get("syrk").problem({"n": self.order, "k": self.terms}, self.dtype, options)

    @property
    def product(self) -> Problem:
        """A times its transpose."""
        a = ("a", self.problem.layout["a"])
        asked = {"a": a, "b": a, "c": ("c", self.problem.layout["c"])}
        sizes = (self.order, self.order, self.terms)
        return blocks.product(
            self.problem, blocks.BlockProduct(sizes, asked, syrk.op_of(self.problem, ("a", "a")), ("alpha", "beta"))
        ).problem

    def plan(self, way: sharing.Way, info: DeviceInfo) -> Plan:
        """The launches of a way."""
        point, shared = way.found
        return gemm_plan.build(self.product, point, info, triangle=syrk.unwanted(self.problem), stream=shared)


def ways(case: Case, info: DeviceInfo, most: int) -> dict[str, sharing.Way]:
    """By name the ways of each kind that are expected to take the least time, also where the estimate leaves a kind out."""
    product, triangle = computed(case.product), syrk.unwanted(case.problem)
    known = costs.known(info, product.dtype)
    if known is None:
        return {}
    found = ranking.candidates(product, info, local_limit(info), known, structure=Structure("c", same=True), alone=True)
    points: dict[tuple[Any, ...], Gpu] = {}
    for place in found.took.argsort()[:_LOOKED]:
        point = found.point(int(place))
        points.setdefault((point.rows, point.columns, point.items, point.KB, point.PACK_A, point.PACK_B), point)
    whole = list(islice(points.values(), most + 1))
    every = [way for point in whole for way in islice(sharing.ways(product, info, triangle.zeros, point, mirrored=True), 1)]
    every += islice(sharing.ways(product, info, triangle.zeros, whole[0], mirrored=True), 1, None) if whole else ()
    chosen: dict[str, sharing.Way] = {}
    counts: dict[str, int] = defaultdict(int)
    for way in sorted(every, key=lambda one: one.took):
        kind = kind_of(way.found[1])
        if counts[kind] <= (most if kind == "whole" else most - 1) and (name := named(way)) not in chosen:
            chosen[name] = way
            counts[kind] += 1
    return chosen


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


def compile_all(plans: Sequence[Plan], info: DeviceInfo) -> float:
    """Compile what the plans launch to the cache, on all cores; seconds."""
    started = time.perf_counter()
    texts = list(dict.fromkeys(step.source for plan in plans for step in plan.steps if isinstance(step, Launch)))
    with ProcessPoolExecutor(os.cpu_count(), get_context("spawn")) as pool:
        list(pool.map(_compile, texts, [info] * len(texts)))
    return time.perf_counter() - started


def _compile(text: Source, info: DeviceInfo) -> None:
    target = device.target(info)
    try:
        target.settle(program.build(text, target, cache.default()))
    except portatile.PortatileError as error:  # its way is left out
        print(str(error)[:300], file=sys.stderr)


class Forced:
    """Runs plans on operands where portatile's back end finds them, in the queue whose bursts are timed."""

    def __init__(self, through: Cuda | OpenCl) -> None:
        self._torch, self._through = through.torch, through
        opencl = isinstance(through, OpenCl)
        self.device = through.device if isinstance(through, OpenCl) else device.get("cuda")
        self.queue = (
            through.queue if isinstance(through, OpenCl) else self.device.foreign_queue(self._torch.cuda.current_stream().cuda_stream)
        )
        self._opencl = opencl

    def call(self, plan: Plan, a: Any, c: Any) -> Callable[[], None]:
        """What queues the plan of a product of A and its transpose."""
        target = device.target(self.device.info)
        executable = Executable(self.device, plan, lambda text: program.build(text, target, cache.default()))
        memory = {"a": self._memory(a), "b": self._memory(a), "c": self._memory(c)}
        return lambda: executable.run(self.queue, memory, {"alpha": 1.0, "beta": 0.0})

    def _memory(self, array: Any) -> Any:
        return array.memory if self._opencl else self.device.adopt(array.data_ptr(), array.numel() * array.element_size(), array)


def measured(through: Cuda | OpenCl, cublas: Cublas, case: Case, chosen: dict[str, sharing.Way]) -> dict[str, Any]:
    """A row: seconds of a call of cuBLAS, of the default and of each way that is right."""
    torch, forced = through.torch, Forced(through)
    given = operands(torch, "syrk", case.letters, case.order, case.terms, case.dtype)
    wide = expected(torch, "syrk", case.letters, given)
    kept = torch.tril if case.letters[0] == "L" else torch.triu
    allowed = 8 * torch.finfo(given[-1].dtype).eps * math.sqrt(max(case.order, case.terms)) * float(wide.abs().max())
    given[-1].fill_(0)
    mine = through.given(given)

    def right(name: str) -> bool:
        error = float((kept(through.result(mine)).to(wide.dtype) - wide).abs().max())
        if not error <= allowed:
            print(f"wrong: {case}, {name}: {error:.1e}, allowed {allowed:.1e}", flush=True)
        return error <= allowed

    calls: dict[str, Callable[[], Any]] = {"default": own("syrk", case.letters, mine, "native")}
    for name, way in chosen.items():
        try:
            calls[name] = forced.call(case.plan(way, forced.device.info), mine[0], mine[-1])
            calls[name]()
        except portatile.PortatileError as error:
            print(f"{case}, {name}: {str(error)[:200]}", flush=True)
            calls.pop(name, None)
    for name in list(calls):
        calls[name]()
        if not right(name):
            del calls[name]
    rival = peers(torch, cublas, "syrk", case.letters, given)["cuBLAS"]
    samples = by_turns({"cuBLAS": (partial(burst, torch), rival), **{name: (through.burst, call) for name, call in calls.items()}})
    return {
        **{"order": case.order, "terms": case.terms, "case": case.letters, "dtype": case.dtype, "samples": samples},
        "expected_us": {name: way.took for name, way in chosen.items()},
        "kinds": {name: kind_of(way.found[1]) for name, way in chosen.items()},
    }


def shown(case: Case, row: dict[str, Any]) -> None:
    """A problem's ways, with their speed over cuBLAS's."""
    took = {name: 1e6 * median(samples) for name, samples in row["samples"].items()}
    print(f"{case}: cuBLAS {took['cuBLAS']:.1f} us, default {took['default']:.1f} us, {took['cuBLAS'] / took['default']:.2f}")
    for name, us in sorted(took.items(), key=lambda one: one[1]):
        if name in row["expected_us"]:
            print(f"    {took['cuBLAS'] / us:.2f}  {us:7.1f} us  expected {row['expected_us'][name]:7.1f}  {name}", flush=True)


def summary(rows: Sequence[dict[str, Any]]) -> Iterator[tuple[str, ...]]:
    """By type, kind and tile what is measured over what is expected."""
    found: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        for name, us in row["expected_us"].items():
            if name in row["samples"]:
                found[f"{row['dtype']} {name}"].append(1e6 * median(row["samples"][name]) / us)
    for name, factors in sorted(found.items()):
        yield name, str(len(factors)), f"{geometric_mean(factors):.3f}", f"{min(factors):.2f}", f"{max(factors):.2f}"


def asked() -> argparse.Namespace:
    """What the command line says."""
    commands = parser(__doc__, device="")
    commands.add_argument("--problems", default="", help="ORDERxTERMS:LETTERS, separated by commas")
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
        sizes, letters = text.split(":")
        order, terms = map(int, sizes.split("x"))
        found += [Case(order, terms, letters, dtype) for dtype in types]
    low, high = map(int, options.sizes.split(","))
    return found + [Case(one.m, one.n, one.case, one.dtype) for one in draw(options.seed, options.draws, (low, high), ["syrk"], types)]


def main() -> None:
    """Choose ways, compile, check and time them by turns, print, save."""
    options, began = asked(), time.monotonic()
    gpu = opened() if options.through == "opencl" else device.get("cuda")
    if gpu is None:
        raise SystemExit("there is no OpenCL device that is a GPU")
    chosen = {case: ways(case, gpu.info, options.most) for case in cases(options)}
    print(
        f"compiled in {compile_all([case.plan(way, gpu.info) for case, found in chosen.items() for way in found.values()], gpu.info):.0f} s"
    )
    import torch

    torch.backends.cuda.matmul.allow_tf32 = False
    through = OpenCl(torch) if options.through == "opencl" else Cuda(torch)
    cublas, rows = Cublas(torch), []
    with until_stopped():
        for number, (case, found) in enumerate(chosen.items()):
            if time.monotonic() - began > options.limit:
                print(f"{number} of {len(chosen)} problems within {options.limit:g} s")
                break
            rows.append(measured(through, cublas, case, found))
            shown(case, rows[-1])
    print_table((f"{through.name}, {options.through}: measured over expected", "number", "mean", "least", "most"), list(summary(rows)))
    document = {"bench": "triangles", **facts(options.commit), "peer": in_torch.peer(), "device": through.name, "through": options.through}
    print(f"\nwritten to {save(f'triangles-{slug(through.name)}-{options.through}', {**document, 'rows': rows}, options.out)}")


if __name__ == "__main__":
    main()
