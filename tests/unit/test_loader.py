"""The loader of exported folders finds NVIDIA's OpenCL library where nobody registered it, and keeps the system's."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from portatile.shipping import loader
from portatile.shipping.loader import opencl_devices, table
from portatile.shipping.loader.load import Loaded


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
    (tmp_path / "lib" / opencl_devices._NVIDIA).write_bytes(b"")
    (tmp_path / "node").write_bytes(b"")

    def opened(name: str) -> None:
        if not Path(name).exists():
            raise OSError(name)

    monkeypatch.setattr(opencl_devices.ctypes, "CDLL", opened)
    monkeypatch.setattr(opencl_devices, "_VENDORS", tmp_path / "vendors")
    monkeypatch.setattr(opencl_devices, "_NVIDIA_FOLDERS", ("", f"{tmp_path}/lib/"))
    monkeypatch.setattr(opencl_devices, "_NVIDIA_NODES", (str(tmp_path / "node"),))
    monkeypatch.delenv("OCL_ICD_VENDORS", raising=False)
    return tmp_path


def test_an_unregistered_library_is_added_to_the_systems(machine: Path) -> None:
    (machine / "vendors" / "gone.icd").write_text("/home/builder/libgone.so\n")
    (machine / "vendors" / "nvidia.icd").write_text(f"/home/builder/{opencl_devices._NVIDIA}\n")
    fake = Loader()
    assert opencl_devices._platforms(fake) == ["platform"]
    assert fake.told == {"other.icd": "libother.so", f"{opencl_devices._NVIDIA}.icd": f"{machine}/lib/{opencl_devices._NVIDIA}"}
    assert "OCL_ICD_VENDORS" not in os.environ


@pytest.mark.parametrize("reason", ["registered", "no kernel driver", "no library", "the user's choice"])
def test_nothing_is_added(machine: Path, reason: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if reason == "registered":
        (machine / "vendors" / "nvidia.icd").write_text(f"{opencl_devices._NVIDIA}\n")
    elif reason == "no kernel driver":
        (machine / "node").unlink()
    elif reason == "no library":
        (machine / "lib" / opencl_devices._NVIDIA).unlink()
    else:
        monkeypatch.setenv("OCL_ICD_VENDORS", str(machine / "vendors"))
    fake = Loader()
    assert opencl_devices._platforms(fake) == ["platform"]
    assert fake.told == ({"other.icd": "libother.so"} if reason == "the user's choice" else None)


def test_the_library_is_used() -> None:
    """PoCL, whose wheel registers itself, as if it were NVIDIA's: it is there twice then."""
    pyopencl = pytest.importorskip("pyopencl")
    copies = sorted((Path(pyopencl.__file__).parent / ".libs").glob("libpocl*.so"))
    if not copies:
        pytest.skip("PoCL's wheel is not installed")
    counted = "print(len([one for one in opencl_devices.find_opencl() if 'Portable' in one.platform]))"
    script = f"""
from pathlib import Path
from typing import Any
from portatile.shipping.loader import opencl_devices
opencl_devices._VENDORS, opencl_devices._NVIDIA_NODES = Path('/no-such-folder'), ('/',)
opencl_devices._NVIDIA, opencl_devices._NVIDIA_FOLDERS = {copies[0].name!r}, ({f"{copies[0].parent}/"!r},)
{counted}
"""
    environment = {name: value for name, value in os.environ.items() if name != "OCL_ICD_VENDORS"}
    run = [sys.executable, "-c", script]
    completed = subprocess.run(run, capture_output=True, text=True, timeout=120, env=environment, check=True)
    assert completed.stdout.split() == ["2"]


def exported(folder: Path) -> dict[str, Any]:
    """A folder with one problem of one launch, as it is exported."""
    operand = {"name": "x", "role": "inout", "dtype": "float32", "shape": [4, 6], "strides": [8, 1], "offset": 3, "elements": 40}
    args = [
        {"kind": "buffer", "name": "x", "dtype": "float32", "value": None},
        {"kind": "scalar", "name": "alpha", "dtype": "float32", "value": None},
        {"kind": "scalar", "name": "n", "dtype": "int32", "value": 24},
        {"kind": "local", "name": "", "dtype": "float32", "value": 64},
        {"kind": "view", "name": "x", "dtype": "float32", "value": 10, "channels": 4},
        {"kind": "buffer", "name": "t", "dtype": "float32", "value": None},
    ]
    launch = {"program": "p", "kernel": "k", "symbol": "k", "global": [64, 1, 1], "local": [16, 1, 1], "args": args}
    problem = {
        "workload": "w", "sizes": {"n": 4}, "options": {}, "dtype": "float32", "operands": [operand], "scalars": {"alpha": 1.0},
        "temporaries": [{"name": "t", "kind": "buffer", "nbytes": 128}], "launches": [launch],
    }  # fmt: skip
    (folder / "k.cl").write_text("kernel")
    programs = {"p": {"text": "k.cl", "digest": table.content_digest(b"kernel"), "options": [], "binaries": []}}
    made = {"format": table.FORMAT, "problems": [problem], "programs": programs}
    return {**made, "digest": table.table_digest(made)}


def test_a_changed_table_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "HERE", tmp_path)
    whole = exported(tmp_path)
    file = tmp_path / "kernels.json"
    file.write_text(json.dumps(whole, indent=3))
    table.check(table.problems()[0])
    file.write_text(json.dumps(whole).replace('"value": 24', '"value": 25'))
    with pytest.raises(ValueError, match="digest"):
        table.problems()
    del whole["digest"]
    file.write_text(json.dumps(whole))
    with pytest.raises(ValueError, match="digest"):
        table.problems()


@pytest.mark.parametrize(
    ("place", "value"),
    [
        *((("operands", 0, "strides", 0), value) for value in (-8, 2**40, "8", 1.5)),
        *((("operands", 0, name), value) for name, value in (("offset", 12), ("elements", 10), ("elements", 0), ("elements", 2**60))),
        *((("operands", 0, name), value) for name, value in (("shape", [40, 6]), ("shape", [4]), ("role", "any"), ("dtype", "object"))),
        *(
            (("launches", 0, name), value)
            for name, value in (("global", [65, 1, 1]), ("local", [0, 1, 1]), ("local", [16]), ("program", "q"))
        ),
        *((("launches", 0, "args", number, "name"), "unknown") for number in (0, 1, 4, 5)),
        *((("launches", 0, "args", number, "value"), value) for number, value in ((2, "24"), (3, -1), (3, 2**50), (4, 11))),
        (("launches", 0, "args", 0, "kind"), "pointer"),
        (("scalars", "alpha"), "1"),
        (("temporaries", 0, "nbytes"), -2),
    ],
)
def test_what_does_not_fit_is_refused_before_it_runs(tmp_path: Path, place: tuple[str | int, ...], value: object) -> None:
    whole = exported(tmp_path)
    problem = {**whole["problems"][0], "programs": whole["programs"]}
    table.check(problem)
    record: Any = problem
    for step in place[:-1]:
        record = record[step]
    record[place[-1]] = value
    with pytest.raises(ValueError, match=r"kernels\.json"):
        table.check(problem)


def test_parts_are_those_that_were_exported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "HERE", tmp_path / "folder")
    (tmp_path / "folder").mkdir()
    for path in (tmp_path / "outside.cl", tmp_path / "folder" / "k.cl"):
        path.write_text("kernel")
    assert table.part("k.cl", table.content_digest(b"kernel")) == b"kernel"
    with pytest.raises(ValueError, match="digest"):
        table.part("k.cl", table.content_digest(b"another"))
    with pytest.raises(ValueError, match="no file of this folder"):
        table.part("../outside.cl", table.content_digest(b"kernel"))


def test_the_parts_become_one_file(tmp_path: Path) -> None:
    """It needs nothing of portatile, and shows users what they call."""
    (tmp_path / "loader.py").write_text(loader.text())
    script = "import loader, sys; print(loader.load.__module__, loader.__doc__.split(':')[0], 'portatile' in sys.modules)"
    completed = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=True)
    assert completed.stdout.split() == ["loader", "Run", "the", "kernels", "of", "this", "folder", "False"]
    assert not re.search(r"^(?:from|import) portatile", loader.text(), re.MULTILINE)


def test_what_is_returned_is_not_passed() -> None:
    loaded = object.__new__(Loaded)
    loaded.operands = {"u": {"role": "in"}, "out": {"role": "out"}}
    with pytest.raises(TypeError, match=r"2 arrays for the 1 that are read: \['u'\]; returned, not passed: \['out'\]"):
        loaded(1, 2)
