{#
   Diagonal block p of C, nb x nb, from block p of the product W; here the lower triangle, in squares of SQUARE x SQUARE:

        W                     C
      +----+----+           +----+----+
      | d  | u  |           | d  |    |      square l of C = (l of W) + (u of W) transposed + beta C
      +----+----+    ->     +----+----+      square d of C: the same below its diagonal alone
      | l  | d' |           | l  | d' |
      +----+----+           +----+----+      a group has square l in registers, SQUARE SQUARE / WGS elements an item, and u in local memory
#}
// Updates the diagonal blocks of C, of which only one triangle may be touched: C = W + W^T + beta C there, for a block W of the product.
//
// A block is nb x nb, the last one perhaps smaller; block p begins at element p nb ldw of `blocks`.
{% from "scalars.cl" import functions, mirrored, nothing, step, steps, times with context %}
#ifdef DOUBLE
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif
{{ functions() }}
{%- if SAME %}
// The fused multiply-adds are explicit, so that every compiler rounds in the same places.
{% if COMPLEX %}
static inline REAL added(const REAL sum, const REAL beta, const REAL old)
{
    return (REAL)(fma(-beta.y, old.y, fma(beta.x, old.x, sum.x)), fma(beta.y, old.x, fma(beta.x, old.y, sum.y)));
}
{% else %}
#define added(sum, beta, old) fma(beta, old, sum)
{% endif %}
{% if HERMITIAN %}
#define SUM(sum, old, diagonal) ((diagonal) ? (REAL)({{ nothing("beta") }} ? (sum).x : fma(beta.x, (old).x, (sum).x), 0) : ({{ nothing("beta") }} ? (sum) : added(sum, beta, old)))
{% else %}
#define SUM(sum, old, diagonal) ({{ nothing("beta") }} ? (sum) : added(sum, beta, old))
{% endif %}
{%- elif HERMITIAN %}
// The imaginary part of a Hermitian C's diagonal counts as zero, and is stored as zero.
#define SUM(sum, old, diagonal) ((diagonal) ? (REAL)((sum).x + ({{ nothing("beta") }} ? 0 : beta.x * (old).x), 0) : ({{ nothing("beta") }} ? (sum) : (sum) + {{ times("beta", "old") }}))
{% elif COMPLEX %}
#define SUM(sum, old, diagonal) ({{ nothing("beta") }} ? (sum) : (sum) + {{ times("beta", "old") }})
{% endif %}

#ifdef SERIAL
// On a CPU a work-item takes SQUARE rows of block y, square by square, so that the columns that it reads stay in the first-level cache.
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void syr2k_fold(const int order, const int nb, const REAL beta, __global const REAL* restrict blocks, const long ldw,
                __global REAL* restrict c, const long c_offset, const long ldc{{ steps(["blocks", "c"]) }})
{
{{ step(["blocks", "c"]) }}    const int i0 = (int)get_global_id(0) * SQUARE, start = (int)get_global_id(1) * nb;
    const int size = min(nb, order - start), i1 = min(i0 + SQUARE, size);
    blocks += start * ldw;
    c += c_offset + start * ldc + start;
    for (int j0 = UPPER ? i0 : 0; j0 < (UPPER ? size : i1); j0 += SQUARE)
        for (int i = i0; i < i1; ++i) {
            const int first = UPPER ? max(i, j0) : j0, last = min(j0 + SQUARE, UPPER ? size : i + 1);
            __global REAL* to = c + i * ldc + first;
            __global const REAL* along = blocks + i * ldw + first;
            __global const REAL* down = blocks + first * ldw + i;
{% if COMPLEX or SAME %}
            for (int e = 0; e < last - first; ++e)
                to[e] = SUM(along[e] + {{ mirrored("down[e * ldw]") }}, to[e], first + e == i);
{% else %}
            if (last - first == SQUARE) {
                if (beta == 0)
                    for (int e = 0; e < SQUARE; ++e)
                        to[e] = along[e] + down[e * ldw];
                else
                    for (int e = 0; e < SQUARE; ++e)
                        to[e] = along[e] + down[e * ldw] + beta * to[e];
            }
            else
                for (int e = 0; e < last - first; ++e)
                    to[e] = along[e] + down[e * ldw] + (beta == 0 ? 0 : beta * to[e]);
{% endif %}
        }
}
#else
// A work-group of SQUARE x WGS / SQUARE takes a square of block z, and through local memory the one across the diagonal, so that both loads
// are coalesced.
__kernel __attribute__((reqd_work_group_size(SQUARE, WGS / SQUARE, 1)))
void syr2k_fold(const int order, const int nb, const REAL beta, __global const REAL* restrict blocks, const long ldw,
                __global REAL* restrict c, const long c_offset, const long ldc{{ steps(["blocks", "c"]) }})
{
{{ step(["blocks", "c"]) }}    const int x = (int)get_local_id(0), y = (int)get_local_id(1);
    const int j0 = (int)get_group_id(0) * SQUARE, i0 = (int)get_group_id(1) * SQUARE, start = {{ 0 if BATCH else "(int)get_group_id(2) * nb" }};
    const int size = min(nb, order - start);
    if (UPPER ? i0 > j0 : j0 > i0)
        return;
    blocks += start * ldw;
    c += c_offset + start * ldc + start;
    __local REAL across[SQUARE][SQUARE + 1];
    REAL own[SQUARE * SQUARE / WGS], other[SQUARE * SQUARE / WGS];  // all loads are in flight before the first is used
    const int j = j0 + x;
#pragma unroll
    for (int turn = 0; turn < SQUARE * SQUARE / WGS; ++turn) {
        const int step = y + turn * (WGS / SQUARE);
        other[turn] = j0 + step < size && i0 + x < size ? blocks[(j0 + step) * ldw + i0 + x] : 0;
        own[turn] = i0 + step < size && j < size ? blocks[(i0 + step) * ldw + j] : 0;
    }
#pragma unroll
    for (int turn = 0; turn < SQUARE * SQUARE / WGS; ++turn)
        across[y + turn * (WGS / SQUARE)][x] = other[turn];
    barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll
    for (int turn = 0; turn < SQUARE * SQUARE / WGS; ++turn) {
        const int step = y + turn * (WGS / SQUARE), i = i0 + step;
        if (i < size && j < size && (UPPER ? i <= j : i >= j)) {
            const REAL value = own[turn] + {{ mirrored("across[x][step]") }};
            __global REAL* to = c + i * ldc + j;
{% if COMPLEX or SAME %}
            *to = SUM(value, *to, i == j);
{% else %}
            *to = beta == 0 ? value : value + beta * *to;
{% endif %}
        }
    }
}
#endif
