// GEMM for GPUs: tiles of both operands flow through STAGES of local memory by asynchronous copies, each work-item keeps a
// register tile and, with DOUBLE, loads the next operands from local memory while it multiplies the current ones.
//
// C = alpha op(A) op(B) + beta C, every operand row-major. Both tiles lie in local memory as KB rows of neighbours across
// k, whatever the storage: A_FROM and B_FROM say where a tile comes from:
//   panel     panels of pack.cl, as wide as the tile, zeros where the operand ends
//   vectors   stored with k slow, 16 bytes at a time
//   elements  stored with k slow, an element at a time, for storage that is not aligned
//   columns   stored with k fast, an element at a time, transposed on the way
// A_EDGE, B_EDGE: the tile or KB does not divide the operand, copies past its end bring zeros.
// Group (x, y) owns tile x in the order of RASTER and k in [y chunk, (y + 1) chunk); with SPLIT bare sums go to plane y of
// `c`. The KG parts of a group share the k of each stage and add their sums in the end, in order. A warp has LANES
// work-items along columns. With MMA (float64 on NVIDIA) a warp multiplies 16 x 8 x 8 blocks: a work-item owns rows 2g, 2g + 1
// and columns 4t .. 4t + 3 of every 16 x 16 block (g = lane / 4, t = lane % 4), so every operand load is 16 bytes.
{% set rows = TRR * TR %}
{% set cols = TCR * TC %}
{% set bm = TBR * rows %}
{% set bn = TBC * cols %}
{% set team = TBR * TBC %}
{% set items = team * KG %}
{% set steps = KB // KG // (8 if MMA else 1) %}
{% set vector = 16 // itemsize %}
{% set lda_tile = bm + PAD %}
{% set ldb_tile = bn + PAD %}
{% set stage = KB * (lda_tile + ldb_tile) %}
{% set space = [STAGES * stage, bm * bn if KG > 1 else 0] | max %}
{% if real == "double" %}
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
{% endif %}
{% macro copy(bytes, to, from, condition) %}COPY_ASYNC_{{ bytes }}{{ "_IF" if condition }}({{ to }}, {{ from }}{{ ", " ~ condition if condition }}){% endmacro %}
{# the copies of one tile: `x` names the operand, `wide` is its tile, `edge` whether to guard, `first`, `end` its range across k #}
{% macro fetch(x, source, wide, pitch, edge, ld, first, end) %}
{% set width = vector if source in ("panel", "vectors") else 1 %}
{% set slots = KB * wide // width %}
{% for s in range((slots + items - 1) // items) %}
{% set slot = "item + %d" % (s * items) %}
{% set per = wide // width %}
{% if source == "columns" %}
{% set kk = "(item %% %d)" % KB if items % KB == 0 else "((%s) %% %d)" % (slot, KB) %}
{% set i = "(item / %d + %d)" % (KB, s * items // KB) if items % KB == 0 else "((%s) / %d)" % (slot, KB) %}
{% set from = "%s_at + (long)%s * %s + %s" % (x, i, ld, kk) %}
{% else %}
{% set kk = "(item / %d + %d)" % (per, s * items // per) if items % per == 0 else "((%s) / %d)" % (slot, per) %}
{% set i = "(item %% %d * %d)" % (per, width) if items % per == 0 else "((%s) %% %d * %d)" % (slot, per, width) %}
{% set from = "%s_at + (%s) * %d" % (x, slot, width) if source == "panel" else "%s_at + (long)%s * %s + %s" % (x, kk, ld, i) %}
{% endif %}
{% set condition = "%s + %s < %s && k_next + %s < k1" % (first, i, end, kk) if edge else "" %}
{% if slots % items and loop.last %}
            if ({{ slot }} < {{ slots }})
    {% endif %}
            {{ copy(width * itemsize, "%s_to + %s * %d + %s" % (x, kk, pitch, i), from, condition) }};
{% endfor %}
{% endmacro %}
{% macro fetch_a() %}{{ fetch("a", A_FROM, bm, lda_tile, A_EDGE, "lda", "row0", "m") }}{% endmacro %}
{% macro fetch_b() %}{{ fetch("b", B_FROM, bn, ldb_tile, B_EDGE, "ldb", "col0", "n") }}{% endmacro %}
{% macro stride(source, wide, ld) %}{{ wide * KB if source == "panel" else KB if source == "columns" else "(long)%s * %d" % (ld, KB) }}{% endmacro %}
{% macro advance() %}
            a_at += {{ stride(A_FROM, bm, "lda") }};
            b_at += {{ stride(B_FROM, bn, "ldb") }};
            k_next += {{ KB }};
            write = write == {{ (STAGES - 1) * stage }} ? 0 : write + {{ stage }};
{% endmacro %}
{# operands of step `s` of the stage at offset `read`, to set `set` #}
{% macro operands(set, s) %}
            {
{% set k_of = ("(part * %d + %s * 8 + lane %% 4)" if MMA else "(part * %d + %s)") % (KB // KG, s) %}
                __local const {{ real }}* a_from = tiles + read + {{ k_of }} * {{ lda_tile }} + tr * {{ TR }};
                __local const {{ real }}* b_from = tiles + read + {{ KB * lda_tile }} + {{ k_of }} * {{ ldb_tile }} + {{ "warp_col * 16 + lane / 4 * 2" if MMA else "tc * %d" % TC }};
{% for half in range(2 if MMA else 1) %}
{% for r in range(0, rows, VL) %}
                {
                    const {{ real }}{{ VL }} v = LDS((__local const {{ real }}{{ VL }}*)(a_from + {{ half * 4 * lda_tile + (r // TR) * TBR * TR + r % TR }}));
{% for e in range(VL) %}
                    a[{{ set }}][{{ half * rows + r + e }}] = v.s{{ e }};
{% endfor %}
                }
{% endfor %}
{% for c in range(0, cols // (2 if MMA else 1), VL) %}
                {
                    const {{ real }}{{ VL }} v = LDS((__local const {{ real }}{{ VL }}*)(b_from + {{ half * 4 * ldb_tile + ((c // 2) * TBC * TC if MMA else (c // TC) * TBC * TC + c % TC) }}));
{% for e in range(VL) %}
                    b[{{ set }}][{{ half * cols // 2 + c + e if MMA else c + e }}] = v.s{{ e }};
{% endfor %}
                }
{% endfor %}
{% endfor %}
            }
{% endmacro %}
{# neighbouring products share an operand, also where a row ends #}
{% macro multiply(set) %}
{% if MMA %}
{% for r in range(TRR) %}
{% for c in range(2 * TCR) %}
{% set j = 2 * TCR - 1 - c if r % 2 else c %}
{% set q = j // 2 * 4 + j % 2 %}
            asm volatile("mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 { %0, %1, %2, %3 }, { %4, %5, %6, %7 }, { %8, %9 }, { %0, %1, %2, %3 };"
                : "+d"(acc[{{ 2 * r }}][{{ q }}]), "+d"(acc[{{ 2 * r }}][{{ q + 2 }}]), "+d"(acc[{{ 2 * r + 1 }}][{{ q }}]), "+d"(acc[{{ 2 * r + 1 }}][{{ q + 2 }}])
                : "d"(a[{{ set }}][{{ 2 * r }}]), "d"(a[{{ set }}][{{ 2 * r + 1 }}]), "d"(a[{{ set }}][{{ rows + 2 * r }}]), "d"(a[{{ set }}][{{ rows + 2 * r + 1 }}]),
                  "d"(b[{{ set }}][{{ j }}]), "d"(b[{{ set }}][{{ cols // 2 + j }}]));
{% endfor %}
{% endfor %}
{% else %}
{% for r in range(rows) %}
{% for c in range(cols) %}
{% set j = cols - 1 - c if r % 2 else c %}
            acc[{{ r }}][{{ j }}] = {{ "a[%s][%d] * b[%s][%d] + acc[%d][%d]" % (set, r, set, j, r, j) if MAD == "a*b+c" else "%s(a[%s][%d], b[%s][%d], acc[%d][%d])" % (MAD, set, r, set, j, r, j) }};
{% endfor %}
{% endfor %}
{% endif %}
{% endmacro %}

__kernel __attribute__((reqd_work_group_size({{ items }}, 1, 1)))
void gemm(const int m, const int n, const int k, const int chunk, const {{ real }} alpha, const {{ real }} beta,
          __global const {{ real }}* restrict a_base, const long a_offset, const int lda,
          __global const {{ real }}* restrict b_base, const long b_offset, const int ldb,
          __global {{ real }}* restrict c_base, const long c_offset, const int ldc{{ ", __local %s* tiles" % real if LOCAL_ARGUMENT }})
{
{% if not LOCAL_ARGUMENT %}
    __local {{ real }} tiles[{{ space }}] __attribute__((aligned(128)));
{% endif %}
    const int item = (int)get_local_id(0), part = item / {{ team }};
    const int warp = item % {{ team }} / 32, lane = item % 32;
    const int warp_row = warp / {{ TBC // LANES }}, warp_col = warp % {{ TBC // LANES }};
    const int tr = warp_row * {{ 32 // LANES }} + lane / {{ LANES }}, tc = warp_col * {{ LANES }} + lane % {{ LANES }};

    const int across = (n - 1) / {{ bn }} + 1, group = (int)get_group_id(0);
{% if RASTER == 1 %}
    const int row0 = group / across * {{ bm }}, col0 = group % across * {{ bn }};
{% else %}
    const int band = group / ({{ RASTER }} * across), within = group - band * ({{ RASTER }} * across);
    const int height = min({{ RASTER }}, (m - 1) / {{ bm }} + 1 - band * {{ RASTER }});
    const int row0 = (band * {{ RASTER }} + within % height) * {{ bm }}, col0 = within / height * {{ bn }};
{% endif %}
    const int k0 = (int)get_group_id(1) * chunk;
    const int k1 = alpha == 0 ? k0 : min(k, k0 + chunk);  // alpha = 0 must not read A or B
    const int count = (k1 - k0 + {{ KB - 1 }}) / {{ KB }};

{% for x, source, wide, place, ld in (("a", A_FROM, bm, "row0", "lda"), ("b", B_FROM, bn, "col0", "ldb")) %}
    __global const {{ real }}* {{ x }}_at = {{ x }}_base +
{%- if source == "panel" %} (long){{ place }} * ((k + {{ KB - 1 }}) / {{ KB }} * {{ KB }}) + (long)k0 * {{ wide }};
{% elif source == "columns" %} {{ x }}_offset + (long){{ place }} * {{ ld }} + k0;
{% else %} {{ x }}_offset + (long)k0 * {{ ld }} + {{ place }};
{% endif %}
{% endfor %}

    {{ real }} acc[{{ rows }}][{{ cols }}];
#pragma unroll
    for (int r = 0; r < {{ rows }}; ++r)
#pragma unroll
        for (int c = 0; c < {{ cols }}; ++c)
            acc[r][c] = 0;
    {{ real }} a[{{ 2 if DOUBLE else 1 }}][{{ rows * (2 if MMA else 1) }}], b[{{ 2 if DOUBLE else 1 }}][{{ cols }}];

    int k_next = k0, read = 0, write = 0;
{% if STAGES > 1 %}
#pragma unroll
    for (int early = 0; early < {{ STAGES - 1 }}; ++early) {
        if (early < count) {
            __local {{ real }}* a_to = tiles + write;
            __local {{ real }}* b_to = tiles + write + {{ KB * lda_tile }};
{{ fetch_a() }}{{ fetch_b() }}{{ advance() }}        }
        COPY_ASYNC_COMMIT();
    }
{% if DOUBLE %}
    COPY_ASYNC_WAIT({{ STAGES - 2 }});
    barrier(CLK_LOCAL_MEM_FENCE);
{{ operands(0, "0") }}
{% endif %}
{% endif %}
    for (int tile = 0; tile < count; ++tile) {
        __local {{ real }}* a_to = tiles + write;
        __local {{ real }}* b_to = tiles + write + {{ KB * lda_tile }};
{% if STAGES == 1 %}
        barrier(CLK_LOCAL_MEM_FENCE);
{{ fetch_a() }}{{ fetch_b() }}{{ advance() }}        COPY_ASYNC_COMMIT();
        COPY_ASYNC_WAIT(0);
        barrier(CLK_LOCAL_MEM_FENCE);
{% elif not DOUBLE %}
        COPY_ASYNC_WAIT({{ STAGES - 2 }});
        barrier(CLK_LOCAL_MEM_FENCE);
        if (tile + {{ STAGES - 1 }} < count) {
{{ fetch_a() }}{{ fetch_b() }}{{ advance() }}        }
        COPY_ASYNC_COMMIT();
{% endif %}
{% for s in range(steps) %}
{% if DOUBLE %}
{% if s == steps - 1 %}
        // every work-item has its operands of this stage: it may be written, and the next one is complete
        COPY_ASYNC_WAIT({{ STAGES - 2 }});
        barrier(CLK_LOCAL_MEM_FENCE);
        read = read == {{ (STAGES - 1) * stage }} ? 0 : read + {{ stage }};
{% endif %}
{{ operands((s + 1) % 2, (s + 1) % steps) }}
{% set later = 1 if steps > 2 else 0 %}
{% if s == 0 %}
        if (tile + {{ STAGES - 1 }} < count) {
{{ fetch_a() }}        }
{% endif %}
{% if s == later %}
        if (tile + {{ STAGES - 1 }} < count) {
{{ fetch_b() }}{{ advance() }}        }
        COPY_ASYNC_COMMIT();
{% endif %}
{{ multiply(s % 2) }}
{% else %}
{{ operands(0, s) }}
{{ multiply(0) }}
{% endif %}
{% endfor %}
{% if not DOUBLE and STAGES > 1 %}
        read = read == {{ (STAGES - 1) * stage }} ? 0 : read + {{ stage }};
{% endif %}
    }

{% if KG > 1 %}
#pragma unroll
    for (int other = 1; other < {{ KG }}; ++other) {
        barrier(CLK_LOCAL_MEM_FENCE);
        if (part == other) {
#pragma unroll
            for (int r = 0; r < {{ rows }}; ++r)
#pragma unroll
                for (int c = 0; c < {{ cols }}; ++c)
                    tiles[(r * {{ cols }} + c) * {{ team }} + item % {{ team }}] = acc[r][c];
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        if (part == 0) {
#pragma unroll
            for (int r = 0; r < {{ rows }}; ++r)
#pragma unroll
                for (int c = 0; c < {{ cols }}; ++c)
                    acc[r][c] += tiles[(r * {{ cols }} + c) * {{ team }} + item % {{ team }}];
        }
    }
    if (part > 0)
        return;
{% endif %}

    __global {{ real }}* c_at = c_base + c_offset + (long)row0 * ldc + col0{{ " + (long)get_group_id(1) * m * n" if SPLIT }};
{% set w = VL if C_VECTORS else 1 %}
{% set realw = real if w == 1 else real ~ w %}
    if (row0 + {{ bm }} <= m && col0 + {{ bn }} <= n) {
#pragma unroll
        for (int r = 0; r < {{ rows }}; ++r) {
            __global {{ real }}* c_row = c_at + (long)(r / {{ TR }} * {{ TBR * TR }} + r % {{ TR }} + tr * {{ TR }}) * ldc + tc * {{ TC }};
#pragma unroll
            for (int c = 0; c < {{ cols }}; c += {{ w }}) {
                __global {{ realw }}* to = (__global {{ realw }}*)(c_row + c / {{ TC }} * {{ TBC * TC }} + c % {{ TC }});
{% if w == 1 %}
                const {{ real }} sum = acc[r][c];
{% else %}
                const {{ realw }} sum = ({{ realw }})({% for e in range(w) %}acc[r][c + {{ e }}]{{ ", " if not loop.last }}{% endfor %});
{% endif %}
{% if SPLIT %}
                *to = sum;
{% else %}
                if (beta == 0)
                    *to = alpha * sum;
                else
                    *to = alpha * sum + beta * *to;
{% endif %}
            }
        }
    } else {
#pragma unroll
        for (int r = 0; r < {{ rows }}; ++r) {
            const int i = r / {{ TR }} * {{ TBR * TR }} + r % {{ TR }} + tr * {{ TR }};
#pragma unroll
            for (int c = 0; c < {{ cols }}; ++c) {
                const int j = c / {{ TC }} * {{ TBC * TC }} + c % {{ TC }} + tc * {{ TC }};
                if (row0 + i < m && col0 + j < n) {
                    __global {{ real }}* to = c_at + (long)i * ldc + j;
                    *to = {% if SPLIT %}acc[r][c]{% else %}alpha * acc[r][c] + (beta == 0 ? 0 : beta * *to){% endif %};
                }
            }
        }
    }
}
