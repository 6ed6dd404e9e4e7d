// GEMM by the ten parameters of Du et al. (Table 4): C = alpha op(A) op(B) + beta C, every operand row-major.
//
// A work-group of TBR x TBC work-items computes TRR x TCR blocks of (TBR TR) x (TBC TC) elements, a work-item TR x TC of each.
// A is m x k, or k x m with TRANS_A; B is k x n, or n x k with TRANS_B. Group (x, y) owns tile x, counted along
// rows of tiles, and k from start + y chunk on, `chunk` steps. With SPLIT it stores its bare sums to plane y of `c`, for reduce.cl.
// With TXC the operands are images that stage.cl wrote; what lies outside an image reads as 0.
{% set rows = TRR * TR %}
{% set vectors = TCR * TC // VL %}
{% set realv = real if VL == 1 else real ~ VL %}
{% macro acc(r, v) %}{{ "acc_%d_%d" % (r, v) if SCALARS else "acc[%d][%d]" % (r, v) }}{% endmacro %}
{% macro frag_a(r) %}{{ "a_%d" % r if SCALARS else "a[%d]" % r }}{% endmacro %}
{% macro frag_b(v) %}{{ "b_%d" % v if SCALARS else "b[%d]" % v }}{% endmacro %}
{% macro row(r) %}({{ (r // TR) * TBR * TR + r % TR }} + tr * {{ TR }}){% endmacro %}
{% macro col(v) %}({{ (v * VL // TC) * TBC * TC + v * VL % TC }} + tc * {{ TC }}){% endmacro %}
{% if real == "double" %}
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
{% endif %}

#define BM (TBR * TR * TRR)
#define BN (TBC * TC * TCR)
#define ITEMS (TBR * TBC)
{% include "vectors.cl" %}

{% if TXC %}
__constant sampler_t nearest = CLK_NORMALIZED_COORDS_FALSE | CLK_ADDRESS_CLAMP | CLK_FILTER_NEAREST;
{% if real == "float" %}
#define PIXEL(image, x, y) read_imagef(image, nearest, (int2)(x, y))
{% else %}
#define PIXEL(image, x, y) as_double2(read_imageui(image, nearest, (int2)(x, y)))
{% endif %}
{% endif %}

{% macro multiply() %}
{% for r in range(rows) %}
{% for v in range(vectors) %}
            {{ acc(r, v) }} = MULTIPLY_ADD({{ frag_a(r) }}, {{ frag_b(v) }}, {{ acc(r, v) }});
{% endfor %}
{% endfor %}
{% endmacro %}
{# one step of k with operands read from global memory; `guarded` where a vector of columns may pass n #}
{% macro direct(guarded) %}
{% for r in range(rows) %}
            {{ frag_a(r) }} = a_row_{{ r }}[(long)kk * a_step];
{% endfor %}
{% for v in range(vectors) %}
{% if guarded or TRANS_B and VL > 1 %}
            {{ frag_b(v) }} = {% if VL == 1 %}b_at[(long)kk * b_step + (long)min(col0 + {{ col(v) }}, n - 1) * b_across]{% else %}({{ realv }})({% for e in range(VL) %}b_at[(long)kk * b_step + (long)min(col0 + {{ col(v) }} + {{ e }}, n - 1) * b_across]{{ ", " if not loop.last }}{% endfor %}){% endif %};
{% else %}
            {{ frag_b(v) }} = LOAD(b_at + (long)kk * b_step + (long)(col0 + {{ col(v) }}) * b_across);
{% endif %}
{% endfor %}
{{ multiply() }}{% endmacro %}
__kernel __attribute__((reqd_work_group_size(TBC, TBR, 1)))
{% include "arguments.cl" %}
{
{% include "batch.cl" %}
    const int tc = (int)get_local_id(0), tr = (int)get_local_id(1);
    const int across = (n - 1) / BN + 1;
    const int col0 = (int)get_group_id(0) % across * BN, row0 = (int)get_group_id(0) / across * BM;
    const int k0 = start + (int)get_group_id(1) * chunk;
    const int k1 = alpha == 0 ? k0 : min(k, k0 + chunk);  // alpha = 0 must not read A or B
{% if not TXC %}
    __global const {{ real }}* a_at = a_base + a_offset;
    __global const {{ real }}* b_at = b_base + b_offset;
{% endif %}
{% if SCALARS %}
{% for r in range(rows) %}
    {{ realv }} {% for v in range(vectors) %}{{ acc(r, v) }} = ({{ realv }})(0){{ ", " if not loop.last }}{% endfor %};
{% endfor %}
    {{ real }} {% for r in range(rows) %}{{ frag_a(r) }}{{ ", " if not loop.last }}{% endfor %};
    {{ realv }} {% for v in range(vectors) %}{{ frag_b(v) }}{{ ", " if not loop.last }}{% endfor %};
{% else %}
    {{ realv }} acc[{{ rows }}][{{ vectors }}];
#pragma unroll
    for (int r = 0; r < {{ rows }}; ++r)
#pragma unroll
        for (int v = 0; v < {{ vectors }}; ++v)
            acc[r][v] = ({{ realv }})(0);
    {{ real }} a[{{ rows }}];
    {{ realv }} b[{{ vectors }}];
{% endif %}

{% if SM %}
    __local {{ real }} a_tile[KB * (BM + PAD)] __attribute__((aligned(64)));
    __local {{ real }} b_tile[KB * (BN + PAD)] __attribute__((aligned(64)));
    const int item = tr * TBC + tc;
    for (int kb = k0; kb < k1; kb += KB) {
        // work-items take elements of the tile in storage order; their number need not divide the tile
{% if TXC %}
{% for x, wide, first in (("a", "BM", "row0"), ("b", "BN", "col0")) %}
        for (int e = item; e < {{ wide }} / {{ pixel }} * KB; e += ITEMS) {
            const int kk = e / ({{ wide }} / {{ pixel }}), i = e % ({{ wide }} / {{ pixel }});
            const {{ real }}{{ pixel }} value = PIXEL({{ x }}_image, kb + kk, {{ first }} / {{ pixel }} + i);
{% for e in range(pixel) %}
            {{ x }}_tile[kk * ({{ wide }} + PAD) + i * {{ pixel }} + {{ e }}] = value.s{{ e }};
{% endfor %}
        }
{% endfor %}
{% else %}
{% for x, i, wide, first, end, k_fast in (("a", "i", "BM", "row0", "m", not TRANS_A), ("b", "j", "BN", "col0", "n", TRANS_B)) %}
        for (int e = item; e < {{ wide }} * KB; e += ITEMS) {
            const int {{ "%s = e / KB, kk = e %% KB" % i if k_fast else "kk = e / %s, %s = e %% %s" % (wide, i, wide) }};
            const int inside = kb + kk < k1 && {{ first }} + {{ i }} < {{ end }};
{% set from = "(long)(%s + %s) * ld%s + kb + kk" % (first, i, x) if k_fast else "(long)(kb + kk) * ld%s + %s + %s" % (x, first, i) %}
            {{ x }}_tile[kk * ({{ wide }} + PAD) + {{ i }}] = inside ? {{ x }}_at[{{ from }}] : 0;
        }
{% endfor %}
{% endif %}
        barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll {{ UNROLL }}
        for (int kk = 0; kk < KB; ++kk) {
{% for r in range(rows) %}
            {{ frag_a(r) }} = a_tile[kk * (BM + PAD) + {{ row(r) }}];
{% endfor %}
{% for v in range(vectors) %}
            {{ frag_b(v) }} = *(__local const {{ realv }}*)(b_tile + kk * (BN + PAD) + {{ col(v) }});
{% endfor %}
{{ multiply() }}        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
{% elif TXC %}
    for (int kk = k0; kk < k1; kk += KB)
#pragma unroll {{ UNROLL }}
        for (int step = 0; step < KB; ++step) {
{% for r in range(0, rows, pixel) %}
            {{ real }}{{ pixel }} a_pixel_{{ r }} = PIXEL(a_image, kk + step, (row0 + {{ row(r) }}) / {{ pixel }});
{% for e in range(pixel) %}
            {{ frag_a(r + e) }} = a_pixel_{{ r }}.s{{ e }};
{% endfor %}
{% endfor %}
{% for v in range(vectors) %}
            {{ frag_b(v) }} = PIXEL(b_image, kk + step, (col0 + {{ col(v) }}) / {{ pixel }});
{% endfor %}
{{ multiply() }}        }
{% else %}
{% for r in range(rows) %}
    __global const {{ real }}* a_row_{{ r }} = a_at + (long)min(row0 + {{ row(r) }}, m - 1) * {{ "1" if TRANS_A else "lda" }};
{% endfor %}
    const int a_step = {{ "lda" if TRANS_A else "1" }}, b_step = {{ "1" if TRANS_B else "ldb" }}, b_across = {{ "ldb" if TRANS_B else "1" }};
    int kk = k0;
    if (col0 + BN <= n) {
        while (kk + KB <= k1) {
#pragma unroll {{ UNROLL }}
            for (int step = 0; step < KB; ++step) {
{{ direct(false) }}                ++kk;
            }
        }
    }
    for (; kk < k1; ++kk) {
{{ direct(true) }}    }
{% endif %}

    __global {{ real }}* c_at = c_base + c_offset{{ " + (long)get_group_id(1) * m * n" if SPLIT }};
{% for r in range(rows) %}
    if (row0 + {{ row(r) }} < m) {
        __global {{ real }}* c_row = c_at + (long)(row0 + {{ row(r) }}) * ldc + col0;
{% for v in range(vectors) %}
        if (col0 + {{ col(v) }} + VL <= n) {
{% if SPLIT %}
            STORE({{ acc(r, v) }}, c_row + {{ col(v) }});
{% else %}
            if (beta == 0)
                STORE(alpha * {{ acc(r, v) }}, c_row + {{ col(v) }});
            else
                STORE(alpha * {{ acc(r, v) }} + beta * LOAD(c_row + {{ col(v) }}), c_row + {{ col(v) }});
{% endif %}
        }
{% if VL > 1 %}
        else {
{% for e in range(VL - 1) %}
            if (col0 + {{ col(v) }} + {{ e }} < n)
{% if SPLIT %}
                c_row[{{ col(v) }} + {{ e }}] = {{ acc(r, v) }}.s{{ "%x" % e }};
{% else %}
                c_row[{{ col(v) }} + {{ e }}] = alpha * {{ acc(r, v) }}.s{{ "%x" % e }} + (beta == 0 ? 0 : beta * c_row[{{ col(v) }} + {{ e }}]);
{% endif %}
{% endfor %}
        }
{% endif %}
{% endfor %}
    }
{% endfor %}
}
