{#
   C has few columns, so a work-item computes TR rows x all TC columns, and the work-items of a work-group share k (here KG = 4):

        A: m x k                                              B: k x n, TC columns; with SM KB steps in local memory
        +------+------+------+------+------+------+           +--+
        | p 0  | p 1  | p 2  | p 3  | p 0  | p 1  | ...  TR   |p0|    part p of a block has every KG-th run of k:
        +------+------+------+------+------+------+      rows |p1|    K_FAST: a vector along k, UNROLL of them under way;
        | p 0  | p 1  | p 2  | p 3  | p 0  | p 1  | ...       |p2|    else UNROLL steps, whose vectors lie across k
        +------+------+------+------+------+------+           |p3|
          TBR such blocks to a group                          +--+

        registers: sum(r)_(c), TR x TC of each part; in the end the KG parts are added in local memory, `together` sums at a time
#}
// GEMM for GPUs if C has few rows or columns: every element of A is read once, in vectors, by the work-item that multiplies it.
//
// C = alpha op(A) op(B) + beta C; A is the large operand, m its long side; with TURN C is stored transposed. A work-item multiplies TR rows
// of op(A) by TC columns of op(B), with UNROLL vectors of A in flight for each row, and KG work-items share the k of these rows. If A has k
// fast (K_FAST), the KG work-items are neighbours and take vectors along k in turn; otherwise neighbours take vectors across k, and each of
// the KG parts takes every KG-th block of UNROLL steps of k, so that loads are coalesced. Their sums are added up in local memory in a
// fixed order. With STAGES > 1 asynchronous copies bring a work-item's vectors to its own place in local memory, STAGES - 1 blocks ahead of
// their use, so that registers limit neither the loads in flight nor the occupancy.
// A is read in vectors of W elements: VL, or less if its alignment requires. With SM the work-group keeps KB steps of its columns of op(B)
// in local memory; otherwise they come from the cache. Rows and columns past the end repeat the last one and are not stored.
// Work-group (x, y): tile x, over `chunk` steps of k from start + y chunk on; with SPLIT it stores bare sums to plane y of `c`.
{% if JOIN %}
// Here the sums go to `planes`, tile by tile, and the last work-group of a tile adds them up for C: see join.cl.
{% endif %}
{% set realw = real if W == 1 else real ~ W %}
{% set items = TBR * KG %}
{% set values = TR * TC %}
{% set vectors = TR if K_FAST else TR // W %}
{% set loads = UNROLL * VL // W if K_FAST else UNROLL %}
{% set span = KG * UNROLL * (VL if K_FAST else 1) %}
{# the elements of a work-item in a stage, and of B's columns before the stages #}
{% set stage = vectors * loads * items * W %}
{% set pitch = KB + 16 // itemsize if K_FAST else TC %}
{# the width of loads of B: elements along k, or the columns of a step #}
{% set wide = W if K_FAST else [16 // itemsize, UNROLL * TC if SM else [UNROLL, B_WIDTH] | min] | min %}
{% set realb = real if wide == 1 else real ~ wide %}
{% set local_argument = ", __local %s* restrict local_space" % real if LOCAL_ARGUMENT else "" %}
{% macro of(vector, width, e) %}{{ vector if width == 1 else "%s.s%d" % (vector, e) }}{% endmacro %}
{% macro b_at(c, k) %}b{{ c }}[{{ k if B_FAST else "(long)(%s) * ldb" % k }}]{% endmacro %}
{% if real == "double" %}
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
{% endif %}
#define W {{ W }}
#define LOAD(p) (*(__global const {{ realw }}*)(p))

{# loads the vectors of a block of steps: `kk` is the work-item's first step, `left` the number of steps from the block's first one on #}
{% macro inside(u, left) %}{{ "part * W + %d <= %s" % (u * KG * W + W, left) if K_FAST else "part * %d + %d < %s" % (UNROLL, u, left) }}{% endmacro %}
{% macro vector(v, u, kk) %}{{ "a%d + %s + %d" % (v, kk, u * KG * W) if K_FAST else "a%d + (long)(%s + %d) * lda" % (v, kk, u) }}{% endmacro %}
{% macro slot(v, u, stage) %}ring + {{ stage }} + ({{ (v * loads + u) * items }} + item) * W{% endmacro %}
{% macro fetch() %}
{% for u in range(loads) %}
            {
                const int inside = {{ inside(u, "ahead") }};
{% for v in range(vectors) %}
                COPY_ASYNC_{{ W * itemsize }}_IF({{ slot(v, u, "write") }}, {{ vector(v, u, "head") }}, inside);
{% endfor %}
            }
{% endfor %}
            COPY_ASYNC_COMMIT();
            head += {{ span }};
            ahead -= {{ span }};
            write = write == {{ (STAGES - 1) * stage }} ? 0 : write + {{ stage }};
{% endmacro %}
{% macro take(guarded) %}
{% for u in range(loads) %}
{% if guarded %}
            const int inside{{ u }} = {{ inside(u, "left") }};
{% endif %}
{% for v in range(vectors) %}
{% if STAGES > 1 %}
            const {{ realw }} x{{ v }}_{{ u }} = *(__local const {{ realw }}*)({{ slot(v, u, "read") }});
{% elif guarded %}
            {{ realw }} x{{ v }}_{{ u }} = ({{ realw }})(0);
            if (inside{{ u }})
                x{{ v }}_{{ u }} = LOAD({{ vector(v, u, "kk") }});
{% else %}
            const {{ realw }} x{{ v }}_{{ u }} = LOAD({{ vector(v, u, "kk") }});
{% endif %}
{% endfor %}
{% endfor %}
{% endmacro %}
{# multiplies them by the columns of B #}
{% macro along_k(guarded) %}
{% for u in range(loads) %}
{% for c in range(TC) %}
            {
{% set at = "kk + %d" % (u * KG * W) %}
{% if SM %}
                const {{ realw }} y = *(__local const {{ realw }}*)(local_space + {{ c * pitch }} + kk - kb + {{ u * KG * W }});
{% else %}
                {{ realw }} y = ({{ realw }})(0);
                {{ "if (inside%d)" % u if guarded }}
                    y = {% if B_FAST and B_WIDTH >= W %}LOAD(b{{ c }} + {{ at }}){% elif W == 1 %}{{ b_at(c, at) }}{% else %}({{ realw }})({% for e in range(W) %}{{ b_at(c, "%s + %d" % (at, e)) }}{{ ", " if not loop.last }}{% endfor %}){% endif %};
{% endif %}
{% for r in range(TR) %}
{% for e in range(W) %}
                sum{{ r }}_{{ c }} += {{ of("x%d_%d" % (r, u), W, e) }} * {{ of("y", W, e) }};
{% endfor %}
{% endfor %}
            }
{% endfor %}
{% endfor %}
{% endmacro %}
{% macro across_k(guarded) %}
{% if SM %}
{% for i in range(0, UNROLL * TC, wide) %}
            const {{ realb }} y{{ i // wide }} = *(__local const {{ realb }}*)(local_space + (kk - kb) * TC + {{ i }});
{% endfor %}
{% elif not guarded and B_FAST %}
{% for c in range(TC) %}
{% for u in range(0, UNROLL, wide) %}
            const {{ realb }} y{{ c }}_{{ u // wide }} = *(__global const {{ realb }}*)(b{{ c }} + kk + {{ u }});
{% endfor %}
{% endfor %}
{% endif %}
{% for u in range(UNROLL) %}
{% for c in range(TC) %}
{% if SM %}
{% set y = of("y%d" % ((u * TC + c) // wide), wide, (u * TC + c) % wide) %}
{% elif not guarded and B_FAST %}
{% set y = of("y%d_%d" % (c, u // wide), wide, u % wide) %}
{% elif not guarded %}
{% set y = b_at(c, "kk + %d" % u) %}
{% else %}
{% set y = "(inside%d ? %s : 0)" % (u, b_at(c, "kk + %d" % u)) %}
{% endif %}
            {
                const {{ real }} y = {{ y }};
{% for v in range(vectors) %}
{% for e in range(W) %}
                sum{{ v * W + e }}_{{ c }} += {{ of("x%d_%d" % (v, u), W, e) }} * y;
{% endfor %}
{% endfor %}
            }
{% endfor %}
{% endfor %}
{% endmacro %}
{% macro multiply(guarded) %}{{ take(guarded) }}{{ along_k(guarded) if K_FAST else across_k(guarded) }}{% endmacro %}
{# the row of the tile for row `r` of the work-item at `place` among TBR #}
{% macro row(place, r) %}{{ "%s * TR + %s" % (place, r) if K_FAST else "(%s / W * TBR + %s) * W + %s %% W" % (r, place, r) }}{% endmacro %}
{# stores a sum: to C, or, if `left`, to the planes of sums that work-groups share #}
{% macro store(r, c, place, value, left=JOIN) %}
{% if left %}
        sums[(int)get_group_id(1) * {{ values * TBR }} + ({{ r }} * TC + {{ c }}) * TBR + {{ place }}] = {{ value }};
{% else %}
        {
            const int row = row0 + {{ row(place, r) }}, col = col0 + {{ c }};
            if (row < m && col < n) {
                __global {{ real }}* to = c_base + c_offset + {{ "(long)col * ldc + row" if TURN else "(long)row * ldc + col" }}{{ " + (long)get_group_id(1) * m * n" if SPLIT and not JOIN }};
                *to = {{ value if SPLIT and not JOIN else "beta == 0 ? alpha * (%s) : fma(alpha, %s, beta * *to)" % (value, value) if JOIN else "beta == 0 ? alpha * (%s) : alpha * (%s) + beta * *to" % (value, value) }};
            }
        }
{% endif %}
{% endmacro %}
{% if JOIN %}
{% from "join.cl" import arrival, last %}
{{ arrival() }}
{%- endif %}
__kernel __attribute__((reqd_work_group_size({{ "KG, TBR, 1" if K_FAST else "TBR, KG, 1" }})))
{% include "arguments.cl" %}
{
{% include "batch.cl" %}
{% if space and not LOCAL_ARGUMENT %}
    __local {{ real }} local_space[{{ space }}] __attribute__((aligned(64)));
{% endif %}
{% if JOIN and not space %}
    __local int flag;
{% endif %}
    const int part = (int)get_local_id({{ 0 if K_FAST else 1 }}), place = (int)get_local_id({{ 1 if K_FAST else 0 }});
    const int item = {{ "place * KG + part" if K_FAST else "part * TBR + place" }};
    const int across = (n - 1) / TC + 1, group = (int)get_group_id(0);
    const int row0 = group / across * (TBR * TR), col0 = group % across * TC;
{% if JOIN %}
    const int parts = (int)get_num_groups(1);
    const long joined = (long)get_group_id(2) * get_num_groups(0) + group;
    __global {{ real }}* sums = planes + joined * parts * {{ values * TBR }};
{% endif %}
    const int k0 = start + (int)get_group_id(1) * chunk;
    const int k1 = alpha == 0 ? k0 : min(k, k0 + chunk);  // alpha = 0 must not read A or B
{% for v in range(vectors) %}
    __global const {{ real }}* a{{ v }} = a_base + a_offset + {{ "(long)min(row0 + %s, m - 1) * lda" % row("place", v) if K_FAST else "min(row0 + %s, m - W)" % row("place", v * W) }};
{% endfor %}
{% for c in range(TC) %}
    __global const {{ real }}* b{{ c }} = b_base + b_offset + {{ "(long)" if B_FAST }}min(col0 + {{ c }}, n - 1){{ " * ldb" if B_FAST }};
{% endfor %}
    {{ real }} {% for r in range(TR) %}{% set last = loop.last %}{% for c in range(TC) %}sum{{ r }}_{{ c }} = 0{{ ", " if not (last and loop.last) }}{% endfor %}{% endfor %};

{% if STAGES > 1 %}
    __local {{ real }}* ring = local_space + {{ TC * (pitch if K_FAST else KB) if SM else 0 }};
    int write = 0, read = 0, head = k0 + part * {{ W if K_FAST else UNROLL }}, ahead = k1 - k0;
    for (int ready = 0; ready < {{ STAGES - 1 }}; ++ready) {
{{ fetch() }}    }
{% endif %}
{% macro block(guarded) %}
{% if STAGES > 1 %}
{{ fetch() }}            COPY_ASYNC_WAIT({{ STAGES - 1 }});
{% endif %}
{{ multiply(guarded) }}
{%- if STAGES > 1 %}
            read = read == {{ (STAGES - 1) * stage }} ? 0 : read + {{ stage }};
{% endif %}
{% endmacro %}
{% if SM %}
    for (int kb = k0; kb < k1; kb += KB) {
        const int ke = min(k1, kb + KB);
        if (kb > k0)
            barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll {{ 8 if KB * TC % items == 0 else 1 }}
        for (int e = item; e < KB * TC; e += {{ items }}) {
            const int kk = {{ "e % KB" if B_FAST else "e / TC" }}, c = {{ "e / KB" if B_FAST else "e % TC" }};
            local_space[{{ "c * %d + kk" % pitch if K_FAST else "kk * TC + c" }}] = kb + kk < k1 ? b_base[b_offset + {{ "(long)min(col0 + c, n - 1) * ldb + kb + kk" if B_FAST else "(long)(kb + kk) * ldb + min(col0 + c, n - 1)" }}] : 0;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
{% else %}
    {
        const int kb = k0, ke = k1;
{% endif %}
        int kk = kb + part * {{ W if K_FAST else UNROLL }}, left = ke - kb;
        for (; left >= {{ span }}; left -= {{ span }}, kk += {{ span }}) {
{{ block(false) }}        }
        if (left > 0) {
{{ block(true) }}        }
{% if K_FAST and W > 1 %}
        kk = ke - (ke - kb) % W + part;
        if (kk < ke) {  // the rest of the last vector
{% for c in range(TC) %}
            {
                const {{ real }} y = {{ "local_space[%d + kk - kb]" % (c * pitch) if SM else b_at(c, "kk") }};
{% for r in range(TR) %}
                sum{{ r }}_{{ c }} += a{{ r }}[kk] * y;
{% endfor %}
            }
{% endfor %}
        }
{% endif %}
    }
{% if KG == 1 %}
{% for r in range(TR) %}
{% for c in range(TC) %}
{{ store(r, c, "place", "sum%d_%d" % (r, c)) }}
{%- endfor %}
{% endfor %}
{% else %}
{# adds up `together` sums of every work-item at a time: `adders` work-items add up each sum's parts, then one of them adds up theirs #}
{% set slots = TBR * (KG + adders) if K_FAST else items %}
{% set outputs = together * TBR %}
{% for first in range(0, values, together) %}
{% if STAGES > 1 and first == 0 %}
    COPY_ASYNC_WAIT(0);
{% endif %}
    {{ "barrier(CLK_LOCAL_MEM_FENCE);" if SM or STAGES > 1 or first > 0 }}
{% for v in range(together) %}
    local_space[{{ v * slots }} + {{ "place * %d + part" % (KG + adders) if K_FAST else "item" }}] = sum{{ (first + v) // TC }}_{{ (first + v) % TC }};
{% endfor %}
    barrier(CLK_LOCAL_MEM_FENCE);
{% macro summed() %}
        const int at = {{ "output / TBR * %d + output %% TBR * %d" % (slots, KG + adders) if K_FAST else "output / TBR * %d + output %% TBR" % slots }};
        {{ real }} sum = 0;
#pragma unroll
        for (int other = 0; other < {{ KG // adders }}; ++other)
            sum += local_space[at + {{ "(other * %d + adder)" % adders if adders > 1 else "other" }}{{ "" if K_FAST else " * TBR" }}];
{% endmacro %}
{% if adders > 1 %}
    for (int e = item; e < {{ outputs * adders }}; e += {{ items }}) {
        const int output = e {{ "/ %d" % adders if K_FAST else "%% %d" % outputs }}, adder = e {{ "%% %d" % adders if K_FAST else "/ %d" % outputs }};
{{ summed() }}        local_space[{{ together * slots }} + output * {{ adders }} + adder] = sum;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
{% endif %}
    for (int output = item; output < {{ outputs }}; output += {{ items }}) {
{% if adders > 1 %}
        {{ real }} sum = 0;
#pragma unroll
        for (int adder = 0; adder < {{ adders }}; ++adder)
            sum += local_space[{{ together * slots }} + output * {{ adders }} + adder];
{% else %}
{{ summed() }}
{%- endif %}
        const int value = {{ first }} + output / TBR;
{{ store("(value / TC)", "value % TC", "(output % TBR)", "sum") }}    }
{% endfor %}
{% endif %}
{% if JOIN %}
{# whether several work-items share a sum, as in reduce.cl, if they would otherwise be idle and local memory suffices #}
{% set outputs = values * TBR %}
{% set shared = SHARES > 1 and KG > 1 and outputs * 2 <= items %}
{% set ahead = [(SPLIT_K + SHARES - 1) // SHARES if shared else SPLIT_K, 16] | min %}
{% if STAGES > 1 and KG == 1 %}
    COPY_ASYNC_WAIT(0);
{% endif %}
{{ last("local_space" if space else "&flag", "is_last") }}
{% if shared %}
{% set wide = items // SHARES %}
{% for first in range(0, outputs, wide) %}
    {
        const int share = item / {{ wide }};
        __global const {{ real }}* at = sums + {{ first }} + item % {{ [wide, outputs] | min }};
        {{ real }} sum = 0;
{{ "#pragma unroll 1" if SPLIT_K > ahead * SHARES else "#pragma unroll" }}
        for (int from = 0; from < (is_last ? {{ SPLIT_K }} : 0); from += {{ ahead * SHARES }})
#pragma unroll
            for (int next = 0; next < {{ ahead * SHARES }}; next += {{ SHARES }}) {
                const {{ real }} one = at[min(from + next + share, parts - 1) * {{ outputs }}];
                sum += from + next + share < parts ? one : 0;
            }
        barrier(CLK_LOCAL_MEM_FENCE);
        local_space[item] = sum;
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    for (int output = {{ first }} + item; output < (is_last ? {{ [first + wide, outputs] | min }} : 0); output += {{ items }}) {
        {{ real }} sum = 0;
#pragma unroll
        for (int share = 0; share < {{ SHARES }}; ++share)
            sum += local_space[output - {{ first }} + share * {{ wide }}];
{{ store("(output / TBR / TC)", "output / TBR % TC", "(output % TBR)", "sum", false) }}    }
{% endfor %}
{% else %}
    for (int output = item; output < (is_last ? {{ outputs }} : 0); output += {{ items }}) {
        {{ real }} total[{{ SHARES }}];
#pragma unroll
        for (int share = 0; share < {{ SHARES }}; ++share)
            total[share] = 0;
{{ "#pragma unroll 1" if SPLIT_K > ahead else "#pragma unroll" }}
        for (int from = 0; from < {{ SPLIT_K }}; from += {{ ahead }})
#pragma unroll
            for (int next = 0; next < {{ ahead }}; ++next) {
                const {{ real }} one = sums[min(from + next, parts - 1) * {{ outputs }} + output];
                total[next % {{ SHARES }}] += from + next < parts ? one : 0;
            }
        {{ real }} sum = total[0];
#pragma unroll
        for (int share = 1; share < {{ SHARES }}; ++share)
            sum += total[share];
{{ store("(output / TBR / TC)", "output / TBR % TC", "(output % TBR)", "sum", false) }}    }
{% endif %}
{% endif %}
}
