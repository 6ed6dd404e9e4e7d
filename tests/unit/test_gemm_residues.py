"""The numbers of the residue scheme, and what its kernels take of a GPU."""

from __future__ import annotations

from dataclasses import replace
from math import gcd, prod

import numpy as np
import pytest

from portatile import program, workloads
from portatile.device.cuda import compiler as cuda_compiler
from portatile.device.cuda.info import capabilities
from portatile.errors import ArgumentError
from portatile.records import Launch
from portatile.workload import Inputs
from portatile.workloads import precisions
from portatile.workloads.gemm_residues import choice, numbers
from support.checking import check, run
from support.devices import DEVICES
from support.ptx_machine.device import INFO, PtxDevice
from support.seeds import new_seed

WORKLOAD = workloads.get("gemm_residues")


@pytest.mark.parametrize("dtype", numbers.COUNT)
def test_sums_are_told_apart_by_their_remainders(dtype: str) -> None:
    """The largest sums are below half the product of coprime moduli, and int32 and float32 hold what is formed on the way."""
    parts = 2 if dtype.startswith("complex") else 1
    result = numbers.numbers(dtype)
    moduli, whole = result.moduli, prod(result.moduli)
    assert all(gcd(one, other) == 1 for place, one in enumerate(moduli) for other in moduli[:place])
    assert (2**result.bits + numbers.LONGEST**0.5) ** 2 <= (numbers.MARGIN + 0.01) * whole  # rounding adds to a norm
    assert result.bits + 1 < numbers.DIGIT * result.digits
    assert (2 * parts - 1) * numbers.LONGEST * 128**2 < 2**31
    assert all(sum(2 ** (numbers.DIGIT - 1) * abs(weight) for weight in row) < 2**20 for row in result.tables["weights"])
    for p, inverses, cofactors in zip(moduli, result.tables["inverses"], result.tables["cofactors"], strict=True):
        cofactor = sum(limb << (numbers.LIMB * place) for place, limb in enumerate(cofactors))
        assert cofactor == whole // p
        assert (inverses[0] * cofactor) % p == 1
        assert [(inverses[place] - inverses[0] * 2 ** (12 * place)) % p for place in range(3)] == [0, 0, 0]


def test_any_sum_follows_from_its_remainders() -> None:
    """As the kernels put it together, in Python's integers."""
    result = numbers.numbers("float64")
    whole = prod(result.moduli)
    for value in (0, 1, -1, int(numbers.MARGIN * whole), -int(numbers.MARGIN * whole), 3**60):
        y = [numbers.centred(value * inverse[0], p) for p, inverse in zip(result.moduli, result.tables["inverses"], strict=True)]
        turns = round(sum(one / p for one, p in zip(y, result.moduli, strict=True)))
        assert sum(one * (whole // p) for one, p in zip(y, result.moduli, strict=True)) - turns * whole == value


@pytest.mark.parametrize("dtype", numbers.COUNT)
def test_any_sum_follows_from_remainders_that_are_not_multiplied_first(dtype: str) -> None:
    """Of complex numbers from a difference of three; the quotient in int32."""
    result = numbers.numbers(dtype)
    whole, tables = prod(result.moduli), result.tables
    largest = 3 * 128 if dtype.startswith("complex") else 128
    assert all(
        sum(limb << (numbers.LIMB * place) for place, limb in enumerate(row)) % p == 1
        for row, p in zip(tables["idempotents"], result.moduli, strict=True)
    )
    assert largest * sum(abs(share) for (share,) in tables["shares"]) + 2 ** (numbers.TURN - 1) < 2**31
    assert largest * len(result.moduli) / 2 ** (numbers.TURN + 1) < 0.49 - numbers.MARGIN
    for value in (0, 1, -1, int(numbers.MARGIN * whole), -int(numbers.MARGIN * whole), 3**20):
        for far in (0, 1, -1) if largest > 128 else (0,):
            rest = [numbers.centred(value, p) + far * p for p in result.moduli]
            turns = sum(one * share for one, (share,) in zip(rest, tables["shares"], strict=True)) + 2 ** (numbers.TURN - 1) >> numbers.TURN
            v = [sum(one * row[t] for one, row in zip(rest, tables["idempotents"], strict=True)) for t in range(result.wide)]
            assert max(map(abs, v)) < 2**62
            assert (
                sum((one - turns * part) << (numbers.LIMB * t) for t, (one, part) in enumerate(zip(v, result.product, strict=True)))
                == value
            )


def test_a_device_without_float64_is_told_what_to_do() -> None:
    problem = WORKLOAD.problem({"m": 8, "n": 8, "k": 8}, "float32")
    device = replace(DEVICES["gpu"], fp64=False)
    with pytest.raises(ArgumentError, match="leave precision out"):
        WORKLOAD.plan(problem, WORKLOAD.default(problem, device), device)


def test_it_is_computed_unasked_where_it_wins_clearly() -> None:
    """From the squares on that it was measured to win, by more than a sixth; see ``choice``. What wins by less is left to the user."""
    hopper = replace(DEVICES["gpu"], capabilities=capabilities("sm_90"))
    ampere = replace(DEVICES["gpu"], capabilities=capabilities("sm_80"))
    gemm = workloads.get("gemm")
    for dtype, size in (("complex64", 2048), ("complex128", 4096), ("float64", 8192)):
        large, small = (gemm.problem(dict.fromkeys("mnk", one), dtype) for one in (size, size // 4))
        residues = WORKLOAD.problem(large.sizes, dtype)
        assert choice.wins(residues, hopper)
        assert precisions.preferred(large, hopper) == (residues if dtype == "complex64" else large)
        assert precisions.preferred(large, hopper, DEVICES["cpu"]) is large
        assert precisions.preferred(small, hopper) is small
        for other in (ampere, replace(hopper, fp64=False), replace(hopper, global_memory=1 << 31), replace(hopper, max_allocation=1 << 26)):
            assert precisions.preferred(large, other) is large
    for sizes in ((8192, 8192, 64), (64, 8192, 8192), (0, 8192, 8192)):
        problem = gemm.problem(dict(zip("mnk", sizes, strict=True)), "complex64")
        assert precisions.preferred(problem, hopper) is problem


@pytest.mark.parametrize("sizes", [(8192, 8192, 8192), (16384, 300, 40000)])
def test_the_estimate_counts_the_memory_that_a_plan_takes(sizes: tuple[int, int, int]) -> None:
    problem = WORKLOAD.problem(dict(zip("mnk", sizes, strict=True)), "complex64")
    hopper = replace(DEVICES["gpu"], capabilities=capabilities("sm_90"))
    plan = WORKLOAD.plan(problem, WORKLOAD.default(problem, hopper), hopper)
    counted = sum(choice.workspace(problem))
    assert 0 <= plan.workspace - counted <= 0.02 * plan.workspace


@pytest.mark.parametrize("dtype", numbers.COUNT)
def test_remainders_are_nearest_to_zero(dtype: str) -> None:
    """As the products' epilogue forms them, of the largest sums and of those between two multiples."""
    for p in numbers.numbers(dtype).moduli:
        reciprocal = (2**39 + p) // (2 * p)
        assert reciprocal < 2**31
        largest = numbers.LONGEST * 128**2 // (3 if dtype.startswith("complex") else 1)
        multiples = [q * p for q in (0, 1, 1000, largest // p - 1)]
        sums = [sign * (at + off) for at in multiples for off in (0, p // 2, p // 2 + 1) for sign in (1, -1)] + [largest, -largest]
        for value in sums:
            rest = (value - ((value * reciprocal + 2**37) >> 38) * p + 128) % 256 - 128  # in a byte
            assert (value - rest) % p == 0
            assert 2 * abs(rest) <= p


def test_remainders_take_a_quarter_of_the_memory_of_sums() -> None:
    problem = WORKLOAD.problem({"m": 512, "n": 512, "k": 512}, "float64")
    config = WORKLOAD.default(problem, DEVICES["gpu"])
    plans = [WORKLOAD.plan(problem, {**config, "REDUCE": reduce}, DEVICES["gpu"]) for reduce in (0, 1)]
    sums, remainders = ({temporary.name: temporary.nbytes for temporary in plan.temporaries}["products"] for plan in plans)
    assert remainders * 4 == sums == 4 * 15 * 512**2
    before = {name: value for name, value in config.items() if name != "REDUCE"}  # as it was recorded before there were remainders
    assert before in WORKLOAD.space(problem, DEVICES["gpu"])
    assert WORKLOAD.plan(problem, before, DEVICES["gpu"]) == plans[0]


def test_a_group_that_goes_through_all_products_takes_each_ones_modulus() -> None:
    problem = WORKLOAD.problem({"m": 4096, "n": 4096, "k": 4096}, "float64", {"trans_b": "T"})
    plan = WORKLOAD.plan(problem, {**WORKLOAD.default(problem, DEVICES["gpu"]), "REDUCE": 1}, DEVICES["gpu"])
    (products,) = (step for step in plan.steps if isinstance(step, Launch) and step.kernel == "gemm")
    assert products.global_size[2] == 1
    assert "reduced(from[0], problem)" in products.source.text


@pytest.mark.drawn(1 / 4)
@pytest.mark.skipif(cuda_compiler.available() is not None, reason=f"no CUDA compiler: {cuda_compiler.available()}")
@pytest.mark.parametrize("dtype", numbers.COUNT)
def test_kernels_fit_the_registers(dtype: str) -> None:
    problem = WORKLOAD.problem({"m": 4096, "n": 4096, "k": 4096}, dtype, {"trans_b": "T"})
    plan = WORKLOAD.plan(problem, {**WORKLOAD.default(problem, DEVICES["gpu"]), "REDUCE": new_seed(dtype) % 2}, DEVICES["gpu"])
    for source in dict.fromkeys(step.source for step in plan.steps if isinstance(step, Launch)):
        for kernel, used in program.build(source, cuda_compiler.CudaTarget("sm_90"), None).resources.items():
            assert (used.spill_stores, used.spill_loads) == (0, 0)
            assert used.registers <= 128 or kernel == "gemm"


@pytest.mark.drawn(1 / 16)
@pytest.mark.skipif(cuda_compiler.available() is not None, reason=f"no CUDA compiler: {cuda_compiler.available()}")
@pytest.mark.parametrize(("n", "reduce"), [(6, 0), (7, 1), (8, 1)], ids=["sums", "remainders", "four remainders at a time"])
def test_the_text_for_gpus_is_right(n: int, reduce: int) -> None:
    """In the interpreter of PTX, which knows the units of sm_80, on a problem that is small enough for it."""
    problem = WORKLOAD.problem({"m": 5, "n": n, "k": 9}, "float32", {"trans_b": "T"})
    config = {"SLAB": 256, "LANES": 8, "ROWS": 4, "WGS": 64, "REDUCE": reduce}
    device = replace(INFO, architecture="sm_80", capabilities=capabilities("sm_80"))
    verdict = check(PtxDevice(device, limit=3_000_000), WORKLOAD, problem, config, np.random.default_rng(new_seed("residues")))
    assert verdict.ok, verdict.message


@pytest.mark.drawn(1 / 16)
@pytest.mark.skipif(cuda_compiler.available() is not None, reason=f"no CUDA compiler: {cuda_compiler.available()}")
def test_the_text_for_gpus_computes_again_what_rounding_would_spoil() -> None:
    """Where large elements meet small ones only, an infinity among them."""
    rng, (m, n, k) = np.random.default_rng(new_seed("again")), (3, 5, 19)
    a, b = rng.standard_normal((m, k), np.float32), rng.standard_normal((k, n), np.float32)
    a[:, ::2] *= np.float32(1e-9)
    b[1::2] *= np.float32(1e-9)
    a[1, 3] = np.inf
    problem = WORKLOAD.problem({"m": m, "n": n, "k": k}, "float32")
    config = {"SLAB": 256, "LANES": 8, "ROWS": 4, "WGS": 64, "REDUCE": 1}
    device = replace(INFO, architecture="sm_80", capabilities=capabilities("sm_80"))
    given = Inputs({"a": a.ravel(), "b": b.ravel(), "c": np.full(m * n, np.nan, np.float32)}, {"alpha": 1.0, "beta": 0.0})
    after, verdict = run(PtxDevice(device, limit=30_000_000), WORKLOAD, problem, config, given)
    assert verdict.ok, verdict.message
    with np.errstate(invalid="ignore"):
        found, exact = after["c"].reshape(m, n), a.astype(np.float64) @ b
    assert (found[1] == exact[1]).all()
    usual = [0, 2]
    assert (np.abs(found[usual] - exact[usual]) <= 2.0**-23 * (np.abs(a[usual]).astype(np.float64) @ np.abs(b))).all()
