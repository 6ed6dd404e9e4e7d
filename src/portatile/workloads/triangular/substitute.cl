{#
   A work-item has one column of Y; IB elements of it at a time are in registers:

        L: order x order              Y: order x count
       +---------------+             +---+---+---+---+
       |\              |             | k | k | k | k |  known: rows above `top`, read again for every block of IB
       |  \            |             | k | k | k | k |
       |- - +\ - - - - |  top        +---+---+---+---+
       | l  | x \      |  IB rows    | x | x | x | x |  x[IB] = scale B - L[.., above] k, then solved with the triangle x of L
       |- - +- - +\ - -|             +---+---+---+---+
       |            \  |             |   |   |   |   |
       +---------------+             +---+---+---+---+
#}
// L Y = B by substitution, Y {{ "beside" if APART else "over" }} B, for a lower triangular L of some order and `count` columns of Y, one for each
// work-item. The element (i, l) of L is a[a_offset + i a_row + l a_column], (i, j) of {{ "Y" if APART else "B" }} is b[b_offset + i b_row + j b_column]{{ ", that of B
// right[right_offset + i right_row + j right_column]" if APART }}: with the right strides, negative ones among them, this is every case of side, triangle and transposition.
// Of a stack, the third dimension of the launch is the system's number.
{% from "scalars.cl" import functions, mirrored, nothing, one, step, steps, times with context %}
#ifdef DOUBLE
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif
{{ functions() }}
{% set names = ["a", "b", "right"] if APART else ["a", "b"] %}
{% set apart %}{% if APART %},
    __global const REAL* restrict right, const long right_offset, const long right_row, const long right_column{% endif %}{% endset %}

#define TOGETHER (IB < 8 ? IB : 8)

// IB elements of Y at a time are in registers. B is first scaled by alpha if `scaled` is not 0. With alpha = 0 the
// solution is 0, whatever A and B hold.
__kernel __attribute__((reqd_work_group_size(WGS, 1, 1))) void triangular_substitute(
    const int order, const int count, const int scaled, const REAL alpha,
    __global const REAL* restrict a, const long a_offset, const long a_row, const long a_column,
    __global REAL* restrict b, const long b_offset, const long b_row, const long b_column{{ apart }}{{ steps(names) }})
{
    const int j = (int)get_global_id(0);
    if (j >= count)
        return;
{{ step(names) }}    __global REAL* y = b + b_offset + j * b_column;
    if ({{ nothing("alpha") }}) {
        for (int i = 0; i < order; i++)
            y[i * b_row] = 0;
        return;
    }
    a += a_offset;
{% if APART %}
    right += right_offset + j * right_column;
{% endif %}
    const REAL scale = scaled ? alpha : {{ one() }};
    for (int top = 0; top < order; top += IB) {
        const int last = min(IB, order - top) - 1;
        REAL x[IB];
#pragma unroll
        for (int i = 0; i < IB; i++)
            x[i] = {{ times("scale", "right[(top + min(i, last)) * right_row]" if APART else "y[(top + min(i, last)) * b_row]") }};
        for (int l = 0; l < top; l += TOGETHER) {  // whose loads do not wait for each other
            REAL known[TOGETHER];
#pragma unroll
            for (int m = 0; m < TOGETHER; m++)
                known[m] = y[(l + m) * b_row];
#pragma unroll
            for (int m = 0; m < TOGETHER; m++)
#pragma unroll
                for (int i = 0; i < IB; i++)
                    x[i] -= {{ times(mirrored("a[(top + min(i, last)) * a_row + (l + m) * a_column]"), "known[m]") }};
        }
#pragma unroll
        for (int i = 0; i < IB; i++) {
            if (i <= last) {
                __global const REAL* row = a + (top + i) * a_row + top * a_column;
#pragma unroll
                for (int l = 0; l < i; l++)
                    x[i] -= {{ times(mirrored("row[l * a_column]"), "x[l]") }};
#if !UNIT
                {{ "x[i] = quotient(x[i], %s)" % mirrored("row[i * a_column]") if COMPLEX else "x[i] /= row[i * a_column]" }};
#endif
                y[(top + i) * b_row] = x[i];
            }
        }
    }
}
