"""One table of GEMM: tuned and default configurations, tutorial kernels and common libraries, in turns in one run.

    python bench/gemm.py --sizes 512,1024,1000x999x1001,64x128x128x128 --tune 60s

Every participant lives in a process of its own, is checked against float64 before it is timed, and has its turn in every
round, so that clocks, heat and neighbours are the same for all. A GPU rests before each burst, which would else run at whatever
clock the participant before it left; what is sustained shows the limit of power. A CPU rests because OpenBLAS's threads wait
busily for some 30 ms after a call, and would take a core from whoever comes next. Peer of a CPU device is NumPy's BLAS, of a GPU
cuBLAS through PyTorch. A share is of the multiply-adds (matrix units, where they are faster) that the device was measured to do at the
start of the run. A row keeps all samples; the file in bench/results names device, driver, versions and commit.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import time
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import portatile
from measure import Child, ChildError, clock, facts, parser, print_table, save, serve, slug, spread, until_stopped
from peers import PEERS, Peer, check, inputs_of, problem_of
from portatile import cache, execute, flat_plans, program, store, workloads
from portatile import device as devices
from portatile.ceilings import Measured
from portatile.device.base import Device, Memory, Queue
from portatile.errors import DeviceError
from portatile.measure import peaks, runs
from portatile.measure.runs import MeasurementLength, MeasurementOptions
from portatile.records import Config, Plan, Problem
from portatile.select import choose
from portatile.workload import Inputs

_COURSE = 2**30  # multiply-adds up to which the course kernels run on a CPU, where more would take minutes
_CEILINGS = {"float32": ("fp32",), "float64": ("fp64", "mma")}  # of which the faster counts
_BURSTS = 9
BURST_SECONDS = {"cpu": 0.2, "gpu": 0.02, "accelerator": 0.02}
REST_SECONDS = {"cpu": 0.1, "gpu": 0.08, "accelerator": 0.08}


class Portatile:
    """Child: portatile's own participants on one device, operands resident in its memory."""

    def __init__(self, selector: str) -> None:
        self.device: Device = devices.get(selector)
        self.queue: Queue = self.device.default_queue()
        self.cache = cache.default()
        self.memory: dict[str, Memory] = {}
        self.ready: dict[str, execute.Executable] = {}

    def ceilings(self, dtypes: list[str], pinned: bool) -> dict[str, Any]:
        """The rates of multiply-adds that `portatile bench peak` measures, in flop/s; with ``pinned`` by CPU time, as in the rows. A
        rejected measurement is left out and reported.
        """
        rates: dict[str, Any] = {}
        names = {name for dtype in dtypes for name in _CEILINGS.get(dtype, ())}
        for quantity in peaks.arithmetic_quantities(self.device.info):
            if quantity.name in names:
                try:
                    measured = peaks.measure(self.device, quantity, way=MeasurementOptions(MeasurementLength(samples=5, seconds=0.1)))
                    rates[quantity.name] = self._by_cpu_time(quantity, measured) if pinned else measured.rate
                except DeviceError as error:
                    print(f"no ceiling: {error}", file=sys.stderr)
        return rates

    def prepare(self, sizes: dict[str, int], dtype: str, trans: str, rows: str) -> dict[str, Any]:
        """Build and check every participant, or with ``rows`` "tuned" only that one; answers with their descriptions, or why they are
        missing."""
        self.release()
        problem = problem_of(sizes, dtype, trans)
        inputs = inputs_of(problem)
        for name, array in inputs.operands.items():
            self.memory[name] = self.device.allocate(array.nbytes)
            self.queue.upload(self.memory[name], array)
        gemm = workloads.get(problem.workload)
        chosen = choose(gemm, problem, self.device.info, store.known_results()(problem.workload))
        entries = [self._entry("tuned", problem, chosen.config, chosen.explanation, inputs)]
        if rows == "all":
            entries.append(self._entry("default", problem, gemm.default(problem, self.device.info), "", inputs))
        long = self.device.info.kind == "cpu" and problem.sizes["m"] * problem.sizes["n"] * problem.sizes["k"] > _COURSE
        if rows == "all" and trans == "NN" and not long and problem.workload == "gemm":
            matmul = workloads.get("matmul")
            plain = matmul.problem(sizes, dtype)
            base = {**matmul.default(plain, self.device.info), **sys.modules[type(matmul).__module__].BASE}
            for name, config in (("course local", base), ("course global", {**base, "ALGORITHM": "global"})):
                entries.append(self._entry(name, plain, config, "", inputs, problem))
        return {"entries": entries, "device": asdict(self.device.info)}

    def run(self, name: str, count: int) -> dict[str, Any]:
        """Wall and CPU seconds of ``count`` runs in a row."""
        executable = self.ready[name]
        wall, cpu = clock()
        for _ in range(count):
            executable.run(self.queue, self.memory, {"alpha": 1.0, "beta": 0.0})
        self.queue.finish()
        end_wall, end_cpu = clock()
        return {"wall": end_wall - wall, "cpu": end_cpu - cpu}

    def release(self) -> dict[str, Any]:
        """Free the operands."""
        for resource in (*self.ready.values(), *self.memory.values()):
            resource.release()
        self.ready.clear()
        self.memory.clear()
        return {}

    def _by_cpu_time(self, quantity: peaks.Quantity, measured: Measured) -> float:
        """The fastest of some bursts of the kernel that was measured, by CPU time."""
        problem = peaks.problem(quantity, self.device.info)
        config = {name.removeprefix("config."): value for name, value in measured.details.items() if name.startswith("config.")}
        count = max(1, round(BURST_SECONDS["cpu"] / 4 * measured.rate / measured.work))
        rates = []
        with runs.prepared(self.device, problem) as ready, runs.loaded(self.device, problem, config) as executable:
            for _ in range(_BURSTS + 1):  # the first warms up
                _, start = clock()
                for _ in range(count):
                    executable.run(ready.queue, ready.memory, ready.inputs.scalars)
                ready.queue.finish()
                rates.append(measured.work * count / max(clock()[1] - start, 1e-9))
        return max(rates[1:])

    def _entry(
        self, name: str, problem: Problem, config: Config, note: str, inputs: Inputs, checked_as: Problem | None = None
    ) -> dict[str, Any]:
        workload = workloads.get(problem.workload)
        facts = {"name": name, "config": dict(config), "note": note, "version": portatile.__version__}
        try:
            plan: Plan = workload.plan(problem, config, self.device.info)
            flat = flat_plans.flatten(plan, lambda call: workloads.get(call.workload).plan(call, config, self.device.info))
            executable = execute.Executable(self.device, flat, lambda source: program.build(source, self.device.target, self.cache))
            self.queue.upload(self.memory["c"], inputs.operands["c"])
            self.ready[name] = executable
            self.run(name, 1)
            result = np.empty_like(inputs.operands["c"])
            self.queue.download(result, self.memory["c"])
            return {**facts, "error": check(checked_as or problem, inputs, result, workload.bound(problem, config))}
        except Exception as error:
            self.ready.pop(name, None)
            return {**facts, "missing": f"{type(error).__name__}: {error}".splitlines()[0]}


def child_main(kind: str, selector: str, pin: int | None) -> None:
    """The life of a participant."""
    if pin is not None:
        os.sched_setaffinity(0, {pin})
    host: Portatile | Peer
    try:
        host = Portatile(selector) if kind == "portatile" else PEERS[kind](selector)
    except Exception as error:
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        serve({"hello": lambda: {"missing": reason}})
        return
    own = {"ceilings": host.ceilings} if isinstance(host, Portatile) else {}
    serve({"hello": dict, "prepare": host.prepare, "run": host.run, "release": host.release, **own})


def participants(selectors: list[str], infos: dict[str, dict[str, Any]], pin: int | None) -> dict[str, Child]:
    """The child processes; those that cannot take part are left out, with their reason."""
    named = [("portatile", selector) for selector in selectors]
    kinds = {infos[selector]["kind"] for selector in selectors}
    named += [("numpy", "")] if "cpu" in kinds else []
    named += [("torch", "")] if any(infos[s]["vendor"].lower().startswith("nvidia") for s in selectors) else []
    named += [("clblast", selector) for selector in selectors if infos[selector]["backend"] == "opencl"]
    env = {"OPENBLAS_NUM_THREADS": "1", "POCL_MAX_PTHREAD_COUNT": "1"} if pin is not None else {}
    opened = {}
    for kind, selector in named:
        args = ["--child", kind, "--device", selector] + ([] if pin is None else ["--pin", str(pin)])
        child = Child(Path(__file__), args, env)
        answer = child.ask(do="hello")
        if "missing" in answer:
            print(f"without {kind} {selector}: {answer['missing']}", file=sys.stderr)
            child.close()
        else:
            opened[f"{kind} {selector}".strip()] = child
    return opened


def measured_ceilings(children: dict[str, Child], dtypes: list[str], pinned: bool) -> dict[str, dict[str, float]]:
    """Rates in flop/s by device and quantity, one device after the other."""
    ceilings = {}
    for place, child in children.items():
        kind, _, selector = place.partition(" ")
        if kind == "portatile":
            try:
                ceilings[selector] = {name: float(rate) for name, rate in child.ask(do="ceilings", dtypes=dtypes, pinned=pinned).items()}
            except ChildError as error:
                print(f"no ceilings: {error}", file=sys.stderr)
                continue
            print(f"ceilings of {selector}: " + ", ".join(f"{name} {rate / 1e9:.0f} Gflop/s" for name, rate in ceilings[selector].items()))
    return ceilings


def ceiling(row: dict[str, Any], dtype: str, limits: dict[str, dict[str, float]], kinds: dict[str, str]) -> tuple[str, float] | None:
    """The ceiling of a row: the fastest multiply-adds of its device, or for a peer without a device those of the fastest device of its
    kind."""
    selector = row["place"].partition(" ")[2]
    places = [selector] if selector in limits else [place for place in limits if kinds[place] == row["kind"]]
    known = [(name, limits[place][name]) for place in places for name in _CEILINGS.get(dtype, ()) if name in limits[place]]
    return max(known, key=lambda item: item[1], default=None)


def measure(
    children: dict[str, Child], task: dict[str, Any], options: argparse.Namespace, infos: dict[str, dict[str, Any]]
) -> list[dict[str, Any]]:
    """All rows of one problem: bursts by turns, then on GPUs sustained runs by turns."""
    rows: list[dict[str, Any]] = []
    for place, child in children.items():
        try:
            entries = child.ask(do="prepare", **task, **({"rows": options.rows} if place.startswith("portatile") else {}))["entries"]
        except ChildError as error:
            print(f"  {error}", file=sys.stderr)
            continue
        for entry in entries:
            if "missing" in entry:
                print(f"  {place} {entry['name']}: {entry['missing']}", file=sys.stderr)
            else:
                rows.append({"place": place, **entry, "burst": [], "sustained": []})
    clock_name = "cpu" if options.pin is not None else "wall"

    def turn(row: dict[str, Any], seconds: float) -> float:
        count = max(1, round(seconds / row["guess"]))
        answer = children[row["place"]].ask(do="run", name=row["name"], count=count)
        return float(answer[clock_name]) / count

    for row in rows:
        selector = row["place"].partition(" ")[2]
        kind = infos[selector]["kind"] if selector else ("gpu" if row["place"] == "torch" else "cpu")
        row["kind"], row["guess"] = kind, 1.0
        row["guess"] = max(turn(row, 1.0), 1e-7)  # one run
        row["guess"] = max(turn(row, BURST_SECONDS[kind]), 1e-7)
    for round_ in range(options.rounds):
        for row in rows[round_ % len(rows) :] + rows[: round_ % len(rows)]:
            time.sleep(REST_SECONDS[row["kind"]])
            row["burst"].append(turn(row, BURST_SECONDS[row["kind"]]))
    if options.sustained > 0:
        for round_ in range(3):
            for row in rows[round_ % len(rows) :] + rows[: round_ % len(rows)]:
                if row["kind"] == "gpu":
                    row["sustained"].append(turn(row, options.sustained))
    for child in children.values():
        child.ask(do="release")
    for row in rows:
        del row["guess"]
    return rows


def report(rows: list[dict[str, Any]], task: dict[str, Any], limits: dict[str, dict[str, float]], kinds: dict[str, str]) -> None:
    """Print one problem's table and put medians, ratios and, where ``limits`` tell the device's ceiling, shares of it into its rows."""
    flops = 2.0 * math.prod(task["sizes"].values())
    peers = {kind: next((r for r in rows if r["name"] == name), None) for kind, name in (("cpu", "NumPy"), ("gpu", "cuBLAS"))}
    lines = []
    for row in rows:
        row["gflops"] = flops / median(row["burst"]) / 1e9
        row["gflops_sustained"] = flops / median(row["sustained"]) / 1e9 if row["sustained"] else None
    for row in sorted(rows, key=lambda r: -r["gflops"]):
        peer = peers.get(row["kind"])
        row["peer"] = peer["version"] if peer else None
        row["ratio"] = row["gflops"] / peer["gflops"] if peer else None
        sustained = row["gflops_sustained"]
        row["ratio_sustained"] = sustained / peer["gflops_sustained"] if peer and sustained else None
        bound = ceiling(row, task["dtype"], limits, kinds)
        if bound is not None:
            row["ceiling"], row["share"] = bound[0], 1e9 * row["gflops"] / bound[1]
        figures = (row["gflops"], sustained, row["ratio"], row["ratio_sustained"], spread(row["burst"]), row.get("share"))
        formats = ("{:.1f}", "{:.1f}", "{:.3f}", "{:.3f}", "{:.1%}", "{:.1%} of " + row.get("ceiling", ""))
        cells = ["" if x is None else f.format(x) for f, x in zip(formats, figures, strict=True)]
        lines.append([f"{row['name']} ({row['place']})", *cells])
    print(f"\n{' x '.join(map(str, task['sizes'].values()))} {task['dtype']} {task['trans']}")
    print_table(["", "Gflop/s", "sustained", "ratio", "sustained", "spread", "share"], lines)


def parse() -> argparse.Namespace:
    commands = parser(__doc__)
    commands.add_argument("--sizes", default="512,1024,2048", help="N, MxNxK or BATCHxMxNxK, separated by commas")
    commands.add_argument("--dtype", default="float32", help="separated by commas")
    commands.add_argument("--trans", default="NN", help="NN, NT, TN, TT, separated by commas; row-major operands")
    commands.add_argument("--tune", metavar="BUDGET", help="tune each problem on each device first, for example 60s")
    commands.add_argument("--rows", choices=("all", "tuned"), default="all", help="of portatile: only what it chooses, or the others too")
    commands.add_argument("--rounds", type=int, default=9, help="bursts of each participant")
    commands.add_argument("--sustained", type=float, default=0.25, help="seconds of a sustained run on a GPU; 0: none")
    commands.add_argument("--no-ceilings", action="store_true", help="measure no multiply-adds first, of which shares are: saves seconds")
    commands.add_argument("--pin", type=int, metavar="CORE", help="one core, one thread, CPU time instead of wall time: for noisy machines")
    commands.add_argument("--child", help=argparse.SUPPRESS)
    return commands.parse_args()


def main() -> None:
    options = parse()
    if options.child:
        child_main(options.child, options.device[0] if options.device else "", options.pin)
        return
    chosen = [devices.get(selector) for selector in options.device] or devices.devices()
    infos = {device.info.id: asdict(device.info) for device in chosen}
    tasks = []
    for text in options.sizes.split(","):
        parts = [int(part) for part in text.split("x")]
        sizes = dict(
            zip(("batch", "m", "n", "k")[-len(parts) :] if len(parts) > 1 else "mnk", parts * (1 if len(parts) > 1 else 3), strict=True)
        )
        for dtype in options.dtype.split(","):
            tasks += [{"sizes": sizes, "dtype": dtype, "trans": trans} for trans in options.trans.split(",")]
    if options.tune:
        tune_all(list(infos), tasks, options.tune)
    children = participants(list(infos), infos, options.pin)
    document: dict[str, Any] = {
        "bench": "gemm",
        **facts(options.commit),
        "devices": infos,
        "options": vars(options) | {"out": None},
        "problems": [],
    }
    try:
        with until_stopped():
            if not options.no_ceilings:
                document["ceilings"] = measured_ceilings(children, options.dtype.split(","), options.pin is not None)
            for task in tasks:
                rows = measure(children, task, options, infos)
                if rows:
                    report(rows, task, document.get("ceilings", {}), {name: info["kind"] for name, info in infos.items()})
                document["problems"].append({**task, "rows": rows})
    finally:
        for child in children.values():
            child.close()
    name = f"gemm-{slug(next(iter(infos.values()))['name'])}"
    print(f"\nwritten to {save(name, document, options.out)}")


def tune_all(selectors: list[str], tasks: list[dict[str, Any]], budget: str) -> None:
    """Spend ``budget`` on every problem on every device; results go to the user's store."""
    import portatile

    for selector in selectors:
        for task in tasks:
            options = {"trans_a": task["trans"][0], "trans_b": task["trans"][1]}
            print(f"tuning {task['sizes']} {task['dtype']} {task['trans']} on {selector} for {budget}", file=sys.stderr, flush=True)
            portatile.tune(
                "gemm_batched" if "batch" in task["sizes"] else "gemm",
                dtype=task["dtype"],
                device=selector,
                budget=budget,
                **task["sizes"],
                **options,
            )


if __name__ == "__main__":
    main()
