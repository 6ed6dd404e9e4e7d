"""Products on matrix units beside cuBLAS: variants of the kernel texts, compiled in parallel, checked, timed by replayed graphs.

Needs a CUDA device and PyTorch. `--families hopper,matrix --kinds BF16,F16,S8,TF32 --sizes 512,1024 --trans NN,NT` choose.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing as mp
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from portatile.records import Binary, Source
from portatile.template import load
from portatile.workloads.gemm import forms

FOLDER = Path(forms.__file__).parent
# by kind: storage, bytes of an element, type of sums, how results are stored
KINDS = {
    "F16": ("ushort", 2, "float", "F16"),
    "BF16": ("ushort", 2, "float", "BF16"),
    "TF32": ("float", 4, "float", "float"),
    "S8": ("char", 1, "int", "int"),
}
STORED = {"F16": "ushort", "BF16": "ushort", "float": "float", "int": "int"}
# TBR, TBC, TRR, TCR, STAGES, RASTER
HOPPER = {
    "128x256s4": (2, 1, 1, 16, 4, 8),
    "256x128s4": (2, 1, 2, 8, 4, 8),
    "128x256s4r16": (2, 1, 1, 16, 4, 16),
    "128x192s4": (2, 1, 1, 12, 4, 8),
    "128x128s6": (2, 1, 1, 8, 6, 8),
    "64x128s6": (1, 1, 1, 8, 6, 8),
    "64x256s4": (1, 1, 1, 16, 4, 8),
}
MATRIX = {
    "128x128s3": (2, 2, 4, 4, 3, 8),
    "128x256s3": (2, 4, 4, 4, 3, 8),
    "128x128w8s4": (2, 4, 4, 2, 4, 8),
    "256x128s4": (4, 2, 4, 4, 4, 8),
    "64x64s4": (2, 2, 2, 2, 4, 8),
}


@dataclass(frozen=True)
class Variant:
    """One text, for one way to store the operands; ``edge``: tiles do not divide the shape."""

    family: str
    name: str
    kind: str
    trans: str
    edge: bool = False

    @property
    def point(self) -> tuple[int, ...]:
        return (HOPPER if self.family == "hopper" else MATRIX)[self.name]

    @property
    def tile(self) -> tuple[int, int]:
        tbr, tbc, trr, tcr, _, _ = self.point
        return (64 * trr * tbr, 16 * tcr) if self.family == "hopper" else (16 * trr * tbr, 16 * tcr * tbc)

    @property
    def items(self) -> int:
        tbr, tbc, *_ = self.point
        return 128 * (tbr + 1) if self.family == "hopper" else 32 * tbr * tbc

    @property
    def local(self) -> int:
        (bm, bn), stages = self.tile, self.point[4]
        if self.family == "hopper":
            return stages * 128 * (bm + bn) + self.point[0] * 10240 + 256 + 16 * stages + 1024
        return max(stages * 128 * (bm + bn), bm * (bn + 8) * 4)

    def source(self) -> Source:
        tbr, tbc, trr, tcr, stages, raster = self.point
        storage, size, sums, out = KINDS[self.kind]
        facts: dict[str, Any] = {
            "KIND": self.kind,
            "TBR": tbr,
            "TBC": tbc,
            "TRR": trr,
            "TCR": tcr,
            "STAGES": stages,
            "RASTER": raster,
            "DOUBLE": True,
        }
        facts |= {"A_ALONG": self.trans[0] == "N", "B_ALONG": self.trans[1] == "T", "SPLIT": False, "BATCH": False, "LOCAL_ARGUMENT": True}
        facts |= {f"{x}_EDGE": self.edge for x in "ABCK"}
        facts |= {"storage": storage, "itemsize": size, "sum": sums, "factor": sums, "target": STORED[out], "OUT": out}
        facts |= {"WIDE": 8 if out in ("F16", "BF16") else 4, "local_bytes": self.local}
        source = load(str(FOLDER / self.family / "point.py"), f"{self.family}.cl", {}, **facts)
        return replace(source, options=("-arch=sm_90a",)) if self.family == "hopper" else source


def compiled(variant: Variant, architecture: str) -> tuple[Binary, float]:
    from portatile.device.cuda.compiler import target

    begin = time.perf_counter()
    chosen = target(architecture)
    source, entries = chosen.lower(variant.source())
    return chosen.compile(source, entries), time.perf_counter() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--families", default="hopper,matrix")
    parser.add_argument("--kinds", default="BF16,F16,S8,TF32")
    parser.add_argument("--sizes", default="512,1024,2048,4096,8192")
    parser.add_argument("--trans", default="NN,NT,TN,TT")
    parser.add_argument("--architecture", default="sm_90")
    parser.add_argument("--limit", type=float, default=140.0, help="seconds")
    parser.add_argument("--compile-only", action="store_true")
    parser.add_argument("--out", default="")
    arguments = parser.parse_args()
    deadline = time.perf_counter() + arguments.limit
    kinds, all_trans = arguments.kinds.split(","), arguments.trans.split(",")
    wanted = []
    for kind in kinds:
        for family in arguments.families.split(","):
            for name in HOPPER if family == "hopper" else MATRIX:
                for trans in all_trans:
                    if kind in ("S8", "TF32") and trans != "NT":  # the others are transposed first
                        continue
                    if kind == "F16" and (trans not in ("NN", "NT") or name not in ("128x256s4", "128x128s3")):
                        continue
                    wanted.append(Variant(family, name, kind, trans))
                    if name in ("128x256s4", "128x128s3", "64x128s6"):
                        wanted.append(Variant(family, name, kind, trans, True))
    workers = max(1, min(14, (os.cpu_count() or 2) - 2))
    built: dict[Variant, Binary] = {}
    with ProcessPoolExecutor(workers, mp_context=mp.get_context("spawn")) as pool:
        waiting = {pool.submit(compiled, variant, arguments.architecture): variant for variant in wanted}
        for future in as_completed(waiting):
            variant = waiting[future]
            try:
                built[variant], _ = future.result()
            except Exception as error:  # a variant that does not build is a result
                print("build", variant, str(error)[:200], str(getattr(error, "log", ""))[:300])
    print(f"{len(built)} of {len(wanted)} variants built, {arguments.limit - deadline + time.perf_counter():.0f} s")
    for variant, binary in built.items():
        used = binary.resources.get("gemm")
        if (used is not None and used.spill_stores) or "serialized" in binary.log:
            print(
                "  ",
                variant.family,
                variant.name,
                variant.kind,
                variant.trans,
                variant.edge,
                "registers",
                used and used.registers,
                "spills",
                used and used.spill_stores,
                "serialized" if "serialized" in binary.log else "",
            )
    if arguments.compile_only:
        return
    sizes = [int(size) for size in arguments.sizes.split(",")]
    results = measure(built, sizes, deadline)
    show(results, sizes)
    if arguments.out:
        Path(arguments.out).write_text(json.dumps([[*vars(v).values(), size, value] for (v, size), value in results.items()]))


def measure(built: dict[Variant, Binary], sizes: list[int], deadline: float) -> dict[tuple[Any, int], float]:
    """Tflop/s by variant and size, of cuBLAS by (kind, trans); each variant in a child that is killed if it hangs."""
    context = mp.get_context("spawn")
    results: dict[tuple[Any, int], float] = {}
    failures: dict[tuple[str, str], int] = {}
    ends, child = context.Pipe(), None

    def start() -> Any:
        process = context.Process(target=serve, args=(ends[1], sizes), daemon=True)
        process.start()
        ends[1].close()
        if not ends[0].poll(60):
            raise SystemExit("the child did not start")
        ends[0].recv()
        return process

    child = start()
    order = sorted(built, key=lambda v: (v.kind != "BF16", not v.edge, v.trans))
    cublas = sorted({(v.kind, v.trans) for v in built})
    jobs: list[tuple[Any, Any]] = [((kind, trans), None) for kind, trans in cublas] + [(v, built[v]) for v in order]
    for key, binary in jobs:
        if time.perf_counter() > deadline:
            print("out of time before", key)
            break
        group = (key.family, key.kind) if isinstance(key, Variant) else ("cublas", "")
        if failures.get(group, 0) >= 3:
            continue
        ends[0].send((key, binary))
        answer: Any = "hangs"
        try:
            if ends[0].poll(12):
                answer = ends[0].recv()
        except EOFError:
            answer = "died"
        if isinstance(answer, dict):
            results |= {(key, size): value for size, value in answer.items()}
        else:
            print("wrong", key, answer)
            failures[group] = failures.get(group, 0) + 1
            if answer in ("hangs", "died") or "CUDA" in answer or "illegal" in answer:
                child.kill()
                child.join()
                ends = context.Pipe()
                child = start()
    ends[0].send(None)
    return results


def serve(end: Any, sizes: list[int]) -> None:
    import torch

    torch.backends.cuda.matmul.allow_tf32 = False
    torch.zeros(1, device="cuda")
    end.send("ready")
    while (job := end.recv()) is not None:
        key, binary = job
        try:
            end.send(cublas(torch, key, sizes) if binary is None else run(torch, key, binary, sizes))
        except Exception as error:  # the parent prints it and goes on
            end.send(f"{type(error).__name__}: {str(error)[:300]}")


def operands(torch: Any, kind: str, trans: str, m: int, n: int, k: int) -> tuple[Any, Any]:
    """A and B as they are stored."""
    shapes = ((m, k) if trans[0] == "N" else (k, m)), ((k, n) if trans[1] == "N" else (n, k))
    torch.manual_seed(1)
    if kind == "S8":
        return tuple(torch.randint(-128, 128, shape, device="cuda", dtype=torch.int8) for shape in shapes)
    dtype = {"F16": torch.float16, "BF16": torch.bfloat16, "TF32": torch.float32}[kind]
    return tuple(torch.randn(shape, device="cuda").to(dtype) for shape in shapes)


def seconds(torch: Any, call: Any, flops: float) -> float:
    """Median device time of one call, of graphs of some calls."""
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        call()
    side.synchronize()
    count = int(max(2, min(40, 4e-3 / (flops / 5e14))))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(count):
            call()
    times = []
    for _ in range(6):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) / 1e3 / count)
        time.sleep(0.002)
    return float(np.median(times[1:]))


def cublas(torch: Any, key: tuple[str, str], sizes: list[int]) -> dict[int, float]:
    kind, trans = key
    found = {}
    for size in sizes:
        a, b = operands(torch, kind, trans, size, size, size)
        x, y = (a.t() if trans[0] == "T" else a), (b.t() if trans[1] == "T" else b)
        torch.backends.cuda.matmul.allow_tf32 = kind == "TF32"
        if kind == "S8":
            call = lambda x=x, y=y: torch._int_mm(x, y)  # noqa: E731
        else:
            out = torch.empty((size, size), device="cuda", dtype=a.dtype)
            call = lambda x=x, y=y, out=out: torch.mm(x, y, out=out)  # noqa: E731
        found[size] = 2 * size**3 / seconds(torch, call, 2 * size**3) / 1e12
        torch.backends.cuda.matmul.allow_tf32 = False
    return found


def run(torch: Any, variant: Variant, binary: Binary, sizes: list[int]) -> dict[int, float]:
    from portatile import device

    gpu = device.get("cuda")
    kernel = gpu.load(binary).kernel("gemm")
    number = np.int32 if variant.kind == "S8" else np.float32
    keep: list[Any] = []

    def call(m: int, n: int, k: int, a: Any, b: Any, c: Any, alpha: float, beta: float) -> Any:
        bm, bn = variant.tile
        tiles = -(-m // bm) * -(-n // bn)
        groups = min(tiles, gpu.info.compute_units) if variant.family == "hopper" else tiles
        maps = torch.empty(256 * groups, dtype=torch.uint8, device="cuda")
        keep.append(maps)
        memory = [gpu.adopt(x.data_ptr(), x.numel() * x.element_size(), x) for x in (a, b, c, maps)]
        scalars = [np.int32(x) for x in (m, n, k, 0, -(-k // 128) * 128)] + [number(alpha), number(beta)]
        pairs = [
            x
            for one, tensor, ld in zip(memory, (a, b, c), (a.shape[1], b.shape[1], n), strict=False)
            for x in (one, np.int64(0), np.int32(ld))
        ]
        extra = [memory[3]] if variant.family == "hopper" else []
        args = [*scalars, *pairs, *extra, variant.local]

        def launch() -> None:
            queue = gpu.foreign_queue(torch.cuda.current_stream().cuda_stream)
            queue.launch(kernel, (groups * variant.items, 1, 1), (variant.items, 1, 1), args)

        return launch

    shapes = [(1000, 504, 776), (136, 72, 1), (8, 8, 4104)] if variant.edge else [(512, 768, 1024), (2048, 1536, 256)]
    if variant.kind in ("S8", "TF32") and variant.edge:
        shapes = [(1000, 504, 784), (136, 72, 16), (8, 8, 4112)]
    if variant.edge and variant.trans == "NT":
        shapes = [shapes[0]] + [(m, n, k + (8 if k < 9 else 0)) for m, n, k in shapes[1:]]
    for m, n, k in shapes:
        if variant.trans != "TN" and k % 8:
            k = 8
        for alpha, beta in ((1, 0), (2, -1)):
            a, b = operands(torch, variant.kind, variant.trans, m, n, k)
            kept = torch.randint(-90, 90, (m * n + 4096,), device="cuda").to(torch.int32 if variant.kind == "S8" else a.dtype)
            c = kept.clone()
            if beta == 0 and variant.kind != "S8":
                c[: m * n] = float("nan")
            call(m, n, k, a, b, c, alpha, beta)()
            torch.cuda.synchronize()
            if not torch.equal(c[m * n :], kept[m * n :]):
                return _fail(f"wrote past C at {(m, n, k)}")
            x, y = (a.t() if variant.trans[0] == "T" else a).double(), (b.t() if variant.trans[1] == "T" else b).double()
            expected = alpha * (x @ y) + beta * kept[: m * n].reshape(m, n).double()
            scale = abs(alpha) * (x.abs() @ y.abs()) + abs(beta) * 90
            part = {"F16": 2**-11, "BF16": 2**-8, "TF32": 0, "S8": 0}[variant.kind]
            allowed = (
                scale * {"S8": 0, "TF32": 2.0**-9}.get(variant.kind, 1e-5) + part * expected.abs() + (1e-6 if variant.kind != "S8" else 0)
            )
            over = (c[: m * n].reshape(m, n).double() - expected).abs() - allowed
            bad = ~(over <= 0)
            if bool(bad.any()):
                where = bad.nonzero()
                first = where[0].tolist()
                return _fail(
                    f"{(m, n, k)} alpha {alpha} beta {beta}: {int(bad.sum())} of {m * n} wrong, first {first} last {where[-1].tolist()}: "
                    f"{float(c[: m * n].reshape(m, n)[first[0], first[1]])} for {float(expected[first[0], first[1]])}"
                )
    if variant.edge:
        return {1: 1.0}
    found = {}
    for size in sizes:
        a, b = operands(torch, variant.kind, variant.trans, size, size, size)
        c = torch.empty(size * size, device="cuda", dtype=torch.int32 if variant.kind == "S8" else a.dtype)
        found[size] = 2 * size**3 / seconds(torch, call(size, size, size, a, b, c, 1, 0), 2 * size**3) / 1e12
    return found


def _fail(message: str) -> Any:
    raise ValueError(message)


def show(results: dict[tuple[Any, int], float], sizes: list[int]) -> None:
    print("Tflop/s; best / cuBLAS below each table")
    for kind, trans in dict.fromkeys(
        (key[0] if not isinstance(key, Variant) else key.kind, key[1] if not isinstance(key, Variant) else key.trans) for key, _ in results
    ):
        rows = {
            key: [results.get((key, size), 0.0) for size in sizes]
            for key, _ in results
            if isinstance(key, Variant) and (key.kind, key.trans) == (kind, trans) and not key.edge
        }
        library = [results.get(((kind, trans), size), 0.0) for size in sizes]
        print(f"{kind} {trans} cuBLAS".ljust(30), *(f"{value:6.0f}" for value in library))
        for key, values in rows.items():
            print(f"  {key.family} {key.name}".ljust(30), *(f"{value:6.0f}" for value in values))
        if rows:
            best = [max(values[i] for values in rows.values()) for i in range(len(sizes))]
            print("  best / cuBLAS".ljust(30), *(f"{value / max(base, 1e-9):6.2f}" for value, base in zip(best, library, strict=True)))
    checked = sum(1 for key, _ in results if isinstance(key, Variant) and key.edge)
    print("edge shapes right:", checked)


if __name__ == "__main__":
    sys.exit(main())
