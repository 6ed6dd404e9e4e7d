// A one-dimensional convolution that transposes: out[j][o] = sum over t of f[t] s[o + first + t][j], where s are the rows
// of psi. With PHASES 2 even and odd o take a filter each, and both start at the even one. A work-group computes TI values
// of o for TJ of j from a tile of SPAN x TJ in local memory.
// REAL is the element type, VEC a vector of VECTOR of them, INDEX an integer type that holds every place in the operands.
#ifdef DOUBLE
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif

#define SPAN (TI + TAPS - PHASES)

{% macro component(name, i) %}{{ name if vector == 1 else name ~ ".s" ~ "0123456789abcdef"[i] }}{% endmacro %}
{% set step = phases if window > 1 else 1 %}
{% set sum_type = real ~ "2" if lanes == 2 else ("VEC" if form == "block" else real) %}
{% set value_type = "VEC" if form == "block" else real %}

// The row of psi that holds s[p], or -1 where s is zero.
int row_of(int p, const int rows)
{
#if PERIODIC
#if WRAPS_ONCE
    p = p < 0 ? p + rows : (p >= rows ? p - rows : p);
#else
    p %= rows;
    p = p < 0 ? p + rows : p;
#endif
#else
    if (p < 0 || p >= rows)
        return -1;
#endif
#if INTERLEAVE
    return (p >> 1) + ((p & 1) ? (rows + 1) >> 1 : 0);
#else
    return p;
#endif
}

// The column of out that holds value o.
int column_of(const int o, const int length)
{
#if SEPARATE
    return (o >> 1) + ((o & 1) ? (length + 1) >> 1 : 0);
#else
    return o;
#endif
}

// VECTOR elements from a column on of a row of psi, zeros where it ends or where there is no such row.
VEC fetch(__global const REAL* restrict psi, const INDEX ld, const int row, const int column, const int columns)
{
#define OF(i) (row >= 0 && column + i < columns ? psi[row * ld + column + i] : (REAL)0)
{% if vector == 1 %}
    return OF(0);
{% else %}
    if (row >= 0 && column + VECTOR <= columns)
#if ALIGNED_PSI
        return *(__global const VEC*)(psi + row * ld + column);
#else
        return vload{{ vector }}(0, psi + row * ld + column);
#endif
    return (VEC)({% for i in range(vector) %}OF({{ i }}){{ ", " if not loop.last }}{% endfor %});
{% endif %}
#undef OF
}

{% if gpu %}
// The same where the whole vector lies in the row.
VEC fetch_whole(__global const REAL* restrict psi, const INDEX ld, const int row, const int column)
{
#if !PERIODIC
    if (row < 0)
        return (VEC)(0);
#endif
{% if vector == 1 %}
    return psi[row * ld + column];
{% else %}
#if ALIGNED_PSI
    return *(__global const VEC*)(psi + row * ld + column);
#else
    return vload{{ vector }}(0, psi + row * ld + column);
#endif
{% endif %}
}
{% endif %}

{# The products with `count` taps from tap t on: values are read one by one, as the window slides over them. #}
{% macro slide(count) %}
{% for p in range(window - step) %}
                const {{ value_type }} v{{ p }} = AT(t + {{ p }});
{% endfor %}
{% for u in range(0, count, lanes) %}
{% set wide = lanes == 2 and u + 1 < count %}
{% for p in range(u, u + 2 if wide else u + 1) %}
                const {{ value_type }} v{{ window - step + p }} = AT(t + {{ window - step + p }});
{% endfor %}
{% for e in range(step) %}
{% if wide %}
                const {{ sum_type }} f{{ e }}_{{ u }} = ({{ sum_type }})(weights[{{ e }} * filter_ld + t + {{ u }}], weights[{{ e }} * filter_ld + t + {{ u + 1 }}]);
{% else %}
                const REAL f{{ e }}_{{ u }} = weights[{{ e }} * filter_ld + t + {{ u }}];
{% endif %}
{% endfor %}
{% for w in range(window) %}
{% set v = w - w % step + u %}
{% if wide %}
                sum{{ w }} += f{{ w % step }}_{{ u }} * ({{ sum_type }})(v{{ v }}, v{{ v + 1 }});
{% else %}
                sum{{ w }}{{ ".x" if lanes == 2 }} += f{{ w % step }}_{{ u }} * v{{ v }};
{% endif %}
{% endfor %}
{% endfor %}
{% endmacro %}

{# sum0, sum1, ... of one window, UNROLL taps at a time. #}
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

{# VECTOR elements called `name` to row j, places i and on, of the group's part of out; `inside` it knows that they lie there. #}
{% macro store(name, inside=false) %}
{% if vector > 1 and not separate %}
                {{ "if (left + i + VECTOR <= length)" if not inside }}
#if ALIGNED_OUT
                    *(__global VEC*)(row + left + i) = {{ name }};
#else
                    vstore{{ vector }}({{ name }}, 0, row + left + i);
#endif
                {{ "else" if not inside }}
{% endif %}
{% if form == "block" %}
                {
                    REAL edge[VECTOR];
                    vstore{{ vector }}({{ name }}, 0, edge);
                    for (int c = 0; c < VECTOR && left + i + c < length; c++)
                        row[column_of(left + i + c, length)] = edge[c];
                }
{% elif vector == 1 or separate or not inside %}
                {
{% for c in range(vector) %}
                    {{ "if (left + i + " ~ c ~ " < length)" if not inside }}
                        row[column_of(left + i + {{ c }}, length)] = {{ component(name, c) }};
{% endfor %}
                }
{% endif %}
{% endmacro %}

{# The group's part of psi to the tile, BATCH loads at a time; `whole` groups end within the columns. #}
{% macro load_tile(whole) %}
    for (int chunk = 0; chunk < SPAN * TJ / VECTOR; chunk += BATCH * WGS) {
        VEC part[BATCH];
#pragma unroll
        for (int b = 0; b < BATCH; b++) {
            const int c = chunk + b * WGS + item;
            const int r = min(c / (TJ / VECTOR), SPAN - 1);
            const int column = top + c % (TJ / VECTOR) * VECTOR;
            const int row = row_of(left + first + r, rows);
{% if whole %}
            part[b] = fetch_whole(psi + psi_offset, psi_ld, row, column);
{% else %}
            part[b] = fetch(psi + psi_offset, psi_ld, row, column, columns);
{% endif %}
        }
#pragma unroll
        for (int b = 0; b < BATCH; b++) {
            const int c = chunk + b * WGS + item;
            if (c < SPAN * TJ / VECTOR) {
{% if form == "direct" %}
                const int r = c / (TJ / VECTOR), j = c % (TJ / VECTOR) * VECTOR;
{% for k in range(vector) %}
                tile[(j + {{ k }}) * (SPAN + PADDING) + r] = {{ component("part[b]", k) }};
{% endfor %}
{% else %}
                tile[c] = part[b];
{% endif %}
            }
        }
    }
{% endmacro %}

{# The second tile to out; `inside` groups lie within it. #}
{% macro store_tile(inside) %}
#pragma unroll {{ passes }}
    for (int pass = 0; pass < (TI / VECTOR * TJ + WGS - 1) / WGS; pass++) {
        const int place = pass * WGS + item;
        const int i = place % (TI / VECTOR) * VECTOR, j = place / (TI / VECTOR);
        if (j < TJ{{ " && top + j < columns" if not inside }}) {
            __global REAL* row = out + out_offset + (top + j) * out_ld;
            const VEC value = turned[(j * (TI + PADDING) + i) / VECTOR];
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
    const int group = (int)get_group_id(0);
{% if order == "i" %}
    const int across = (length + TI - 1) / TI;
    const int left = group % across * TI, top = group / across * TJ;
{% else %}
    const int across = (columns + TJ - 1) / TJ;
    const int left = group / across * TI, top = group % across * TJ;
{% endif %}
    __global const REAL* weights = filter + filter_offset;
{% if form == "block" %}

    for (int r = 0; r < SPAN; r++) {
        const int row = row_of(left + first + r, rows);
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
                    __global REAL* row = out + out_offset + (top + q * VECTOR + {{ c }}) * out_ld;
{{ store("t" ~ stages ~ "_" ~ c) }}
                }
{% endfor %}
            }
{% endfor %}
        }
    }
{% else %}
    const int item = (int)get_local_id(0);

{% if gpu %}
    if (top + TJ <= columns) {
{{ load_tile(true) }}
    } else
{% endif %}
    {
{{ load_tile(false) }}
    }
    barrier(CLK_LOCAL_MEM_FENCE);
{% if form == "direct" %}

    for (int place = item; place < TI * TJ; place += WGS) {
        const int i = place % TI, j = place / TI;
        if (left + i < length && top + j < columns) {
{% if phases == 2 %}
            __local const REAL* cells = tile + j * (SPAN + PADDING) + (i & ~1);
            weights = filter + filter_offset + (i & 1) * filter_ld;
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
        __local const REAL* cells = (__local const REAL*)tile + start * TJ + j;
#define AT(p) cells[(p) * TJ]
{{ window_sums() }}
#undef AT
{% if overlay %}
        barrier(CLK_LOCAL_MEM_FENCE);    // one window an item: all have read the tile, which is overwritten now
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
    if (top + TJ <= columns && left + TI <= length) {
{{ store_tile(true) }}
    } else
{% endif %}
    {
{{ store_tile(false) }}
    }
{% endif %}
{% endif %}
}
