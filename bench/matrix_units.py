"""Products on matrix units beside cuBLAS: points of the forms, compiled in parallel, checked against PyTorch, timed by replayed graphs.

Needs a CUDA device and PyTorch. Every point runs in a child that is killed where it hangs. `default` is what a user gets without tuning,
`OpenCL` the same through the GPU's OpenCL, with `--opencl`. OpenCL has no graphs: its launches are queued behind a long copy, and so are
those of `cuBLAS queued`.
Beside floats of eight bits runs `torch._scaled_mm` with precise sums, and with factors of blocks of 1 x 128 where the kind has them
(PyTorch 2.11 has these); beside int8 with scales `_int_mm` and the scaling in PyTorch; beside bfloat16 with bias and GELU `addmm` and
`gelu`. Rates are of short bursts after a rest, and of runs without rests, in which the power limit lowers the clock. With `--rounds`
everybody has as many turns, far apart, so what disturbs a device for a while disturbs nobody's best.
"""

from __future__ import annotations

import argparse
import multiprocessing as mp
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, replace
from typing import Any

import numpy as np

import in_opencl
import in_torch
from matrix_products import KINDS, PEERS, POINTS, PROMOTED, Job
from measure import facts, parser, save, slug, until_stopped
from portatile.records import Binary, Launch, Problem

BLOCK = 128  # steps of k that share a factor
_CUDA = 0.6  # of the time after compiling, where OpenCL follows
_SPEED = 5e14  # flop/s, about: how many calls fill a graph


def main() -> None:
    options = parser(__doc__, device="")
    options.add_argument("--kinds", default=",".join(KINDS), help="some with their own --trans and --sizes, as float16:NN/TT:512/1024")
    options.add_argument("--sizes", default="512,1000,1024,2048,4096,8192")
    options.add_argument("--shapes", default="4097x4095x4099,8192x64x8192,64x64x65536,32x512x512x512", help="timed by the default only")
    options.add_argument("--trans", default="NN,NT,TN,TT")
    options.add_argument("--points", default=",".join((*POINTS, *PROMOTED)))
    options.add_argument("--opencl", action="store_true", help="defaults through OpenCL too")
    options.add_argument("--sustained", type=float, default=0.1, help="seconds of a run without rests; 0: none")
    options.add_argument("--rounds", type=int, default=1, help="through all of it; the fastest of each participant counts")
    options.add_argument("--limit", type=float, default=140.0, help="seconds")
    asked = options.parse_args()
    begin = time.perf_counter()
    info = in_torch.info()
    jobs = list(_jobs(asked))
    texts = {step.source for job in jobs if job.name not in PEERS for step in job.plan(info).steps if isinstance(step, Launch)}
    defaults = [replace(job, name="OpenCL") for job in jobs if job.name == "default"]
    with ProcessPoolExecutor(2, mp_context=mp.get_context("spawn")) as pool:  # to import PyTorch takes as long as to compile
        peer, opencl_built = pool.submit(in_torch.peer), pool.submit(_compiled_for_opencl, defaults) if asked.opencl else None
        built = in_torch.compiled(texts, info.architecture)
        opencl = opencl_built is not None and opencl_built.result()
    slow = sum("serialized" in binary.log or any(r.spill_stores > 0 for r in binary.resources.values()) for binary in built.values())
    print(f"{len(built)} of {len(texts)} texts built in {time.perf_counter() - begin:.0f} s, {slow} with spills or serialized products")
    results: dict[Job, tuple[float, float]] = {}
    with until_stopped():
        now, end = time.perf_counter(), begin + asked.limit
        _measure(results, jobs * asked.rounds, (built, asked.sustained), now + (end - now) * (_CUDA if opencl else 1.0))
        if opencl:
            answers = in_torch.answers(defaults * asked.rounds, in_opencl.serve, (asked.sustained,), end, patience=30)
            _take(results, answers, Counter())
    _show({job: burst for job, (burst, _) in results.items()})
    rows = [{**asdict(job), "tflops": burst, "sustained": long} for job, (burst, long) in results.items() if job.timed]
    document = {"bench": "matrix_units", **facts(asked.commit), "device": info.name, "peer": peer.result(), "rows": rows}
    print(save(f"matrix_units-{slug(info.name)}", document, asked.out))


def _jobs(asked: argparse.Namespace) -> Iterator[Job]:
    """Checks on edges first, then squares, then awkward shapes."""
    peers = PEERS if asked.opencl else PEERS[:1]
    for kind, every_trans, sizes in _kinds(asked):
        for trans in every_trans:
            if (KINDS[kind].workload == "gemm" and kind != "float8") or trans == "NT":
                chosen = _points(kind, trans, asked.points.split(","))
                yield from _checks(kind, trans, chosen)
                yield from _squares(kind, trans, (*peers, "default", *chosen), map(int, sizes))
    for kind in dict.fromkeys(kind for kind, _, _ in _kinds(asked)):
        bytewise = KINDS[kind].held in ("int8", "float8_e4m3fn")
        for shape in filter(None, asked.shapes.split(",")):
            sizes_of_shape = tuple(map(int, shape.split("x")))
            for name in (*peers, "default"):
                if (len(sizes_of_shape) == 3 or not (bytewise or KINDS[kind].epilogue)) and _peer(name, kind, sizes_of_shape):
                    yield Job(name, kind, "NT" if bytewise else "NN", sizes_of_shape)


def _points(kind: str, trans: str, names: Sequence[str]) -> list[str]:
    """The points that are tried for a kind: few of them where operands are transposed in other ways than usual."""
    fitting = [name for name in names if name in (PROMOTED if kind.startswith("float8") else POINTS)]
    if kind == "float8-blocks":  # whose factors take registers
        fitting = [name for name in fitting if "256" not in name and "192" not in name]
    few = kind != "bfloat16" and trans != "NT"
    return [name for name in fitting if not few or name == "h 128x256"]


def _checks(kind: str, trans: str, names: Sequence[str]) -> Iterator[Job]:
    """Sizes with edges, which are not timed."""
    for name in names:
        for place, sizes in enumerate(((1000, 504, 776), (136, 72, 40), (9, 8, 4104), (300, 520, 1))):
            yield Job(name, kind, trans, sizes, timed=False, pad=(0, 8, 16, 3)[place])


def _squares(kind: str, trans: str, names: Sequence[str], sizes: Iterable[int]) -> Iterator[Job]:
    """Squares, by each participant for which they are neither too large nor of a wrong size."""
    for size in sizes:
        for name in names:
            least = size <= (1024 if "64x64" in name else 2048 if " m " in f" {name}" else size)  # what small tiles are for
            if least and _peer(name, kind, (size, size, size)) and (name != PEERS[1] or size <= 2048):  # where launches count
                yield Job(name, kind, trans, (size, size, size))


def _kinds(asked: argparse.Namespace) -> list[tuple[str, list[str], list[str]]]:
    """Each kind with the transpositions and the sizes of squares that are asked of it."""
    found = []
    for text in asked.kinds.split(","):
        kind, trans, sizes = (*text.split(":"), "", "")[:3]
        found.append((kind, trans.split("/") if trans else asked.trans.split(","), sizes.split("/") if sizes else asked.sizes.split(",")))
    return found


def _peer(name: str, kind: str, sizes: tuple[int, ...]) -> bool:
    """Whether cuBLAS, asked by PyTorch, takes a shape; our own points take all."""
    multiple = {"int8": 8, "float8_e4m3fn": 16}.get(KINDS[kind].held, 1)
    return name not in PEERS or multiple == 1 or (sizes[0] > 16 and not any(size % multiple for size in sizes))


def _measure(results: dict[Job, tuple[float, float]], jobs: list[Job], args: tuple[Any, ...], deadline: float) -> None:
    """Tflop/s of each job, in bursts and sustained; 0 for a check that passed. A point that failed three times for a kind is left out."""
    failures: Counter[tuple[str, str]] = Counter()
    left = (job for job in jobs if failures[job.name, job.kind] < 3)
    _take(results, in_torch.answers(left, serve, args, deadline, patience=15), failures)


def _take(results: dict[Job, tuple[float, float]], answers: Iterable[tuple[Job, Any]], failures: Counter[tuple[str, str]]) -> None:
    """Store answers that are rates; print others and count them as ``failures``."""
    for job, answer in answers:
        if isinstance(answer, tuple):
            burst, sustained = results.get(job, answer)
            results[job] = max(answer[0], burst), max(answer[1], sustained)
        else:
            print("wrong:", job, answer, flush=True)
            failures[job.name, job.kind] += 1


def _compiled_for_opencl(jobs: list[Job]) -> bool:
    """Whether the GPU has OpenCL; its binaries of all products are in the cache then."""
    found = in_opencl.opened()
    if found is None:
        print("no GPU through OpenCL")
        return False
    print(*in_opencl.compiled([job.problem() for job in jobs], found.info), sep="\n")
    return True


def serve(end: Any, built: dict[str, Binary], sustained: float) -> None:
    """The child process: it answers a job with its rates, or with a failure."""
    import torch

    torch.zeros(1, device="cuda")
    in_torch.served(end, lambda job: _run(torch, job, built, sustained))


def _run(torch: Any, job: Job, built: dict[str, Binary], sustained: float) -> tuple[float, float]:
    problem, flops = job.problem(), 2.0 * float(np.prod(job.sizes))
    m, n = int(np.prod(job.sizes[:-2])), job.sizes[-2]
    operands = {name: _operand(torch, job, problem, name) for name in problem.layout if name != "c"}
    result = getattr(torch, KINDS[job.kind].result)
    sustained = sustained if flops >= 1e12 * in_opencl.LARGE else 0.0
    if sustained:
        time.sleep(in_opencl.REST)
    if job.name == "cuBLAS queued":
        return flops / _queued(torch, _theirs(torch, job, operands), flops) / 1e12, 0.0
    if job.name == "cuBLAS":
        return _tflops(flops, in_torch.burst_and_sustained(torch, _theirs(torch, job, operands), flops / _SPEED, sustained))
    pitch = problem.layout["c"].strides[-2]
    for alpha, beta in ((1, 0),) if job.timed else ((1, 0), (2, -1)):
        kept = torch.randint(-90, 90, (m * pitch + 4096,), device="cuda").to(result)
        c = kept.clone()
        if beta == 0 and job.kind != "int8":
            c[: m * pitch].reshape(m, pitch)[:, :n] = float("nan")
        plan = job.plan(in_torch.info())
        call = in_torch.launches(torch, plan, {**operands, "c": c}, {"alpha": alpha, "beta": beta}, built)
        call()
        torch.cuda.synchronize()
        _check(torch, job, operands, c, kept, (alpha, beta), pitch)
    return _tflops(flops, in_torch.burst_and_sustained(torch, call, flops / _SPEED, sustained)) if job.timed else (0.0, 0.0)


def _tflops(flops: float, seconds: tuple[float, float]) -> tuple[float, float]:
    """The rates of a burst and of a sustained run, 0 if there was none."""
    return flops / seconds[0] / 1e12, flops / seconds[1] / 1e12 if seconds[1] else 0.0


def _theirs(torch: Any, job: Job, operands: dict[str, Any]) -> Callable[[], Any]:
    """What a user of PyTorch calls."""
    x, y = (operands[name].mT if trans == "T" else operands[name] for name, trans in zip("ab", job.trans, strict=True))
    if job.kind == "float8-blocks":  # cuBLAS wants the factors of a block of A's rows one after the other
        rows, columns = operands["scale_a"].t().contiguous().t(), operands["scale_b"]
        return lambda: torch._scaled_mm(x, y, scale_a=rows, scale_b=columns, out_dtype=torch.bfloat16)
    if job.kind == "float8":
        one = torch.ones((), device="cuda")
        return lambda: torch._scaled_mm(x, y, scale_a=one, scale_b=one, out_dtype=torch.bfloat16, use_fast_accum=False)
    if job.kind == "int8":
        return lambda: torch._int_mm(x, y)
    if job.kind == "int8-scaled":
        rows, columns = operands["scale_a"].reshape(-1, 1), operands["scale_b"].reshape(1, -1)
        return lambda: (torch._int_mm(x, y) * rows * columns).to(torch.bfloat16)
    if job.kind == "bfloat16-gelu":
        bias = operands["bias"].reshape(-1).to(torch.bfloat16)
        return lambda: torch.nn.functional.gelu(torch.addmm(bias, x, y))
    out = torch.empty(job.sizes[:-1], device="cuda", dtype=getattr(torch, KINDS[job.kind].result))
    torch.backends.cuda.matmul.allow_tf32 = job.kind == "tfloat32"
    return lambda: torch.matmul(x, y, out=out)


def _operand(torch: Any, job: Job, problem: Problem, name: str) -> Any:
    """A or B as it is stored, with NaN or random integers past its rows; or a vector of the epilogue."""
    shape = job.workload.shapes(problem)[name]
    torch.manual_seed(sum(map(ord, name)))
    if name not in "ab":
        return torch.rand((shape[0], max(shape[1], 1)), device="cuda") / (100 if name.startswith("scale") else 1)
    held, stored = getattr(torch, KINDS[job.kind].held), (*shape[:-1], problem.layout[name].strides[-2])
    if held == torch.int8:
        whole = torch.randint(-128, 128, stored, device="cuda", dtype=torch.int8)
    else:
        wide = torch.randn(stored, device="cuda")
        wide[..., shape[-1] :] = float("nan")
        whole = wide.to(held)
    return whole[..., : shape[-1]]


def _check(torch: Any, job: Job, operands: dict[str, Any], c: Any, kept: Any, factors: tuple[int, int], pitch: int) -> None:
    """Raise ValueError if C is wrong, or memory beside it changed; only some rows of a large C are compared."""
    m, n = int(np.prod(job.sizes[:-2])), job.sizes[-2]
    alpha, beta = factors
    got, old = c[: m * pitch].reshape(m, pitch), kept[: m * pitch].reshape(m, pitch)
    if not torch.equal(c[m * pitch :], kept[m * pitch :]) or not torch.equal(got[:, n:], old[:, n:]):
        raise ValueError("wrote past C")
    if bool(torch.isnan(got.float()).any()):
        raise ValueError("C holds NaN")
    stack = len(job.sizes) == 4
    rows = torch.arange(m, device="cuda") if m <= 1024 or stack else torch.randint(0, m, (64,), device="cuda")
    kind = KINDS[job.kind]
    x, y = (operands[name].double().mT if trans == "T" else operands[name].double() for name, trans in zip("ab", job.trans, strict=True))
    x = x if stack else x[rows]
    if kind.workload == "gemm_blocks":
        of_step = torch.arange(x.shape[1], device="cuda") // BLOCK
        x, y = x * operands["scale_a"][rows][:, of_step].double(), y * operands["scale_b"][of_step].double()
    if "scale_a" in kind.epilogue:
        x, y = x * operands["scale_a"][0, rows].double().reshape(-1, 1), y * operands["scale_b"].double()
    expected = alpha * (x @ y).reshape(-1, n) + beta * old[rows][:, :n].double()
    scale = abs(alpha) * (x.abs() @ y.abs()).reshape(-1, n) + abs(beta) * 90
    if "bias" in kind.epilogue:
        expected, scale = expected + operands["bias"].double(), scale + 1
    if "activation" in kind.epilogue:
        expected = torch.nn.functional.gelu(expected)
    sums = {"int8": 0.0, "tfloat32": 2.0**-9, "float8": 2.0**-7, "float8-blocks": 2.0**-7}.get(job.kind, 1e-5)
    allowed = kind.rounding * expected.abs() + (sums * scale + 1e-7 if sums else 0)
    bad = ~((got[rows][:, :n].double() - expected).abs() <= allowed)
    if bool(bad.any()):
        i, j = bad.nonzero()[0].tolist()
        pair = f"{float(got[rows][i, j])} for {float(expected[i, j])}"
        raise ValueError(f"{int(bad.sum())} wrong for {factors}, first [{i}, {j}]: {pair}")


def _queued(torch: Any, call: Callable[[], Any], flops: float) -> float:
    """Median device time of one call, of calls that are queued one by one behind a long copy."""
    call()
    long = [torch.empty(in_opencl.LONG, device="cuda", dtype=torch.uint8) for _ in range(2)]
    times = []
    for _ in range(6):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        long[0].copy_(long[1])
        begin.record()
        for _ in range(count := in_opencl.launches(flops)):
            call()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) / 1e3 / count)
        time.sleep(0.002)
    return float(np.median(times[1:]))


def _show(results: dict[Job, float]) -> None:
    print("checks passed:", sum(not job.timed for job in results))
    timed = {job: value for job, value in results.items() if job.timed}
    squares = {job: value for job, value in timed.items() if len(set(job.sizes)) == 1}
    for kind, trans in dict.fromkeys((job.kind, job.trans) for job in squares):
        these = {(job.name, job.sizes[0]): value for job, value in squares.items() if (job.kind, job.trans) == (kind, trans)}
        sizes = sorted({size for _, size in these})
        print(f"{kind} {trans}".ljust(18), *(f"{size:6d}" for size in sizes))
        for name in dict.fromkeys(name for name, _ in these):
            cells = [f"{these[name, size]:6.0f}" if (name, size) in these else "     -" for size in sizes]
            print(f"  {name}".ljust(18), *cells)
        for label, names in (
            ("default/cuBLAS", ["default"]),
            ("OpenCL/cuBLAS", ["OpenCL"]),
            ("OpenCL/cuBLAS queued", ["OpenCL"]),
            ("best/cuBLAS", list(dict.fromkeys(name for name, _ in these if name not in PEERS))),
        ):
            peer = label.partition("/")[2]
            best = [max(these.get((name, size), 0.0) for name in names) / these.get((peer, size), float("inf")) for size in sizes]
            print(f"  {label}".ljust(18), *(f"{value:6.2f}" for value in best))
    for job, value in timed.items():
        if job not in squares:
            print(job.kind, job.trans, "x".join(map(str, job.sizes)), job.name, f"{value:.0f}")


if __name__ == "__main__":
    sys.exit(main())
