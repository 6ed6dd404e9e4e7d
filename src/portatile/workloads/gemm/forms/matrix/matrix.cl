{#
   The tile of C of a work-group, here with TBR = TBC = TRR = TCR = 2: each sub-group has a patch of TRR x TCR fragments of 16 x 16.

              bn = 16 TCR TBC columns
             +----+----+----+----+
             | 0  | 0  | 1  | 1  |        A's tile in local memory: bm rows of 128 bytes along k, then B's: bn rows, STAGES times;
       bm =  +----+----+----+----+        of an operand with k slow, of 2 bytes: blocks of 64 across, of each the rows of 64 steps of k,
       16    | 0  | 0  | 1  | 1  |        128 bytes across
       TRR   +----+----+----+----+
       TBR   | 2  | 2  | 3  | 3  |        registers: sums[TRR][TCR] and a[TRR], b[TCR] of a step of 32 bytes along k, twice with DOUBLE
             +----+----+----+----+
             | 2  | 2  | 3  | 3  |
             +----+----+----+----+

   With PROMOTE the products of a tile are summed in part[TRR][TCR] and then added to sums; with BLOCK after multiplication by block scales.

   In the end the sums go through local memory, so that neighbouring work-items store neighbouring elements of C.

   With TERMS = 2 an operand is the sum of two: high + 2^-11 low. A stage has the tiles of both, and C = A_high B_high
   + 2^-11 (A_low B_high + A_high B_low). Products of the high terms leave the unit after each step, to be added to nearest.
#}
// GEMM on matrix units: asynchronous copies bring tiles of both operands to a pipeline of STAGES in local memory; sub-groups load fragments
// of them, multiply and add.
//
// C = alpha op(A) op(B) + beta C, every operand row-major, products and sums in the arithmetic of MATRIX_MULTIPLY_ADD_{{ KIND }}.
// Work-group (x, y) computes tile x, in the order of RASTER, over `chunk` steps of k from start + y chunk on; with SPLIT it stores bare
// sums to plane y.
{% set bm = 16 * TRR * TBR %}
{% set bn = 16 * TCR * TBC %}
{% set lanes = 32 %}
{% set items = lanes * TBR * TBC %}
{% set depth = 128 // itemsize %}
{% set piece = 16 // itemsize %}
{% set stage = TERMS * 128 * (bm + bn) %}
{% set jump = items // 8 %}
{% set pitch = bn + 8 %}
{% set steps = 4 %}
{% set local_argument = ", __local uchar* tiles" if LOCAL_ARGUMENT else "" %}
{% from "store.cl" import endings, scaling, store with context %}
{% from "elements.cl" import block_factor with context %}
{# the number of rows of 128 bytes in each of which a work-item copies one chunk #}
{% macro copies(x, wide, along, edge, first, end) %}
{% set slots = wide // jump %}
{% for term in range(TERMS) %}
{% set deep = " + %d" % (term * wide * 128) if term else "" %}
{% set far = "%s_plane + " % x if term else "" %}
#pragma unroll
            for (int s = 0; s < {{ slots }}; ++s) {
{% if along %}
{% set from = "%s_at + (long)min(s * %d, %s_last) * ld%s" % (x, jump, x, x) if edge else "%s_at + (long)(s * %d) * ld%s" % (x, jump, x) %}
{% set bytes = "clamp((k1 - k_next - %s_k) * %d, 0, 16)" % (x, itemsize) %}
{% set part = K_EDGE %}
{% else %}
{% set from = "%s_at + (long)(s * %d %% %d) * ld%s + s * %d / %d * 64" % (x, jump, depth, x, jump, depth) %}
{% set bytes = "%s + s * %d %% %d < k1 ? clamp((%s - %s_first - s * %d / %d * 64) * %d, 0, 16) : 0" % ("k_next + %s_k" % x, jump, depth, end, x, jump, depth, itemsize) %}
{% set part = edge or K_EDGE %}
{% endif %}
{% if part %}
                const int {{ x }}_bytes = {{ bytes }};
                COPY_ASYNC_16_PART({{ x }}_to + s * {{ jump * 128 }}, {{ x }}_bytes > 0 ? {{ from }} : {{ x }}_base, {{ x }}_bytes);
{% else %}
                COPY_ASYNC_16({{ x }}_to{{ deep }} + s * {{ jump * 128 }}, {{ far }}{{ from }});
{% endif %}
            }
{% endfor %}
{% endmacro %}
{% macro fetch_a() %}{{ copies("a", bm, A_ALONG, A_EDGE, "row0", "m") }}{% endmacro %}
{% macro fetch_b() %}{{ copies("b", bn, B_ALONG, B_EDGE, "col0", "n") }}{% endmacro %}
{% macro place(x, along, edge, first, end) %}
{% if along %}
    const int {{ x }}_k = item % 8 * {{ piece }};
{% if edge %}
    const int {{ x }}_first = min({{ first }} + item / 8, {{ end }} - 1), {{ x }}_last = {{ end }} - 1 - {{ x }}_first;
{% else %}
    const int {{ x }}_first = {{ first }} + item / 8;
{% endif %}
    __global const {{ stored }}* {{ x }}_at = {{ x }}_base + {{ x }}_offset + (long){{ x }}_first * ld{{ x }} + k0 + {{ x }}_k;
{% else %}
    const int {{ x }}_k = item / 8, {{ x }}_first = {{ first }} + item % 8 * {{ piece }};
    __global const {{ stored }}* {{ x }}_at = {{ x }}_base + {{ x }}_offset + (long)(k0 + {{ x }}_k) * ld{{ x }} + {{ x }}_first;
{% endif %}
{% endmacro %}
{% macro advance() %}
            a_at += {{ depth if A_ALONG else "(long)lda * %d" % depth }};
            b_at += {{ depth if B_ALONG else "(long)ldb * %d" % depth }};
            k_next += {{ depth }};
            write = write == {{ (STAGES - 1) * stage }} ? 0 : write + {{ stage }};
{% endmacro %}
{% macro targets() %}
            __local uchar* a_to = tiles + write + target;
            __local uchar* b_to = a_to + {{ TERMS * bm * 128 }};
{% endmacro %}
{% macro load_x(x, upper, along, count, at, base, set, step) %}
#pragma unroll
            for (int i = 0; i < {{ count }}; ++i)
{% if along %}
                MATRIX_LOAD_{{ upper }}({{ x }}[{{ set }}][i], tiles + read{{ base }}, {{ at }} + i * 16, ({{ step }}) * 2, lane);
{% else %}
                MATRIX_LOAD_{{ upper }}_T({{ x }}[{{ set }}][i], tiles + read{{ base }} + ({{ at }} + i * 16) / 64 * {{ depth * 128 }}, ({{ step }}) * 16, ({{ at }} + i * 16) / 8 % 8, lane);
{% endif %}
{% endmacro %}
{% macro load(set, step) %}
{{ load_x("a", "A", A_ALONG, TRR, "at_row", "", set, step) }}{{ load_x("b", "B", B_ALONG, TCR, "at_col", " + %d" % (bm * 128), set, step) }}
{%- endmacro %}
{# both terms of the operands of a step, and their three products #}
{% macro multiply_terms() %}
{% for term in range(TERMS) %}
{{ load_x("a", "A", A_ALONG, TRR, "at_row", " + %d" % (term * bm * 128), term, "step") }}{{ load_x("b", "B", B_ALONG, TCR, "at_col", " + %d" % (TERMS * bm * 128 + term * bn * 128), term, "step") }}
{%- endfor %}
#pragma unroll
            for (int i = 0; i < {{ TRR }}; ++i)
#pragma unroll
                for (int j = 0; j < {{ TCR }}; ++j) {
                    matrix_f32 high;
                    MATRIX_CLEAR(high);
                    MATRIX_MULTIPLY_ADD_{{ KIND }}(low[i][j], a[1][i], b[0][j]);
                    MATRIX_MULTIPLY_ADD_{{ KIND }}(low[i][j], a[0][i], b[1][j]);
                    MATRIX_MULTIPLY_ADD_{{ KIND }}(high, a[0][i], b[0][j]);
#pragma unroll
                    for (int e = 0; e < MATRIX_ELEMENTS; ++e)
                        sums[i][j].r[e] += high.r[e];
                }
{% endmacro %}
{# adds the products of a tile, which were summed separately, to the sums #}
{% macro promote() %}
{% if BLOCK %}
        const int block = (k0 + tile * {{ depth }}) / {{ BLOCK }};
{% endif %}
#pragma unroll
        for (int i = 0; i < {{ TRR }}; ++i)
#pragma unroll
            for (int j = 0; j < {{ TCR }}; ++j) {
#pragma unroll
                for (int e = 0; e < MATRIX_ELEMENTS; ++e)
{% if BLOCK %}
                {
                    const int row = row0 + at_row + i * 16 + MATRIX_ROW(lane, e), column = col0 + at_col + j * 16 + MATRIX_COLUMN(lane, e);
                    sums[i][j].r[e] += part[i][j].r[e] * ({{ block_factor("a", "min(row, m - 1)", "block") }} * {{ block_factor("b", "min(column, n - 1)", "block") }});
                }
{% else %}
                    sums[i][j].r[e] += part[i][j].r[e];
{% endif %}
                MATRIX_CLEAR(part[i][j]);
            }
{% endmacro %}
{% macro multiply(set) %}
#pragma unroll
            for (int i = 0; i < {{ TRR }}; ++i)
#pragma unroll
                for (int c = 0; c < {{ TCR }}; ++c) {
                    const int j = i % 2 ? {{ TCR - 1 }} - c : c;
                    MATRIX_MULTIPLY_ADD_{{ KIND }}({{ "part" if PROMOTE else "sums" }}[i][j], a[{{ set }}][i], b[{{ set }}][j]);
                }
{% endmacro %}

{{ endings() }}
{% if TERMS > 1 %}
{{ scaling() }}
{% endif %}
__kernel __attribute__((reqd_work_group_size({{ items }}, 1, 1)))
{% include "arguments.cl" %}
{
{% if not LOCAL_ARGUMENT %}
    __local uchar tiles[{{ local_bytes }}] __attribute__((aligned(1024)));
{% endif %}
{% include "batch.cl" %}
    const int item = (int)get_local_id(0), lane = item % {{ lanes }}, warp = item / {{ lanes }};
    const int at_row = warp / {{ TBC }} * {{ 16 * TRR }}, at_col = warp % {{ TBC }} * {{ 16 * TCR }};
    const int target = MATRIX_AT(item / 8, item % 8);

    const int across = (n - 1) / {{ bn }} + 1, group = (int)get_group_id(0);
{% if RASTER == 0 %}
    const int down = (m - 1) / {{ bm }} + 1, row0 = group % down * {{ bm }}, col0 = group / down * {{ bn }};
{% elif RASTER == 1 %}
    const int row0 = group / across * {{ bm }}, col0 = group % across * {{ bn }};
{% else %}
    const int band = group / ({{ RASTER }} * across), within = group - band * ({{ RASTER }} * across);
    const int height = min({{ RASTER }}, (m - 1) / {{ bm }} + 1 - band * {{ RASTER }});
    const int row0 = (band * {{ RASTER }} + within % height) * {{ bm }}, col0 = within / height * {{ bn }};
{% endif %}
    const int k0 = start + (int)get_group_id(1) * chunk;
    const int k1 = alpha == 0 ? k0 : min(k, k0 + chunk);  // alpha = 0 must not read A or B
    const int count = (k1 - k0 + {{ depth - 1 }}) / {{ depth }};

{{ place("a", A_ALONG, A_EDGE, "row0", "m") }}{{ place("b", B_ALONG, B_EDGE, "col0", "n") }}
    matrix_{{ "s32" if KIND == "S8" else "f32" }} sums[{{ TRR }}][{{ TCR }}];
#pragma unroll
    for (int i = 0; i < {{ TRR }}; ++i)
#pragma unroll
        for (int j = 0; j < {{ TCR }}; ++j)
            MATRIX_CLEAR(sums[i][j]);
{% if PROMOTE %}
    matrix_f32 part[{{ TRR }}][{{ TCR }}];
#pragma unroll
    for (int i = 0; i < {{ TRR }}; ++i)
#pragma unroll
        for (int j = 0; j < {{ TCR }}; ++j)
            MATRIX_CLEAR(part[i][j]);
{% endif %}
{% if TERMS > 1 %}
    matrix_f32 low[{{ TRR }}][{{ TCR }}];
#pragma unroll
    for (int i = 0; i < {{ TRR }}; ++i)
#pragma unroll
        for (int j = 0; j < {{ TCR }}; ++j)
            MATRIX_CLEAR(low[i][j]);
    const long a_plane = (long)m * lda, b_plane = (long)n * ldb;
{% endif %}
    matrix_a a[{{ 2 if DOUBLE or TERMS > 1 else 1 }}][{{ TRR }}];
    matrix_b b[{{ 2 if DOUBLE or TERMS > 1 else 1 }}][{{ TCR }}];

    int k_next = k0, read = 0, write = 0;
#pragma unroll
    for (int early = 0; early < {{ STAGES - 1 }}; ++early) {
        if (early < count) {
{{ targets() }}{{ fetch_a() }}{{ fetch_b() }}{{ advance() }}        }
        COPY_ASYNC_COMMIT();
    }
{% if DOUBLE %}
    COPY_ASYNC_WAIT({{ STAGES - 2 }});
    barrier(CLK_LOCAL_MEM_FENCE);
    {
{{ load("0", "0") }}    }
{% endif %}
#pragma unroll 1
    for (int tile = 0; tile < count; ++tile) {
{{ targets() }}
{% if not DOUBLE %}
        COPY_ASYNC_WAIT({{ STAGES - 2 }});
        barrier(CLK_LOCAL_MEM_FENCE);
        if (tile + {{ STAGES - 1 }} < count) {
{{ fetch_a() }}{{ fetch_b() }}{{ advance() }}        }
        COPY_ASYNC_COMMIT();
{% endif %}
#pragma unroll
        for (int step = 0; step < {{ steps }}; ++step) {
{% if DOUBLE %}
            if (step == {{ steps - 1 }}) {
                // all work-items have loaded their fragments of this stage, so it may be overwritten; and the next stage is complete
                COPY_ASYNC_WAIT({{ STAGES - 2 }});
                barrier(CLK_LOCAL_MEM_FENCE);
                read = read == {{ (STAGES - 1) * stage }} ? 0 : read + {{ stage }};
            }
{{ load("(step + 1) % 2", "(step + 1) %% %d" % steps) }}
            if (step == 0 && tile + {{ STAGES - 1 }} < count) {
{{ fetch_a() }}            }
            if (step == 1) {
                if (tile + {{ STAGES - 1 }} < count) {
{{ fetch_b() }}{{ advance() }}                }
                COPY_ASYNC_COMMIT();
            }
{{ multiply("step % 2") }}
{% elif TERMS > 1 %}
{{ multiply_terms() }}
{%- else %}
{{ load("0", "step") }}{{ multiply("0") }}
{% endif %}
        }
{% if PROMOTE %}
{{ promote() }}
{% endif %}
{% if not DOUBLE %}
        read = read == {{ (STAGES - 1) * stage }} ? 0 : read + {{ stage }};
{% endif %}
    }

{% if TERMS > 1 %}
#pragma unroll
    for (int i = 0; i < {{ TRR }}; ++i)
#pragma unroll
        for (int j = 0; j < {{ TCR }}; ++j)
#pragma unroll
            for (int e = 0; e < MATRIX_ELEMENTS; ++e)
                sums[i][j].r[e] += low[i][j].r[e] * 0.00048828125f;
{% endif %}
    COPY_ASYNC_WAIT(0);
    barrier(CLK_LOCAL_MEM_FENCE);
    __local {{ real }}* exchange = (__local {{ real }}*)tiles;
#pragma unroll
    for (int i = 0; i < {{ TRR }}; ++i)
#pragma unroll
        for (int j = 0; j < {{ TCR }}; ++j)
            MATRIX_STORE_{{ "S32" if KIND == "S8" else "F32" }}(sums[i][j], exchange + (at_row + i * 16) * {{ pitch }} + at_col + j * 16, {{ pitch }}, lane);
    barrier(CLK_LOCAL_MEM_FENCE);
    __global {{ real if SPLIT else stored_c }}* c_at = c_base + c_offset + (long)row0 * ldc + col0{{ " + (long)get_group_id(1) * m * n" if SPLIT }};
#pragma unroll {{ 4 if WIDE > 1 else 1 }}
    for (int at = item * {{ WIDE }}; at < {{ bm * bn }}; at += {{ items * WIDE }}) {
        const int i = at / {{ bn }}, j = at % {{ bn }};
        if ({{ "row0 + i < m && col0 + j < n" if C_EDGE else "1" }}) {
            __local const {{ real }}* from = exchange + i * {{ pitch }} + j;
            __global {{ real if SPLIT else stored_c }}* to = c_at + (long)i * ldc + j;
{{ store() }}        }
    }
}
