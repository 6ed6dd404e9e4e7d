"""Binaries for the cache are made after the result, hold what was launched, and another process runs from them alone."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from portatile import device as devices
from portatile import program
from portatile.cache import Cache
from portatile.device.base import Device
from portatile.errors import DeviceError
from portatile.runtime.one_device.deferred import Deferred
from support import unoptimised
from support.filling import filled, source

_SCRIPT = """
import sys, numpy as np, portatile
from portatile.device.opencl import compiler
a = np.random.default_rng(3).standard_normal((60, 50)).astype(np.float32)
product = portatile.matmul(a, a.T, device=sys.argv[1])
np.testing.assert_allclose(product, a @ a.T, rtol=1e-3, atol=1e-3)
"""
_SIZES = """
import sys
from pathlib import Path
from portatile import device as devices, program
from portatile.cache import Cache
from portatile.runtime.one_device.deferred import Deferred
from support.filling import filled, source
device, cache, later = devices.get(sys.argv[1]), Cache(Path(sys.argv[2]), 2**30), Deferred(rest=60)
for launched in (0, 1):
    text = source(2 * int(sys.argv[3]) + launched)
    binary = later.build(text, device, cache)
    if launched:
        filled(device, binary)
    later.flush()
    print(len(program.build(text, device.target, cache).data))
"""


def _deferring(device: Device) -> Device:
    if not device.target.defers:
        pytest.skip(f"{device.info.platform} makes binaries without compiling again")
    return device


def test_what_waits_runs_at_once_and_is_in_the_cache_after_a_flush(device: Device, tmp_path: Path) -> None:
    _deferring(device)
    later, cache = Deferred(rest=60), Cache(tmp_path, 2**30)
    key = program.key(source(41), device.target)
    binary = later.build(source(41), device, cache)
    assert cache.get(key) is None
    assert filled(device, binary) == 41
    assert later.build(source(41), device, cache) is not None
    assert filled(device, later.build(source(41), device, cache)) == 41, "a second load of what still waits"
    later.flush()
    assert cache.get(key) is not None
    result = program.build(source(41), device.target, cache)
    assert "compile" not in result.seconds
    assert filled(device, result) == 41


def test_what_was_launched_is_in_the_binary(device: Device, tmp_path: Path) -> None:
    """PoCL compiles a kernel for the work-groups that it is launched with; a binary made after that has them.

    In a process of its own, because PoCL asks once in the life of one what it should put into all binaries.
    """
    _deferring(device)
    fresh = int.from_bytes(os.urandom(3))  # a text that PoCL's own cache, which may outlive this run, has no form of
    print("text", fresh)
    env = {name: value for name, value in os.environ.items() if name != "POCL_BINARY_SPECIALIZE_WG"}
    command = [sys.executable, "-c", _SIZES, device.info.id, str(tmp_path), str(fresh)]
    env["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parents[1]), *filter(None, [env.get("PYTHONPATH")])])
    completed = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120)
    assert completed.returncode == 0, completed.stderr
    plain, launched = map(int, completed.stdout.split())
    assert launched > plain + 4096


def test_a_device_that_was_released_compiles_again(device: Device, tmp_path: Path) -> None:
    _deferring(device)
    later, cache = Deferred(rest=60), Cache(tmp_path, 2**30)
    assert filled(device, later.build(source(42), device, cache)) == 42
    device.release()
    assert filled(device, later.build(source(42), device, cache)) == 42
    later.flush()
    assert filled(device, program.build(source(42), device.target, cache)) == 42


def test_it_is_made_when_the_process_rests(device: Device, tmp_path: Path) -> None:
    _deferring(device)
    later, cache = Deferred(rest=0.05), Cache(tmp_path, 2**30)
    later.build(source(43), device, cache)
    limit = time.monotonic() + 60
    while cache.get(program.key(source(43), device.target)) is None:
        assert time.monotonic() < limit
        time.sleep(0.05)
    later.build(source(44), device, cache)  # another thread watches, for the first has ended or not yet
    later.flush()
    assert cache.get(program.key(source(44), device.target)) is not None


def test_only_a_few_wait(device: Device, tmp_path: Path) -> None:
    _deferring(device)
    later, cache = Deferred(rest=60), Cache(tmp_path, 2**30)
    for number in range(10):
        later.build(source(100 + number), device, cache)
    made = [cache.get(program.key(source(100 + number), device.target)) is not None for number in range(10)]
    assert made == [True, True] + [False] * 8, "the oldest first"
    later.abandon()  # as in a forked child
    later.flush()
    assert cache.get(program.key(source(109), device.target)) is None


def test_what_cannot_be_made_is_let_go(device: Device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _deferring(device)
    later, cache = Deferred(rest=60), Cache(tmp_path, 2**30)

    def refuse(programs: object, payload: bytes) -> bytes:
        raise DeviceError("gone")

    later.build(source(45), device, cache)
    monkeypatch.setattr("portatile.device.opencl.compiler.Programs.seal", refuse)
    later.flush()
    later.flush()
    assert cache.get(program.key(source(45), device.target)) is None


def test_several_threads_build_at_once(device: Device, tmp_path: Path) -> None:
    _deferring(device)
    later, cache = Deferred(rest=0.01), Cache(tmp_path, 2**30)
    found: list[int] = []

    def work(number: int) -> None:
        binary = later.build(source(number % 3), device, cache)
        assert binary.entries
        found.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    later.flush()
    assert len(found) == 9
    assert all(cache.get(program.key(source(number), device.target)) is not None for number in range(3))


@pytest.mark.lengthy
def test_a_second_process_runs_from_the_cache_alone(device: Device, tmp_path: Path) -> None:
    """With the driver's own cache off."""
    if device.info.backend != "opencl":
        pytest.skip("the script watches OpenCL's compiler")
    folders = {"PORTATILE_CACHE_DIR": str(tmp_path / "own"), "PORTATILE_DATA_DIR": str(tmp_path / "data")}
    places = {**unoptimised.flags(tmp_path.parent), **folders, **devices.COLD_COMPILER}

    def run(script: str) -> str:
        env = {**os.environ, **places, "POCL_CACHE_DIR": str(tmp_path / "pocl")}
        completed = subprocess.run(
            [sys.executable, "-c", script, device.info.id], env=env, capture_output=True, text=True, timeout=120, check=False
        )
        assert completed.returncode == 0, completed.stderr
        return completed.stderr

    run(_SCRIPT)
    assert list((tmp_path / "own").rglob("*.bin"))
    run(_SCRIPT.replace("a = np", "compiler.ClTarget._built = None\na = np"))  # fails where something is built
