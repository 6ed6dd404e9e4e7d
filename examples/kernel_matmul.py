"""A kernel of your own: multiply square matrices by tiles in local memory, several results for each work-item."""

import numpy as np

import portatile

text = """
kernel void product(global const float *a, global const float *b, global float *c, int n) {
    local float left[block * rows][block], right[block][block * columns];
    int x = get_local_id(0), y = get_local_id(1);
    int top = get_group_id(1) * block * rows, side = get_group_id(0) * block * columns;
    float sum[rows][columns];
    for (int r = 0; r < rows; r++)
        for (int s = 0; s < columns; s++) sum[r][s] = 0.0f;

    for (int k = 0; k < n; k += block) {
        for (int r = 0; r < rows; r++) left[r * block + y][x] = a[(top + r * block + y) * n + k + x];
        for (int s = 0; s < columns; s++) right[y][s * block + x] = b[(k + y) * n + side + s * block + x];
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int i = 0; i < block; i++)
            for (int r = 0; r < rows; r++)
                for (int s = 0; s < columns; s++) sum[r][s] += left[r * block + y][i] * right[i][s * block + x];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    for (int r = 0; r < rows; r++)
        for (int s = 0; s < columns; s++) c[(top + r * block + y) * n + side + s * block + x] = sum[r][s];
}
"""
n = 96
a, b = np.random.default_rng(1).random((2, n, n), np.float32)
c = np.empty_like(a)
kernel = portatile.Kernel(
    text,
    "product",
    arguments=(a, b, c, n),
    parameters={"block": [8, 16, 32], "rows": [1, 2, 3, 4], "columns": [1, 2, 3, 4]},
    constraints=["n % (block * rows) == 0 and n % (block * columns) == 0", "rows * columns <= 8"],
    local_size=("block", "block"),
    global_size=("n / columns", "n / rows"),
    roles={"c": "out"},
    reference=lambda a, b: a.astype(np.float64) @ b,
    flops="2 * n ** 3",
)
print(kernel.tune(budget="4"))
