"""What devices can do is recorded with them, and known of records that are older than that."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from portatile import device
from portatile.capabilities import Capabilities, of_nvidia
from portatile.records import DeviceInfo, from_json, to_json
from portatile.store import device_key
from support.devices import CPU, GPU


def before(info: DeviceInfo) -> DeviceInfo:
    """A device as it was recorded before records named capabilities."""
    fields = json.loads(to_json(info))
    del fields["capabilities"]
    return from_json(json.dumps(fields), DeviceInfo)


@pytest.mark.parametrize("architecture", ["sm_75", "sm_80", "sm_86", "sm_90", "sm_90a", "sm_100"])
def test_older_records_of_cuda_devices_can_the_same(architecture: str) -> None:
    info = device.datasheet(architecture, "cuda")
    assert before(info).capabilities is None
    assert before(info).can == info.can
    assert before(info).facts() == info.facts()


def test_older_records_of_opencl_devices_can_the_same() -> None:
    for found in (found for found in device.devices() if found.info.backend == "opencl"):
        probed = {
            name: getattr(found.info.can, name)
            for name in ("wide_arithmetic", "wide_functions", "relaxed_math", "dot_types", "half_vectors")
        }
        assert replace(before(found.info).can, **probed) == found.info.can


def test_capabilities_survive_json_and_are_no_part_of_a_devices_key() -> None:
    info = replace(GPU, capabilities=Capabilities(sub_group=64, matrix_shapes=("16x16x4",), assembly="gcn"))
    assert from_json(to_json(info), DeviceInfo) == info
    assert device_key(info) == device_key(GPU)


def test_what_text_may_declare_and_what_a_launch_may_ask_for() -> None:
    assert device.datasheet("sm_90").static_local == 48 << 10
    opencl = replace(GPU, vendor="NVIDIA Corporation", architecture="sm_90", local_memory=48 << 10)
    assert opencl.static_local == 226 << 10, "as was measured"
    assert replace(opencl, architecture="sm_75").static_local == 48 << 10
    assert CPU.static_local == CPU.local_memory


def test_generations_differ() -> None:
    assert [of_nvidia(f"sm_{n}").matrix_shapes[:1] for n in (75, 80, 90)] == [(), ("8x8x4",), ("8x8x4",)]
    assert [of_nvidia(name).ordered_groups for name in ("sm_61", "sm_70", "unknown")] == [False, True, False]
    assert CPU.can.ordered_groups
    assert not GPU.can.ordered_groups


def test_older_records_call_the_physical_device_a_chip() -> None:
    fields = json.loads(to_json(GPU))
    assert from_json(json.dumps({**fields, "physical_id": "", "chip": "pci:0000:3b:00"}), DeviceInfo).physical_id == "pci:0000:3b:00"
    del fields["physical_id"]
    result = from_json(json.dumps({**fields, "chip": GPU.physical_id}), DeviceInfo)
    assert result == GPU
    written = json.loads(to_json(result))
    assert written["physical_id"] == GPU.physical_id
    assert "chip" not in written
