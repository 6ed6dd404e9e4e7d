"""A search that tests of the live page follow: its trials appear when the test says so."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path

from portatile.reports.live_view import LiveView
from portatile.reports.write import Selection
from portatile.store import ResultStore
from portatile.trials import Trial
from support import reporting


class Search:
    """Trials in a store, and whether the search runs."""

    def __init__(self, path: Path) -> None:
        self.path, self.began, self.running = path, time.time(), False
        with ResultStore(path):
            pass

    def add(self, *trials: Trial) -> None:
        """They come now."""
        with ResultStore(self.path) as store:
            for trial in trials:
                store.add(reporting.made(
                    trial.problem, trial.config, trial.status, trial.samples, 0, when=datetime.now(UTC).isoformat(timespec="seconds")
                ))  # fmt: skip

    def followed(self) -> LiveView:
        """Looks as often as it is asked."""
        return LiveView(Selection(self.path), 0.0, lambda: [self.began] * self.running, gap=0.0, rest=0.0)
