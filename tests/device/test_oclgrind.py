"""Races between work-items, which Oclgrind finds where it is installed."""

from __future__ import annotations

import numpy as np
import pytest

import portatile
from portatile.device.base import Device
from portatile.errors import UsageError
from portatile.tuning.search import oclgrind
from support.faulty import RACE, Faulty


@pytest.fixture(autouse=True)
def installed() -> None:
    try:
        oclgrind.check_installed()
    except UsageError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        ("none", None),
        (RACE, "read-write data race in local memory, kernel twice, line"),
        ("behind", "invalid write of size 4 in global memory, kernel twice, line"),
    ],
)
def test_what_a_variant_does(device: Device, fault: str, told: str | None) -> None:
    workload = Faulty(("none", RACE, "behind"))
    result = oclgrind.inspect(workload, workload.problem({"n": 100}), {"fault": fault, "group": 16}, device.info)
    if told is None:
        assert not result
    else:
        assert told in result[0]


def test_the_default_product_has_none(device: Device) -> None:
    workload = portatile.workloads.get("gemm")
    problem = workload.problem({"m": 33, "n": 18, "k": 20}, "float32")
    assert np.array_equal(oclgrind.inspect(workload, problem, workload.default(problem, device.info), device.info), ())
