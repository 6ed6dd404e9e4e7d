"""Small products of NumPy arrays for which no device is named: by NumPy where that is faster, with the routine's own rules."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import portatile
from portatile.errors import ArgumentError
from portatile.runtime import perform
from portatile.runtime.host import host_blas, host_race, numpy_products
from portatile.runtime.repeated import recorded
from support.seeds import new_seed

pytestmark = pytest.mark.unoptimised


@pytest.fixture(autouse=True)
def nothing_selected(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Later tests of the process find nothing that NumPy won here."""
    for name in ("PORTATILE_DEVICE", "PYOPENCL_CTX"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(host_blas, "_raced", {})
    monkeypatch.setattr(numpy_products, "LEAST_LAUNCH", 0.0)  # else these products are too small for a race
    perform.forget()
    yield
    numpy_products.forget()
    perform.forget()


def always(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """NumPy wins each race; what it computes is counted."""
    calls: list[int] = []
    again = host_blas.NumpyProduct.repeat

    def counted(self: host_blas.NumpyProduct, *given: object) -> object:
        calls.append(1)
        return again(self, *given)  # type: ignore[arg-type]

    monkeypatch.setattr(host_blas.NumpyProduct, "repeat", counted)
    monkeypatch.setattr(recorded, "faster", lambda usual, library, call, result, places: host_blas.NumpyProduct(usual, call.options))
    return calls


@pytest.mark.parametrize("trans", ["NN", "TN", "NT", "TT"])
@pytest.mark.parametrize("stack", [(), (3,)])
def test_values_are_the_routines(monkeypatch: pytest.MonkeyPatch, trans: str, stack: tuple[int, ...]) -> None:
    calls, rng = always(monkeypatch), np.random.default_rng(new_seed(trans))
    a = rng.random((*stack, 13, 9)) if trans[0] == "N" else rng.random((*stack, 9, 13))
    b = rng.random((*stack, 9, 11)) if trans[1] == "N" else rng.random((*stack, 11, 9))
    want = 2.5 * ((a if trans[0] == "N" else a.swapaxes(-1, -2)) @ (b if trans[1] == "N" else b.swapaxes(-1, -2)))
    out = np.empty((*stack, 13, 11))
    for turn in range(3):
        result = portatile.gemm(a, b, alpha=2.5, trans_a=trans[0], trans_b=trans[1], out=out)  # type: ignore[arg-type]
        assert result is out
        assert np.allclose(result, want)
        assert len(calls) == turn
    for turn in range(3):
        plus = portatile.gemm(a, b, out, alpha=2.5, beta=0.5, trans_a=trans[0], trans_b=trans[1])  # type: ignore[arg-type]
        assert np.allclose(plus, 1.5 * want)
        assert len(calls) == 2 + turn
    for turn in range(1, 3):
        into = {"beta": 1.0, "trans_a": trans[0], "trans_b": trans[1], "alpha": 2.5}
        assert portatile.gemm(a, b, out, out=out, **into) is out  # type: ignore[arg-type]
        assert np.allclose(out, (1 + turn) * want)


def test_an_output_that_overlaps_is_written_last(monkeypatch: pytest.MonkeyPatch) -> None:
    calls, memory = always(monkeypatch), np.random.default_rng(1).random((40, 16))
    a, b = memory[:16], np.eye(16)
    portatile.matmul(a, b, out=memory[16:32])
    portatile.matmul(a, b, out=memory[16:32])
    assert calls
    expected = a @ b
    portatile.matmul(a, b, out=memory[8:24])
    assert np.allclose(memory[8:24], expected)
    with pytest.raises(ArgumentError, match="overlaps a"):
        portatile.gemm(memory[:16], b, out=memory[8:24])


def test_plain_products_are_found_by_their_sizes_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """After the race plain products of its sizes go straight to NumPy, under the rules of the routine."""
    rng = np.random.default_rng(new_seed("form"))
    whole = rng.random((64, 16))
    a, b, out = whole[:16], rng.random((16, 16)), np.empty((16, 16))
    with monkeypatch.context() as patched:  # each look at the clock is later than the one before, but for NumPy's
        patched.setattr(host_race, "time", FastNumpy(patched))
        portatile.matmul(a, b, out=out)
    assert numpy_products.product(a, b, out) is out
    assert np.allclose(out, a @ b)
    expected = a @ b
    for result in (numpy_products.product(a, b, None), numpy_products.product(a[:, ::-1], b[::-1], np.empty((16, 32))[:, ::2])):
        assert np.allclose(result, expected)
    for first, second, into in (
        (a[:15], b, None),
        (a, b[:, :15], None),
        (a, b.astype(np.float32), None),
        (a, b, np.empty((16, 16), np.float32)),
        (a, b, np.empty((16, 15))),
        (a, b, [0.0]),
        (a, np.array(1.0), None),
        (np.array(1.0), b, None),
        (a[:, :15], b, None),
    ):
        assert numpy_products.product(first, second, into) is None, "other sizes or types, or what does not fit"
    assert np.allclose(portatile.matmul(a, b, out=whole[8:24]), expected), "it overlaps"
    out.flags.writeable = False
    with pytest.raises(ArgumentError, match="read-only"):
        portatile.matmul(a, b, out=out)
    perform.forget()
    assert numpy_products.product(a, b, np.empty((16, 16))) is None, "results tuned since are to be used"


def test_what_is_converted_to_such_a_product_is_found_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Vectors and steps of the same dtype, which NumPy reads as they are; not where the result would be of another dtype."""
    rng = np.random.default_rng(new_seed("converted"))
    a, v = rng.random((18, 18)), rng.random(36)[::2]
    for given in ((a, v), (v, v), (a[::-1, ::-1], a), (a.astype(int), a)):
        with monkeypatch.context() as patched:
            patched.setattr(host_race, "time", FastNumpy(patched))
            portatile.matmul(*given)
    for given in ((a, v), (v, v), (a[::-1, ::-1], a)):
        result = numpy_products.product(*given, None)
        assert result is not None
        assert np.array_equal(result, np.matmul(*given))
        assert np.array_equal(portatile.matmul(*given), result)
    assert numpy_products.product(a.astype(int), a, None) is None
    perform.forget()


class FastNumpy:
    """A clock that only moves while the device computes; how often NumPy did is counted."""

    def __init__(self, patched: pytest.MonkeyPatch) -> None:
        self.now, self.moving, self.calls = 0.0, True, 0
        computed = host_blas.NumpyProduct.computed

        def resting(rival: host_blas.NumpyProduct, *given: object) -> object:
            self.moving, self.calls = False, self.calls + 1
            return computed(rival, *given)  # type: ignore[arg-type]

        patched.setattr(host_blas.NumpyProduct, "computed", resting)

    def perf_counter(self) -> float:
        self.now, self.moving = self.now + self.moving, True
        return self.now


def test_a_device_has_to_be_clearly_faster() -> None:
    """Where both take about the same time NumPy computes, whose time varies less."""
    for on_device, by_numpy, numpy_wins in (
        (50e-6, 52e-6, True),
        (50e-6, 56e-6, False),
        (0.97, 1.0, True),
        (0.9, 1.0, False),
        (2.0, 1.0, True),
    ):
        assert host_race.RaceResult(on_device, by_numpy, on_device, by_numpy).numpy_wins == numpy_wins


@pytest.mark.parametrize(
    ("device", "numpy", "wins"),
    [
        ([1e-4, *[9e-4] * 99], [9e-3, *[6e-4] * 99], True),  # a launch that was once quick says little of the next one
        ([1e-3] * 99, [2e-4, *[16e-3] * 99], True),  # and little say runs for which BLAS lacked a thread
        ([1e-4, *[3e-4] * 99], [4e-4, *[6e-4] * 99], False),
    ],
)
def test_a_disturbed_run_decides_no_race(monkeypatch: pytest.MonkeyPatch, device: list[float], numpy: list[float], wins: bool) -> None:
    seconds, clock = {"device": iter(device), "numpy": iter(numpy)}, [0.0]

    def way(name: str) -> None:
        clock[0] += next(seconds[name])

    monkeypatch.setattr(host_race, "time", SimpleNamespace(perf_counter=lambda: clock[0]))
    held = host_race.HostRace(lambda: way("device"), lambda: way("numpy")).compared()
    assert held.on_device == pytest.approx(device[1])
    assert held.by_numpy == pytest.approx(numpy[1])
    assert held.numpy_wins == wins


def test_a_device_that_is_slow_beside_spinning_threads_loses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each run of NumPy keeps the cores busy for a while, during which a launch takes ten times as long."""
    clock, spinning = [0.0], [0.0]

    def on_device() -> None:
        clock[0] += 1e-3 if clock[0] < spinning[0] else 1e-4

    def by_numpy() -> None:
        clock[0] += 3e-4
        spinning[0] = clock[0] + 1.0

    monkeypatch.setattr(host_race, "time", SimpleNamespace(perf_counter=lambda: clock[0]))
    held = host_race.HostRace(on_device, by_numpy).compared()
    assert held.on_device == pytest.approx(1e-3)
    assert held.numpy_wins


def test_a_blas_that_was_kept_from_running_is_raced_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a processor: what no kernel can gain says that other programs had the cores. If it is said twice NumPy computes."""
    races: list[int] = []

    def held(race: host_race.HostRace, on_device: Sequence[float] = ()) -> host_race.RaceResult:
        races.append(1)
        return host_race.RaceResult(1e-3, 9e-3, 1e-3, 9e-3, race.numpy())

    monkeypatch.setattr(host_race.HostRace, "compared", held)
    a, out = np.random.default_rng(1).random((18, 18)), np.empty((18, 18))
    for _ in range(4):
        assert np.allclose(portatile.matmul(a, a, out=out), a @ a)
    processor = portatile.get_device().info.kind == "cpu"
    assert len(races) == 1 + processor
    assert (numpy_products.product(a, a, out) is out) == processor
    assert not host_race.RaceResult(1e-3, 9e-3, 1e-3, 9e-3).plausible(8.0)
    assert host_race.RaceResult(1e-3, 9e-3, 1e-3, 9e-3).plausible(10.0)


@pytest.mark.parametrize("long", [False, True])
def test_numpy_tries_again_where_kernels_won(monkeypatch: pytest.MonkeyPatch, long: bool) -> None:
    """On a processor, at the eighth call after the race: NumPy computes from then on if it has become faster."""
    if portatile.get_device().info.kind != "cpu":
        pytest.skip("what other programs take from a processor is not a GPU's")
    if long:
        monkeypatch.setattr(host_blas, "_LARGEST", 0)
    races: list[int] = []

    def held(race: host_race.HostRace, on_device: Sequence[float] = ()) -> host_race.RaceResult:
        races.append(1)
        on, by = (10.0, 15.0) if len(races) == 1 else (10.0, 1.0)
        return host_race.RaceResult(on, by, on, by, race.numpy())

    monkeypatch.setattr(host_race.HostRace, "compared", held)
    rng = np.random.default_rng(new_seed("again"))
    a, c, out = rng.random((17, 17)), rng.random((17, 17)), np.empty((17, 17))
    for call in range(1, 9 + long):
        assert np.allclose(portatile.gemm(a, a, alpha=0.5, out=out), 0.5 * a @ a)
        assert len(races) == (call > long)
    for _ in range(3):
        assert np.allclose(portatile.gemm(a, a, alpha=0.5, out=out), 0.5 * a @ a)
        assert len(races) == 2
    assert numpy_products.scaled(a, a, None, (0.5, 0.0), ("N", "N"), out) is out
    races.clear()
    for _ in range(12):
        summed = a @ a - 0.5 * c
        assert portatile.gemm(a, a, c, beta=-0.5, out=c) is c
        assert np.allclose(c, summed)
    assert len(races) == 2


@pytest.mark.parametrize("wins", [True, False])
def test_a_race_of_sums_leaves_an_operand_that_is_the_result_as_the_call_has_it(monkeypatch: pytest.MonkeyPatch, wins: bool) -> None:
    rng = np.random.default_rng(new_seed("in place"))
    a, b, c = rng.random((12, 9)), rng.random((9, 7)), rng.random((12, 7))
    want, apart = 2 * a @ b - 3 * c, c.copy()
    with monkeypatch.context() as patched:
        if wins:
            patched.setattr(host_race, "time", FastNumpy(patched))
        assert np.allclose(portatile.gemm(a, b, apart, alpha=2, beta=-3), want)
        assert np.array_equal(apart, c)
        assert portatile.gemm(a, b, c, alpha=2, beta=-3, out=c) is c
    assert np.allclose(c, want)
    portatile.gemm(a, b, c, alpha=2, beta=-3, out=c)
    assert np.allclose(c, 2 * a @ b - 3 * want)


def test_a_device_that_is_named_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    calls, a = always(monkeypatch), np.eye(16)
    name = portatile.get_device().info.id
    for _ in range(3):
        portatile.matmul(a, a, device=name)
    monkeypatch.setenv("PORTATILE_DEVICE", name)
    for _ in range(3):
        portatile.matmul(a, a)
    assert not calls


def test_explain_tells_of_products_too_small_for_a_race(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numpy_products, "LEAST_LAUNCH", 1.0)
    a = np.random.default_rng(1).random((24, 24), np.float32)
    assert "it takes no longer than a launch" in portatile.explain("gemm", m=24, n=24, k=24).explanation
    assert np.array_equal(portatile.matmul(a, a), a @ a)
    assert "it takes no longer than a launch" not in portatile.explain("gemm", m=24, n=24, k=24, dtype="float16").explanation


def test_explain_tells_of_the_race() -> None:
    a = np.random.default_rng(1).random((24, 24), np.float32)
    assert "are raced against NumPy's BLAS at their first call" in portatile.explain("gemm", m=24, n=24, k=24).explanation
    first = portatile.matmul(a, a)
    assert np.array_equal(first, portatile.matmul(a, a)), "the first result is the winner's too"
    assert "where the device takes" in portatile.explain("gemm", m=24, n=24, k=24).explanation
    second = portatile.explain("gemm", m=2400, n=2400, k=2400).explanation
    assert ("raced against NumPy's BLAS at their second call" in second) == (portatile.get_device().info.kind == "cpu")


@pytest.mark.parametrize("wins", [True, False])
@pytest.mark.parametrize("trans", ["NN", "TN", "TT"])
def test_a_long_product_is_raced_at_its_second_call(monkeypatch: pytest.MonkeyPatch, wins: bool, trans: str) -> None:
    """Every call is right, sums in place too; from the second on their bits are equal, and what has won computes."""
    if portatile.get_device().info.kind != "cpu":
        pytest.skip("a GPU and NumPy's BLAS are raced only where a launch counts")
    monkeypatch.setattr(host_blas, "_LARGEST", 0)
    clock, rng = FastNumpy(monkeypatch), np.random.default_rng(new_seed(trans))
    monkeypatch.setattr(host_race, "time", clock)
    if not wins:
        monkeypatch.setattr(host_blas, "_TOO_LONG", 0.0)
    a, b = (rng.random((14, 9) if trans[0] == "N" else (9, 14))), (rng.random((9, 6) if trans[1] == "N" else (6, 9)))
    options: Any = {"trans_a": trans[0], "trans_b": trans[1]}
    want = (a if trans[0] == "N" else a.T) @ (b if trans[1] == "N" else b.T)
    out = np.empty((14, 6))
    results = [portatile.gemm(a, b, out=out, **options).copy() for _ in range(4)]
    assert all(np.allclose(result, want) for result in results)
    assert all(np.array_equal(result, results[1]) for result in results[1:])
    assert (clock.calls > 0) == wins
    c = rng.random((14, 6))
    for _ in range(4):
        summed = want - 0.5 * c
        assert portatile.gemm(a, b, c, beta=-0.5, out=c, **options) is c
        assert np.allclose(c, summed)
    for _ in range(3):
        assert np.allclose(portatile.gemm(a, b, **options), want)
    found = numpy_products.scaled(a, b, None, (1.0, 0.0), (trans[0], trans[1]), out)
    assert (found is not None) == wins
    told = portatile.explain("gemm", dtype="float64", m=14, n=6, k=9, **options).explanation
    assert ("are left to NumPy's BLAS where no device is named" in told) == wins
