"""Measurements of ceilings by the kernels of ``stream`` and ``peak``: throughput of memory, arithmetic and local memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from portatile import ceilings, workloads
from portatile.ceilings import STREAMS, Measured, Unit
from portatile.device.base import Device
from portatile.errors import DeviceError, PortatileError
from portatile.measure import runs, transfers
from portatile.measure.plausible import memory_limit, refuse_impossible, refuse_removed
from portatile.measure.runs import MeasurementLength, MeasurementOptions, PreparedRun
from portatile.measure.transfers import Copy
from portatile.records import Config, DeviceInfo, Problem, Value

_CHAINS = 1 << 15  # for each compute unit: on a GPU 2048 work-items with 16 chains each
_ROUNDS = {"cpu": 2048, "gpu": 8192}  # fewer rounds would be affected by launch overhead: 3 % of 2048 rounds
_CALLS = 256  # on a CPU, whose functions take as long as many multiply-adds
_GLANCE = MeasurementOptions(MeasurementLength(samples=3, seconds=0.0, burst=0.005))
_MATRIX_SHAPE = "16x8x8"  # shape of the kernel that measures float64 matrix units
_TRIES = 5  # how often two contradictory measurements are repeated, in case the machine was busy


@dataclass(frozen=True)
class Quantity:
    """A quantity of ``ceilings``, and the problem whose best time measures it. ``title`` is for people."""

    name: str
    title: str
    unit: Unit
    workload: str
    dtype: str
    options: Mapping[str, Value] = field(default_factory=dict)


def memory_quantities(info: DeviceInfo) -> tuple[Quantity, ...]:
    """BabelStream's kernels, in float64 if the device has it, as BabelStream runs them."""
    dtype = "float64" if info.fp64 else "float32"
    return tuple(Quantity(name, name, "B/s", "stream", dtype, {"operation": name}) for name in STREAMS)


def arithmetic_quantities(info: DeviceInfo) -> tuple[Quantity, ...]:
    """Multiply-adds of each precision and of matrix units, native functions, local memory."""
    quantities = [Quantity("fp32", "float32 multiply-add", "flop/s", "peak", "float32", {"quantity": "fma"})]
    if info.fp64:
        quantities.append(Quantity("fp64", "float64 multiply-add", "flop/s", "peak", "float64", {"quantity": "fma"}))
    if _MATRIX_SHAPE in info.can.matrix_shapes:
        quantities.append(Quantity("mma", "float64 products on matrix units", "flop/s", "peak", "float64", {"quantity": "product"}))
    for function in ("rsqrt", "cos", "sin", "exp2"):
        quantities.append(Quantity("special", f"native {function}", "op/s", "peak", "float32", {"quantity": function}))
    quantities.append(Quantity("local", "local memory", "B/s", "peak", "float32", {"quantity": "local"}))
    return tuple(quantities)


def problem(
    quantity: Quantity, info: DeviceInfo, nbytes: int | None = None, rounds: int | None = None, chains: int | None = None
) -> Problem:
    """The problem that measures a quantity: arrays of ``nbytes`` for streams, ``chains`` of ``rounds`` steps for arithmetic."""
    workload = workloads.get(quantity.workload)
    if quantity.workload == "stream":
        itemsize = 8 if quantity.dtype == "float64" else 4
        n = max((nbytes or ceilings.stream_bytes(info)) // itemsize, 1)
        return workload.problem({"n": n}, quantity.dtype, quantity.options)
    n = chains or max(info.compute_units, 1) * _CHAINS
    fewer = quantity.name == "special" and info.kind != "gpu"
    steps = rounds or (_CALLS if fewer else _ROUNDS["gpu" if info.kind == "gpu" else "cpu"])
    return workload.problem({"n": n, "rounds": steps}, quantity.dtype, quantity.options)


def measure(
    device: Device, quantity: Quantity, instance: Problem | None = None, way: MeasurementOptions | None = None, config: Config | None = None
) -> Measured:
    """Measure a quantity with ``config``, else with the one tuned for its problem, else with the best of a few; each is checked first.

    Arithmetic is also measured with twice as many rounds, which must take twice as long: otherwise the compiler has removed steps, and
    DeviceError is raised. DeviceError is also raised for rates that no such device reaches.
    """
    instance = instance or problem(quantity, device.info)
    choice = runs.known(instance, device)
    with runs.prepared(device, instance) as ready:
        if config is None and choice.reason != "tuned":
            choice = replace(choice, config=_best(ready, [choice.config, *contenders(instance, device.info)]))
        timed = ready.timed(choice.config if config is None else config, way)
    if quantity.workload == "peak":
        timed = _with_checked_scaling(device, quantity, timed, way)
    details = {"dtype": instance.dtype, **instance.options, **instance.sizes, **{f"config.{k}": v for k, v in timed.config.items()}}
    measured = Measured(quantity.name, quantity.unit, work(quantity, instance), timed.samples, {**details, "chosen": choice.reason})
    streams = quantity.workload == "stream"
    refuse_impossible(measured, device.info, memory_limit(device, lambda: _copied(device)) if streams else 0.0)
    return measured


def work(quantity: Quantity, problem: Problem) -> float:
    """The amount that a rate counts: bytes of arrays or of local memory, floating-point operations, or functions."""
    workload = workloads.get(problem.workload)
    if quantity.workload == "stream":
        return workload.traffic(problem)
    return workload.flops(problem) * (problem.itemsize if quantity.name == "local" else 1)


def contenders(problem: Problem, info: DeviceInfo) -> list[Config]:
    """Configurations that were fastest on some device: near the workload's default, and legal."""
    workload = workloads.get(problem.workload)
    default = dict(workload.default(problem, info))
    cpu = info.kind == "cpu"
    if problem.workload == "stream":
        spread: dict[str, Value] = {"VECTOR": 1, "WGS": 256, "PER_ITEM": 1, "ORDER": "group"}
        changes: list[dict[str, Value]] = [{"PER_ITEM": 4096}, spread] if cpu else [{"VECTOR": 2 * int(default["VECTOR"])}, {"WGS": 128}]
    elif problem.options["quantity"] == "product":
        changes = [{"ILP": 2}, {"ILP": 6}, {"WGS": 128, "ILP": 2}]
    elif cpu:
        shorter = min(int(default["UNROLL"]), 4)  # the text of 16 float32 would be longer than the space allows
        wide: dict[str, Value] = {"VECTOR": 2 * int(default["VECTOR"]), "UNROLL": shorter}
        changes = [wide, {"ILP": 12, "UNROLL": 4}, {"MAD": "fma"}]
    else:
        changes = [{"ILP": 4}, {"ILP": 16, "UNROLL": 16}, {"WGS": 128}]
    space = workload.space(problem, info)
    changed = ({**default, **change} for change in changes)
    return [config for config in (default, *changed) if space.violated(config) is None]


def _copied(device: Device) -> float:
    """Bytes per second, read and written, of one copy within the device."""
    return transfers.measure(device, Copy("dtod", "pinned", ceilings.stream_bytes(device.info)), rounds=1).rate


def _best(ready: PreparedRun, configs: Sequence[Config]) -> Config:
    """The fastest configuration by short runs; failures are skipped unless all fail."""
    times: dict[int, float] = {}
    failure: PortatileError | None = None
    for place, config in enumerate(configs):
        if config in configs[:place]:
            continue
        try:
            times[place] = ready.timed(config, _GLANCE).best
        except PortatileError as error:
            failure = error
    if not times and failure is not None:
        raise failure
    return configs[min(times, key=lambda place: times[place])]


def _with_checked_scaling(device: Device, quantity: Quantity, once: runs.Timed, way: MeasurementOptions | None) -> runs.Timed:
    """The timing, once it is certain that every round runs."""
    sizes = {**once.problem.sizes, "rounds": 2 * once.problem.sizes["rounds"]}
    double = workloads.get("peak").problem(sizes, once.problem.dtype, once.problem.options)
    twice = runs.timed(device, double, once.config, way)
    for left in reversed(range(_TRIES)):
        try:
            refuse_removed(f"{quantity.title} on {device.info.id}", once.best, twice.best)
            break
        except DeviceError:
            if not left:
                raise
        once, twice = (
            replace(known, samples=known.samples + runs.timed(device, known.problem, known.config, way).samples) for known in (once, twice)
        )
    return once
