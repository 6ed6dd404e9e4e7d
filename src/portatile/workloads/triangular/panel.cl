{#
   A work-item, which is a group of its own, has WGS columns of Y in local memory, as SIDES vectors of VL to a row:

       y[NB][SIDES]
      +------+------+------+------+
      | k    | k    | k    | k    |   known rows above `top`
      +------+------+------+------+
      | x  x | x  x |      |      |   x[IB][TOGETHER] in registers: IB rows of TOGETHER vectors, for one part of the columns after another
      | x  x | x  x |      |      |
      +------+------+------+------+
        TOGETHER vectors
#}
// As substitute.cl, for processors: a work-item solves for WGS columns of Y, brought to local memory, IB rows of as many vectors at a
// time as registers hold.
#ifdef DOUBLE
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif

#define SIDES (WGS / VL)  // vectors of a row
{# vectors hold real parts or imaginary ones: where complex elements lie in local memory, and those of a vector of A's type, 2 VL reals #}
{% set parts = 2 if COMPLEX else 1 %}
{% from "scalars.cl" import functions, mirrored, nothing, times with context %}
{% if COMPLEX %}
typedef WIDE loose __attribute__((aligned(ALIGNMENT)));
#define SPOT(i, j) (((i) * SIDES + (j) / VL) * 2 * VL + (j) % VL)
{{ functions() }}
{% else %}
typedef VECTOR loose __attribute__((aligned(ALIGNMENT)));
{% endif %}

{# what factor times a vector takes off row i #}
{% macro taken(i, known_re, known_im) %}
                    re[{{ i }}] -= factor.x * {{ known_re }};
                    im[{{ i }}] -= factor.x * {{ known_im }};
                    re[{{ i }}] += factor.y * {{ known_im }};
                    im[{{ i }}] -= factor.y * {{ known_re }};
{% endmacro %}
__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void triangular_panel(
    const int order, const int count, const int scaled, const REAL alpha,
    __global const REAL* restrict a, const long a_offset, const long a_row, const long a_column,
    __global REAL* restrict b, const long b_offset, const long b_row, const long b_column{{ ", const long a_batch, const long b_batch" if BATCH }})
{
    __local VECTOR y[{{ "2 * " if COMPLEX }}NB * SIDES];
    __local {{ "PART" if COMPLEX else "REAL" }}* const single = (__local {{ "PART" if COMPLEX else "REAL" }}*)y;
    const int j0 = (int)get_global_id(0) * WGS, width = min(WGS, count - j0);
{% if BATCH %}
    a += (long)get_global_id(2) * a_batch;
    b += (long)get_global_id(2) * b_batch;
{% endif %}
    b += b_offset + j0 * b_column;
    if ({{ nothing("alpha") }}) {
        for (int i = 0; i < order; i++)
            for (int j = 0; j < width; j++)
                b[i * b_row + j * b_column] = {{ "(REAL)(0)" if COMPLEX else "0" }};
        return;
    }
    a += a_offset;
    const REAL scale = scaled ? alpha : {{ "(REAL)(1, 0)" if COMPLEX else "(REAL)1" }};
    const int whole = b_column == 1 && width == WGS;
{% if COMPLEX %}
    if (whole) {
        for (int i = 0; i < order; i++)
            for (int v = 0; v < SIDES; v++) {
                const WIDE wide = *(__global const loose*)(b + i * b_row + v * VL);
                y[(i * SIDES + v) * 2] = scale.x * wide.even - scale.y * wide.odd;
                y[(i * SIDES + v) * 2 + 1] = scale.x * wide.odd + scale.y * wide.even;
            }
    } else {
        for (int i = 0; i < order * SIDES * 2; i++)
            y[i] = 0;
        for (int j = 0; j < width; j++)
            for (int i = 0; i < order; i++) {
                const REAL value = {{ times("scale", "b[i * b_row + j * b_column]") }};
                single[SPOT(i, j)] = value.x;
                single[SPOT(i, j) + VL] = value.y;
            }
    }
{% else %}
    if (whole) {
        for (int i = 0; i < order; i++)
            for (int v = 0; v < SIDES; v++)
                y[i * SIDES + v] = scale * *(__global const loose*)(b + i * b_row + v * VL);
    } else {
        for (int j = 0; j < width; j++)
            for (int i = 0; i < order; i++)
                single[i * WGS + j] = scale * b[i * b_row + j * b_column];
        for (int i = 0; i < order; i++)
            for (int j = width; j < WGS; j++)
                single[i * WGS + j] = 0;
    }
{% endif %}
    for (int i = order * SIDES{{ " * 2" if COMPLEX }}; i < (order + IB - 1) / IB * IB * SIDES{{ " * 2" if COMPLEX }}; i++)
        y[i] = 0;

    for (int top = 0; top < order; top += IB) {
        const int last = min(IB, order - top) - 1;
        __global const REAL* row[IB];
        REAL inverse[IB];
#pragma unroll
        for (int i = 0; i < IB; i++) {
            row[i] = a + (top + min(i, last)) * a_row;
{% if COMPLEX %}
            inverse[i] = UNIT ? (REAL)(1, 0) : quotient((REAL)(1, 0), {{ mirrored("row[i][(top + min(i, last)) * a_column]") }});
{% else %}
            inverse[i] = UNIT ? 1 : 1 / row[i][(top + min(i, last)) * a_column];
{% endif %}
        }
{% if COMPLEX %}
        for (int v = 0; v < SIDES; v++) {
            __local VECTOR* const here = y + (top * SIDES + v) * 2;
            VECTOR re[IB], im[IB];
#pragma unroll
            for (int i = 0; i < IB; i++) {
                re[i] = here[i * SIDES * 2];
                im[i] = here[i * SIDES * 2 + 1];
            }
            for (int l = 0; l < top; l++) {
                const VECTOR known_re = y[(l * SIDES + v) * 2], known_im = y[(l * SIDES + v) * 2 + 1];
#pragma unroll
                for (int i = 0; i < IB; i++) {
                    const REAL factor = {{ mirrored("row[i][l * a_column]") }};
{{ taken("i", "known_re", "known_im") }}                }
            }
#pragma unroll
            for (int i = 0; i < IB; i++) {
                if (i <= last) {
#pragma unroll
                    for (int l = 0; l < i; l++) {
                        const REAL factor = {{ mirrored("row[i][(top + l) * a_column]") }};
{{ taken("i", "re[l]", "im[l]") }}                    }
#if !UNIT
                    const VECTOR real = re[i];
                    re[i] = inverse[i].x * real - inverse[i].y * im[i];
                    im[i] = inverse[i].x * im[i] + inverse[i].y * real;
#endif
                    here[i * SIDES * 2] = re[i];
                    here[i * SIDES * 2 + 1] = im[i];
                }
            }
        }
    }

    if (whole) {
        for (int i = 0; i < order; i++)
            for (int v = 0; v < SIDES; v++) {
                WIDE wide;
                wide.even = y[(i * SIDES + v) * 2];
                wide.odd = y[(i * SIDES + v) * 2 + 1];
                *(__global loose*)(b + i * b_row + v * VL) = wide;
            }
    } else {
        for (int j = 0; j < width; j++)
            for (int i = 0; i < order; i++)
                b[i * b_row + j * b_column] = (REAL)(single[SPOT(i, j)], single[SPOT(i, j) + VL]);
    }
{% else %}
        for (int v = 0; v < SIDES; v += TOGETHER) {
            __local VECTOR* const here = y + top * SIDES + v;
            VECTOR x[IB][TOGETHER];
#pragma unroll
            for (int i = 0; i < IB; i++)
#pragma unroll
                for (int t = 0; t < TOGETHER; t++)
                    x[i][t] = here[i * SIDES + t];
            for (int l = 0; l < top; l++) {
                VECTOR known[TOGETHER];
#pragma unroll
                for (int t = 0; t < TOGETHER; t++)
                    known[t] = y[l * SIDES + v + t];
#pragma unroll
                for (int i = 0; i < IB; i++) {
                    const REAL factor = row[i][l * a_column];
#pragma unroll
                    for (int t = 0; t < TOGETHER; t++)
                        x[i][t] -= factor * known[t];
                }
            }
#pragma unroll
            for (int i = 0; i < IB; i++) {
                if (i <= last) {
#pragma unroll
                    for (int l = 0; l < i; l++) {
                        const REAL factor = row[i][(top + l) * a_column];
#pragma unroll
                        for (int t = 0; t < TOGETHER; t++)
                            x[i][t] -= factor * x[l][t];
                    }
#pragma unroll
                    for (int t = 0; t < TOGETHER; t++) {
#if !UNIT
                        x[i][t] *= inverse[i];
#endif
                        here[i * SIDES + t] = x[i][t];
                    }
                }
            }
        }
    }

    if (whole) {
        for (int i = 0; i < order; i++)
            for (int v = 0; v < SIDES; v++)
                *(__global loose*)(b + i * b_row + v * VL) = y[i * SIDES + v];
    } else {
        for (int j = 0; j < width; j++)
            for (int i = 0; i < order; i++)
                b[i * b_row + j * b_column] = single[i * WGS + j];
    }
{% endif %}
}
