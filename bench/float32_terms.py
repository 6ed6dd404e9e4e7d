"""Emulated float32 products (gemm_terms) compared with portatile's native default and cuBLAS: bursts, sustained runs, errors.

Needs a CUDA device and PyTorch. `OpenCL` is the default through the GPU's OpenCL, with `--opencl`. Every participant runs in a child that
is killed where it hangs. Errors are in units of 2^-24 sum |a b|, of sampled rows against float64, largest and mean. Operands are normal,
uniform in [0, 1), or graded by powers of two along m, n and k.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

import in_opencl
import in_torch
from errors import histogram
from measure import facts, parser, save, slug, until_stopped
from portatile import workloads
from portatile.flat_plans import flatten
from portatile.records import Binary, DeviceInfo, Launch, Plan, Problem
from portatile.workload import Inputs
from portatile.workloads.gemm_terms import choice, points

TERMS, NATIVE = workloads.get("gemm_terms"), workloads.get("gemm")
PARTICIPANTS: dict[str, dict[str, Any]] = {
    "cuBLAS": {},
    "native": {},
    "default": {},
    **{f"{form} {tile}": dict(points.config(form, tile)) for form, tile in points.TILES},
    "hopper 128x128 two stages": dict(points.config("hopper", "128x128", stages=2)),
    "hopper 128x128 in rows": dict(points.config("hopper", "128x128", raster=1)),
    "hopper 128x128 split": dict(points.config("hopper", "128x128", split=2)),
    "hopper 64x128 split": dict(points.config("hopper", "64x128", split=4)),
}
UNIT = 2.0**-24
SAMPLED = 64  # rows of which errors are taken
_SPEED = 1.5e14  # flop/s, about: how many calls fill a graph


@dataclass(frozen=True)
class Job:
    """A participant, a shape m, n, k, how the operands are stored, and what they hold."""

    name: str
    sizes: tuple[int, int, int]
    trans: str
    data: str

    def problem(self) -> Problem:
        workload = NATIVE if self.name == "native" else TERMS
        return workload.problem(dict(zip("mnk", self.sizes, strict=True)), "float32", {"trans_a": self.trans[0], "trans_b": self.trans[1]})

    def plan(self, info: DeviceInfo) -> Plan:
        problem = self.problem()
        workload = workloads.get(problem.workload)
        config = PARTICIPANTS[self.name] or workload.default(problem, info)

        def default(called: Problem) -> Plan:
            callee = workloads.get(called.workload)
            return callee.plan(called, callee.default(called, info), info)

        return flatten(workload.plan(problem, config, info), default)


def main() -> None:
    options = parser(__doc__, device="")
    options.add_argument("--sizes", default="512,1024,2048,4096,8192")
    options.add_argument("--shapes", default="4097x4095x4099,8192x64x8192,64x64x65536,16384x16384x256,1024x8192x1024,16384x512x4096")
    options.add_argument("--trans", default="NN,TN")
    options.add_argument("--data", default="normal,uniform,graded")
    options.add_argument("--names", default=",".join(PARTICIPANTS))
    options.add_argument("--opencl", action="store_true", help="defaults through OpenCL too")
    options.add_argument("--sustained", type=float, default=0.25, help="seconds")
    options.add_argument("--limit", type=float, default=280.0, help="seconds")
    asked = options.parse_args()
    begin = time.perf_counter()
    info = in_torch.info()
    jobs = list(_jobs(asked))
    texts = {step.source for job in jobs if job.name != "cuBLAS" for step in job.plan(info).steps if isinstance(step, Launch)}
    built = in_torch.compiled(texts, info.architecture)
    spilled = [name for binary in built.values() for name, used in binary.resources.items() if used.spill_stores > 0]
    print(f"{len(built)} texts built in {time.perf_counter() - begin:.0f} s; spills in {spilled or 'none'}", flush=True)
    rows = []
    with until_stopped():
        for row in _measured(jobs, built, begin + asked.limit, asked.sustained):
            rows.append(row)
            _show(row, rows)
        if asked.opencl:
            for row in _through_opencl(jobs, begin + asked.limit, asked.sustained):
                rows.append(row)
                _show(row, rows)
    document = {"bench": "float32_terms", **facts(asked.commit), "device": info.name, "peer": in_torch.peer(), "rows": rows}
    print(save(f"float32_terms-{slug(info.name)}", document, asked.out))


def _jobs(asked: argparse.Namespace) -> Iterator[Job]:
    """Random operands of every shape first; other data with the default alone."""
    names = asked.names.split(",")
    squares = [(size, size, size) for size in map(int, asked.sizes.split(",")) if size]
    shapes = squares + [tuple(map(int, shape.split("x"))) for shape in asked.shapes.split(",") if shape]
    data, trans = asked.data.split(","), asked.trans.split(",")
    for sizes in shapes:
        for name in names:
            yield Job(name, sizes, trans[0], data[0])  # type: ignore[arg-type]
    for sizes in squares:
        for how, what in [(how, data[0]) for how in trans[1:]] + [(trans[0], what) for what in data[1:]]:
            yield from (Job(name, sizes, how, what) for name in names if name in ("cuBLAS", "default"))  # type: ignore[arg-type]


def _measured(jobs: list[Job], built: dict[str, Binary], deadline: float, sustained: float) -> Iterator[dict[str, Any]]:
    """A row for each job, or its error."""
    for job, answer in in_torch.answers(jobs, serve, (built, sustained), deadline, patience=20):
        if isinstance(answer, str):
            print("wrong:", job, answer, flush=True)
        else:
            yield {**asdict(job), **answer}


def _through_opencl(jobs: list[Job], deadline: float, sustained: float) -> Iterator[dict[str, Any]]:
    """A row of each product by default, through the GPU's OpenCL; none where it has no OpenCL."""
    found = in_opencl.opened()
    if found is None:
        print("no GPU through OpenCL")
        return
    defaults = [replace(job, name="OpenCL") for job in jobs if job.name == "default"]
    print(*in_opencl.compiled([job.problem() for job in defaults], found.info), sep="\n")
    for job, answer in in_torch.answers(defaults, serve_opencl, (sustained,), deadline, patience=40):
        if isinstance(answer, str):
            print("wrong:", job, answer, flush=True)
        else:
            yield {**asdict(job), **answer}


def serve_opencl(end: Any, sustained: float, kind: str = "gpu") -> None:
    """The child process for OpenCL."""
    found = in_opencl.opened(kind)
    assert found is not None
    products = in_opencl.Products(found)
    in_torch.served(end, lambda job: _in_opencl(products, job, sustained))


def _in_opencl(products: in_opencl.Products, job: Job, sustained: float) -> dict[str, Any]:
    a, b = _arrays(job)
    stored = {name: np.ascontiguousarray(x.T if how == "T" else x) for name, x, how in zip("ab", (a, b), job.trans, strict=True)}
    c = np.full((a.shape[0], b.shape[1]), np.nan, np.float32)
    errors: dict[str, Any] = {}

    def check(got: Any) -> None:
        rows = np.random.default_rng(1).integers(0, a.shape[0], min(a.shape[0], SAMPLED))
        x, y = a[rows].astype(float), b.astype(float)
        errors.update(_errors(np.abs(got[rows] - x @ y) / (np.abs(x) @ np.abs(y)), job.sizes[2]))

    inputs = Inputs({**stored, "c": c}, {"alpha": 1.0, "beta": 0.0})
    burst, long = products.seconds(job.problem(), inputs, check, sustained)
    return {"burst": burst, "sustained": long, **errors}


def _arrays(job: Job) -> tuple[Any, Any]:
    """op(A) and op(B) as NumPy arrays, of the distributions of ``_operands``."""
    m, n, k = job.sizes
    rng = np.random.default_rng(m + n + k)
    draw = rng.random if job.data == "uniform" else rng.standard_normal
    a, b = draw((m, k), np.float32), draw((k, n), np.float32)
    if job.data == "graded":
        a *= 2.0 ** rng.integers(-20, 21, (m, 1)) * 2.0 ** rng.integers(-5, 6, (1, k))
        b *= 2.0 ** rng.integers(-20, 21, (1, n)) * 2.0 ** rng.integers(-5, 6, (k, 1))
    return a, b


def _errors(off: Any, k: int) -> dict[str, Any]:
    """The largest and the mean of relative errors, in units, and how many have which power of two.

    Raises ValueError if one is not finite or far too large.
    """
    off = off / UNIT
    if not np.isfinite(off).all():
        raise ValueError(f"{int((~np.isfinite(off)).sum())} elements are NaN or infinite")
    if off.max() > 2 * k + 64:
        raise ValueError(f"an error of {off.max():.3g}")
    return {"largest": float(off.max()), "mean": float(off.mean()), "histogram": histogram(off)}


def serve(end: Any, built: dict[str, Binary], sustained: float) -> None:
    """The child process: it answers a job with times and errors, or with a failure."""
    import torch

    torch.backends.cuda.matmul.allow_tf32 = False
    torch.zeros(1, device="cuda")
    in_torch.served(end, lambda job: _run(torch, job, built, sustained))


def _operands(torch: Any, job: Job) -> tuple[Any, Any]:
    """op(A) and op(B), stored as the job says."""
    m, n, k = job.sizes
    torch.manual_seed(m + n + k)
    draw = torch.rand if job.data == "uniform" else torch.randn
    a, b = draw((m, k), device="cuda"), draw((k, n), device="cuda")
    if job.data == "graded":
        a *= 2.0 ** torch.randint(-20, 21, (m, 1), device="cuda") * 2.0 ** torch.randint(-5, 6, (1, k), device="cuda")
        b *= 2.0 ** torch.randint(-20, 21, (1, n), device="cuda") * 2.0 ** torch.randint(-5, 6, (k, 1), device="cuda")
    return tuple(x.t().contiguous().t() if how == "T" else x for x, how in zip((a, b), job.trans, strict=True))  # type: ignore[return-value]


def _run(torch: Any, job: Job, built: dict[str, Binary], sustained: float) -> dict[str, Any]:
    m, n, k = job.sizes
    a, b = _operands(torch, job)
    c = torch.full((m, n), float("nan"), device="cuda")
    call = (lambda: torch.mm(a, b, out=c)) if job.name == "cuBLAS" else _launches(torch, job, (a, b, c), built)
    call()
    torch.cuda.synchronize()
    rows = torch.randint(0, m, (min(m, SAMPLED),), device="cuda")
    x, y = a[rows].double(), b.double()
    errors = _errors(((c[rows].double() - x @ y).abs() / (x.abs() @ y.abs())).cpu().numpy(), k)
    time.sleep(in_opencl.REST)  # after the run without rests before
    burst, long = in_torch.burst_and_sustained(torch, call, 2.0 * m * n * k / _SPEED, sustained)
    return {"burst": burst, "sustained": long, **errors}


def _launches(torch: Any, job: Job, operands: tuple[Any, Any, Any], built: dict[str, Binary]) -> Callable[[], None]:
    """What queues the job's product in PyTorch's current stream."""
    a, b, c = operands
    stored = {"a": a.t() if job.trans[0] == "T" else a, "b": b.t() if job.trans[1] == "T" else b, "c": c}
    return in_torch.launches(torch, job.plan(in_torch.info()), stored, {"alpha": 1.0, "beta": 0.0}, built)


def _show(row: dict[str, Any], rows: list[dict[str, Any]]) -> None:
    """A line of a row, beside cuBLAS's of the same shape and data."""
    flops = 2.0 * np.prod(row["sizes"]) / 1e12
    same = [one for one in rows if one["name"] == "cuBLAS" and all(one[key] == row[key] for key in ("sizes", "trans", "data"))]
    ratio = "".join(f" {same[0][kind] / row[kind]:5.2f}" for kind in ("burst", "sustained")) if same else ""
    expected = ""
    if row["name"] in ("native", "default"):
        problem = TERMS.problem(dict(zip("mnk", row["sizes"], strict=True)))
        expected = f"  expected to win: {choice.wins(problem, in_torch.info())}"
    speeds = f"{flops / row['burst']:6.1f} / {flops / row['sustained']:6.1f} Tflop/s"
    where = f"{'x'.join(map(str, row['sizes'])):18} {row['trans']} {row['data']:8} {row['name']:26}"
    print(f"{where} {speeds}{ratio}  error {row['largest']:.2f} / {row['mean']:.3f}{expected}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
