"""OpenCL libraries that nobody registered are used, those that somebody did are kept, and the user's own choice wins."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from portatile.device.opencl import icd


@pytest.fixture
def system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A system's folder of registrations, and nothing else installed."""
    folder = tmp_path / "vendors"
    folder.mkdir()
    monkeypatch.setattr(icd, "SYSTEM_VENDORS", folder)
    for finder in ("_nvidia", "_intel", "_prefix"):
        monkeypatch.setattr(icd, finder, list)
    monkeypatch.setattr(icd, "_load_error", lambda library: "")
    monkeypatch.delenv("OCL_ICD_VENDORS", raising=False)
    monkeypatch.setenv("PORTATILE_CACHE_DIR", str(tmp_path / "cache"))
    return folder


def library(folder: Path, name: str) -> Path:
    made = folder / name
    made.write_bytes(b"")
    return made


def test_nothing_unregistered_changes_nothing(system: Path) -> None:
    (system / "a.icd").write_text("liba.so\n")
    with icd.vendors() as findings:
        assert "OCL_ICD_VENDORS" not in os.environ
    assert [f.level for f in findings] == ["ok"]


def test_unregistered_library_is_added_to_the_systems(system: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (system / "a.icd").write_text("liba.so\n")
    extra = library(tmp_path, "libnvidia-opencl.so.1")
    monkeypatch.setattr(icd, "_nvidia", lambda: [extra])
    with icd.vendors() as findings:
        folder = Path(os.environ["OCL_ICD_VENDORS"])
        texts = sorted(file.read_text().strip() for file in folder.glob("*.icd"))
    assert texts == sorted(["liba.so", str(extra)])
    assert "OCL_ICD_VENDORS" not in os.environ
    assert any("not registered" in f.detail for f in findings)
    with icd.vendors():
        assert Path(os.environ["OCL_ICD_VENDORS"]) == folder


def test_registered_library_is_not_added_again(system: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (system / "nvidia.icd").write_text("libnvidia-opencl.so.1\n")
    extra = library(tmp_path, "libnvidia-opencl.so.1")
    monkeypatch.setattr(icd, "_nvidia", lambda: [extra])
    assert icd.unregistered(icd.registered(system)) == []


def test_broken_registration_is_told_and_mended(system: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (system / "intel64.icd").write_text("/home/builder/libintelocl.so\n")
    extra = library(tmp_path, "libintelocl.so")
    monkeypatch.setattr(icd, "_intel", lambda: [extra])
    with icd.vendors() as findings:
        folder = Path(os.environ["OCL_ICD_VENDORS"])
        assert [file.read_text().strip() for file in folder.glob("*.icd")] == [str(extra)]
    broken = [f for f in findings if f.level == "broken"]
    assert len(broken) == 1
    assert "/home/builder/libintelocl.so" in broken[0].detail
    assert broken[0].remedy


def test_library_that_does_not_load_is_told(system: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    damaged = library(tmp_path, "libintelocl.so")
    found = icd._describe_extra(damaged)
    assert found.level == "broken"
    assert str(damaged) in found.detail
    (system / "a.icd").write_text("libno-such-opencl.so.9\n")
    assert icd._describe(icd.registered(system)[0]).level == "broken"


def test_users_own_folder_is_left_alone(system: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(icd, "_nvidia", lambda: [library(tmp_path, "libnvidia-opencl.so.1")])
    monkeypatch.setenv("OCL_ICD_VENDORS", str(tmp_path))
    with icd.vendors() as findings:
        assert os.environ["OCL_ICD_VENDORS"] == str(tmp_path)
    assert "honoured" in findings[0].detail
    monkeypatch.setenv("OCL_ICD_VENDORS", str(tmp_path / "missing"))
    with icd.vendors() as findings:
        assert any(f.level == "broken" and "does not exist" in f.detail for f in findings)


def test_unwritable_cache_takes_a_temporary_folder(system: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("PORTATILE_CACHE_DIR", str(tmp_path / "file"))
    monkeypatch.setattr(icd, "_nvidia", lambda: [library(tmp_path, "libnvidia-opencl.so.1")])
    with icd.vendors():
        assert len(list(Path(os.environ["OCL_ICD_VENDORS"]).glob("*.icd"))) == 1


def test_nvidia_needs_its_kernel_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = library(tmp_path, "libnvidia-opencl.so.1")
    monkeypatch.setattr(icd, "_NVIDIA_FOLDERS", (str(tmp_path),))
    monkeypatch.setattr(icd, "_NVIDIA_NODES", (str(tmp_path / "no-such-node"),))
    assert icd._nvidia() == []
    monkeypatch.setattr(icd, "_NVIDIA_NODES", (str(tmp_path),))
    assert icd._nvidia() == [found]


def test_platform_registered_twice_is_listed_once(tmp_path: Path) -> None:
    """PoCL, whose wheel registers itself, a second time through a private folder: as in a container that mounts it again."""
    pyopencl = pytest.importorskip("pyopencl")
    copies = sorted((Path(pyopencl.__file__).parent / ".libs").glob("libpocl*.so"))
    if not copies:
        pytest.skip("PoCL's wheel is not installed")
    script = f"""
from pathlib import Path
from portatile.device.opencl import icd
icd.unregistered = lambda known: [Path({str(copies[0])!r})]
from portatile import device
print(len([d for d in device.devices() if "PoCL 3.0-rc2" in d.info.compiler]))
print([f.detail for f in device.findings() if "not registered" in f.detail])
"""
    environment = {**os.environ, "PORTATILE_CACHE_DIR": str(tmp_path)}
    environment.pop("OCL_ICD_VENDORS", None)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, env=environment, check=True)
    count, extra = done.stdout.splitlines()
    assert count == "1"
    assert str(copies[0]) in extra
