"""MRI-Q and F^H d: Parboil's data, odd sizes and strides, every trigonometry, reduced phases, and every mistake a caller can make."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from portatile import workloads
from portatile.device.base import Device
from portatile.device.buffer import Buffer
from portatile.errors import ArgumentError
from portatile.formats.parboil import read_image, read_mri
from portatile.measure import runs
from portatile.measure.runs import MeasurementLength, MeasurementOptions
from portatile.records import Config
from portatile.routines.mri import mri_fhd, mri_q
from support.checking import check
from support.seeds import new_seed

pytestmark = [pytest.mark.thinned(1 / 3), pytest.mark.unoptimised]

WORKLOAD = workloads.get("mri")
DATA = Path(__file__).parents[1] / "data" / "parboil"
NAMES = ("kx", "ky", "kz", "phi_r", "phi_i", "x", "y", "z")
SMALL: Config = {"WGS": 8, "SPLIT": 1, "PV": 2, "VL": 1, "CHUNK": 64, "UNROLL": 2, "TRIG": "accurate", "POLY": 0, "RESIDENT": 0}
CONFIGS: dict[str, Config] = {
    "accurate": SMALL,
    "native": {**SMALL, "TRIG": "native"},
    "half by polynomials": {**SMALL, "TRIG": "native", "POLY": 1},
    "sliced": {**SMALL, "SPLIT": 2, "UNROLL": 1},
    "wide": {**SMALL, "WGS": 1, "VL": 16, "POLY": 2},
    "constant memory": {**SMALL, "WGS": 32, "CHUNK": -64},
    "constant memory, sliced": {**SMALL, "WGS": 64, "SPLIT": 2, "CHUNK": -512, "TRIG": "native", "POLY": 1},
    "constant memory, vectors": {**SMALL, "WGS": 1, "VL": 8, "CHUNK": -64, "POLY": 2},
    "few": {**SMALL, "WGS": 16},
    "many": {**SMALL, "WGS": 512, "PV": 4, "TRIG": "native", "POLY": 1},
    "as many as there may be": {**SMALL, "WGS": 1024, "PV": 1},
}


def vectors(samples: int, voxels: int, purpose: str) -> dict[str, NDArray[np.float32]]:
    rng = np.random.default_rng(new_seed(purpose))
    return {name: rng.uniform(-2, 2, voxels if name in "xyz" else samples).astype(np.float32) for name in (*NAMES, "d_r", "d_i")}


def expected(v: dict[str, NDArray[np.float32]], data: str) -> tuple[NDArray[np.complex128], float]:
    """The sums, and the sum of the terms' magnitudes."""
    wide = {name: array.astype(np.float64) for name, array in v.items()}
    phase = sum(np.multiply.outer(wide[r], wide["k" + r]) for r in "xyz")
    weight = (wide["phi_r"] - 1j * wide["phi_i"]) * (wide[data + "_r"] + 1j * wide[data + "_i"])
    return np.exp(2j * np.pi * phase) @ weight, float(np.abs(weight).sum())


def agrees(got: tuple[NDArray[np.float32], NDArray[np.float32]], v: dict[str, NDArray[np.float32]], data: str) -> None:
    """Twelve turns at most: 12 pi u 12 for the phase (see ``Mri.bound``), and 4e-5 for functions and additions."""
    want, magnitude = expected(v, data)
    error = np.abs(got[0] + 1j * got[1] - want)
    assert np.all(error <= 1e-4 * magnitude + 1e-30)


@pytest.mark.parametrize("kind", ["q", "fhd"])
@pytest.mark.parametrize("name", CONFIGS)
def test_every_kernel_is_right(device: Device, name: str, kind: str) -> None:
    rng = np.random.default_rng(new_seed(name))
    checked = 0
    for problem in WORKLOAD.awkward(WORKLOAD.problem({"samples": 64, "voxels": 64}, options={"kind": kind})):
        if WORKLOAD.space(problem, device.info).violated(CONFIGS[name]) is None:
            verdict = check(device, WORKLOAD, problem, CONFIGS[name], rng)
            assert verdict.ok, f"{problem.sizes}: {verdict.message}"
            checked += 1
    assert checked or device.info.kind == "gpu"


@pytest.mark.parametrize("routine", ["q", "fhd"])
def test_parboils_small_case(device: Device, routine: str) -> None:
    """Within 1e-4 of the largest magnitude or 0.2 %, Parboil's tolerance; F^H d with d = phi is Q."""
    data, where = read_mri(DATA / "32_32_32_dataset.bin"), device.info.id
    given = [getattr(data, name) for name in NAMES]
    result = mri_q(*given, device=where) if routine == "q" else mri_fhd(*given, data.phi_r, data.phi_i, device=where)
    golden = read_image(DATA / "32_32_32_dataset.out")
    largest = max(float(np.abs(part).max()) for part in golden)
    for part, want in zip(result, golden, strict=True):
        assert part.dtype == np.float32
        assert np.all(np.abs(part - want) <= np.maximum(1e-4 * largest, 0.002 * np.abs(want)))


@pytest.mark.parametrize(("samples", "voxels"), [(1, 1), (5, 3), (257, 131), (0, 4), (3, 0)])
def test_any_size(device: Device, samples: int, voxels: int) -> None:
    v = vectors(samples, voxels, f"{samples} x {voxels}")
    agrees(mri_q(*(v[name] for name in NAMES), device=device.info.id), v, "phi")
    agrees(mri_fhd(*(v[name] for name in NAMES), v["d_r"], v["d_i"], device=device.info.id), v, "d")


def test_columns_of_matrices_are_read_in_place(device: Device) -> None:
    v = vectors(33, 47, "strided")
    k, r = np.stack([v["kx"], v["ky"], v["kz"]], 1), np.stack([v["x"], v["y"], v["z"]], 1)
    result = mri_q(*k.T, v["phi_r"], v["phi_i"], *r.T, device=device.info.id)
    agrees(result, v, "phi")


def test_buffers_stay_on_their_device(device: Device) -> None:
    v = vectors(33, 47, "buffers")
    there = {name: Buffer.from_numpy(array, device) for name, array in v.items()}
    q = mri_q(*(there[name] for name in NAMES))
    assert isinstance(q[0], Buffer)
    agrees((q[0].numpy(), q[1].numpy()), v, "phi")
    fhd = mri_fhd(*(there[name] for name in (*NAMES, "d_r", "d_i")))
    agrees((fhd[0].numpy(), fhd[1].numpy()), v, "d")


def test_whole_turns_do_not_count(device: Device) -> None:
    """Phases of a million turns that float32 holds exactly: the image of their fractions, to the functions' own accuracy."""
    one = np.ones(8, np.float32)
    fraction = np.arange(8, dtype=np.float32) / 8
    zero = 0 * one
    q_r, q_i = mri_q(one[:1], one[:1], zero[:1], one[:1], zero[:1], fraction, np.float32(2**20) * one, zero, device=device.info.id)
    assert np.allclose(q_r, np.cos(2 * np.pi * fraction), atol=2e-6)
    assert np.allclose(q_i, np.sin(2 * np.pi * fraction), atol=2e-6)


@pytest.mark.parametrize("name", ["accurate", "half by polynomials", "wide"])
def test_relaxed_mathematics_keeps_whole_turns_apart(device: Device, name: str) -> None:
    """A compiler that may reorder sums must not undo the rounding that takes whole turns off."""
    problem = WORKLOAD.problem({"samples": 65, "voxels": 131})
    config = CONFIGS[name] if device.info.kind == "cpu" or name == "wide" else {**CONFIGS[name], "WGS": 32}
    if WORKLOAD.space(problem, device.info).violated(config) is not None:
        pytest.skip(f"{device.info.id} cannot run {name}")
    if not device.info.can.relaxed_math:
        pytest.skip("the driver's compiler does not survive relaxed mathematics")
    length = MeasurementLength(samples=1, seconds=0.0, burst=0.0)
    assert (
        runs.timed(device, problem, config, MeasurementOptions(length, ("-cl-fast-relaxed-math",), new_seed(name), strict=False)).error <= 1
    )


def test_mistakes_are_told(device: Device) -> None:
    v = vectors(5, 4, "mistakes")
    right = [v[name] for name in NAMES]
    for place, wrong, complaint in (
        (1, v["ky"][:4], "ky has 4 elements"),
        (7, v["z"][:3], "z has 3 elements"),
        (0, v["kx"].astype(np.float64), "kx has dtype float64"),
        (3, v["phi_r"][:, None], "phi_r has shape"),
        (4, [1.0] * 5, "phi_i is a list"),
        (5, v["x"][::-1], "x has a stride of -4 bytes"),
    ):
        given = [*right]
        given[place] = wrong  # type: ignore[call-overload]
        with pytest.raises(ArgumentError, match=complaint):
            mri_q(*given, device=device.info.id)
    with pytest.raises(ArgumentError, match="d_i has 3"):
        mri_fhd(*right, v["d_r"], v["d_i"][:3], device=device.info.id)
    with pytest.raises(ArgumentError, match="different places"):
        mri_q(Buffer.from_numpy(v["kx"], device), *right[1:])
