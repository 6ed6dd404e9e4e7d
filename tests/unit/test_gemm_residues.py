"""The numbers of the residue scheme, and what its kernels take of a GPU."""

from __future__ import annotations

import re
from dataclasses import replace
from fractions import Fraction
from math import gcd, isqrt, prod

import numpy as np
import pytest

from portatile import program, workloads
from portatile.device.cuda import compiler as cuda_compiler
from portatile.device.cuda.datasheet import datasheet
from portatile.device.cuda.info import capabilities
from portatile.dtypes import REMAINDERS
from portatile.errors import ArgumentError
from portatile.records import Launch, Layout
from portatile.workload import Inputs
from portatile.workloads import precisions
from portatile.workloads.gemm import plan as gemm_plan
from portatile.workloads.gemm import storage
from portatile.workloads.gemm.extras import Extras
from portatile.workloads.gemm.forms.hopper.point import tile
from portatile.workloads.gemm_residues import choice, numbers
from support.checking import check, run
from support.devices import DEVICES
from support.ptx_machine.device import INFO, PtxDevice
from support.seeds import new_seed

WORKLOAD = workloads.get("gemm_residues")


@pytest.mark.parametrize("dtype", numbers.COUNT)
def test_sums_are_told_apart_by_their_remainders(dtype: str) -> None:
    """The largest sums are below half the product of coprime moduli, and int32 holds what is formed on the way."""
    parts = 2 if dtype.startswith("complex") else 1
    found = numbers.numbers(dtype)
    moduli, whole = found.moduli, prod(found.moduli)
    assert moduli[0] == 256  # whose remainder is the last byte
    assert all(gcd(one, other) == 1 for place, one in enumerate(moduli) for other in moduli[:place])
    scaled, q = found.limit
    assert 2**16 <= scaled < 2**18
    square = scaled * 4**q / 2**16
    assert numbers.MARGIN - 1e-4 < square / whole <= numbers.MARGIN
    assert (square**0.5 + numbers.LONGEST**0.5) ** 2 <= 0.499 * whole  # rounding adds to a norm
    assert (2 * parts - 1) * numbers.LONGEST * 128**2 < 2**31


@pytest.mark.parametrize("dtype", numbers.COUNT)
def test_floats_give_the_remainders_of_integers(dtype: str) -> None:
    """Weighted sums of digits are exact; the quotient by a rounded reciprocal errs by less than what lies between s / p and a half."""
    found = numbers.numbers(dtype)
    assert found.words <= 2
    assert 2 ** (found.limit[1] + 1) < 2 ** (numbers.DIGIT * (found.words - 1) + 30)  # of what is left for the last word
    for p, weights, reciprocal in zip(found.moduli[1:], found.tables["weights"][1:], found.tables["reciprocals"][1:], strict=True):
        assert all(-(2**31) <= weight < 2**31 for weight in weights)
        counts = [np.array(weight, "<i4").tobytes() for weight in weights]
        counted = [[int(np.int8(byte if byte < 128 else byte - 256)) for byte in word] for word in counts]
        for word, bytes_of in enumerate(counted):
            assert all((count - 2 ** (numbers.DIGIT * word + 8 * place)) % p == 0 for place, count in enumerate(bytes_of))
        largest = sum(128 * abs(count) for word in counted for count in word)
        times = np.float32(reciprocal.rstrip("f"))
        product = np.spacing(np.float32(largest / p)) / 2  # where it is rounded before it is added
        assert largest == found.largest(p) < 2**22
        assert largest * abs(float(times) - 1 / p) + product < 1 / (2 * p)


@pytest.mark.parametrize("dtype", numbers.COUNT)
def test_quotients_are_right_where_sums_of_digits_start(dtype: str) -> None:
    """A multiply-add of the whole float, whose only rounding is to an integer, errs by less than what lies between s / p and a half."""
    found = numbers.numbers(dtype)
    tables = (found.tables[name][1:] for name in ("reciprocals", "shifts", "starts"))
    for reciprocal, shift, (bits, p) in zip(*tables, strict=True):
        start = int(np.array(bits, "<i4").view("<f4"))
        assert start == found.start(p)
        assert start % p == start % 256 == bits % 256 == 0
        assert 2**23 + found.largest(p) <= start
        assert start + found.largest(p) < 2**24
        assert start // p + float(shift[:-1]) == 3 << 22
        assert (start + found.largest(p)) * abs(Fraction(float(np.float32(reciprocal[:-1]))) - Fraction(1, p)) < Fraction(1, 2 * p)


@pytest.mark.parametrize("dtype", numbers.COUNT)
def test_quotients_by_doubles_leave_bytes(dtype: str) -> None:
    """Of the largest integers and of those in the middle of two multiples: a multiply-add that rounds once, and what it leaves."""
    found = numbers.numbers(dtype)
    scaled, q = found.limit
    parts = 2 if dtype.startswith("complex") else 1
    norm = isqrt(scaled << 2 * q >> 16)
    largest = norm * 1414214 // 1000000 if parts == 2 else norm
    assert set(found.doubles()) >= set(range(4, len(found.moduli)))
    for place, inverse in found.doubles().items():
        p = found.moduli[place]
        for value in {sign * (largest // p * p + off) for off in (0, p // 2, p // 2 + 1, 1 - p, -p // 2) for sign in (1, -1)} | {0, 1, -1}:
            seen = int(float(value))  # integers are doubles; the sum of a complex number's parts is rounded to one
            rest = (value if parts == 2 else seen) - round(Fraction(inverse) * seen) * p
            assert -128 <= rest <= 127


@pytest.mark.parametrize("dtype", numbers.COUNT)
def test_any_sum_follows_from_its_remainders(dtype: str) -> None:
    """As the kernels put it together, in Python's integers; of complex numbers from a difference of three."""
    found = numbers.numbers(dtype)
    whole, tables = prod(found.moduli), found.tables
    largest = 3 * 128 if dtype.startswith("complex") else 128
    limit, top = int(numbers.MARGIN * whole), found.wide - 1
    for value in (0, 1, -1, limit, -limit, 3**20, -(2**40)):
        for far in (0, 1, -1) if largest > 128 else (0,):
            rest = iter([numbers.centred(value, p) + far * p for p in found.moduli])
            sums = [sum(next(rest) * count for count in found.counts(pair)) for pair in found.pairs]
            assert all(-(2**15) <= count < 2**15 for pair in found.pairs for count in found.counts(pair))
            words = [np.array(word, "<i4").view("<i2").tolist() for word in tables["joined"]]
            assert all(
                tuple(word[: len(pair)]) == found.counts(pair)
                for word, pair in zip(np.reshape(words, (-1, 2)).tolist(), found.pairs, strict=True)
            )
            assert all((one - value) % prod(pair) == 0 for one, pair in zip(sums, found.pairs, strict=True))
            v = [sum(one * row[t] for one, row in zip(sums, tables["idempotents"], strict=True)) for t in range(found.wide)]
            assert max(map(abs, v)) < 2**62
            units = v[top] + (v[top - 1] >> numbers.LIMB)
            assert abs(units) < (2**51 if found.wide > 2 else 2**53)
            turns = round(units * found.turn)
            assert abs(turns) < 2**31
            assert (
                sum((one - turns * part) << (numbers.LIMB * t) for t, (one, part) in enumerate(zip(v, found.product, strict=True))) == value
            )


@pytest.mark.parametrize("dtype", numbers.COUNT)
def test_what_is_formed_of_remainders_fits(dtype: str) -> None:
    """In int32 of a pair, in int64 of all, and how often the product of the moduli is contained is known to less than a hundredth."""
    found = numbers.numbers(dtype)
    whole, largest = prod(found.moduli), 3 * 128 if dtype.startswith("complex") else 128
    sums = [sum(largest * abs(count) for count in found.counts(pair)) for pair in found.pairs]
    assert max(sums) < 2**31
    limbs = [sum(one * abs(row[t]) for one, row in zip(sums, found.tables["idempotents"], strict=True)) for t in range(found.wide)]
    turns = sum(limbs[t] << (numbers.LIMB * t) for t in range(found.wide)) // whole + 1
    assert turns < 2**31
    assert max(limbs) + 2**numbers.LIMB * turns < 2**62
    unit = 2 ** (numbers.LIMB * (found.wide - 1)) / whole
    below = sum(limbs[t] * 2.0 ** (numbers.LIMB * t) for t in range(found.wide - 2)) / whole
    assert unit + below + turns * 2.0**-51 < 0.009


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


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_it_takes_the_place_of_three_real_products_where_it_wins(dtype: str) -> None:
    hopper = replace(DEVICES["gpu"], capabilities=capabilities("sm_90"))
    large, small = (workloads.get("gemm3m").problem(dict.fromkeys("mnk", size), dtype, {"trans_a": "C"}) for size in (4096, 512))
    assert precisions.preferred(large, hopper) == WORKLOAD.problem(large.sizes, dtype, {"trans_a": "C"})
    assert precisions.preferred(large, hopper, DEVICES["cpu"]) is large
    assert precisions.preferred(small, hopper) is small
    assert [name for name in ("", *precisions.choices("gemm"), "native") if precisions.chosen_by_device(name)] == ["", "3m"]


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
    sums, remainders = ({one.name: one.nbytes for one in plan.temporaries}["products"] for plan in plans)
    assert remainders * 4 == sums == 4 * 14 * 512**2
    before = {name: value for name, value in config.items() if name != "REDUCE"}  # as it was recorded before there were remainders
    assert before in WORKLOAD.space(problem, DEVICES["gpu"])
    assert WORKLOAD.plan(problem, before, DEVICES["gpu"]) == plans[0]


def test_a_group_that_goes_through_all_products_takes_each_ones_modulus() -> None:
    problem = WORKLOAD.problem({"m": 4096, "n": 4096, "k": 4096}, "float64", {"trans_b": "T"})
    plan = WORKLOAD.plan(problem, {**WORKLOAD.default(problem, DEVICES["gpu"]), "REDUCE": 1}, DEVICES["gpu"])
    _, products = (step for step in plan.steps if isinstance(step, Launch) and step.kernel == "gemm")  # leading bits, then all
    assert products.global_size[2] == 1
    assert "reduced(sums[r][c / 2 + e], problem)" in products.source.text


@pytest.mark.parametrize("columns", [64, 128, 192, 256])
def test_remainders_of_every_tile_are_stored_once(columns: int) -> None:
    """By lines of 128 or 64 columns, which divide the tile's: what lies beyond is another group's."""
    device = datasheet("sm_90")
    assert device is not None
    layout = {"a": Layout((640, 1)), "b": Layout((640, 1)), "c": Layout((1536, 1))}
    sizes = {"m": 2048, "n": 1536, "k": 640}
    problem = workloads.get("gemm").problem(sizes, "int8", {"trans_a": "N", "trans_b": "T"}, layout)
    problem = replace(problem, dtype=REMAINDERS, options={**problem.options, "moduli": "256 255"})
    point = replace(tile(128, columns, 4), MAPS=1)
    (step,) = gemm_plan.build(problem, point, device, Extras(storage.Batch(2, 2048 * 640, 1536 * 640, 2048 * 1536))).steps
    assert isinstance(step, Launch)
    after = step.source.text.split("remainders pass through local memory")[1]
    end, width = map(int, re.findall(r"for \(int c = 0; c < (\d+); c \+= (\d+)\)", after)[0])
    assert end == columns
    assert columns % width == 0


def test_groups_that_make_bytes_follow_how_an_operand_lies() -> None:
    """With k fast few rows, as long as they may be, which are near when they are read again; else, and on processors, neighbouring ones."""
    sizes = {"m": 4096, "n": 4096, "k": 4096}
    for kind, groups in (("gpu", [(256, 1, 1), (64, 8, 1)]), ("cpu", [(16, 4, 1)] * 2)):
        problem = WORKLOAD.problem(sizes, "float64")
        plan = WORKLOAD.plan(problem, WORKLOAD.default(problem, DEVICES[kind]), DEVICES[kind])
        assert [step.local_size for step in plan.steps if isinstance(step, Launch) and step.kernel == "residues_cut"] == groups
    short = WORKLOAD.problem({"m": 512, "n": 512, "k": 100}, "float64")
    plan = WORKLOAD.plan(short, WORKLOAD.default(short, DEVICES["gpu"]), DEVICES["gpu"])
    assert isinstance(plan.steps[0], Launch)
    assert plan.steps[0].local_size == (64, 4, 1)


@pytest.mark.drawn(1 / 4)
@pytest.mark.skipif(cuda_compiler.available() is not None, reason=f"no CUDA compiler: {cuda_compiler.available()}")
@pytest.mark.parametrize("dtype", numbers.COUNT)
def test_kernels_fit_the_registers(dtype: str) -> None:
    problem = WORKLOAD.problem({"m": 4096, "n": 4096, "k": 4096}, dtype, {"trans_b": "T"})
    hopper = replace(DEVICES["gpu"], capabilities=capabilities("sm_90"))
    device = (DEVICES["gpu"], hopper)[new_seed(f"{dtype} units") % 2]
    plan = WORKLOAD.plan(problem, {**WORKLOAD.default(problem, device), "REDUCE": new_seed(dtype) % 2}, device)
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
    config = {"LANES": 16, "ROWS": 4, "WGS": 64, "REDUCE": reduce}
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
    config = {"LANES": 16, "ROWS": 4, "WGS": 64, "REDUCE": 1}
    device = replace(INFO, architecture="sm_80", capabilities=capabilities("sm_80"))
    given = Inputs({"a": a.ravel(), "b": b.ravel(), "c": np.full(m * n, np.nan, np.float32)}, {"alpha": 1.0, "beta": 0.0})
    after, verdict = run(PtxDevice(device, limit=30_000_000), WORKLOAD, problem, config, given)
    assert verdict.ok, verdict.message
    with np.errstate(invalid="ignore"):
        found, exact = after["c"].reshape(m, n), a.astype(np.float64) @ b
    assert (found[1] == exact[1]).all()
    usual = [0, 2]
    assert (np.abs(found[usual] - exact[usual]) <= 2.0**-23 * (np.abs(a[usual]).astype(np.float64) @ np.abs(b))).all()
