"""What a call costs the host when it comes again, through every array library that is here, beside those libraries' own calls.

Small matrices, of which the device has little to do. A round is a batch of calls of each case, timed without waiting for the device, which
is waited for between them; calls of NumPy arrays wait by themselves, and are shown beside their transfers alone.

    python bench/overhead.py [--device cuda:0] [--size 256] [--seed 1] [--rounds 200] [--save]
        [--only torch,cupy,buffer,turns,numpy,launches]
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from functools import partial
from itertools import count as count_up
from itertools import cycle, repeat
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import portatile
from measure import RESULTS, facts, save, slug, until_stopped
from portatile import program
from portatile.device.base import Device, Memory, Queue, Ready, ReadyLaunch
from portatile.device.buffer import Buffer
from portatile.device.cuda.context import CudaContext
from portatile.device.launches import Slot
from portatile.records import Source

BATCH = 20  # calls of a round: fewer than any queue holds
WARM = 30
TAPS = (0.25, -1.0, 0.5)
LONG = 8192  # the inner dimension of a product whose sums are split


class Case(NamedTuple):
    """A call: of which library's arrays, what it does, and what waits until the device has done it."""

    library: str
    name: str
    call: Callable[[], object]
    finish: Callable[[], object]


class Operands(NamedTuple):
    """Square matrices and an output, a triangle, stacks, the operands of a long product, a batch of volumes, eight vectors, and atoms, all
    of one library.
    """

    a: Any
    b: Any
    out: Any
    triangle: Any
    stacks: tuple[Any, Any, Any]
    long: tuple[Any, Any, Any]
    volumes: Any
    vectors: tuple[Any, ...]
    atoms: Any


class Problem(NamedTuple):
    """What is called: square matrices of a ``size``, drawn with a ``seed``, on a device."""

    size: int
    seed: int
    device: Device


def operands(make: Callable[[np.ndarray], Any], problem: Problem) -> Operands:
    """Random operands as ``make`` makes them of NumPy arrays."""
    size, rng = problem.size, np.random.default_rng(problem.seed)

    def random(*shape: int) -> Any:
        return make(rng.random(shape, dtype=np.float32))

    triangle = np.tril(rng.random((size, size), dtype=np.float32)) + size * np.eye(size, dtype=np.float32)
    stacks = random(8, size, size), random(8, size, size), random(8, size, size)
    return Operands(
        random(size, size),
        random(size, size),
        random(size, size),
        make(triangle),
        stacks,
        (random(64, LONG), random(LONG, 64), random(64, 64)),
        random(8, 16, 16, 16),
        tuple(random(size) for _ in range(8)),
        random(64, 4),
    )


def by_turns(one: Callable[[], object], other: Callable[[], object]) -> Callable[[], object]:
    """A call of the one and then of the other, so that no arguments are those of the last call."""
    calls = cycle((one, other))
    return lambda: next(calls)()


def own(library: str, given: Operands, problem: Problem, finish: Callable[[], object]) -> Iterator[Case]:
    """The package's calls on one library's arrays."""
    a, b, out, triangle, stacks, long, volumes, vectors, atoms = given
    selected, size = problem.device.info.id, problem.size
    compiled = portatile.compile("gemm", m=size, n=size, k=size, device=selected)
    calls: dict[str, Callable[[], object]] = {
        "matmul, out": lambda: portatile.matmul(a, b, out=out, device=selected),
        "matmul, new result": lambda: portatile.matmul(a, b, device=selected),
        "gemm, transposed, out": lambda: portatile.gemm(a, b, trans_a="T", alpha=2.0, out=out, device=selected),
        "compiled, out": lambda: compiled(a, b, out=out),
        "matmul, split sums, out": lambda: portatile.matmul(long[0], long[1], out=long[2], device=selected),
        "trsm, in place": lambda: portatile.trsm(triangle, out, out=out, device=selected),
        "stack of 8, out": lambda: portatile.matmul(stacks[0], stacks[1], out=stacks[2], device=selected),
        "trsm, two right sides by turns": by_turns(
            lambda: portatile.trsm(triangle, out, out=out, device=selected), lambda: portatile.trsm(triangle, b, out=b, device=selected)
        ),
        "convolve1d": lambda: portatile.convolve1d(a, TAPS, lower=-1, device=selected),
        "symm": lambda: portatile.symm(a, b, device=selected),
        "syrk": lambda: portatile.syrk(a, device=selected),
        "trmm": lambda: portatile.trmm(triangle, b, device=selected),
        "magicfilter3d of 8": lambda: portatile.wavelets.magicfilter3d(volumes, device=selected),
        "analysis3d of 8": lambda: portatile.wavelets.analysis3d(volumes, device=selected),
        "potential of 8 orbitals": lambda: portatile.wavelets.apply_potential(volumes, volumes[0], device=selected),
        "density of 8 orbitals": lambda: portatile.wavelets.density(volumes, device=selected),
        "kinetic of 8 orbitals": lambda: portatile.wavelets.kinetic(volumes, device=selected),
        "mri_q": lambda: portatile.mri_q(*vectors, device=selected),
        "coulomb_potential": lambda: portatile.coulomb_potential(atoms, (16, 16, 16), 0.1, device=selected),
    }
    for name, call in calls.items():
        yield Case(library, name, call, finish)


def torch_cases(problem: Problem) -> Iterator[Case]:
    """PyTorch's tensors."""
    import torch

    index = int(problem.device.info.id.split(":")[1])
    given = operands(lambda array: torch.from_numpy(array).to(f"cuda:{index}"), problem)
    yield from own("torch", given, problem, torch.cuda.synchronize)
    torch.backends.cuda.matmul.allow_tf32 = False
    a, b, out, triangle, stacks, *_ = given
    yield from torch_kinds(given, problem.device)
    yield Case("torch", "torch.mm, out", lambda: torch.mm(a, b, out=out), torch.cuda.synchronize)
    yield Case("torch", "torch.mm, new result", lambda: torch.mm(a, b), torch.cuda.synchronize)
    yield Case("torch", "torch.bmm, stack of 8, out", lambda: torch.bmm(stacks[0], stacks[1], out=stacks[2]), torch.cuda.synchronize)
    solve = torch.linalg.solve_triangular
    yield Case("torch", "solve_triangular", lambda: solve(triangle, b, upper=False), torch.cuda.synchronize)


def torch_kinds(given: Operands, device: Device) -> Iterator[Case]:
    """Other kinds of calls: other types, odd sizes, a stream of the caller's own, and the operators of ``portatile.torch``."""
    import torch

    import portatile.torch

    selected, finish, stream = device.info.id, torch.cuda.synchronize, torch.cuda.Stream(given.a.device)

    def product(a: Any, b: Any) -> Callable[[], object]:
        out = torch.empty((a.shape[0], b.shape[1]), dtype=a.dtype, device=a.device)
        return lambda: portatile.matmul(a, b, out=out, device=selected)

    def on_stream() -> None:
        with torch.cuda.stream(stream):
            portatile.matmul(given.a, given.b, out=given.out, device=selected)

    def empty_stream() -> None:
        with torch.cuda.stream(stream):
            pass

    def without_gradients() -> None:
        with torch.inference_mode():
            portatile.matmul(given.a, given.b, out=given.out, device=selected)

    def empty_mode() -> None:
        with torch.inference_mode():
            pass

    for name in ("float64", "float16", "bfloat16"):
        kind = getattr(torch, name)
        yield Case("torch", f"matmul, out, {name}", product(given.a.to(kind), given.b.to(kind)), finish)
    yield Case("torch", "matmul, out, odd sizes", product(given.a[1:, 1:], given.b[1:, 1:]), finish)
    yield Case("torch", "matmul, out, on a stream", on_stream, finish)
    yield Case("torch", "entering a stream alone", empty_stream, finish)
    yield Case("torch", "matmul, out, inference_mode", without_gradients, finish)
    yield Case("torch", "entering inference_mode alone", empty_mode, finish)
    yield Case("torch", "portatile.torch.matmul", lambda: portatile.torch.matmul(given.a, given.b), finish)


def cupy_cases(problem: Problem) -> Iterator[Case]:
    """CuPy's arrays."""
    import cupy

    finish = cupy.cuda.runtime.deviceSynchronize
    given = operands(cupy.asarray, problem)
    yield from own("cupy", given, problem, finish)
    a, b, out, _, stacks, *_ = given
    yield Case("cupy", "cupy.matmul, out", lambda: cupy.matmul(a, b, out=out), finish)
    yield Case("cupy", "cupy.matmul, new result", lambda: cupy.matmul(a, b), finish)
    yield Case("cupy", "cupy.matmul, stack of 8, out", lambda: cupy.matmul(stacks[0], stacks[1], out=stacks[2]), finish)


def buffer_cases(problem: Problem) -> Iterator[Case]:
    """The package's own arrays."""
    device = problem.device
    yield from own("buffer", operands(lambda array: Buffer.from_numpy(array, device), problem), problem, device.default_queue().finish)
    yield Case("buffer", "finish", device.default_queue().finish, device.default_queue().finish)


def turns_cases(problem: Problem) -> Iterator[Case]:
    """The package's own arrays on two GPUs by turns: a call is one on either."""
    other = next((one for one in portatile.devices() if one.info.backend == "cuda" and one is not problem.device), None)
    if other is None:
        raise RuntimeError("there is no other GPU")
    pair = problem.device, other

    def finish() -> None:
        for device in pair:
            device.default_queue().finish()

    ways = [
        list(own("turns", operands(partial(Buffer.from_numpy, device=one), problem), problem._replace(device=one), finish)) for one in pair
    ]
    yield from (first._replace(call=by_turns(first.call, second.call)) for first, second in zip(*ways, strict=True))


def numpy_cases(problem: Problem) -> Iterator[Case]:
    """NumPy's arrays, and what it takes to bring a product's to the device and back."""
    given, device = operands(lambda array: array, problem), problem.device
    queue = device.default_queue()
    yield from own("numpy", given, problem, queue.finish)
    a, b, out, *_ = given
    memory = [device.allocate(array.nbytes) for array in (a, b, out)]

    def transfers() -> None:
        queue.upload(memory[0], a, blocking=False)
        queue.upload(memory[1], b, blocking=False)
        queue.download(out, memory[2])

    yield Case("numpy", "the transfers alone", transfers, queue.finish)
    yield Case("numpy", "numpy.matmul, out", lambda: np.matmul(a, b, out=out), queue.finish)


def launch_cases(problem: Problem) -> Iterator[Case]:
    """Launches of a small kernel, so many for a call: one by one, as with a number that always changes, and as a graph."""
    text = "kernel void put(global float *x, float value) { x[get_global_id(0)] = value; }"
    device = problem.device
    if not isinstance(device, CudaContext):
        raise RuntimeError(f"{device.info.id} packs no launches")
    put = device.load(program.build(Source("put.cl", text), device.target, None)).kernel("put")
    queue, memories = device.default_queue(), [device.allocate(1024) for _ in range(2)]
    for count in (1, 2, 3, 4, 6, 8, 12, 16, 24, 32):
        launches = [ReadyLaunch(put, (256, 1, 1), (256, 1, 1), [Slot(0, Memory), Slot(1, np.float32)])] * count
        for name in ("one by one", "as a graph"):
            ready = device.ready(launches)
            assert ready is not None
            numbers = count_up() if name == "one by one" else repeat(1.0)
            values = zip(cycle([memory.handle for memory in memories]), map(float, numbers))
            yield Case("launches", f"{count} {name}", partial(_run, ready, queue, values), queue.finish)


def _run(ready: Ready, queue: Queue, values: Iterator[tuple[int, float]]) -> None:
    ready.run(queue, next(values), True)


LIBRARIES = {
    "torch": torch_cases,
    "cupy": cupy_cases,
    "buffer": buffer_cases,
    "turns": turns_cases,
    "numpy": numpy_cases,
    "launches": launch_cases,
}


def measured(cases: Sequence[Case], rounds: int) -> list[list[float]]:
    """Microseconds of the host for a call of each case, one for each round. All have a turn in every round, so that what else the machine
    does for a while disturbs all alike.
    """
    samples: list[list[float]] = [[] for _ in cases]
    for case in cases:
        for _ in range(WARM):
            case.call()
        case.finish()
    for _ in range(rounds):
        for case, taken in zip(cases, samples, strict=True):
            case.call()  # by which the caches know it again
            start = time.perf_counter()
            for _ in range(BATCH):
                case.call()
            taken.append((time.perf_counter() - start) / BATCH * 1e6)
            case.finish()
    return samples


def main() -> None:
    """Measure and print; write every sample as JSON if asked to."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--device")
    parser.add_argument("--size", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1, help="of the matrices' elements")
    parser.add_argument("--only", default=",".join(LIBRARIES), help="array libraries, separated by commas")
    parser.add_argument("--json", type=Path, help="write every sample to this file")
    parser.add_argument("--save", action="store_true", help="write every sample to bench/results")
    parser.add_argument("--out", type=Path, help="write them to this folder instead")
    parser.add_argument("--commit", help="what to record where there is no git")
    options = parser.parse_args()
    device = portatile.get_device(options.device)
    rows: list[dict[str, Any]] = []
    print(f"{device.info.name} ({device.info.id}), {options.size} a side, float32, Python {platform.python_version()}")
    print("us of the host for a call")
    with until_stopped():
        for library in options.only.split(","):
            try:
                cases = list(LIBRARIES[library](Problem(options.size, options.seed, device)))
            except (ImportError, RuntimeError, AssertionError) as error:  # not installed, or without this device
                print(f"  {library}: left out, {str(error).splitlines()[0]}")
                continue
            for case, samples in zip(cases, measured(cases, options.rounds), strict=True):
                median, least = statistics.median(samples), min(samples)
                print(f"  {library:9}{case.name:32}{median:8.1f}   least {least:8.1f}", flush=True)
                rows.append({"library": library, "call": case.name, "median_us": median, "least_us": least, "samples_us": samples})
    document = {
        "bench": "overhead",
        **facts(options.commit),
        "device": asdict(device.info),
        "size": options.size,
        "seed": options.seed,
        "batch": BATCH,
        "rows": rows,
    }
    if options.json:
        options.json.write_text(json.dumps(document, indent=1))
    if options.save or options.out:
        name = f"overhead-{slug(device.info.name)}-{slug(device.info.id)}"
        print(f"written to {save(name, document, options.out or RESULTS)}")


if __name__ == "__main__":
    main()
