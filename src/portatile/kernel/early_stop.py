"""An early stop for a text that never compiles, so that the compiler's message is not lost among those of a whole search."""

from __future__ import annotations

from dataclasses import dataclass, field

from portatile.errors import CompileError
from portatile.tuning.search import tuner

_HOPELESS = 10  # trials of which none compiled: then the text is wrong, not a configuration


@dataclass
class StopIfNothingCompiles:
    """A listener that ends the search if nothing compiles, always for the same reason; else it passes progress on."""

    listen: tuner.Listener | None
    failed: int = 0
    messages: set[str] = field(default_factory=set)

    def __call__(self, progress: tuner.Progress) -> None:
        self.failed += progress.last.status == "compile"
        self.messages.add(progress.last.message)
        if self.failed == progress.evaluations == _HOPELESS and len(self.messages) == 1:
            raise CompileError(f"the first {_HOPELESS} configurations do not compile:\n{progress.last.message}")
        if self.listen is not None:
            self.listen(progress)
