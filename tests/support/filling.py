"""A kernel that fills memory with a number, run and read back: what was compiled is what runs."""

from __future__ import annotations

import numpy as np

from portatile.device.base import Device
from portatile.records import Binary, Source

_TEXT = "kernel __attribute__((reqd_work_group_size(1, 1, 1))) void fill(global int *x) {{ x[get_global_id(0)] = {number}; }}"


def source(number: int) -> Source:
    """The text that fills with ``number``."""
    return Source("fill.cl", _TEXT.format(number=number))


def filled(device: Device, binary: Binary) -> int:
    """What the kernel wrote."""
    with device.load(binary) as module, device.allocate(16) as memory:
        queue = device.default_queue()
        queue.launch(module.kernel("fill"), (4, 1, 1), (1, 1, 1), [memory])
        result = np.zeros(4, np.int32)
        queue.download(result, memory)
    assert (result == result[0]).all()
    return int(result[0])
