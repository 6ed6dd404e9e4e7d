"""The battery of OpenCL C constructs on every device: the OpenCL text itself, and its translation where a GPU runs CUDA."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from portatile import program
from portatile.device.base import Argument, Device, Memory
from portatile.records import Source

sys.path.insert(0, str(Path(__file__).parents[1]))
from battery import CASES, Case
from battery.case import In, Local, Out

POISON, GUARD = 0xCB, 64


@pytest.mark.parametrize("name", CASES)
def test_construct(device: Device, name: str) -> None:
    """Every output equals what NumPy computes, and the bytes behind it are untouched."""
    case = CASES[name]
    if case.fp64 and not device.info.fp64:
        pytest.skip("no double precision")
    for platform, reason in case.without.items():
        if platform in device.info.platform:
            pytest.skip(reason)
    binary = program.build(Source(f"{name}.cl", case.text, tuple(case.defines.items())), device.target, None)
    module = device.load(binary)
    outputs: list[tuple[Out, Memory]] = []
    arguments: list[Argument] = []
    with device.queue() as queue:
        for arg in case.args:
            if isinstance(arg, Local):
                arguments.append(arg.nbytes)
            elif isinstance(arg, In | Out):
                array = arg.array if isinstance(arg, In) else arg.expected
                host = np.full(array.nbytes + GUARD, POISON, np.uint8)
                before = array if isinstance(arg, In) else arg.before
                if before is not None:
                    host[: array.nbytes] = np.ascontiguousarray(before).view(np.uint8).reshape(-1)
                memory = device.allocate(host.nbytes)
                queue.upload(memory, host)
                arguments.append(memory)
                if isinstance(arg, Out):
                    outputs.append((arg, memory))
            else:
                arguments.append(arg)
        queue.launch(module.kernel(case.kernel), case.size, case.group, arguments)
        for out, memory in outputs:
            host = np.empty(memory.nbytes, np.uint8)
            queue.download(host, memory)
            _check(case, out, host)
    module.release()


def _check(case: Case, out: Out, host: np.ndarray) -> None:
    size = out.expected.nbytes
    assert (host[size:] == POISON).all(), f"{case.name} writes past the end of an output"
    got = host[:size].view(out.expected.dtype)
    if out.tolerance or out.floor:
        allowed = out.tolerance * np.abs(out.expected.astype(np.float64)) + out.floor
        with np.errstate(invalid="ignore"):
            wrong = ~(np.abs(got.astype(np.float64) - out.expected.astype(np.float64)) <= allowed)
    else:
        wrong = ~((got == out.expected) | ((got != got) & (out.expected != out.expected)))
    places = np.flatnonzero(wrong)
    assert not places.size, f"{case.name}: {places.size} wrong, first at {places[:4]}: {got[places[:4]]} not {out.expected[places[:4]]}\n{case.text}"
