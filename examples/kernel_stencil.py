"""A kernel of your own: one step of heat conduction on a grid whose edge stays as it is."""

import numpy as np

import portatile

text = """
kernel void heat(global const double *now, global double *next, double rate, int width, int height) {
    int x = get_global_id(0) + 1, first = get_global_id(1) * rows + 1;
    if (x >= width - 1) return;
#if walk
    double above = now[(min(first, height) - 1) * width + x], here = now[min(first, height - 1) * width + x];
#endif
    for (int y = first; y < min(first + rows, height - 1); y++) {
        int i = y * width + x;
#if walk  /* keep what the row below needs */
        double below = now[i + width];
        next[i] = here + rate * (above + below + now[i - 1] + now[i + 1] - 4 * here);
        above = here;
        here = below;
#else
        next[i] = now[i] + rate * (now[i - width] + now[i + width] + now[i - 1] + now[i + 1] - 4 * now[i]);
#endif
    }
}
"""
width, height = 300, 200
now = np.random.default_rng(1).random((height, width))


def reference(now, next, rate):
    middle = now[1:-1, 1:-1]
    next[1:-1, 1:-1] = middle + rate * (now[:-2, 1:-1] + now[2:, 1:-1] + now[1:-1, :-2] + now[1:-1, 2:] - 4 * middle)
    return next


kernel = portatile.Kernel(
    text,
    "heat",
    arguments=(now, now.copy(), 0.1, width, height),
    parameters={"block_x": [16, 64, 256], "block_y": [1, 2, 4], "rows": [1, 4, 16], "walk": [0, 1]},
    constraints=[lambda block_x, block_y: block_x * block_y <= 256, "rows > 1 or walk == 0"],
    local_size=lambda block_x, block_y: (block_x, block_y),
    global_size=("width - 2", "(height - 2) / rows"),
    reference=reference,
)
result = kernel.tune(budget="5")
print(result)

grid = [np.zeros((height, width)), np.zeros((height, width))]
grid[0][90:110, 140:160] = grid[1][90:110, 140:160] = 1.0
for step in range(10):
    result(grid[step % 2], grid[(step + 1) % 2], 0.1, width, height)
assert np.isclose(grid[0].sum(), 400), "no heat has reached the edge yet"
