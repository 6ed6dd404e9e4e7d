"""OpenCL libraries that nobody registered are used, those that somebody did are kept, and the user's own choice wins."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from portatile.device.opencl import icd


@pytest.fixture
def system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> icd.Installation:
    """A system's folder of registrations, and nothing else installed; every library loads."""
    folder = tmp_path / "vendors"
    folder.mkdir()
    monkeypatch.delenv("OCL_ICD_VENDORS", raising=False)
    monkeypatch.setenv("PORTATILE_CACHE_DIR", str(tmp_path / "cache"))
    return icd.Installation(folder, (), lambda library: "")


def having(system: icd.Installation, library: Path) -> icd.Installation:
    """The same with one library that nobody registered."""
    return replace(system, finders=(lambda: [library],))


def library(folder: Path, name: str) -> Path:
    made = folder / name
    made.write_bytes(b"")
    return made


def test_nothing_unregistered_changes_nothing(system: icd.Installation) -> None:
    (system.vendors / "a.icd").write_text("liba.so\n")
    with icd.vendors(system) as findings:
        assert "OCL_ICD_VENDORS" not in os.environ
    assert [f.level for f in findings] == ["ok"]


def test_unregistered_library_is_added_to_the_systems(system: icd.Installation, tmp_path: Path) -> None:
    (system.vendors / "a.icd").write_text("liba.so\n")
    extra = library(tmp_path, "libnvidia-opencl.so.1")
    system = having(system, extra)
    with icd.vendors(system) as findings:
        folder = Path(os.environ["OCL_ICD_VENDORS"])
        texts = sorted(file.read_text().strip() for file in folder.glob("*.icd"))
    assert texts == sorted(["liba.so", str(extra)])
    assert "OCL_ICD_VENDORS" not in os.environ
    assert any("not registered" in f.detail for f in findings)
    with icd.vendors(system):
        assert Path(os.environ["OCL_ICD_VENDORS"]) == folder


def test_registered_library_is_not_added_again(system: icd.Installation, tmp_path: Path) -> None:
    (system.vendors / "nvidia.icd").write_text("libnvidia-opencl.so.1\n")
    extra = library(tmp_path, "libnvidia-opencl.so.1")
    system = having(system, extra)
    assert system.unregistered(icd.registered(system.vendors)) == []


def test_broken_registration_is_told_and_mended(system: icd.Installation, tmp_path: Path) -> None:
    (system.vendors / "intel64.icd").write_text("/home/builder/libintelocl.so\n")
    extra = library(tmp_path, "libintelocl.so")
    system = having(system, extra)
    with icd.vendors(system) as findings:
        folder = Path(os.environ["OCL_ICD_VENDORS"])
        assert [file.read_text().strip() for file in folder.glob("*.icd")] == [str(extra)]
    broken = [f for f in findings if f.level == "broken"]
    assert len(broken) == 1
    assert "/home/builder/libintelocl.so" in broken[0].detail
    assert broken[0].remedy


def test_library_that_does_not_load_is_told(system: icd.Installation, tmp_path: Path) -> None:
    system = replace(system, load_error=icd.load_error)
    damaged = library(tmp_path, "libintelocl.so")
    result = system.describe_extra(damaged)
    assert result.level == "broken"
    assert str(damaged) in result.detail
    (system.vendors / "a.icd").write_text("libno-such-opencl.so.9\n")
    assert system.describe(icd.registered(system.vendors)[0]).level == "broken"


def test_users_own_folder_is_left_alone(system: icd.Installation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    system = having(system, library(tmp_path, "libnvidia-opencl.so.1"))
    monkeypatch.setenv("OCL_ICD_VENDORS", str(tmp_path))
    with icd.vendors(system) as findings:
        assert os.environ["OCL_ICD_VENDORS"] == str(tmp_path)
    assert "honoured" in findings[0].detail
    monkeypatch.setenv("OCL_ICD_VENDORS", str(tmp_path / "missing"))
    with icd.vendors(system) as findings:
        assert any(f.level == "broken" and "does not exist" in f.detail for f in findings)


def test_unwritable_cache_takes_a_temporary_folder(system: icd.Installation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("PORTATILE_CACHE_DIR", str(tmp_path / "file"))
    system = having(system, library(tmp_path, "libnvidia-opencl.so.1"))
    with icd.vendors(system):
        assert len(list(Path(os.environ["OCL_ICD_VENDORS"]).glob("*.icd"))) == 1


def test_nvidia_needs_its_kernel_driver(tmp_path: Path) -> None:
    result = library(tmp_path, "libnvidia-opencl.so.1")
    assert icd.nvidia([str(tmp_path)], [str(tmp_path / "no-such-node")]) == []
    assert icd.nvidia([str(tmp_path)], [str(tmp_path)]) == [result]


def test_platform_registered_twice_is_listed_once(tmp_path: Path) -> None:
    """PoCL, whose wheel registers itself, a second time through a private folder: as in a container that mounts it again."""
    pyopencl = pytest.importorskip("pyopencl")
    copies = sorted((Path(pyopencl.__file__).parent / ".libs").glob("libpocl*.so"))
    if not copies:
        pytest.skip("PoCL's wheel is not installed")
    script = f"""
from pathlib import Path
from portatile.device.opencl import icd
icd.Installation.unregistered = lambda machine, known: [Path({str(copies[0])!r})]
from portatile import device
print(len([d for d in device.devices() if "PoCL 3.0-rc2" in d.info.compiler]))
print([f.detail for f in device.findings() if "not registered" in f.detail])
"""
    environment = {**os.environ, "PORTATILE_CACHE_DIR": str(tmp_path)}
    environment.pop("OCL_ICD_VENDORS", None)
    completed = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, env=environment, check=True)
    count, extra = completed.stdout.splitlines()
    assert count == "1"
    assert str(copies[0]) in extra
