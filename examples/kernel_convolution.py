"""A kernel of your own: filter an image in two dimensions, from global memory or through a tile in local memory."""

import numpy as np

import portatile

text = """
#define HALO (taps - 1)
#define TILE (block_x * work + HALO)

kernel void convolve(global const float *image, constant float *filter, global float *result, int width, int height) {
    int x = get_group_id(0) * block_x * work + get_local_id(0), y = get_global_id(1), stride = width + HALO;
#if staged
    local float tile[(block_y + HALO) * TILE];
    int left = get_group_id(0) * block_x * work, top = get_group_id(1) * block_y;
    for (int i = get_local_id(1) * block_x + get_local_id(0); i < (block_y + HALO) * TILE; i += block_x * block_y) {
        int row = min(top + i / TILE, height + HALO - 1), column = min(left + i % TILE, stride - 1);
        tile[i] = image[row * stride + column];
    }
    barrier(CLK_LOCAL_MEM_FENCE);
#endif
    for (int k = 0; k < work; k++, x += block_x) {
        float sum = 0.0f;
        for (int i = 0; i < taps; i++)
            for (int j = 0; j < taps; j++)
#if staged
                sum += filter[i * taps + j] * tile[(get_local_id(1) + i) * TILE + get_local_id(0) + k * block_x + j];
#else
                sum += filter[i * taps + j] * image[min(y + i, height + HALO - 1) * stride + min(x + j, stride - 1)];
#endif
        if (x < width && y < height) result[y * width + x] = sum;
    }
}
"""
width, height, taps = 250, 120, 5
rng = np.random.default_rng(1)
image = rng.random((height + taps - 1, width + taps - 1), np.float32)
weights = rng.random((taps, taps), np.float32)
result = np.empty((height, width), np.float32)


def reference(image, filter):
    windows = np.lib.stride_tricks.sliding_window_view(image.astype(np.float64), filter.shape)
    return np.einsum("yxij,ij->yx", windows, filter)


kernel = portatile.Kernel(
    text,
    "convolve",
    arguments={"image": image, "filter": weights, "result": result, "width": width, "height": height},
    parameters={"block_x": [16, 32, 64], "block_y": [1, 2, 4, 8], "work": [1, 2, 4], "staged": [False, True]},
    constants={"taps": taps},
    constraints=["block_x * block_y <= 256"],
    local_size=("block_x", "block_y"),
    global_size=("width / work", "height"),
    roles={"result": "out"},
    reference=reference,
    flops="2 * taps ** 2 * width * height",
)
print(kernel.tune(budget="4"))
