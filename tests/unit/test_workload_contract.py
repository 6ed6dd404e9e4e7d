"""What every workload must be, without a device: a checked problem, a legal default, plans of data, CUDA forms that assemble."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pytest

from portatile import verify, workloads
from portatile.device import ptx
from portatile.device.cuda import compiler as cuda_compiler
from portatile.dtypes import PRODUCTS
from portatile.errors import ArgumentError, PortatileError, UnknownNameError
from portatile.flat_plans import flatten, sources
from portatile.records import Binary, Call, Config, DeviceInfo, Launch, Plan, Problem, Source, Value, from_json, to_json
from portatile.workload import Workload
from support.devices import DEVICES, on_paper

NAMES = workloads.names()
SEED = 417  # of what is drawn where nothing runs; the device tests draw anew each time


def square(workload: Workload, size: int, dtype: str = "") -> Problem:
    sizes = dict.fromkeys(workload.sizes, size)
    if "batch" in sizes:
        sizes["batch"] = 3  # how many there are is no edge of anything
    return workload.problem(sizes, dtype or workload.dtypes[0])


def typical(workload: Workload) -> list[str]:
    """A type of each kind: plain ones, one that is converted, a complex one; tests on devices have all."""
    return [dtype for dtype in workload.dtypes if dtype in ("float32", "float64", "bfloat16", "complex64")]


def problems(workload: Workload) -> Iterator[Problem]:
    """The awkward problems of each type, and two that are as regular as can be."""
    for dtype in typical(workload):
        yield from workload.awkward(square(workload, 64, dtype))
        yield square(workload, 64, dtype)
        large = square(workload, 512, dtype)
        many = max(math.prod(shape) for shape in workload.shapes(large).values()) > 2**26  # more than a test should fill
        yield square(workload, 128, dtype) if many else large


def resolved(plan: Plan, info: DeviceInfo) -> Plan:
    """Calls replaced by what the callee does by default."""

    def default(problem: Problem) -> Plan:
        callee = workloads.get(problem.workload)
        return callee.plan(problem, callee.default(problem, info), info)

    return flatten(plan, default)


@pytest.mark.parametrize("name", NAMES)
def test_dtypes_may_be_numpys_own(name: str) -> None:
    """And no option depends on how they are written."""
    workload = workloads.get(name)
    sizes = square(workload, 16).sizes
    for dtype in set(workload.dtypes) & {"float32", "float64", "complex64", "complex128"}:
        for option, values in workload.options.items():
            for value in values:
                named = workload.problem(sizes, dtype, {option: value})
                assert workload.problem(sizes, getattr(np, dtype), {option: value}) == named
                assert workload.problem(sizes, np.dtype(dtype), {option: value}) == named  # type: ignore[arg-type]


@pytest.mark.parametrize("name", NAMES)
def test_cuts_divide_what_they_say(name: str) -> None:
    """Each piece has as many rows, columns or matrices as there are steps; every output is divided, none where sums are."""
    workload = workloads.get(name)
    roles = {operand.name: operand.role for operand in workload.operands}
    for problem, info in itertools.product(problems(workload), DEVICES.values()):
        shapes = workload.shapes(problem)
        for cut in workload.cuts(problem, workload.default(problem, info)):
            assert cut.period >= 1
            assert not cut.first or cut.first in workload.scalars
            written = {operand for operand, role in roles.items() if role != "in"}
            assert written.isdisjoint(cut.pieces) if cut.sums else written <= set(cut.pieces)
            assert not cut.sums or {roles[operand] for operand in written} == {"out"}
            for operand, how in cut.pieces.items():
                axis = {"matrices": 0, "rows": -2, "columns": -1}[how]
                assert shapes[operand][axis] == problem.sizes[cut.size] * cut.unit


@pytest.mark.parametrize("name", NAMES)
def test_it_explains_its_parameters(name: str) -> None:
    """Each in a sentence or more, and no parameter that there is not."""
    workload = workloads.get(name)
    for info in DEVICES.values():
        config = workload.default(square(workload, 64), info)
        meanings = {parameter: workload.explained(config).get(parameter, "") for parameter in config if parameter != "FORM"}
        assert {parameter for parameter, text in meanings.items() if not text} == set()
    if not name.startswith("gemm"):
        known = set(workload.space(square(workload, 64), info).parameters)
        assert set(workload.meanings) <= known


@pytest.mark.parametrize("name", NAMES)
def test_it_describes_itself(name: str) -> None:
    workload = workloads.get(name)
    assert workload.name == name
    assert len((type(workload).__doc__ or "").split()) > 10
    assert workload.sizes
    assert all(meaning for meaning in workload.sizes.values())
    assert {operand.role for operand in workload.operands} <= {"in", "out", "inout"}
    assert any(operand.role != "in" for operand in workload.operands)
    assert set(workload.dtypes) <= set(PRODUCTS)
    assert set(workload.shapes(square(workload, 64))) == {operand.name for operand in workload.operands}
    assert workload.awkward(square(workload, 64)), "no awkward problems: its variants would be verified on regular shapes only"


@dataclass(frozen=True)
class Planned:
    """A workload's problems on a device, each with its default configuration and plan."""

    workload: Workload
    info: DeviceInfo
    cases: tuple[tuple[Problem, Config, Plan], ...]


@pytest.fixture(scope="module", params=itertools.product(NAMES, DEVICES), ids="-".join)
def planned(request: pytest.FixtureRequest) -> Planned:
    """Made once for the tests below, which pytest runs one after another for each."""
    workload, info = workloads.get(request.param[0]), DEVICES[request.param[1]]
    configured = [(problem, workload.default(problem, info)) for problem in problems(workload)]
    return Planned(workload, info, tuple((problem, config, workload.plan(problem, config, info)) for problem, config in configured))


def test_the_default_is_legal(planned: Planned) -> None:
    for problem, config, _ in planned.cases:
        assert planned.workload.space(problem, planned.info).violated(config) is None, f"{config} for {problem}"


@pytest.mark.parametrize("kind", DEVICES)
@pytest.mark.parametrize("name", NAMES)
def test_the_default_keeps_to_small_devices(name: str, kind: str) -> None:
    """A quarter of the work-group and local memory, and no images: still a legal default."""
    info = replace(DEVICES[kind], max_work_group_size=256, max_work_item_sizes=(256, 256, 64), local_memory=32768, images=False, fp16=False)
    workload = workloads.get(name)
    for problem in problems(workload):
        config = workload.default(problem, info)
        assert workload.space(problem, info).violated(config) is None, f"{config} for {problem}"


def test_plans_are_data(planned: Planned) -> None:
    """Problem, configuration and plan survive a trip through JSON."""
    workload, info = planned.workload, planned.info
    for problem, config, plan in planned.cases:
        assert from_json(to_json(plan), Plan) == plan
        assert from_json(to_json(problem), Problem) == problem
        assert workload.plan(from_json(to_json(problem), Problem), from_json(to_json(config), dict), info) == plan  # type: ignore[type-var]


def test_plans_bind_what_there_is(planned: Planned) -> None:
    """Arguments name operands, temporaries and scalars that exist, in roles that agree; sizes are multiples of work-groups."""
    workload, info = planned.workload, planned.info
    roles = {operand.name: operand.role for operand in workload.operands}
    for _, _, plan in planned.cases:
        temporaries = {temporary.name for temporary in plan.temporaries}
        assert not temporaries & set(roles)
        assert all(temporary.nbytes > 0 for temporary in plan.temporaries)
        for step in plan.steps:
            if isinstance(step, Call):
                assert set(step.operands.values()) <= temporaries | set(roles)
                assert set(step.operands) == {operand.name for operand in workloads.get(step.problem.workload).operands}
                assert {value for value in step.scalars.values() if isinstance(value, str)} <= set(workload.scalars)
                continue
            assert step.kernel in step.source.text
            assert math.prod(step.local_size) <= info.max_work_group_size
            assert all(0 < local <= most for local, most in zip(step.local_size, info.max_work_item_sizes, strict=True))
            assert all(n > 0 and n % local == 0 for n, local in zip(step.global_size, step.local_size, strict=True))
            groups = [n // local for n, local in zip(step.global_size, step.local_size, strict=True)]
            assert info.backend != "cuda" or (groups[0] < 2**31 and max(groups[1:]) <= 65535), f"too many groups for CUDA: {groups}"
            for arg in step.args:
                if arg.kind in ("buffer", "image"):
                    assert arg.role == "temporary" if arg.name in temporaries else arg.name in roles, arg
                    assert roles.get(arg.name) != "in" or arg.role == "in", f"{arg.name} is an input, {step.kernel} takes it as {arg.role}"
                elif arg.kind == "scalar":
                    assert arg.dtype
                    assert arg.value is not None or arg.name in workload.scalars, arg
        writers = {arg.name for step in resolved(plan, info).steps if isinstance(step, Launch) for arg in step.args if arg.role != "in"}
        if plan.steps:
            assert {operand for operand, role in roles.items() if role != "in"} <= writers


@pytest.mark.parametrize("name", sorted(set(NAMES) - {"gemm_epilogue", "gemm_blocks"}))  # whose parameters are those of gemm
def test_every_parameter_changes_the_plan(name: str) -> None:
    """Each parameter has several legal values, and a legal plan changes with it: where another value is legal with all
    else equal, with that one; where it never moves alone, with any other value."""
    workload = workloads.get(name)
    rng = np.random.default_rng(SEED)
    values: dict[str, set[Value]] = {}
    alone: set[str] = set()
    fallback: dict[str, tuple[Problem, Config, DeviceInfo]] = {}
    draws = 80 if name == "gemm_batched" else 29  # few of its configurations stage operands apart
    sizes = (512, 66, 1152) if name == "gemm" else (512, 66)  # 18 x 18 tiles of 64 x 64 leave half a wave on 132 multiprocessors;
    # rows of 66 float32 are aligned to pairs alone
    asked = [(sizes[0], dtype) for dtype in workload.dtypes[:2]] + [(size, workload.dtypes[0]) for size in sizes[1:]]
    asked += [(1152, "float64")] if name == "gemm" else []  # more tiles than groups that stay
    cases = [square(workload, size, dtype) for size, dtype in asked]
    cases += [workload.problem(cases[0].sizes, "complex64", {"mirror": "C"})] if "mirror" in workload.options else []  # of Hermitian ones
    for info, problem in itertools.product(DEVICES.values(), cases):
        space = workload.space(problem, info)
        for config in (workload.default(problem, info), *space.scatter(rng, draws)):
            for parameter, value in config.items():
                values.setdefault(parameter, set()).add(value)
                fallback.setdefault(parameter, (problem, config, info))
            for parameter in sorted(set(config) - alone):
                others = ({**config, parameter: value} for value in space.parameters[parameter] if value != config[parameter])
                other = next((other for other in others if space.violated(other) is None), None)
                if other is not None:
                    different = workload.plan(problem, config, info) != workload.plan(problem, other, info)
                    assert different, f"{parameter} changes nothing: {config} and {other}"
                    values[parameter].add(other[parameter])
                    alone.add(parameter)
    single = sorted(parameter for parameter, found in values.items() if len(found) < 2)
    assert not single, f"{single}: only one value was found legal"
    for parameter in sorted(set(values) - alone):
        problem, config, info = fallback[parameter]
        other = {**config, parameter: next(value for value in values[parameter] if value != config[parameter])}
        try:
            changed = workload.plan(problem, other, info)
        except PortatileError:
            continue  # not even a plan: it certainly matters
        assert changed != workload.plan(problem, config, info), f"{parameter} changes nothing"


@pytest.mark.parametrize("name", NAMES)
def test_mistakes_are_told(name: str) -> None:
    workload = workloads.get(name)
    sizes = dict.fromkeys(workload.sizes, 64)
    first = next(iter(sizes))
    with pytest.raises(ArgumentError, match=first):
        workload.problem({size: value for size, value in sizes.items() if size != first})
    with pytest.raises(UnknownNameError, match="nonsense"):
        workload.problem({**sizes, "nonsense": 1})
    for size in (-1, 2.5, float("nan"), [3]):
        with pytest.raises(ArgumentError, match="whole number"):
            workload.problem({**sizes, first: size})  # type: ignore[dict-item]
    with pytest.raises(ArgumentError, match="int16"):
        workload.problem(sizes, "int16")
    with pytest.raises(UnknownNameError, match="nonsense"):
        workload.problem(sizes, workload.dtypes[0], {"nonsense": 1})
    with pytest.raises(UnknownNameError, match="nonsense"):
        workload.problem(sizes, workload.dtypes[0], layout={"nonsense": square(workload, 64).layout[workload.operands[0].name]})
    for option in workload.options:
        with pytest.raises(ArgumentError, match=option):
            workload.problem(sizes, workload.dtypes[0], {option: "nonsense"})


@pytest.mark.parametrize("name", NAMES)
def test_inputs_fill_the_layout_and_nothing_else(name: str) -> None:
    workload = workloads.get(name)
    for problem in problems(workload):
        inputs = workload.inputs(problem, np.random.default_rng(SEED))
        again = workload.inputs(problem, np.random.default_rng(SEED))
        shapes = workload.shapes(problem)
        assert set(inputs.operands) == set(shapes)
        assert set(inputs.scalars) == set(workload.scalars)
        for operand in workload.operands:
            memory = inputs.operands[operand.name]
            assert memory.ndim == 1
            assert memory.size >= problem.layout[operand.name].extent(shapes[operand.name])
            assert memory.tobytes() == again.operands[operand.name].tobytes(), "a seed does not repeat"
            if operand.role == "out":
                assert np.isnan(memory).all(), f"{operand.name} is written only, and its old content is not NaN"


@pytest.mark.parametrize("name", NAMES)
def test_references_cover_the_outputs(name: str) -> None:
    """Finite values and a finite bound for every output; a sampled reference agrees with the whole one."""
    workload = workloads.get(name)
    for problem in problems(workload):
        most = 2**15 if "batch" in problem.sizes else 2**20
        if math.prod(problem.sizes.values()) > most:  # more than adds anything to what smaller ones show
            continue
        inputs = workload.inputs(problem, np.random.default_rng(SEED))
        whole = workload.reference(problem, inputs)
        assert set(whole) == {operand.name for operand in workload.operands if operand.role != "in"}
        bound = workload.bound(problem, workload.default(problem, DEVICES["gpu"]))
        assert 0 < bound < 0.1, f"a bound of {bound} would pass anything"
        sampled = workload.reference(problem, inputs, np.random.default_rng(SEED))
        for operand, expected in whole.items():
            assert expected.indices is None
            assert expected.values.shape == expected.scale.shape == inputs.operands[operand].shape
            assert np.isfinite(expected.values[expected.scale > 0]).all()
            assert (expected.scale >= 0).all()
            part = sampled[operand]
            places = slice(None) if part.indices is None else part.indices
            wide = expected.values[places]
            assert verify.compare(part.values, type(part)(wide, expected.scale[places]), max(bound, 1e-9)).ok


@pytest.mark.parametrize("name", NAMES)
def test_costs_and_distances(name: str) -> None:
    workload = workloads.get(name)
    small, large = square(workload, 64), square(workload, 512)
    assert 0 <= workload.flops(small) < workload.flops(large)
    assert 0 < workload.traffic(small) < workload.traffic(large)
    assert workload.distance(small, small) == 0
    assert 0 < workload.distance(small, large) == workload.distance(large, small)
    if len(workload.dtypes) > 1:
        assert workload.distance(small, square(workload, 64, workload.dtypes[1])) == math.inf


@functools.cache  # a product is part of several workloads
def built(source: Source, architecture: str) -> tuple[Binary, str]:
    """The machine code and the PTX of a text."""
    target = cuda_compiler.CudaTarget(architecture)
    return target.compile_with_ptx(*target.lower(source))


@pytest.mark.drawn(1 / 8)
@pytest.mark.skipif(cuda_compiler.available() is not None, reason=f"no CUDA compiler: {cuda_compiler.available()}")
@pytest.mark.parametrize("architecture", ["sm_80", "sm_90"])
@pytest.mark.parametrize("name", NAMES)
def test_cuda_forms_assemble(name: str, architecture: str) -> None:
    """The default configuration as machine code: registers within the limit, nothing spilled; and as PTX."""
    workload, info = workloads.get(name), on_paper("gpu", architecture)
    for dtype in typical(workload):
        problem = square(workload, 512, dtype)
        plan = resolved(workload.plan(problem, workload.default(problem, info), info), info)
        kernels = {
            source: {step.kernel for step in plan.steps if isinstance(step, Launch) and step.source == source} for source in sources(plan)
        }
        for source, used in kernels.items():
            cubin, text = built(source, architecture)
            assert cubin.kind == "cubin"
            assert cubin.data[:4] == b"\x7fELF"
            for kernel in used:
                entry = cubin.entry(kernel)
                assert len(entry.parameters) == next(
                    len(step.args) for step in plan.steps if step.kernel == kernel and step.source == source
                )
                resources = cubin.resources[kernel]
                assert 0 < resources.registers <= 255
                assert (resources.spill_stores, resources.spill_loads) == (0, 0), f"{kernel} spills: {resources}"
            counts = ptx.functions(text)
            assert all(counts[cubin.entry(kernel).symbol].total > 0 for kernel in used)


def test_options_may_be_numpys_scalars() -> None:
    """A problem holds plain values, as what is stored of it."""
    spelled = {"side": np.str_("R"), "uplo": np.str_("U")}
    for name, sizes in (("triangular", {"m": 4, "n": 5}), ("trmm_batched", {"batch": 2, "m": np.int64(4), "n": 5})):
        workload = workloads.get(name)
        assert workload.problem(sizes, options=spelled).key == workload.problem(sizes, options={"side": "R", "uplo": "U"}).key
    reflected = workloads.get("convolution2d")
    known = {name: values[-1] for name, values in reflected.options.items()}
    plain = reflected.problem(dict.fromkeys(reflected.sizes, 8), options=known)
    kinds = {str: np.str_, bool: np.bool_, int: np.int64, float: np.float64}
    assert reflected.problem(dict.fromkeys(reflected.sizes, 8), options={n: kinds[type(v)](v) for n, v in known.items()}).key == plain.key
