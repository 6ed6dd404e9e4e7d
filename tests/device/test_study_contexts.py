"""Contexts of several devices: memory and events of one serve the others' queues; the study's rows with one context and with several."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from itertools import product

import pytest

from portatile import device as devices
from portatile import processes
from portatile.device.base import Device
from portatile.errors import DeviceError
from portatile.studies import contexts
from portatile.studies.contexts import IN_ORDER, ONE_EACH, OUT_OF_ORDER, PAGEABLE, PINNED, SHARED, ContextsRow

pytestmark = [pytest.mark.lengthy, pytest.mark.unoptimised]

_TWO = """
import json
from dataclasses import asdict
from portatile import device
from portatile.studies import contexts
from portatile.studies.contexts import *
members = [one for one in device.devices() if "Portable" in one.info.platform]
members = [one for one in members if one.cl_device.platform == members[0].cl_device.platform]
rows = []
for kind, queues, memory in ((ONE_EACH, OUT_OF_ORDER, PAGEABLE), (SHARED, TWO, PINNED)):
    row = ContextsRow("both", len(members), "PoCL", kind, queues, memory, 1, 3)
    rows.append(asdict(contexts._measured(row, members, 1)))
first, second = members[0].together(members[1:])
alone = members[0].together()[0]
with first.queue() as queue, second.allocate(4096) as memory, alone.allocate(4096) as foreign:
    from portatile.records import Source
    text = "__kernel void filter(__global float *x, __global float *y) {}"
    module = first.load(contexts.program.build(Source("small.cl", text), first.target, None))
    queue.launch(module.kernel("filter"), (1024, 1, 1), (64, 1, 1), [memory, memory])
    try:
        queue.launch(module.kernel("filter"), (1024, 1, 1), (64, 1, 1), [memory, foreign])
        refused = ""
    except contexts.PortatileError as error:
        refused = str(error)
print(json.dumps({"rows": rows, "refused": refused}))
"""


def test_two_devices_of_one_context() -> None:
    """PoCL shows its processor twice to a process that asks for it."""
    if not any("Portable" in device.info.platform for device in devices.devices()):
        pytest.skip("no PoCL")
    completed = subprocess.run(
        [sys.executable, "-c", _TWO],
        env={**os.environ, **processes.environment(), "POCL_DEVICES": "pthread pthread"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert completed.returncode == 0, completed.stderr
    document = json.loads(completed.stdout.splitlines()[-1])
    assert [(row["count"], row["status"]) for row in document["rows"]] == [(2, "ok")] * 2
    assert all(row[name] > 0 for row, name in product(document["rows"], ("create", "from_source", "from_binary", "run", "release")))
    assert "belongs to" in document["refused"]


def test_a_device_alone(device: Device) -> None:
    """Both passes by one device, in a context of its own that goes again; a back end without such contexts says so."""
    for kind, memory in ((ONE_EACH, PAGEABLE), (SHARED, PINNED)):
        queues = IN_ORDER if memory == PAGEABLE else OUT_OF_ORDER
        row = contexts._measured(ContextsRow(device.info.id, 1, "", kind, queues, memory, 1, 2), [device], 1)
        try:
            device.together()[0].release()
            expected = "ok"
        except DeviceError as error:
            expected = "ok" if kind == ONE_EACH else str(error)
        assert row.status == expected
