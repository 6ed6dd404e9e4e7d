"""What test files of every folder may ask for: directories of their own."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def own_directories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No result and no binary is known yet, and the user's stay as they are."""
    monkeypatch.setenv("PORTATILE_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("PORTATILE_CACHE_DIR", str(tmp_path / "cache"))
