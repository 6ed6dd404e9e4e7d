"""PoCL's own cache: what is damaged goes before PoCL loads it, what is whole stays, and the oldest make way."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from portatile.device.opencl import pocl_cache

_ELF = b"\x7fELF" + bytes(36) + (80).to_bytes(8, "little") + bytes(10) + (16).to_bytes(2, "little") + (1).to_bytes(2, "little") + bytes(2)
LIBRARY = _ELF + bytes(32)
BITCODE = b"BC\xc0\xde" + bytes(60)
PLACE = "AB/CDEF/k/8-1-1/k.so"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for program in ("AB/CDEF", "GH/IJKL"):
        place = tmp_path / program / "k" / "8-1-1"
        place.mkdir(parents=True)
        (place / "k.so").write_bytes(LIBRARY)
        (tmp_path / program / "program.bc").write_bytes(BITCODE)
        (tmp_path / program / "last_accessed").touch()
    return tmp_path


def left(folder: Path) -> set[str]:
    return {f"{path.parent.name}/{path.name}" for path in folder.glob("??/*")}


def test_what_is_whole_stays(folder: Path) -> None:
    for _ in range(3):
        assert pocl_cache.remove_damaged(folder) == 0
    assert left(folder) == {"AB/CDEF", "GH/IJKL"}


@pytest.mark.parametrize("name", [PLACE, "AB/CDEF/program.bc"])
@pytest.mark.parametrize("damaged", [b"", LIBRARY[:50], LIBRARY[:-40], BITCODE[:-1], b"garbage of some length " * 9])
def test_what_is_not_goes_with_its_program(folder: Path, name: str, damaged: bytes) -> None:
    (folder / name).write_bytes(damaged)
    assert pocl_cache.remove_damaged(folder) == 1
    assert left(folder) == {"GH/IJKL"}


def test_a_flipped_bit_of_a_listed_file_is_seen(folder: Path) -> None:
    pocl_cache.remove_damaged(folder)
    path = folder / PLACE
    data = bytearray(LIBRARY)
    data[70] ^= 4
    path.write_bytes(data)
    assert pocl_cache.remove_damaged(folder) == 1
    assert left(folder) == {"GH/IJKL"}


def test_files_that_nobody_answers_for_go_after_a_crash(folder: Path) -> None:
    assert pocl_cache.remove_damaged(folder, crashed=True) == 2
    assert not left(folder)


def test_listed_files_survive_a_crash(folder: Path) -> None:
    pocl_cache.remove_damaged(folder)
    assert pocl_cache.remove_damaged(folder, crashed=True) == 0


@pytest.mark.parametrize("listed", [b"", b"{", b"[1]", b'{"AB/CDEF": {"k": "x"}}', b"\xff\xfe"])
def test_a_damaged_list_answers_for_nothing(folder: Path, listed: bytes) -> None:
    (folder / "sound.json").write_bytes(listed)
    assert pocl_cache.remove_damaged(folder) == 2
    assert left(folder) == set()
    assert pocl_cache.remove_damaged(folder) == 0


def test_the_longest_unused_make_way(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pocl_cache, "_MOST_BYTES", 260)
    os.utime(folder / "AB/CDEF/last_accessed", (1, 1))
    pocl_cache.remove_damaged(folder)
    assert left(folder) == {"GH/IJKL"}


def test_links_are_not_followed(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    outside = tmp_path_factory.mktemp("outside")
    (outside / "x.so").write_bytes(b"")
    (folder / "MN").symlink_to(outside)
    (folder / "AB/OPQR").symlink_to(outside)
    assert pocl_cache.remove_damaged(folder) == 0
    assert (outside / "x.so").exists()


_USE = """
import os, signal, sys
from pathlib import Path
from portatile.device.opencl import pocl_cache
pocl_cache.prepare()
folder = Path(os.environ["POCL_CACHE_DIR"])
place = folder / "AB" / sys.argv[1]
place.mkdir(parents=True)
(place / "program.bc").write_bytes(b"BC\\xc0\\xde" + bytes(60))
if sys.argv[2] == "crash":
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="PoCL's folder is ours on Linux")
def test_only_a_crash_takes_what_a_process_made(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "POCL_CACHE_DIR"} | {"PORTATILE_CACHE_DIR": str(tmp_path)}
    for name, end in (("FIRST", "well"), ("SECOND", "crash"), ("THIRD", "well")):
        subprocess.run([sys.executable, "-c", _USE, name, end], env=environment, check=False, timeout=60)
    assert left(tmp_path / "pocl") == {"AB/FIRST", "AB/THIRD"}
    assert not any((tmp_path / "pocl" / "users").iterdir())


def test_a_folder_that_others_may_write_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PORTATILE_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("POCL_CACHE_DIR", raising=False)
    (tmp_path / "pocl").mkdir()
    (tmp_path / "pocl").chmod(0o777)
    pocl_cache.prepare()
    assert "POCL_CACHE_DIR" not in os.environ


def test_a_users_folder_is_left_alone(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POCL_CACHE_DIR", str(folder))
    (folder / PLACE).write_bytes(b"")
    pocl_cache.prepare()
    assert (folder / PLACE).exists()
