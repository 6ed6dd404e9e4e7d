{#
   The stored triangle, here the lower one, and the full matrix; with UNIT the diagonal is ones:

      | a . . |        | a 0 0 |
      | b c . |   ->   | b c 0 |
      | d e f |        | d e f |
#}
// The operands of a general product: the triangle as a full matrix with zeros, and a copy of B, which the product overwrites.
//
// alpha = 0 must read neither A nor B: nothing is written then. A work-item takes one column of some rows.
{% from "scalars.cl" import nothing, one, step, steps with context %}
#ifdef DOUBLE
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif

__kernel __attribute__((reqd_work_group_size(WGS, 1, 1)))
void trmm_expand(const int order, const REAL alpha, __global const REAL* restrict a, const long a_offset, const long lda,
                 __global REAL* restrict full, const long ldfull{{ steps(["a", "full"]) }})
{
{{ step(["a", "full"]) }}    const int j = (int)get_global_id(0);
    if ({{ nothing("alpha") }} || j >= order)
        return;
    a += a_offset;
    for (int i = (int)get_global_id(1); i < order; i += (int)get_global_size(1)) {
        const int here = UPPER ? i < j : i > j;
        if (i == j)
            full[i * ldfull + j] = UNIT ? {{ one() }} : a[i * lda + j];
        else
            full[i * ldfull + j] = here ? a[i * lda + j] : (REAL)0;
    }
}

__kernel __attribute__((reqd_work_group_size(WGS, 1, 1)))
void trmm_copy(const int m, const int n, const REAL alpha, __global const REAL* restrict b, const long b_offset, const long ldb,
               __global REAL* restrict copy, const long ldcopy{{ steps(["b", "copy"]) }})
{
{{ step(["b", "copy"]) }}    const int j = (int)get_global_id(0);
    if ({{ nothing("alpha") }} || j >= n)
        return;
    b += b_offset;
    for (int i = (int)get_global_id(1); i < m; i += (int)get_global_size(1))
        copy[i * ldcopy + j] = b[i * ldb + j];
}
