"""Multiply two matrices on the best device with what was tuned, and check against NumPy."""

import numpy as np

import portatile

a, b = (np.random.default_rng(seed).random((512, 512), dtype=np.float32) for seed in (1, 2))
c = portatile.matmul(a, b)
error = np.max(np.abs(c - a.astype(np.float64) @ b))
assert error < 512 * np.finfo(np.float32).eps * np.max(c), f"wrong by {error}"
print(f"matmul agrees with NumPy to {error:.1e} of at most {np.max(c):.0f}")
