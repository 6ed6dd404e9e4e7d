"""Reproducible results on a GPU and on a processor."""

from __future__ import annotations

import numpy as np
import pytest

import portatile
from portatile import device as devices
from portatile.device.base import Device


def test_reproducible_results_are_the_same_bits_on_a_gpu(gpu: Device) -> None:
    processor = next((one.info.id for one in devices.devices() if one.info.backend == "opencl" and one.info.fp64), None)
    if processor is None:
        pytest.skip("no OpenCL device with double precision")
    rng = np.random.default_rng(5)
    a, c = rng.random((5, 9), np.float32) - np.float32(0.5), rng.random((5, 5), np.float32)
    a[2, 3] = 1e-30  # an element that is computed again
    found = [portatile.syrk(a, c, alpha=0.3, beta=0.7, precision="reproducible", device=name).tobytes() for name in (gpu.info.id, processor)]
    assert found[0] == found[1]
