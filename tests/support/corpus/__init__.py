"""Small OpenCL programs in the style of public suites; the comment at the top of each says how `portatile run` runs it.

Of each program three results must agree: that of every device, that of its CUDA form in the interpreter of PTX, and NumPy's where
``references`` has one.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from portatile import dialect, program
from portatile.cli._arguments import arguments
from portatile.device.base import Argument, Device
from portatile.measure.isolated_run import KernelArgument
from portatile.records import Binary, Entry, Size3, Source
from support.ptx_machine.device import PtxDevice

Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Sample:
    """One program with the arguments of one run."""

    name: str
    source: Source
    kernel: str
    global_size: Size3
    local_size: Size3
    words: tuple[str, ...]
    tolerance: float

    @property
    def entry(self) -> Entry:
        """The kernel that is run."""
        return next(entry for entry in _entries(self.source) if entry.name == self.kernel)

    def given(self) -> list[KernelArgument]:
        """New arguments, the same at each call."""
        return arguments(self.entry, self.words, seed=20261121)


def _read(path: Path) -> Sample:
    text = path.read_text()
    line = re.search(r"^ +run: (.*?)(?:\*/)?$", text, re.MULTILINE)
    assert line, f"{path} does not say how to run it"
    kernel, *words = shlex.split(line[1])
    sizes = {}
    for option in ("--global", "--local"):
        at = words.index(option)
        numbers = [*map(int, words[at + 1].split(",")), 1, 1][:3]
        sizes[option] = (numbers[0], numbers[1], numbers[2])
        del words[at : at + 2]
    tolerance = re.search(r"^ +tolerance: (\S+)", text, re.MULTILINE)
    source = Source(path.name, dialect.gather(text, path))
    return Sample(path.stem, source, kernel, sizes["--global"], sizes["--local"], tuple(words), float(tolerance[1]) if tolerance else 2e-6)


SAMPLES = {path.stem: _read(path) for path in sorted(Path(__file__).parent.glob("*.cl"))}


@lru_cache(maxsize=256)
def _entries(source: Source) -> tuple[Entry, ...]:
    return dialect.translate(source.text, file=source.file).entries


def run(device: Device, sample: Sample, binary: Binary) -> Arrays:
    """Every array after one run."""
    given = sample.given()
    memories = {}
    with device.load(binary) as module, device.queue() as queue:
        arguments: list[Argument] = []
        for operand in given:
            name, array = operand.parameter.name, operand.array
            if array is None:
                arguments.append(operand.value)
                continue
            memories[name] = device.allocate(array.nbytes) if operand.form is None else device.image_of(operand.form)
            queue.upload(memories[name], array)
            arguments.append(memories[name])
        queue.launch(module.kernel(sample.kernel), sample.global_size, sample.local_size, arguments)
        after = {}
        for operand in given:
            if operand.array is not None:
                after[operand.parameter.name] = np.empty_like(operand.array)
                queue.download(after[operand.parameter.name], memories[operand.parameter.name])
                after[operand.parameter.name] = operand.seen(after[operand.parameter.name])
    return after


@lru_cache(maxsize=256)
def ptx(name: str) -> Binary:
    """The program for sm_90, compiled once in a session."""
    return program.build(SAMPLES[name].source, PtxDevice().target, None)


@lru_cache(maxsize=256)
def interpreted(name: str) -> Arrays:
    """What the interpreter of PTX makes of the program, once in a session."""
    return run(PtxDevice(), SAMPLES[name], ptx(name))


def compare(sample: Sample, what: str, got: Arrays, expected: Arrays) -> None:
    """Fail unless integers are equal and other numbers within the tolerance of the largest value of their array."""
    for name, right in expected.items():
        left = got[name]
        if right.dtype.kind != "f":
            wrong = left != right
        else:
            assert np.isfinite(right).all(), f"{sample.name}: {name} of {what} is not finite"
            wrong = ~(np.abs(left.astype(float) - right.astype(float)) <= sample.tolerance * np.abs(right.astype(float)).max())
        places = np.argwhere(wrong)
        assert not len(places), (
            f"{sample.name}: {name}: {len(places)} differ from {what}, first at {places[0]}: {left[wrong][:4]} not {right[wrong][:4]}"
        )
