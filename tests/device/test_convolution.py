"""Convolutions on every device: each form and boundary, SciPy as the peer, transposes, three dimensions, wavelets, mistakes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import ndimage

from portatile import wavelets, workloads
from portatile.device.base import Device
from portatile.device.buffer import Buffer
from portatile.errors import ArgumentError
from portatile.records import Config, DeviceInfo, Launch, Plan, Problem
from portatile.routines.convolve import Boundary, convolve1d, convolve3d_separable, filter_bank1d, passes3d
from portatile.routines.convolve_volumes import SeparableFilter
from portatile.runtime import separable
from portatile.wavelets import MAGICFILTER
from portatile.workloads import operands
from portatile.workloads.convolution import BIGDFT, Convolution
from support.checking import check
from support.seeds import new_seed

pytestmark = [pytest.mark.thinned(1 / 3), pytest.mark.unoptimised]

WORKLOAD = workloads.get("convolution")
STAGED: Config = {**BIGDFT, "FORM": "staged", "WGS": 32, "WINDOW": 4, "VECTOR": 2, "PADDING": 2}
FORMS: dict[str, Config] = {
    "bigdft": BIGDFT,
    "staged": STAGED,
    "lanes": {**STAGED, "LANES": 2, "ORDER": "j", "UNROLL": 4, "VECTOR": 1, "PADDING": 1},
    "overlay": {**STAGED, "OVERLAY": True, "WGS": 64, "UNROLL": 8},
    "block": {**BIGDFT, "FORM": "block", "WGS": 1, "WINDOW": 4, "VECTOR": 2, "PADDING": 0},
}
Maker = Callable[..., NDArray[Any]]


def test_a_block_holds_whole_vectors(device: Device) -> None:
    """One that is narrower than a vector would write nothing; a vector fits a register."""
    wide, narrow = (
        WORKLOAD.space(
            WORKLOAD.problem({"n": 512, "ndat": 2000}),
            replace(device.info, kind="cpu", architecture=architecture, capabilities=replace(device.info.can, wide_arithmetic=True)),
        )
        for architecture in ("skylake-avx512", "znver3")
    )
    config = {**FORMS["block"], "TI": 64, "TJ": 16, "WINDOW": 16, "VECTOR": 16}
    assert wide.violated(config) is None
    assert "TJ % VECTOR" in (wide.violated({**config, "TJ": 8}) or "")
    assert "widest" in (narrow.violated(config) or "")  # PoCL crashes on vectors that the processor, as it knows it, has no registers for


@pytest.fixture(params=["float32", "float64"])
def dtype(request: pytest.FixtureRequest, device: Device) -> str:
    if request.param == "float64" and not device.info.fp64:
        pytest.skip(f"{device.info.name} has no double precision")
    return str(request.param)


@pytest.fixture
def random(dtype: str) -> Maker:
    rng = np.random.default_rng(new_seed(dtype))
    return lambda *shape: rng.uniform(-1, 1, shape).astype(dtype)


def close(got: NDArray[Any], expected: NDArray[Any], dtype: str, taps: int = 16, passes: int = 1) -> bool:
    """Within gamma_taps for each pass, for values and sums of taps of about one."""
    return got.shape == expected.shape and np.allclose(got, expected, rtol=0, atol=8 * passes * operands.gamma(taps, dtype))


def dense(taps: NDArray[Any], lower: int, n: int, boundary: str) -> NDArray[np.float64]:
    """The matrix of a filter, output by input, as it is defined."""
    last = lower + len(taps) - 1
    outputs = range(-last, n - lower) if boundary == "grow" else range(-lower, n - last) if boundary == "shrink" else range(n)
    matrix = np.zeros((len(outputs), n))
    for row, i in enumerate(outputs):
        for place, tap in enumerate(taps, lower):
            if boundary == "periodic" or 0 <= i + place < n:
                matrix[row, (i + place) % n] += tap
    return matrix


@pytest.mark.thinned(1 / 3)
@pytest.mark.parametrize("bank", ["single", "analysis", "synthesis"])
@pytest.mark.parametrize("form", FORMS)
def test_forms_and_boundaries(device: Device, form: str, bank: str) -> None:
    """Every form and every bank periodic and not, even and odd numbers of points, rows padded and operands offset.

    Each pair has one of the two: a kernel takes seconds to compile on some devices.
    """
    rng = np.random.default_rng(new_seed(f"{form} {bank}"))
    dtype = "float64" if bank == "single" and device.info.fp64 else "float32"
    periodic = (list(FORMS).index(form) + ["single", "analysis", "synthesis"].index(bank)) % 2 == 0
    boundary = "periodic" if periodic else ("zero", "grow", "shrink")[int(rng.integers(3))]
    options = {"boundary": boundary, "bank": bank, "taps": 18, "lower": -5}
    bare = WORKLOAD.problem({"n": 33 if periodic else 34, "ndat": 21}, dtype, options)
    layout = {name: operands.padded(shape, 1, 3) for name, shape in WORKLOAD.shapes(bare).items()}
    problem = WORKLOAD.problem(bare.sizes, dtype, options, layout)
    assert WORKLOAD.space(problem, device.info).violated(FORMS[form]) is None
    verdict = check(device, WORKLOAD, problem, FORMS[form], rng)
    assert verdict.ok, f"{options}: {verdict.message}"


class ForGpus(Convolution):
    """The text that a GPU is given, on any device: groups that lie inside take another way there."""

    def plan(self, problem: Problem, config: Config, device: DeviceInfo) -> Plan:
        return super().plan(problem, config, replace(device, kind="gpu"))


@pytest.mark.thinned(1 / 3)
@pytest.mark.parametrize(
    "case",
    [("bigdft", "zero", "single"), ("staged", "periodic", "analysis"), ("overlay", "grow", "synthesis"), ("overlay", "grow", "single")],
)
def test_the_text_for_gpus(device: Device, case: tuple[str, str, str]) -> None:
    """Groups inside and on every edge, aligned and not; a plain filter's rows that are not begin where a vector does."""
    form, boundary, bank = case
    rng = np.random.default_rng(new_seed(" ".join(case)))
    for pad in (0, 1):
        options = {"boundary": boundary, "bank": bank}
        bare = WORKLOAD.problem({"n": 56, "ndat": 46}, "float32", options)
        layout = {name: operands.padded(shape, pad, pad) for name, shape in WORKLOAD.shapes(bare).items()}
        verdict = check(device, ForGpus(), WORKLOAD.problem(bare.sizes, "float32", options, layout), FORMS[form], rng)
        assert verdict.ok, f"{case}, {pad}: {verdict.message}"


class Narrow(Convolution):
    """With no more than two work-groups along the second axis of a launch."""

    most_groups = 2


@pytest.mark.parametrize("order", ["i", "j"])
def test_groups_in_three_dimensions(device: Device, order: str) -> None:
    """More work-groups than the second axis of a launch may have: some of the third's lie outside."""
    workload = Narrow()
    problem = workload.problem({"n": 70, "ndat": 75}, "float32")
    config = {**STAGED, "ORDER": order}
    (launch,) = workload.plan(problem, config, device.info).steps
    assert isinstance(launch, Launch)
    assert launch.global_size[1:] == (2, 3)
    verdict = check(device, workload, problem, config, np.random.default_rng(new_seed(order)))
    assert verdict.ok, verdict.message


def test_a_row_that_32_bits_cannot_skip(device: Device) -> None:
    """One row, whose leading dimension in bytes is more than an int holds."""
    bare = WORKLOAD.problem({"n": 1, "ndat": 37}, "float32")
    layout = {**bare.layout, "psi": replace(bare.layout["psi"], strides=(2**29, 1))}
    problem = WORKLOAD.problem(bare.sizes, "float32", layout=layout)
    (launch,) = WORKLOAD.plan(problem, STAGED, device.info).steps
    assert isinstance(launch, Launch)
    assert dict(launch.source.defines)["INDEX"] == "long"
    verdict = check(device, WORKLOAD, problem, STAGED, np.random.default_rng(new_seed("wide")))
    assert verdict.ok, verdict.message


@pytest.mark.parametrize("shape", [(1, 1), (3, 70), (129, 131)])
def test_the_peer_is_scipy(device: Device, dtype: str, random: Maker, shape: tuple[int, int]) -> None:
    """ndimage.correlate1d with wrap and with zeros, where its window is that of the taps from -8 to 7."""
    psi, taps = random(*shape), random(16)
    for boundary, mode in (("periodic", "wrap"), ("zero", "constant")):
        expected = ndimage.correlate1d(psi.astype(np.float64), taps.astype(np.float64), axis=0, mode=mode)
        result = convolve1d(psi, taps, lower=-8, boundary=boundary, device=device.info.id)  # type: ignore[arg-type]
        assert result.dtype == psi.dtype
        assert close(result, expected, dtype)


@pytest.mark.thinned(1 / 3)
@pytest.mark.parametrize("boundary", ["periodic", "zero", "grow", "shrink"])
@pytest.mark.parametrize(("count", "lower"), [(1, 0), (5, 3), (29, -14)])
def test_the_definition(device: Device, dtype: str, random: Maker, boundary: Boundary, count: int, lower: int) -> None:
    """Against the filter's matrix, with windows that do not hold their own point, and kept transposed."""
    psi, taps = random(31, 6), random(count)
    expected = dense(taps, lower, 31, boundary) @ psi
    result = convolve1d(psi, taps, lower=lower, boundary=boundary, transposed=True, device=device.info.id)
    assert result.flags.c_contiguous
    assert close(result, expected.T, dtype, count)


def test_the_magic_filter_and_its_transpose(device: Device, dtype: str, random: Maker) -> None:
    """The matrices that the routines apply are each other's transpose, element for element, periodic and free."""
    for n in (16, 21):
        unit = np.eye(n, dtype=dtype)
        forward = wavelets.magicfilter(unit, device=device.info.id)
        assert np.array_equal(wavelets.magicfilter(unit, transpose=True, device=device.info.id), forward.T)
        assert close(forward, dense(np.array(MAGICFILTER.taps), -8, n, "periodic"), dtype)
        grown = wavelets.magicfilter(unit, boundary="grow", device=device.info.id)
        wide = np.eye(n + 15, dtype=dtype)
        assert np.array_equal(wavelets.magicfilter(wide, transpose=True, boundary="shrink", device=device.info.id), grown.T)


def test_axes_of_any_number_and_order(device: Device, dtype: str, random: Maker) -> None:
    """One to four axes, column-major and sliced arrays; the result has the axes of the argument."""
    taps = random(4)
    for shape in ((23,), (5, 2, 3, 2)):
        psi = random(*shape)
        expected = ndimage.correlate1d(psi.astype(np.float64), taps, axis=0, mode="wrap")
        assert close(convolve1d(psi, taps, lower=-2, device=device.info.id), expected, dtype)
        kept = convolve1d(psi, taps, lower=-2, transposed=True, device=device.info.id)
        assert close(kept, np.moveaxis(expected, 0, -1), dtype)
    psi = random(20, 12)
    for view in (np.asfortranarray(psi), psi[:, 2:9], psi[::2]):
        expected = ndimage.correlate1d(view.astype(np.float64), taps, axis=0, mode="wrap")
        assert close(convolve1d(view, taps, lower=-2, device=device.info.id), expected, dtype)


def test_three_dimensions(device: Device, dtype: str, random: Maker) -> None:
    """The order is restored; each axis may have its own boundary; grow followed by the transposed shrink restores the shape."""
    array, taps = random(9, 14, 5), random(7)
    expected = array.astype(np.float64)
    for axis in range(3):
        expected = ndimage.correlate1d(expected, taps, axis=axis, mode="wrap")
    result = convolve3d_separable(array, taps, lower=-3, device=device.info.id)
    assert result.flags.c_contiguous
    assert close(result, expected, dtype, 7, 30)
    mixed = convolve3d_separable(array, taps, lower=-3, boundary=("grow", "shrink", "zero"), device=device.info.id)
    matrices = [dense(taps, -3, n, kind) for n, kind in zip(array.shape, ("grow", "shrink", "zero"), strict=True)]
    assert close(mixed, np.einsum("ai,bj,ck,ijk->abc", *matrices, array.astype(np.float64)), dtype, 7, 30)
    grown = wavelets.magicfilter3d(array, boundary="grow", device=device.info.id)
    assert grown.shape == (24, 29, 20)
    back = wavelets.magicfilter3d(grown, transpose=True, boundary="shrink", device=device.info.id)
    matrices = [dense(np.array(MAGICFILTER.taps), -8, n, "grow") for n in array.shape]
    expected = np.einsum("ai,bj,ck,ijk->abc", *(m.T @ m for m in matrices), array.astype(np.float64))
    assert close(back, expected, dtype, 16, 6)


def test_buffers_stay_on_their_device(device: Device, dtype: str, random: Maker) -> None:
    taps = random(5)
    psi, array = random(17, 6), random(4, 5, 6)
    with Buffer.from_numpy(psi, device) as a, Buffer.from_numpy(array, device) as b:
        flat, kept = convolve1d(a, taps, lower=-2), convolve1d(b, taps, lower=-2, transposed=True)
        transposed, cube = convolve1d(b, taps, lower=-2), convolve3d_separable(b, taps, lower=-2)
        assert isinstance(flat, Buffer)
        assert np.array_equal(flat.numpy(), convolve1d(psi, taps, lower=-2, device=device.info.id))
        assert np.array_equal(kept.numpy(), convolve1d(array, taps, lower=-2, transposed=True, device=device.info.id))
        assert np.array_equal(transposed.numpy(), convolve1d(array, taps, lower=-2, device=device.info.id))
        assert np.array_equal(cube.numpy(), convolve3d_separable(array, taps, lower=-2, device=device.info.id))


def test_three_dimensions_into_a_buffer(device: Device) -> None:
    """Of calls of several sizes in a row, one in place: what lies between their passes is each one's own."""
    rng = np.random.default_rng(new_seed("out"))
    taps = rng.uniform(-1, 1, 5).astype(np.float32)
    arrays = [rng.uniform(-1, 1, shape).astype(np.float32) for shape in ((4, 5, 6), (9, 3, 8), (4, 5, 6))]
    there = [Buffer.from_numpy(array, device) for array in arrays]
    results = [Buffer.empty(array.shape, np.float32, device) for array in arrays[:2]] + there[2:]
    for given, out in zip(there, results, strict=True):
        assert convolve3d_separable(given, taps, lower=-2, out=out).memory is out.memory
    for array, out in zip(arrays, results, strict=True):
        expected = convolve3d_separable(array, taps, lower=-2, device=device.info.id)
        assert np.array_equal(out.numpy(), expected)
    with pytest.raises(ArgumentError, match="the result is a C-contiguous"):
        convolve3d_separable(there[0], taps, lower=-2, out=results[1])
    with pytest.raises(ArgumentError, match="can only go to another such array"):
        convolve3d_separable(arrays[0], taps, lower=-2, out=results[0])
    with pytest.raises(ArgumentError, match="not of a batch"):
        wavelets.magicfilter3d(Buffer.empty((2, 3, 4, 5), np.float32, device), out=results[0])
    assert wavelets.magicfilter3d(there[0], out=results[0]).shape == (4, 5, 6)


@pytest.mark.thinned(1 / 3)
def test_wavelets_transform_and_return(device: Device, dtype: str, random: Maker) -> None:
    """Synthesis undoes analysis, which keeps the norm, in one and three dimensions; with free boundaries, too."""
    for n in (2, 46):
        x = random(n, 7)
        coefficients = wavelets.analysis(x, device=device.info.id)
        assert np.linalg.norm(coefficients) == pytest.approx(np.linalg.norm(x), rel=1e-5)
        assert close(wavelets.synthesis(coefficients, device=device.info.id), x, dtype, 18, 2)
    values = wavelets.synthesis(x, boundary="grow", device=device.info.id)
    assert values.shape == (46 + 14, 7)
    assert close(wavelets.analysis(values, boundary="shrink", device=device.info.id), x, dtype, 18, 2)
    assert wavelets.analysis(random(4, 3, 5), device=device.info.id).shape == (4, 3, 5)
    cube = random(8, 6, 4)
    there = wavelets.analysis3d(cube, device=device.info.id)
    returned = wavelets.synthesis3d(there, device=device.info.id)
    assert np.linalg.norm(returned - cube) <= (1e-13 if dtype == "float64" else 1e-5) * np.linalg.norm(cube)
    low = wavelets.analysis(x, device=device.info.id)[:23]
    indices = (2 * np.arange(23)[:, None] + np.arange(-7, 9)) % 46
    assert close(low, np.einsum("t,itj->ij", np.array(wavelets.SCALING.taps), x[indices].astype(np.float64)), dtype)


def test_the_kinetic_operator(device: Device, dtype: str) -> None:
    """Plane waves are its eigenvectors, with half the square of the wave vector."""
    x, y = np.meshgrid(2 * np.pi * np.arange(32) / 32, 2 * np.pi * np.arange(48) / 48, indexing="ij")
    wave = np.cos(2 * x + 3 * y).astype(dtype)
    result = wavelets.kinetic(wave, spacing=(2 * np.pi / 32, 2 * np.pi / 48), device=device.info.id)
    assert np.allclose(result, 6.5 * wave, rtol=0, atol=1e-8 if dtype == "float64" else 1e-2)


def test_the_kinetic_operator_of_a_buffer(device: Device) -> None:
    """On the device from beginning to end, and as SciPy has it: three axes of different spacings, which come back in order."""
    psi = np.random.default_rng(new_seed("kinetic")).random((14, 9, 20)).astype(np.float32)
    steps, taps = (0.5, 1.0, 2.0), np.array(wavelets.KINETIC.taps)
    for boundary, mode in (("periodic", "grid-wrap"), ("zero", "grid-constant")):
        parts = [ndimage.correlate1d(psi.astype(np.float64), -0.5 / h**2 * taps, axis, mode=mode) for axis, h in enumerate(steps)]
        there = wavelets.kinetic(Buffer.from_numpy(psi, device), spacing=steps, boundary=boundary)
        here = wavelets.kinetic(psi, spacing=steps, boundary=boundary, device=device.info.id)
        for result in (there.numpy(), here):
            assert result.dtype == psi.dtype
            assert np.allclose(result, sum(parts), rtol=0, atol=1e-4)


def test_nothing_to_do(device: Device) -> None:
    taps = np.ones(3, np.float32)
    assert convolve1d(np.empty((0, 4), np.float32), taps, lower=0, device=device.info.id).shape == (0, 4)
    assert convolve1d(np.empty((4, 0), np.float32), taps, lower=0, boundary="grow", device=device.info.id).shape == (6, 0)
    assert convolve1d(np.empty((2, 4), np.float32), taps, lower=0, boundary="shrink", device=device.info.id).shape == (0, 4)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: convolve1d(x, [1.0], lower=0, boundary="mirror"), "boundary='mirror'"),
        (lambda x: convolve1d(x, [], lower=0), "0 taps"),
        (lambda x: convolve1d(x, np.ones(65), lower=0), "65 taps"),
        (lambda x: convolve1d(x, [[1.0]], lower=0), "one-dimensional"),
        (lambda x: convolve1d(x, ["a"], lower=0), "real numbers"),
        (lambda x: convolve1d(x, [1.0], lower=64), "lower=64"),
        (lambda x: convolve1d(x, [1.0], lower=0.5), "lower=0.5"),
        (lambda x: convolve1d(x.astype(int), [1.0], lower=0), "dtype"),
        (lambda x: convolve1d(x.tolist(), [1.0], lower=0), "a list"),
        (lambda x: convolve1d(np.float32(1), [1.0], lower=0), "psi is"),
        (lambda x: convolve1d(x, np.ones(10), lower=0, boundary="shrink"), "too few"),
        (lambda x: convolve1d(x[:0], np.ones(3), lower=0, boundary="grow"), "too few"),
        (lambda x: filter_bank1d(x, [1.0, 2.0], lower=0, bank="analysis"), "two rows"),
        (lambda x: filter_bank1d(x, [[1j], [2j]], lower=0, bank="analysis"), "real numbers"),
        (lambda x: filter_bank1d(x, [[1.0], [2.0]], lower=0, bank="haar"), "bank='haar'"),
        (lambda x: convolve3d_separable(x, [1.0], lower=0), "3 dimensions"),
        (lambda x: convolve3d_separable(x[None], [1.0], lower=0, boundary=("zero", "zero")), "2 boundaries"),
        (lambda x: wavelets.analysis(x), "must be even"),
        (lambda x: wavelets.synthesis(x[:4], boundary="zero"), "boundary='zero' is not one of periodic"),
        (lambda x: wavelets.kinetic(x, spacing=(1.0, 2.0, 3.0)), "spacing"),
        (lambda x: wavelets.kinetic(x, boundary="grow"), "keeps the size"),
    ],
)
def test_mistakes_are_told(call: Callable[[NDArray[Any]], object], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        call(np.ones((5, 4), np.float32))


@pytest.mark.thinned(1 / 3)
@pytest.mark.parametrize("boundaries", [("periodic",) * 3, ("grow", "zero", "shrink"), ("shrink", "grow", "periodic")])
@pytest.mark.parametrize("bank", ["single", "analysis"])
def test_three_passes_are_one_plan(device: Device, boundaries: tuple[Boundary, ...], bank: str) -> None:
    """A Buffer's passes, and those of a part of one: to the bit what one pass after the other gives."""
    rng = np.random.default_rng(new_seed(f"{boundaries} {bank}"))
    shape = (18, 20, 22)
    psi, filters = rng.random((2, *shape)), rng.random((1 if bank == "single" else 2, 6))
    there = Buffer.from_numpy(psi, device)
    for place in (0, 1):
        want: Any = psi[place]
        for kind in boundaries:
            options = {"lower": -2, "boundary": kind, "transposed": True, "device": device.info.id}
            want = convolve1d(want, filters[0], **options) if bank == "single" else filter_bank1d(want, filters, bank=bank, **options)
        out = Buffer.empty(want.shape, want.dtype, device)
        for _ in range(2):
            assert passes3d(there[place], SeparableFilter.of(filters, -2, bank, boundaries), None, out) is out
            assert np.array_equal(out.numpy(), want)
        assert passes3d(there[place], SeparableFilter.of(filters, -2, bank, boundaries), None).shape == want.shape
    with pytest.raises(ArgumentError, match="out is a Buffer of shape"):
        passes3d(there[0], SeparableFilter.of(filters, -2, bank, boundaries), None, Buffer.empty((3, 3, 3), np.float64, device))
    with pytest.raises(ArgumentError, match="is not one of periodic"):
        passes3d(there[0], SeparableFilter.of(filters, -2, bank, ("periodic", "periodic", "none")), None)


@pytest.mark.parametrize(
    "case",
    [("single", ("grow", "periodic", "zero"), 16), ("analysis", ("zero", "periodic", "shrink"), 6)],
)
def test_two_axes_at_once(device: Device, monkeypatch: pytest.MonkeyPatch, case: tuple[str, tuple[Boundary, ...], int]) -> None:
    """As a GPU filters a volume, on every device: one launch for the first two axes, one for the third; as axis by axis."""
    bank, boundaries, taps = case
    monkeypatch.setattr(separable, "_KINDS", (device.info.kind,))
    monkeypatch.setattr(separable, "_BANKS", (bank,))
    rng = np.random.default_rng(new_seed(bank))
    psi, filters = rng.random((22, 64, 14)).astype(np.float32), rng.random((1 if bank == "single" else 2, taps))
    want: Any = psi
    for kind in boundaries:
        want = (
            filter_bank1d(want, filters, lower=-5, boundary=kind, transposed=True, bank=bank)
            if bank != "single"
            else convolve1d(want, filters[0], lower=-5, boundary=kind, transposed=True)
        )
    there = Buffer.from_numpy(psi, device)
    passes = separable.Volume(psi.shape, "float32", bank, tuple(separable.AxisPass(kind, taps, -5) for kind in boundaries))
    assert len(separable.between(passes, device.info)) == 1
    result = passes3d(there, SeparableFilter.of(filters, -5, bank, boundaries), None).numpy()
    assert result.shape == want.shape
    assert np.allclose(result, want, rtol=0, atol=8 * operands.gamma(3 * taps, "float32") * np.abs(want).max())
