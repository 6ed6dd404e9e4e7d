"""Where there is no memory for a workspace: what is kept makes way, and what nobody asked for is computed natively."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

import portatile
from portatile import workloads
from portatile.device.base import Device, Memory, Queue
from portatile.errors import DeviceError
from portatile.records import DeviceInfo, Problem, Temporary
from portatile.runtime.one_device.engine import engine_of
from portatile.runtime.perform import forget
from portatile.workloads import precisions
from portatile.workspaces import Workspaces
from support.seeds import new_seed

pytestmark = pytest.mark.unoptimised

SIZE = 24


@pytest.fixture
def unasked(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every float64 product is computed by residues."""
    if not device.info.fp64:
        pytest.skip(f"{device.info.name} has no double precision")

    def preferred(problem: Problem, *devices: DeviceInfo) -> Problem:
        return workloads.get("gemm_residues").problem(problem.sizes, problem.dtype, problem.options, problem.layout)

    forget()
    monkeypatch.setattr(precisions, "preferred", preferred)


def scarce(monkeypatch: pytest.MonkeyPatch) -> None:
    """From here on no workspace gets memory for bytes of operands."""
    make = Workspaces._make

    def refused(self: Workspaces, temporary: Temporary, queue: Queue) -> Memory:
        if temporary.name.startswith("bytes_"):
            raise DeviceError("no memory is left")
        return make(self, temporary, queue)

    monkeypatch.setattr(Workspaces, "_make", refused)


@pytest.mark.drawn(1 / 3)
@pytest.mark.usefixtures("unasked")
def test_without_memory_the_native_product_runs(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(new_seed("scarce"))
    a, b = rng.standard_normal((2, SIZE, SIZE))
    where = device.info.id
    native = portatile.gemm(a, b, trans_b="T", precision="native", device=where)
    residues = portatile.gemm(a, b, trans_b="T", device=where)
    assert residues.tobytes() == portatile.gemm(a, b, trans_b="T", precision="reproducible", device=where).tobytes()
    compiled = portatile.compile("gemm", dtype="float64", m=SIZE, n=SIZE, k=SIZE, trans_b="T", device=where)
    assert compiled.problem.workload == "gemm_residues"

    def results() -> list[NDArray[np.float64]]:
        return [*(portatile.gemm(a, b, trans_b="T", device=where) for _ in range(3)), compiled(a, b)]

    assert all(found.tobytes() == residues.tobytes() for found in results())
    engine_of(device).free_workspaces()
    with monkeypatch.context() as patch:
        scarce(patch)
        assert all(np.allclose(found, native, rtol=0, atol=1e-12) for found in results())  # residues would raise
        with pytest.raises(DeviceError, match="no memory is left"):
            portatile.gemm(a, b, trans_b="T", precision="reproducible", device=where)
    assert results()[-1].tobytes() == residues.tobytes()
    forget()


@pytest.mark.usefixtures("unasked")
def test_workspaces_make_way_for_those_who_are_refused_memory(device: Device) -> None:
    a = np.random.default_rng(new_seed("way")).standard_normal((SIZE, SIZE))
    first = portatile.gemm(a, a, trans_b="T", device=device.info.id)
    engine = engine_of(device)
    with engine.lock:
        assert device.spare()
        assert not device.spare()
    assert portatile.gemm(a, a, trans_b="T", device=device.info.id).tobytes() == first.tobytes()
    forget()
