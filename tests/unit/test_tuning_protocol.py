"""What the parent and its workers exchange: frames in any pieces, plans that carry a text once, arrays in shared memory."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from portatile.errors import ArgumentError
from portatile.model import Screen
from portatile.records import Arg, Launch, Plan, Source, Temporary
from portatile.tuning import protocol
from portatile.tuning.protocol import Evaluate, Evaluated, FinalistsTimed, Frames, PhaseEntered, Race, Timing, VariantPart
from portatile.tuning.shared_arrays import SharedArrays, SharedArraysView
from portatile.workload import Expected
from support.seeds import new_seed

ONE, TWO = Source("one.cl", "__kernel void one() {}" * 50, (("N", "3"),)), Source("two.cl", "__kernel void two() {}")


def launch(source: Source, kernel: str) -> Launch:
    return Launch(
        source, kernel, (8, 1, 1), (4, 1, 1), (Arg("x"), Arg("n", "scalar", dtype="int64", value=3), Arg("a", "scalar", dtype="float32"))
    )


PLAN = Plan((launch(ONE, "one"), launch(TWO, "two"), launch(ONE, "one")), (Temporary("t", 64),))


def test_a_plan_carries_each_text_once() -> None:
    sources: list[Source] = []
    parts = tuple(VariantPart(case, protocol.strip_sources(PLAN, sources), 0.5) for case in range(10))
    assert sources == [ONE, TWO]
    message = Evaluate(7, tuple(sources), parts, Timing(), None)
    data = protocol.frame(message)
    assert data.count(ONE.text.encode()) == 1
    (body,) = Frames().feed(data)
    read = protocol.request(body)
    assert isinstance(read, Evaluate)
    assert [protocol.restore_sources(part.plan, read.sources) for part in read.parts] == [PLAN] * 10


def test_a_race_goes_there_and_comes_back() -> None:
    entries = tuple(Evaluate(number, (ONE,), (), Timing(cold=True), 0.5, Screen(True)) for number in range(3))
    (body,) = Frames().feed(protocol.frame(Race(entries, 2.5)))
    assert protocol.request(body) == Race(entries, 2.5)
    outcome = Evaluated(1, "ok", (1.0, 2.0), error=0.5, errors=(0.1, 0.5), conditions={"power_w": 300.0})
    (body,) = Frames().feed(protocol.frame(FinalistsTimed((outcome,), "", True)))
    assert protocol.reply(body) == FinalistsTimed((outcome,), "", True)


def test_frames_arrive_in_any_pieces() -> None:
    seed = new_seed("draws")
    dice = np.random.default_rng(seed)
    sent = [PhaseEntered("x" * int(dice.integers(0, 300)), float(i)) for i in range(50)]
    data = b"".join(map(protocol.frame, sent))
    frames, received = Frames(), []
    while data:
        size = int(dice.integers(1, 200))
        received += [protocol.reply(body) for body in frames.feed(data[:size])]
        data = data[size:]
    assert received == sent


def test_nonsense_is_no_frame() -> None:
    with pytest.raises(ArgumentError, match="a frame of"):
        list(Frames().feed(b"Segmentation fault (core dumped)"))


def test_arrays_are_seen_by_another_process() -> None:
    arena = SharedArrays()
    try:
        dice = np.random.default_rng(3)
        arrays = [dice.random(1000, np.float32), np.zeros(0, np.float64), dice.integers(0, 9, 77), np.full(5, np.nan)]
        places = [arena.put(array) for array in arrays]
        expected = Expected(dice.random(9), np.ones(9), np.arange(9))
        held = arena.put_expected(expected)
        view = SharedArraysView(arena.descriptor)
        for array, place in zip(arrays, places, strict=True):
            np.testing.assert_array_equal(view.get(place), array)
        read = view.get_expected(held)
        np.testing.assert_array_equal(read.values, expected.values)
        np.testing.assert_array_equal(read.indices, expected.indices)
        with pytest.raises(ValueError, match="read-only"):
            view.get(places[0])[0] = 1
        script = f"""
from portatile.tuning.shared_arrays import SharedArraysView
from portatile.tuning.protocol import Slice
print(repr(float(SharedArraysView({arena.descriptor}).get(Slice({places[0].offset}, "float32", 1000)).sum())))
"""
        out = subprocess.run([sys.executable, "-c", script], pass_fds=[arena.descriptor], capture_output=True, text=True, check=True).stdout
        assert float(out) == float(arrays[0].sum())
    finally:
        arena.close()
        arena.close()
