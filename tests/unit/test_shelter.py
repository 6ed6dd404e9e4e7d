"""The temporary folder of a user whose cache folder cannot be written: one for all processes, whoever squats its name."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from portatile import processes, settings

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux shelters caches")


def test_a_squatted_name_makes_one_other_folder_for_all_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path))
    taken = tmp_path / f"portatile-{os.getuid()}"
    taken.symlink_to(tmp_path / "elsewhere")
    first = settings._shelter()
    assert first == settings._shelter() == tmp_path / f"portatile-{os.getuid()}-1"
    first.chmod(0o777)  # where others may write nothing is trusted
    assert settings._shelter() == tmp_path / f"portatile-{os.getuid()}-2"


def test_where_all_names_are_taken_nothing_stays_behind(tmp_path: Path) -> None:
    for number in range(settings._SHELTERS):
        (tmp_path / f"portatile-{os.getuid()}{f'-{number}' if number else ''}").write_text("")
    before = sorted(tmp_path.iterdir())
    script = "from portatile import settings; folder = settings._shelter(); print(folder.is_dir(), folder.stat().st_mode & 0o77)"
    environment = {**processes.environment(), "TMPDIR": str(tmp_path)}
    completed = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True, timeout=60)
    assert completed.stdout.split() == ["True", "0"]
    assert sorted(tmp_path.iterdir()) == before


def test_a_full_disk_is_no_place_for_caches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home, temporary, memory = (tmp_path / name for name in ("home", "tmp", "shm"))
    for folder in (home, temporary, memory):
        folder.mkdir()
    free = {home: 1 << 20, temporary: 1 << 30, memory: 1 << 30}

    def usage(place: Path) -> SimpleNamespace:
        if not place.exists():
            raise FileNotFoundError(place)
        return SimpleNamespace(free=next(free[folder] for folder in free if place.is_relative_to(folder)))

    monkeypatch.delenv("POCL_CACHE_DIR", raising=False)
    monkeypatch.setattr(shutil, "disk_usage", usage)
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(temporary))
    monkeypatch.setattr(settings, "_IN_MEMORY", str(memory))
    assert settings.full(home / "not" / "there yet")
    for full_disks, chosen in (((home,), temporary), ((home, temporary), memory), ((home, temporary, memory), temporary)):
        free |= dict.fromkeys(full_disks, 1 << 20)
        monkeypatch.setenv("XDG_CACHE_HOME", str(home / "cache"))
        settings.ensure_writable_caches()
        assert os.environ["XDG_CACHE_HOME"] == str(chosen / f"portatile-{os.getuid()}")
