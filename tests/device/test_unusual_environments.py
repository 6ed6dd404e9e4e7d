"""Unusual environments and arguments: no home directory, no PATH, devices and factors of the wrong kind. One line says what to do."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import portatile
from portatile import doctor, settings, store
from portatile.errors import ArgumentError

_PRODUCT = """
import numpy as np, portatile
a = np.random.default_rng(5).random((21, 21))
assert np.allclose(portatile.matmul(a, a, device=portatile.get_device().info.id), a @ a)
"""
A = np.random.default_rng(6).random((3, 3))


@pytest.mark.skipif(sys.platform != "linux", reason="the folder is one of Linux")
def test_a_home_that_cannot_be_written(tmp_path: Path) -> None:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("XDG_", "POCL_", "PORTATILE_"))}
    env = {**kept, "HOME": "/proc", "TMPDIR": str(tmp_path), "POCL_EXTRA_BUILD_FLAGS": "-cl-opt-disable"}
    completed = subprocess.run([sys.executable, "-c", _PRODUCT], env=env, capture_output=True, text=True, timeout=120)
    assert completed.returncode == 0, completed.stderr
    assert [path.name for path in tmp_path.glob("portatile-*")] == [f"portatile-{os.getuid()}"]


@pytest.mark.skipif(sys.platform != "linux", reason="the folder is one of Linux")
def test_binaries_are_kept_without_a_home_whatever_the_device(tmp_path: Path) -> None:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("XDG_", "POCL_", "PORTATILE_"))}
    text = (
        "from portatile import cache\ncache.default().put('0' * 32, b'binary')\nprint(cache.default().get('0' * 32), cache.default().root)"
    )
    command = [sys.executable, "-W", "error", "-c", text]
    completed = subprocess.run(command, env={**kept, "HOME": "/proc", "TMPDIR": str(tmp_path)}, capture_output=True, text=True, timeout=120)
    assert completed.returncode == 0, completed.stderr
    assert completed.stdout.startswith(f"b'binary' {tmp_path}/portatile-")


def test_caches_are_sheltered_only_where_they_must(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "new"))
    settings.ensure_writable_caches()
    assert os.environ["XDG_CACHE_HOME"] == str(tmp_path / "new")
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    settings.ensure_writable_caches()
    assert Path(os.environ["XDG_CACHE_HOME"]).parent == tmp_path
    assert Path(os.environ["XDG_CACHE_HOME"]).stat().st_mode & 0o077 == 0


@pytest.mark.skipif(sys.platform != "linux", reason="the folder is one of Linux")
def test_a_pocl_cache_that_cannot_be_written_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """PoCL writes what it links there, and refuses every binary, or ends the process, where it cannot."""
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("POCL_CACHE_DIR", str(tmp_path / "file" / "pocl"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert "file/pocl cannot be written" in settings.ensure_writable_caches()
    assert Path(os.environ["POCL_CACHE_DIR"]).parent.parent == tmp_path
    assert settings.ensure_writable_caches() == ""


def test_without_a_path_nothing_aborts(tmp_path: Path) -> None:
    env = {name: value for name, value in os.environ.items() if name != "PATH"} | {"PORTATILE_CACHE_DIR": str(tmp_path)}
    text = "import portatile\nfor device in portatile.devices(): print(device.info.platform)"
    completed = subprocess.run([sys.executable, "-c", text], env=env, capture_output=True, text=True, timeout=120)
    assert completed.returncode == 0, completed.stderr
    assert "Portable Computing Language" not in completed.stdout


def test_a_store_in_a_folder_that_nobody_may_enter(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def refuse(path: Path) -> bool:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setenv("PORTATILE_DATA_DIR", str(tmp_path))
    monkeypatch.setattr(Path, "is_file", refuse)
    assert list(store.leaders_of(tmp_path / "results.sqlite", "gemm")) == []


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: portatile.gemm(A, A, alpha=1j), "alpha=1j is not a real number"),  # type: ignore[arg-type]
        (lambda: portatile.gemm(A, A, beta="1"), "beta='1' is not a real number"),  # type: ignore[arg-type]
        (lambda: portatile.trsm(A, A, alpha=None), "alpha=None is not a real number"),  # type: ignore[arg-type]
        (lambda: portatile.symm(A, A, alpha=[1, 2]), "is not a real number"),  # type: ignore[arg-type]
        (lambda: portatile.syrk(A, alpha="x"), "is not a real number"),  # type: ignore[arg-type]
        (lambda: portatile.trmm(A, A, alpha=np.complex64(1)), "is not a real number"),  # type: ignore[arg-type]
        (lambda: portatile.matmul(np.ma.masked_greater(A, 0.0), A), "masked"),
        (lambda: portatile.matmul(A, A, device=0), "by its id"),  # type: ignore[arg-type]
        (lambda: portatile.tune("gemm", m=2, n=2, k=2, device=portatile.get_device()), "by its id"),  # type: ignore[call-overload]
        (lambda: portatile.explain("gemm", m=2, n=2, k=2, dtype=np.dtype("f16")), "longdouble|float128"),  # type: ignore[arg-type]
    ],
)
def test_mistakes_are_told(call: Any, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        call()


def test_what_numpy_users_write() -> None:
    kinds: list[Any] = [np.float32, np.dtype("float32"), "float32"]
    assert len({portatile.explain("gemm", m=9, n=9, k=9, dtype=kind).explanation for kind in kinds}) == 1
    assert np.allclose(portatile.gemm(A, A, alpha=np.float32(2)), 2 * A @ A)
    assert np.allclose(portatile.gemm(A, A, alpha=np.array(3)), 3 * A @ A)
    assert np.allclose(portatile.matmul(np.ma.masked_array(A), A), A @ A)


MASKED = np.ma.masked_greater(np.random.default_rng(8).random((4, 4, 4)), 0.5)
VOLUME = np.random.default_rng(9).random((4, 6, 8))
SINGLE = np.ones(3, np.float32)
ROWS = np.frombuffer(bytes(9 * 8 + 1), np.uint8)[1:].view(np.float64).reshape(3, 3)  # at an odd address
WORDS: list[tuple[Any, str]] = [
    (lambda: portatile.convolve1d(MASKED, [1.0], lower=0), "mask"),
    (lambda: portatile.convolve1d(MASKED[0, 0], [1.0], lower=0), "mask"),
    (lambda: portatile.convolve1d(A, np.ma.masked_greater([1.0, 2.0], 1), lower=0), "taps is a masked"),
    (lambda: portatile.convolve3d_separable(MASKED, [1.0], lower=0), "mask"),
    (lambda: portatile.matmul(MASKED, MASKED), "a is a masked"),
    (lambda: portatile.wavelets.kinetic(MASKED), "mask"),
    (lambda: portatile.wavelets.density(MASKED), "mask"),
    (lambda: portatile.wavelets.apply_potential(VOLUME, np.ma.masked_greater(VOLUME, 0.5)), "potential is a masked"),
    (lambda: portatile.Buffer.from_numpy(MASKED), "mask"),
    (lambda: portatile.Buffer.from_numpy(MASKED.data).assign(MASKED), "mask"),
    (lambda: portatile.Buffer.from_numpy(A).assign([1.0]), "asarray"),  # type: ignore[arg-type]
    (lambda: portatile.Buffer.empty((2**40, 2**40), "f8"), "larger than any memory"),
    (lambda: portatile.Buffer.empty((2.5, 2), "f8"), "whole numbers"),  # type: ignore[arg-type]
    (lambda: portatile.Buffer.empty((2, 2), "float23"), "not an element type"),
    (lambda: portatile.Buffer.empty((2, 2), object), "Python objects"),
    (lambda: portatile.gemm(portatile.Buffer.from_numpy(A)[:, ::2], portatile.Buffer.from_numpy(A)), r"Buffer\.from_numpy\(a\.numpy"),
    (lambda: portatile.matmul(portatile.Buffer.from_numpy(A), A), r"Buffer\.from_numpy or \.numpy"),
    (lambda: portatile.gemm(A, A, alpha=10**400), "too large"),
    (lambda: portatile.gemm(ROWS, A), r"a\.copy\(\)"),
    (lambda: portatile.gemm(A, A, out=np.zeros((3, 6))[:, ::2]), "pass another array for the result"),
    (lambda: portatile.matmul(A, A, out=np.zeros((3, 3), int)), "pass another array for the result"),
    (lambda: portatile.matmul(A, A, out=A.tolist()), "CUDA array$"),  # type: ignore[call-overload]
    (lambda: portatile.convolve1d(A, [[1.0], [2.0, 3.0]], lower=0), "equally long"),  # type: ignore[arg-type]
    (lambda: portatile.coulomb_potential(np.ones((3, 4), np.float32), ((2, 3), 4), 1.0), "non-negative integers"),  # type: ignore[arg-type]
    (lambda: portatile.convolve3d_separable(VOLUME, [1.0], lower=0, boundary=None), "boundary=None"),  # type: ignore[arg-type]
    (lambda: portatile.wavelets.density(VOLUME.tolist()), "psi is a list"),
    (lambda: portatile.wavelets.density(np.ones(())), "one orbital"),
    (lambda: portatile.wavelets.density(VOLUME, occupation=["x"]), "'x' is not a real number"),  # type: ignore[list-item]
    (lambda: portatile.wavelets.potential_energy(None, VOLUME), "psi is a NoneType"),
    (lambda: portatile.wavelets.apply_potential(np.ones((4, 6, 8), int), VOLUME), "psi has dtype int64"),
    (lambda: portatile.wavelets.apply_potential(VOLUME, VOLUME.tolist()), "the potential is a list"),  # type: ignore[arg-type]
    (lambda: portatile.wavelets.kinetic(VOLUME, spacing="wide"), "spacing='wide'"),  # type: ignore[arg-type]
    (lambda: portatile.mri_q(*[SINGLE.tolist()] * 8), "kx is a list"),  # type: ignore[arg-type]
    (lambda: portatile.mri_q(*[np.ones(3, int)] * 8), r"kx\.astype\('float32'\)"),
    (lambda: portatile.coulomb_potential(np.ones((3, 4)), (2, 2), 1.0), r"atoms\.astype\('float32'\)"),
    (lambda: portatile.coulomb_potential(np.ones((3, 4), np.float32), (2, 2), 1e300), "range of float32"),
]


@pytest.mark.parametrize(("call", "message"), WORDS)
def test_realistic_arrays_that_do_not_do(call: Any, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        call()


def test_a_refused_call_changes_nothing() -> None:
    rng = np.random.default_rng(11)
    a, b, stack = rng.random((6, 6)), rng.random((6, 6)), rng.random((4, 6, 6))
    calls: list[Any] = [
        lambda: portatile.trsm(a, b, out=a),
        lambda: portatile.trsm(a[:3, :3], b[:3, :3], out=a[2:5, :3]),
        lambda: portatile.gemm(a, b, b, beta=1.0, out=a),
        lambda: portatile.trmm(a, b, out=a),
        lambda: portatile.symm(a, b, b, beta=1.0, out=a),
        lambda: portatile.syrk(a, b, beta=1.0, out=a),
        lambda: portatile.syr2k(a, b, b, beta=1.0, out=a),
        lambda: portatile.gemm(stack, b, stack + 1, beta=1.0, out=stack),
    ]
    for call in calls:
        before = a.copy(), stack.copy()
        with pytest.raises(ArgumentError, match="overlaps"):
            call()
        assert np.array_equal(a, before[0])
        assert np.array_equal(stack, before[1])


def test_arrays_that_do(tmp_path: Path) -> None:
    mapped = np.memmap(tmp_path / "psi", np.float64, "w+", shape=VOLUME.shape)
    mapped[...] = VOLUME
    expected = portatile.wavelets.apply_potential(VOLUME, VOLUME)
    assert np.array_equal(portatile.wavelets.apply_potential(mapped, VOLUME), expected)
    assert np.array_equal(portatile.wavelets.apply_potential(VOLUME, mapped), expected)
    charges = np.ones((3, 4), np.float32)
    there = portatile.coulomb_potential(charges, (2, 3), 0.25, (0, 0, 5))
    assert np.array_equal(portatile.coulomb_potential(charges, np.array([2, 3]), np.array(0.25), np.array([0, 0, 5])), there)  # type: ignore[arg-type]
    assert np.array_equal(portatile.wavelets.density(VOLUME, occupation=2.0), portatile.wavelets.density(VOLUME, occupation=[2.0]))  # type: ignore[arg-type]


@pytest.mark.drawn(1 / 2)
def test_a_result_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PORTATILE_DATA_DIR", str(tmp_path))
    result = portatile.tune("matmul", m=8, n=8, k=8, budget="2")
    assert repr(result).startswith(f"<matmul m=8 n=8 k=8 float32 on {result.device.id}: ")
    assert len(repr(result)) < 200


def test_doctor_tells_of_folders_that_nobody_may_enter(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    real = Path.exists

    def refuse(path: Path, **options: Any) -> bool:
        if "closed" in path.parts:
            raise PermissionError(13, "Permission denied", str(path))
        return real(path, **options)

    monkeypatch.setattr(Path, "exists", refuse)
    assert doctor._there(tmp_path)
    assert not doctor._there(tmp_path / "closed" / "x")
    assert doctor._writable("store", tmp_path / "closed" / "x", "PORTATILE_DATA_DIR").detail.endswith("will be made")
