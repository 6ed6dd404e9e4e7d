"""The vnni form without a device: where it is chosen, what its text names, which probes are tried."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from portatile import workloads
from portatile.capabilities import Capabilities
from portatile.device.opencl import probe
from portatile.errors import ArgumentError
from portatile.records import DeviceInfo, Launch, Problem
from portatile.shipping import folder as folders
from portatile.workloads.gemm.forms.vnni.point import Vnni
from support.devices import CPU

WORKLOAD = workloads.get("gemm")
ABLE = replace(CPU, capabilities=Capabilities(dot_types=("bfloat16", "int8")))
HALF = replace(CPU, capabilities=Capabilities(dot_types=("int8",)))
TILE = Vnni(TR=14, TC=32, RASTER=0)


def problem(dtype: str, size: int = 256) -> Problem:
    return WORKLOAD.problem({"m": size, "n": size, "k": size}, dtype)


def texts(dtype: str, device: DeviceInfo) -> str:
    steps = WORKLOAD.plan(problem(dtype), TILE.config(), device).steps
    return "".join(step.source.text for step in steps if isinstance(step, Launch))


@pytest.mark.parametrize(
    ("device", "dtype", "form"),
    [
        (ABLE, "bfloat16", "vnni"),
        (ABLE, "bfloat16:float32", "vnni"),
        (ABLE, "int8", "vnni"),
        (ABLE, "int8:float16", "vnni"),
        (ABLE, "float16", "cpu"),
        (ABLE, "float32", "cpu"),
        (HALF, "bfloat16", "cpu"),
        (HALF, "int8", "vnni"),
        (CPU, "int8", "cpu"),
    ],
)
def test_it_is_chosen_where_the_processor_has_the_instruction(device: DeviceInfo, dtype: str, form: str) -> None:
    case = problem(dtype)
    config = WORKLOAD.default(case, device)
    assert config["FORM"] == form
    assert WORKLOAD.space(case, device).violated(config) is None


def test_only_a_device_that_can_is_given_its_instructions() -> None:
    assert "vdpbf16ps" in texts("bfloat16", ABLE)
    assert "vpdpbusd" in texts("int8", HALF)
    for dtype, device in (("bfloat16", HALF), ("int8", CPU), ("bfloat16", CPU)):
        assert "__asm__" not in texts(dtype, device)
        assert "__builtin" not in texts(dtype, device)


def test_other_types_and_tiles_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ArgumentError, match="is for bfloat16 and int8"):
        WORKLOAD.plan(problem("float16"), TILE.config(), ABLE)
    with pytest.raises(ArgumentError, match="32 registers"):
        WORKLOAD.plan(problem("int8"), replace(TILE, TC=48).config(), ABLE)


@pytest.mark.parametrize("size", [1, 8, 15, 16, 29, 130, 5000])
def test_rows_are_shared_evenly_by_tiles(size: int) -> None:
    case = WORKLOAD.problem({"m": size, "n": 64, "k": 64}, "int8")
    rows = WORKLOAD.default(case, ABLE)["TR"]
    assert isinstance(rows, int)
    assert -(-size // rows) == -(-size // 14)
    assert WORKLOAD.space(case, ABLE).violated(WORKLOAD.default(case, ABLE)) is None


def test_instructions_that_the_processor_does_not_name_are_not_tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = tmp_path / "cpuinfo"
    told.write_text("processor\t: 0\nflags\t\t: fpu avx2 avx512_vnni\n\nprocessor\t: 1\n")
    monkeypatch.setattr(probe, "_processor", lambda read=probe._processor: read(told))
    assert probe.supported_by_processor(["dot_bfloat16", "dot_int8", "half"]) == ("dot_int8", "half")
    told.unlink()
    assert probe.supported_by_processor(["dot_bfloat16", "dot_int8", "half"]) == ("half",)


def test_exported_folders_name_no_instructions(tmp_path: Path) -> None:
    """They are compiled on machines that nobody asked, which such an instruction would end with a signal."""
    item = folders.ShippedItem(problem("int8"), TILE.config(), ABLE, "tuned")
    assert folders.write(tmp_path / "folder", [item]).left_out == []
    programs = [path.read_text() for path in (tmp_path / "folder").rglob("*.cl")]
    assert programs
    assert not any("__asm__" in text for text in programs)
