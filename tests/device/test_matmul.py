"""The course's matrix products: every algorithm and rung on shapes that blocks do not divide, and the host's bottom line."""

from __future__ import annotations

import numpy as np
import pytest

from portatile import workloads
from portatile.device.base import Device
from portatile.errors import ArgumentError
from portatile.records import Config, Layout
from portatile.workloads.matmul import BASE, RUNGS, sequential
from support.checking import check
from support.seeds import new_seed

pytestmark = [pytest.mark.thinned(1 / 3), pytest.mark.unoptimised]

WORKLOAD = workloads.get("matmul")

CONFIGS: dict[str, Config] = {
    "sequential": {**BASE, "ALGORITHM": "sequential", "BLOCK": 2, "UNROLL": 1},
    "accumulating in C": {**BASE, "ALGORITHM": "global", "BLOCK": 8, "ACCUMULATE": "global", "UNROLL": 4},
    **{f"tiles of {block}": {**BASE, "BLOCK": block, "UNROLL": 1} for block in (2, 4, 8)},
    **{f"rung {rung}": config for rung, config in RUNGS.items()},
    "wide and deep": {**BASE, "BLOCK": 16, "DEPTH": 32, "VECTOR": 2, "WPT": 4, "PADDING": 1, "UNROLL": 8},
    "wide and transposed": {**BASE, "BLOCK": 8, "DEPTH": 4, "VECTOR": 4, "WPT": 2, "TRANSPOSE": True},
    "read-only, one element": {**BASE, "ALGORITHM": "global", "BLOCK": 8, "LDG": True},
    **{f"read-only, rung {rung}": {**RUNGS[rung], "LDG": True} for rung in (3, 4, 5)},
    **{f"shuffled, rung {rung}": {**RUNGS[rung], "SHUFFLE": True} for rung in (2, 3, 4, 5)},
    "shuffled, read-only, narrow": {**BASE, "BLOCK": 16, "DEPTH": 4, "VECTOR": 2, "WPT": 2, "LDG": True, "SHUFFLE": True},
}


@pytest.mark.parametrize("name", CONFIGS)
def test_every_kernel_is_right(device: Device, name: str) -> None:
    if (CONFIGS[name]["LDG"] or CONFIGS[name]["SHUFFLE"]) and not device.info.nvidia:
        pytest.skip(f"{device.info.id} has none of NVIDIA's instructions")
    rng = np.random.default_rng(new_seed(name))
    dtype = "float64" if device.info.fp64 and name in ("accumulating in C", "rung 5", "wide and deep") else "float32"
    checked = 0
    for problem in WORKLOAD.awkward(WORKLOAD.problem({"m": 64, "n": 64, "k": 64}, dtype)):
        if WORKLOAD.space(problem, device.info).violated(CONFIGS[name]) is None:
            verdict = check(device, WORKLOAD, problem, CONFIGS[name], rng)
            assert verdict.ok, f"{problem.sizes}: {verdict.message}"
            checked += 1
    assert checked or device.info.max_work_group_size < 1024


@pytest.mark.parametrize("sizes", [(1, 1, 1), (127, 129, 131), (1000, 17, 4097)])
@pytest.mark.parametrize("algorithm", ["global", "local"])
def test_sizes_that_nothing_divides(device: Device, algorithm: str, sizes: tuple[int, int, int]) -> None:
    problem = WORKLOAD.problem(dict(zip("mnk", sizes, strict=True)))
    verdict = check(device, WORKLOAD, problem, {**BASE, "ALGORITHM": algorithm}, np.random.default_rng(new_seed(str(sizes))))
    assert verdict.ok, verdict.message


@pytest.mark.parametrize("sizes", [(0, 5, 3), (5, 0, 3), (0, 0, 0)])
def test_an_empty_product_is_no_step(device: Device, sizes: tuple[int, int, int]) -> None:
    problem = WORKLOAD.problem(dict(zip("mnk", sizes, strict=True)))
    assert WORKLOAD.plan(problem, WORKLOAD.default(problem, device.info), device.info).steps == ()


def test_indices_are_as_wide_as_the_operands_ask(device: Device) -> None:
    index = {}
    for n in (1000, 70_000):
        problem = WORKLOAD.problem({"m": n, "n": n, "k": 8})
        (launch,) = WORKLOAD.plan(problem, {**BASE, "ALGORITHM": "global"}, device.info).steps
        index[n] = dict(launch.source.defines)["INDEX"], {arg.dtype for arg in launch.args if arg.name.endswith("_ld")}
        assert max(n // size for n, size in zip(launch.global_size[1:], launch.local_size[1:], strict=True)) <= 65535
    assert index == {1000: ("int", {"int32"}), 70_000: ("long", {"int64"})}


def test_column_major_operands_are_refused(device: Device) -> None:
    problem = WORKLOAD.problem({"m": 8, "n": 8, "k": 8}, layout={"b": Layout((1, 8))})
    with pytest.raises(ArgumentError, match="'b'"):
        WORKLOAD.plan(problem, dict(BASE), device.info)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_hosts_sequential_product(dtype: str) -> None:
    rng = np.random.default_rng(new_seed("sequential"))
    a, b = rng.random((7, 11)).astype(dtype), rng.random((11, 5)).astype(dtype)
    result = sequential(a, b)
    assert result.dtype == dtype
    assert np.allclose(result, a.astype(np.float64) @ b.astype(np.float64), rtol=20 * np.finfo(dtype).eps)
    assert sequential(a[:0], b).shape == (0, 5)
    assert not sequential(a[:, :0], b[:0]).any()
    with pytest.raises(ArgumentError, match="columns"):
        sequential(a, b.T)
