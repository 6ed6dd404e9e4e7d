// Packs both operands into panels in one launch, each as pack.cl does: the first work-groups of 32 x 8 move squares of A, the others of B.
{# A's panels have `A_WIDTH` rows of op(A), B's have `B_WIDTH` columns of op(B) #}
{% from "elements.cl" import nothing with context %}
{% set both = "ab" %}
{# a value for A and one for B; a compile-time constant if they are equal #}
{% macro either(of_a, of_b) %}{{ of_a if of_a == of_b else "(second ? %s : %s)" % (of_b, of_a) }}{% endmacro %}
{% set fast = either(A_FAST | int, B_FAST | int) %}
{% if real == "double" %}
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
{% endif %}

__kernel __attribute__((reqd_work_group_size(32, 8, 1)))
void gemm_pack(const int m, const int n, const int k, const int depth, const {{ real }} alpha,
{% for x in both %}
               __global const {{ real }}* restrict {{ x }}_base, const long {{ x }}_offset, const int ld{{ x }}, __global {{ real }}* restrict {{ x }}_panels{{ ")" if loop.last else "," }}
{% endfor %}
{
    __local {{ real }} square[32][33];
{% if EARLY %}
    AFTER_PREVIOUS();
{% endif %}
    if ({{ nothing("alpha") }})  // must not read the operands
        return;
    const int x = (int)get_local_id(0), y = (int)get_local_id(1);
    const int down = ((m - 1) / A_WIDTH + 1) * A_WIDTH, right = ((n - 1) / B_WIDTH + 1) * B_WIDTH, deep = (depth - 1) / 32 + 1;
    const int squares_a = ((down - 1) / 32 + 1) * deep;
    const int second = (int)get_group_id(0) >= squares_a, group = (int)get_group_id(0) - (second ? squares_a : 0);
    const int across = second ? n : m, width = second ? right : down, squares = (width - 1) / 32 + 1, ld = second ? ldb : lda;
    const int across0 = group % squares * 32, k0 = group / squares * 32, i = across0 + x;
    __global const {{ real }}* from = second ? b_base + b_offset : a_base + a_offset;
    {{ real }} element[4];
#pragma unroll
    for (int row = 0; row < 4; ++row) {
        const int line = {{ fast }} ? across0 + y + 8 * row : i, kk = {{ fast }} ? k0 + x : k0 + y + 8 * row;
        const int inside = line < across && kk < k;
        const {{ real }} there = from[inside ? {{ fast }} ? (long)line * ld + kk : (long)kk * ld + line : 0];
        element[row] = inside ? there : 0;
    }
    if ({{ fast }})
#pragma unroll
        for (int row = 0; row < 4; ++row)
            square[y + 8 * row][x] = element[row];
    barrier(CLK_LOCAL_MEM_FENCE);
    const int panel = second ? i / B_WIDTH : i / A_WIDTH, pitch = second ? B_WIDTH : A_WIDTH;
    __global {{ real }}* to = (second ? b_panels : a_panels) + (long)panel * depth * pitch + (i - panel * pitch);
#pragma unroll
    for (int row = 0; row < 4; ++row) {
        const int kk = k0 + y + 8 * row;
        if (kk < depth && i < width)
            to[(long)kk * pitch] = {{ fast }} ? square[x][y + 8 * row] : element[row];
    }
}
