"""A kernel of your own: add two vectors, and find out how many elements a work-item should add."""

import numpy as np

import portatile

text = """
kernel void vector_add(global const float *restrict a, global const float *restrict b, global float *restrict c, int n) {
    int first = get_group_id(0) * block * work + get_local_id(0);
    for (int i = first; i < min(first + block * work, n); i += block)
        c[i] = a[i] + b[i];
}
"""
n = 200_000
a, b = np.random.default_rng(1).random((2, n), np.float32)
c = np.empty_like(a)
kernel = portatile.Kernel(
    text,
    "vector_add",
    arguments=(a, b, c, n),
    parameters={"block": [16, 64, 256, 1024], "work": [1, 2, 4, 8]},
    local_size="block",
    global_size="n / work",
    roles={"c": "out"},
    reference=lambda a, b: a + b,
)
result = kernel.tune(budget="5")
print(result)

x, y = np.random.default_rng(2).random((2, 12_345), np.float32)  # the winner takes other arrays, too
assert np.array_equal(result(x, y, np.empty_like(x), x.size), x + y)
