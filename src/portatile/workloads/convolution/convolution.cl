{#
   A work-group computes TI outputs for each of TJ columns of psi. They read SPAN rows of psi, and are written transposed.

             psi: rows x columns                          out: columns x length, a row for each column of psi
             <- TJ columns ->                             <-  TI outputs  ->
            +----------------+ row left + first          +-----------------+
            |  |  |  |w |  | |                           |                 |
     SPAN   |  |  |  |w |  | |   a window of WINDOW      |     w w w w     |  TJ rows
     rows   |  |  |  |w |  | |   outputs slides down     |                 |
            |  |  |  |w |  | |   one column, and its     |                 |
            |  |  |  |  |  | |   sums are one item's,    +-----------------+
            +----------------+   in registers

     form     the SPAN x TJ tile of psi             the TI x TJ outputs
     staged   local memory, as it lies in psi       a second tile in local memory, [TJ][TI + PADDING], stored by rows of out
     direct   local memory, transposed when loaded  each stored by the item that computed it, WINDOW 1
     block    local memory of the group's one item  squares of VECTOR windows transposed in registers
#}
// A one-dimensional convolution that transposes: out[j][o] = sum over t of f[t] s[o + first + t][j], where s are the rows
// of psi. With PHASES 2 even and odd o have a filter each, and both windows start at the even o. A work-group computes TI values
// of o for TJ of j from a tile of SPAN x TJ in local memory.
// REAL is the element type, VEC a vector of VECTOR elements, INDEX an integer type that can hold every index of the operands.
// READ and WRITE are the vectors, of READS and WRITES elements, that are loaded from psi and stored to out: as wide as the rows are
// aligned. With SKEW, which is WRITES - 1, each row of the tile in out begins at an aligned vector, up to SKEW values further left.
#ifdef DOUBLE
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif

#define SPAN (TI + TAPS - PHASES + SKEW)

{% from "axis.cl" import positions, place_in, place_out %}
{% macro component(name, i, width) %}{{ name if width == 1 else name ~ ".s" ~ "0123456789abcdef"[i] }}{% endmacro %}
{% set step = phases if window > 1 else 1 %}
{% set sum_type = real ~ "2" if lanes == 2 else ("VEC" if form == "block" else real) %}
{% set value_type = "VEC" if form == "block" else real %}

{{ positions(periodic, once) }}
// The row of psi at such a position of the axis, or -1 where s is zero.
{{ place_in("row_of", periodic, once) }}
// The address of an element in `row`, from its address in row 0: one multiply-add (32 x 32 + 64 bits) on GPUs if INDEX is an int.
#define AT_ROW(T, first, row, ld) ((T*)((__global char*)(first) + (long)(row) * (INDEX)((ld) * (INDEX)sizeof(REAL))))

// The column of out for output o.
{{ place_out("column_of") }}
{% if form == "block" %}
#ifndef PORTATILE_CUDA // some compilers make function calls of vload and vstore
typedef VEC loose __attribute__((aligned(sizeof(REAL))));
#define LOAD(p) (*(__global const loose*)(p))
#define STORE(x, p) (*(__global loose*)(p) = (x))
#endif
{% endif %}
#ifndef LOAD
#define LOAD(p) vload{{ reads }}(0, p)
#define STORE(x, p) vstore{{ writes }}(x, 0, p)
#endif

// READS elements of a row of psi, from `column`; zeros beyond the end of the row, or if there is no such row.
READ fetch(__global const REAL* restrict psi, const INDEX ld, const int row, const int column, const int columns)
{
#define OF(i) (row >= 0 && column + i < columns ? psi[row * ld + column + i] : (REAL)0)
{% if reads == 1 %}
    return OF(0);
{% else %}
    if (row >= 0 && column + READS <= columns)
#if ALIGNED_PSI
        return *(__global const READ*)(psi + row * ld + column);
#else
        return LOAD(psi + row * ld + column);
#endif
    return (READ)({% for i in range(reads) %}OF({{ i }}){{ ", " if not loop.last }}{% endfor %});
{% endif %}
#undef OF
}

{% if gpu %}
// The same for a vector that lies wholly in the row; `from` is its address in row 0.
READ fetch_whole(__global const REAL* restrict from, const INDEX ld, const int row)
{
    __global const REAL* place = AT_ROW(__global const REAL, from, row, ld);
{% if not periodic %}
    if (row < 0)
        return (READ)(0);
{% endif %}
{% if reads == 1 %}
    return LDG(place);
{% else %}
#if ALIGNED_PSI
    return LDG((__global const READ*)place);
#else
    return LOAD(place);
#endif
{% endif %}
}
{% endif %}

{# Adds the products with `count` taps from tap t: each value is read once, as the window slides over it. #}
{% macro slide(count) %}
{% for p in range(window - step) %}
                const {{ value_type }} v{{ p }} = AT(t + {{ p }});
{% endfor %}
{% for u in range(0, count, lanes) %}
{% set wide = lanes == 2 and u + 1 < count %}
{% for p in range(u, u + 2 if wide else u + 1) %}
                const {{ value_type }} v{{ window - step + p }} = AT(t + {{ window - step + p }});
{% endfor %}
{% set many = (4 if real == "float" else 2) if form != "block" else 1 %}
{% for e in range(step) %}
{% if wide %}
                const {{ sum_type }} f{{ e }}_{{ u }} = ({{ sum_type }})(weights[{{ e }} * weights_ld + t + {{ u }}], weights[{{ e }} * weights_ld + t + {{ u + 1 }}]);
{% elif many > 1 and u // many * many + many <= count and lanes == 1 %}
{% if u % many == 0 %}
                const {{ real }}{{ many }} f{{ e }}_{{ u }} = *(__local const {{ real }}{{ many }}*)(weights + {{ e }} * weights_ld + t + {{ u }});
{% endif %}
{% else %}
                const REAL f{{ e }}_{{ u }} = weights[{{ e }} * weights_ld + t + {{ u }}];
{% endif %}
{% endfor %}
{% for w in range(window) %}
{% set v = w - w % step + u %}
{% if wide %}
                sum{{ w }} += f{{ w % step }}_{{ u }} * ({{ sum_type }})(v{{ v }}, v{{ v + 1 }});
{% else %}
{% if many > 1 and u // many * many + many <= count and lanes == 1 %}
                sum{{ w }} += f{{ w % step }}_{{ u // many * many }}.s{{ u % many }} * v{{ v }};
{% else %}
                sum{{ w }}{{ ".x" if lanes == 2 }} += f{{ w % step }}_{{ u }} * v{{ v }};
{% endif %}
{% endif %}
{% endfor %}
{% endfor %}
{% endmacro %}

{# Computes sum0, sum1, ... of one window, UNROLL taps at a time. #}
{% macro window_sums() %}
{% for w in range(window) %}
            {{ sum_type }} sum{{ w }} = ({{ sum_type }})(0);
{% endfor %}
{% if taps // unroll > 1 %}
#pragma unroll 1
            for (int t = 0; t < {{ taps // unroll * unroll }}; t += {{ unroll }}) {
{{ slide(unroll) }}
            }
{% elif taps >= unroll %}
            {
                const int t = 0;
{{ slide(unroll) }}
            }
{% endif %}
{% if taps % unroll %}
            {
                const int t = {{ taps // unroll * unroll }};
{{ slide(taps % unroll) }}
            }
{% endif %}
{% endmacro %}
{% macro total(w) %}{{ "(sum" ~ w ~ ".x + sum" ~ w ~ ".y)" if lanes == 2 else "sum" ~ w }}{% endmacro %}

{# Stores the WRITES elements of `name` from place i of the group's tile of out, in a row that begins at `row`; `here` is the address of
   place i. With `inside`, all of them are known to lie in out. #}
{% set place = "left + i - skew" if skew else "left + i" %}
{% macro target(c) %}{{ "row[column_of(" ~ place ~ " + " ~ c ~ ", length)]" if separate else "here[" ~ c ~ "]" }}{% endmacro %}
{% macro store(name, inside=false) %}
{% if writes > 1 and not separate %}
                {{ "if (" ~ ("(uint)(left + i - skew) < (uint)length && " if skew) ~ place ~ " + WRITES <= length)" if not inside }}
#if ALIGNED_OUT
                    *(__global WRITE*)here = {{ name }};
#else
                    STORE({{ name }}, here);
#endif
                {{ "else" if not inside }}
{% endif %}
{% if form == "block" %}
                {
                    REAL edge[WRITES];
                    vstore{{ writes }}({{ name }}, 0, edge);
                    for (int c = 0; c < WRITES && left + i + c < length; c++)
                        {{ target("c") }} = edge[c];
                }
{% elif writes == 1 or separate or not inside %}
                {
{% for c in range(writes) %}
                    {{ "if (" ~ ("(uint)(" ~ place ~ " + " ~ c ~ ") < (uint)length" if skew else place ~ " + " ~ c ~ " < length") ~ ")" if not inside }}
                        {{ target(c) }} = {{ component(name, c, writes) }};
{% endfor %}
                }
{% endif %}
{% endmacro %}

{% if skew %}
// By how many elements row top + j of the tile begins further left: its first address modulo a vector.
#define SKEW_OF(j) ((int)(out_offset + (INDEX)(top + (j)) * out_ld) & SKEW)
{% endif %}

{# Loads the group's tile of psi, BATCH loads in flight: an item's loads lie in one column, ROWS apart. A `whole` tile lies within psi. #}
{% macro load_tile(whole) %}
    const int lane = item % (TJ / READS), at = item / (TJ / READS);
    const int p = START(left - SKEW + first + at);
{% if whole %}
    __global const REAL* from = psi + psi_offset + top + lane * READS;
{% endif %}
    for (int line = 0; line < SPAN; line += BATCH * ROWS) {
        READ part[BATCH];
#pragma unroll
        for (int b = 0; b < BATCH; b++) {
            if (line + (b + 1) * ROWS <= SPAN || line + b * ROWS + at < SPAN)
{% if whole %}
                part[b] = fetch_whole(from, psi_ld, row_of(DOWN(p, line + b * ROWS), rows));
{% else %}
                part[b] = fetch(psi + psi_offset, psi_ld, row_of(DOWN(p, line + b * ROWS), rows), top + lane * READS, columns);
{% endif %}
        }
#pragma unroll
        for (int b = 0; b < BATCH; b++) {
            if (line + (b + 1) * ROWS <= SPAN || line + b * ROWS + at < SPAN) {
                const int r = line + b * ROWS + at;
{% if form == "direct" %}
{% for k in range(reads) %}
                tile[(lane * READS + {{ k }}) * (SPAN + PADDING) + r] = {{ component("part[b]", k, reads) }};
{% endfor %}
{% else %}
                ((__local READ*)tile)[r * (TJ / READS) + lane] = part[b];
{% endif %}
            }
        }
    }
{% endmacro %}

{# Stores the second tile to out: an item's vectors lie below one another, COLUMNS apart. With `inside`, the tile lies within out. #}
{% macro store_tile(inside) %}
    const int i = item % (TI / WRITES) * WRITES, start = item / (TI / WRITES);
    __global REAL* corner = out + out_offset{{ " + left + i" if not separate }};
#pragma unroll {{ passes }}
    for (int pass = 0; pass < (TJ + COLUMNS - 1) / COLUMNS; pass++) {
        const int j = pass * COLUMNS + start;
        if ({{ "TJ % COLUMNS == 0 || j < TJ" if inside else "j < TJ && top + j < columns" }}) {
{% if skew %}
            const int skew = SKEW_OF(j);
{% endif %}
            __global REAL* {{ "row" if separate else "here" }} = AT_ROW(__global REAL, corner, top + j, out_ld){{ " - skew" if skew }};
            const WRITE value = ((__local const WRITE*)turned)[(j * (TI + PADDING) + i) / WRITES];
{{ store("value", inside) }}
        }
    }
{% endmacro %}

__kernel __attribute__((reqd_work_group_size(WGS, 1, 1))) void convolution(
    const int rows, const int columns, const int length, const int first,
    __global const REAL* restrict psi, const INDEX psi_offset, const INDEX psi_ld,
    __global const REAL* restrict filter, const INDEX filter_offset, const INDEX filter_ld,
    __global REAL* restrict out, const INDEX out_offset, const INDEX out_ld)
{
{% if form == "direct" %}
    __local REAL tile[TJ * (SPAN + PADDING)];
{% elif form == "block" %}
    __local VEC tile[SPAN * (TJ / VECTOR)];
{% elif overlay %}
    __local VEC tile[(SPAN * TJ > TJ * (TI + PADDING) ? SPAN * TJ : TJ * (TI + PADDING)) / VECTOR];
    __local VEC* turned = tile;
{% else %}
    __local VEC tile[SPAN * TJ / VECTOR];
    __local VEC turned[TJ * (TI + PADDING) / VECTOR];
{% endif %}
    const int fast = (int)get_group_id(0);
{% if deep %}
    // surplus groups repeat the last group's work
    const int last = {{ "(columns - 1) / TJ" if order == "i" else "(length - 1) / TI" }};
    const int slow = min((int)get_group_id(1) + (int)get_group_id(2) * (int)get_num_groups(1), last);
{% else %}
    const int slow = (int)get_group_id(1);
{% endif %}
    const int left = {{ "fast" if order == "i" else "slow" }} * TI, top = {{ "slow" if order == "i" else "fast" }} * TJ;
{% if form == "block" %}
    __global const REAL* weights = filter + filter_offset;
    const INDEX weights_ld = filter_ld;
{% else %}
    __local REAL filters[PHASES * FILTER_LD] __attribute__((aligned(16)));
    __local const REAL* weights = filters;
    const int weights_ld = FILTER_LD;
{% endif %}
{% if form == "block" %}

    for (int r = 0; r < SPAN; r++) {
        const int row = row_of(START(left + first + r), rows);
        for (int q = 0; q < TJ / VECTOR; q++)
            tile[r * (TJ / VECTOR) + q] = fetch(psi + psi_offset, psi_ld, row, top + q * VECTOR, columns);
    }

    for (int q = 0; q < TJ / VECTOR; q++) {
        if (top + q * VECTOR >= columns)
            break;
        for (int start = 0; start < TI; start += WINDOW) {
            __local const VEC* cells = tile + start * (TJ / VECTOR) + q;
#define AT(p) cells[(p) * (TJ / VECTOR)]
{{ window_sums() }}
#undef AT
{% for b in range(0, window, vector) %}
            {
                // a square of VECTOR windows is transposed in registers, in log2(VECTOR) steps
{% for c in range(vector) %}
                const VEC t0_{{ c }} = sum{{ b + c }};
{% endfor %}
{% for s in range(stages) %}
{% set bit = 2 ** s %}
{% for r in range(vector) %}
{% set lower = r // bit % 2 == 0 %}
{% set one = r if lower else r - bit %}
{% set two = one + bit %}
                const VEC t{{ s + 1 }}_{{ r }} = (VEC)({% for k in range(vector) %}{% set even = k // bit % 2 == 0 %}t{{ s }}_{{ one if even else two }}.s{{ "0123456789abcdef"[(k if even else k - bit) if lower else (k + bit if even else k)] }}{{ ", " if not loop.last }}{% endfor %});
{% endfor %}
{% endfor %}
                const int i = start + {{ b }};
{% for c in range(vector) %}
                if (top + q * VECTOR + {{ c }} < columns) {
                    __global REAL* {{ "row" if separate else "here" }} = out + out_offset + (top + q * VECTOR + {{ c }}) * out_ld{{ " + left + i" if not separate }};
{{ store("t" ~ stages ~ "_" ~ c) }}
                }
{% endfor %}
            }
{% endfor %}
        }
    }
{% else %}
    const int item = (int)get_local_id(0);

    // loaded before the tile and written to local memory after it, so that its latency is hidden
    const int tap = min(item, PHASES * TAPS - 1);
    const REAL weight = filter[filter_offset + tap / TAPS * filter_ld + tap % TAPS];
{% if gpu %}
    if (top + TJ <= columns) {
{{ load_tile(true) }}
    } else
{% endif %}
    {
{{ load_tile(false) }}
    }
    if (item < PHASES * TAPS)
        filters[item / TAPS * FILTER_LD + item % TAPS] = weight;
    for (int w = item + WGS; w < PHASES * TAPS; w += WGS)
        filters[w / TAPS * FILTER_LD + w % TAPS] = filter[filter_offset + w / TAPS * filter_ld + w % TAPS];
    barrier(CLK_LOCAL_MEM_FENCE);
{% if form == "direct" %}

    for (int place = item; place < TI * TJ; place += WGS) {
        const int i = place % TI, j = place / TI;
        if (left + i < length && top + j < columns) {
{% if phases == 2 %}
            __local const REAL* cells = tile + j * (SPAN + PADDING) + (i & ~1);
            weights = filters + (i & 1) * FILTER_LD;
{% else %}
            __local const REAL* cells = tile + j * (SPAN + PADDING) + i;
{% endif %}
#define AT(p) cells[p]
{{ window_sums() }}
#undef AT
            out[out_offset + (top + j) * out_ld + column_of(left + i, length)] = {{ total(0) }};
        }
    }
{% else %}

    for (int place = item; place < TI / WINDOW * TJ; place += WGS) {
        const int j = place % TJ, start = place / TJ * WINDOW;
        __local const REAL* cells = (__local const REAL*)tile + {{ "(start + SKEW - SKEW_OF(j))" if skew else "start" }} * TJ + j;
#define AT(p) cells[(p) * TJ]
{{ window_sums() }}
#undef AT
{% if overlay %}
        barrier(CLK_LOCAL_MEM_FENCE);    // each item has one window, so all have read the tile, which is now overwritten
{% endif %}
        __local VEC* line = turned + (j * (TI + PADDING) + start) / VECTOR;
{% for w in range(0, window, vector) %}
{% if vector == 1 %}
        line[{{ w }}] = {{ total(w) }};
{% else %}
        line[{{ w // vector }}] = (VEC)({% for c in range(vector) %}{{ total(w + c) }}{{ ", " if not loop.last }}{% endfor %});
{% endif %}
{% endfor %}
    }
    barrier(CLK_LOCAL_MEM_FENCE);

{% if gpu %}
    if (top + TJ <= columns && left + TI <= length{{ " && left > 0" if skew }}) {
{{ store_tile(true) }}
    } else
{% endif %}
    {
{{ store_tile(false) }}
    }
{% endif %}
{% endif %}
}
