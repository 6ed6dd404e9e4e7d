"""How often configurations of an untuned product are run when they are timed, on a clock that is told what each takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest

from portatile.runtime.one_device import untuned


@pytest.mark.parametrize(("seconds", "runs"), [((8e-3, 6e-3, 7e-3), 18), ((8e-5, 6e-5, 7e-5), 201)])
def test_long_runs_are_few(seconds: tuple[float, ...], runs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The median of each is found; of runs of milliseconds with few of them, because the caller waits."""
    ran: list[float] = []

    def run_of(took: float) -> Callable[[], object]:
        return lambda: ran.append(took)

    def back_to_back(queue: object, clock: object, run: Callable[[], object], runs: int) -> float:
        begin = len(ran)
        for _ in range(runs):
            run()
        return sum(ran[begin:]) / runs

    monkeypatch.setattr(untuned, "back_to_back", back_to_back)
    found = untuned._by_turns(cast(Any, None), cast(Any, None), [*map(run_of, seconds), None], lambda: None)
    assert found == pytest.approx([*seconds, 0.0])
    assert len(ran) == runs
