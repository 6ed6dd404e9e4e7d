"""The CUDA form of every workload, run without a GPU: compiled to PTX, interpreted thread by thread, compared with the reference."""

from __future__ import annotations

import math
import secrets
import sys
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest

from portatile import program, verify, workloads
from portatile.device import cuda_compiler
from portatile.execute import flatten
from portatile.records import Arg, Config, DeviceInfo, Entry, Launch, Plan, Problem, Source
from portatile.workload import Inputs, Workload

sys.path.insert(0, str(Path(__file__).parents[1]))
from ptx_machine import Machine, UnsupportedInstructionError
from unit.test_workload_contract import DEVICES

pytestmark = pytest.mark.skipif(cuda_compiler.available() is not None, reason=str(cuda_compiler.available()))

GPU: DeviceInfo = DEVICES["gpu"]
MOST = 256  # work-items of a whole plan: more takes the interpreter too long


@lru_cache(maxsize=64)
def compiled(source: Source) -> tuple[str, tuple[Entry, ...]]:
    binary = program.build(source, cuda_compiler.CudaTarget("sm_90", "ptx"), None)
    return binary.data.rstrip(b"\0").decode(), binary.entries


def flat(workload: Workload, problem: Problem, config: Config) -> Plan:
    """The plan with its Calls resolved by defaults."""

    def resolve(problem: Problem) -> Plan:
        callee = workloads.get(problem.workload)
        return callee.plan(problem, callee.default(problem, GPU), GPU)

    return flatten(workload.plan(problem, config, GPU), resolve)


def cost(plan: Plan) -> float:
    """Work-items of a plan; infinite where there are none, or an image, which the interpreter does not sample."""
    launches = [step for step in plan.steps if isinstance(step, Launch)]
    if not launches or any(arg.kind == "image" for launch in launches for arg in launch.args):
        return math.inf
    return sum(math.prod(launch.global_size) for launch in launches)


def interpret(plan: Plan, inputs: Inputs) -> dict[str, bytes]:
    """The memory of every operand and temporary after the plan, canaries included."""
    memory = {name: verify.guarded(array).tobytes() for name, array in inputs.operands.items()}
    memory |= {t.name: verify.guarded(np.full(t.nbytes, verify.POISON_BYTE, np.uint8)).tobytes() for t in plan.temporaries}
    for step in plan.steps:
        assert isinstance(step, Launch)
        text, entries = compiled(step.source)
        machine = Machine(text)
        names = [arg.name for arg in step.args if arg.kind == "buffer"]
        addresses = {name: machine.allocate(memory[name]) for name in dict.fromkeys(names)}
        shared = 0
        raw = []
        for arg in step.args:
            if arg.kind == "local":
                raw.append(shared.to_bytes(4, "little"))
                shared += -(-int(arg.value or 0) // 128) * 128
            else:
                raw.append(addresses[arg.name].to_bytes(8, "little") if arg.kind == "buffer" else scalar(arg, inputs))
        symbol = next(entry.symbol for entry in entries if entry.name == step.kernel)
        grid = [n // local for n, local in zip(step.global_size, step.local_size, strict=True)]
        machine.launch(symbol, grid, step.local_size, raw, shared)
        memory |= {name: machine.read(address, len(memory[name])) for name, address in addresses.items()}
    return memory


def scalar(arg: Arg, inputs: Inputs) -> bytes:
    value = inputs.scalars[arg.name] if arg.value is None else arg.value
    return np.dtype(arg.dtype).type(value).tobytes()


def compare(workload: Workload, problem: Problem, config: Config) -> None:
    """Fail unless the interpreted plan agrees with the reference and leaves all canaries alive; skip what cannot be interpreted."""
    inputs = workload.inputs(problem, np.random.default_rng(417))
    try:
        after = interpret(flat(workload, problem, config), inputs)
    except UnsupportedInstructionError as missing:
        pytest.skip(f"the interpreter does not know {missing}")
    for operand, expected in workload.reference(problem, inputs).items():
        array = inputs.operands[operand]
        verdict = verify.compare(
            np.frombuffer(after[operand][: array.nbytes], array.dtype), expected, workload.bound(problem, config), operand
        )
        assert verdict.ok, f"{verdict.message}\n{config}\n{problem}"
    for memory, raw in after.items():
        verdict = verify.guard_verdict(memory, np.frombuffer(raw[-verify.GUARD_BYTES :], np.uint8))
        assert verdict.ok, verdict.message


@pytest.mark.parametrize("name", workloads.names())
def test_the_default_is_right(name: str) -> None:
    """On the largest awkward problem that is few work-items."""
    workload = workloads.get(name)
    problems = workload.awkward(workload.problem(dict.fromkeys(workload.sizes, 64)))
    feasible = [p for p in problems if cost(flat(workload, p, workload.default(p, GPU))) <= MOST]
    if not feasible:
        pytest.skip("every awkward problem is too large to be interpreted, or needs images")
    problem = max(feasible, key=workload.flops)
    compare(workload, problem, workload.default(problem, GPU))


@pytest.mark.parametrize("name", workloads.names())
def test_the_cheapest_of_many_is_right(name: str) -> None:
    """Of random configurations with random options in double precision, the one with the fewest work-items."""
    workload = workloads.get(name)
    seed = secrets.randbelow(2**32)
    print(f"seed {seed}")
    rng = np.random.default_rng(seed)
    options = {option: values[int(rng.integers(len(values)))] for option, values in workload.options.items()}
    problems = workload.awkward(workload.problem(dict.fromkeys(workload.sizes, 64), workload.dtypes[-1], options))
    problems = [p for p in problems if 8 < workload.flops(p) <= 20_000]
    spaces = [workload.space(p, GPU) for p in problems]
    drawn = [(p, space.sample(rng)) for p, space in zip(problems, spaces, strict=True) for _ in range(20)]
    priced = [(cost(flat(workload, *case)), n) for n, case in enumerate(drawn)]
    cheapest, n = min(priced, default=(math.inf, 0))
    if cheapest > MOST:
        pytest.skip("no configuration is few enough work-items")
    compare(workload, *drawn[n])
