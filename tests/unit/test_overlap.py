"""Kernels that wait themselves for those before them: which binaries say so, and what their launches ask of the driver."""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any

import pytest

from portatile import program, workloads
from portatile.device.cuda import compiler, overlap
from portatile.records import Source
from support.gemm import GPU, launches

WAITS = "kernel void {0}(global float *x) {{ OVERLAP_LAUNCHES(); x[get_global_id(0)] += 1; }}\n"
PLAIN = "kernel void {0}(global float *x) {{ x[get_global_id(0)] += 1; }}\n"
needs_nvrtc = pytest.mark.skipif(compiler.available() is not None, reason=f"no CUDA compiler: {compiler.available()}")


@needs_nvrtc
@pytest.mark.parametrize(
    ("texts", "architecture", "overlaps"),
    [((WAITS,), "sm_90", True), ((WAITS, WAITS), "sm_90", True), ((WAITS, PLAIN), "sm_90", False), ((WAITS,), "sm_80", False)],
)
def test_a_binary_overlaps_where_all_of_its_kernels_wait(texts: tuple[str, ...], architecture: str, overlaps: bool) -> None:
    text = "".join(one.format(f"k{place}") for place, one in enumerate(texts))
    for kind in ("cubin", "ptx"):
        binary = program.build(Source("k.cl", text, ()), compiler.CudaTarget(architecture, kind), None)
        assert binary.overlaps == overlaps


@needs_nvrtc
def test_products_overlap() -> None:
    gemm = workloads.get("gemm")
    problem = gemm.problem({"m": 100, "n": 100, "k": 100})
    (step,) = launches(gemm.plan(problem, gemm.default(problem, GPU), GPU))
    assert program.build(step.source, compiler.CudaTarget("sm_90"), None).overlaps


def test_each_stream_has_a_configuration_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    log: list[tuple[Any, ...]] = []
    numbers = itertools.count()

    def launch(config: Any, function: str, address: int, extra: int) -> tuple[int]:
        log.append((config.number, config.hStream, config.gridDimY, config.blockDimX, config.sharedMemBytes, config.attrs[0].id, function))
        assert config.attrs[0].value.programmaticStreamSerializationAllowed == config.numAttrs == 1
        return (0,)

    driver = SimpleNamespace(
        CUlaunchConfig=lambda: SimpleNamespace(number=next(numbers)),
        CUlaunchAttribute=lambda: SimpleNamespace(value=SimpleNamespace()),
        CUlaunchAttributeID=SimpleNamespace(CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION="overlap"),
        cuLaunchKernelEx=launch,
    )
    monkeypatch.setattr(overlap, "driver", driver)
    launching = overlap.Overlapping(SimpleNamespace(function="f"), (2, 3, 1, 64, 1, 1), 128)  # type: ignore[arg-type]
    one, other = object(), object()
    for stream in (one, one, other, one):
        assert launching(stream, 4096, 0) == (0,)
    assert [entry[:2] for entry in log] == [(0, one), (0, one), (1, other), (0, one)]
    assert {entry[2:] for entry in log} == {(3, 64, 128, "overlap", "f")}
    streams = [object() for _ in range(40)]
    for stream in streams:
        launching(stream, 4096, 0)
    assert [entry[1] for entry in log[-40:]] == streams
