"""Deferred checks: a variant is timed as soon as its text for the timed shape is compiled; other shapes are checked only if it is fast.

Kernels are often generated for a shape, so that each edge-case shape needs a text of its own. Compiling takes most of a search's
time, and most variants are slow. A slow variant is never used and needs no further checks.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import msgspec

from portatile.records import Config, Launch
from portatile.tuning.protocol import Evaluated, VariantPart
from portatile.tuning.search.worker_process import Variant


@dataclass
class PendingVariant:
    """A variant in progress: ``whole`` has all parts that a winner is checked on, ``now`` the parts that are evaluated first.

    ``timed``: the outcome of ``now``, while the rest is checked.
    """

    config: Config
    source: str
    whole: Variant
    now: Variant
    timed: Evaluated | None = None

    @property
    def complete(self) -> bool:
        """Whether nothing is left to check."""
        return len(self.now.parts) == len(self.whole.parts)

    def rest(self) -> Variant:
        """The parts that are left to check."""
        return replace(self.whole, parts=tuple(part for part in self.whole.parts if part not in self.now.parts), timed=False)

    def merged(self, rest: Evaluated) -> Evaluated:
        """Both outcomes as one, errors in the order of the parts of the whole."""
        timed = self.timed
        assert timed is not None
        seconds = {phase: timed.seconds.get(phase, 0.0) + rest.seconds.get(phase, 0.0) for phase in {**timed.seconds, **rest.seconds}}
        if rest.status != "ok":
            return msgspec.structs.replace(rest, seconds=seconds, resources=timed.resources)
        by_case = dict(zip(_cases(self.now.parts), timed.errors, strict=True)) | dict(
            zip(_cases(self.rest().parts), rest.errors, strict=True)
        )
        errors = tuple(by_case[case] for case in _cases(self.whole.parts))
        return msgspec.structs.replace(timed, seconds=seconds, errors=errors, error=max(errors))


def needed_to_time(variant: Variant) -> Variant:
    """The part that is timed (the last), and those that need no further text."""
    texts = 1 + max(_texts(variant.parts[-1]), default=-1)
    parts = tuple(part for part in variant.parts if max(_texts(part), default=-1) < texts)
    return replace(variant, sources=variant.sources[:texts], parts=parts)


def _texts(part: VariantPart) -> set[int]:
    return {int(step.source.file) for step in part.plan.steps if isinstance(step, Launch)}


def _cases(parts: Iterable[VariantPart]) -> list[int]:
    return [part.case for part in parts]
