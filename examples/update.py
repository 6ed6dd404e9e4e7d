"""The full GEMM of the BLAS: C := 2 A^T B + C, in place, row-major or column-major as the arrays come."""

import numpy as np

import portatile

rng = np.random.default_rng(4)
a, b, c = rng.random((70, 90)), rng.random((70, 50)), rng.random((90, 50))
expected = 2 * a.T @ b + c
portatile.gemm(a, b, c, alpha=2, beta=1, trans_a="T", out=c)
assert np.allclose(c, expected, rtol=1e-12)
print(f"C is updated in place: C[0, 0] = {c[0, 0]:.6f}")
