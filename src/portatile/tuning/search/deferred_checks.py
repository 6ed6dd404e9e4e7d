"""Proof by instalments: a variant is timed as soon as its own text is compiled, and what else it must be right on waits for its time.

Kernels are often generated for a shape, so that each awkward shape takes a text of its own. Compiling is most of what a search
waits for, and most variants turn out slow: those are never to be used, and need no proof.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import msgspec

from portatile.records import Config, Launch
from portatile.tuning.protocol import Evaluated, Part
from portatile.tuning.search.worker_process import Variant


@dataclass
class PendingVariant:
    """A variant under way: ``whole`` is all that a winner is checked on, ``now`` what it is evaluated on at first.

    ``timed``: what came of that, while the rest is checked.
    """

    config: Config
    source: str
    whole: Variant
    now: Variant
    timed: Evaluated | None = None

    @property
    def complete(self) -> bool:
        """Whether there is nothing left to check."""
        return len(self.now.parts) == len(self.whole.parts)

    def rest(self) -> Variant:
        """What is left to check."""
        return replace(self.whole, parts=tuple(part for part in self.whole.parts if part not in self.now.parts), timed=False)

    def joined(self, rest: Evaluated) -> Evaluated:
        """What came of both halves, in the order of the parts of the whole."""
        timed = self.timed
        assert timed is not None
        seconds = {phase: timed.seconds.get(phase, 0.0) + rest.seconds.get(phase, 0.0) for phase in {**timed.seconds, **rest.seconds}}
        if rest.status != "ok":
            return msgspec.structs.replace(rest, seconds=seconds, resources=timed.resources)
        found = dict(zip(_cases(self.now.parts), timed.errors, strict=True)) | dict(
            zip(_cases(self.rest().parts), rest.errors, strict=True)
        )
        errors = tuple(found[case] for case in _cases(self.whole.parts))
        return msgspec.structs.replace(timed, seconds=seconds, errors=errors, error=max(errors))


def first_half(variant: Variant) -> Variant:
    """The part that is timed, which is the last, and those that take no text that it does not."""
    texts = 1 + max(_texts(variant.parts[-1]), default=-1)
    parts = tuple(part for part in variant.parts if max(_texts(part), default=-1) < texts)
    return replace(variant, sources=variant.sources[:texts], parts=parts)


def _texts(part: Part) -> set[int]:
    return {int(step.source.file) for step in part.plan.steps if isinstance(step, Launch)}


def _cases(parts: Iterable[Part]) -> list[int]:
    return [part.case for part in parts]
