"""A variant in two halves: which parts and texts are in the first, and what comes of both together."""

from __future__ import annotations

import msgspec

from portatile.records import Arg, Launch, Plan, Source
from portatile.tuning.protocol import Evaluated, VariantPart, strip_sources
from portatile.tuning.search import deferred_checks
from portatile.tuning.search.worker_process import Variant

SHARED, TIMED, OTHER = (Source("text.cl", name) for name in ("shared", "timed", "other"))


def part(case: int, sources: list[Source], *texts: Source) -> VariantPart:
    steps = tuple(Launch(text, "go", (1, 1, 1), (1, 1, 1), (Arg("x"),)) for text in texts)
    return VariantPart(case, strip_sources(Plan(steps), sources), 1.0)


def variant() -> Variant:
    """Three shapes: one of a text of its own, one of the timed shape's, and the timed one."""
    sources: list[Source] = []
    timed = part(2, sources, SHARED, TIMED)
    parts = (part(0, sources, SHARED, OTHER), part(1, sources, SHARED), timed)
    return Variant(7, tuple(sources), parts)


def test_the_first_half_needs_no_text_that_the_timed_part_does_not() -> None:
    whole = variant()
    first = deferred_checks.needed_to_time(whole)
    assert first.sources == (SHARED, TIMED)
    assert [part.case for part in first.parts] == [1, 2]
    pending = deferred_checks.PendingVariant({}, "", whole, first)
    assert not pending.complete
    assert [part.case for part in pending.rest().parts] == [0]
    assert not pending.rest().timed
    assert deferred_checks.PendingVariant({}, "", first, deferred_checks.needed_to_time(first)).complete


def test_halves_are_joined_in_the_order_of_the_whole() -> None:
    whole = variant()
    timed = Evaluated(7, "ok", (1.0, 2.0), seconds={"compile": 1.0, "run": 0.5}, error=0.3, errors=(0.2, 0.3))
    pending = deferred_checks.PendingVariant({}, "", whole, deferred_checks.needed_to_time(whole), timed)
    joined = pending.merged(Evaluated(7, "ok", seconds={"compile": 2.0, "check": 0.25}, error=0.9, errors=(0.9,)))
    assert joined == msgspec.structs.replace(timed, seconds={"compile": 3.0, "run": 0.5, "check": 0.25}, error=0.9, errors=(0.9, 0.2, 0.3))
    failed = pending.merged(Evaluated(7, "wrong", message="n=1: no", error=5.0))
    assert (failed.status, failed.samples, failed.message, failed.error) == ("wrong", (), "n=1: no", 5.0)
    assert failed.seconds == timed.seconds
