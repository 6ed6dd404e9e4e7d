"""An early stop for kernel text that never compiles, so that the compiler's message is not buried under a whole search."""

from __future__ import annotations

from dataclasses import dataclass, field

from portatile.errors import CompileError
from portatile.tuning.search import tuner

_HOPELESS = 10  # failed trials, after which the text must be wrong rather than the configurations


@dataclass
class StopIfNothingCompiles:
    """A listener that ends the search if nothing compiles, always for the same reason; otherwise it passes progress on."""

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
