"""Problems larger than the memory they may take: the same bits as in one piece (sums that are cut: the same value), no more memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from threading import Thread
from typing import Any

import numpy as np
import pytest

import portatile
from portatile import settings, workloads
from portatile.device.base import Device
from portatile.errors import DeviceError, UsageError
from portatile.records import Config, DeviceInfo, Problem, Value
from portatile.runtime import perform
from portatile.runtime.in_parts import slabs
from portatile.workload import Workload
from support.seeds import new_seed
from support.slabs import Case, Meter, agree, compared

pytestmark = [pytest.mark.thinned(1 / 3), pytest.mark.unoptimised]


def product(rng: np.random.Generator, device: str) -> np.ndarray:
    a, b = rng.random((301, 97), np.float32), rng.random((97, 203), np.float32)
    return portatile.matmul(a, b, device=device)


def transposed_product(rng: np.random.Generator, device: str) -> np.ndarray:
    """Column-major and padded operands, alpha and beta, a C that is read."""
    a, b, c = rng.random((90, 260)), rng.random((150, 90)), rng.random((260, 150))
    return portatile.gemm(a[:, :250], np.asfortranarray(b), c[:250].copy(), alpha=-0.5, beta=2.0, trans_a="T", trans_b="T", device=device)


def two_large_operands(rng: np.random.Generator, device: str) -> np.ndarray:
    """Neither operand fits beside slabs of the other: both are cut."""
    a, b = rng.random((400, 300), np.float32), rng.random((300, 400), np.float32)
    return portatile.matmul(a, b, device=device)


def solve(rng: np.random.Generator, device: str) -> np.ndarray:
    a = np.tril(rng.random((40, 40))) + 40 * np.eye(40)
    return portatile.trsm(a, rng.random((40, 1500)), device=device)


def solve_right(rng: np.random.Generator, device: str) -> np.ndarray:
    a = np.tril(rng.random((40, 40))) + 40 * np.eye(40)
    return portatile.trsm(a, rng.random((1500, 40)), side="R", device=device)


def convolution(rng: np.random.Generator, device: str) -> np.ndarray:
    return portatile.convolve1d(rng.random((40, 30, 41)), rng.random(16), lower=-8, device=device)


def free_convolution(rng: np.random.Generator, device: str) -> np.ndarray:
    return portatile.convolve1d(rng.random((64, 1103), np.float32)[:, :1100], rng.random(3), lower=-1, boundary="grow", device=device)


def filtered3d(rng: np.random.Generator, device: str) -> np.ndarray:
    return portatile.wavelets.magicfilter3d(rng.random((30, 22, 26)), device=device)


def potential_slice(rng: np.random.Generator, device: str) -> np.ndarray:
    return portatile.coulomb_potential(rng.random((50, 4), np.float32), (301, 71), 0.0437, (0.31, -0.2, 1.5), device=device)


def potential_volume(rng: np.random.Generator, device: str) -> np.ndarray:
    return portatile.coulomb_potential(rng.random((50, 4), np.float32), (21, 37, 33), (0.1, 0.037, 0.0711), (0.3, 0.2, -1.5), device=device)


def potential_of_large_planes(rng: np.random.Generator, device: str) -> np.ndarray:
    """A plane alone is too large, so planes are cut too."""
    return portatile.coulomb_potential(rng.random((9, 4), np.float32), (3, 200, 191), (0.1, 0.037, 0.0711), (0.3, 0.2, -1.5), device=device)


def magnetic_resonance(rng: np.random.Generator, device: str) -> np.ndarray:
    samples, voxels = rng.random((7, 60), np.float32), rng.random((3, 5003), np.float32)
    return np.stack(portatile.mri_fhd(*samples[:5], *voxels, *samples[5:], device=device))


def strided_voxels(rng: np.random.Generator, device: str) -> np.ndarray:
    samples, voxels = rng.random((5, 60), np.float32), rng.random((5003, 3), np.float32)
    return np.stack(portatile.mri_q(*samples, *voxels.T, device=device))


def stacks(rng: np.random.Generator, device: str) -> np.ndarray:
    """Stacks with gaps between their matrices and rows, factors, a C that is read."""
    a, b, c = rng.random((31, 20, 33), np.float32), rng.random((31, 33, 27), np.float32), rng.random((31, 20, 30), np.float32)
    return portatile.gemm(a, b[:, :, :24], c[:, :, :24], alpha=1.5, beta=-0.5, out=c[:, :, :24], device=device)


def one_matrix_for_all(rng: np.random.Generator, device: str) -> np.ndarray:
    """One A for the whole stack of B."""
    return portatile.matmul(rng.random((21, 40)), rng.random((57, 40, 18)), device=device)


CASES: dict[Case, int] = {
    product: 200_000,
    transposed_product: 300_000,
    two_large_operands: 400_000,
    solve: 200_000,
    solve_right: 200_000,
    convolution: 400_000,
    free_convolution: 200_000,
    filtered3d: 120_000,
    potential_slice: 40_000,
    potential_volume: 50_000,
    potential_of_large_planes: 90_000,
    magnetic_resonance: 60_000,
    strided_voxels: 60_000,
    stacks: 60_000,
    one_matrix_for_all: 150_000,
}


@pytest.fixture(autouse=True)
def nothing_remembered() -> Iterator[None]:
    perform.forget()
    yield
    perform.forget()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_slabs_give_the_same_bits(device: Device, case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    seed, limit = new_seed(case.__name__), CASES[case]
    monkeypatch.delenv("PORTATILE_MEMORY_LIMIT", raising=False)
    whole = case(np.random.default_rng(seed), device.info.id)
    perform.forget()
    monkeypatch.setenv("PORTATILE_MEMORY_LIMIT", str(limit))
    meter = Meter(device, monkeypatch)
    cut = case(np.random.default_rng(seed), device.info.id)
    assert meter.slabs >= (2 if case in (two_large_operands, potential_of_large_planes, filtered3d) else 1), "it was computed in one piece"
    assert 0 < meter.most <= limit
    agree(device, case, cut, whole)


def test_rows_that_are_computed_differently(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some of a work-item's rows take polynomials, the others the library's function: slabs begin where groups do."""
    config: Config = {"WGX": 16, "WGY": 2, "SPLIT": 1, "PX": 4, "PY": 4, "VL": 1, "CHUNK": 64, "UNROLL": 1, "POLY": 5, "DEGREE": 3}
    config |= {"RSQRT": "rsqrt", "RESIDENT": 0}
    monkeypatch.setattr(type(workloads.get("coulomb")), "default", lambda *given: config)

    def atoms(rng: np.random.Generator, selector: str) -> np.ndarray:
        return portatile.coulomb_potential(rng.random((50, 4), np.float32), (201, 71), 0.0437, (0.31, -0.2, 1.5), device=selector)

    compared(device, atoms, 40_000, monkeypatch)
    compared(device, potential_of_large_planes, 90_000, monkeypatch)


@pytest.mark.parametrize("poly", [1, 3])
def test_neighbours_that_are_computed_differently(device: Device, poly: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some voxels of a work-item take polynomials, the others the library's functions: slabs begin where groups do."""
    config: Config = {"WGS": 32, "SPLIT": 1, "PV": 8, "VL": 1, "CHUNK": 64, "UNROLL": 1, "TRIG": "accurate", "POLY": poly, "RESIDENT": 0}
    mri = workloads.get("mri")
    monkeypatch.setattr(type(mri), "default", lambda *given: config)
    compared(device, magnetic_resonance, 60_000, monkeypatch)


def test_the_configuration_is_that_of_the_whole(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few voxels have their samples shared between slices; a slab of many has not."""
    mri, gpu = workloads.get("mri"), device.info.kind == "gpu"

    def by_size(self: object, problem: Problem, info: DeviceInfo) -> Config:
        split = 2 if problem.sizes["voxels"] < 5000 else 1
        return {
            "WGS": 32 if gpu else 8,
            "SPLIT": split,
            "PV": 2,
            "VL": 1,
            "CHUNK": 64,
            "UNROLL": 1,
            "TRIG": "accurate",
            "POLY": 0,
            "RESIDENT": 0,
        }

    monkeypatch.setattr(type(mri), "default", by_size)
    compared(device, strided_voxels, 60_000, monkeypatch)


def test_what_is_called_is_configured_as_for_the_whole(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """A triangular solve, which has workspace, whose products would be summed in another order in a slab."""
    inverses: Config = {"METHOD": "invert", "NB": 64, "IB": 32, "WGS": 64, "PANEL": 16}
    monkeypatch.setattr(type(workloads.get("triangular")), "default", lambda *given: inverses)
    kind = type(workloads.get("gemm"))
    usual = kind.default
    point: dict[str, Value] = {"FORM": "generic", "TR": 2, "TC": 2, "VL": 2, "TRR": 1, "TCR": 1, "TBR": 8, "TBC": 8, "KB": 8, "TXC": False}

    def by_size(self: Workload, problem: Problem, info: DeviceInfo) -> Config:
        split = 1 if problem.sizes["n"] >= 1000 else 2
        space = self.space(problem, info)
        fixed = {name: [value] for name, value in {**point, "SPLIT_K": split}.items()}
        return next(iter(space.restricted({**space.parameters, **fixed})), usual(self, problem, info))

    monkeypatch.setattr(kind, "default", by_size)

    def solved(rng: np.random.Generator, selector: str) -> np.ndarray:
        a = np.tril(rng.random((300, 300))) + 30 * np.eye(300)
        return portatile.trsm(a, rng.random((300, 1200)), device=selector)

    compared(device, solved, 6_000_000, monkeypatch)  # which the operands alone would not take


def test_pinned_memory_is_small_and_kept(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """The system takes long to pin memory: slabs are no larger than they need be, and the next call finds that of the last."""
    monkeypatch.setattr(slabs, "_CROSSING", 1 << 16)
    pin, asked = type(device).pinned, list[int]()

    def noted(opened: Device, nbytes: int) -> Any:
        asked.append(nbytes)
        return pin(opened, nbytes)

    monkeypatch.setattr(type(device), "pinned", noted)
    psi, taps = np.random.default_rng(new_seed("pinned")).random((64, 2048)), np.random.default_rng(1).random(16)

    def filtered(limit: int) -> np.ndarray:
        with portatile.memory_limit(limit):
            return portatile.convolve1d(psi, taps, lower=-8, device=device.info.id)

    whole = filtered(1 << 30)
    assert not asked
    assert np.array_equal(filtered(psi.nbytes), whole)
    assert len(asked) == 2
    assert sum(asked) < psi.nbytes / 4
    assert np.array_equal(filtered(psi.nbytes), whole)
    assert len(asked) == 2


def test_limits_of_this_thread(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """A limit holds inside its block and for shapes that were seen before it, and stands before the environment's."""
    monkeypatch.setenv("PORTATILE_MEMORY_LIMIT", "1G")
    meter, rng = Meter(device, monkeypatch), np.random.default_rng(0)
    product(rng, device.info.id)
    with portatile.memory_limit("200K"):
        product(rng, device.info.id)
        assert meter.slabs == 1
        other = Thread(target=product, args=(rng, device.info.id))
        other.start()
        other.join()
        with portatile.memory_limit(1 << 30):
            product(rng, device.info.id)
    product(rng, device.info.id)
    assert meter.slabs == 1
    with pytest.raises(UsageError, match="memory_limit"), portatile.memory_limit(0):
        pass


def test_what_fits_is_not_cut(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PORTATILE_MEMORY_LIMIT", "1M")
    meter = Meter(device, monkeypatch)
    product(np.random.default_rng(0), device.info.id)
    assert meter.slabs == 0


def test_an_operand_past_the_largest_allocation_is_cut(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(device), "info", device.info, raising=False)
    info = device.info
    monkeypatch.setattr(device, "info", replace(info, max_allocation=100_000))
    meter = Meter(device, monkeypatch)
    rng = np.random.default_rng(new_seed("allocation"))
    a, b = rng.random((301, 97), np.float32), rng.random((97, 203), np.float32)
    assert np.allclose(portatile.matmul(a, b, device=info.id), a @ b, rtol=1e-5)
    assert meter.slabs == 1


def test_what_cannot_be_cut_is_told(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PORTATILE_MEMORY_LIMIT", "1K")
    a = np.ones((8, 4000), np.float32)
    with pytest.raises(DeviceError, match="cannot be cut further; allow more"):
        portatile.matmul(a, a.T, device=device.info.id)
    with pytest.raises(DeviceError, match=r"coulomb with atoms=1 .* cannot be cut further; allow more"):
        portatile.coulomb_potential(a[:, :4], (8, 4000), 0.1, device=device.info.id)


@pytest.mark.parametrize(("text", "expected"), [("4096", 4096), ("1.5K", 1536), ("2m", 2 << 20), ("1G", 1 << 30), ("", None)])
def test_limits_are_read(text: str, expected: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PORTATILE_MEMORY_LIMIT", text)
    assert settings.memory_limit() == expected


@pytest.mark.parametrize("text", ["much", "-5", "0", "1e999", "G", "nan"])
def test_a_wrong_limit_is_told(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PORTATILE_MEMORY_LIMIT", text)
    with pytest.raises(UsageError, match="500M"):
        settings.memory_limit()
