"""Which device a selector, the environment or nobody picks."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import cast

import pytest

from portatile import device
from portatile.device.backend import Finding, Survey
from portatile.device.base import Device
from portatile.errors import DeviceNotFoundError
from portatile.records import DeviceInfo
from support.devices import GPU as PAPER

INFO = dataclasses.replace(PAPER, id="", name="", vendor="", platform="", physical_id="")


class Fake:
    """As much of a device as choosing one looks at."""

    def __init__(self, info: DeviceInfo) -> None:
        self.info = info


def fake(identity: str, name: str, vendor: str, platform: str, kind: str, physical: str = "", units: int = 8) -> Device:
    backend = identity.split(":")[0]
    changed = {"id": identity, "backend": backend, "name": name, "vendor": vendor, "platform": platform, "kind": kind}
    return cast(Device, Fake(dataclasses.replace(INFO, **changed, physical_id=physical or identity, compute_units=units)))


GRIND = fake("opencl:0:0", "Oclgrind Simulator", "University of Bristol", "Oclgrind", "gpu", units=999)
CPU = fake("opencl:1:0", "pthread-AMD EPYC", "AuthenticAMD", "Portable Computing Language", "cpu", units=64)
GPU_CL = fake("opencl:2:0", "NVIDIA H200", "NVIDIA Corporation", "NVIDIA CUDA", "gpu", "pci:0000:01:00")
SMALL = fake("opencl:2:1", "NVIDIA T4", "NVIDIA Corporation", "NVIDIA CUDA", "gpu", "pci:0000:02:00", units=4)
GPU = fake("cuda:0", "NVIDIA H200", "NVIDIA Corporation", "NVIDIA CUDA", "gpu", "pci:0000:01:00")

Install = Callable[..., None]


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    monkeypatch.delenv("PORTATILE_DEVICE", raising=False)
    monkeypatch.delenv("PYOPENCL_CTX", raising=False)

    def these(*found: Device, findings: tuple[Finding, ...] = ()) -> None:
        device._best.cache_clear()
        cuda = tuple(one for one in found if one.info.backend == "cuda")
        others = tuple(one for one in found if one.info.backend != "cuda")
        absent = dict.fromkeys(device.backends(), Survey((), ()))
        monkeypatch.setattr(device, "_surveys", {**absent, "cuda": Survey(cuda, ()), "opencl": Survey(others, findings)})

    yield these
    device._best.cache_clear()


@pytest.mark.parametrize(
    ("there", "best"),
    [
        ((GRIND, CPU, GPU_CL, SMALL, GPU), GPU),
        ((CPU, GPU_CL, SMALL), GPU_CL),
        ((SMALL, GPU_CL), GPU_CL),
        ((GRIND, CPU), CPU),
    ],
)
def test_default_is_the_best_device(install: Install, there: tuple[Device, ...], best: Device) -> None:
    install(*there)
    assert device.get() is best
    assert device.get() is best


@pytest.mark.parametrize(
    ("selector", "chosen"),
    [
        ("opencl:2:0", GPU_CL),
        ("cuda:0", GPU),
        ("h200", GPU),
        ("amd", CPU),
        ("portable computing", CPU),
        ("PoCL", CPU),
        ("T4", SMALL),
        ("oclgrind", GRIND),
        ("cpu", CPU),
        ("cuda", GPU),
        (" OpenCL:1:0 ", CPU),
    ],
)
def test_selector_is_an_id_or_part_of_a_name(install: Install, selector: str, chosen: Device) -> None:
    install(GRIND, CPU, GPU_CL, SMALL, GPU)
    assert device.get(selector) is chosen


@pytest.mark.parametrize(
    ("value", "chosen"),
    [("1", CPU), ("2:1", SMALL), ("2:", GPU_CL), ("portable", CPU), ("nvidia:t4", SMALL), ("2:1,0", SMALL), ("0:0", GRIND)],
)
def test_pyopencl_ctx_is_read_as_pyopencl_does(install: Install, monkeypatch: pytest.MonkeyPatch, value: str, chosen: Device) -> None:
    install(GRIND, CPU, GPU_CL, SMALL, GPU)
    monkeypatch.setenv("PYOPENCL_CTX", value)
    assert device.get() is chosen
    assert device.get("cuda:0") is GPU


def test_own_variable_comes_before_pyopencls(install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    install(CPU, GPU_CL, GPU)
    monkeypatch.setenv("PYOPENCL_CTX", "2")
    monkeypatch.setenv("PORTATILE_DEVICE", "epyc")
    assert device.get() is CPU


@pytest.mark.parametrize(("variable", "value"), [(None, "radeon"), ("PORTATILE_DEVICE", "cuda:7"), ("PYOPENCL_CTX", "9:0"), (None, "")])
def test_wrong_choice_lists_what_there_is(install: Install, monkeypatch: pytest.MonkeyPatch, variable: str | None, value: str) -> None:
    install(CPU, GPU)
    if variable is not None:
        monkeypatch.setenv(variable, value)
    with pytest.raises(DeviceNotFoundError, match=r"cuda:0 \(NVIDIA H200\), opencl:1:0 \(pthread-AMD EPYC\)") as raised:
        device.get(None if variable else value)
    assert repr(value) in str(raised.value)


def test_no_device_says_what_was_looked_for(install: Install) -> None:
    install(findings=(Finding("broken", "OpenCL", "pyopencl cannot be imported: why", "pip install pyopencl"),))
    with pytest.raises(DeviceNotFoundError, match="there is no device") as raised:
        device.get()
    assert "pyopencl cannot be imported: why - pip install pyopencl" in str(raised.value)


def test_checker_is_never_the_default(install: Install) -> None:
    install(GRIND)
    with pytest.raises(DeviceNotFoundError):
        device.get()


def test_back_ends_are_found_by_file() -> None:
    assert set(device.backends()) >= {"opencl", "cuda"}


def test_only_those_are_asked_who_may_have_the_device(install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    """A back end takes up to a tenth of a second to look: none is asked for another's device, nor where another's is the best anyway."""
    install(CPU)
    monkeypatch.setattr(device, "_surveys", {"opencl": Survey((CPU,), ())})  # to ask CUDA would add to it
    assert device.get(CPU.info.id) is CPU
    assert set(device._surveys) == {"opencl"}
    device._best.cache_clear()
    monkeypatch.setattr(device, "_surveys", {"cuda": Survey((GPU,), ())})
    assert device.get() is GPU
    assert set(device._surveys) == {"cuda"}


@pytest.mark.parametrize("word", ["pocl", "EPYC", "cpu", "opencl", "portable computing", " OpenCL:1:0 "])
def test_a_stored_device_is_meant_by_the_words_that_select_one(word: str) -> None:
    assert device.matches(CPU.info, word)
    assert not device.matches(GPU.info, word)
    assert device.matches(CPU.info, word, ids=False) == ("1:0" not in word)
