"""A kernel of your own: add up every row of a matrix, one work-group for a row, in a tree in local memory."""

import numpy as np

import portatile

text = """
kernel __attribute__((reqd_work_group_size(items, 1, 1)))
void row_sums(global const float *matrix, global float *sums, local float *part, int columns) {
    int id = get_local_id(0);
    global const float *row = matrix + (long)get_group_id(0) * columns;
    float sum = 0.0f;
    for (int i = id * vector; i < columns; i += items * vector)
        for (int j = i; j < min(i + vector, columns); j++) sum += row[j];
    part[id] = sum;
    for (int gap = items / 2; gap > 0; gap /= 2) {
        barrier(CLK_LOCAL_MEM_FENCE);
        if (id < gap) part[id] += part[id + gap];
    }
    if (id == 0) sums[get_group_id(0)] = part[0];
}
"""
rows, columns = 64, 5000
matrix = np.random.default_rng(1).random((rows, columns), np.float32)
kernel = portatile.Kernel(
    text,
    "row_sums",
    arguments=(matrix, np.empty(rows, np.float32), "items", columns),  # local memory: a count of elements
    parameters={"items": [1, 4, 16, 64, 256], "vector": [1, 4, 16]},
    constants={"rows": rows},
    global_size="rows * items",
    roles={"sums": "out"},
    reference=lambda matrix: matrix.sum(axis=1, dtype=np.float64),
    flops="rows * columns",
)
print(kernel.tune(budget="5"))
