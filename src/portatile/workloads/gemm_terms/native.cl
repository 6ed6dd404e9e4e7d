{#
   A tile of C of {16 EACH} x {16 EACH} by 16 x 16 work-items; item (x, y) has rows 64 h + 4 y .. + 3 and columns 64 h + 4 x .. + 3, h <
   EACH / 4. Each step of 16 of k is loaded into registers while the one before is multiplied from local memory (double buffering), stored
   k-major.
#}
// The native product for those rows and columns of C for which two terms of 16 bits are not enough ("lost"); without any, every group ends
// at once.
//
// Each group loops over tiles; it computes a tile in which a row or column is lost, and stores only these. See terms.cl for `scales`.
{% set side = 16 * EACH %}
{% set halves = EACH // 4 %}
{# loads this item's share of the next 16 steps of an operand #}
{% macro read(x, fast, first, end) %}
#pragma unroll
            for (int s = 0; s < {{ EACH }}; ++s) {
                const int at = item + s * 256, line = {{ first }} + {{ "at / 16" if fast else "at %% %d" % side }}, step = k0 + {{ "at % 16" if fast else "at / %d" % side }};
                const long across = min(line, {{ end }} - 1);
                {{ x }}_next[s] = step < k ? {{ x }}_base[{{ x }}_offset + {{ "across * ld%s + step" % x if fast else "(long)step * ld%s + across" % x }}] : 0;
            }
{% endmacro %}
{% macro put(x, fast) %}
#pragma unroll
            for (int s = 0; s < {{ EACH }}; ++s) {
                const int at = item + s * 256;
                {{ x }}_tile[{{ "at % 16" if fast else "at / %d" % side }}][{{ "at / 16" if fast else "at %% %d" % side }}] = {{ x }}_next[s];
            }
{% endmacro %}

__kernel __attribute__((reqd_work_group_size(16, 16, 1)))
void terms_native(const int m, const int n, const int k, const float alpha, const float beta,
                  __global const float* restrict a_base, const long a_offset, const int lda,
                  __global const float* restrict b_base, const long b_offset, const int ldb,
                  __global float* restrict c_base, const long c_offset, const int ldc, __global const int* restrict scales)
{
    __local float a_tile[16][{{ side + 4 }}] __attribute__((aligned(16)));
    __local float b_tile[16][{{ side + 4 }}] __attribute__((aligned(16)));
    __local int lost;
    const int x = (int)get_local_id(0), y = (int)get_local_id(1), item = y * 16 + x;
    if (alpha == 0 || !scales[2 * ((long)m + n)])
        return;
    __global const int* row_lost = scales + m;
    __global const int* column_lost = scales + 2 * (long)m + n;
    const int across_all = (n - 1) / {{ side }} + 1, tiles = ((m - 1) / {{ side }} + 1) * across_all;
    for (int tile = (int)get_group_id(0); tile < tiles; tile += (int)get_num_groups(0)) {
        const int row0 = tile / across_all * {{ side }}, col0 = tile % across_all * {{ side }};
        if (item == 0)
            lost = 0;
        barrier(CLK_LOCAL_MEM_FENCE);
        const int line = item % {{ side }};
        // items beyond the tile's side repeat the test: PoCL 5 and 6 miscompile a condition on the item's number, and a branch around the
        // stores
        if ((row0 + line < m && row_lost[row0 + line]) || (col0 + line < n && column_lost[col0 + line]))
            lost = 1;
        barrier(CLK_LOCAL_MEM_FENCE);
        const int steps = lost ? k : 0;
        float sums[{{ EACH }}][{{ EACH }}], a_next[{{ EACH }}], b_next[{{ EACH }}];
#pragma unroll
        for (int i = 0; i < {{ EACH }}; ++i)
#pragma unroll
            for (int j = 0; j < {{ EACH }}; ++j)
                sums[i][j] = 0;
        if (steps > 0) {
            const int k0 = 0;
{{ read("a", A_FAST, "row0", "m") }}{{ read("b", B_FAST, "col0", "n") }}        }
        for (int k0 = 16; k0 < steps + 16; k0 += 16) {
{{ put("a", A_FAST) }}{{ put("b", B_FAST) }}            barrier(CLK_LOCAL_MEM_FENCE);
{{ read("a", A_FAST, "row0", "m") }}{{ read("b", B_FAST, "col0", "n") }}
#pragma unroll
            for (int step = 0; step < 16; ++step) {
                float4 a[{{ halves }}], b[{{ halves }}];
#pragma unroll
                for (int h = 0; h < {{ halves }}; ++h) {
                    a[h] = *(__local const float4*)&a_tile[step][64 * h + 4 * y];
                    b[h] = *(__local const float4*)&b_tile[step][64 * h + 4 * x];
                }
{% for i in range(EACH) %}
{% for j in range(EACH) %}
                sums[{{ i }}][{{ j }}] += a[{{ i // 4 }}].s{{ i % 4 }} * b[{{ j // 4 }}].s{{ j % 4 }};
{% endfor %}
{% endfor %}
            }
            barrier(CLK_LOCAL_MEM_FENCE);
        }
#pragma unroll
        for (int i = 0; i < {{ EACH }}; ++i)
#pragma unroll
            for (int j = 0; j < {{ EACH }}; ++j) {
                const int row = row0 + i / 4 * 64 + 4 * y + i % 4, column = col0 + j / 4 * 64 + 4 * x + j % 4;
                if (lost && row < m && column < n && (row_lost[row] || column_lost[column])) {
                    __global float* to = c_base + c_offset + (long)row * ldc + column;
                    *to = beta == 0 ? alpha * sums[i][j] : alpha * sums[i][j] + beta * *to;
                }
            }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
}
