"""List the devices and multiply on each of them."""

import numpy as np

import portatile

a = np.arange(12, dtype=np.float32).reshape(3, 4)
for device in portatile.devices():
    product = portatile.matmul(a, a.T, device=device.info.id)
    assert np.array_equal(product, a @ a.T)
    print(f"{device.info.id}: {device.info.name}, {device.info.compute_units} units")
