"""What is chosen without tuning for products on matrix units: the form, tiles, clusters, sharing of k."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from portatile import workloads
from portatile.errors import ArgumentError
from portatile.records import Layout
from portatile.workloads.gemm import units
from portatile.workloads.gemm.forms.hopper import point as hopper
from support.matrix_units import AMPERE, HOPPER, OPENCL, WORKLOAD, problem


def test_a_default_is_legal_and_uses_what_the_device_has() -> None:
    for dtype, size in itertools.product(("bfloat16", "float16:float32", "int8"), (64, 500, 1024, 4096)):
        case = problem(size, dtype, "NT")
        for device, expected in ((HOPPER, {"hopper", "matrix"}), (AMPERE, {"matrix"}), (OPENCL, {"hopper", "matrix"})):
            config = WORKLOAD.default(case, device)
            assert config["FORM"] in expected
            assert WORKLOAD.space(case, device).violated(config) is None
            assert WORKLOAD.plan(case, config, device).steps
    assert WORKLOAD.default(problem(4096, "bfloat16"), HOPPER)["FORM"] == "hopper"
    assert WORKLOAD.default(problem(4096, "float32"), HOPPER)["FORM"] == "gpu"


def test_defaults_overlap_stores_of_short_sums_and_join_few_tiles() -> None:
    def chosen(dtype: str, trans: str, m: int, n: int, k: int) -> dict[str, object]:
        options = {"trans_a": trans[0], "trans_b": trans[1]}
        return dict(WORKLOAD.default(WORKLOAD.problem({"m": m, "n": n, "k": k}, dtype, options), HOPPER))

    assert chosen("bfloat16", "NN", 4096, 4096, 512)["ALTERNATE"]
    assert not chosen("bfloat16", "NN", 4096, 4096, 4096)["ALTERNATE"]
    assert not chosen("tfloat32", "NN", 4096, 4096, 512)["ALTERNATE"]
    few = chosen("bfloat16", "NN", 128, 2048, 4096)
    assert (few["JOIN"], few["SPLIT_K"]) == (True, 2)
    assert chosen("bfloat16", "NN", 64, 4096, 4096)["SPLIT_K"] == 1  # memory is read no faster by more groups
    assert chosen("float8_e4m3fn:bfloat16", "NT", 4096, 4096, 4096)["TCR"] == 11  # six turns of all multiprocessors, not seven


def test_groups_share_what_they_read_where_rows_are_less_aligned() -> None:
    """1,000 numbers of 16 bits are no whole sectors of 32 bytes."""
    for size, device, cluster in ((1000, HOPPER, 2), (1008, HOPPER, 1), (1001, HOPPER, 1), (1000, OPENCL, 1)):
        config = WORKLOAD.default(problem(size, "bfloat16"), device)
        assert config["CLUSTER"] == cluster
        assert WORKLOAD.space(problem(size, "bfloat16"), device).violated(config) is None
    stored = Layout((1024, 1))
    padded = replace(problem(1000, "bfloat16"), layout=dict.fromkeys("abc", stored))
    assert WORKLOAD.default(padded, HOPPER)["CLUSTER"] == 1


def test_large_products_have_clusters() -> None:
    """Where rows are aligned, too; small ones and those of eight-bit floats have none, and OpenCL has none at all."""
    chosen = [WORKLOAD.default(problem(size, dtype), HOPPER)["CLUSTER"] for dtype, size in (("bfloat16", 4096), ("bfloat16", 1024))]
    assert chosen == [2, 1]
    assert WORKLOAD.default(problem(4096, "float8_e4m3fn:bfloat16", "NT"), HOPPER)["CLUSTER"] == 1
    assert WORKLOAD.default(problem(4096, "bfloat16"), OPENCL)["CLUSTER"] == 1


def test_three_warp_groups_where_their_tiles_fill_the_device() -> None:
    """3072^3: 256 tiles of 192 x 192 on 132 multiprocessors in two rounds, where 288 of 128 x 256 take three."""
    config = WORKLOAD.default(problem(3072, "bfloat16"), HOPPER)
    assert (config["TBR"], config["TRR"], config["TCR"]) == (3, 1, 12)


@pytest.mark.parametrize(("name", "dtype"), [("gemm", "float8_e4m3fn"), ("gemm_blocks", "float8_e5m2:bfloat16")])
def test_sums_of_eight_bits_are_promoted(name: str, dtype: str) -> None:
    """A configuration that does not is refused, as one is that promotes others."""
    workload = workloads.get(name)
    for device, size in itertools.product((HOPPER, OPENCL), (100, 1000, 4096)):
        case = workload.problem(dict.fromkeys("mnk", size), dtype, {"trans_b": "T"})
        config = workload.default(case, device)
        assert config["FORM"] in ("hopper", "matrix")
        assert config["PROMOTE"] == units.PROMOTED
        assert workload.space(case, device).violated(config) is None
        with pytest.raises(ArgumentError, match="must be promoted"):
            workload.plan(case, {**config, "PROMOTE": 0}, device)
        assert workload.bound(case, config) < 0.035
    assert WORKLOAD.default(problem(1000, "float8_e4m3fn", "NT"), AMPERE)["FORM"] not in ("hopper", "matrix")
    with pytest.raises(ArgumentError, match="must be promoted"):
        WORKLOAD.plan(problem(128, "bfloat16"), replace(hopper.tile(128, 128, 4), PROMOTE=units.PROMOTED).config(), HOPPER)
