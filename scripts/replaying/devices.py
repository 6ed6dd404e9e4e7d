"""The devices on paper that a replay plans for, as JSON of a DeviceInfo.

Each carries every name that the record ever gave a fact: a tree takes the names that it knows and ignores the others.
"""

from __future__ import annotations

from typing import Any

Facts = dict[str, Any]

ALIASES = {"chip": ("card", "hardware", "device", "physical"), "backend": ("back_end",)}
"""The facts that were renamed, by their first names, with the names they may have since."""

_COMMON: Facts = {
    "id": "opencl:0:0",
    "backend": "opencl",
    "driver": "3.0-rc2",
    "global_memory": 64 << 30,
    "max_allocation": 16 << 30,
    "fp64": True,
    "images": True,
    "image_2d_max": [16384, 16384],
    "constant_memory": 65536,
    "image_row_max": 0,
    "image_buffer_max": 134217728,
}
_CPU: Facts = {**_COMMON, "kind": "cpu", "unified_memory": True, "chip": "cpu:0", "clock_mhz": 2700, "compute_units": 2}
_POCL: Facts = {
    **_CPU,
    "vendor": "GenuineIntel",
    "platform": "Portable Computing Language",
    "compiler": "Portable Computing Language OpenCL 3.0 PoCL 3.0-rc2  Linux, Release, RELOC, LLVM 14.0.6 / 3.0-rc2",
    "local_memory": 2097152,
    "constant_memory": 2097152,
    "max_work_group_size": 4096,
    "max_work_item_sizes": [4096, 4096, 4096],
    "fp16": False,
}
_NVIDIA: Facts = {
    **_COMMON,
    "vendor": "NVIDIA Corporation",
    "kind": "gpu",
    "driver": "580.159.04",
    "max_work_group_size": 1024,
    "max_work_item_sizes": [1024, 1024, 64],
    "fp16": True,
    "unified_memory": False,
    "chip": "pci:0000:00:08",
}
_CUDA: Facts = {
    **_NVIDIA,
    "id": "cuda:0",
    "backend": "cuda",
    "platform": "NVIDIA CUDA",
    "compiler": "NVRTC 13.0",
    "image_2d_max": [131072, 65000],
    "image_row_max": 2097120,
}

DEVICES: dict[str, Facts] = {
    "pocl-avx2": {**_POCL, "name": "pthread-haswell", "architecture": "x86_64-haswell"},
    "pocl-avx512": {**_POCL, "name": "pthread-skylake-avx512", "architecture": "x86_64-skylake-avx512", "compute_units": 16},
    "intel-cpu": {
        **_CPU,
        "name": "Intel(R) Xeon(R) Processor",
        "vendor": "Intel(R) Corporation",
        "platform": "Intel(R) OpenCL",
        "architecture": "x86-64-v4",
        "driver": "2026.22.10.0.01_160000",
        "compiler": "Intel(R) OpenCL OpenCL 3.1 LINUX / 2026.22.10.0.01_160000",
        "compute_units": 8,
        "local_memory": 262144,
        "constant_memory": 131072,
        "max_work_group_size": 8192,
        "max_work_item_sizes": [8192, 8192, 8192],
        "fp16": True,
        "clock_mhz": 0,
    },
    "cuda-sm_80": {
        **_CUDA,
        "name": "NVIDIA A100-SXM4-80GB",
        "architecture": "sm_80",
        "compute_units": 108,
        "local_memory": 166912,
        "clock_mhz": 1410,
    },
    "cuda-sm_90": {
        **_CUDA,
        "name": "NVIDIA H200",
        "architecture": "sm_90",
        "compute_units": 132,
        "local_memory": 232448,
        "clock_mhz": 1980,
    },
    "nvidia-opencl": {
        **_NVIDIA,
        "name": "NVIDIA H200",
        "platform": "NVIDIA CUDA",
        "architecture": "sm_90",
        "compiler": "NVIDIA CUDA OpenCL 3.0 CUDA 13.0.97 / 580.159.04",
        "compute_units": 132,
        "local_memory": 49152,
        "clock_mhz": 1980,
    },
}


SHIPPED = "as-recorded"
"""The device of a case that carries its own facts, those of a recorded result."""


def described(name: str) -> Facts:
    """The facts of one of ``DEVICES`` under all their names."""
    return with_aliases(DEVICES[name])


def with_aliases(facts: Facts) -> Facts:
    """``facts`` under all their names, whichever of them was used."""
    full = dict(facts)
    for first, others in ALIASES.items():
        for name in (first, *others):
            if name in facts:
                full.update(dict.fromkeys((first, *others), facts[name]))
    return full
