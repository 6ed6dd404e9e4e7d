{#
   An item's tile: T1 rows x T2 columns of a plane, with the halo that the filters read; the item moves from plane to plane.

       tile: (T1 + ENDS) x WIDTH                    ring: ENDS + 1 planes of T1 x T2, with filters along the first axis too
       +----+------------+----+
       |    |  T2 only   |    |  AHEAD rows          +-----+-----+-----+-----+
       +----+------------+----+                      |plane|plane| ... |plane|   the newest replaces the oldest
       | all WIDTH = T2 + ENDS|  T1 rows             +-----+-----+-----+-----+
       +----+------------+----+
       |    |  T2 only   |    |                      registers: WINDOW sums, vectors of VECTOR columns, of one row at a time
       +----+------------+----+
#}
// The sum of filters along every axis of a volume, or of planes, in one launch, for devices with caches in place of shared local memory.
// A group is one item. It moves from plane to plane with a tile of T1 rows and T2 columns. The tile is copied with its halo, so that the
// values that are read repeatedly are contiguous whatever the volume's strides; of the neighbouring planes it keeps the tile without halo,
// in a ring buffer. The copies resolve all boundary conditions. The item computes WINDOW vectors of VECTOR columns at a time, tap by tap.
// REAL is the element type, VEC a vector of VECTOR elements; INDEX can hold every index of the operands. A window has ENDS inputs more than
// outputs, AHEAD of them before the first output, and the taps begin at its input LEAD.
#ifdef DOUBLE
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif

#define BLOCK (WINDOW * VECTOR)
#define WIDTH (T2 + ENDS)
#define SLOTS (ENDS + 1)

#ifdef PORTATILE_CUDA
#define AT(place, p) vload{{ vector }}(0, p)
#define PUT(place, p, x) vstore{{ vector }}(x, 0, p)
#else  // some compilers make function calls of vload and vstore
typedef VEC loose __attribute__((aligned(sizeof(REAL))));
#define AT(place, p) (*(place const loose*)(p))
#define PUT(place, p, x) (*(place loose*)(p) = (x))
#endif

{% from "axis.cl" import place_in %}
// The index in psi of a position of an axis, or -1 where psi is zero.
{% for name in ("plane_of", "row_of", "column_of") %}
{{ place_in(name, periodic[loop.index0], false) }}
{% endfor %}

// Copies elements `skip` to `skip + count` of a row of WIDTH. `at` has the column of each; those from `in` to `in_end` are contiguous in
// memory. If `row` is false, all are zero.
void copy_row(
    REAL* to, __global const REAL* from, const bool row, const int* at, const int in, const int in_end, const int skip, const int count)
{
    const int end = skip + count, near = min(in, end), far = max(in_end, skip);
    __global const REAL* within = from + at[in];
    if (!row)
        for (int s = skip; s < end; s++)
            to[s - skip] = (REAL)0;
    else {
        for (int s = skip; s < near; s++)
            to[s - skip] = at[s] < 0 ? (REAL)0 : from[max(at[s], 0)];
        int s = max(in, skip);
        for (; s + VECTOR <= min(in_end, end); s += VECTOR)
            PUT(__private, to + s - skip, AT(__global, within + s - in));
        for (; s < min(in_end, end); s++)
            to[s - skip] = within[s - in];
        for (int s = far; s < end; s++)
            to[s - skip] = at[s] < 0 ? (REAL)0 : from[max(at[s], 0)];
    }
}

{# Adds the products of the filter's taps with the values at `cells`. #}
{% macro add(weights, cells) %}
                for (int t = 0; t < TAPS; t++) {
                    const VEC weight = (VEC)({{ weights }}[t]);
                    const REAL* cells = {{ cells }};
{% for w in range(window) %}
                    sum{{ w }} += weight * AT(__private, cells + {{ w }} * VECTOR);
{% endfor %}
                }
{% endmacro %}

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void stencil(
    const int planes, const int rows, const int columns,
    __global const REAL* restrict psi, const INDEX psi_offset, const INDEX psi_ld, const INDEX psi_line,
    __global const REAL* restrict filter, const INDEX filter_offset, const INDEX filter_ld,
    __global REAL* restrict out, const INDEX out_offset, const INDEX out_ld, const INDEX out_line)
{
    const int left = (int)get_group_id(1) * T1, begin = (int)get_group_id(0) * T2;
    const int top = (int)get_group_id(2) * DEPTH, bottom = min(top + DEPTH, planes);
    __global const REAL* weights = filter + filter_offset;

    int at[WIDTH];
    for (int s = 0; s < WIDTH; s++)
        at[s] = column_of(begin - AHEAD + s, columns);
    const int in = max(AHEAD - begin, 0), in_end = min(columns - begin + AHEAD, WIDTH);

    REAL tile[(T1 + ENDS) * WIDTH];
{% if depth %}
    REAL ring[SLOTS * T1 * T2];
    for (int s = 0; s < SLOTS - 1; s++) {
        const int there = plane_of(top - AHEAD + s, planes);
        for (int r = 0; r < T1; r++) {
            const int row = row_of(left + r, rows);
            const bool found = there >= 0 && row >= 0;
            copy_row(ring + (s * T1 + r) * T2, psi + psi_offset + max(there, 0) * psi_ld + max(row, 0) * psi_line, found, at, in, in_end, AHEAD, T2);
        }
    }
    int oldest = 0;
{% endif %}

    for (int plane = top; plane < bottom; plane++) {
        __global const REAL* here = psi + psi_offset + plane * psi_ld;
        for (int r = 0; r < T1 + ENDS; r++) {
            const int row = row_of(left - AHEAD + r, rows);
            const bool whole = r >= AHEAD && r < AHEAD + T1;    // only these rows are filtered along themselves
            const int skip = whole ? 0 : AHEAD, count = whole ? WIDTH : T2;
            copy_row(tile + r * WIDTH + skip, here + max(row, 0) * psi_line, row >= 0, at, in, in_end, skip, count);
        }
{% if depth %}
        const int newest = oldest == 0 ? SLOTS - 1 : oldest - 1, there = plane_of(plane - AHEAD + ENDS, planes);
        for (int r = 0; r < T1; r++) {
            const int row = row_of(left + r, rows);
            const bool found = there >= 0 && row >= 0;
            copy_row(ring + (newest * T1 + r) * T2, psi + psi_offset + max(there, 0) * psi_ld + max(row, 0) * psi_line, found, at, in, in_end, AHEAD, T2);
        }
{% endif %}

        for (int r = 0; r < min(T1, rows - left); r++) {
            for (int c = 0; c < min(T2, columns - begin); c += BLOCK) {
{% for w in range(window) %}
                VEC sum{{ w }} = (VEC)((REAL)0);
{% endfor %}
{% if depth %}
{{ add("weights", "ring + ((oldest + LEAD + t) % SLOTS * T1 + r) * T2 + c") }}
{% endif %}
{{ add("(weights + FIRST_FILTER * filter_ld)", "tile + (r + LEAD + t) * WIDTH + AHEAD + c") }}
{{ add("(weights + (FIRST_FILTER + 1) * filter_ld)", "tile + (r + AHEAD) * WIDTH + LEAD + t + c") }}
                __global REAL* to = out + out_offset + plane * out_ld + (left + r) * out_line + begin + c;
                if (begin + c + BLOCK <= columns) {
{% for w in range(window) %}
                    PUT(__global, to + {{ w }} * VECTOR, sum{{ w }});
{% endfor %}
                } else {
                    REAL block[BLOCK];
{% for w in range(window) %}
                    PUT(__private, block + {{ w }} * VECTOR, sum{{ w }});
{% endfor %}
                    for (int e = 0; e < columns - begin - c; e++)
                        to[e] = block[e];
                }
            }
        }
{% if depth %}
        oldest = oldest + 1 == SLOTS ? 0 : oldest + 1;
{% endif %}
    }
}
