{#
   triangular_invert: a work-group has a block of SQUARE x SQUARE in local memory, here with SQUARE = 4 IB; FLIP makes it a lower triangle:

       tile[SQUARE][SQUARE + 1]                       diagonal[SQUARE]: 1 / A_jj
      +----+----+----+----+
      | \ t|    |    |    |   below the diagonal: A
      |A  \|  t |    |    |   above it:           t, the transpose of the inverse
      +----+----+  T |    |
      |    | \ t|    |    |   1. one work-item for each column inverts the blocks of IB by substitution
      | A  |A  \|    |  T |   2. pairs of neighbours P, Q of IB, 2 IB, ... are joined: the block between them becomes -Q A P, stored
      +----+----+----+    |      transposed at T
      |    |    | \ t|    |
      | A  | A  |A  \|    |      P . . .         the inverse of   P^-1  .
      +----+----+----+----+   -Q A P  Q                             A  Q^-1

   triangular_join does step 2 from SQUARE up to NB in the memory of the inverses, one group for each PANEL of columns of a pair.
#}
// The inverses of all NB x NB diagonal blocks of a triangular matrix, in parallel: blocks of SQUARE in local memory,
// then neighbours joined in pairs until they are NB wide. Inverse number d lies at inverses + d NB NB, row-major
// and with zeros in the other triangle, within blocks of ZEROED; beyond its end the matrix counts as the identity.
{% set zero = "(REAL)(0)" if COMPLEX else "0" %}
{# the real or imaginary part of an element, and a vector of four of them #}
{% set part = ("double" if DOUBLE else "float") if COMPLEX else "REAL" %}
{% set four = part ~ "4" if COMPLEX else "VECTOR(REAL)" %}
{% from "scalars.cl" import functions, nothing, step, steps, times with context %}
#ifdef DOUBLE
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif
{% if COMPLEX %}
{{ functions() }}
{% endif %}

// In a block of `size`: reverses the indices of an upper triangle, which makes it a lower one.
#if UPPER
#define FLIP(i, size) ((size) - 1 - (i))
#else
#define FLIP(i, size) (i)
#endif

// A work-item computes ROWS neighbouring elements of a column together: triangular_invert does so TAKEN times for each join,
// triangular_join TURNS times for HALF rows.
#define ROWS 4
#define TAKEN ((SQUARE * SQUARE / 4 / ROWS + WGS - 1) / WGS)
#define STEP (WGS / PANEL * ROWS)
#define TURNS ((HALF + STEP - 1) / STEP)
{% if not COMPLEX %}
#define FOUR(real) real##4
#define VECTOR(real) FOUR(real)
{% endif %}

// Group g inverts the block of SQUARE that starts at row g SQUARE: blocks of IB by substitution, a work-item for each column, then pairs of
// neighbours P and Q joined. With alpha = 0 A must not be read, and the inverses are not used. In `tile`, a lower triangle, the part
// below the diagonal is A; above it comes the transpose of the inverse, whose diagonal is stored separately.
__kernel __attribute__((reqd_work_group_size(WGS, 1, 1))) void triangular_invert(
    const int order, const REAL alpha, __global const REAL* restrict a, const long a_offset, const long lda,
    __global REAL* restrict inverses{{ steps(["a", "inverses"]) }})
{
{{ step(["a", "inverses"]) -}}
    __local REAL tile[SQUARE][SQUARE + 1];
    __local REAL diagonal[SQUARE];
    const int item = (int)get_local_id(0), start = (int)get_group_id(0) * SQUARE;
    const int known = {{ nothing("alpha") }} ? 0 : order;

#pragma unroll 16
    for (int at = item; at < SQUARE * SQUARE; at += WGS) {
        const int i = at / SQUARE, j = at % SQUARE;
        const int row = start + FLIP(i, SQUARE), column = start + FLIP(j, SQUARE);
        REAL value = {{ "(REAL)(i == j, 0)" if COMPLEX else "i == j ? 1 : 0" }};
#if UNIT
        if (row < known && column < known && j < i)
#else
        if (row < known && column < known && j <= i)
#endif
            value = a[a_offset + row * lda + column];
        tile[i][j] = value;
    }
    barrier(CLK_LOCAL_MEM_FENCE);

    for (int j = item; j < SQUARE; j += WGS)
        diagonal[j] = {{ "quotient((REAL)(1, 0), tile[j][j])" if COMPLEX else "1 / tile[j][j]" }};
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int j = item; j < SQUARE; j += WGS) {
        for (int i = j + 1; i < j / IB * IB + IB; i++) {
            REAL sum = {{ times("tile[i][j]", "diagonal[j]") }};
            for (int l = j + 1; l < i; l++)
                sum += {{ times("tile[i][l]", "tile[j][l]") }};
            tile[j][i] = {{ times("-sum", "diagonal[i]") }};
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);

    for (int half_size = IB; half_size < SQUARE; half_size *= 2) {
        const int count = SQUARE / 2 * half_size / ROWS;  // groups of ROWS elements of all blocks between neighbours
        for (int at = item; at < count; at += WGS) {      // A P, at the place of -Q A P
            const int p = at / (half_size / ROWS) / half_size * 2 * half_size, j = p + at % half_size;
            const int i = p + half_size + at / half_size % (half_size / ROWS) * ROWS;
            REAL sum[ROWS];
#pragma unroll
            for (int row = 0; row < ROWS; row++)
                sum[row] = {{ times("tile[i + row][j]", "diagonal[j]") }};
            for (int l = j + 1; l < p + half_size; l++) {
                const REAL factor = tile[j][l];
#pragma unroll
                for (int row = 0; row < ROWS; row++)
                    sum[row] += {{ times("tile[i + row][l]", "factor") }};
            }
#pragma unroll
            for (int row = 0; row < ROWS; row++)
                tile[j][i + row] = sum[row];
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        REAL joined[TAKEN][ROWS];
#pragma unroll
        for (int s = 0; s < TAKEN; s++) {
            const int at = min(item + s * WGS, count - 1);
            const int p = at / (half_size / ROWS) / half_size * 2 * half_size, j = p + at % half_size;
            const int i = p + half_size + at / half_size % (half_size / ROWS) * ROWS;
#pragma unroll
            for (int row = 0; row < ROWS; row++)
                joined[s][row] = {{ times("-diagonal[i + row]", "tile[j][i + row]") }};
            for (int l = p + half_size; l < i; l++) {
                const REAL factor = tile[j][l];
#pragma unroll
                for (int row = 0; row < ROWS; row++)
                    joined[s][row] -= {{ times("tile[l][i + row]", "factor") }};
            }
#pragma unroll
            for (int row = 1; row < ROWS; row++)
#pragma unroll
                for (int l = 0; l < row; l++)
                    joined[s][row] -= {{ times("tile[i + l][i + row]", "tile[j][i + l]") }};
        }
        barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll
        for (int s = 0; s < TAKEN; s++) {
            const int at = item + s * WGS, p = at / (half_size / ROWS) / half_size * 2 * half_size;
#pragma unroll
            for (int row = 0; row < ROWS; row++)
                if (at < count)
                    tile[p + at % half_size][p + half_size + at / half_size % (half_size / ROWS) * ROWS + row] = joined[s][row];
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }

    const int within = start % NB, first_column = within / ZEROED * ZEROED;      // of its block of NB
    __global REAL* rows = inverses + (long)(start / NB) * NB * NB + (long)within * NB;
    for (int at = item; at < SQUARE * ZEROED; at += WGS) {
        const int row = at / ZEROED, column = first_column + at % ZEROED, here = column >= within && column < within + SQUARE;
        const int i = FLIP(row, SQUARE), j = here ? FLIP(column - within, SQUARE) : SQUARE;
        rows[row * NB + column] = j > i ? {{ zero }} : j == i ? diagonal[i] : tile[j][i];
    }
}

// A pair are the inverses P, Q of neighbouring blocks of half_size, HALF at most; the block of A between them becomes -Q A P. A group
// computes PANEL columns of it, a work-item some rows of one column, four neighbouring rows at a time:
//
//     tile[CHUNK][HALF]     CHUNK columns of A, then of Q, transposed, so that four rows are one load{{ "; real parts, and imaginary ones" if COMPLEX }}
//     factors[HALF][PANEL]  the columns of P, then those of A P
__kernel __attribute__((reqd_work_group_size(WGS, 1, 1))) void triangular_join(
    const int order, const int half_size, const REAL alpha, __global const REAL* restrict a, const long a_offset, const long lda,
    __global REAL* inverses{{ steps(["a", "inverses"]) }})
{
{{ step(["a", "inverses"]) -}}
    __local {{ part }} tile[{{ "2 * " if COMPLEX }}CHUNK * (HALF + ROWS)] __attribute__((aligned(32)));
    __local REAL factors[HALF][PANEL];
    const int item = (int)get_local_id(0), c = item % PANEL, first = item / PANEL * ROWS;
    const int start = (int)get_group_id(1) * 2 * half_size, panel = (int)get_group_id(0) * PANEL;
    const int top = UPPER ? 0 : half_size, left = half_size - top;
    const int rows = min(half_size, order - start - top), columns = min(half_size, order - start - left);
    const int work = {{ nothing("alpha") }} ? 0 : half_size;  // a return before a barrier would confuse PoCL 3.0

    __global REAL* block = inverses + (long)(start / NB) * NB * NB + (long)(start % NB) * (NB + 1);
    __global const REAL* p = block + left * (NB + 1) + panel;
    __global const REAL* q = block + top * (NB + 1);
    a += a_offset + (start + top) * lda + start + left;

    for (int at = item; at < work * PANEL; at += WGS)
        factors[at / PANEL][at % PANEL] = at / PANEL < columns ? p[at / PANEL * NB + at % PANEL] : {{ zero }};

    {{ four }} sums[TURNS]{{ ", imaginary[TURNS]" if COMPLEX }};
{% for second, from, pitch, high, wide in ((0, "a", "lda", "rows", "columns"), (1, "q", "NB", "half_size", "half_size")) %}
#pragma unroll
    for (int turn = 0; turn < TURNS; ++turn)
        {{ "sums[turn] = imaginary[turn] = (%s)(0);" % four if COMPLEX else "sums[turn] = (VECTOR(REAL))(0);" }}
    for (int l0 = 0; l0 < work; l0 += CHUNK) {
        barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll
        for (int at = item; at < HALF * CHUNK; at += WGS) {
            const int i = at / CHUNK, l = at % CHUNK;
{% if COMPLEX %}
            const REAL element = i < {{ high }} && l0 + l < {{ wide }} ? {{ from }}[i * {{ pitch }} + l0 + l] : (REAL)(0);
            tile[l * (HALF + ROWS) + i] = element.x;
            tile[(CHUNK + l) * (HALF + ROWS) + i] = element.y;
{% else %}
            tile[l * (HALF + ROWS) + i] = i < {{ high }} && l0 + l < {{ wide }} ? {{ from }}[i * {{ pitch }} + l0 + l] : 0;
{% endif %}
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int l = 0; l < min(CHUNK, half_size - l0); ++l) {
            const REAL factor = factors[l0 + l][c];
#pragma unroll
{% if COMPLEX %}
            for (int turn = 0; turn < TURNS; ++turn) {
                __local const {{ part }}* at = tile + l * (HALF + ROWS) + min(first + turn * STEP, HALF - ROWS);
                const {{ four }} re = *(__local const {{ four }}*)at, im = *(__local const {{ four }}*)(at + CHUNK * (HALF + ROWS));
                sums[turn] += factor.x * re - factor.y * im;
                imaginary[turn] += factor.x * im + factor.y * re;
            }
{% else %}
            for (int turn = 0; turn < TURNS; ++turn)
                sums[turn] += factor * *(__local const VECTOR(REAL)*)(tile + l * (HALF + ROWS) + min(first + turn * STEP, HALF - ROWS));
{% endif %}
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);  // all have read these factors
#pragma unroll
    for (int turn = 0; turn < TURNS; ++turn) {
        const int i = first + turn * STEP;
        if (i < work) {
{% for row in "xyzw" %}
{% if second %}
            block[(top + i + {{ loop.index0 }}) * NB + left + panel + c] = {{ "(REAL)(-sums[turn].%s, -imaginary[turn].%s)" % (row, row) if COMPLEX else "-sums[turn]." ~ row }};
{% else %}
            factors[i + {{ loop.index0 }}][c] = {{ "(REAL)(sums[turn].%s, imaginary[turn].%s)" % (row, row) if COMPLEX else "sums[turn]." ~ row }};
{% endif %}
{% endfor %}
        }
    }
{% endfor %}
}

// Copies the diagonal blocks to the places that the inverses would have: the triangle, with UNIT ones on the diagonal, zeros elsewhere.
__kernel __attribute__((reqd_work_group_size(WGS, 1, 1))) void triangular_blocks(
    const int order, const REAL alpha, __global const REAL* restrict a, const long a_offset, const long lda,
    __global REAL* restrict blocks)
{
    const int j = (int)get_global_id(0), known = {{ nothing("alpha") }} ? 0 : order;
    if (j >= NB)
        return;
    for (int row = (int)get_group_id(1); row < order; row += (int)get_num_groups(1)) {
        const int column = row / NB * NB + j, diagonal = row == column;
        REAL value = {{ "(REAL)(UNIT && diagonal, 0)" if COMPLEX else "UNIT && diagonal ? 1 : 0" }};
        if (row < known && column < known && ((UPPER ? column > row : column < row) || (!UNIT && diagonal)))
            value = a[a_offset + row * lda + column];
        blocks[(long)row * NB + j] = value;
    }
}

// C = 0 for alpha = 0, whatever the preceding launches computed from operands that must then have no effect.
__kernel __attribute__((reqd_work_group_size(WGS, 1, 1))) void triangular_zero(
    const int m, const int n, const REAL alpha, __global REAL* restrict c, const long c_offset, const long ldc{{ steps(["c"]) }})
{
{{ step(["c"]) -}}
    const int column = (int)get_global_id(0);
    if ({{ "!" ~ nothing("alpha") if COMPLEX else "alpha != 0" }} || column >= n)
        return;
    for (int row = (int)get_group_id(1); row < m; row += (int)get_num_groups(1))
        c[c_offset + row * ldc + column] = {{ zero }};
}
