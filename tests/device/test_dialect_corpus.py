"""OpenCL programs, those of the corpus and random ones, on every device: results are those of the CUDA form in the interpreter of PTX."""

from __future__ import annotations

import pytest

from portatile import program
from portatile.device.base import Device
from portatile.device.cuda import compiler as cuda_compiler
from portatile.records import Source
from support.battery import chance
from support.checking import draft, maybe
from support.corpus import SAMPLES, Sample, compare, interpreted, run
from support.ptx_machine.device import PtxDevice
from support.seeds import new_seed

pytestmark = [
    pytest.mark.skipif(cuda_compiler.available() is not None, reason=str(cuda_compiler.available())),
    pytest.mark.unoptimised,
]


@pytest.mark.parametrize("name", SAMPLES)
def test_program(device: Device, name: str) -> None:
    sample = SAMPLES[name]
    if "double" in sample.source.text and not device.info.fp64:
        pytest.skip("no double precision")
    if "image2d_t" in sample.source.text and not device.info.images:
        pytest.skip("no images")
    maybe(device)
    compare(sample, "the interpreter", run(device, sample, draft(device, sample.source)), interpreted(name))


@pytest.mark.thinned(1)
@pytest.mark.parametrize("number", range(3))
def test_random_expressions(device: Device, number: int) -> None:
    """To the last bit."""
    seed = new_seed(f"expressions {number}")
    source = Source("chance.cl", chance.Chance(seed).kernel())
    ranges = [(-(2 ** (bits - 1)), 2 ** (bits - 1), 0, 2**bits) for bits in (8, 16, 32, 63)]
    words = [f"256=random({low},{high})" for each in ranges for low, high in (each[:2], each[2:])]
    results = (f"{64 * chance.RESULTS}", f"{64 * chance.REALS}")
    sample = Sample("chance", source, "k", (64, 1, 1), (32, 1, 1), (*words, "256=random(-4,4)", *results), 0.0)
    interpreter = PtxDevice()
    expected = run(interpreter, sample, program.build(source, interpreter.target, None))
    compare(sample, "the interpreter", run(device, sample, draft(device, source)), expected)
