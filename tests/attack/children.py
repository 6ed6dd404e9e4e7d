"""Child processes of attacks, with directories of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from attack import AttackError, Place
from portatile import processes

TESTS = Path(__file__).parents[1]
PATIENCE = 300.0


def environment(place: Place, shared_cache: bool = True) -> dict[str, str]:
    """Results in the attack's folder; binaries too unless ``shared_cache``, and then PoCL's beside them."""
    found = {**processes.environment(), "PORTATILE_DATA_DIR": str(place.folder / "data")}
    found["PYTHONPATH"] = os.pathsep.join(filter(None, (str(TESTS), found.get("PYTHONPATH", ""))))
    if shared_cache:
        return found
    found.pop("POCL_CACHE_DIR", None)
    return {**found, "PORTATILE_CACHE_DIR": str(place.folder / "cache")}


def run(place: Place, script: str, *args: object, shared_cache: bool = True) -> str:
    """What a script prints; raises AttackError where it crashed, hung or failed."""
    command = [sys.executable, "-c", script, place.device or "", *map(str, args)]
    try:
        completed = subprocess.run(
            command, capture_output=True, text=True, timeout=PATIENCE, check=False, env=environment(place, shared_cache), cwd=place.folder
        )
    except subprocess.TimeoutExpired:
        raise AttackError(f"a child hung for {PATIENCE:g} s") from None
    if completed.returncode:
        last = completed.stderr.strip()[-600:]
        raise AttackError(f"a child ended by {processes.exit_status(completed.returncode)}: {last}")
    return completed.stdout
