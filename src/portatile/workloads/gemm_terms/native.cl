{#
   A tile of C of 64 x 64 by 16 x 16 work-items: item (x, y) has rows y, y + 16, ... and columns x, x + 16, ...
#}
// The native product for rows and columns of C that two terms of 16 bits do not give: where none is lost, every group ends at once.
//
// Groups go from tile to tile, look whether a row or column of it is lost, and store those alone. See terms.cl for `scales`.

__kernel __attribute__((reqd_work_group_size(16, 16, 1)))
void terms_native(const int m, const int n, const int k, const float alpha, const float beta,
                  __global const float* restrict a_base, const long a_offset, const int lda,
                  __global const float* restrict b_base, const long b_offset, const int ldb,
                  __global float* restrict c_base, const long c_offset, const int ldc, __global const int* restrict scales)
{
    __local float a_tile[16][65], b_tile[16][65];
    __local int lost;
    const int x = (int)get_local_id(0), y = (int)get_local_id(1), item = y * 16 + x;
    if (alpha == 0 || !scales[2 * ((long)m + n)])
        return;
    __global const int* row_lost = scales + m;
    __global const int* column_lost = scales + 2 * (long)m + n;
    const int across = (n - 1) / 64 + 1, tiles = ((m - 1) / 64 + 1) * across;
    for (int tile = (int)get_group_id(0); tile < tiles; tile += (int)get_num_groups(0)) {
        const int row0 = tile / across * 64, col0 = tile % across * 64;
        if (item == 0)
            lost = 0;
        barrier(CLK_LOCAL_MEM_FENCE);
        if (item < 64 ? row0 + item < m && row_lost[row0 + item] : item < 128 && col0 + item - 64 < n && column_lost[col0 + item - 64])
            lost = 1;
        barrier(CLK_LOCAL_MEM_FENCE);
        const int steps = lost ? k : 0;
        float sums[4][4];
#pragma unroll
        for (int i = 0; i < 4; ++i)
#pragma unroll
            for (int j = 0; j < 4; ++j)
                sums[i][j] = 0;
        for (int k0 = 0; k0 < steps; k0 += 16) {
#pragma unroll
            for (int s = 0; s < 4; ++s) {
                const int at = item + s * 256;
                const int a_row = {{ "at / 16" if A_FAST else "at % 64" }}, a_step = {{ "at % 16" if A_FAST else "at / 64" }};
                const int b_column = {{ "at / 16" if B_FAST else "at % 64" }}, b_step = {{ "at % 16" if B_FAST else "at / 64" }};
                const long i = min(row0 + a_row, m - 1), ka = k0 + a_step, j = min(col0 + b_column, n - 1), kb = k0 + b_step;
                a_tile[a_step][a_row] = ka < k ? a_base[a_offset + {{ "i * lda + ka" if A_FAST else "ka * lda + i" }}] : 0;
                b_tile[b_step][b_column] = kb < k ? b_base[b_offset + {{ "j * ldb + kb" if B_FAST else "kb * ldb + j" }}] : 0;
            }
            barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll
            for (int step = 0; step < 16; ++step) {
                float a[4], b[4];
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    a[i] = a_tile[step][y + 16 * i];
                    b[i] = b_tile[step][x + 16 * i];
                }
#pragma unroll
                for (int i = 0; i < 4; ++i)
#pragma unroll
                    for (int j = 0; j < 4; ++j)
                        sums[i][j] += a[i] * b[j];
            }
            barrier(CLK_LOCAL_MEM_FENCE);
        }
        if (steps > 0)
#pragma unroll
            for (int i = 0; i < 4; ++i)
#pragma unroll
                for (int j = 0; j < 4; ++j) {
                    const int row = row0 + y + 16 * i, column = col0 + x + 16 * j;
                    if (row < m && column < n && (row_lost[row] || column_lost[column])) {
                        __global float* to = c_base + c_offset + (long)row * ldc + column;
                        *to = beta == 0 ? alpha * sums[i][j] : alpha * sums[i][j] + beta * *to;
                    }
                }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
}
