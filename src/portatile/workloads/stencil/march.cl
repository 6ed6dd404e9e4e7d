{#
   A work-group computes T1 rows x T2 columns of a plane, from top to bottom, WINDOW rows in each step; item c has column c.

     registers of an item, one column:             local memory `steps`, WINDOW lines of SPAN = T2 + ENDS places (second filter only)

       v0      \                                     AHEAD      T2: the items' own columns      ENDS - AHEAD
       v1       | ENDS values, kept for              +----+-------------------------------+----+
       ...      | the next windows                   |near| v(ahead)   of every column    |near|   line 0
       v(ENDS) /                                     |near| v(ahead+1)                    |near|   line 1
       ...     WINDOW new values, loaded a           +----+-------------------------------+----+
               step ahead as `next`                  item i computes WINDOW sums of line i % WINDOW, to `turned`, from which
                                                     item c reads the WINDOW sums of its own column c
#}
// Filters along two axes of planes, or along one, and their sum: out[i][j] = sum over t of f[t] s[i + lower + t][j], along the rows,
// plus sum over t of g[t] s[i][j + lower + t], along the columns, plus the previous value of out[i][j]. The last two terms are optional.
// A work-group slides down T2 columns: each item keeps the values that its column's next windows share in registers. For the other filter
// the rows of a step lie in local memory, with a halo on both sides; an item computes WINDOW sums of one of WINDOW rows, and each item then
// reads the sums of its column. The lines of local memory begin in different banks, so that neighbouring items have no bank conflicts.
// A window has ENDS inputs more than outputs, AHEAD of them before the first output, and contains the outputs' own positions.
// REAL is the element type, INDEX can hold every index of the operands.
#ifdef DOUBLE
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif

#define SPAN (T2 + ENDS)
#define LINE ((SPAN + 30) / 32 * 32 + 1)    // one element more than a multiple of the number of banks

{% from "axis.cl" import positions, place_in %}
{{ positions(periodic, once) }}
// The index in psi of a position of the axis, or -1 where s is zero.
{{ place_in("row_of", periodic, once) }}
{{ place_in("column_of", periodic_across, false) }}

{# Whether `row` exists for an item for which `is` holds. On a CPU this is one condition that changes in each step: PoCL 5 hoists others out
   of the loop, with the barriers. CUDA's compiler orders loads better if the conditions are separate. #}
{% macro both(is, end, row) %}{{ is ~ " && " ~ row ~ " < rows" if gpu else row ~ " < " ~ end }}{% endmacro %}
REAL fetch(__global const REAL* restrict from, const INDEX ld, const int row)
{
{% if periodic %}
    return from[row * ld];
{% else %}
    return row < 0 ? (REAL)0 : from[row * ld];
{% endif %}
}

{# Computes sum0, sum1, ... of a window over the values `prefix` p, of which `lead` precede that of the first tap; the weights lie in
   `filters` from `start` on. #}
{% macro sums(prefix, start) %}
{% for w in range(window) %}
            REAL sum{{ w }} = (REAL)0;
{% endfor %}
{% for u in range(taps) %}
{% set p = lead + u %}
{% if u % many == 0 %}
            const {{ real }}{{ many }} f{{ u }} = *(__local const {{ real }}{{ many }}*)(filters + {{ start }} + {{ u }});
{% endif %}
{% if prefix == "cell" %}
{% for q in (range(p, p + window) if u == 0 else range(p + window - 1, p + window)) %}
            const REAL cell{{ q }} = cells[{{ q }}];
{% endfor %}
{% endif %}
{% for w in range(window) %}
            sum{{ w }} += f{{ u // many * many }}.s{{ u % many }} * {{ prefix }}{{ w + p }};
{% endfor %}
{% endfor %}
{% endmacro %}

__kernel __attribute__((reqd_work_group_size(T2, 1, 1))) {{ "MIN_GROUPS(" ~ resident ~ ") " if resident }}void stencil(
    const int planes, const int rows, const int columns,
    __global const REAL* restrict psi, const INDEX psi_offset, const INDEX psi_ld, const INDEX psi_line,
    __global const REAL* restrict filter, const INDEX filter_offset, const INDEX filter_ld,
    __global REAL* restrict out, const INDEX out_offset, const INDEX out_ld, const INDEX out_line)
{
    __local REAL filters[{{ 2 if across else 1 }} * FILTER_LD] __attribute__((aligned(16)));
{% if across %}
    __local REAL steps[WINDOW * LINE{{ " + T2" if not gpu }}];
    __local REAL turned[WINDOW * LINE];
{% endif %}
    const int item = (int)get_local_id(0);
    const int tiles = (columns + T2 - 1) / T2;
    const int begin = (int)get_group_id(0) % tiles * T2;
    const int left = (int)get_group_id(1) * T1;
    const INDEX plane = (INDEX)((int)get_group_id(0) / tiles);

    for (int w = item; w < {{ 2 if across else 1 }} * TAPS; w += T2)
        filters[w / TAPS * FILTER_LD + w % TAPS] = filter[filter_offset + (w / TAPS + FIRST_FILTER) * filter_ld + w % TAPS];

    // an item beyond the last column reads the value that the boundary condition puts there, for its neighbours
    const int column = {{ "column_of(begin + item, columns)" if across else "min(begin + item, columns - 1)" }};
    const bool mine = begin + item < columns;
{% if not gpu %}
    const int mine_end = mine ? rows : 0;
{% endif %}
    __global const REAL* lines = psi + psi_offset + plane * psi_ld;
    __global const REAL* from = lines + max(column, 0);
    __global REAL* to = out + out_offset + plane * out_ld + begin + item;
    const int p = START(left - AHEAD);
{% macro load(d) %}fetch(from, psi_line, row_of(DOWN(p, {{ d }}), rows)){% endmacro %}
{% set zeros = across and not periodic_across %}
{% macro own(name, d) %}
            {{ name }} = {{ load(d) }};
{% if zeros %}
            {{ name }} = column < 0 ? (REAL)0 : {{ name }};
{% endif %}
{% endmacro %}
{% for u in range(ends + window) %}
    REAL v{{ u }};
{% endfor %}
{% for w in range(window) %}
    REAL next{{ w }};
{% endfor %}
{% for u in range(ends) %}
{{ own("v" ~ u, u) }}
{% endfor %}
{% for w in range(window) %}
{{ own("next" ~ w, ends + w) }}
{% endfor %}
{% if halo %}
    // the halo on both sides of the tile: an item loads the same elements of it in every step
{% macro there(h) %}has{{ h }}{{ " && at" ~ h ~ " >= 0" if zeros }}{% endmacro %}
{% for h in range(halo) %}
    const int row{{ h }} = min((item + {{ h }} * T2) / ENDS, WINDOW - 1), end{{ h }} = (item + {{ h }} * T2) % ENDS;
    const bool has{{ h }} = item + {{ h }} * T2 < WINDOW * ENDS;
    const int cell{{ h }}_ = end{{ h }} < AHEAD ? end{{ h }} : end{{ h }} + T2;
    const int at{{ h }} = column_of(begin - AHEAD + cell{{ h }}_, columns);
    __global const REAL* beside{{ h }} = lines + max(at{{ h }}, 0);
    REAL near{{ h }} = (REAL)0;
{% if not gpu %}
    const int place{{ h }} = has{{ h }} ? row{{ h }} * LINE + cell{{ h }}_ : WINDOW * LINE + item; // or an unused place after the lines
    const int there{{ h }}_end = {{ there(h) }} ? rows : 0;
{% endif %}
{% endfor %}
{% macro beside(h, step) %}
        if ({{ both(there(h), "there" ~ h ~ "_end", "left + " ~ step ~ " + row" ~ h) }})
            near{{ h }} = beside{{ h }}[(left + {{ step }} + row{{ h }}) * psi_line];
{% endmacro %}
{% for h in range(halo) %}
{{ beside(h, 0) }}
{% endfor %}
{% endif %}
    barrier(CLK_LOCAL_MEM_FENCE);

#pragma unroll 1
    for (int step = 0; step < T1 && left + step < rows; step += WINDOW) {
{% for w in range(window) %}
        v{{ ends + w }} = next{{ w }};
{% endfor %}
{% if adds %}
{% for w in range(window) %}
        REAL base{{ w }} = (REAL)0;
        if ({{ both("mine", "mine_end", "left + step + " ~ w) }})
            base{{ w }} = to[(left + step + {{ w }}) * out_line];
{% endfor %}
{% endif %}
{% if across %}
        // the centre of each window is the row that the second filter takes
{% for w in range(window) %}
        steps[{{ w }} * LINE + AHEAD + item] = v{{ w + ahead }};
{% endfor %}
{% for h in range(halo) %}
{% if gpu %}
        if (has{{ h }})
            steps[row{{ h }} * LINE + cell{{ h }}_] = near{{ h }};
{% else %}
        steps[place{{ h }}] = near{{ h }};
{% endif %}
{% endfor %}
        barrier(CLK_LOCAL_MEM_FENCE);
{% endif %}
        if (step + WINDOW < T1 && left + step + WINDOW < rows) {
{% for w in range(window) %}
{{ own("next" ~ w, "step + " ~ (ends + window + w)) }}
{% endfor %}
{% for h in range(halo) %}
{{ beside(h, "step + WINDOW") }}
{% endfor %}
        }
{% if across %}
        {
            const int row = item % WINDOW, start = item / WINDOW * WINDOW;
            __local const REAL* cells = steps + row * LINE + start;
{{ sums("cell", "FILTER_LD") }}
{% for w in range(window) %}
            turned[row * LINE + start + {{ w }}] = sum{{ w }};
{% endfor %}
        }
{% endif %}
        {
{{ sums("v", 0) }}
{% if across %}
            barrier(CLK_LOCAL_MEM_FENCE);
{% for w in range(window) %}
            sum{{ w }} += turned[{{ w }} * LINE + item];
{% endfor %}
{% endif %}
{% for w in range(window) %}
            if ({{ both("mine", "mine_end", "left + step + " ~ w) }})
                to[(left + step + {{ w }}) * out_line] = {{ "base" ~ w ~ " + " if adds }}sum{{ w }};
{% endfor %}
        }
{% for u in range(ends) %}
        v{{ u }} = v{{ u + window }};
{% endfor %}
    }
}
