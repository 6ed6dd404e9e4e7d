"""Untuned products of random shapes, as a user calls them, compared with the vendor's library in the same run.

    python bench/random_shapes.py --seed 7 --count 300 --device cuda:0
    python bench/random_shapes.py --seed 7 --count 300 --device cuda:0 --device cuda:1 --buffers cuda opencl --bursts 100
    python bench/random_shapes.py --seed 7 --count 60 --device cuda:0 --dtype float16,bfloat16
    OPENBLAS_NUM_THREADS=1 POCL_MAX_PTHREAD_COUNT=1 taskset -c 0 python bench/random_shapes.py --sizes 12,2000

Sides are log-uniform between --sizes, rounded to a multiple of 1, 4 or 8, in all four transpositions and the types of --dtype by turns,
which are those of problems: bfloat16, int8, float8_e4m3fn:bfloat16. Two times are taken of each product: ``device``, by replaying a CUDA
graph of several calls, and ``arrays``, calls of ``portatile.matmul(a, b, out=out)`` one after the other, with the host's time in it. On a
GPU the peer is cuBLAS through PyTorch, and the arrays are PyTorch's; operands of eight bits are padded for it beforehand. On a CPU the
peer is NumPy's BLAS, and only ``arrays`` is taken. Both take turns; a ratio is the peer's median over portatile's, so 1.1 is a tenth
faster. The GPU multiplies the first ``--bursts`` products through each of the back ends that ``--buffers`` names too, in Buffers, alike
through NVIDIA's OpenCL and CUDA and in turn with the replayed graphs: ``buffers``, calls one behind the other, and ``apart``, each behind a
small fill, whose time is taken off (bursts.py). Calls through CUDA may begin before the one before has ended, but not behind a fill. The
ratio of both back ends is given of either. Every result is checked against the peer's before it is timed. Several devices, which are to be
alike, share the products, each in a process of its own.
PORTATILE_TIME_UNTUNED=off shows what is chosen without timing.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import math
import multiprocessing
import os
import signal
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from typing import Any

import numpy as np

import portatile
from bursts import Bursts
from measure import facts, parser, print_table, save, slug, until_stopped
from portatile import cache, device, dtypes, flat_plans, program, settings, workloads
from portatile.errors import PortatileError
from portatile.records import DeviceInfo
from portatile.workload import Workload
from portatile.workloads import precisions
from tensor_products import Shape, Tensors

BACKENDS = ("buffers on cuda", "buffers on opencl")
OPENCL_OVER_CUDA = {"buffers": "OpenCL over CUDA", "apart": "OpenCL over CUDA, apart"}
ALIGNMENTS = (1, 4, 8)
LETTERS = ("N", "T")
ROUNDS = 8  # as many in which a way goes first as in which it does not


def draw(seed: int, count: int, low: int, high: int, types: Sequence[str]) -> list[Shape]:
    """``count`` shapes, the same for the same seed; operands of one byte always with k fast, as networks store them."""
    rng = np.random.default_rng(seed)
    found = []
    for number in range(count):
        unit = ALIGNMENTS[rng.integers(len(ALIGNMENTS))]
        sides = [max(unit, round(math.exp(rng.uniform(math.log(low), math.log(high))) / unit) * unit) for _ in range(3)]
        trans = "".join(LETTERS[rng.integers(2)] for _ in range(2))
        dtype = types[number % len(types)]
        found.append(Shape(*sides, "NT" if dtypes.itemsize(dtype) == 1 else trans, dtype))
    return found


def compile_all(shapes: Sequence[Shape], infos: Sequence[tuple[DeviceInfo, int]]) -> float:
    """Fill the cache with what the first so many of these shapes need on these devices, on all cores; seconds."""
    started = time.perf_counter()
    gpus = [(info, count) for info, count in infos if info.kind == "gpu"]  # elsewhere nothing is timed before it is used
    work = [(shape, info) for info, count in gpus for shape in shapes[:count]]
    if work:
        with concurrent.futures.ProcessPoolExecutor(os.cpu_count(), multiprocessing.get_context("spawn")) as pool:
            list(pool.map(_compile, *zip(*work, strict=True)))
    return time.perf_counter() - started


def _compile(shape: Shape, info: DeviceInfo) -> None:
    problem = precisions.preferred(shape.problem, info)
    workload: Workload = workloads.get(problem.workload)
    configs = [workload.default(problem, info)]
    if settings.times_untuned():
        configs += workload.contenders(problem, info)
    target = device.target(info) if device.backends()[info.backend].offline else device.get(info.id).target
    for source in {source for config in configs for source in flat_plans.sources(workload.plan(problem, config, info))}:
        try:
            target.settle(program.build(source, target, cache.default()))
        except PortatileError as error:  # the first call says so too, and goes on without it
            print(f"{shape}: {error}", file=sys.stderr)


def turns(calls: dict[str, Callable[[], float]], rounds: int = ROUNDS) -> dict[str, list[float]]:
    """Seconds of each call, taken by turns; who goes first changes from round to round."""
    samples: dict[str, list[float]] = {name: [] for name in calls}
    order = list(calls)
    for _ in range(rounds):
        for name in order:
            samples[name].append(calls[name]())
        order.reverse()
    return samples


def on_gpu(shape: Shape, selector: str, bursts: Sequence[Bursts] = ()) -> dict[str, Any]:
    """Samples through PyTorch tensors: ``device`` and ``arrays`` of portatile and of cuBLAS, seconds a call; and those of ``bursts``,
    each beside the same samples of the peer.
    """
    product = Tensors(shape, selector)
    once = statistics.median(product.repeated("peer", 5)() for _ in range(3))
    count = max(3, min(50, round(2e-3 / once)))
    found: dict[str, Any] = {"arrays": turns({name: product.repeated(name, count) for name in product.calls})}
    try:
        replays = {name: product.replay(name, count) for name in product.calls}
    except RuntimeError as error:
        return found | {"capture": str(error).splitlines()[0]}
    through = {way: call for burst in bursts for way, call in burst.calls(product).items()}
    taken = turns(replays | through)
    return found | {"device": _beside_peer(taken, "portatile")} | {way: _beside_peer(taken, way) for way in through}


def _beside_peer(taken: dict[str, list[float]], name: str) -> dict[str, list[float]]:
    return {"portatile": taken[name], "peer": taken["peer"]}


def on_cpu(shape: Shape, selector: str | None) -> dict[str, Any]:
    """Samples on NumPy arrays, seconds a call; where no device is named, small products may be left to NumPy."""
    rng = np.random.default_rng(hash(shape) % 2**32)
    made = []
    for rows, columns, letter in ((shape.m, shape.k, shape.trans[0]), (shape.k, shape.n, shape.trans[1])):
        stored = (rng.random((columns, rows) if letter == "T" else (rows, columns)) - 0.5).astype(shape.dtype)
        made.append(stored.T if letter == "T" else stored)
    (a, b), c = made, np.empty((shape.m, shape.n), shape.dtype)
    portatile.matmul(a, b, out=c, device=selector)
    if not np.allclose(c, np.matmul(a, b), rtol=0, atol=32 * np.finfo(shape.dtype).eps * shape.k):
        raise SystemExit(f"{shape} is wrong")

    def repeated(call: Callable[[], Any]) -> Callable[[], float]:
        call()
        started = time.perf_counter()
        call()
        count = max(1, min(200, round(2e-3 / (time.perf_counter() - started))))

        def run() -> float:
            started = time.perf_counter()
            for _ in range(count):
                call()
            return (time.perf_counter() - started) / count

        return run

    calls = {
        "portatile": lambda: portatile.matmul(a, b, out=c, device=selector),
        "peer": lambda: np.matmul(a, b, out=c),
    }  # where an output lies counts
    return {"arrays": turns({name: repeated(call) for name, call in calls.items()})}


def ways(rows: Sequence[dict[str, Any]]) -> list[str]:
    """The ways in which rows were timed."""
    return [way for way in ("device", "arrays", *BACKENDS, *OPENCL_OVER_CUDA.values()) if any(row.get(way) for row in rows)]


def ratios(samples: dict[str, dict[str, list[float]]]) -> dict[str, float]:
    """Of each way of timing the peer's median over portatile's; and those of Buffers on CUDA over those of Buffers on OpenCL."""
    found = {way: statistics.median(taken["peer"]) / statistics.median(taken["portatile"]) for way, taken in samples.items()}
    for manner, name in OPENCL_OVER_CUDA.items():
        if all(f"{manner} on {backend}" in samples for backend in ("cuda", "opencl")):
            cuda, opencl = (statistics.median(samples[f"{manner} on {backend}"]["portatile"]) for backend in ("cuda", "opencl"))
            found[name] = cuda / opencl
    return found


def summary(rows: Sequence[dict[str, Any]], shown: Sequence[str] = ()) -> list[tuple[str, ...]]:
    """Geometric means and shares by dtype, way of timing, of these or all, and class of shape."""
    classes: dict[str, Callable[[dict[str, Any]], bool]] = {
        "all": lambda row: True,
        **{trans: (lambda row, trans=trans: row["trans"] == trans) for trans in ("NN", "NT", "TN", "TT")},
        "every side a multiple of 8": lambda row: all(row[s] % 8 == 0 for s in "mnk"),
        "some side no multiple of 4": lambda row: any(row[s] % 4 for s in "mnk"),
        "k up to 96": lambda row: row["k"] <= 96,
        "min(m, n) up to 64": lambda row: min(row["m"], row["n"]) <= 64,
        "min(m, n) 65 to 160": lambda row: 64 < min(row["m"], row["n"]) <= 160,
        "all sides above 512": lambda row: min(row["m"], row["n"], row["k"]) > 512,
        "peer under 20 us": lambda row: row["peer_us"] < 20,
        "peer 20 to 100 us": lambda row: 20 <= row["peer_us"] < 100,
        "peer 0.1 to 1 ms": lambda row: 100 <= row["peer_us"] < 1000,
        "peer above 1 ms": lambda row: row["peer_us"] >= 1000,
    }
    found = []
    for dtype in dict.fromkeys(row["dtype"] for row in rows):
        for way in shown or ways(rows):
            short = ("all", "peer under 20 us", "peer 20 to 100 us", "peer 0.1 to 1 ms", "peer above 1 ms")
            for name in classes if way in ("device", "arrays") else short:
                known = [row[way] for row in rows if row["dtype"] == dtype and row.get(way) and classes[name](row)]
                if known:
                    shares = [f"{100 * sum(one >= limit for one in known) / len(known):.0f} %" for limit in (0.92, 0.85)]
                    mean = f"{statistics.geometric_mean(known):.3f}"
                    found.append((f"{dtype} {way}: {name}", str(len(known)), mean, *shares, f"{min(known):.2f}"))
    return found


def beyond(rows: Sequence[dict[str, Any]]) -> str:
    """A sentence about what calls on NumPy arrays cost beyond NumPy's where that takes less than 0.1 ms; empty if nothing is so."""
    brief = [row["samples"]["arrays"] for row in rows if "device" not in row["samples"] and row["peer_us"] < 100]
    more = sorted(1e6 * (statistics.median(taken["portatile"]) - statistics.median(taken["peer"])) for taken in brief)
    if not more:
        return ""
    median, within = statistics.median(more), 100 * sum(one <= 3 for one in more) / len(more)
    most = f"{more[-1]:.1f} us at most; {within:.0f} % of them at most 3 us"
    return f"Where NumPy takes less than 0.1 ms, calls take {median:.1f} us more (the median), {most}."


def beside(info: DeviceInfo, backend: str) -> device.Device:
    """The same device through a back end; raises StopIteration where there is no such way to it."""
    return next(one for one in device.devices() if one.info.backend == backend and one.info.physical_id == info.physical_id)


def serve(shapes: Connection, selector: str | None, backends: Sequence[str]) -> None:
    """The process of one device: the samples of each shape that it is sent with whether bursts are wanted, or what went wrong. It ends with
    the parent's end.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent's to hear
    info = device.get(selector).info
    if info.kind == "gpu":
        import torch

        torch.cuda.set_device(torch.device(info.id))
    bursts = [Bursts(beside(info, backend)) for backend in backends]
    with suppress(EOFError):
        while True:
            shape, burst = shapes.recv()
            try:
                shapes.send(on_cpu(shape, selector) if info.kind == "cpu" else on_gpu(shape, info.id, bursts if burst else ()))
            except (Exception, SystemExit) as error:  # every failure of a shape is the parent's to report
                shapes.send(f"{type(error).__name__}: {error}")


def timed(
    shapes: Sequence[Shape], selectors: Sequence[str | None], asked: argparse.Namespace
) -> Iterator[tuple[int, dict[str, Any] | str]]:
    """The number of each shape with its samples or what went wrong, as they come; every device takes the next one."""
    context, ends = multiprocessing.get_context("spawn"), []
    for selector in selectors:
        mine, its = context.Pipe()
        context.Process(target=serve, args=(its, selector, asked.buffers), daemon=True).start()
        its.close()
        ends.append(mine)
    left = iter(enumerate(shapes))
    given: dict[Any, int] = {}

    def give(end: Connection) -> None:
        number, shape = next(left, (-1, None))
        if shape is not None and time.monotonic() - started < asked.seconds:
            end.send((shape, number < asked.bursts))
            given[end] = number

    started = time.monotonic()
    for end in ends:
        give(end)
    while given:
        for end in wait(list(given)):
            number = given.pop(end)
            try:
                answer = end.recv()
            except EOFError:
                answer = "the process of its device ended"
            else:
                give(end)
            yield number, answer


def row_of(shape: Shape, samples: dict[str, Any]) -> dict[str, Any]:
    """A product's samples with the ratios that follow."""
    row = {**shape._asdict(), "capture": samples.pop("capture", ""), "samples": samples} | ratios(samples)
    return row | {"peer_us": statistics.median(samples.get("device", samples["arrays"])["peer"]) * 1e6}


_COLUMNS = ("products", "shapes", "mean", ">= 0.92", ">= 0.85", "least")


def report(rows: Sequence[dict[str, Any]], worst: int) -> None:
    """Print the tables, and how many of the slowest products of each way."""
    failed = [row for row in rows if row["capture"]]
    if failed:
        print(f"{len(failed)} products could not be captured, the first {failed[0]}")
    print_table(_COLUMNS, summary(rows))
    print(beyond(rows))
    for way in ways(rows):
        slow = sorted((row for row in rows if row.get(way)), key=lambda row: row[way])[:worst]
        cells = [(f"{r['m']}x{r['n']}x{r['k']} {r['trans']} {r['dtype']}", f"{r[way]:.2f}", f"{r['peer_us']:.0f} us") for r in slow]
        if cells:
            print_table((f"slowest, {way}", "ratio", "peer takes"), cells)


def main() -> None:
    """Draw, compile, check, time, print tables, save."""
    options = parser(__doc__, "the best")
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--count", type=int, default=300)
    options.add_argument("--sizes", default="32,10000", help="least and largest side")
    options.add_argument("--dtype", default="float32,float64")
    options.add_argument("--buffers", nargs="*", default=[], metavar="BACKEND", help="back ends through which Buffers are timed too")
    options.add_argument("--bursts", type=int, default=10000, help="how many of the products are timed in them")
    options.add_argument("--seconds", type=float, default=math.inf, help="stop drawing shapes after so long")
    options.add_argument("--worst", type=int, default=12, help="how many of the slowest to list")
    asked: argparse.Namespace = options.parse_args()
    low, high = (int(part) for part in asked.sizes.split(","))
    selectors = asked.device or [None]
    chosen = device.get(selectors[0])
    shapes = draw(asked.seed, asked.count, low, high, asked.dtype.split(","))
    infos = [
        (chosen.info, len(shapes)),
        *((beside(chosen.info, one).info, asked.bursts) for one in asked.buffers if one != chosen.info.backend),
    ]
    print(f"compiled in {compile_all(shapes, infos):.0f} s", file=sys.stderr)
    found, wrong = {}, 0
    with until_stopped():
        for number, samples in timed(shapes, selectors, asked):
            if isinstance(samples, str):
                print(f"{shapes[number]}: {samples}", file=sys.stderr)
                wrong += 1
            else:
                found[number] = row_of(shapes[number], samples)
    rows = [found[number] for number in sorted(found)]
    if len(rows) < len(shapes):
        print(f"{len(rows)} of {len(shapes)} shapes, {wrong} failed", file=sys.stderr)
    report(rows, asked.worst)
    document = {**facts(asked.commit), "device": chosen.info.name, "seed": asked.seed, "sizes": [low, high], "rows": rows}
    document["times_untuned"] = settings.times_untuned()
    print(save(f"random_shapes-{slug(chosen.info.name)}", document, asked.out))


if __name__ == "__main__":
    main()
