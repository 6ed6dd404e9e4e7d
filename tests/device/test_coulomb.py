"""The Coulomb potential: Parboil's published cases, slices and volumes of any size, points on atoms, every mistake a caller can make."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from portatile import workloads
from portatile.device.base import Device
from portatile.device.buffer import Buffer
from portatile.errors import ArgumentError
from portatile.measure import runs
from portatile.records import Config, DeviceInfo, Plan, Problem
from portatile.routines.coulomb import coulomb_potential
from portatile.workload import Inputs
from portatile.workloads import operands
from portatile.workloads.coulomb import Coulomb
from portatile.workloads.coulomb.reference import coordinates, potential
from support.checking import check
from support.seeds import new_seed

pytestmark = pytest.mark.thinned(1 / 3)  # what it computes is asked of PoCL for other cases every time

WORKLOAD = workloads.get("coulomb")
GOLDEN = Path(__file__).parents[1] / "data" / "parboil" / "cp_small_ref.txt"
SMALL: Config = {
    "WGX": 8, "WGY": 4, "SPLIT": 1, "PX": 2, "PY": 1, "VL": 1, "CHUNK": 64, "UNROLL": 2,
    "RSQRT": "rsqrt", "POLY": 0, "DEGREE": 3, "RESIDENT": 0,
}  # fmt: skip
CONFIGS: dict[str, Config] = {
    "rsqrt": SMALL,
    "native": {**SMALL, "RSQRT": "native", "CHUNK": 0},
    "approx": {**SMALL, "RSQRT": "approx", "PY": 2},
    "half by polynomials": {**SMALL, "POLY": 1},
    "sliced": {**SMALL, "SPLIT": 2, "UNROLL": 1},
    "wide": {**SMALL, "WGX": 1, "WGY": 1, "VL": 16, "POLY": 4, "PY": 2, "CHUNK": 0},
    "vectors of the library": {**SMALL, "WGX": 1, "WGY": 2, "VL": 4},
    "constant memory": {**SMALL, "WGX": 16, "WGY": 2, "CHUNK": -64},
    "constant memory, sliced": {**SMALL, "WGX": 32, "WGY": 1, "SPLIT": 2, "PX": 4, "PY": 2, "CHUNK": -1024, "UNROLL": 4},
    "constant memory, polynomials": {**SMALL, "WGX": 32, "WGY": 1, "CHUNK": -64, "POLY": 1, "RSQRT": "approx"},
    "constant memory, vectors": {**SMALL, "WGX": 1, "WGY": 1, "VL": 8, "CHUNK": -64, "POLY": 2},
    "16 x 1": {**SMALL, "WGX": 16, "WGY": 1, "PX": 8},
    "16 x 32": {**SMALL, "WGX": 16, "WGY": 32, "PX": 8},
}


def atoms_in(box: tuple[float, float, float], count: int, purpose: str) -> NDArray[np.float32]:
    rng = np.random.default_rng(new_seed(purpose))
    return np.concatenate([rng.random((count, 3)) * box, rng.uniform(-1, 1, (count, 1))], 1).astype(np.float32)


def check_potential(
    got: NDArray[np.float32], atoms: NDArray[np.float32], spacing: tuple[float, ...], origin: tuple[float, ...] = (0, 0, 0)
) -> None:
    nz, ny, nx = (1, *got.shape)[-3:]
    rows = np.arange(nz * ny)
    values, scale = potential(atoms.astype(np.float64), [np.arange(nx), rows % ny, rows // ny], [*origin, *spacing])
    assert np.all(np.abs(got.reshape(values.shape) - values) <= (len(atoms) + 40) * 2.0**-24 * scale)


def libc_random(seed: int) -> Iterator[int]:
    """The numbers of the GNU C library's ``rand`` after ``srand(seed)``: an additive feedback generator of lags 3 and 31."""
    state = [seed]
    for _ in range(30):
        state.append(16807 * state[-1] % 2147483647)
    state += state[:3]
    place = 34
    while True:
        state.append((state[-31] + state[-3]) % 2**32)
        if place >= 344:
            yield state[-1] >> 1
        place += 1


def test_the_generator_is_libcs() -> None:
    assert list(islice(libc_random(1), 3)) == [1804289383, 846930886, 1681692777]


@pytest.mark.thinned(1 / 3)
@pytest.mark.parametrize("name", CONFIGS)
def test_every_kernel_is_right(device: Device, name: str) -> None:
    rng = np.random.default_rng(new_seed(name))
    checked = 0
    for problem in WORKLOAD.awkward(WORKLOAD.problem(dict.fromkeys(WORKLOAD.sizes, 64))):
        if WORKLOAD.space(problem, device.info).violated(CONFIGS[name]) is None:
            verdict = check(device, WORKLOAD, problem, CONFIGS[name], rng)
            assert verdict.ok, f"{problem.sizes}: {verdict.message}"
            checked += 1
    assert checked or device.info.kind != ("cpu" if CONFIGS[name]["RSQRT"] == "rsqrt" else "gpu")


def parboils_atoms(count: int, side: int) -> NDArray[np.float32]:
    """Those of Parboil's CP for a grid of ``side`` x ``side`` points.

    Parboil keeps the box's extent as integers, 12 x 12 x 0 for 128 points: every atom lies in the plane of the points.
    """
    unit = np.array(list(islice(libc_random(54321), 4 * count)), np.float32).reshape(count, 4) / np.float32(2147483647)
    extent = side // 10
    return (unit * np.array([extent, extent, 0, 2]) - np.array([0, 0, 0, 1])).astype(np.float32)


def checksum(got: NDArray[np.float32]) -> float:
    """The sum of the values clamped to 20, which Parboil compares within 0.5 %."""
    return float(np.clip(got.astype(np.float64), -20, 20).sum())


def test_parboils_small_case(device: Device) -> None:
    """128^2 points and 100 atoms: the checksum and the rows that the file shows."""
    result = coulomb_potential(parboils_atoms(100, 128), (128, 128), 0.1, device=device.info.id)
    header, published, *rows = GOLDEN.read_text().splitlines()
    assert header.split() == ["128", "128", "1", "100"]
    assert checksum(result) == pytest.approx(float(published), rel=0.005)
    golden = np.array([row.split() for row in rows if row.strip()], float)
    assert golden.shape[1] == 128
    assert np.allclose(result[: len(golden)], golden, rtol=0.005, atol=0.005)


@pytest.mark.parametrize(
    ("side", "count", "published", "exact", "strip"),
    [(256, 200, 8.029e4, 80294.14, None), (512, 40_000, 1.493e4, 14928.16, -112146.60)],
)
def test_parboils_larger_checksums(device: Device, side: int, count: int, published: float, exact: float, strip: float | None) -> None:
    """As they were published, to four digits within 0.5 %, and more closely the sum that rsqrt in float32 gives.

    On a processor, which takes ten seconds for the largest, its first 64 rows: their sum in float64 is ``strip``.
    """
    atoms = parboils_atoms(count, side)
    if strip is not None and device.info.kind == "cpu":
        assert checksum(coulomb_potential(atoms, (64, side), 0.1, device=device.info.id)) == pytest.approx(strip, rel=5e-4)
        return
    result = checksum(coulomb_potential(atoms, (side, side), 0.1, device=device.info.id))
    assert result == pytest.approx(published, rel=0.005)
    assert result == pytest.approx(exact, rel=5e-4)


def test_the_quadratic_keeps_to_parboils_tolerance(device: Device) -> None:
    """512^2 points and 40 000 atoms with DEGREE=2: the checksum, and values within 0.5 % or 0.005 of float64's at some points.

    On a processor, which takes seconds for these, a sixteenth of them, as dense.
    """
    side, count = (512, 40_000) if device.info.kind == "gpu" else (256, 10_000)
    problem = WORKLOAD.problem({"atoms": count, "nx": side, "ny": side, "nz": 1})
    usual = WORKLOAD.default(problem, device.info)
    config: Config = {**usual, "DEGREE": 2}
    assert int(config["POLY"]) > 0
    assert WORKLOAD.space(problem, device.info).violated(config) is None
    atoms = parboils_atoms(count, side)
    result = np.full(side * side, np.nan, np.float32)
    scalars = {name: 0.1 if name in ("dx", "dy", "dz") else 0.0 for name in WORKLOAD.scalars}
    given = Inputs({"atoms": atoms.ravel(), "potential": result}, scalars)
    queue = device.default_queue()
    with runs.loaded(device, problem, config) as executable, runs.placed(device, queue, given) as memory:
        executable.run(queue, memory, scalars)
        queue.download(result, memory["potential"])
    if side == 512:
        assert checksum(result) == pytest.approx(1.493e4, rel=0.005)
    rng = np.random.default_rng(new_seed("quadratic"))
    rows, columns = (np.sort(rng.choice(side, 40, replace=False)) for _ in range(2))
    exact, _ = potential(atoms.astype(np.float64), [columns, rows, 0 * rows], [0.0, 0.0, 0.0, 0.1, 0.1, 0.1])
    error = np.abs(result.reshape(side, side)[np.ix_(rows, columns)] - exact)
    assert np.all(error <= np.maximum(0.005, 0.005 * np.abs(exact))), f"{error.max()} at most"


@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (17, 67), (1, 1, 1), (5, 3, 7), (3, 16, 32), (0, 4), (2, 0, 3)])
def test_any_grid(device: Device, shape: tuple[int, ...]) -> None:
    atoms = atoms_in((7.0, 2.0, 1.0), 61, str(shape))
    spacing, origin = (0.25, 0.125, 0.3), (0.1, -0.2, 0.7)
    result = coulomb_potential(atoms, shape, spacing, origin, device=device.info.id)
    assert result.shape == shape
    check_potential(result, atoms, spacing, origin)


def test_no_atoms_no_potential(device: Device) -> None:
    assert not coulomb_potential(np.empty((0, 4), np.float32), (3, 5), 0.1, device=device.info.id).any()


def test_a_point_on_an_atom_is_infinite(device: Device) -> None:
    """As IEEE arithmetic has it: infinities of the charge's sign, NaN without charge or where infinities meet."""
    x = np.array([0, 1, 2, 3, 3, 40], np.float32)
    atoms = np.stack([x, 0 * x, 0 * x, np.array([2, -2, 0, 1, -1, 1], np.float32)], 1)
    for width in (5, 64):
        row = coulomb_potential(atoms, (1, width), 1.0, device=device.info.id)[0]
        assert row[0] == np.inf
        assert row[1] == -np.inf
        assert np.isnan(row[2:4]).all()
        assert np.isfinite(row[4:40]).all()
        assert width == 5 or row[40] == np.inf


class ForGpus(Coulomb):
    """The text that a GPU is given, on any device: it looks for atoms on points chunk by chunk."""

    def plan(self, problem: Problem, config: Config, device: DeviceInfo) -> Plan:
        return super().plan(problem, config, replace(device, kind="gpu"))


@pytest.mark.thinned(1 / 3)
@pytest.mark.parametrize("chunk", [64, -64])
@pytest.mark.parametrize("degree", [2, 3])
@pytest.mark.parametrize(("origin", "spacing", "first"), [(0.0, 0.25, 0), (-3.0, 0.1, 40), (1.0e6, 0.01, 3), (2.0, 0.0, 0)])
def test_atoms_on_points_of_polynomials(device: Device, degree: int, origin: float, spacing: float, first: int, chunk: int) -> None:
    """Some atoms of one chunk lie on points, and others on the lines between them: infinities there and nowhere else."""
    rng = np.random.default_rng(new_seed(f"{origin} {spacing}"))
    config: Config = {**SMALL, "RSQRT": "approx", "POLY": 1, "DEGREE": degree, "WGX": 4, "WGY": 2, "PY": 2, "CHUNK": chunk}
    atoms, nx, ny = 600 if degree == 2 else 200, 19, 9
    problem = WORKLOAD.problem({"atoms": atoms, "nx": nx, "ny": ny, "nz": 1})
    assert WORKLOAD.space(problem, replace(device.info, kind="gpu")).violated({**config, "WGX": 8, "WGY": 4}) is None
    x, y = coordinates(np.arange(nx), origin, spacing), coordinates(np.arange(ny) + first, origin, spacing)

    def alter(inputs: Inputs) -> Inputs:
        placed = operands.view(inputs.operands["atoms"], problem.layout["atoms"], (atoms, 4))
        placed[:, :2] = origin + rng.uniform(0, max(nx * spacing, 1.0), (atoms, 2))
        placed[:, 2] = rng.choice((0.0, 0.5), atoms)
        placed[:, 3] = rng.uniform(0.1, 1, atoms)
        for atom in (70, 71, 75):
            placed[atom, :3] = x[rng.integers(nx)], y[rng.integers(ny)], 0.0
        placed[150, 0] = x[3]
        scalars = {"x0": origin, "y0": origin, "z0": 0.0, "dx": spacing, "dy": spacing, "dz": 1.0, "y_first": float(first), "z_first": 0.0}
        return replace(inputs, scalars=scalars)

    verdict = check(device, ForGpus(), problem, config, rng, alter)
    assert verdict.ok, verdict.message


def test_grid_coordinates_are_rounded_once() -> None:
    """The tie that a sum rounded to float64 first would send the wrong way."""
    exact = coordinates(np.array([2**23 + 1]), 1.0, 1 + 2.0**-23)[0]  # 2^23 + 3 + 2^-23, between two numbers of float32
    assert exact == 2**23 + 3
    near = coordinates(np.array([1]), 2.0**24, 1 + 2.0**-23)[0]  # a little above the middle of 2^24 and 2^24 + 2
    assert near == 2**24 + 2
    tie = coordinates(np.array([3]), -(2.0**-40), float(np.float32(2**24 + 2)))[0]  # 3 * 2^24 + 6 less 2^-40: below the middle
    assert tie == 3 * 2**24 + 4


def test_out_is_used(device: Device) -> None:
    atoms = atoms_in((2.0, 2.0, 2.0), 20, "out")
    for shape in ((6, 9), (2, 6, 9)):
        out = np.full(shape, np.nan, np.float32)
        assert coulomb_potential(atoms, shape, 0.25, out=out, device=device.info.id) is out
        check_potential(out, atoms, (0.25,) * 3)
    wide = np.full((6, 12), np.nan, np.float32)
    coulomb_potential(atoms, (6, 9), 0.25, out=wide[:, 1:10], device=device.info.id)
    check_potential(wide[:, 1:10].copy(), atoms, (0.25,) * 3)
    assert np.isnan(wide[:, [0, 10, 11]]).all()


def test_rows_of_a_wider_table_are_read_in_place(device: Device) -> None:
    table = np.concatenate([atoms_in((2.0, 2.0, 2.0), 20, "table"), np.full((20, 3), np.nan, np.float32)], 1)
    result = coulomb_potential(table[:, :4], (6, 9), 0.25, device=device.info.id)
    check_potential(result, table[:, :4], (0.25,) * 3)


@pytest.mark.parametrize("shape", [(6, 9), (2, 6, 9)])
def test_buffers_stay_on_their_device(device: Device, shape: tuple[int, ...]) -> None:
    atoms = atoms_in((2.0, 2.0, 2.0), 20, "buffers")
    there = Buffer.from_numpy(atoms, device)
    result = coulomb_potential(there, shape, 0.25)
    assert isinstance(result, Buffer)
    check_potential(result.numpy(), atoms, (0.25,) * 3)
    out = Buffer.empty(shape, np.float32, device)
    assert coulomb_potential(there, shape, 0.25, out=out) is out
    assert np.array_equal(out.numpy(), result.numpy())


def test_mistakes_are_told(device: Device) -> None:
    atoms = atoms_in((2.0, 2.0, 2.0), 20, "mistakes")
    where = device.info.id
    for wrong, complaint in (
        (atoms[:, :3], "n x 4"),
        (atoms.astype(np.float64), "float32"),
        (atoms[:, 0], "two dimensions"),
        (np.asfortranarray(atoms), "column-major"),
    ):
        with pytest.raises(ArgumentError, match=complaint):
            coulomb_potential(wrong, (4, 4), 0.1, device=where)
    for shape in ((4,), (1, 2, 3, 4), (4, -1), (4, 2.5), 4):
        with pytest.raises(ArgumentError, match="shape="):
            coulomb_potential(atoms, shape, 0.1, device=where)  # type: ignore[arg-type]
    for spacing in ((0.1, 0.2), (0.1, 0.2, np.inf), "abc"):
        with pytest.raises(ArgumentError, match="spacing="):
            coulomb_potential(atoms, (4, 4), spacing, device=where)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="origin="):
        coulomb_potential(atoms, (4, 4), 0.1, (0.0, np.nan, 0.0), device=where)
    for out, complaint in (
        (np.empty((4, 5), np.float32), "out has shape"),
        (np.empty((4, 4), np.float64), "float32"),
        (np.empty((4, 4), np.float32, order="F"), "row-major"),
        (np.broadcast_to(np.float32(0), (4, 4)), "out"),
    ):
        with pytest.raises(ArgumentError, match=complaint):
            coulomb_potential(atoms, (4, 4), 0.1, out=out, device=where)
    with pytest.raises(ArgumentError, match="contiguous"):
        coulomb_potential(atoms, (2, 4, 4), 0.1, out=np.empty((2, 5, 4), np.float32)[:, :4], device=where)
    with pytest.raises(ArgumentError, match="overlaps"):
        coulomb_potential(atoms, (4, 4), 0.1, out=atoms[:4], device=where)
    with pytest.raises(ArgumentError, match="along an axis"):
        WORKLOAD.plan(WORKLOAD.problem({"atoms": 1, "nx": 2**24 + 1, "ny": 1, "nz": 1}), SMALL, device.info)


@pytest.mark.parametrize("distance", [2e-19, 1e-10, 1.0, 1e10, 1e19])
def test_the_bound_holds_at_both_ends_of_the_distances_that_it_is_stated_for(device: Device, distance: float) -> None:
    atoms = np.array([[distance, 0, 0, 1.5], [0, -distance, 0, -0.5]], np.float32)
    result = coulomb_potential(atoms, (1, 1), 1.0, device=device.info.id)
    charges, places = atoms[:, 3].astype(np.float64), atoms[:, :3].astype(np.float64)
    terms = charges / np.sqrt((places**2).sum(1))
    assert abs(float(result[0, 0]) - terms.sum()) <= (len(atoms) + 320) * 2.0**-24 * np.abs(terms).sum()
    for words in ("2e-19 to 1e19", "nearest to"):
        assert words in (coulomb_potential.__doc__ or "")
