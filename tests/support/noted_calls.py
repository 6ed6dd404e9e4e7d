"""Calls on tensors of a GPU that only takes notes, with the addresses in its notes named by the call's arrays."""

from __future__ import annotations

import gc
import struct
from collections.abc import Iterator
from typing import Any

import pytest

from portatile.arguments import described
from portatile.runtime import perform
from support.fake_cuda import H200, MAP, FakeDriver, Launched, Tensor, gpu, torch

N = 96


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> Iterator[FakeDriver]:
    """The driver of the one GPU that there is."""
    monkeypatch.setenv("PORTATILE_DATA_DIR", str(tmp_path))
    result = FakeDriver()
    perform.forget()
    monkeypatch.setattr(described, "known", {})
    with torch(0, monkeypatch):
        device = gpu(H200, result, monkeypatch)
        yield result
    device.generation += 1  # so that nobody asks the real driver to free what is dropped
    perform.forget()
    gc.collect(1)  # young objects, this test's: among all of a long run it takes half a second


def places(*arrays: Any) -> dict[bytes, str]:
    """The bytes of each array's address, by its place in the call."""
    return {struct.pack("Q", array.data_ptr()): f"array {at}" for at, array in enumerate(arrays)}


def named(launches: list[Launched], *arrays: Any) -> list[Any]:
    """Launches with the names of arrays in place of their addresses."""
    names = places(*arrays)

    def name(given: bytes) -> Any:
        return names.get(given[:8] if len(given) == MAP else given, given)  # a map begins with the address

    return [launch._replace(parameters=tuple(map(name, launch.parameters))) for launch in launches]


def square(dtype: str = "float32") -> Tensor:
    return Tensor((N, N), dtype)
