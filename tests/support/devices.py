"""Devices on paper, for tests that open none: change with ``dataclasses.replace`` what the test is about."""

from __future__ import annotations

from dataclasses import replace

from portatile.records import DeviceInfo

GPU = DeviceInfo(
    id="opencl:0:0",
    backend="opencl",
    name="Chip A",
    vendor="Maker",
    platform="Platform",
    kind="gpu",
    architecture="a1",
    driver="1",
    compiler="1",
    compute_units=8,
    local_memory=1 << 15,
    global_memory=1 << 30,
    max_allocation=1 << 28,
    max_work_group_size=256,
    max_work_item_sizes=(256, 256, 64),
    fp64=True,
    fp16=False,
    images=True,
    image_2d_max=(8192, 8192),
    image_buffer_max=2**27,
    unified_memory=False,
    physical_id="0",
)
CPU = replace(
    GPU,
    name="chip",
    vendor="maker",
    platform="platform",
    kind="cpu",
    architecture="x86_64",
    driver="1.0",
    compiler="compiler 1",
    compute_units=2,
    max_work_group_size=1024,
    max_work_item_sizes=(1024, 1024, 64),
    unified_memory=True,
    physical_id="cpu:0",
)


def on_paper(kind: str, architecture: str = "sm_90") -> DeviceInfo:
    """A GPU through CUDA, or a CPU through OpenCL, that does not exist."""
    gpu = kind == "gpu"
    return DeviceInfo(
        id=f"paper:{kind}",
        backend="cuda" if gpu else "opencl",
        name=f"paper {kind}",
        vendor="NVIDIA" if gpu else "nobody",
        platform="paper",
        kind="gpu" if gpu else "cpu",
        architecture=architecture if gpu else "x86_64",
        driver="1",
        compiler="1",
        compute_units=132 if gpu else 2,
        local_memory={"sm_80": 163, "sm_90": 227}[architecture] * 1024 if gpu else 1 << 20,
        global_memory=1 << 36,
        max_allocation=1 << 35,
        max_work_group_size=1024 if gpu else 4096,
        max_work_item_sizes=(1024, 1024, 64) if gpu else (4096, 4096, 4096),
        fp64=True,
        fp16=gpu,
        images=True,
        image_2d_max=(32768, 32768) if gpu else (8192, 8192),
        image_buffer_max=2**27,
        unified_memory=not gpu,
        physical_id=kind,
    )


DEVICES = {kind: on_paper(kind) for kind in ("cpu", "gpu")}
