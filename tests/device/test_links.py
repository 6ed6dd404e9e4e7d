"""How fast host arrays travel to devices, for the simulation of shared products."""

from __future__ import annotations

from math import inf

import numpy as np

from portatile.device.base import Device
from portatile.studies.framework import links


def test_rates_of_links(twins: tuple[Device, Device]) -> None:
    """One of the two reaches the host's memory; to the other everything is copied."""
    near, far = twins
    array = np.ones(1 << 16, np.uint8)
    assert links.to_each(near, array) == inf
    assert 0 < links.to_each(far, array) < inf
    assert links.to_all(twins, array.nbytes) == inf
    assert 0 < links.to_all((far, far), array.nbytes) < inf
    assert links.between(twins, array.nbytes) == 0
    assert links.between((far, far), array.nbytes) == 0
