"""Short problems over devices that have memory of their own: one part for each, begun before any is waited for."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import portatile
from portatile import device as devices
from portatile.device.base import Device
from portatile.device.page_locked import locked
from portatile.errors import DeviceError
from portatile.runtime import perform
from portatile.runtime.one_device import deferred
from portatile.runtime.several_devices import at_once, forecast, ready_parts, several, splits
from support.seeds import new_seed

pytestmark = pytest.mark.unoptimised


@pytest.fixture
def pair(twins: tuple[Device, Device], both: list[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The ids of two devices to which everything is copied, and whose rates are known and alike."""
    far: Any = twins[1]
    other = type(far)("opencl:8:0", far.cl_device)
    other.info = replace(other.info, unified_memory=False)
    known = devices.get
    monkeypatch.setattr(devices, "get", lambda selector=None: other if selector == other.info.id else known(selector))
    monkeypatch.setattr(devices, "devices", lambda: [*twins, other])
    monkeypatch.setattr(forecast, "known", lambda engine, problem, place="", least=False: 1e12)
    at_once.forget()
    yield [far.info.id, other.info.id]
    deferred.waiting.flush()
    other.release()


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[list[tuple[int, int]]]:
    """The ranges of what was begun at once, of each call."""
    calls: list[list[tuple[int, int]]] = []
    run = at_once.run

    def noted(parts: Any) -> list[at_once.PartTime]:
        calls.append([(part.plan.low, part.plan.high) for part in parts])
        return run(parts)

    monkeypatch.setattr(at_once, "run", noted)
    return calls


def test_parts_follow_one_another_and_make_the_whole(pair: list[str], begun: list[list[tuple[int, int]]]) -> None:
    """Also results that lie apart, and operands in the other order."""
    rng = np.random.default_rng(new_seed("parts"))
    a, b = rng.random((700, 70)), rng.random((90, 70)).T
    kept = np.full((700, 100), np.nan)
    for _ in range(2):
        portatile.matmul(a, b, out=kept[:, :90], device=pair)
        np.testing.assert_allclose(kept[:, :90], a @ b, rtol=1e-12)
        assert np.isnan(kept[:, 90:]).all()
        np.testing.assert_allclose(portatile.matmul(a, b, device=pair), a @ b, rtol=1e-12)
    assert len(begun) == 4
    for (low, middle), (again, high) in begun:
        assert (low, middle, high) == (0, again, 700)
    shares = {share.device: share.steps for share in splits.latest().shares}  # type: ignore[union-attr]
    assert shares == {pair[0]: middle, pair[1]: 700 - middle}


def test_calls_of_a_kind_are_computed_in_the_same_parts(
    pair: list[str], begun: list[list[tuple[int, int]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other arrays, too; every so often, and where something else is asked, the call is thought over."""
    rng = np.random.default_rng(new_seed("again"))
    monkeypatch.setattr(at_once, "_AGAIN", 3)
    monkeypatch.setattr(forecast.Forecast, "tried", property(lambda told: True))
    considered: list[int] = []
    usual = several.share_forecast
    monkeypatch.setattr(several, "share_forecast", lambda *given: (considered.append(1), usual(*given))[1])
    for turn in range(8):
        a, b = rng.random((700, 70)), rng.random((70, 90))
        np.testing.assert_allclose(portatile.matmul(a, b, device=pair), a @ b, rtol=1e-12)
        assert len(considered) == 1 + turn // 4
    assert len(begun) == 8
    atoms = rng.random((50, 4), np.float32)
    for origin in ((0.0, 0.0, 0.0), (0.0, 3.0, 0.5)):
        expected = portatile.coulomb_potential(atoms, (64, 300), 0.1, origin=origin, device=pair[0])
        for _ in range(2):
            found = portatile.coulomb_potential(atoms, (64, 300), 0.1, origin=origin, device=pair)
            np.testing.assert_allclose(found, expected, rtol=1e-5)
    a, b = rng.random((20, 30, 40)), rng.random((40, 50))
    for _ in range(3):
        np.testing.assert_allclose(portatile.matmul(a, b, device=pair), a @ b, rtol=1e-12)

    def failing(parts: Any) -> list[at_once.PartTime]:
        raise DeviceError("it fell off the bus")

    monkeypatch.setattr(at_once, "run", failing)
    a, b = rng.random((700, 70)), rng.random((70, 90))
    np.testing.assert_allclose(portatile.matmul(a, b, device=pair), a @ b, rtol=1e-12)


def test_parts_come_to_end_together(pair: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever rates were known: a device that is three times as fast, and one that ends late once, which moves nothing."""
    rng = np.random.default_rng(new_seed("even"))
    monkeypatch.setattr(at_once, "_AGAIN", 8)
    monkeypatch.setattr(forecast.Forecast, "tried", property(lambda told: True))
    usual, widths, disturbed = at_once.run, list[int](), {1, 11}

    def timed(parts: Any) -> list[at_once.PartTime]:
        usual(parts)
        widths.append(parts[0].plan.high)
        ends = [one.steps / rate for one, rate in zip(parts, (3.0, 1.0), strict=True)]
        late = 9.0 if len(widths) in disturbed else 1.0
        return [at_once.PartTime(late * end, late * end) for end in ends]

    monkeypatch.setattr(at_once, "run", timed)
    a, b = rng.random((1280, 70)), rng.random((70, 90))
    for _ in range(14):
        np.testing.assert_allclose(portatile.matmul(a, b, device=pair), a @ b, rtol=1e-12)
    assert widths[0] == 640
    assert set(widths[4:]) == {960}
    split = splits.latest()
    assert split is not None
    assert [share.steps for share in split.shares] == [960, 320]
    assert split.crossed == 8 * (1280 * 70 + 2 * 70 * 90 + 1280 * 90)  # each is sent all of b
    assert "GB crossed the links" in str(split)
    assert split.efficiency > 0


def test_no_array_of_a_call_is_kept_for_the_next(pair: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forecast.Forecast, "tried", property(lambda told: True))
    for _ in range(3):
        a, b = np.ones((700, 70)), np.ones((70, 90))
        arrays = [weakref.ref(array) for array in (a, b, portatile.matmul(a, b, device=pair))]
    del a, b
    gc.collect()
    assert at_once._known
    assert not any(array() is not None for array in arrays)


def test_grids_know_where_their_parts_begin(pair: list[str], begun: list[list[tuple[int, int]]]) -> None:
    rng = np.random.default_rng(new_seed("grids"))
    atoms = rng.random((50, 4), np.float32)
    expected = portatile.coulomb_potential(atoms, (64, 300), 0.1, device=pair[0])
    np.testing.assert_allclose(portatile.coulomb_potential(atoms, (64, 300), 0.1, device=pair), expected, rtol=1e-5)
    assert begun


def test_rows_of_a_result_may_lie_apart(pair: list[str], begun: list[list[tuple[int, int]]], monkeypatch: pytest.MonkeyPatch) -> None:
    """Real and imaginary parts of an image's voxels; locked ones come to their places."""
    rng = np.random.default_rng(new_seed("rows"))
    given = [rng.random(count, np.float32) for count in [40] * 5 + [900] * 3]
    expected = portatile.mri_q(*given, device=pair[0])
    for turn in range(3):
        for part, wanted in zip(portatile.mri_q(*given, device=pair), expected, strict=True):
            np.testing.assert_allclose(part, wanted, rtol=1e-4, atol=1e-4)
        monkeypatch.setattr(ready_parts.locked, "crosses", lambda device, array, back=False, rows=False: not rows)  # as if all were locked
        assert len(begun) == turn + 1


def test_values_that_an_output_begins_with_are_handed_out_in_pieces(pair: list[str], begun: list[list[tuple[int, int]]]) -> None:
    """A device that fails may have written some of them."""
    rng = np.random.default_rng(new_seed("values"))
    a, b, c = rng.random((700, 70)), rng.random((70, 90)), rng.random((700, 90))
    expected = a @ b + 2 * c
    np.testing.assert_allclose(portatile.gemm(a, b, c, beta=2.0, out=c, device=pair), expected, rtol=1e-12)
    assert not begun


def test_who_fails_leaves_all_to_pieces(pair: list[str], begun: list[list[tuple[int, int]]], monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(new_seed("failing"))
    a, b = rng.random((700, 70)), rng.random((70, 90))
    finish = ready_parts.BegunPart.finish

    def failing(part: Any) -> None:
        finish(part)
        raise DeviceError("it fell off the bus")

    monkeypatch.setattr(ready_parts.BegunPart, "finish", failing)
    np.testing.assert_allclose(portatile.matmul(a, b, device=pair), a @ b, rtol=1e-12)
    assert len(begun) == 1


def test_long_problems_are_handed_out_in_pieces(
    pair: list[str], begun: list[list[tuple[int, int]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(at_once, "_SHORT", 0.0)
    rng = np.random.default_rng(new_seed("long"))
    a, b = rng.random((700, 70)), rng.random((70, 90))
    np.testing.assert_allclose(portatile.matmul(a, b, device=pair), a @ b, rtol=1e-12)
    assert not begun


def test_calls_that_come_again_are_not_planned(
    pair: list[str], begun: list[list[tuple[int, int]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other values and other factors too, with operands of any size, until the split is decided again; each result is a new array."""
    rng = np.random.default_rng(new_seed("recorded"))
    monkeypatch.setattr(at_once, "_AGAIN", 4)
    monkeypatch.setattr(ready_parts, "_SMALL", 1000)
    monkeypatch.setattr(forecast.Forecast, "tried", property(lambda told: True))
    planned: list[int] = []
    usual = perform._by_several
    monkeypatch.setattr(perform, "_by_several", lambda *given: (planned.append(1), usual(*given))[1])
    results: list[Any] = []
    given = [np.empty(count, np.float32) for count in [40] * 5 + [900] * 3]
    for turn in range(10):
        for array in given:
            array[...] = rng.random(array.size)
        expected = portatile.mri_q(*given, device=pair[0])
        results.append(portatile.mri_q(*given, device=pair))
        for part, wanted in zip(results[-1], expected, strict=True):
            np.testing.assert_allclose(part, wanted, rtol=1e-4, atol=1e-4)
        assert len(planned) == 1 + turn // 5
    assert len({real.__array_interface__["data"] for real, _ in results}) == 10
    assert len(begun) == 10
    atoms = rng.random((50, 4), np.float32)
    planned.clear()
    for y in (1.0, 3.0, 7.0):
        origin = (0.0, y, 0.0)
        expected = portatile.coulomb_potential(atoms, (64, 300), 0.1, origin=origin, device=pair[0])
        found = portatile.coulomb_potential(atoms, (64, 300), 0.1, origin=origin, device=pair)
        np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert len(planned) == 1
    kept = np.empty((64, 300), np.float32)
    portatile.coulomb_potential(atoms, (64, 300), 0.1, origin=(0.0, 7.0, 0.0), out=kept, device=pair)
    np.testing.assert_allclose(kept, expected, rtol=1e-5)


def test_arrays_that_are_locked_meanwhile_are_another_kind_of_call(pair: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The split is decided again: locked arrays cross the link faster."""
    rng = np.random.default_rng(new_seed("locked"))
    monkeypatch.setattr(forecast.Forecast, "tried", property(lambda told: True))
    considered: list[int] = []
    usual = several.share_forecast
    monkeypatch.setattr(several, "share_forecast", lambda *given: (considered.append(1), usual(*given))[1])
    a, b = rng.random((700, 70)), rng.random((70, 90))
    for turn in range(6):
        np.testing.assert_allclose(portatile.matmul(a, b, device=pair), a @ b, rtol=1e-12)
        assert len(considered) == 1 + turn // 3
        if turn == 2:
            monkeypatch.setattr(type(locked), "hold_all", lambda self, arrays: True)
