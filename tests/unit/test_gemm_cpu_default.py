"""The default of the cpu form for processors of AVX2: which tile, and whether operands are packed, copied or read in place."""

from __future__ import annotations

from dataclasses import replace

import pytest

from portatile import workloads
from portatile.capabilities import Capabilities
from portatile.records import Config
from support.devices import CPU

WORKLOAD = workloads.get("gemm")
AVX2 = replace(CPU, architecture="x86_64-znver3", capabilities=Capabilities(), compute_units=1, local_memory=1 << 20)


def default(m: int, n: int, k: int, trans: str = "NN", dtype: str = "float32") -> Config:
    problem = WORKLOAD.problem({"m": m, "n": n, "k": k}, dtype, {"trans_a": trans[0], "trans_b": trans[1]})
    config = WORKLOAD.default(problem, AVX2)
    assert config["FORM"] == "cpu"
    assert WORKLOAD.space(problem, AVX2).violated(config) is None
    return config


@pytest.mark.parametrize(("n", "packed"), [(160, False), (300, False), (400, True)])
def test_a_contiguous_along_k_is_packed_where_many_tiles_read_it(n: int, packed: bool) -> None:
    assert default(700, n, 900)["PACK_A"] is packed
    assert default(700, n, 900, "TN")["PACK_A"]


@pytest.mark.parametrize(("dtype", "n", "columns"), [("float64", 28, 8), ("float64", 36, 12), ("float64", 64, 8), ("float32", 28, 16)])
def test_tiles_are_narrower_where_that_leaves_less_idle(dtype: str, n: int, columns: int) -> None:
    assert default(300, n, 60, "NT", dtype)["TC"] == columns


@pytest.mark.parametrize(("m", "rows"), [(9, 5), (12, 6), (20, 5), (21, 6), (1000, 6)])
def test_rows_are_even_where_that_leaves_less_idle(m: int, rows: int) -> None:
    assert default(m, 900, 300)["TR"] == rows


def test_few_rows_read_b_in_place() -> None:
    config = default(24, 900, 600)
    assert not config["PACK_B"]
    assert not config["SM"]
    assert default(60, 900, 600)["SM"]
    assert default(24, 900, 600, "NT")["SM"]


def test_wide_vectors_are_for_compilers_that_survive_them() -> None:
    problem = WORKLOAD.problem({"m": 600, "n": 600, "k": 300}, "float64")
    narrow = replace(AVX2, capabilities=Capabilities(wide_arithmetic=False))
    assert (WORKLOAD.default(problem, AVX2)["VL"], WORKLOAD.default(problem, narrow)["VL"]) == (8, 4)
    assert WORKLOAD.space(problem, narrow).violated(WORKLOAD.default(problem, narrow)) is None
