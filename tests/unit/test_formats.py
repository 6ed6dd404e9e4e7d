"""Other tuners' files: T4 there and back, Kernel Tuner's caches as they are found, and what is malformed is named with its place."""

from __future__ import annotations

import doctest
import gzip
import json
import math
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from portatile.errors import ArgumentError
from portatile.formats import kernel_tuner, t4
from portatile.trials import Certificate, Check
from support.trials import DEVICE, some, trial


def entry(block: int, time: object, **more: object) -> dict[str, Any]:
    phases = {"compile_time": 400.0, "verification_time": 0, "benchmark_time": 20.0, "strategy_time": 0, "framework_time": 1.0}
    return {"block_size_x": block, "use_shmem": block % 2, "time": time, "times": [], "timestamp": "now", **phases, **more}


def cache(entries: dict[str, dict[str, Any]]) -> dict[str, Any]:
    head = {
        "device_name": "NVIDIA A4000",
        "kernel_name": "convolution",
        "problem_size": [4096, 2048],
        "tune_params_keys": ["block_size_x", "use_shmem"],
    }
    return {**head, "tune_params": {"block_size_x": [16, 32, 48], "use_shmem": [0, 1]}, "objective": "time", "cache": entries}


ENTRIES = {
    "16,0": entry(16, 2.0, times=[1.0, 2.0, 6.0]),
    "32,0": entry(32, "CompilationFailedConfig"),
    "33,1": entry(33, "RuntimeFailedConfig"),
    "48,0": entry(48, "InvalidConfig"),
    "64,0": entry(64, 1e20),
    "65,1": entry(65, 1.7976931348623157e308, times=[1.7976931348623157e308]),
    "80,0": entry(80, 3.0),
    "96,0": entry(96, float("nan")),
}
STATUS_OF = {16: "ok", 32: "compile", 33: "launch", 48: "skipped", 64: "launch", 65: "launch", 80: "ok", 96: "launch"}


def test_t4_there_and_back() -> None:
    written = some(1)
    assert t4.load(t4.write(written)) == written


def test_t4_is_what_the_format_requires() -> None:
    """The fields, types and words of the published schema, version 1.0.0; where a copy of it is at hand, the next test asks it itself."""
    written = some(2)
    document = json.loads(t4.write(written))
    assert document["schema_version"] == "1.0.0"
    assert document["metadata"]["timeunit"] == "seconds"
    words = {"timeout", "compile", "runtime", "correctness", "constraints", "correct"}
    for result, one in zip(document["results"], written, strict=True):
        assert {"configuration", "times", "invalidity", "correctness"} <= set(result)
        assert result["invalidity"] in words
        assert (result["invalidity"] == "correct") == (one.status == "ok")
        assert isinstance(result["correctness"], (int, float))
        assert result["times"]["runtimes"] == list(one.samples)
        assert result["times"]["compilation_time"] == one.seconds["compile"]
        assert all({"name", "value", "unit"} == set(measured) for measured in result.get("measurements", []))


def test_t4_fulfils_the_published_schema() -> None:
    """Kernel Tuner brings the schema; neither it nor jsonschema is needed for anything else here."""
    jsonschema = pytest.importorskip("jsonschema")
    found = find_spec("kernel_tuner")  # not imported: it takes seconds
    if found is None or found.origin is None:
        pytest.skip("kernel_tuner, which brings the schema, is not installed")
    schema = json.loads((Path(found.origin).parent / "schema" / "T4" / "1.0.0" / "results-schema.json").read_text())
    certificate = Certificate("1.0", "compiler 1", "source", (Check({"m": 7}, 0.5, 2.0),))
    for written in (some(4, 30), [replace(one, certificate=certificate, conditions={"power_w": 200.0}) for one in some(5)]):
        document = json.loads(t4.write(written))
        assert len(document["results"]) == len(written)
        jsonschema.validate(document, schema)
    required = schema["properties"]["results"]["items"]["required"]
    first = document["results"][0]
    wrong = [{name: value for name, value in first.items() if name != missing} for missing in required]
    for result in (*wrong, {**first, "invalidity": "ok"}, {**first, "correctness": "yes"}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({**document, "results": [result]}, schema)


def test_t4_holds_one_problem_on_one_device() -> None:
    with pytest.raises(ArgumentError, match="one problem on one device, not of 2"):
        t4.write([trial(1), trial(2, device=replace(DEVICE, name="another"))])
    with pytest.raises(ArgumentError, match="not of 0"):
        t4.write([])


def outcome(**changes: object) -> dict[str, Any]:
    times = {"compilation": 400.0, "benchmark": 20.0, "framework": 1, "runtimes": [2.0, 1.0, 6.0]}
    return {"configuration": {"block": 16}, "times": times, "invalidity": "correct", "correctness": 1, **changes}


@pytest.mark.parametrize(("unit", "second"), [("milliseconds", 1e-3), ("seconds", 1.0), ("microseconds", 1e-6), (None, 1.0)])
def test_t4_of_another_program(unit: str | None, second: float) -> None:
    metadata = {} if unit is None else {"metadata": {"timeunit": unit}}
    (found,) = t4.read({"schema_version": "1.0.0", "results": [outcome(objectives=["time"])], "anything": 1, **metadata})
    assert found.samples == pytest.approx((2 * second, second, 6 * second))
    assert found.median == pytest.approx(2 * second)
    assert found.seconds == pytest.approx({"compile": 400 * second, "run": 20 * second, "framework": second})


def test_t4_without_runtimes_has_a_measurement() -> None:
    measured = [{"name": "time", "value": 2.5, "unit": "ms"}, {"name": "GFLOP/s", "value": 7.0, "unit": ""}]
    (found,) = t4.read({"schema_version": "1.0.0", "results": [outcome(times={"runtimes": []}, measurements=measured)]})
    assert found.samples == (2.5e-3,)


@pytest.mark.parametrize(
    ("document", "place"),
    [
        ({"schema_version": "1.0.0"}, "results"),
        ({"schema_version": "1", "results": []}, "schema_version"),
        ({"schema_version": "1.0.0", "results": {}}, r"\$\.results"),
        ({"schema_version": "1.0.0", "results": [outcome(), outcome(invalidity="fine")]}, r"\$\.results\[1\]\.invalidity"),
        ({"schema_version": "1.0.0", "results": [outcome(correctness="yes")]}, r"\$\.results\[0\]\.correctness"),
        ({"schema_version": "1.0.0", "results": [outcome(configuration={"block": [1]})]}, r"\$\.results\[0\]\.configuration"),
        ({"schema_version": "1.0.0", "results": [outcome(times={"runtimes": ["1"]})]}, r"\$\.results\[0\]\.times\.runtimes"),
        ({"schema_version": "1.0.0", "results": [outcome(times={})]}, r"\$\.results\[0\]\.times"),
        ({"schema_version": "1.0.0", "results": [outcome()], "metadata": {"timeunit": "fortnights"}}, r"\$\.metadata\.timeunit"),
        ({"schema_version": "1.0.0", "results": [outcome(portatile={"status": "ok"})]}, r"\$\.results\[0\]\.portatile"),
        ({"schema_version": "1.0.0", "results": [outcome(portatile={"status": "crash", "source": ""})]}, "disagree"),
    ],
)
def test_malformed_t4_is_refused_with_its_place(document: object, place: str) -> None:
    with pytest.raises(ArgumentError, match=place):
        t4.read(document)


def test_a_cache_is_read(tmp_path: Path) -> None:
    (tmp_path / "cache.json").write_text(json.dumps(cache(ENTRIES)))
    rows = kernel_tuner.read(tmp_path / "cache.json")
    assert {one.config["block_size_x"]: one.status for one in rows} == STATUS_OF
    assert [list(one.config) for one in rows] == [["block_size_x", "use_shmem"]] * len(ENTRIES)
    first, last = rows[0], next(one for one in rows if one.config["block_size_x"] == 80)
    assert first.samples == (1e-3, 2e-3, 6e-3)
    assert last.samples == (3e-3,)  # no repetitions: the time itself
    assert first.seconds == pytest.approx({"compile": 0.4, "run": 0.02, "framework": 1e-3})
    assert all(math.isinf(one.median) for one in rows if one.status != "ok")
    assert first.device.name == "NVIDIA A4000"
    assert dict(first.problem.sizes) == {"x": 4096, "y": 2048}


def test_every_interruption_is_read(tmp_path: Path) -> None:
    """A run that is stopped leaves a file that ends anywhere; every entry that was finished is found."""
    good = {key: value for key, value in ENTRIES.items() if key != "96,0"}
    head = json.dumps(cache({}))[: -len("}}")]
    lines = [f'"{key}": {json.dumps(value)}' for key, value in good.items()]
    text = head + "\n" + ",\n".join(lines)
    ends = [len(head + "\n" + ",\n".join(lines[:done])) for done in range(1, len(lines) + 1)]
    rng = np.random.default_rng(7)
    for cut in sorted({*ends, *(end + 1 for end in ends), *rng.integers(ends[0], len(text), 60).tolist()}):
        (tmp_path / "cache.json").write_text(text[:cut])
        rows = kernel_tuner.read(tmp_path / "cache.json")
        assert len(rows) == sum(end <= cut for end in ends), f"cut at {cut}"


def test_a_cache_that_looks_finished_and_is_not(tmp_path: Path) -> None:
    """Values may be objects, whose braces are not those of the cache; they count as text."""
    entries = {"16": {"x": 16, "how": {"b": [1], "a": 2}, "time": 1.0}, "32": {"x": 32, "time": 2.0, "how": {}}}
    whole = json.dumps({"device_name": "A", "tune_params_keys": ["x", "how"], "cache": entries})
    for text in (whole, whole[:-1], whole[:-2], whole[:-2] + "\n", whole[:-2] + ",\n"):
        (tmp_path / "cache.json").write_text(text)
        rows = kernel_tuner.read(tmp_path / "cache.json")
        assert [dict(one.config) for one in rows] == [{"x": 16, "how": '{"a": 2, "b": [1]}'}, {"x": 32, "how": "{}"}], text


def test_a_packed_cache_is_read(tmp_path: Path) -> None:
    (tmp_path / "cache.json.gz").write_bytes(gzip.compress(json.dumps(cache(ENTRIES)).encode()))
    assert len(kernel_tuner.read(tmp_path / "cache.json.gz")) == len(ENTRIES)


def test_the_short_form_is_read() -> None:
    codes, times = [0, 0, 1, 0, 1, 1], [2e-3, None, 3e-3]
    short = {
        "format": "compact-space-1",
        "name": "k/A",
        "meta": {"device": "A"},
        "params": {"x": [16, 32], "y": ["a", "b"]},
        "costs": [1, 2, 3.5],
    }
    result = kernel_tuner.trials({**short, "codes": codes, "times": times})
    assert [dict(one.config) for one in result] == [{"x": 16, "y": "a"}, {"x": 32, "y": "a"}, {"x": 32, "y": "b"}]
    assert [one.median for one in result] == [2e-3, math.inf, 3e-3]
    assert [one.seconds for one in result] == [{"run": 1}, {"run": 2}, {"run": 3.5}]
    for wrong in ({"codes": codes[:-1], "times": times}, {"codes": [9, *codes[1:]], "times": times}):
        with pytest.raises(ArgumentError, match=r"\$\.codes"):
            kernel_tuner.trials(short | wrong)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("nothing", "not JSON"),
        ("{}", "not a cache of Kernel Tuner"),
        ('{"tune_params_keys": ["x"], "cache": {}}', "device_name"),
        ('{"device_name": "A", "tune_params_keys": "x", "cache": {}}', r"\$\.tune_params_keys"),
        ('{"device_name": "A", "tune_params_keys": ["x"], "cache": {"1": {"time": 1}}}', r"'x' - at `\$\.cache\['1'\]`"),
        ('{"device_name": "A", "tune_params_keys": ["x"], "cache": {"1": {"x": 1}}}', r"no 'time' - at `\$\.cache\['1'\]`"),
        ('{"device_name": "A", "tune_params_keys": ["x"], "cache": {"1": {"x": 1, "time": []}}}', r"\$\.cache\['1'\]\.time"),
    ],
)
def test_a_malformed_cache_is_refused_with_its_place(text: str, complaint: str, tmp_path: Path) -> None:
    (tmp_path / "cache.json").write_text(text)
    with pytest.raises(ArgumentError, match=complaint):
        kernel_tuner.read(tmp_path / "cache.json")


def test_a_missing_and_a_damaged_file_are_mistakes(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="cannot be read"):
        kernel_tuner.read(tmp_path / "none.json")
    packed = gzip.compress(b"{}" * 100)
    for damaged in (packed[:20], packed[:10] + b"\xff" * 20):
        (tmp_path / "cut.gz").write_bytes(damaged)
        with pytest.raises(ArgumentError, match="cannot be read"):
            kernel_tuner.read(tmp_path / "cut.gz")


@pytest.mark.parametrize("module", [kernel_tuner, t4], ids=["kernel_tuner", "t4"])
def test_examples_are_true(module: ModuleType) -> None:
    outcome = doctest.testmod(module)
    assert outcome.attempted
    assert not outcome.failed


def test_t4_keeps_what_the_format_has_no_place_for() -> None:
    certificate = Certificate("1.0", "compiler 1", "source", (Check({"m": 7}, 0.5, 2.0),))
    written = [replace(one, cold=True, certificate=certificate) for one in some(3, 3)]
    assert t4.load(t4.write(written)) == written
