// The inverses of the NB x NB blocks on the diagonal of a triangular matrix, all of them at once: blocks of IB by
// substitution, then pairs of neighbours joined until they are NB wide. Inverse number d lies at inverses + d NB NB, row-major
// and with zeros in the other triangle; what lies beyond the matrix counts as identity.
#ifdef DOUBLE
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif

// In a block of `size`: the index that makes the triangle a lower one.
#if UPPER
#define FLIP(i, size) ((size) - 1 - (i))
#else
#define FLIP(i, size) (i)
#endif

// Group g inverts the block of IB that starts at row g IB; work-item j computes column j of it. With alpha = 0 A must
// not be read, and nobody will look at the inverses.
__kernel __attribute__((reqd_work_group_size(IB, 1, 1))) void triangular_invert(
    const int order, const REAL alpha, __global const REAL* restrict a, const long a_offset, const long lda,
    __global REAL* restrict inverses)
{
    __local REAL tile[IB][IB + 1];      // the block as a lower triangle
    __local REAL inverse[IB][IB + 1];   // column j belongs to work-item j alone
    const int j = (int)get_local_id(0), start = (int)get_group_id(0) * IB;
    const int known = alpha == 0 ? 0 : order;

    for (int i = 0; i < IB; i++) {
        const int row = start + FLIP(i, IB), column = start + FLIP(j, IB);
        REAL value = i == j ? 1 : 0;
#if UNIT
        if (row < known && column < known && j < i)
#else
        if (row < known && column < known && j <= i)
#endif
            value = a[a_offset + row * lda + column];
        tile[i][j] = value;
    }
    barrier(CLK_LOCAL_MEM_FENCE);

    for (int i = 0; i < IB; i++) {
        REAL sum = i == j ? 1 : 0;
        for (int l = j; l < i; l++)
            sum -= tile[i][l] * inverse[l][j];
        inverse[i][j] = i < j ? 0 : sum / tile[i][i];
    }
    barrier(CLK_LOCAL_MEM_FENCE);

    const int within = start % NB;      // of its block of NB
    __global REAL* rows = inverses + (long)(start / NB) * NB * NB + (long)within * NB;
    for (int i = 0; i < IB; i++)
        for (int column = j; column < NB; column += IB)
            rows[i * NB + column] =
                column >= within && column < within + IB ? inverse[FLIP(i, IB)][FLIP(column - within, IB)] : (REAL)0;
}

// Pair p are the inverses P, Q of neighbouring blocks of `half`; the block of A between them becomes -Q A P. A group
// computes PANEL columns of that, a work-item four rows of one column at a time.
__kernel __attribute__((reqd_work_group_size(WGS, 1, 1))) void triangular_join(
    const int order, const int half_size, const REAL alpha, __global const REAL* restrict a, const long a_offset, const long lda,
    __global REAL* inverses)
{
    __local REAL product[NB / 2][PANEL];    // A P
    const int item = (int)get_local_id(0), c = item % PANEL, first = item / PANEL * 4;
    const int start = (int)get_group_id(1) * 2 * half_size, column = (int)get_group_id(0) * PANEL + c;
    const int top = UPPER ? 0 : half_size, left = half_size - top;
    const int rows = min(half_size, order - start - top), columns = min(half_size, order - start - left);
    const int work = alpha == 0 ? 0 : half_size;  // a return before a barrier would confuse PoCL 3.0

    __global REAL* block = inverses + (long)(start / NB) * NB * NB + (long)(start % NB) * (NB + 1);
    __global const REAL* p = block + left * (NB + 1) + column;
    __global const REAL* q = block + top * (NB + 1);
    a += a_offset + (start + top) * lda + start + left;

    for (int i = first; i < work; i += WGS / PANEL * 4) {
        __global const REAL* a0 = a + min(i, rows - 1) * lda;
        __global const REAL* a1 = a + min(i + 1, rows - 1) * lda;
        __global const REAL* a2 = a + min(i + 2, rows - 1) * lda;
        __global const REAL* a3 = a + min(i + 3, rows - 1) * lda;
        REAL s0 = 0, s1 = 0, s2 = 0, s3 = 0;
        for (int l = 0; l < columns; l++) {
            const REAL factor = p[l * NB];
            s0 += a0[l] * factor;
            s1 += a1[l] * factor;
            s2 += a2[l] * factor;
            s3 += a3[l] * factor;
        }
        product[i][c] = i < rows ? s0 : 0;
        product[i + 1][c] = i + 1 < rows ? s1 : 0;
        product[i + 2][c] = i + 2 < rows ? s2 : 0;
        product[i + 3][c] = i + 3 < rows ? s3 : 0;
    }
    barrier(CLK_LOCAL_MEM_FENCE);

    for (int i = first; i < work; i += WGS / PANEL * 4) {
        __global const REAL* row = q + i * NB;
        REAL s0 = 0, s1 = 0, s2 = 0, s3 = 0;
        for (int l = 0; l < half_size; l++) {
            const REAL factor = product[l][c];
            s0 -= row[l] * factor;
            s1 -= row[NB + l] * factor;
            s2 -= row[2 * NB + l] * factor;
            s3 -= row[3 * NB + l] * factor;
        }
        __global REAL* target = block + (top + i) * NB + left + column;
        target[0] = s0;
        target[NB] = s1;
        target[2 * NB] = s2;
        target[3 * NB] = s3;
    }
}

// The blocks on the diagonal as the inverses lie: the triangle, ones on the diagonal where it is not read, zeros elsewhere.
__kernel __attribute__((reqd_work_group_size(WGS, 1, 1))) void triangular_copy(
    const int order, const REAL alpha, __global const REAL* restrict a, const long a_offset, const long lda,
    __global REAL* restrict blocks)
{
    const int j = (int)get_global_id(0), known = alpha == 0 ? 0 : order;
    if (j >= NB)
        return;
    for (int row = (int)get_group_id(1); row < order; row += (int)get_num_groups(1)) {
        const int column = row / NB * NB + j, diagonal = row == column;
        REAL value = UNIT && diagonal ? 1 : 0;
        if (row < known && column < known && ((UPPER ? column > row : column < row) || (!UNIT && diagonal)))
            value = a[a_offset + row * lda + column];
        blocks[(long)row * NB + j] = value;
    }
}

// B = X, or 0 for alpha = 0, whatever the launches before this one made of operands that must not matter then.
__kernel __attribute__((reqd_work_group_size(WGS, 1, 1))) void triangular_write(
    const int m, const int n, const REAL alpha, __global const REAL* restrict x, const long ldx,
    __global REAL* restrict b, const long b_offset, const long ldb)
{
    const int column = (int)get_global_id(0);
    for (int row = (int)get_group_id(1); row < m; row += (int)get_num_groups(1))
        if (column < n)
            b[b_offset + row * ldb + column] = alpha == 0 ? 0 : x[row * ldx + column];
}
