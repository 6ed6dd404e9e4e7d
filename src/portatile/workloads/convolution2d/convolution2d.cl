{#
   A work-group computes T1 outputs of the first axis x T2 outputs of the second axis for TJ columns of psi, WINDOW of the T1 in each step.

     item (j, k) reads column j of line k; T2 outputs need SPAN lines              steps: WINDOW x SPAN x TJ in local memory
                                                                                          k ->
      psi   line k                                                                    +--+--+--+--+
           +------+   v0 .. v(ends - 1): kept for the next windows                    |s0|s0|s0|s0|  each row is now filtered along k:
     walks | v0   |   + WINDOW new values, or `next` ones, loaded a step ahead        |s1|s1|s1|s1|  item (row, which, start) sums TURN
     down  | v1   |   filtered: sum0 .. sum(WINDOW - 1)  ------------------------->   +--+--+--+--+  neighbouring outputs
           | ...  |                                                                         |
           +------+                                                                         v
                                                   turned: WINDOW x TJ lines of T2 outputs, stored to out in vectors of WRITES
#}
// Filters along two axes in one pass: out[j][o][q] = sum over t and u of f[t] f[u] s[o + first + t][q + across + u][j], where s are
// the rows of psi. A work-group slides along the first axis: each item keeps the values that its column's next windows share in registers,
// computes WINDOW sums in each step and writes them to local memory; then all items filter these along the second axis, transpose and
// store. With PHASES 2 even and odd outputs have a filter each, and both windows start at the even output, on either axis.
// REAL is the element type, WRITE a vector of WRITES elements, as wide as the alignment of out allows; INDEX can hold every index of the
// operands.
#ifdef DOUBLE
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif

#define SPAN (T2 + TAPS - PHASES)
#define CELLS (SPAN | 1)    // odd, so that the rows of neighbouring steps lie in different banks
#define LINE (T2 + VECTOR)
#define COLUMNS (WGS * WRITES / T2)

{% from "axis.cl" import positions, place_in, place_out %}
{{ positions(periodic, once) }}
// The index in psi of a position of the axis, or -1 where s is zero.
{{ place_in("row_of", periodic, once) }}
{{ place_in("line_of", periodic_across, false) }}

// The index in out of output o of an axis of that length.
{{ place_out("column_of") }}
REAL fetch(__global const REAL* restrict from, const INDEX ld, const int row)
{
{% if periodic and periodic_across %}
    return from[row * ld];
{% else %}
    return row < 0 ? (REAL)0 : from[row * ld];
{% endif %}
}

{# Computes sum0, sum1, ... of a window: of the registers v0, v1, ... or of cell0, cell1, ..., which are read from local memory. #}
{% macro sums(prefix, window) %}
{% for w in range(window) %}
            REAL sum{{ w }} = (REAL)0;
{% endfor %}
{% for u in range(taps) %}
{% for e in range(phases) %}
{% if u % many == 0 %}
            const {{ real }}{{ many }} f{{ e }}_{{ u }} = *(__local const {{ real }}{{ many }}*)(filters + {{ e }} * FILTER_LD + {{ u }});
{% endif %}
{% endfor %}
{% if prefix == "cell" %}
{% for p in (range(window - phases + 1) if u == 0 else range(window - phases + u, window - phases + u + 1)) %}
            const REAL cell{{ p }} = cells[{{ p }} * TJ];
{% endfor %}
{% endif %}
{% for w in range(window) %}
            sum{{ w }} += f{{ w % phases }}_{{ u // many * many }}.s{{ u % many }} * {{ prefix }}{{ w - w % phases + u }};
{% endfor %}
{% endfor %}
{% endmacro %}

__kernel __attribute__((reqd_work_group_size(WGS, 1, 1))) {{ "MIN_GROUPS(" ~ resident ~ ") " if resident }}void convolution2d(
    const int rows, const int lines, const int columns, const int length, const int width, const int first, const int across,
    __global const REAL* restrict psi, const INDEX psi_offset, const INDEX psi_ld, const INDEX psi_line,
    __global const REAL* restrict filter, const INDEX filter_offset, const INDEX filter_ld,
    __global REAL* restrict out, const INDEX out_offset, const INDEX out_ld, const INDEX out_line)
{
    __local REAL filters[PHASES * FILTER_LD] __attribute__((aligned(16)));
{% if overlay %}
    __local REAL steps[WINDOW * TJ * (CELLS > LINE ? CELLS : LINE)] __attribute__((aligned(16)));
    __local REAL* turned = steps;
{% else %}
    __local REAL steps[WINDOW * TJ * CELLS] __attribute__((aligned(16)));
    __local REAL turned[WINDOW * TJ * LINE] __attribute__((aligned(16)));
{% endif %}
    const int item = (int)get_local_id(0);
    const int top = (int)get_group_id(0) * TJ;
    const int left = (int)get_group_id(1) * T1;
    const int begin = (int)get_group_id(2) * T2;

    for (int w = item; w < PHASES * TAPS; w += WGS)
        filters[w / TAPS * FILTER_LD + w % TAPS] = filter[filter_offset + w / TAPS * filter_ld + w % TAPS];

    const int j = item % TJ, k = item / TJ;
    const int line = line_of(begin + across + k, lines);
    const bool mine = k < SPAN && top + j < columns{{ " && line >= 0" if not periodic_across }};
    // an item without a column, or with a column of zeros, reads valid addresses and discards the values
    __global const REAL* from = psi + psi_offset + (mine ? line * psi_line + top + j : (INDEX)0);
    const int p = START(left + first);
{% macro load(d) %}fetch(from, psi_ld, row_of(DOWN(p, {{ d }}), rows)){% endmacro %}
{% for u in range(ends) %}
    REAL v{{ u }} = mine ? {{ load(u) }} : (REAL)0;
{% endfor %}
{% for w in range(window) %}
    REAL v{{ ends + w }};
{% endfor %}
{% if ahead %}
{% for w in range(window) %}
    REAL next{{ w }} = mine ? {{ load(ends + w) }} : (REAL)0;
{% endfor %}
{% endif %}
    barrier(CLK_LOCAL_MEM_FENCE);

#pragma unroll 1
    for (int step = 0; step < T1 && left + step < length; step += WINDOW) {
{% for w in range(window) %}
{% if ahead %}
        v{{ ends + w }} = next{{ w }};
{% else %}
        v{{ ends + w }} = {{ load("step + " ~ (ends + w)) }};
        v{{ ends + w }} = mine ? v{{ ends + w }} : (REAL)0; // no branch: PoCL 5 and 6 would hoist it out of the loop, with the barriers
{% endif %}
{% endfor %}
{% if ahead %}
        if (step + WINDOW < T1 && mine) {
{% for w in range(window) %}
            next{{ w }} = {{ load("step + " ~ (ends + window + w)) }};
{% endfor %}
        }
{% endif %}
        if (k < SPAN) {
{{ sums("v", window) }}
{% for w in range(window) %}
            steps[({{ w }} * CELLS + k) * TJ + j] = sum{{ w }};
{% endfor %}
        }
{% for u in range(ends) %}
        v{{ u }} = v{{ u + window }};
{% endfor %}
        barrier(CLK_LOCAL_MEM_FENCE);

{% if overlay %}
        // each item has one window, so all have read `steps` before it is overwritten
        const int place = item;
        const int row = place % TJ, which = place / TJ % WINDOW, start = min(place / (TJ * WINDOW) * TURN, T2 - TURN);
        __local const REAL* cells = steps + (which * CELLS + start) * TJ + row;
{{ sums("cell", turns) }}
        barrier(CLK_LOCAL_MEM_FENCE);
        if (place < WINDOW * TJ * (T2 / TURN)) {
{% else %}
        for (int place = item; place < WINDOW * TJ * (T2 / TURN); place += WGS) {
            const int row = place % TJ, which = place / TJ % WINDOW, start = place / (TJ * WINDOW) * TURN;
            __local const REAL* cells = steps + (which * CELLS + start) * TJ + row;
{{ sums("cell", turns) }}
{% endif %}
            __local REAL* target = turned + (which * TJ + row) * LINE + start;
{% for w in range(0, turns, vector) %}
{% if vector == 1 %}
            target[{{ w }}] = sum{{ w }};
{% else %}
            *(__local {{ real }}{{ vector }}*)(target + {{ w }}) = ({{ real }}{{ vector }})({% for c in range(vector) %}sum{{ w + c }}{{ ", " if not loop.last }}{% endfor %});
{% endif %}
{% endfor %}
        }
        barrier(CLK_LOCAL_MEM_FENCE);

        const int i = item % (T2 / WRITES) * WRITES, at = item / (T2 / WRITES);
        for (int pass = 0; pass < WINDOW * TJ; pass += COLUMNS) {
            const int which = (pass + at) / TJ, row = (pass + at) % TJ, o = left + step + which;
            if (at < COLUMNS && pass + at < WINDOW * TJ && o < length && top + row < columns) {
                const WRITE value = *(__local const WRITE*)(turned + (pass + at) * LINE + i);
                __global REAL* here = out + out_offset + (top + row) * out_ld + column_of(o, length) * out_line;
{% if writes > 1 and not separate %}
                if (begin + i + WRITES <= width)
                    *(__global WRITE*)(here + begin + i) = value;
                else
{% endif %}
                {
{% for c in range(writes) %}
                    if (begin + i + {{ c }} < width)
                        here[column_of(begin + i + {{ c }}, width)] = value{{ ".s%x" % c if writes > 1 }};
{% endfor %}
                }
            }
        }
{% if overlay %}
        barrier(CLK_LOCAL_MEM_FENCE);
{% endif %}
    }
}
