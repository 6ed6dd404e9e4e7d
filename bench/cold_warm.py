"""How long each phase of a first call takes, with and without portatile's cache and the driver's.

    python bench/cold_warm.py --gemm 1024x1024x1024 --trsm 2048x128

Every run is a fresh process. Phases: import, platform (find the devices), context, build (kernel text to binary, or the
cache's), kernel (load the binary, take the kernels), transfer (allocate, upload), execution (first run) and again (second
run), read-back, keep (what the cache is given when nobody waits any more: PoCL compiles once more for that); "first result" is
their sum without the second run and keep. The driver's caches are PoCL's kernel cache, NVIDIA's
compute cache and pyopencl's; cold means switched off by their own environment variables, warm means filled by an earlier
process in a folder of this bench's own.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

from measure import Child, ChildError, clock, facts, parser, print_table, save, serve, slug, until_stopped

PHASES = ("import", "platform", "context", "build", "kernel", "transfer", "execution", "again", "read-back", "keep")
UNAWAITED = ("again", "keep")  # what stands between nobody and his first result
STATES = (("cold", "cold"), ("cold", "warm"), ("warm", "cold"), ("warm", "warm"))  # (portatile's cache, the driver's)
SEED = 20261120


class Stopwatch:
    """Wall seconds of each phase, in order."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._last = clock()[0]

    def lap(self, phase: str) -> None:
        """The time since the last lap belongs to ``phase``."""
        now = clock()[0]
        self.seconds[phase] = self.seconds.get(phase, 0.0) + now - self._last
        self._last = now

    def skip(self) -> None:
        """Discard the time since the last lap."""
        self._last = clock()[0]


def program_of(name: str, sizes: list[int], dtype: str) -> Any:
    """The workload and the problem of a program's name."""
    from portatile import workloads

    workload = workloads.get({"gemm": "gemm", "trsm": "triangular"}[name])
    return workload, workload.problem(dict(zip(workload.sizes, sizes, strict=True)), dtype)


def phases(selector: str, name: str, sizes: list[int], dtype: str) -> dict[str, Any]:
    """Run the program once in this process and time its phases. Imports are a phase, so they stand here."""
    watch = Stopwatch()
    import numpy as np

    from portatile import cache, execute, flat_plans, store
    from portatile import device as devices
    from portatile.runtime.one_device.deferred import Deferred
    from portatile.select import resolver

    watch.lap("import")
    device = devices.get(selector)
    watch.lap("platform")
    queue = device.default_queue()
    device.allocate(4).release()
    watch.lap("context")
    workload, problem = program_of(name, sizes, dtype)
    resolve = resolver(device.info, store.known_results())
    flat = flat_plans.flatten(resolve(problem), resolve)
    inputs = workload.usual_inputs(problem, np.random.default_rng(SEED))
    kept, later = cache.default(), Deferred(rest=3600)
    watch.skip()
    binaries = {source: later.build(source, device, kept) for source in flat_plans.sources(flat)}
    watch.lap("build")
    executable = execute.Executable(device, flat, lambda source: binaries[source])
    watch.lap("kernel")
    memory = {operand: device.allocate(array.nbytes) for operand, array in inputs.operands.items()}
    for operand, array in inputs.operands.items():
        queue.upload(memory[operand], array)
    queue.finish()
    watch.lap("transfer")
    executable.run(queue, memory, inputs.scalars)
    queue.finish()
    watch.lap("execution")
    executable.run(queue, memory, inputs.scalars)
    queue.finish()
    watch.lap("again")
    output = next(operand.name for operand in workload.operands if operand.role != "in")
    got = np.empty_like(inputs.operands[output])
    queue.download(got, memory[output])
    watch.lap("read-back")
    later.flush()
    watch.lap("keep")
    facts = {"launches": len(flat.steps), "programs": len(binaries), "compiled": sum("compile" in b.seconds for b in binaries.values())}
    return {"seconds": watch.seconds, **facts}


def environment(folder: Path, own: Path, driver: str) -> dict[str, str]:
    """The variables of a child: caches in folders of this bench, or off."""
    theirs = folder / driver  # PoCL without its cache empties the folder that it would be in
    for name in ("pocl", "cuda", "xdg"):
        (theirs / name).mkdir(parents=True, exist_ok=True)
    found = {"PORTATILE_CACHE_DIR": str(own), "XDG_CACHE_HOME": str(theirs / "xdg")}
    found |= {"POCL_CACHE_DIR": str(theirs / "pocl"), "CUDA_CACHE_PATH": str(theirs / "cuda")}
    if driver == "cold":
        from portatile.device import COLD_COMPILER

        found |= COLD_COMPILER
    return found


def first_result(sample: dict[str, float]) -> float:
    """Seconds from before the first import to the first result in the host's memory."""
    return sum(seconds for phase, seconds in sample.items() if phase not in UNAWAITED)


def one(env: dict[str, str], task: dict[str, Any]) -> dict[str, Any]:
    """Time one fresh process."""
    child = Child(Path(__file__), ["--child"], env)
    try:
        return child.ask(do="phases", **task)
    finally:
        child.close()


def measure(task: dict[str, Any], repeat: int) -> list[dict[str, Any]]:
    """All states of one program on one device, interleaved."""
    rows = [{"own": own, "driver": driver, "samples": []} for own, driver in STATES]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for _ in range(2):  # fills portatile's cache and the driver's, then the driver's for binaries from portatile's
            one(environment(folder, folder / "own", "warm"), task)
        for round_ in range(repeat):
            for row in rows:
                own = folder / ("own" if row["own"] == "warm" else f"own-{round_}-{row['driver']}")
                answer = one(environment(folder, own, row["driver"]), task)
                row["samples"].append(answer.pop("seconds"))
                row |= answer
    for row in rows:
        row["median"] = {phase: median(sample[phase] for sample in row["samples"]) for phase in PHASES}
        row["first_result"] = median(first_result(sample) for sample in row["samples"])
    return rows


def parse() -> argparse.Namespace:
    commands = parser(__doc__)
    commands.add_argument("--gemm", default="1024x1024x1024", help="m x n x k; empty: none")
    commands.add_argument("--trsm", default="2048x128", help="m x n, the right-hand sides; empty: none")
    commands.add_argument("--dtype", default="float32")
    commands.add_argument("--repeat", type=int, default=3, help="fresh processes for each state")
    commands.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    return commands.parse_args()


def main() -> None:
    options = parse()
    if options.child:
        serve({"phases": phases})
        return
    from dataclasses import asdict

    from portatile import device as devices

    chosen = [devices.get(selector) for selector in options.device] or devices.devices()
    document: dict[str, Any] = {"bench": "cold_warm", **facts(options.commit), "programs": []}
    programs = [(device, name, text) for device in chosen for name, text in (("gemm", options.gemm), ("trsm", options.trsm)) if text]
    with until_stopped():
        for device, name, text in programs:
            task = {"selector": device.info.id, "name": name, "sizes": [int(x) for x in text.split("x")], "dtype": options.dtype}
            print(f"\n{name} {text} {options.dtype} on {device.info.name} ({device.info.id}), milliseconds")
            try:
                rows = measure(task, options.repeat)
            except ChildError as error:
                print(f"  {error}", file=sys.stderr)
                document["programs"].append({**task, "device": asdict(device.info), "missing": str(error)})
                continue
            document["programs"].append({**task, "device": asdict(device.info), "rows": rows})
            figures = [[*(r["median"][phase] for phase in PHASES), r["first_result"]] for r in rows]
            cells = [
                [f"cache {r['own']}, driver {r['driver']}", *(f"{1e3 * seconds:.1f}" for seconds in line)]
                for r, line in zip(rows, figures, strict=True)
            ]
            print_table(["", *PHASES, "first result"], cells)
    name = f"cold_warm-{slug(chosen[0].info.name)}"
    print(f"\nwritten to {save(name, document, options.out)}")


if __name__ == "__main__":
    main()
