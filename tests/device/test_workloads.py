"""Every workload on every device: the default and random configurations, on shapes that nothing divides."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from portatile import verify, workloads
from portatile.device.base import Device
from portatile.records import Problem
from portatile.workload import Workload
from support.checking import check, maybe
from support.seeds import DRAWS, new_seed

STACKS = {"trmm_batched", "symm_batched", "syrk_batched", "syr2k_batched"}  # whose kernels are those of one problem
FOR_MATRIX_UNITS = {"gemm_residues", "gemm_terms"}  # what no user of a processor gets


def _marks(name: str, dtype: str) -> list[pytest.MarkDecorator]:
    usual = dtype in ("float32", "float64") and name not in STACKS
    return [pytest.mark.drawn(1 / 8)] * (not usual) + [pytest.mark.unoptimised] * (name in FOR_MATRIX_UNITS)


CASES = [pytest.param(name, dtype, marks=_marks(name, dtype)) for name in workloads.names() for dtype in workloads.get(name).dtypes]


@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_defaults_are_right(device: Device, name: str, dtype: str) -> None:
    """With the first of all options, on awkward problems."""
    maybe(device, 1 / 2)
    workload, rng = asked(device, name, dtype), np.random.default_rng(new_seed(f"{name} on {device.info.id}"))
    options = {option: values[0] for option, values in workload.options.items()}
    problems = workload.awkward(workload.problem(dict.fromkeys(workload.sizes, 64), dtype, options))
    for problem in _some(problems, device, rng):
        config = workload.default(problem, device.info)
        broken = workload.space(problem, device.info).violated(config)
        assert not broken, f"the default {config} is not legal for {problem}: {broken}"
        verdict = check(device, workload, problem, config, rng)
        assert verdict.ok, f"{verdict.message}\n{config}\n{problem}"


@pytest.mark.unoptimised
@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_random_configurations_are_right(device: Device, name: str, dtype: str) -> None:
    """Random points of the space with random options, each on awkward problems where it is legal."""
    workload, rng = asked(device, name, dtype), np.random.default_rng(new_seed(f"{name} on {device.info.id}"))
    checked = 0
    for _ in range(DRAWS or (1 if device.info.kind == "cpu" else 2)):
        options = {name: values[int(rng.integers(len(values)))] for name, values in workload.options.items() if name != "precision"}
        problems = _some(workload.awkward(workload.problem(dict.fromkeys(workload.sizes, 64), dtype, options)), device, rng)
        config = workload.space(problems[0], device.info).scatter(rng, 1)[0]
        for problem in problems:
            if workload.space(problem, device.info).violated(config) is None:
                verdict = check(device, workload, problem, config, rng)
                assert verdict.ok, f"{verdict.message}\n{config}\n{problem}"
                checked += 1
    assert checked, f"no problem for {config}"


def _some(problems: Sequence[Problem], device: Device, rng: np.random.Generator) -> list[Problem]:
    """All of them in any order; where compiling takes long half of them, drawn anew every time."""
    count = -(-len(problems) // 2) if device.info.kind == "cpu" and not DRAWS else len(problems)
    return [problems[place] for place in rng.permutation(len(problems))[:count]]


def asked(device: Device, name: str, dtype: str) -> Workload:
    """The workload, where the device has its element type."""
    if dtype in ("float64", "complex128") and not device.info.fp64:
        pytest.skip(f"{device.info.name} has no double precision")
    return workloads.get(name)


@pytest.mark.parametrize("name", workloads.names())
def test_a_wrong_result_is_noticed(device: Device, name: str) -> None:
    """The check itself: an output that is off by a little in one place is refused."""
    workload = workloads.get(name)
    problem = workload.awkward(workload.problem(dict.fromkeys(workload.sizes, 64), workload.dtypes[0]))[-1]
    inputs = workload.inputs(problem, np.random.default_rng(new_seed(name)))
    bound = workload.bound(problem, workload.default(problem, device.info))
    for expected in workload.reference(problem, inputs).values():
        right = expected.values.copy()
        assert verify.compare(right, expected, bound).ok
        if not expected.scale.any():
            continue  # nothing is computed here, alpha is 0 say
        place = int(np.argmax(expected.scale))
        right[place] += 2 * bound * expected.scale[place]
        assert not verify.compare(right, expected, bound).ok
