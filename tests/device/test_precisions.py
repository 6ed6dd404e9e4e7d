"""What consists of products, in each precision that these are formed in: within the workload's bound, nothing else touched."""

from __future__ import annotations

import numpy as np
import pytest

from portatile import workloads
from portatile.device.base import Device
from portatile.workloads import precisions
from support.checking import check
from support.seeds import new_seed

pytestmark = pytest.mark.unoptimised

COMPOSED = ("symm", "syrk", "syr2k", "trmm", "triangular")


@pytest.fixture(autouse=True)
def double(device: Device) -> None:
    if not device.info.fp64:
        pytest.skip(f"{device.info.name} has no double precision")


@pytest.mark.drawn(1 / 2)
@pytest.mark.parametrize("name", COMPOSED)
def test_results_are_within_the_bound(device: Device, name: str) -> None:
    """Of random options, with NaN in what must not be read: the other triangle, and C where beta is 0; and what surrounds operands."""
    workload, rng = workloads.get(name), np.random.default_rng(new_seed(name))
    dtype = str(rng.choice(["float32", "float64", "complex64"]))
    choices = [one for one in precisions.choices(name) if one != "3m" or dtype.startswith("complex")]
    options = {option: values[int(rng.integers(len(values)))] for option, values in workload.options.items()}
    options["precision"] = str(rng.choice(choices))
    problem = workload.awkward(workload.problem(dict.fromkeys(workload.sizes, 64), dtype, options))[3 if name == "triangular" else 2]
    config = workload.default(problem, device.info)
    if name == "triangular":
        config = {**config, "NB": 16}  # so that there are products
    broken = workload.space(problem, device.info).violated(config)
    assert broken is None, broken
    verdict = check(device, workload, problem, config, rng)
    assert verdict.ok, f"{verdict.message}\n{config}\n{problem}"
