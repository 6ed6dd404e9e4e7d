"""The ladder of matrix products: which rungs and variants are tried where, what the table says; carve-outs on their way to the driver."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from portatile import device, workloads
from portatile.device.cuda import compiler as cuda_compiler
from portatile.device.cuda import kernel as cuda_kernel
from portatile.device.cuda import vendor_blas
from portatile.device.target import CARVEOUT, carveout, for_compiler
from portatile.errors import DeviceError, UsageError
from portatile.measure import code
from portatile.records import Binary, Entry, Source
from portatile.studies import ladder
from portatile.studies.ladder import LadderOptions, LadderRow
from portatile.workloads.matmul import BASE
from support.trials import DEVICE

needs_nvrtc = pytest.mark.skipif(cuda_compiler.available() is not None, reason="no NVRTC")


class Made:
    """A kernel."""


def test_rungs_and_variants() -> None:
    plain = [point.row.by for point in ladder.points(DEVICE, LadderOptions())]
    assert plain == [f"rung {number}" for number in range(1, 11)]
    nvidia = ladder.points(device.datasheet("sm_90"), LadderOptions())
    assert [point.row.variant for point in nvidia[10:]] == [
        "no read-only path",
        "exchanged in a warp",
        "1 % local memory",
        "50 % local memory",
        "100 % local memory",
    ]
    assert {point.row.size for point in nvidia} == {4096}


def test_every_rung_is_legal_on_a_gpu_at_its_size() -> None:
    for point in ladder.points(device.datasheet("sm_90"), LadderOptions()):
        if not point.row.variant:
            assert "sm_90" in ladder.elsewhere(point), point.row.by
    read_only = next(point for point in ladder.points(DEVICE, LadderOptions()) if point.row.rung == 8)
    assert ladder.elsewhere(read_only) == "sm_90, sm_80"


def test_what_the_table_says() -> None:
    row = LadderRow("x", "X", "1", "rung 1", 1, "", "naive", 64, "float32", 4.0, 1.0)
    library = replace(row, by="library", rung=0, title="cuBLAS 13", seconds=1.0, gflops=4.0)
    numpy = replace(library, device="host", by="NumPy", title="")
    refused = replace(row, by="rung 8", rung=8, title="read-only", seconds=None, gflops=None, status="not legal here: why", runs_on="sm_90")
    done = ladder.finish([library, numpy, refused, row])
    assert [(one.by, one.of_library) for one in done] == [("rung 1", 0.25), ("rung 8", None), ("library", 1.0), ("NumPy", None)]
    (figure,) = ladder.figures(done)
    assert figure.groups == ("1: naive", "cuBLAS", "NumPy")
    assert ladder.notes(done)[-1] == "rung 8 on x: not legal here: why; runs on sm_90"


def test_the_carve_out_is_no_compilers_business() -> None:
    assert (carveout(["-DX=1"]), carveout([f"{CARVEOUT}25", f"{CARVEOUT}50"])) == (-1, 50)
    assert for_compiler(["-DX=1", f"{CARVEOUT}50"]) == ("-DX=1",)
    for wrong in ("101", "-1", "half"):
        with pytest.raises(UsageError, match="0 to 100"):
            carveout([f"{CARVEOUT}{wrong}"])


@needs_nvrtc
def test_the_driver_hears_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    target = cuda_compiler.CudaTarget("sm_90")
    source = Source("k.cl", "__kernel void k(__global float* a) { a[0] = 1; }", (), (f"{CARVEOUT}50",))
    assert target.compile(*target.lower(source)).carveout == 50
    asked: list[Any] = []
    names = SimpleNamespace(CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT=9)
    monkeypatch.setattr(cuda_kernel, "driver", SimpleNamespace(CUfunction_attribute=names, cuModuleGetFunction=0, cuFuncSetAttribute=1))
    monkeypatch.setattr(cuda_kernel, "call", lambda function, *arguments: asked.append((function, *arguments)) or "f")
    monkeypatch.setattr(cuda_kernel, "CudaKernel", lambda *arguments: Made())
    context: Any = SimpleNamespace(generation=0, current=nullcontext)
    told = (1, "f", 9, 50)
    for share, heard in ((50, True), (-1, False)):
        asked.clear()
        module = cuda_kernel.CudaModule(context, "m", Binary(b"", "cubin", (Entry("k", "k"),), carveout=share))
        module.kernel("k")
        module._module = None  # nothing to unload
        assert (told in asked) is heard


@needs_nvrtc
def test_plain_loads_are_plain() -> None:
    """``PLAIN`` takes the read-only path away that the compiler takes by itself, and nothing else."""
    info, matmul = device.datasheet("sm_90"), workloads.get("matmul")
    problem = matmul.problem({"m": 64, "n": 64, "k": 64})
    usual, plain = (code.of(matmul.plan(problem, {**BASE, "PLAIN": one}, info), info) for one in (False, True))
    assert usual.read_only > 0
    assert (plain.read_only, plain.loads) == (0, usual.loads)
    assert matmul.lowered({**BASE, "PLAIN": True, "CARVEOUT": 50}, DEVICE) == BASE
    (step,) = matmul.plan(problem, {**BASE, "CARVEOUT": 50}, info).steps
    assert step.source.options[-1] == f"{CARVEOUT}50"  # type: ignore[union-attr]


def test_a_library_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vendor_blas, "_places", lambda: iter(("/nowhere/libcublas.so",)))
    with pytest.raises(DeviceError, match="pip install"):
        vendor_blas._loaded()


def test_a_back_end_without_a_library() -> None:
    with pytest.raises(DeviceError, match="no library of matrix products"):
        device.backends()["amdgcn"].vendor_blas(SimpleNamespace(info=DEVICE))  # type: ignore[arg-type]
