"""Where a stranger may start from: no home, no PATH, devices and factors of the wrong kind. It works, or one line says what to do."""

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
assert np.allclose(portatile.matmul(a, a), a @ a)
"""
A = np.random.default_rng(6).random((3, 3))


@pytest.mark.skipif(sys.platform != "linux", reason="the folder is one of Linux")
def test_a_home_that_cannot_be_written(tmp_path: Path) -> None:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("XDG_", "POCL_", "PORTATILE_"))}
    env = {**kept, "HOME": "/proc", "TMPDIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", _PRODUCT], env=env, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert [path.name for path in tmp_path.glob("portatile-*")] == [f"portatile-{os.getuid()}"]


def test_caches_are_sheltered_only_where_they_must(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "new"))
    settings.shelter_caches()
    assert os.environ["XDG_CACHE_HOME"] == str(tmp_path / "new")
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    settings.shelter_caches()
    assert Path(os.environ["XDG_CACHE_HOME"]).parent == tmp_path
    assert Path(os.environ["XDG_CACHE_HOME"]).stat().st_mode & 0o077 == 0


def test_without_a_path_nothing_aborts(tmp_path: Path) -> None:
    env = {name: value for name, value in os.environ.items() if name != "PATH"} | {"PORTATILE_CACHE_DIR": str(tmp_path)}
    text = "import portatile\nfor device in portatile.devices(): print(device.info.platform)"
    done = subprocess.run([sys.executable, "-c", text], env=env, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "Portable Computing Language" not in done.stdout


def test_a_store_in_a_folder_that_nobody_may_enter(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def refuse(path: Path) -> bool:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setenv("PORTATILE_DATA_DIR", str(tmp_path))
    monkeypatch.setattr(Path, "is_file", refuse)
    assert list(store._leaders_of(tmp_path / "results.sqlite", "gemm")) == []


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: portatile.gemm(A, A, alpha=1j), "alpha=1j is no real number"),  # type: ignore[arg-type]
        (lambda: portatile.gemm(A, A, beta="1"), "beta='1' is no real number"),  # type: ignore[arg-type]
        (lambda: portatile.trsm(A, A, alpha=None), "alpha=None is no real number"),  # type: ignore[arg-type]
        (lambda: portatile.symm(A, A, alpha=[1, 2]), "is no real number"),  # type: ignore[arg-type]
        (lambda: portatile.syrk(A, alpha="x"), "is no real number"),  # type: ignore[arg-type]
        (lambda: portatile.trmm(A, A, alpha=np.complex64(1)), "is no real number"),  # type: ignore[arg-type]
        (lambda: portatile.matmul(np.ma.masked_greater(A, 0.0), A), "masked"),
        (lambda: portatile.matmul(A, A, device=0), "by its id"),  # type: ignore[arg-type]
        (lambda: portatile.tune("gemm", m=2, n=2, k=2, device=portatile.get_device()), "by its id"),  # type: ignore[call-overload]
        (lambda: portatile.explain("gemm", m=2, n=2, k=2, dtype=np.dtype("f2")), "float16"),  # type: ignore[arg-type]
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


def test_a_result_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PORTATILE_DATA_DIR", str(tmp_path))
    found = portatile.tune("matmul", m=8, n=8, k=8, budget="2")
    assert repr(found).startswith(f"<matmul m=8 n=8 k=8 float32 on {found.device.id}: ")
    assert len(repr(found)) < 200


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
