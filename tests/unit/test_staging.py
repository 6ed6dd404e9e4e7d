"""Copies between host arrays by several threads."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from portatile.device import staging
from portatile.errors import DeviceError
from support.seeds import new_seed


@pytest.mark.parametrize("shape", [(0,), (1, 999_999), (3, 700_001), (5_000_003,), (2001, 40, 33)])
@pytest.mark.parametrize("order", ["same", "transposed"])
def test_every_element_is_copied(shape: tuple[int, ...], order: str) -> None:
    """Into part of a larger array, whose other elements stay."""
    source = np.random.default_rng(new_seed(f"{shape} {order}")).random(shape[::-1] if order == "transposed" else shape)
    source = source.T if order == "transposed" else source
    kept = np.full(tuple(extent + 2 for extent in shape), np.nan)
    inside = tuple(slice(1, 1 + extent) for extent in shape)
    target = kept[inside]
    staging.copied(target, source, 3)
    assert np.array_equal(target, source)
    assert np.isnan(kept).sum() == kept.size - source.size


def test_large_arrays_are_shared_between_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    parts: list[int] = []
    copyto = np.copyto
    monkeypatch.setattr(np, "copyto", lambda target, source: (parts.append(len(target)), copyto(target, source)))
    staging.copied(np.empty((1000, 1001)), np.ones((1000, 1001)), 3)
    assert sorted(parts) == [333, 333, 334]


def test_what_a_thread_finds_wrong_is_raised() -> None:
    with pytest.raises(ValueError, match="broadcast"):
        staging.copied(np.empty((1000, 1001)), np.ones((1000, 1002)), 3)


@pytest.mark.timeout(30)
def test_pinned_memory_is_not_lost_where_a_copy_failed() -> None:
    """Whoever asks for the memory that it used is told, again and again, and does not wait for it."""

    def fails() -> None:
        raise DeviceError("it fell off the bus")

    device: Any = SimpleNamespace(generation=0, pinned=lambda nbytes: np.empty(1, np.uint8))
    kept, broken = staging._Staging(device), SimpleNamespace(wait=fails)
    blocks = [kept.take() for _ in range(staging._BLOCKS)]
    for block in blocks:
        assert block is not None
        block.used = broken
        kept.give(block)
    for _ in range(2 * staging._BLOCKS):
        with pytest.raises(DeviceError, match="fell off the bus"):
            kept.take()
