"""What the estimate chooses among for short sides is right: every tile, sums of clusters, operands through registers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from portatile import workloads
from portatile.device.base import Device
from portatile.workload import Inputs
from portatile.workloads.gemm.capabilities import clusters, local_limit, matrix_units
from portatile.workloads.gemm.forms.gpu import ranking, tiles
from portatile.workloads.gemm.forms.gpu.costs import known
from portatile.workloads.gemm.forms.gpu.point import Gpu
from support.checking import check, run
from support.seeds import new_seed

GEMM = workloads.get("gemm")
WRITTEN = "TT"  # A has k slow, and B has it fast


def drawn(place: int, dtype: str, trans: str, rng: np.random.Generator, device: Device) -> tuple[tuple[int, int, int], Gpu]:
    """Sizes near those of the tile at ``place``, and a variant of it that the estimate considers for them."""
    tile = tiles.tiles_of(dtype, trans == WRITTEN)[place].point
    sizes = (int(rng.integers(1, 2 * tile.rows)), int(rng.integers(1, 2 * tile.columns)), int(rng.integers(1, 900)))
    case = GEMM.problem(dict(zip("mnk", sizes, strict=True)), dtype, {"trans_a": trans[0], "trans_b": trans[1]})
    costs = known(device.info, dtype)
    assert costs is not None
    found = ranking.candidates(case, device.info, local_limit(device.info), costs, len(costs.rates))
    among = np.flatnonzero(found.columns.place == place)
    return sizes, found.point(int(rng.choice(among))) if among.size else tile


@pytest.mark.parametrize("trans", ["NN", "TN", WRITTEN])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_tiles_of_the_estimate_are_right(device: Device, dtype: str, trans: str) -> None:
    if not device.info.nvidia or (dtype == "float64" and not matrix_units(device.info)):
        pytest.skip(f"{device.info.id} has no use for these tiles")
    rng = np.random.default_rng(new_seed(f"{dtype} {trans}"))
    for place in rng.choice(len(tiles.tiles_of(dtype, trans == WRITTEN)), 8, replace=False):
        sizes, point = drawn(place, dtype, trans, rng, device)
        if point.local_bytes(8 if dtype == "float64" else 4) > local_limit(device.info):
            continue
        case = GEMM.problem(dict(zip("mnk", sizes, strict=True)), dtype, {"trans_a": trans[0], "trans_b": trans[1]})
        verdict = check(device, GEMM, case, point.config(), rng)
        assert verdict.ok, f"{sizes} {trans} {point}: {verdict.message}"


@pytest.mark.parametrize("parts", [2, 4, 8])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_cluster_adds_as_a_second_launch_would(device: Device, dtype: str, parts: int) -> None:
    if not clusters(device.info):
        pytest.skip(f"{device.info.id} has no clusters")
    rng = np.random.default_rng(new_seed(f"{dtype} {parts}"))
    candidates = tiles.tiles_of(dtype, False)
    for place in rng.choice(len(candidates), 3, replace=False):
        point = replace(candidates[place].point, SPLIT_K=parts)
        sizes = (int(rng.integers(1, 150)), int(rng.integers(1, 150)), int(rng.integers(1, 1500)))
        case = GEMM.problem(dict(zip("mnk", sizes, strict=True)), dtype, {"trans_a": "T", "trans_b": "N"})
        gathered = replace(point, CLUSTER=parts).config()
        verdict = check(device, GEMM, case, gathered, rng)
        assert verdict.ok, f"{sizes} {point}: {verdict.message}"
        inputs = Inputs(GEMM.inputs(case, rng).operands, {"alpha": 1.0, "beta": 0.0})
        (one, _), (two, _) = (run(device, GEMM, case, config, inputs) for config in (gathered, point.config()))
        assert one["c"].tobytes() == two["c"].tobytes()
