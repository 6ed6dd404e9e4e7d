"""Reproducible results on a GPU and on a processor."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import portatile
from portatile import device as devices
from portatile.device.base import Device
from portatile.device.cuda.info import capabilities


def test_reproducible_results_are_the_same_bits_on_a_gpu(gpu: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "info", replace(gpu.info, capabilities=capabilities("sm_80")))  # the interpreter knows no warp groups
    processor = next((one.info.id for one in devices.devices() if one.info.backend == "opencl" and one.info.fp64), None)
    if processor is None:
        pytest.skip("no OpenCL device with double precision")
    rng = np.random.default_rng(5)
    a, b, c = (rng.random(shape, np.float32) - np.float32(0.5) for shape in ((3, 4), (2, 4), (3, 2)))
    a[1] *= 10.0 ** np.array([0, -20, -20, 0], np.float32)
    b[1] *= 10.0 ** np.array([-20, 0, 0, -20], np.float32)  # so that an element is computed again
    found = [
        portatile.gemm(a, b, c, alpha=0.3, beta=0.7, trans_b="T", precision="reproducible", device=name)
        for name in (gpu.info.id, processor)
    ]
    assert found[0].tobytes() == found[1].tobytes()
