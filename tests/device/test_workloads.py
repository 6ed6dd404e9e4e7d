"""Every workload on every device: the default and random configurations, on shapes that nothing divides."""

from __future__ import annotations

import os

import numpy as np
import pytest
from checking import check, new_seed

from portatile import verify, workloads
from portatile.device.base import Device

RANDOM_CONFIGURATIONS = int(os.environ.get("PORTATILE_DRAWS", "2"))  # more where a machine has the time


@pytest.mark.parametrize(("name", "dtype"), [(name, dtype) for name in workloads.names() for dtype in workloads.get(name).dtypes])
def test_configurations_are_right(device: Device, name: str, dtype: str) -> None:
    """The default, then random points of the space with random options, each on all awkward problems where it is legal."""
    if dtype == "float64" and not device.info.fp64:
        pytest.skip(f"{device.info.name} has no double precision")
    workload = workloads.get(name)
    seed = new_seed(f"{name} on {device.info.id}")
    rng = np.random.default_rng(seed)
    checked = 0
    for turn in range(1 + RANDOM_CONFIGURATIONS):
        options = {option: values[int(rng.integers(len(values))) if turn else 0] for option, values in workload.options.items()}
        problems = workload.awkward(workload.problem(dict.fromkeys(workload.sizes, 64), dtype, options))
        drawn = workload.space(problems[int(rng.integers(len(problems)))], device.info).sample(rng)
        for problem in problems:
            config = drawn if turn else workload.default(problem, device.info)
            broken = workload.space(problem, device.info).violated(config)
            if turn and broken:
                continue
            assert not broken, f"the default {config} is not legal for {problem}: {broken}"
            verdict = check(device, workload, problem, config, rng)
            assert verdict.ok, f"seed {seed}: {verdict.message}\n{config}\n{problem}"
            checked += 1
    assert checked, f"{name} names no awkward problems"


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
