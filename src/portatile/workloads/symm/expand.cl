{#
   The stored triangle, here the lower one, and the full matrix; (j, i) is copied, or conjugated, from (i, j):

      | a . . |        | a b d |
      | b c . |   ->   | b c e |
      | d e f |        | d e f |
#}
// Expands a symmetric matrix, of which one triangle is stored, to a full one: full[i][j] is the stored one of (i, j) and (j, i).
//
// alpha = 0 must not read A: nothing is written then.
{% from "scalars.cl" import functions, mirrored, nothing, step, steps with context %}
#ifdef DOUBLE
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif
{{ functions() }}
{%- if HERMITIAN %}
// In a Hermitian matrix (j, i) is the conjugate of (i, j), and the imaginary part of the diagonal counts as zero.
#define DIAGONAL(element) ((REAL)((element).x, 0))
{% endif %}

#ifdef SERIAL
// On a CPU a work-item takes SQUARE rows, square by square, so that the columns that it reads stay in the first-level cache.
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void symm_expand(const int order, const REAL alpha, __global const REAL* restrict a, const long a_offset, const long lda,
                 __global REAL* restrict full, const long ldfull{{ steps(["a", "full"]) }})
{
{{ step(["a", "full"]) }}    const int i0 = (int)get_global_id(0) * SQUARE, i1 = min(i0 + SQUARE, order);
    if ({{ nothing("alpha") }})
        return;
    a += a_offset;
    for (int j0 = 0; j0 < order; j0 += SQUARE) {
        const int j1 = min(j0 + SQUARE, order), across = UPPER ? j0 < i0 : j0 > i0;
        for (int i = i0; i < i1; ++i) {
            __global REAL* to = full + i * ldfull + j0;
            __global const REAL* along = a + i * lda + j0;
            __global const REAL* down = a + j0 * lda + i;
            if (j0 == i0 || j1 - j0 < SQUARE)
                for (int e = 0; e < j1 - j0; ++e)
                    to[e] = (UPPER ? i <= j0 + e : i >= j0 + e) ? along[e] : {{ mirrored("down[e * lda]") }};
            else if (across)
                for (int e = 0; e < SQUARE; ++e)
                    to[e] = {{ mirrored("down[e * lda]") }};
            else
                for (int e = 0; e < SQUARE; ++e)
                    to[e] = along[e];
{% if HERMITIAN %}
            if (j0 == i0)
                to[i - i0] = DIAGONAL(along[i - i0]);
{% endif %}
        }
    }
}
#else
// A work-group of SQUARE x WGS / SQUARE copies a square of the stored triangle, and through local memory its transpose across the
// diagonal, so that all accesses are coalesced. Each row of groups takes two rows of squares, `near` and the one as far from the other end,
// so that all have the same number of squares.
__kernel __attribute__((reqd_work_group_size(SQUARE, WGS / SQUARE, 1)))
void symm_expand(const int order, const REAL alpha, __global const REAL* restrict a, const long a_offset, const long lda,
                 __global REAL* restrict full, const long ldfull{{ steps(["a", "full"]) }})
{
{{ step(["a", "full"]) }}    const int x = (int)get_local_id(0), y = (int)get_local_id(1), column = (int)get_group_id(0);
    const int near = (int)get_group_id(1), far = (order - 1) / SQUARE - near;
    if ({{ nothing("alpha") }} || (near == far && column > near))
        return;
    const int down = column > near ? far : near, along = column > near ? column - near - 1 : column;
    const int i0 = (UPPER ? along : down) * SQUARE, j0 = (UPPER ? down : along) * SQUARE;
    a += a_offset;
    __local REAL square[SQUARE][SQUARE + 1];
#pragma unroll
    for (int step = 0; step < SQUARE; step += WGS / SQUARE) {
        const int i = i0 + y + step, j = j0 + x;
        if (i < order && j < order && (UPPER ? i <= j : i >= j)) {
            const REAL value = {{ "i == j ? DIAGONAL(a[i * lda + j]) : " if HERMITIAN }}a[i * lda + j];
            square[y + step][x] = value;
            full[i * ldfull + j] = value;
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll
    for (int step = 0; step < SQUARE; step += WGS / SQUARE) {
        const int i = j0 + y + step, j = i0 + x;
        if (i < order && j < order && (UPPER ? i > j : i < j))
            full[i * ldfull + j] = {{ mirrored("square[x][y + step]") }};
    }
}
#endif
