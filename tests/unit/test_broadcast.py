"""Who brings which chunk of an array that several devices need, and takes which from others."""

from __future__ import annotations

import threading
from typing import Any

from portatile.runtime.in_parts.broadcast import _CHUNK, _SharedArray

HERE: Any = "memory of one device"


def test_chunks_of_others_are_taken_beside_those_from_the_host() -> None:
    common = _SharedArray(3 * _CHUNK)
    assert common.take({0, _CHUNK, 2 * _CHUNK}, False) == (0, {})
    common.arrived(0, HERE)
    assert common.take({0, _CHUNK, 2 * _CHUNK}, False) == (_CHUNK, {0: HERE}), "of the other device"
    assert common.take({2 * _CHUNK}, False) == (2 * _CHUNK, {})
    assert common.take(set(), True) == (None, {}), "its own are under way"


def test_a_chunk_that_another_brings_is_waited_for() -> None:
    common, found = _SharedArray(_CHUNK), list[Any]()
    common.take({0}, False)
    waiting = threading.Thread(target=lambda: found.append(common.take({0}, False)))
    waiting.start()
    common.arrived(0, HERE)
    waiting.join(10)
    assert found == [(None, {0: HERE})]


def test_a_chunk_that_did_not_come_is_brought_by_another() -> None:
    common = _SharedArray(2 * _CHUNK)
    assert common.take({0, _CHUNK}, False)[0] == 0
    common.give_back({0})
    assert [common.take({0, _CHUNK}, False)[0] for _ in range(2)] == [_CHUNK, 0]
