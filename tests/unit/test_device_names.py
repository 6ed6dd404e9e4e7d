"""Short names of devices: without vendors and drivers' additions, different where devices are."""

from __future__ import annotations

from dataclasses import replace

from portatile.device import names
from support.devices import DEVICES

POCL = "Portable Computing Language"
H100 = replace(DEVICES["gpu"], id="cuda:0", name="NVIDIA H100 80GB HBM3", platform="NVIDIA CUDA")
XEON = replace(DEVICES["cpu"], id="opencl:1:0", name="cpu-skylake-avx512-Intel(R) Xeon(R) Processor", platform=POCL, driver="5.0+debian")


def test_names_say_hardware_and_the_way_to_it() -> None:
    opencl = replace(H100, id="opencl:0:0", backend="opencl")
    assert names.short([H100, opencl, XEON]) == ["H100 CUDA", "H100 OpenCL", "Xeon PoCL"]
    for name, short in (
        ("pthread-AMD EPYC", "EPYC"),
        ("NVIDIA GeForce RTX 3090", "RTX 3090"),
        ("NVIDIA A100-SXM4-40GB", "A100-SXM4"),
        ("AMD EPYC 9554 64-Core Processor", "EPYC 9554"),
        ("Intel(R) Xeon(R) CPU @ 2.00GHz", "Xeon"),
        ("gfx1030", "gfx1030"),
        ("Intel(R) CPU", "Intel(R) CPU"),
    ):
        assert names.hardware(replace(XEON, name=name)) == short


def test_driver_or_id_tells_two_of_a_name_apart() -> None:
    older = replace(XEON, id="opencl:2:0", name="pthread-Intel(R) Xeon(R) Processor", driver="3.0-rc2")
    assert names.short([XEON, older]) == ["Xeon PoCL 5.0", "Xeon PoCL 3.0"]
    assert names.short([H100, replace(H100, id="cuda:1")]) == ["H100 CUDA cuda:0", "H100 CUDA cuda:1"]
    assert names.short([H100, H100]) == ["H100 CUDA", "H100 CUDA"]
