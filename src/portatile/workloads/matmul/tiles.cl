{#
   The tile of C of a work-group, BLOCK x BLOCK, by COLUMNS x ROWS work-items; item (x, y) has the elements marked #:

                                 tile_b: DEPTH x BLOCK of B
                                +-------------------+
                                |                   |
                                +-------------------+
     tile_a:  BLOCK x DEPTH      x VECTOR
     of A                       +-------------------+
     +-------+                  |  ####             |  y          WPT rows, ROWS apart, of VECTOR neighbouring columns:
     |       |                  |                   |             sum[WPT], vectors in registers throughout the loop over k
     |       |                  |  ####             |  y + ROWS
     |       |                  |                   |
     +-------+                  +-------------------+
#}
// C = A B, row-major, through tiles in local memory: a work-group computes BLOCK x BLOCK of C, a work-item WPT rows,
// ROWS apart, of VECTOR neighbouring columns. With TRANSPOSE, A has been transposed beforehand.
// REAL is the element type, INDEX an integer type that can hold every index of the operands.
#ifdef DOUBLE
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif

#define COLUMNS (BLOCK / VECTOR)    // work-items of a group along a row of C
#define ROWS (BLOCK / WPT)          // and along a column
{% if shuffle %}
#define SHARED {{ shuffle }}
{% endif %}

{% set wide = real ~ (vector if vector > 1 else "") %}
{% macro at(x, place) %}{{ "LDG(%s + %s)" % (x, place) if ldg else "%s[%s]" % (x, place) }}{% endmacro %}
{% macro component(name, i) %}{{ name if vector == 1 else name ~ ".s" ~ i }}{% endmacro %}

{% if transpose %}
// The m x k matrix A as a k x m matrix of leading dimension m, in square tiles.
__kernel __attribute__((reqd_work_group_size(16, 16, 1))) void matmul_transpose(
    const int m, const int k, __global const REAL*{{ restrict }} a, const INDEX a_offset, const INDEX lda, __global REAL*{{ restrict }} transposed)
{
    __local REAL tile[16][17];
    const int x = (int)get_local_id(0), y = (int)get_local_id(1);
    const int p = (int)get_group_id(0) * 16;
    for (int row = (int)get_group_id(1) * 16; row < m; row += (int)get_num_groups(1) * 16) {
        if (row + y < m && p + x < k)
            tile[y][x] = {{ at("a", "a_offset + (row + y) * lda + p + x") }};
        barrier(CLK_LOCAL_MEM_FENCE);
        if (p + y < k && row + x < m)
            transposed[(p + y) * (INDEX)m + row + x] = tile[x][y];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
}
{% endif %}

// VECTOR elements of a row, from (row, column), of a rows x columns matrix; zeros beyond its end.
{{ wide }} fetch(__global const REAL* x, const INDEX ld, const int row, const int column, const int rows, const int columns)
{
#define AT(i) (row < rows && column + i < columns ? {{ at("x", "row * ld + column + i") }} : (REAL)0)
{% if vector == 1 %}
    return AT(0);
{% else %}
{% if ldg %}
#if ALIGNED
    if (row < rows && column + VECTOR <= columns)
        return LDG((__global const {{ wide }}*)(x + row * ld + column));
#endif
{% else %}
    if (row < rows && column + VECTOR <= columns)
#if ALIGNED
        return *(__global const {{ wide }}*)(x + row * ld + column);
#else
        return vload{{ vector }}(0, x + row * ld + column);
#endif
{% endif %}
    return ({{ wide }})({% for i in range(vector) %}AT({{ i }}){{ ", " if not loop.last }}{% endfor %});
{% endif %}
#undef AT
}

__kernel __attribute__((reqd_work_group_size(COLUMNS, ROWS, 1))) void matmul_local(
    const int m, const int n, const int k,
    __global const REAL*{{ restrict }} a, const INDEX a_offset, const INDEX lda,
    __global const REAL*{{ restrict }} b, const INDEX b_offset, const INDEX ldb,
    __global REAL*{{ restrict }} c, const INDEX c_offset, const INDEX ldc)
{
    __local REAL tile_a[BLOCK][DEPTH + PADDING];
    __local {{ wide }} tile_b[DEPTH][COLUMNS];
    const int x = (int)get_local_id(0), y = (int)get_local_id(1), item = y * COLUMNS + x;
    const int left = (int)get_group_id(0) * BLOCK, column = left + x * VECTOR;

    for (int top = (int)get_group_id(1) * BLOCK; top < m; top += (int)get_num_groups(1) * BLOCK) {
{% if shuffle %}
        // a row of work-items needs the same elements of A: each of SHARED neighbouring lanes reads one, and all exchange them by shuffles
        const int first = item % 32 / SHARED * SHARED;
{% endif %}
        {{ wide }} sum[WPT];
#pragma unroll
        for (int w = 0; w < WPT; w++)
            sum[w] = ({{ wide }})(0);

        for (int p = 0; p < k; p += DEPTH) {
            for (int chunk = item; chunk < BLOCK * DEPTH / VECTOR; chunk += COLUMNS * ROWS) {
{% if transpose %}
                const int q = chunk / COLUMNS, r = chunk % COLUMNS * VECTOR;
                const {{ wide }} part = fetch(a + a_offset, lda, p + q, top + r, k, m);
{% for i in range(vector) %}
                tile_a[r + {{ i }}][q] = {{ component("part", i) }};
{% endfor %}
{% else %}
                const int r = chunk / (DEPTH / VECTOR), q = chunk % (DEPTH / VECTOR) * VECTOR;
                const {{ wide }} part = fetch(a + a_offset, lda, top + r, p + q, m, k);
{% for i in range(vector) %}
                tile_a[r][q + {{ i }}] = {{ component("part", i) }};
{% endfor %}
{% endif %}
            }
            for (int chunk = item; chunk < DEPTH * COLUMNS; chunk += COLUMNS * ROWS)
                tile_b[chunk / COLUMNS][chunk % COLUMNS] =
                    fetch(b + b_offset, ldb, p + chunk / COLUMNS, left + chunk % COLUMNS * VECTOR, k, n);
            barrier(CLK_LOCAL_MEM_FENCE);

{% if shuffle %}
            for (int from = 0; from < DEPTH; from += SHARED) {
                REAL held[WPT];
#pragma unroll
                for (int w = 0; w < WPT; w++)
                    held[w] = tile_a[y + w * ROWS][from + item % SHARED];
#pragma unroll{{ unroll }}
                for (int q = 0; q < SHARED; q++) {
                    const {{ wide }} right = tile_b[from + q][x];
#pragma unroll
                    for (int w = 0; w < WPT; w++)
                        sum[w] += SHUFFLE(held[w], first + q) * right;
                }
            }
{% else %}
#pragma unroll{{ unroll }}
            for (int q = 0; q < DEPTH; q++) {
                const {{ wide }} right = tile_b[q][x];
#pragma unroll
                for (int w = 0; w < WPT; w++)
                    sum[w] += tile_a[y + w * ROWS][q] * right;
            }
{% endif %}
            barrier(CLK_LOCAL_MEM_FENCE);
        }

#pragma unroll
        for (int w = 0; w < WPT; w++) {
            const int row = top + y + w * ROWS;
            __global REAL* place = c + c_offset + row * ldc + column;
            if (row < m && column + VECTOR <= n) {
{% if vector == 1 %}
                *place = sum[w];
{% else %}
#if ALIGNED
                *(__global {{ wide }}*)place = sum[w];
#else
                vstore{{ vector }}(sum[w], 0, place);
#endif
            } else if (row < m) {
{% for i in range(vector - 1) %}
                if (column + {{ i }} < n)
                    place[{{ i }}] = sum[w].s{{ i }};
{% endfor %}
{% endif %}
            }
        }
    }
}
