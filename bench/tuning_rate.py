"""Trials per minute, compared with Kernel Tuner on the same kernel text, configurations and device.

    python bench/tuning_rate.py --device opencl:0:0 --size 512 --repeats 3
    python bench/tuning_rate.py --device opencl:0:0 --device cuda:0 --size 1024

A matrix product in local-memory tiles, 96 configurations, all of them tried. Every run is a process of its own with empty caches; its
time is wall time from the start of the process to the end of tuning. Both compare every variant's whole result with NumPy's. Kernel
Tuner runs through its OpenCL back end, on CUDA through the one for CuPy, with its default of 7 runs a variant; portatile as
`portatile tune` does, but without turning anything away, so that the trials are the same. ``--serial``: also with the timing worker
compiling, as Kernel Tuner does.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from statistics import median
from typing import Any

from measure import ChildError, afresh, facts, parser, print_table, save, slug, until_stopped, version

TEXT = """
kernel __attribute__((reqd_work_group_size(BX, BY, 1)))
void product(global const float *a, global const float *b, global float *c, int n) {
    local float left[BY * WY][KB], right[KB][BX * WX];
    int x = get_local_id(0), y = get_local_id(1), row = get_group_id(1) * BY * WY, column = get_group_id(0) * BX * WX;
    float sum[WY][WX];
    for (int i = 0; i < WY; i++) for (int j = 0; j < WX; j++) sum[i][j] = 0;
    for (int k = 0; k < n; k += KB) {
        for (int i = y * BX + x; i < BY * WY * KB; i += BX * BY) left[i / KB][i % KB] = a[(row + i / KB) * n + k + i % KB];
        for (int i = y * BX + x; i < KB * BX * WX; i += BX * BY)
            right[i / (BX * WX)][i % (BX * WX)] = b[(k + i / (BX * WX)) * n + column + i % (BX * WX)];
        barrier(CLK_LOCAL_MEM_FENCE);
        #pragma unroll
        for (int q = 0; q < KB; q++)
            for (int i = 0; i < WY; i++)
                for (int j = 0; j < WX; j++) sum[i][j] += left[y + i * BY][q] * right[q][x + j * BX];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    for (int i = 0; i < WY; i++) for (int j = 0; j < WX; j++) c[(row + y + i * BY) * n + column + x + j * BX] = sum[i][j];
}
"""
HINT = "__attribute__((reqd_work_group_size(BX, BY, 1)))"
AS_CUDA = """
#define __kernel extern "C" __global__
#define local __shared__
#define barrier(fence) __syncthreads()
#define get_local_id(axis) (axis ? threadIdx.y : threadIdx.x)
#define get_group_id(axis) (axis ? blockIdx.y : blockIdx.x)
"""
PARAMETERS = {"BX": [8, 16, 32], "BY": [4, 8], "WX": [1, 2, 4, 8], "WY": [1, 4], "KB": [8, 16]}
TOLERANCE = 1e-3


def portatile_run(task: dict[str, Any], data: tuple[Any, ...]) -> dict[str, Any]:
    """All configurations in portatile."""
    import portatile
    from portatile.store import ResultStore
    from portatile.trials import Budget
    from portatile.tuning.search import tuner

    a, b, c, n, expected = data
    kernel = portatile.Kernel(
        TEXT,
        "product",
        (a, b, c, n),
        PARAMETERS,
        local_size=("BX", "BY"),
        global_size=("n / WX", "n / WY"),
        reference=lambda a, b: expected,
        atol=TOLERANCE,
        roles={"c": "out"},
        flops=2 * n**3,
    )
    request = tuner.TuningRequest(
        kernel.problem(), task["device"], Budget(), "exhaustive", workload=kernel, model=False, jobs=task["jobs"], warm=0
    )
    with ResultStore.default() as store:
        result = tuner.tune(request, store)
    return {
        "trials": len(result.trials),
        "valid": sum(trial.status == "ok" for trial in result.trials),
        "best": result.best.median,
        "config": dict(result.best.config),
        "phases": {phase: sum(t.seconds.get(phase, 0.0) for t in result.trials) for phase in ("compile", "launch", "check", "run")},
        "name": result.device.name,
    }


def kernel_tuner_run(task: dict[str, Any], data: tuple[Any, ...]) -> dict[str, Any]:
    """All configurations in Kernel Tuner."""
    import numpy as np
    from kernel_tuner import tune_kernel

    a, b, c, n, expected = data
    backend, *_, number = task["device"].split(":")
    text = TEXT.replace("\nkernel ", "\n__kernel ")
    text = text if backend == "opencl" else AS_CUDA + text.replace(HINT, "").replace("global ", "")
    place = {"lang": "OpenCL", **_place(task["device"])} if backend == "opencl" else {"lang": "CUPY", "device": int(number)}
    if backend == "cuda":
        _shorten_uuid()
    answer = [None, None, expected, None]
    results, env = tune_kernel(
        "product",
        text,
        (n, n),
        [a, b, c, np.int32(n)],
        PARAMETERS,
        grid_div_x=["BX * WX"],
        grid_div_y=["BY * WY"],
        block_size_names=["BX", "BY"],
        answer=answer,
        atol=TOLERANCE,
        **place,
        quiet=True,
    )
    valid = [row for row in results if isinstance(row["time"], float)]
    best = min(valid, key=lambda row: row["time"])
    phases = {name: sum(row.get(f"{name}_time", 0.0) for row in results) / 1e3 for name in ("compile", "verification", "benchmark")}
    config = {name: best[name] for name in PARAMETERS}
    return {
        "trials": len(results),
        "valid": len(valid),
        "best": best["time"] / 1e3,
        "config": config,
        "phases": phases,
        "name": env["device_name"],
    }


def _place(selector: str) -> dict[str, int]:
    """Platform and device in the order of the OpenCL loader, which is not that of ``portatile devices``."""
    import pyopencl

    from portatile import device

    info = device.get(selector).info
    for platform, found in enumerate(pyopencl.get_platforms()):
        for number, one in enumerate(found.get_devices()):
            if (found.name, one.name) == (info.platform, info.name):
                return {"platform": platform, "device": number}
    raise LookupError(f"the OpenCL loader has no {info.name} of {info.platform}")


def _shorten_uuid() -> None:
    """Kernel Tuner 1.5 takes the first 16 bytes of a device's number for all of it; CuPy 14 gives more."""
    from cupy.cuda import runtime

    ask = runtime.getDeviceProperties
    runtime.getDeviceProperties = lambda device: {**ask(device), "uuid": ask(device)["uuid"][:16]}


def child(task: dict[str, Any]) -> None:
    """One tuning run; prints what came of it."""
    import numpy as np

    if task["third"]:
        PARAMETERS.update(BX=[8, 16], WX=[2, 4])
    n = task["size"]
    rng = np.random.default_rng(0)
    a, b = (rng.random((n, n), dtype=np.float32) - 0.5 for _ in range(2))
    expected = (a.astype(np.float64) @ b.astype(np.float64)).astype(np.float32)
    data = a, b, np.zeros((n, n), np.float32), n, expected
    found = (portatile_run if task["tuner"] == "portatile" else kernel_tuner_run)(task, data)
    found["seconds"] = time.monotonic() - float(os.environ["BENCH_STARTED"])
    print("\n" + json.dumps(found))


def measured(task: dict[str, Any]) -> dict[str, Any]:
    """A child's answer, or why there is none."""
    with tempfile.TemporaryDirectory(prefix="tuning-rate-") as folder:
        try:
            return afresh(__file__, task, folder)
        except ChildError as error:
            return {"error": str(error)}


def parse() -> argparse.Namespace:
    commands = parser(__doc__, "opencl:0:0")
    commands.add_argument("--size", type=int, default=512, help="rows and columns; a multiple of 256")
    commands.add_argument("--third", action="store_true", help="only 32 of the configurations")
    commands.add_argument("--serial", action="store_true", help="portatile also without compile workers")
    commands.add_argument("--repeats", type=int, default=3)
    commands.add_argument("--child", help=argparse.SUPPRESS)
    return commands.parse_args()


def main() -> None:
    """All participants by turns, the table, the file."""
    options = parse()
    if options.child:
        child(json.loads(options.child))
        return
    tasks: dict[str, dict[str, Any]] = {}
    for device in options.device or ["opencl:0:0"]:
        tasks[f"portatile {device}"] = {"tuner": "portatile", "device": device, "jobs": None}
        if options.serial:
            tasks[f"portatile {device}, 0 compile workers"] = {"tuner": "portatile", "device": device, "jobs": 0}
        if version("kernel_tuner"):
            tasks[f"Kernel Tuner {device}"] = {"tuner": "kernel_tuner", "device": device}
    if not version("kernel_tuner"):
        print("Kernel Tuner is not installed: pip install kernel_tuner")
    runs: dict[str, list[dict[str, Any]]] = {name: [] for name in tasks}
    with until_stopped():
        for _ in range(options.repeats):
            for name, task in tasks.items():
                runs[name].append(measured({**task, "size": options.size, "third": options.third}))
    rows = []
    for name, found in ((name, found) for name, found in runs.items() if found):
        good = [run for run in found if "error" not in run]
        if not good:
            print(f"{name}: {found[0]['error']}")
            continue
        rate = median(60 * run["trials"] / run["seconds"] for run in good)
        phases = ", ".join(f"{phase} {median(run['phases'][phase] for run in good):.1f}" for phase in good[0]["phases"])
        cells = [str(good[0]["trials"]), str(good[0]["valid"]), f"{median(run['seconds'] for run in good):.1f}", f"{rate:.0f}"]
        rows.append([name, *cells, f"{2e-9 * options.size**3 / median(run['best'] for run in good):.1f}", phases])
    print_table(["tuner", "trials", "valid", "seconds", "trials/min", "best Gflop/s", "seconds by phase, all workers"], rows)
    document = {
        "bench": "tuning_rate",
        **facts(options.commit),
        "kernel_tuner": version("kernel_tuner"),
        "size": options.size,
        "runs": runs,
    }
    device = next((run["name"] for found in runs.values() for run in found if "name" in run), "unknown")
    name = f"tuning_rate-{slug(device)}"
    print(f"\nwritten to {save(name, document, options.out)}")


if __name__ == "__main__":
    main()
