"""Reproducible results on a GPU and on a processor."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import portatile
from portatile import device as devices
from portatile import workloads
from portatile.device.base import Device, Memory, Queue
from portatile.device.cuda.info import capabilities
from portatile.errors import DeviceError
from portatile.execute import Executable
from portatile.records import DeviceInfo, Problem, Temporary
from portatile.runtime.perform import forget
from portatile.workloads import precisions
from portatile.workspaces import Workspaces
from support import unoptimised


@pytest.mark.drawn(1 / 2)
def test_reproducible_results_are_the_same_bits_on_a_gpu(gpu: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "info", replace(gpu.info, capabilities=capabilities("sm_80")))  # the interpreter knows no warp groups
    unoptimised.use(monkeypatch)
    processor = next((device.info.id for device in devices.devices() if device.info.backend == "opencl" and device.info.fp64), None)
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


def test_calls_that_come_again_run_natively_without_memory_for_a_workspace(gpu: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """Packed launches too, of a product that nobody asked to be emulated."""

    def preferred(problem: Problem, *devices: DeviceInfo) -> Problem:
        return workloads.get("gemm_residues").problem(problem.sizes, problem.dtype, problem.options, problem.layout)

    def refused(self: Workspaces, temporary: Temporary, queue: Queue) -> Memory:
        raise DeviceError("no memory is left")

    a, b = (portatile.Buffer.from_numpy(np.arange(12, dtype=np.float32).reshape(shape), gpu.info.id) for shape in ((3, 4), (4, 3)))
    native = portatile.matmul(a, b, precision="native").numpy()
    monkeypatch.setattr(gpu, "info", replace(gpu.info, capabilities=capabilities("sm_80")))
    monkeypatch.setattr(precisions, "preferred", preferred)
    monkeypatch.setattr(Workspaces, "_make", refused)
    rerun, again = Executable._rerun_instead, []
    monkeypatch.setattr(Executable, "_rerun_instead", lambda *given: (again.append(given), rerun(*given))[1])
    for _ in range(3):
        assert (portatile.matmul(a, b).numpy() == native).all()
    assert len(again) == 2
    with pytest.raises(DeviceError, match="no memory is left"):
        portatile.matmul(a, b, precision="reproducible")
    forget()
