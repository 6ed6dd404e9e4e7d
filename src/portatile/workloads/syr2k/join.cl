{#
   Parts of `joined`, `apart` elements from one to the next:

      |    A    |    B    |    A    |        C = [A B] [B A]^T = A B^T + B A^T
      |<---- [A B] ------>|
                |<----- [B A] ----->|
#}
// Copies A, B and A again side by side, in the storage order of A, so that [A B] and [B A] are the first and last two thirds of the copy.
//
// The parts begin `apart` elements from each other. alpha = 0 must not read A or B: nothing is written then. A work-item, of a CPU,
// takes LINES stored rows of A; with TURNED, B has the other storage order.
#ifdef DOUBLE
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void syr2k_join(const int rows, const int columns, const REAL alpha, __global const REAL* restrict a, const long a_offset, const long lda,
                __global const REAL* restrict b, const long b_offset, const long ldb, __global REAL* restrict joined, const long ldj,
                const long apart)
{
    if (alpha == 0)
        return;
    a += a_offset;
    b += b_offset;
    const int first = (int)get_global_id(0) * LINES;
    for (int i = first; i < min(first + LINES, rows); ++i) {
        __global REAL* to = joined + i * ldj;
        for (int j = 0; j < columns; ++j)
            to[j] = to[2 * apart + j] = a[i * lda + j];
        for (int j = 0; j < columns; ++j)
            to[apart + j] = b[TURNED ? j * ldb + i : i * ldb + j];
    }
}
