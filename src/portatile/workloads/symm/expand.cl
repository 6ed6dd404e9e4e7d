// A symmetric matrix of which one triangle is stored, as a whole one: full[i][j] is the stored one of (i, j) and (j, i).
//
// alpha = 0 must not read A: nothing is written then. A work-item takes one column of some rows.
#ifdef DOUBLE
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif

__kernel __attribute__((reqd_work_group_size(WGS, 1, 1)))
void symm_expand(const int order, const REAL alpha, __global const REAL* restrict a, const long a_offset, const long lda,
                 __global REAL* restrict full, const long ldfull)
{
    const int j = (int)get_global_id(0);
    if (alpha == 0 || j >= order)
        return;
    a += a_offset;
    for (int i = (int)get_global_id(1); i < order; i += (int)get_global_size(1)) {
        const int here = UPPER ? i <= j : i >= j;
        full[i * ldfull + j] = here ? a[i * lda + j] : a[j * lda + i];
    }
}
