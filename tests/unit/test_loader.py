"""The loader of exported folders finds NVIDIA's OpenCL library where nobody registered it, and keeps the system's."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from portatile.shipping import loader


class Loader:
    """In pyopencl's place: notes which libraries OpenCL's loader would be told of."""

    def __init__(self) -> None:
        self.told: dict[str, str] | None = None

    def get_platforms(self) -> list[str]:
        folder = os.environ.get("OCL_ICD_VENDORS")
        self.told = None if folder is None else {file.name: file.read_text().strip() for file in Path(folder).glob("*.icd")}
        return ["platform"]


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A container with NVIDIA's kernel driver and its library in a folder ``lib``, and another maker's library registered."""
    for name in ("vendors", "lib"):
        (tmp_path / name).mkdir()
    (tmp_path / "vendors" / "other.icd").write_text("libother.so\n")
    (tmp_path / "lib" / loader._NVIDIA).write_bytes(b"")
    (tmp_path / "node").write_bytes(b"")

    def opened(name: str) -> None:
        if not Path(name).exists():
            raise OSError(name)

    monkeypatch.setattr(loader.ctypes, "CDLL", opened)
    monkeypatch.setattr(loader, "_VENDORS", tmp_path / "vendors")
    monkeypatch.setattr(loader, "_NVIDIA_FOLDERS", ("", f"{tmp_path}/lib/"))
    monkeypatch.setattr(loader, "_NVIDIA_NODES", (str(tmp_path / "node"),))
    monkeypatch.delenv("OCL_ICD_VENDORS", raising=False)
    return tmp_path


def test_an_unregistered_library_is_added_to_the_systems(machine: Path) -> None:
    (machine / "vendors" / "gone.icd").write_text("/home/builder/libgone.so\n")
    (machine / "vendors" / "nvidia.icd").write_text(f"/home/builder/{loader._NVIDIA}\n")
    fake = Loader()
    assert loader._platforms(fake) == ["platform"]
    assert fake.told == {"other.icd": "libother.so", f"{loader._NVIDIA}.icd": f"{machine}/lib/{loader._NVIDIA}"}
    assert "OCL_ICD_VENDORS" not in os.environ


@pytest.mark.parametrize("reason", ["registered", "no kernel driver", "no library", "the user's choice"])
def test_nothing_is_added(machine: Path, reason: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if reason == "registered":
        (machine / "vendors" / "nvidia.icd").write_text(f"{loader._NVIDIA}\n")
    elif reason == "no kernel driver":
        (machine / "node").unlink()
    elif reason == "no library":
        (machine / "lib" / loader._NVIDIA).unlink()
    else:
        monkeypatch.setenv("OCL_ICD_VENDORS", str(machine / "vendors"))
    fake = Loader()
    assert loader._platforms(fake) == ["platform"]
    assert fake.told == ({"other.icd": "libother.so"} if reason == "the user's choice" else None)


def test_the_library_is_used() -> None:
    """PoCL, whose wheel registers itself, as if it were NVIDIA's: it is there twice then."""
    pyopencl = pytest.importorskip("pyopencl")
    copies = sorted((Path(pyopencl.__file__).parent / ".libs").glob("libpocl*.so"))
    if not copies:
        pytest.skip("PoCL's wheel is not installed")
    counted = "print(len([chip for chip in loader._find_opencl() if 'Portable' in chip.platform]))"
    script = f"""
from pathlib import Path
from portatile.shipping import loader
loader._VENDORS, loader._NVIDIA_NODES = Path('/no-such-folder'), ('/',)
loader._NVIDIA, loader._NVIDIA_FOLDERS = {copies[0].name!r}, ({f"{copies[0].parent}/"!r},)
{counted}
"""
    environment = {name: value for name, value in os.environ.items() if name != "OCL_ICD_VENDORS"}
    run = [sys.executable, "-c", script]
    done = subprocess.run(run, capture_output=True, text=True, timeout=120, env=environment, check=True)
    assert done.stdout.split() == ["2"]
