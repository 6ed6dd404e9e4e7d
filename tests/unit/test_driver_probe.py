"""What a driver's compiler survives: children that crash, hang or are wrong, and what is kept of their answers."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from portatile import delays, device, workloads
from portatile.capabilities import Capabilities
from portatile.device.opencl import probe
from portatile.records import DeviceInfo
from support.devices import CPU

NAMES = ("wide_arithmetic", "wide_functions", "relaxed_math", "half")


@dataclass
class Platform:
    name: str = "Portable Computing Language"
    version: str = "OpenCL 3.0 PoCL 3.0"


@dataclass
class Handle:
    """As much of a pyopencl.Device as tells one driver from another."""

    driver_version: str = "3.0"
    version: str = "OpenCL 3.0"
    name: str = "a processor"
    platform: Platform = field(default_factory=Platform)


def ended(answers: str) -> Callable[..., subprocess.CompletedProcess[bytes]]:
    return lambda command, **options: subprocess.CompletedProcess(command, -6, answers.encode())


@pytest.fixture
def children(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[list[str]]:
    """The probes that each child was asked for; the driver dies of functions of wide vectors, hangs at none, and lacks half."""
    asked: list[list[str]] = []

    def run(command: Sequence[str], **options: Any) -> subprocess.CompletedProcess[bytes]:
        names = list(command[command.index("0") + 2 :])
        asked.append(names)
        told = ""
        for name in names:
            if name == "wide_functions":
                return subprocess.CompletedProcess(command, -6, told.encode())
            told += f"{name} {'no' if name == 'half' else 'yes'}\n"
        return subprocess.CompletedProcess(command, 0, f"1 warning generated.\n{told}".encode())

    monkeypatch.setattr(probe.subprocess, "run", run)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return asked


def test_the_next_child_goes_on_behind_what_killed_one(children: list[list[str]]) -> None:
    assert probe.survives(0, 0, Handle(), NAMES) == {"wide_arithmetic", "relaxed_math"}
    assert children == [[*NAMES], ["relaxed_math", "half"]]


def test_who_waits_is_told_once(children: list[list[str]]) -> None:
    told: list[str] = []
    with delays.listening(told.append):
        for _ in range(2):
            probe.survives(0, 0, Handle(), ("half",))
    probe.survives(0, 0, Handle(), ("half", "wide_arithmetic"))  # nobody listens any more
    assert len(told) == 1
    assert "some seconds, once" in told[0]


def test_answers_are_kept_for_each_driver(children: list[list[str]]) -> None:
    first = probe.survives(0, 0, Handle(), NAMES)
    assert probe.survives(0, 0, Handle(), NAMES) == first
    assert len(children) == 2
    probe.survives(0, 0, Handle(driver_version="3.1"), NAMES)
    assert len(children) == 4


def test_of_several_that_ask_at_once_one_asks_the_driver(children: list[list[str]]) -> None:
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: probe.survives(0, 0, Handle(), NAMES), range(4)))
    assert found == [{"wide_arithmetic", "relaxed_math"}] * 4
    assert len(children) == 2


def test_a_child_that_hangs_is_no_end(children: list[list[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[str]] = []

    def run(command: Sequence[str], **options: Any) -> subprocess.CompletedProcess[bytes]:
        asked.append(list(command[command.index("0") + 2 :]))
        if "half" in command and "relaxed_math" not in command:
            return subprocess.CompletedProcess(command, 0, b"half yes\n")
        raise subprocess.TimeoutExpired(command, 1, b"wide_arithmetic yes\nwide_functions yes\n" if "wide_functions" in command else None)

    monkeypatch.setattr(probe.subprocess, "run", run)
    assert probe.survives(0, 0, Handle(), NAMES) == {"wide_arithmetic", "wide_functions", "half"}
    assert asked == [[*NAMES], ["relaxed_math", "half"], ["half"]]


def test_a_probe_that_was_late_on_a_busy_machine_is_asked_again(children: list[list[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter((b"", b"wide_arithmetic yes\n", b"wide_functions yes\nrelaxed_math yes\n"))

    def run(command: Sequence[str], **options: Any) -> subprocess.CompletedProcess[bytes]:
        if (answer := next(answers, None)) is None:
            return subprocess.CompletedProcess(command, 0, b"half yes\n")
        raise subprocess.TimeoutExpired(command, 1, answer)

    monkeypatch.setattr(probe.subprocess, "run", run)
    assert probe.survives(0, 0, Handle(), NAMES) == {*NAMES}


def test_without_children_the_usual_is_assumed_and_not_kept(children: list[list[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*args: Any, **options: Any) -> None:
        raise OSError("no processes")

    with monkeypatch.context() as patch:
        patch.setattr(probe.subprocess, "run", refused)
        assert probe.survives(0, 0, Handle(), NAMES) == {"wide_arithmetic", "relaxed_math", "half"}
    assert "half" not in probe.survives(0, 0, Handle(), NAMES)


def test_the_child_answers_for_a_device_that_is_here(tmp_path: Path) -> None:
    here = [found.info for found in device.devices() if found.info.backend == "opencl" and found.info.kind == "cpu"]
    if not here:
        pytest.skip("there is no OpenCL on a processor here")
    _, platform, number = here[0].id.split(":")
    assert probe._probed(int(platform), int(number), ("relaxed_math",)) == ({"relaxed_math"} if here[0].can.relaxed_math else set())


@pytest.mark.parametrize(
    ("name", "sizes"), [("mri", {"samples": 64, "voxels": 640}), ("coulomb", {"atoms": 64, "nx": 64, "ny": 64, "nz": 1})]
)
def test_spaces_and_defaults_ask(name: str, sizes: dict[str, int]) -> None:
    workload = workloads.get(name)
    problem = workload.problem(sizes)
    wide = replace(CPU, architecture="x86_64-znver4", capabilities=Capabilities())
    narrow = replace(wide, capabilities=Capabilities(wide_arithmetic=False))
    config = workload.default(problem, wide)
    assert config["VL"] == 16
    assert workload.space(problem, wide).violated(config) is None
    assert workload.space(problem, narrow).violated(config) is not None
    assert workload.default(problem, narrow)["VL"] == 8


def test_fused_products_of_wide_vectors_are_tried_where_they_compile() -> None:
    gemm = workloads.get("gemm")
    problem = gemm.problem({"m": 512, "n": 512, "k": 512})

    def has(info: DeviceInfo) -> bool:
        chosen: dict[str, Any] = {"FORM": ("cpu",), "VL": (16,), "MAD": ("fma",)}
        space = gemm.space(problem, info)
        return any(True for _ in space.restricted({**space.parameters, **chosen}))

    assert has(replace(CPU, capabilities=Capabilities(wide_functions=True)))
    assert not has(replace(CPU, capabilities=Capabilities()))
