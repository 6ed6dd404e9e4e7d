"""Kernels timed in PyTorch's stream: texts compiled on all cores, and a child process that may hang or die."""

from __future__ import annotations

import multiprocessing as mp
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from typing import Any, TypeVar

import numpy as np

from portatile import device
from portatile.device.module import LoadedKernel
from portatile.records import Binary, DeviceInfo, Launch, Plan, Source

HANGS, DIED = "hangs", "died"
_START = 90.0  # seconds in which a child imports PyTorch
_GRAPH, _LEAST = 4e-3, 5e-6  # seconds that a graph should take, and that a call takes at least
_BURSTS, _REST = 6, 5e-3  # graphs replayed, the first of which is not counted, and seconds between them

Job = TypeVar("Job")

_LOADED: dict[tuple[str, str], LoadedKernel] = {}


def info() -> DeviceInfo:
    """The CUDA device."""
    return device.get("cuda").info


def peer() -> str:
    """The versions of PyTorch and of its CUDA, for a result."""
    import torch

    return f"PyTorch {torch.__version__}, CUDA {torch.version.cuda}"


def compiled(texts: Iterable[Source], architecture: str) -> dict[str, Binary]:
    """The binaries of kernel texts by their digests. Texts that do not compile are left out, and the reason is printed."""
    built: dict[str, Binary] = {}
    with ProcessPoolExecutor(max(1, min(14, (os.cpu_count() or 2) - 1)), mp_context=mp.get_context("spawn")) as pool:
        waiting = {pool.submit(_compile, text, architecture): text for text in texts}
        for future in as_completed(waiting):
            try:
                built[waiting[future].digest] = future.result()
            except Exception as error:  # what does not build is a result
                print("does not build", str(error)[:300], str(getattr(error, "log", ""))[:300])
    return built


def _compile(text: Source, architecture: str) -> Binary:
    from portatile.device.cuda.compiler import target

    chosen = target(architecture)
    return chosen.compile(*chosen.lower(text))


def answers(
    jobs: Iterable[Job], serve: Callable[..., None], args: Sequence[Any], deadline: float, patience: float
) -> Iterator[tuple[Job, Any]]:
    """Each job with the child's answer: a text if it failed, HANGS after ``patience`` seconds, or DIED.

    ``serve(end, *args)`` is the child: it sends "ready", then an answer for each job that it receives, until that is None. A child that
    hung, died, or reported an error of CUDA is replaced, for its context may be broken. Ends at ``deadline``, by ``time.perf_counter``.
    """
    context = mp.get_context("spawn")

    def start() -> tuple[Any, Any]:
        ours, theirs = context.Pipe()
        process = context.Process(target=serve, args=(theirs, *args), daemon=True)
        process.start()
        theirs.close()
        if not ours.poll(_START) or ours.recv() != "ready":
            raise SystemExit("the child did not start")
        return process, ours

    process, end = start()
    for job in jobs:
        if time.perf_counter() > deadline:
            print("out of time before", job)
            break
        try:
            end.send(job)
            answer = end.recv() if end.poll(patience) else HANGS
        except (EOFError, BrokenPipeError):
            answer = DIED
        if answer in (HANGS, DIED) or (isinstance(answer, str) and ("CUDA" in answer or "illegal" in answer)):
            process.kill()
            process.join()
            process, end = start()
        yield job, answer
    end.send(None)


def served(end: Any, answer: Callable[[Any], Any]) -> None:
    """The child's side of ``answers``: it reports that it is ready, and then answers each job with its result or failure."""
    end.send("ready")
    while (job := end.recv()) is not None:
        try:
            end.send(answer(job))
        except Exception as error:  # the parent prints it and goes on
            end.send(f"{type(error).__name__}: {str(error)[:300]}")


def launches(
    torch: Any, plan: Plan, operands: Mapping[str, Any], factors: Mapping[str, float], built: Mapping[str, Binary]
) -> Callable[[], None]:
    """What queues the steps of a flat plan in PyTorch's current stream, its temporaries zeroed tensors."""
    gpu = device.get("cuda")
    memory = dict(operands)
    for temporary in plan.temporaries:
        memory[temporary.name] = torch.zeros(max(temporary.nbytes, 4) + 256, dtype=torch.uint8, device="cuda")
    adopted = {name: gpu.adopt(x.data_ptr(), x.numel() * x.element_size(), x) for name, x in memory.items()}
    ready = []
    for step in plan.steps:
        assert isinstance(step, Launch)
        args: list[Any] = []
        for arg in step.args:
            if arg.kind == "buffer":
                args.append(adopted[arg.name])
            elif arg.kind == "tensor_map" and arg.map is not None:
                args.append(gpu.tensor_map(adopted[arg.name], arg.map))
            elif arg.kind == "local":
                args.append(int(arg.value or 0))
            else:
                args.append(np.dtype(arg.dtype).type(factors[arg.name] if arg.value is None else arg.value))
        ready.append((_kernel(built, step.source.digest, step.kernel), step.global_size, step.local_size, args))

    def call() -> None:
        queue = gpu.foreign_queue(torch.cuda.current_stream().cuda_stream)
        for kernel, whole, group, args in ready:
            queue.launch(kernel, whole, group, args)

    return call


def _kernel(built: Mapping[str, Binary], digest: str, name: str) -> LoadedKernel:
    """A kernel of a text, loaded once."""
    if (digest, name) not in _LOADED:
        _LOADED[digest, name] = device.get("cuda").load(built[digest]).kernel(name)
    return _LOADED[digest, name]


def burst_and_sustained(torch: Any, call: Callable[[], Any], expected: float, sustained: float) -> tuple[float, float]:
    """Median device seconds of a call in graphs of several that are replayed between rests, and in ``sustained`` seconds without rests.

    ``expected``: about how long a call takes, which decides how many a graph has. The second is 0 where ``sustained`` is.
    """
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        call()
    side.synchronize()
    count = int(max(2, min(40, _GRAPH / max(expected, _LEAST))))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(count):
            call()

    def replayed(times: int) -> float:
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        for _ in range(times):
            graph.replay()
        end.record()
        end.synchronize()
        return float(begin.elapsed_time(end)) / 1e3 / count / times

    bursts = []
    for _ in range(_BURSTS):
        bursts.append(replayed(1))
        time.sleep(_REST)
    burst, long = float(np.median(bursts[1:])), 0.0
    for length in (sustained / 2, sustained) if sustained else ():  # the first half brings the clock to where it stays
        long = replayed(max(1, int(length / burst / count)))
    return burst, long
