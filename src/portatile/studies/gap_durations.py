"""The durations of the builds of ``study gap``, so that no build is begun that would exceed the study's time."""

from __future__ import annotations

from portatile.studies.gap_rows import GapRow


class Durations:
    """The seconds that the builds of each side took, compiling and checking included, and that another one is expected to take."""

    def __init__(self) -> None:
        self._known: dict[str, dict[frozenset[str], float]] = {}

    def add(self, row: GapRow, seconds: float) -> None:
        """Remember how long the row of a build took."""
        if row.set is not None:
            self._known.setdefault(row.side, {})[row.set] = seconds

    def expected(self, row: GapRow) -> float:
        """The time of the longest known build of its side that differs in one optimisation, or has more of them; 0 if none is known."""
        wanted, known = row.set, self._known.get(row.side, {})
        if wanted is None:
            return 0.0
        return max((seconds for other, seconds in known.items() if len(wanted ^ other) <= 1 or other >= wanted), default=0.0)
