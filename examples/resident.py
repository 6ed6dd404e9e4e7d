"""Keep matrices on the device between products: Buffers in, Buffers out, one copy at the end."""

import numpy as np

import portatile

device = portatile.get_device()
host = np.random.default_rng(5).random((120, 120)) / 60
power = step = portatile.Buffer.from_numpy(host, device)
for _ in range(3):
    power = portatile.matmul(power, step)
assert np.allclose(power.numpy(), np.linalg.matrix_power(host, 4), rtol=1e-10)
print(f"the fourth power was computed on {device.info.name} without leaving it")
