"""Measurements on every device: copies that carry their bytes, kernels that are checked, impossible rates are refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from portatile import ceilings, workloads
from portatile.ceilings import STREAMS, Measured
from portatile.device.base import Device
from portatile.errors import ArgumentError, DeviceError, LaunchError
from portatile.measure import first_ceilings, peaks, plausible, runs, transfers
from portatile.measure.runs import MeasurementLength, MeasurementOptions
from portatile.measure.transfers import Copy
from portatile.records import DeviceInfo, Value
from portatile.workloads.gemm.capabilities import matrix_units
from support.devices import DEVICES

SHORT = MeasurementOptions(MeasurementLength(samples=2, seconds=0.0, burst=0.002))


@pytest.fixture(autouse=True)
def own_directories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PORTATILE_DATA_DIR", str(tmp_path / "data"))


def test_the_sizes_are_those_of_bandwidth_test() -> None:
    assert transfers.sizes("quick") == (32_000_000,)
    shmoo = transfers.sizes("shmoo")
    assert len(shmoo) == 81
    assert (shmoo[0], shmoo[19], shmoo[20], shmoo[-1]) == (1000, 20_000, 22_000, 68_000_000)
    assert list(shmoo) == sorted(set(shmoo))
    assert set(np.diff(shmoo)) == {1000, 2000, 10_000, 100_000, 1_000_000, 2_000_000, 4_000_000}
    assert transfers.sizes("range", 1000, 4096, 1024) == (1000, 2024, 3048, 4072)


@pytest.mark.parametrize("bounds", [(None, 10, 1), (10, None, 1), (10, 20, None), (0, 20, 1), (20, 10, 1), (10, 20, 0)])
def test_a_range_must_be_whole(bounds: tuple[int | None, ...]) -> None:
    with pytest.raises(ArgumentError, match=r"range|start"):
        transfers.sizes("range", *bounds)


def test_bounds_belong_to_a_range() -> None:
    with pytest.raises(ArgumentError, match="mode range"):
        transfers.sizes("quick", start=3)


@pytest.mark.parametrize("memory", ["pinned", "pageable"])
@pytest.mark.parametrize("direction", ["htod", "dtoh", "dtod"])
def test_copies_are_measured(device: Device, direction: str, memory: str) -> None:
    measured = transfers.measure(device, Copy(direction, memory, 1_000_003), rounds=2)  # type: ignore[arg-type]
    assert measured.work == 1_000_003 * (2 if direction == "dtod" else 1)
    assert len(measured.samples) == 2
    assert min(measured.samples) > 0
    assert measured.details == {"memory": "device" if direction == "dtod" else memory, "bytes": 1_000_003}


def test_a_copy_that_loses_bytes_is_noticed(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    queues = type(device.default_queue())
    download: Callable[..., object] = queues.download

    def lossy(self: object, array: np.ndarray, *args: object, **kwargs: object) -> object:
        event = download(self, array, *args, **kwargs)
        array[len(array) // 2] ^= 1
        return event

    monkeypatch.setattr(queues, "download", lossy)
    with pytest.raises(DeviceError, match="1 of 4096 bytes"):
        transfers.measure(device, Copy("htod", "pinned", 4096))


def test_streams_and_arithmetic_are_answered_and_kept(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peaks, "refuse_removed", lambda *args: None)  # whose clock a busy machine upsets
    monkeypatch.setattr(peaks, "contenders", lambda asked, info: [])  # which take time to compile
    monkeypatch.setattr(ceilings, "stream_bytes", lambda info: 1 << 22)
    monkeypatch.setattr(peaks, "memory_limit", lambda *args: 0.0)  # a cache holds these arrays
    quantities = [*peaks.memory_quantities(device.info), *peaks.arithmetic_quantities(device.info)]
    assert {quantity.name for quantity in quantities} == {*STREAMS, "fp32", "special", "local", *(["fp64"] if device.info.fp64 else [])} | (
        {"mma"} if matrix_units(device.info) else set()
    )
    small = replace(device.info, compute_units=1)
    for quantity in quantities:
        if quantity.name in ("copy", "dot", "fp32", "mma", "local"):
            asked = peaks.problem(quantity, small, nbytes=1 << 22, rounds=512, chains=1 << 15)
            measured = peaks.measure(device, quantity, asked, SHORT)
            assert (measured.name, measured.unit) == (quantity.name, quantity.unit)
            assert measured.rate == pytest.approx(measured.work / min(measured.samples))
            ceilings.add(device.info, [measured])
    loaded = ceilings.load(device.info)
    assert loaded is not None
    assert None not in (loaded.copy, loaded.bandwidth, loaded.fp32, loaded.local_memory)
    assert loaded.special is None


@pytest.mark.parametrize("kind", ["cpu", "gpu"])
def test_contenders_are_legal_and_several(kind: str) -> None:
    info = DEVICES[kind]
    for quantity in (*peaks.memory_quantities(info), *peaks.arithmetic_quantities(info)):
        asked = peaks.problem(quantity, info)
        space = workloads.get(quantity.workload).space(asked, info)
        result = peaks.contenders(asked, info)
        assert len(result) >= 2
        assert all(space.violated(config) is None for config in result)


def test_the_widest_registers_of_a_processor_take_part() -> None:
    """512 bits of both types: half of a processor that has them would be half its ceiling."""
    info = DEVICES["cpu"]
    for quantity in peaks.arithmetic_quantities(info)[:2]:
        asked = peaks.problem(quantity, info)
        widths = {int(config["VECTOR"]) * asked.itemsize for config in peaks.contenders(asked, info)}
        assert widths == {32, 64}


def test_the_fastest_contender_is_taken(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that fails is left out; where all fail, the failure is told."""
    asked = peaks.problem(peaks.memory_quantities(device.info)[0], device.info, nbytes=4096)
    seconds = {64: 2.0, 256: 1.0, 1024: 3.0}
    configs = [{"PER_ITEM": size} for size in (64, 16, 256, 64, 1024)]

    def timed(ready: runs.PreparedRun, config: peaks.Config, way: MeasurementOptions) -> runs.Timed:
        if config["PER_ITEM"] not in seconds:
            raise LaunchError("too many")
        return runs.Timed(ready.problem, config, (seconds[int(config["PER_ITEM"])],), 0.0)

    monkeypatch.setattr(runs.PreparedRun, "timed", timed)
    with runs.prepared(device, asked) as ready:
        assert peaks._best(ready, configs) == {"PER_ITEM": 256}
        with pytest.raises(LaunchError, match="too many"):
            peaks._best(ready, [{"PER_ITEM": 1}])


def test_what_another_configuration_left_does_not_count(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel that writes nothing is wrong, though the right result lies there already."""
    asked = workloads.get("stream").problem({"n": 999})
    with runs.prepared(device, asked) as ready:
        config = runs.known(asked, device).config
        assert ready.timed(config, SHORT).error <= 1
        monkeypatch.setattr(runs.Executable, "run", lambda *args: None)
        with pytest.raises(DeviceError, match="computes wrongly"):
            ready.timed(config, SHORT)


def test_what_the_rates_count(device: Device) -> None:
    """Bytes of BabelStream for streams; two operations for a multiply-add, one for a function; bytes read of local memory."""
    by_name = {quantity.name: quantity for quantity in (*peaks.memory_quantities(device.info), *peaks.arithmetic_quantities(device.info))}
    triad = peaks.problem(by_name["triad"], device.info, nbytes=8000)
    assert peaks.work(by_name["triad"], triad) == 24000
    for name, counted in (("fp32", 2000), ("special", 1000), ("local", 4000)):
        assert peaks.work(by_name[name], peaks.problem(by_name[name], device.info, chains=100, rounds=10)) == counted


def test_a_wrong_kernel_is_not_timed(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = workloads.get("stream")
    monkeypatch.setattr(type(stream), "bound", lambda self, problem, config: 1e-300)
    with pytest.raises(DeviceError, match="computes wrongly"):
        runs.timed(device, stream.problem({"n": 999}), way=SHORT)


@pytest.mark.parametrize(
    ("measured", "message"),
    [
        (Measured("copy", "B/s", 1e9, (1.0, 0.0)), "took no time"),
        (Measured("copy", "B/s", 1e9, ()), "took no time"),
        (Measured("copy", "B/s", 1e20, (1.0,)), "more than any"),
        (Measured("fp32", "flop/s", 1e20, (1.0,)), "more than any"),
        (Measured("fp32", "flop/s", 1.0, (1e-9,)), "resolution"),
    ],
)
def test_impossible_readings_are_refused(device: Device, measured: Measured, message: str) -> None:
    with pytest.raises(DeviceError, match=message):
        plausible.refuse_impossible(measured, device.info)


H200 = replace(DEVICES["gpu"], clock_mhz=1980, global_memory=150 * 10**9, max_allocation=150 * 10**9)
_HBM = 2 * 3201e6 * 6144 / 8  # by clock and bus width, twice a clock


@pytest.mark.parametrize(
    ("name", "unit", "possible", "impossible"),
    [
        ("copy", "B/s", 4.6e12, 6.5e12),
        ("fp32", "flop/s", 65.7e12, 85e12),
        ("fp64", "flop/s", 33.2e12, 43e12),
        ("mma", "flop/s", 66.9e12, 85e12),
        ("special", "op/s", 4.17e12, 5.3e12),
        ("local", "B/s", 33e12, 43e12),
        ("htod", "B/s", 5.5e10, 1.1e12),
    ],
)
def test_readings_of_a_gpu_have_narrow_limits(name: str, unit: str, possible: float, impossible: float) -> None:
    """What an H200 reached or could reach passes; a third more than its units can do does not."""
    details: dict[str, Value] = {"dtype": "float64", "n": 2**25} if name == "copy" else {}
    stub = Told(H200, _HBM)
    result = plausible.memory_limit(stub, lambda: 0.0)
    plausible.refuse_impossible(Measured(name, unit, possible, (1.0,), details), H200, result)  # type: ignore[arg-type]
    with pytest.raises(DeviceError, match="more than any"):
        plausible.refuse_impossible(Measured(name, unit, impossible, (1.0,), details), H200, result)  # type: ignore[arg-type]


class Told:
    """A device of which only these are asked."""

    def __init__(self, info: DeviceInfo, memory_rate: float = 0.0) -> None:
        self.info, self.memory_rate = info, memory_rate


def test_what_is_known_of_a_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver's word, also for the chip's other back end; else a copy; of a processor nothing."""
    opencl = Told(replace(H200, id="opencl:0:0", backend="opencl"))
    twin = Told(H200, _HBM)
    monkeypatch.setattr(plausible, "devices", lambda: [opencl, twin, Told(replace(H200, physical_id="another"), 1e15)])
    assert plausible.memory_limit(opencl, lambda: 1.0) == plausible.memory_limit(twin, lambda: 1.0) == pytest.approx(1.3 * _HBM)
    monkeypatch.setattr(plausible, "devices", lambda: [opencl])
    assert plausible.memory_limit(opencl, lambda: 1e12) == pytest.approx(4e12)
    assert plausible.memory_limit(Told(DEVICES["cpu"]), lambda: 1e10) == 0


def test_caches_are_faster_than_memory() -> None:
    """A reading on arrays that a cache holds may exceed the memory's rate, but not everything."""
    small: dict[str, Value] = {"dtype": "float64", "n": 2**15}
    plausible.refuse_impossible(Measured("copy", "B/s", 1e13, (1.0,), small), H200, 1.3 * _HBM)
    plausible.refuse_impossible(Measured("dtod", "B/s", 1e13, (1.0,), {"memory": "device", "bytes": 2**20}), H200, 1.3 * _HBM)
    for rate, details in ((1e14, small), (1e13, {"memory": "device", "bytes": 2**28})):
        with pytest.raises(DeviceError, match="more than any"):
            plausible.refuse_impossible(Measured("dtod" if "bytes" in details else "copy", "B/s", rate, (1.0,), details), H200, 1.3 * _HBM)


def test_a_stream_faster_than_its_memory_is_refused(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole way: the driver tells a memory slower than what was read."""
    monkeypatch.setattr(peaks, "contenders", lambda asked, info: [])
    monkeypatch.setattr(ceilings, "stream_bytes", lambda info: 1 << 20)
    monkeypatch.setattr(type(device), "memory_rate", 1e3)
    with pytest.raises(DeviceError, match="more than any"):
        peaks.measure(device, peaks.memory_quantities(device.info)[0], way=SHORT)


def test_a_memory_of_which_nothing_is_told_is_compared_with_copies(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ceilings, "stream_bytes", lambda info: 1 << 20)
    assert peaks._copied(device) > 1e6


def test_possible_readings_are_not(device: Device) -> None:
    plausible.refuse_impossible(Measured("copy", "B/s", 4e9, (1.0,)), device.info)
    plausible.refuse_impossible(Measured("fp32", "flop/s", 5e10, (1.0,)), device.info)
    plausible.refuse_removed("x", 1.0, 2.0)


@pytest.mark.parametrize("twice", [1.0, 1.02, 4.5])
def test_a_loop_that_was_removed_is_noticed(twice: float) -> None:
    with pytest.raises(DeviceError, match="removed"):
        plausible.refuse_removed("x", 1.0, twice)


@pytest.mark.unoptimised
def test_a_kernel_without_its_loop_is_noticed(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole way: a compiler that makes the kernel take the same time whatever its rounds."""
    quantity = peaks.arithmetic_quantities(device.info)[0]
    timed = runs.PreparedRun.timed

    def constant(ready: runs.PreparedRun, *args: object) -> runs.Timed:
        return replace(timed(ready, *args), samples=(1e-3,))  # type: ignore[arg-type]

    monkeypatch.setattr(runs.PreparedRun, "timed", constant)
    with pytest.raises(DeviceError, match="removed"):
        peaks.measure(device, quantity, peaks.problem(quantity, device.info, rounds=8, chains=1024), SHORT)


@pytest.mark.parametrize(("most", "count"), [(float("inf"), 8), (2.5, 3), (4.5, 5)])
def test_runs_that_take_long_need_fewer_samples(most: float, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]

    def back_to_back(*asked: object) -> float:
        clock[0] += 1.0
        return 1.0

    monkeypatch.setattr(runs, "back_to_back", back_to_back)
    monkeypatch.setattr(runs.time, "perf_counter", lambda: clock[0])
    samples = runs.bursts(None, None, lambda: None, MeasurementLength(samples=8, seconds=0.2, most=most))  # type: ignore[arg-type]
    assert len(samples) == count


def test_the_first_ceilings_are_measured_in_a_process_of_their_own(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PORTATILE_CEILINGS", raising=False)
    said: list[str] = []
    result = first_ceilings.ensure(device.info, said.append)
    assert result is not None, said
    assert result.brief
    assert result.copy
    assert result.fp32 or result.disturbed  # beside other programs a measurement of arithmetic may contradict itself, and is refused
    assert "copies" in said[0]


def test_operands_are_made_once_for_devices_that_follow_one_another(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = workloads.get("stream").problem({"n": 1000})
    with runs.prepared(device, problem) as first, runs.prepared(device, problem) as second, runs.prepared(device, problem, 1) as other:
        assert second.expected is first.expected
        assert other.expected is not first.expected
        assert first.timed(runs.known(problem, device).config, SHORT).error <= 1
        assert second.timed(runs.known(problem, device).config, SHORT).error <= 1
    monkeypatch.setattr(runs, "_KEPT", 0)
    with runs.prepared(device, problem, 2) as first, runs.prepared(device, problem, 2) as second:
        assert second.expected is not first.expected
