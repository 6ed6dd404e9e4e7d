{#
   A group has SIDES columns of Y. A work-item has IB rows of one column in registers; L lies in local memory, in blocks of IB x IB:

        L: order x order              Y: order x count
       +---------------+             +---+---+---+---+
       | \  |    |     |             | x | x | x | x |  part 0 is solved first and written to `known`:
       +----+----+-----+             +---+---+---+---+
       | l  | \  |     |             |   |   |   |   |  part 1 subtracts l x, and is solved next;
       +----+----+-----+             +---+---+---+---+
       | l  | l  |  \  |             |   |   |   |   |  part 2 subtracts the products with part 0, then with part 1
       +----+----+-----+             +---+---+---+---+
#}
// L Y = B by substitution, Y {{ "beside" if APART else "over" }} B, for a lower triangular L of order NB at most and `count` columns of Y.
// The element (i, l) of L is a[a_offset + i a_row + l a_column], (i, j) of {{ "Y" if APART else "B" }} is b[b_offset + i b_row + j
// b_column]{{ ", that of B right[right_offset + i right_row + j right_column]" if APART }}: with the right strides, negative ones among
// them, this is every case of side, triangle and transposition. In a stack, the third dimension of the launch is the system's number.
{% from "scalars.cl" import functions, mirrored, nothing, one, step, steps, times with context %}
#ifdef DOUBLE
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif
{{ functions() }}
{% set names = ["a", "b", "right"] if APART else ["a", "b"] %}
{% set apart %}{% if APART %},
    __global const REAL* restrict right, const long right_offset, const long right_row, const long right_column{% endif %}{% endset %}
{% set zero = "(REAL)(0)" if COMPLEX else "0" %}
{% set per = 2 if COMPLEX else 4 %}{# elements in FOUR reals #}


#define PARTS (NB / IB)       // parts of a column, one for each work-item
#define SIDES (WGS / PARTS)   // columns of a group
#define BLOCK(i, l) (((i) * ((i) + 1) / 2 + (l)) * PITCH)  // where a block begins in local memory
#define ELEMENTS (PARTS * (PARTS + 1) / 2 * IB * IB)       // of the triangle in whole blocks
#define TURN 12  // elements that a work-item loads at a time
{# subtracts `factor` times column l of a block from {{ per }} elements of x, from element i: from those after l only, or from all #}
{% macro taken(factor, behind) %}
{
                const FOUR column = *(__local const FOUR*)(from + l * IB + i);
{% for e in range(per) %}
                {{ "if (i + %d > l) " % e if behind }}{
{% if COMPLEX %}
{% set re, im = "xz"[e], "yw"[e] %}
                    x[i + {{ e }}].x -= {{ factor }}.x * column.{{ re }} - {{ factor }}.y * column.{{ im }};
                    x[i + {{ e }}].y -= {{ factor }}.x * column.{{ im }} + {{ factor }}.y * column.{{ re }};
{% else %}
                    x[i + {{ e }}] -= {{ factor }} * column.{{ "xyzw"[e] }};
{% endif %}
                }
{% endfor %}
            }
{%- endmacro %}

// B is first scaled by alpha if `scaled` is not 0. With alpha = 0 the solution is 0, whatever A and B hold.
__kernel __attribute__((reqd_work_group_size(WGS, 1, 1))) void triangular_substitute(
    const int order, const int count, const int scaled, const REAL alpha,
    __global const REAL* restrict a, const long a_offset, const long a_row, const long a_column,
    __global REAL* restrict b, const long b_offset, const long b_row, const long b_column{{ apart }}{{ steps(names) }}{{ ", __local REAL* blocks" if ARGUMENT }})
{
{{ step(names) }}{% if not ARGUMENT %}
    __local REAL blocks[PARTS * (PARTS + 1) / 2 * PITCH] __attribute__((aligned(32)));
{% endif %}
    __local REAL known[2][IB][SIDES], inverse[NB];  // of the diagonal
    const int item = (int)get_local_id(0), part = item / SIDES, c = item % SIDES;
    const int j = (int)get_group_id(0) * SIDES + c;
    const int there = {{ nothing("alpha") }} ? 0 : order;  // rows that are read
    a += a_offset;

    __global REAL* y = b + b_offset + min(j, count - 1) * b_column;
{% if APART %}
    right += right_offset + min(j, count - 1) * right_column;
{% endif %}
    const REAL scale = scaled ? alpha : {{ one() }};
    REAL x[IB];
#pragma unroll
    for (int i = 0; i < IB; i++) {
        const int row = part * IB + i;
        const REAL value = {{ times("scale", "right[min(row, order - 1) * right_row]" if APART else "y[min(row, order - 1) * b_row]") }};
        x[i] = row < there ? value : {{ zero }};
    }
#if !UNIT
    for (int i = item; i < NB; i += WGS)
        inverse[i] = i < there ? {{ "quotient((REAL)(1, 0), %s)" % mirrored("a[i * (a_row + a_column)]") if COMPLEX else "1 / a[i * (a_row + a_column)]" }} : {{ one() }};
#endif

    // Rows of blocks p and PARTS - 1 - p have PARTS + 1 blocks together. Loads of a turn do not wait for each other, and have no branches.
    for (int first = item; first < ELEMENTS; first += TURN * WGS) {
        REAL loaded[TURN];
        int spot[TURN];
#pragma unroll
        for (int turn = 0; turn < TURN; turn++) {
            const int at = min(first + turn * WGS, ELEMENTS - 1);
            const int pair = at / (IB * IB) / (PARTS + 1), block = at / (IB * IB) % (PARTS + 1), longer = block < PARTS - pair;
            const int p = longer ? PARTS - 1 - pair : pair, q = longer ? block : block - (PARTS - pair);
            const int r = ACROSS ? at / IB % IB : at % IB, s = ACROSS ? at % IB : at / IB % IB;
            const int i = p * IB + r, l = q * IB + s, wanted = i < there && l < i;
            const REAL value = {{ mirrored("a[wanted ? i * a_row + l * a_column : 0]") }};
            loaded[turn] = wanted ? value : {{ zero }};
            spot[turn] = BLOCK(p, q) + s * IB + r;
        }
#pragma unroll
        for (int turn = 0; turn < TURN; turn++)
            blocks[spot[turn]] = loaded[turn];
    }
    barrier(CLK_LOCAL_MEM_FENCE);

    for (int solved = 0; solved * IB < order; solved++) {
        if (part == solved) {
            __local const REAL* from = blocks + BLOCK(solved, solved);
#pragma unroll
            for (int l = 0; l < IB; l++) {
#if !UNIT
                x[l] = {{ times("x[l]", "inverse[solved * IB + l]") }};
#endif
#pragma unroll
                for (int i = l / {{ per }} * {{ per }}; i < IB; i += {{ per }}) {{ taken("x[l]", true) }}
                known[solved % 2][l][c] = x[l];
            }
        }
        barrier(CLK_LOCAL_MEM_FENCE);  // the other half of `known` is written before the next one
        if (part > solved) {
            __local const REAL* from = blocks + BLOCK(part, solved);
#pragma unroll
            for (int l = 0; l < IB; l++) {
                const REAL factor = known[solved % 2][l][c];
#pragma unroll
                for (int i = 0; i < IB; i += {{ per }}) {{ taken("factor", false) }}
            }
        }
    }
#pragma unroll
    for (int i = 0; i < IB; i++)
        if (part * IB + i < order && j < count)
            y[(part * IB + i) * b_row] = x[i];
}
