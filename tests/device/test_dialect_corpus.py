"""The corpus of OpenCL programs on every device: its results are those of the CUDA form in the interpreter of PTX."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from checking import draft

from portatile.device import cuda_compiler
from portatile.device.base import Device

sys.path.insert(0, str(Path(__file__).parents[1]))
from corpus import SAMPLES, compare, interpreted, run

pytestmark = pytest.mark.skipif(cuda_compiler.available() is not None, reason=str(cuda_compiler.available()))


@pytest.mark.parametrize("name", SAMPLES)
def test_program(device: Device, name: str) -> None:
    sample = SAMPLES[name]
    if "double" in sample.source.text and not device.info.fp64:
        pytest.skip("no double precision")
    if "image2d_t" in sample.source.text and not device.info.images:
        pytest.skip("no images")
    compare(sample, "the interpreter", run(device, sample, draft(device, sample.source)), interpreted(name))
