{#
   The stored triangle, here the lower one, and the whole matrix; (j, i) is copied, or conjugated, from (i, j):

      | a . . |        | a b d |
      | b c . |   ->   | b c e |
      | d e f |        | d e f |
#}
// A symmetric matrix of which one triangle is stored, as a whole one: full[i][j] is the stored one of (i, j) and (j, i).
//
// alpha = 0 must not read A: nothing is written then.
{% from "scalars.cl" import functions, mirrored, nothing, step, steps with context %}
#ifdef DOUBLE
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif
{{ functions() }}
{%- if HERMITIAN %}
// Of a Hermitian one (j, i) is the conjugate, and what is imaginary on the diagonal counts as zero.
#define DIAGONAL(element) ((REAL)((element).x, 0))
{% endif %}

#ifdef SERIAL
// A work-item of a processor takes SQUARE rows, in squares, so that the columns that it reads stay in the first cache.
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
// A work-item takes one column of some rows.
__kernel __attribute__((reqd_work_group_size(WGS, 1, 1)))
void symm_expand(const int order, const REAL alpha, __global const REAL* restrict a, const long a_offset, const long lda,
                 __global REAL* restrict full, const long ldfull{{ steps(["a", "full"]) }})
{
{{ step(["a", "full"]) }}    const int j = (int)get_global_id(0);
    if ({{ nothing("alpha") }} || j >= order)
        return;
    a += a_offset;
    for (int i = (int)get_global_id(1); i < order; i += (int)get_global_size(1)) {
        const int here = UPPER ? i <= j : i >= j;
        full[i * ldfull + j] = here ? a[i * lda + j] : {{ mirrored("a[j * lda + i]") }};
{% if HERMITIAN %}
        if (i == j)
            full[i * ldfull + j] = DIAGONAL(a[i * lda + j]);
{% endif %}
    }
}
#endif
