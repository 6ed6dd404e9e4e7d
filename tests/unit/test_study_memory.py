"""The study of local memory compares devices at one size, the largest that all of them multiplied; nothing here runs on a device."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from portatile.measure import phases
from portatile.studies import memory
from portatile.studies.memory import MemoryRow


def row(device: str, algorithm: str, block: int, size: int, kernel: float | None) -> MemoryRow:
    blank = MemoryRow(device, device, "1", algorithm, block, size, "float32", *(None,) * 6, "ok", 1, "")
    return replace(blank, kernel=kernel)


def rows(device: str, size: int, missing: str = "") -> list[MemoryRow]:
    """Products with two blocks; those of the kernel ``missing`` were left out."""
    kernels = [("global", 1.0), ("local", 0.5)]
    return [row(device, name, block, size, None if name == missing else seconds / block) for name, seconds in kernels for block in (8, 16)]


def test_devices_are_compared_at_a_size_of_all() -> None:
    done = memory.finish([*rows("a", 64), *rows("a", 128), *rows("b", 64), *rows("b", 128, missing="local")])
    assert memory.compared_sizes(done) == {"a": 64, "b": 64}
    over_block, saved = memory.figures(done)
    assert "at size 64" in over_block.text
    assert "a (a), 64" in str(saved.draw("x"))
    assert any(note.startswith("b at 64: local memory saves 50 %") for note in memory.notes(done))


def test_a_loss_is_called_a_loss() -> None:
    slower = [replace(each, kernel=4.0 / each.block) if each.algorithm == "local" else each for each in rows("a", 64)]
    assert memory.answer(memory.finish(slower)) == "Local memory takes 300 % longer on a (block 16, size 64)"
    both = memory.finish([*slower, *rows("b", 64)])
    expected = "Local memory saves 50 % of the time on b (block 16, size 64) and takes 300 % longer on a (block 16, size 64)"
    assert memory.answer(both) == expected


def test_without_a_common_size_each_is_shown_at_its_largest() -> None:
    done = memory.finish([*rows("a", 64), *rows("a", 128), *rows("b", 32)])
    assert memory.compared_sizes(done) == {"a": 128, "b": 32}
    assert "at the largest size of each device" in memory.figures(done)[0].text
    assert memory.compared_sizes([]) == {}


@pytest.mark.parametrize(("took", "count"), [(0.1, 3), (1.5, 2), (30.0, 1)])
def test_slow_kernels_run_again_less_often(took: float, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """As often as asked, until these runs took long enough: a third one of half a minute would tell nothing new."""
    nothing = SimpleNamespace(finish=lambda: None, release=lambda: None, run=lambda *_: None)
    monkeypatch.setattr(phases, "_again", lambda *_: took)
    seconds = dict.fromkeys(phases.PHASES, 0.0)
    _, again = phases._run(nothing, nothing, SimpleNamespace(operands={}, scalars={}), {}, 3, seconds)  # type: ignore[arg-type]
    assert again == (took,) * count
