{#
   The tile of C of a work-group, here with TRR = TCR = 2: blocks of (TBR TR) x (TBC TC). Work-item (tr, tc) holds TR x TC elements of each
   block, in whole vectors of VL along a row, in registers for all of k.

                          B: k x n
                     +---------+---------+
                     | KB rows | KB rows |   SM: in local memory as b_tile[KB][BN + PAD]
                     +---------+---------+
       A: m x k         TBC TC    TBC TC        columns of C ->
      +-------+      +---------+---------+
      |       | TBR  |  . . . .|  . . . .|   one # is TR x TC elements of work-item (tr, tc):
      |  KB   | TR   |  . # . .|  . # . .|   it has one in each of the TRR x TCR blocks, so that
      | steps |      |  . . . .|  . . . .|   neighbours along a row read neighbouring vectors of B
      |       |      +---------+---------+
      |       | TBR  |  . . . .|  . . . .|   SM: A in local memory as a_tile[KB][BM + PAD],
      |       | TR   |  . # . .|  . # . .|   transposed, so that a step of k is a row of both
      |       |      |  . . . .|  . . . .|
      +-------+      +---------+---------+   BM = TBR TR TRR rows, BN = TBC TC TCR columns
#}
// GEMM by the ten parameters of Du et al. (Table 4): C = alpha op(A) op(B) + beta C, every operand row-major.
//
// A work-group of TBR x TBC work-items computes TRR x TCR blocks of (TBR TR) x (TBC TC) elements, a work-item TR x TC of each.
// A is m x k, or k x m with TRANS_A; B is k x n, or n x k with TRANS_B. Work-group (x, y) computes tile x, counted along rows of tiles,
// over `chunk` steps of k from start + y chunk on. With SPLIT it stores bare sums to plane y of `c`, for reduce.cl.
// With TXC the operands are images that stage.cl wrote; reads outside an image return 0.
{# The source of each operand is memory, such an image, an image that is a view of the memory (`view`), or panels that pack.cl wrote; it
   passes through local memory (`A_LOCAL`) or not. A view has pixels of 16 bytes if the operand's vectors are aligned so, otherwise of one
   element (`A_PIXEL`); some devices read a double as two pixels. #}
{% set rows = TRR * TR %}
{% set vectors = TCR * TC // VL %}
{% set realv = real if VL == 1 else real ~ VL %}
{% macro acc(r, v) %}{{ "acc_%d_%d" % (r, v) if SCALARS else "acc[%d][%d]" % (r, v) }}{% endmacro %}
{% macro frag_a(r) %}{{ "a_%d" % r if SCALARS else "a[%d]" % r }}{% endmacro %}
{% macro frag_b(v) %}{{ "b_%d" % v if SCALARS else "b[%d]" % v }}{% endmacro %}
{% from "elements.cl" import combined, functions, nothing, operand, vectors_of with context %}
{# an element of A or B in global memory #}
{% macro element(x, place) %}{{ "LDG(%s + %s)" % (x, place) if LDG else operand("%s[%s]" % (x, place)) if (A_FROM if x[0] == "a" else B_FROM) == "memory" else "%s[%s]" % (x, place) }}{% endmacro %}
{# the place of row or column i, step kk, of an operand of complex numbers with k fast; `ld` counts reals #}
{% macro apart(i, ld, kk) %}(long)(({{ i }}) / 2) * {{ ld }} + (long)({{ kk }}) * 2 + ({{ i }}) % 2{% endmacro %}
{% set a_apart, b_apart = COMPLEX and not TRANS_A, COMPLEX and TRANS_B %}
{% macro row(r) %}({{ (r // TR) * TBR * TR + r % TR }} + tr * {{ TR }}){% endmacro %}
{% macro col(v) %}({{ (v * VL // TC) * TBC * TC + v * VL % TC }} + tc * {{ TC }}){% endmacro %}
{% if real == "double" %}
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
{% endif %}

#define BM (TBR * TR * TRR)
#define BN (TBC * TC * TCR)
#define ITEMS (TBR * TBC)
{% include "vectors.cl" %}
{% if not PLAIN %}
{{ functions() }}
{%- endif %}

{% if "image" in (A_FROM, B_FROM) %}
__constant sampler_t nearest = CLK_NORMALIZED_COORDS_FALSE | CLK_ADDRESS_CLAMP | CLK_FILTER_NEAREST;
{% if real == "float" %}
#define PIXEL(image, x, y) read_imagef(image, nearest, (int2)(x, y))
{% else %}
#define PIXEL(image, x, y) as_double2(read_imageui(image, nearest, (int2)(x, y)))
{% endif %}
{% endif %}
{% if "view" in (A_FROM, B_FROM) %}
{% if real == "float" %}
#define SEEN(view, place) read_imagef(view, place)
#define SEEN_ELEMENT(view, place) read_imagef(view, place).x
{% else %}
#define SEEN(view, place) as_double2(read_imageui(view, place))
{% if HALVES %}
#define SEEN_ELEMENT(view, place) as_double((uint2)(read_imageui(view, 2 * (place)).x, read_imageui(view, 2 * (place) + 1).x))
{% else %}
#define SEEN_ELEMENT(view, place) as_double(read_imageui(view, place).xy)
{% endif %}
{% endif %}
{% endif %}

{% macro multiply() %}
{% for r in range(rows) %}
{% for v in range(vectors) %}
            {{ acc(r, v) }} = MULTIPLY_ADD({{ frag_a(r) }}, {{ frag_b(v) }}, {{ acc(r, v) }});
{% endfor %}
{% endfor %}
{% endmacro %}
{# one step of k: `kk` counts steps in the tiles in local memory, `k_at` along the operands. Loads A's and B's elements; `guarded`: a vector
   of columns may extend past n. #}
{% macro take_a(k_at) %}
{% if A_LOCAL and SHUFFLE %}
            const {{ real }} held = a_tile[kk * (BM + PAD) + a_mine];
{% endif %}
{% if A_LOCAL %}
{% for r in range(rows) %}
            {{ frag_a(r) }} = {% if SHUFFLE %}SHUFFLE(held, first + {{ r }}){% else %}a_tile[kk * (BM + PAD) + {{ row(r) }}]{% endif %};
{% endfor %}
{% elif A_FROM == "image" or A_FROM == "view" and A_PIXEL > 1 %}
{% for r in range(0, rows, pixel) %}
            {{ real }}{{ pixel }} a_pixel_{{ r }} = {% if A_FROM == "image" %}PIXEL(a_image, {{ k_at }}, (row0 + {{ row(r) }}) / {{ pixel }}){% else %}SEEN(a_view, a_row_{{ r }} + ({{ k_at }}) * a_step){% endif %};
{% for e in range(pixel) %}
            {{ frag_a(r + e) }} = a_pixel_{{ r }}.s{{ e }};
{% endfor %}
{% endfor %}
{% elif A_FROM == "view" %}
{% for r in range(rows) %}
            {{ frag_a(r) }} = SEEN_ELEMENT(a_view, a_row_{{ r }} + ({{ k_at }}) * a_step);
{% endfor %}
{% else %}
{% for r in range(rows) %}
            {{ frag_a(r) }} = {{ element("a_row_%d" % r, "(long)(%s) * 2" % k_at if a_apart and A_FROM == "memory" else "(long)%s * a_step" % k_at) }};
{% endfor %}
{% endif %}
{% endmacro %}
{% macro take_b(k_at, guarded) %}
{% for v in range(vectors) %}
{% if B_LOCAL %}
            {{ frag_b(v) }} = *(__local const {{ realv }}*)(b_tile + kk * (BN + PAD) + {{ col(v) }});
{% elif B_FROM == "image" %}
            {{ frag_b(v) }} = PIXEL(b_image, {{ k_at }}, (col0 + {{ col(v) }}) / {{ pixel }});
{% elif B_FROM == "view" %}
            {{ frag_b(v) }} = {{ "(%s)" % realv if VL > B_PIXEL }}({% for e in range(0, VL, B_PIXEL) %}{{ "SEEN" if B_PIXEL > 1 else "SEEN_ELEMENT" }}(b_view, b_col_{{ v }}_{{ e }} + ({{ k_at }}) * b_step){{ ", " if not loop.last }}{% endfor %});
{% elif B_FROM == "panel" %}
            {{ frag_b(v) }} = LOAD(b_at + (long){{ k_at }} * BN + {{ col(v) }});
{% elif b_apart %}
            {{ frag_b(v) }} = ({{ realv }})({% for e in range(VL) %}{{ element("b_at", apart("min(col0 + %s + %d, n - 1)" % (col(v), e), "b_across", k_at)) }}{{ ", " if not loop.last }}{% endfor %});
{% elif guarded or (TRANS_B or LDG) and VL > 1 or CONVERTED %}
            {{ frag_b(v) }} = {% if VL == 1 %}{{ element("b_at", "(long)%s * b_step + (long)min(col0 + %s, n - 1) * b_across" % (k_at, col(v))) }}{% else %}({{ realv }})({% for e in range(VL) %}{{ element("b_at", "(long)%s * b_step + (long)min(col0 + %s + %d, n - 1) * b_across" % (k_at, col(v), e)) }}{{ ", " if not loop.last }}{% endfor %}){% endif %};
{% else %}
            {{ frag_b(v) }} = {{ "LDG" if LDG else "LOAD" }}(b_at + (long){{ k_at }} * b_step + (long)(col0 + {{ col(v) }}) * b_across);
{% endif %}
{% endfor %}
{% endmacro %}
{% macro one_step(k_at, guarded) %}
{{ take_a(k_at) }}{{ take_b(k_at, guarded) }}{{ multiply() }}{% endmacro %}
{# the addresses of a work-item's rows and columns of operands that do not pass through local memory #}
{% macro places() %}
{% set direct_a, direct_b = "" if A_LOCAL else A_FROM, "" if B_LOCAL else B_FROM %}
{% if direct_a == "view" %}
{% for r in range(0, rows, A_PIXEL) %}
    const int a_row_{{ r }} = {% if A_PIXEL > 1 %}((int)a_offset + min(row0 + {{ row(r) }}, m - {{ A_PIXEL }})) / {{ A_PIXEL }}{% else %}(int)a_offset + min(row0 + {{ row(r) }}, m - 1){{ " * lda" if not TRANS_A }}{% endif %};
{% endfor %}
{% elif direct_a == "panel" %}
{% for r in range(rows) %}
    __global const {{ real }}* a_row_{{ r }} = a_at + {{ row(r) }};
{% endfor %}
{% elif direct_a == "memory" %}
{% for r in range(rows) %}
    __global const {{ stored }}* a_row_{{ r }} = a_at + {{ apart("min(row0 + %s, m - 1)" % row(r), "lda", "0") if a_apart else "(long)min(row0 + %s, m - 1) * %s" % (row(r), "1" if TRANS_A else "lda") }};
{% endfor %}
{% endif %}
{% if direct_b == "view" %}
{% for v in range(vectors) %}
{% for e in range(0, VL, B_PIXEL) %}
    const int b_col_{{ v }}_{{ e }} = {% if B_PIXEL > 1 %}((int)b_offset + min(col0 + {{ col(v) }} + {{ e }}, n - {{ B_PIXEL }})) / {{ B_PIXEL }}{% else %}(int)b_offset + min(col0 + {{ col(v) }} + {{ e }}, n - 1){{ " * ldb" if TRANS_B }}{% endif %};
{% endfor %}
{% endfor %}
{% endif %}
{% set a_steps = {"memory": "lda" if TRANS_A else "1", "panel": "BM", "view": "lda / %d" % A_PIXEL if A_PIXEL > 1 else "lda" if TRANS_A else "1"} %}
{% set b_steps = {"memory": "1" if TRANS_B else "ldb", "view": "ldb / %d" % B_PIXEL if B_PIXEL > 1 else "1" if TRANS_B else "ldb"} %}
{% set steps = ["a_step = " ~ a_steps[direct_a]] if direct_a in a_steps else [] %}
{% set steps = steps + (["b_step = " ~ b_steps[direct_b]] if direct_b in b_steps else []) %}
{% set steps = steps + (["b_across = " ~ ("ldb" if TRANS_B else "1")] if direct_b == "memory" else []) %}
{% if steps %}
    const int {{ steps | join(", ") }};
{% endif %}
{% endmacro %}
{# copies the next KB steps of the operands that pass through local memory #}
{% macro bring() %}
        // work-items copy elements of the tile in storage order; their number need not divide that of the elements
{% for x, i, wide, first, end, k_fast, from, p in (("a", "i", "BM", "row0", "m", not TRANS_A, A_FROM if A_LOCAL else "", A_PIXEL), ("b", "j", "BN", "col0", "n", TRANS_B, B_FROM if B_LOCAL else "", B_PIXEL)) %}
{% if from == "image" %}
        for (int e = item; e < {{ wide }} / {{ pixel }} * KB; e += ITEMS) {
            const int kk = e / ({{ wide }} / {{ pixel }}), i = e % ({{ wide }} / {{ pixel }});
            const {{ real }}{{ pixel }} value = PIXEL({{ x }}_image, kb + kk, {{ first }} / {{ pixel }} + i);
{% for e in range(pixel) %}
            {{ x }}_tile[kk * ({{ wide }} + PAD) + i * {{ pixel }} + {{ e }}] = value.s{{ e }};
{% endfor %}
        }
{% elif from == "panel" %}
        for (int e = item; e < {{ wide }} * KB; e += ITEMS)
            {{ x }}_tile[e / {{ wide }} * ({{ wide }} + PAD) + e % {{ wide }}] = {{ element(x ~ "_at", "(long)kb * %s + e" % wide) }};
{% elif from == "view" and p > 1 %}
        for (int e = item; e < {{ wide }} * KB / {{ p }}; e += ITEMS) {
            const int {{ "%s = e / (KB / %d), kk = e %% (KB / %d) * %d" % (i, p, p, p) if k_fast else "kk = e / (%s / %d), %s = e %% (%s / %d) * %d" % (wide, p, i, wide, p, p) }};
            const int inside = kb + kk < k1 && {{ first }} + {{ i }} < {{ end }};
{% set at = "(%s + %s) * ld%s + kb + kk" % (first, i, x) if k_fast else "(kb + kk) * ld%s + %s + %s" % (x, first, i) %}
            const {{ real }}{{ p }} value = inside ? SEEN({{ x }}_view, ((int){{ x }}_offset + {{ at }}) / {{ p }}) : ({{ real }}{{ p }})(0);
{% for e in range(p) %}
            {{ x }}_tile[{{ "(kk + %d)" % e if k_fast else "kk" }} * ({{ wide }} + PAD) + {{ i }}{{ " + %d" % e if not k_fast }}] = value.s{{ e }};
{% endfor %}
        }
{% elif from %}
        for (int e = item; e < {{ wide }} * KB; e += ITEMS) {
            const int {{ "%s = e / KB, kk = e %% KB" % i if k_fast else "kk = e / %s, %s = e %% %s" % (wide, i, wide) }};
            const int inside = kb + kk < k1 && {{ first }} + {{ i }} < {{ end }};
{% set cast = "(int)%s_offset + " % x if from == "view" else "(long)" %}
{% set at = apart("%s + %s" % (first, i), "ld" ~ x, "kb + kk") if COMPLEX and k_fast else "%s(%s + %s) * ld%s + kb + kk" % (cast, first, i, x) if k_fast else "%s(kb + kk) * ld%s + %s + %s" % (cast, x, first, i) %}
            {{ x }}_tile[kk * ({{ wide }} + PAD) + {{ i }}] = inside ? {% if from == "view" %}SEEN_ELEMENT({{ x }}_view, {{ at }}){% else %}{{ element(x ~ "_at", at) }}{% endif %} : 0;
        }
{% endif %}
{% endfor %}
{% endmacro %}
__kernel __attribute__((reqd_work_group_size(TBC, TBR, 1)))
{% include "arguments.cl" %}
{
{% include "batch.cl" %}
    const int tc = (int)get_local_id(0), tr = (int)get_local_id(1);
    const int across = (n - 1) / BN + 1;
    const int col0 = (int)get_group_id(0) % across * BN, row0 = (int)get_group_id(0) / across * BM;
    const int k0 = start + (int)get_group_id(1) * chunk;
    const int k1 = {{ nothing("alpha") }} ? k0 : min(k, k0 + chunk);  // alpha = 0 must not read A or B
{% for x, from, wide, first in (("a", A_FROM, "BM", "row0"), ("b", B_FROM, "BN", "col0")) %}
{% if from == "memory" %}
    __global const {{ stored }}* {{ x }}_at = {{ x }}_base + {{ x }}_offset;
{% elif from == "panel" %}
    __global const {{ real }}* {{ x }}_at = {{ x }}_base + (long)({{ first }} / {{ wide }}) * ((k - 1) / KB + 1) * KB * {{ wide }};
{% endif %}
{% endfor %}
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

{% if A_LOCAL or B_LOCAL %}
{% if A_LOCAL %}
    __local {{ real }} a_tile[KB * (BM + PAD)] __attribute__((aligned(64)));
{% endif %}
{% if B_LOCAL %}
    __local {{ real }} b_tile[KB * (BN + PAD)] __attribute__((aligned(64)));
{% endif %}
    const int item = tr * TBC + tc;
{% if SHUFFLE %}
    // the TBC lanes with the same tr need the same rows of A: each reads one row, surplus lanes the last one
    const int first = item % 32 / TBC * TBC, mine = min(tc, {{ rows - 1 }});
    const int a_mine = mine / TR * (TBR * TR) + mine % TR + tr * TR;
{% endif %}
{{ places() }}{% if A_LOCAL and B_LOCAL %}
    for (int kb = k0; kb < k1; kb += KB) {
{{ bring() }}        barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll {{ UNROLL }}
        for (int kk = 0; kk < KB; ++kk) {
{{ one_step("(kb + kk)", false) }}        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
{% else %}
{# two loops, not one with a condition inside: PoCL executed loops under conditions between barriers wrongly #}
    int kb = k0;
    const int whole = {{ "col0 + BN <= n ? k1 : k0" if B_FROM == "memory" and not B_LOCAL else "k1" }};
    for (; kb + KB <= whole; kb += KB) {
{{ bring() }}        barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll {{ UNROLL }}
        for (int kk = 0; kk < KB; ++kk) {
{{ one_step("(kb + kk)", false) }}        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    for (; kb < k1; kb += KB) {
{{ bring() }}        barrier(CLK_LOCAL_MEM_FENCE);
        const int steps = min(KB, k1 - kb);
        for (int kk = 0; kk < steps; ++kk) {
{{ one_step("(kb + kk)", true) }}        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
{% endif %}
{% elif A_FROM == "image" and B_FROM == "image" %}
    for (int kk = k0; kk < k1; kk += KB)
#pragma unroll {{ UNROLL }}
        for (int step = 0; step < KB; ++step) {
{{ one_step("kk + step", false) }}        }
{% else %}
{{ places() }}    int kk = k0;
    {{ "if (col0 + BN <= n) " if B_FROM == "memory" }}{
        while (kk + KB <= k1) {
#pragma unroll {{ UNROLL }}
            for (int step = 0; step < KB; ++step) {
{{ one_step("kk", false) }}                ++kk;
            }
        }
    }
    for (; kk < k1; ++kk) {
{{ one_step("kk", true) }}    }
{% endif %}

    __global {{ real if SPLIT else stored_c }}* c_at = c_base + c_offset{{ " + (long)get_group_id(1) * %s * n" % ("(m / 2)" if COMPLEX else "m") if SPLIT }};
{% if COMPLEX %}
{% for r in range(0, rows, 2) %}
    if (row0 + {{ row(r) }} < m) {
        __global {{ real }}* c_row = c_at + (long)((row0 + {{ row(r) }}) / 2) * ldc + col0;
{% for v in range(vectors) %}
{% for e in range(0, VL, 2) %}
{% set one, two = "%x" % e, "%x" % (e + 1) %}
        if (col0 + {{ col(v) }} + {{ e }} < n) {
            const {{ real }}2 sum = ({{ real }}2)({{ combined(acc(r, v) ~ ".s" ~ one, acc(r, v) ~ ".s" ~ two, acc(r + 1, v) ~ ".s" ~ one, acc(r + 1, v) ~ ".s" ~ two) }});
{% if SPLIT %}
            c_row[{{ col(v) }} + {{ e }}] = sum.x;
            c_row[{{ col(v) }} + {{ e + 1 }}] = sum.y;
{% else %}
            put(c_row + {{ col(v) }} + {{ e }}, sum.x, sum.y, alpha, beta);
{% endif %}
        }
{% endfor %}
{% endfor %}
    }
{% endfor %}
{% elif not PLAIN and not SPLIT %}
{% for r in range(rows) %}
    if (row0 + {{ row(r) }} < m) {
        __global {{ stored_c }}* c_row = c_at + (long)(row0 + {{ row(r) }}) * ldc + col0;
{% for v in range(vectors) %}
{% for e in range(VL) %}
        if (col0 + {{ col(v) }} + {{ e }} < n)
            put(c_row + {{ col(v) }} + {{ e }}, {{ acc(r, v) }}{{ ".s%x" % e if VL > 1 }}, alpha, beta{{ vectors_of("row0 + %s" % row(r), "col0 + %s + %d" % (col(v), e)) }});
{% endfor %}
{% endfor %}
    }
{% endfor %}
{% else %}
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
{% endif %}
}
