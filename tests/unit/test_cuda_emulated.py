"""CUDA's path without a GPU: the tests of tests/emulated in processes of their own, where cuda-bindings finds an emulated driver."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from portatile.device.cuda import compiler

TESTS = Path(__file__).parents[1] / "emulated"
SHARDS = 2  # so that no process of pytest-xdist is the last for long
pytestmark = [
    pytest.mark.skipif(compiler.available() is not None, reason=str(compiler.available())),
    pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler for the emulated driver"),
]


@pytest.mark.parametrize("shard", range(1, SHARDS + 1))
def test_calls_reach_kernels_through_the_bindings(shard: int, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pytest", str(TESTS), "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--shard", f"{shard}/{SHARDS}"]
    places = {"PORTATILE_DATA_DIR": str(tmp_path / "data"), "PORTATILE_TEST_EMULATED_CUDA": "1"}
    completed = subprocess.run(command, env={**os.environ, **places}, capture_output=True, text=True, check=False)
    assert completed.returncode == 0, completed.stdout[-6000:] + completed.stderr[-2000:]
