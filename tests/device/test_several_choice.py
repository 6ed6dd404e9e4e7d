"""Who computes what of one computation over several devices, what is told of it, and what is refused."""

from __future__ import annotations

import sqlite3
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import portatile
from portatile import device as devices
from portatile import wavelets, workloads
from portatile.cli import main
from portatile.device.base import Device
from portatile.device.opencl.device import ClDevice
from portatile.device.opencl.queue import ClQueue
from portatile.errors import ArgumentError, DeviceNotFoundError
from portatile.records import Problem
from portatile.runtime import perform
from portatile.runtime.several_devices import batches, forecast, rates, several, splits, tries
from portatile.store import ResultStore
from portatile.wavelets import over_devices
from portatile.workloads import precisions

pytestmark = pytest.mark.unoptimised
QUICKEST = forecast._quickest  # which other tests replace


def drawn(seed: int, *shape: int, dtype: str = "float32") -> Any:
    return (np.random.default_rng(seed).random(shape) - 0.5).astype(dtype)


def test_work_is_shared_and_told(both: list[str], twins: tuple[Device, Device], monkeypatch: pytest.MonkeyPatch) -> None:
    launch, begun = ClQueue.launch, {twin: threading.Event() for twin in twins}

    def slow(queue: ClQueue, *args: Any, **rest: Any) -> Any:
        begun[queue.device].set()  # type: ignore[index]
        for other in begun.values():  # so that one does not end before the other begins
            other.wait(60)
        return launch(queue, *args, **rest)

    monkeypatch.setattr(ClQueue, "launch", slow)
    monkeypatch.setattr(rates, "of", lambda *asked, **rest: None)  # what other tests showed may leave one of them nothing
    a, b = drawn(1, 2000, 64), drawn(2, 64, 96)
    portatile.matmul(a, b, device=both)
    split = splits.last(_problem(2000, 96, 64), twins)
    assert split is not None
    assert split.size == "m"
    assert sum(share.steps for share in split.shares) == 2000
    assert all(share.pieces for share in split.shares)
    assert 0 < split.efficiency <= 1.05
    assert both[1] in str(split)


def _problem(m: int, n: int, k: int) -> Problem:
    return workloads.problem("gemm", "float32", {"m": m, "n": n, "k": k})


def test_the_precision_that_all_prefer_is_asked_once(both: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    usual = precisions.preferred

    def preferred(problem: Problem, *infos: Any) -> Problem:
        asked.append(problem.key)
        return usual(problem, *infos)

    monkeypatch.setattr(precisions, "preferred", preferred)
    monkeypatch.setattr(forecast, "_quickest", lambda together, alone: "")
    a, b = drawn(1, 300, 70), drawn(2, 70, 90)
    for _ in range(3):
        portatile.matmul(a, b, device=both)
    assert len(asked) == len(set(asked)) == 1
    perform.forget()
    portatile.matmul(a, b, device=both)
    assert len(asked) == 2


def test_wrong_use_says_what_to_do(both: list[str]) -> None:
    a = drawn(1, 8, 8)
    with pytest.raises(ArgumentError, match=f"named twice, as '{both[0]}': name each device once"):
        portatile.matmul(a, a, device=[both[0], both[0]])
    with pytest.raises(ArgumentError, match=f"named twice, as '{both[0]}' and as '{both[0].upper()}': name each"):
        portatile.explain("gemm", m=8, n=8, k=8, device=[both[0], both[0].upper()])
    with pytest.raises(ArgumentError, match="empty list"):
        portatile.matmul(a, a, device=[])
    with pytest.raises(DeviceNotFoundError):
        portatile.matmul(a, a, device=[both[0], "nowhere"])
    there = portatile.Buffer.from_numpy(a, devices.get(both[0]))
    with pytest.raises(ArgumentError, match=r"a is a NumPy array, b a Buffer.*move them to one"):
        portatile.matmul(a, there, device=both)
    with pytest.raises(ArgumentError, match=r"different places .*the host.*; move them to one, by Buffer.from_numpy"):
        portatile.mri_q(*[a[0]] * 5, *[portatile.Buffer.from_numpy(a[0], devices.get(both[0]))] * 3, device=both)
    with pytest.raises(ArgumentError, match=r"opencl:9:0.*name several devices: device=\[\.\.\.\]"):
        portatile.matmul(there, portatile.Buffer.from_numpy(a, devices.get(both[1])))


def test_wrong_use_of_commands_says_what_to_do(
    twins: tuple[Device, Device], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sizes = ["gemm", "-m", "8", "-n", "8", "-k", "8"]
    for command in ("tune", "study hybrid"):
        assert main([*command.split(), *sizes, "--device", twins[0].info.id, "--device", twins[0].info.id]) == 2
        assert "named twice" in capsys.readouterr().err
    monkeypatch.setenv("PORTATILE_DATA_DIR", str(tmp_path))
    ResultStore(tmp_path / "results.sqlite").close()
    connection = sqlite3.connect(tmp_path / "results.sqlite")
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    for command in (["results"], ["doctor", "--repair"]):
        assert main(command)
        error_output = capsys.readouterr().err
        assert "results.sqlite" in error_output
        assert "a newer portatile wrote it" in error_output


def test_a_problem_that_is_too_small_runs_on_one(both: list[str], twins: tuple[Device, Device]) -> None:
    a, b = drawn(1, 1, 5), drawn(2, 5, 3)
    np.testing.assert_allclose(portatile.matmul(a, b, device=both), a @ b, rtol=1e-5)
    split = splits.last(_problem(1, 3, 5), twins)
    assert split is not None
    assert len(split.shares) == 1
    assert split.note


@pytest.mark.parametrize("on_device", [False, True])
def test_a_tiny_problem_settles_where_it_lies(
    both: list[str], twins: tuple[Device, Device], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, on_device: bool
) -> None:
    """After two calls by each device that may compute it, the fastest one does so without looking at the others."""
    monkeypatch.setattr(forecast, "_TINY", 1e6)
    monkeypatch.setenv("PORTATILE_DATA_DIR", str(tmp_path))
    monkeypatch.setattr(several, "_shared", None)  # it is never shared
    a, b = drawn(1, 31, 17), drawn(2, 17, 29)
    given = [portatile.Buffer.from_numpy(one, twins[1]) if on_device else one for one in (a, b)]
    computing = [portatile.matmul(*given, device=both) for _ in range(4)]
    monkeypatch.setattr(several, "perform", None)
    for found in (*computing, portatile.matmul(*given, device=both)):
        np.testing.assert_allclose(found.numpy() if on_device else found, a @ b, rtol=2e-4, atol=1e-6)
    split = portatile.explain("gemm", m=31, n=29, k=17, device=both)
    assert "computes it alone, which is faster: it is too small to share" in str(split)
    assert split.shares[0].device in (both[1:] if on_device else both)


def test_what_one_device_does_sooner_is_not_shared(both: list[str], twins: tuple[Device, Device], monkeypatch: pytest.MonkeyPatch) -> None:
    """Its time alone was measured, and that of the split: both are told."""
    get = devices.get
    monkeypatch.undo()
    monkeypatch.setattr(devices, "get", get)
    chosen, problem = [twins[0], twins[1]], _problem(640, 96, 48)
    monkeypatch.setattr(devices, "several", lambda selector: tuple(chosen))
    took = {"alone ": 1e-4, "with opencl": 2e-3}
    monkeypatch.setattr(
        rates, "seconds", lambda info, one, what: took[what[:11] if what[0] == "w" else "alone "] * (1 + (info is twins[0].info))
    )
    a, b = drawn(1, 640, 48), drawn(2, 48, 96)
    np.testing.assert_allclose(portatile.matmul(a, b, device=both), a @ b, rtol=2e-4, atol=1e-4)
    split = splits.last(problem, twins)
    assert split is not None
    assert [share.device for share in split.shares] == [both[1]]
    assert f"{both[1]} computes it alone, which is faster" in str(split)
    assert "shared: 4 ms (measured), opencl:9:0 alone: 100 us (measured)" in str(split)


def test_who_would_do_too_little_is_left_out_of_several(
    both: list[str], twins: tuple[Device, Device], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Two share what a third, of two per cent of their rates, would only hinder; whoever takes part is told, and why not all."""
    monkeypatch.setenv("PORTATILE_DATA_DIR", str(tmp_path))
    monkeypatch.setattr(forecast, "_LITTLE", 0.03)
    assert isinstance(twins[0], ClDevice)
    slow = ClDevice("opencl:9:1", twins[0].cl_device)
    slow.info = replace(slow.info, driver="another", physical_id="another")
    chosen = (*twins, slow)
    monkeypatch.setattr(devices, "several", lambda selector: chosen)
    shapes = (900, 96), (96, 64)
    a, b, psi = *(drawn(number, *shape) for number, shape in enumerate(shapes)), drawn(5, 7, 12, 12, 12, dtype="float64")
    asked = [*both, "opencl:9:1"]
    for problem, work in (
        (_problem(900, 64, 96), 2.0 * 900 * 64 * 96),
        (batches.problem(batches.ROUTINES["magicfilter3d"], psi.shape, "float64"), float(psi.size)),
    ):
        for one, rate in zip(chosen, (1e9, 1e9, 4e7), strict=True):
            for _ in range(2):
                rates.record_rate(one.info, problem, work, rate)
    try:
        np.testing.assert_allclose(portatile.matmul(a, b, device=asked), a @ b, rtol=2e-4, atol=1e-4)
        found = splits.latest()
        assert found is not None
        assert {share.device for share in found.shares} == set(both)
        assert "left out because their part would be too small: opencl:9:1 (2 %)" in str(found)
        assert portatile.explain("gemm", m=900, n=64, k=96, device=asked) == found
        np.testing.assert_allclose(
            wavelets.magicfilter3d(psi, device=asked), wavelets.magicfilter3d(psi, device=both[0]), rtol=1e-12, atol=1e-12
        )
        filtered = splits.latest()
        assert filtered is not None
        assert {share.device for share in filtered.shares} == set(both)
        assert "opencl:9:1 (2 %)" in filtered.note
    finally:
        slow.release()


def test_all_devices_are_each_physical_one_once() -> None:
    result = devices.several("all")
    assert len({one.info.physical_id for one in result}) == len(result)
    a, b = drawn(1, 40, 5), drawn(2, 5, 3)
    np.testing.assert_allclose(portatile.matmul(a, b, device="all"), a @ b, rtol=1e-5)


def test_hardware_that_two_back_ends_show_counts_once(
    both: list[str], twins: tuple[Device, Device], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert [one.info.physical_id for one in devices.several("all")].count(twins[0].info.physical_id) == 1
    monkeypatch.setattr(twins[1], "info", replace(twins[1].info, physical_id="another"))
    assert {one.info.id for one in devices.several("all")} >= set(both)


def test_rates_are_kept_for_the_next_process(twins: tuple[Device, Device], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PORTATILE_DATA_DIR", str(tmp_path))
    info, small, large = twins[0].info, _problem(8, 8, 8), _problem(800, 800, 800)
    assert rates.of(info, small, 1e3) is None
    rates.learn(info, small, 1e3, 5.0)
    rates.learn(info, large, 1e9, 70.0)
    monkeypatch.setattr(rates, "_known", {})  # as a new process
    assert rates.of(info, small, 2e3) == 5.0
    assert rates.of(info, large, 1e12) == 70.0, "of the nearest size"
    assert rates.of(twins[1].info, small, 1e3) is None, "it is reached in another way"
    (file,) = (tmp_path / "rates").iterdir()
    file.write_bytes(b"damaged")
    monkeypatch.setattr(rates, "_known", {})
    assert rates.of(info, small, 1e3) is None


def test_explain_tells_the_split(both: list[str]) -> None:
    sizes = {"m": 777, "n": 96, "k": 64}
    before = portatile.explain("gemm", device=both, **sizes)
    assert before.expected
    assert "expected" in str(before) or before.note
    portatile.matmul(drawn(1, 777, 64), drawn(2, 64, 96), device=both)
    after = portatile.explain("gemm", device=both, **sizes)
    assert not after.expected
    assert after.seconds > 0
    assert sum(share.steps for share in after.shares) == 777


def test_explain_of_a_single_device_names_it(both: list[str]) -> None:
    told = str(portatile.explain("gemm", m=50, n=40, k=30, device=both[:1]))
    assert told == f"{both[0]} is the only device; it computes gemm alone"


def test_a_split_of_which_nothing_is_known_gives_no_figures() -> None:
    split = splits.Split(_problem(8, 8, 8), "m", 0.0, (splits.Share("a", 0, 0, 0.0),), "no rate is known of a", expected=True)
    assert str(split) == "gemm cut along m; no rate is known of a"


def test_explain_tells_the_split_of_a_batch(both: list[str]) -> None:
    sizes = {"orbitals": 6, "n1": 8, "n2": 10, "n3": 12}
    before = portatile.explain("kinetic", dtype="float64", device=both, **sizes)
    assert before.expected
    wavelets.kinetic(np.ones(tuple(sizes.values())), device=both)
    after = portatile.explain("kinetic", dtype="float64", device=both, **sizes)
    assert not after.expected
    assert after.size == "orbitals"
    assert sum(share.steps for share in after.shares) == 6
    assert "too few orbitals" in str(portatile.explain("magicfilter3d", device=both, **{**sizes, "orbitals": 1}))
    with pytest.raises(ArgumentError, match="give n3 as whole numbers"):
        portatile.explain("density", device=both, orbitals=6, n1=8, n2=8)
    with pytest.raises(ArgumentError, match="name several devices"):
        portatile.explain("density", device=both[0], **sizes)


def test_one_device_is_not_preferred_for_good(both: list[str], twins: tuple[Device, Device], monkeypatch: pytest.MonkeyPatch) -> None:
    """After so many calls all are timed once more; then after four times as many."""
    monkeypatch.setattr(over_devices, "_CALLS", 3)
    monkeypatch.setattr(forecast, "_quickest", QUICKEST)
    monkeypatch.setattr(rates, "_known", {})
    monkeypatch.setattr(tries, "timed", {})
    psi, ways = drawn(1, 3, 4, 4, 4, dtype="float64"), list[str]()
    batch = batches.problem(batches.ROUTINES["magicfilter3d"], psi.shape, "float64")
    task = batches.task(batch, twins, None)
    rates.record_seconds(twins[0].info, batch, task.all, 14.0)
    for twin in twins:
        rates.record_seconds(twin.info, batch, "alone", 10.0)
    for _ in range(5):
        tries.count(tries.key_of(twins[0], batch, task.all), 14.0, False)
    usual = over_devices._shared

    def shared(*args: Any) -> Any:
        ways.append("shared")
        result = usual(*args)
        rates.record_seconds(twins[0].info, batch, task.all, 14.0)
        tries.count(tries.key_of(twins[0], batch, task.all), 14.0, False)
        return result

    monkeypatch.setattr(over_devices, "_shared", shared)
    monkeypatch.setattr(forecast, "learn_together", lambda *args: None)
    for _ in range(20):
        ways.append("called")
        wavelets.magicfilter3d(psi, device=both)
    assert [place - ways[:place].count("shared") for place, way in enumerate(ways) if way == "shared"] == [5, 19]
