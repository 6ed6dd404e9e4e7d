{# What cpu.cl and staged.cl share: a register tile of TR rows x TC columns, in vectors of VL that are all named scalar variables.

   `a_at` (or `a0`, `a1`, ...) and `b` point to the operands' current step of k; `kk` counts steps if A is read along k. With TURN the
   kernel computes C transposed: its m, n, A and B are C's n, m, B and A, and a row of the tile is stored down a column of C. #}
{% from "elements.cl" import combined, vectors_of with context %}
{% set vectors = TC // VL %}
{% set realv = real if VL == 1 else real ~ VL %}
{# one step of k, `u` steps ahead; `panel` is the address space of B's panels, empty if B is read in place #}
{% macro step(u, panel) %}
        {
            const {{ realv }} {% for v in range(vectors) %}b{{ v }} = {% if panel %}*({{ panel }} const {{ realv }}*)(b + {{ u * TC + v * VL }}){% else %}LOAD(b + {{ v * VL }}{{ " + (long)%d * b_step" % u if u }}){% endif %}{{ ", " if not loop.last }}{% endfor %};
{% for r in range(TR) %}
            {
{% if PACK_A %}
                const {{ real }} a = a_at[{{ u * TR + r }}];
{% elif TRANS_A %}
                const {{ real }} a = a_at[r{{ r }}{{ " + (long)%d * a_step" % u if u }}];
{% else %}
                const {{ real }} a = a{{ r }}[kk{{ " + %d" % u if u }}];
{% endif %}
{% for v in range(vectors) %}
                c{{ r }}_{{ v }} = MULTIPLY_ADD(a, b{{ v }}, c{{ r }}_{{ v }});
{% endfor %}
            }
{% endfor %}
        }
{% endmacro %}
{% macro advance(steps, panel) %}
        b += {{ steps * TC if panel else "(long)%d * b_step" % steps }};
{% if PACK_A %}
        a_at += {{ steps * TR }};
{% elif TRANS_A %}
        a_at += (long){{ steps }} * a_step;
{% endif %}
{% endmacro %}
{# the sums over steps k0 to `end` for the tile whose first row is `row0` #}
{% macro multiply(k0, end, panel) %}
{% if PACK_A %}
    __global const {{ real }}* a_at = a_base + ((long)tile_row * k + {{ k0 }}) * TR;
{% elif TRANS_A %}
    __global const {{ real }}* a_at = a_base + a_offset + (long){{ k0 }} * lda + row0;
    const int a_step = lda;
    const int {% for r in range(TR) %}r{{ r }} = min({{ r }}, m - 1 - row0){{ ", " if not loop.last }}{% endfor %};
{% else %}
{% for r in range(TR) %}
    __global const {{ real }}* a{{ r }} = a_base + a_offset + (long)min(row0 + {{ r }}, m - 1) * lda;
{% endfor %}
{% endif %}
{% for r in range(TR) %}
    {{ realv }} {% for v in range(vectors) %}c{{ r }}_{{ v }} = ({{ realv }})(0){{ ", " if not loop.last }}{% endfor %};
{% endfor %}

    int kk = {{ k0 }};
{% if UNROLL > 1 %}
    for (; kk + {{ UNROLL }} <= {{ end }}; kk += {{ UNROLL }}) {
{% for u in range(UNROLL) %}
{{ step(u, panel) }}{% endfor %}
{{ advance(UNROLL, panel) }}    }
{% endif %}
    for (; kk < {{ end }}; ++kk) {
{{ step(0, panel) }}
{{ advance(1, panel) }}    }
{% endmacro %}
{# with FETCH prefetches the cache lines of C that the tile will overwrite #}
{% macro fetch(split) %}
{% if FETCH and not TURN %}
    __global const {{ real }}* place = c_base + c_offset + (long)row0 * ldc + col{{ " + (long)get_group_id(1) * m * n" if split }};
{% for r in range(TR) %}
{% for j in range(0, TC, 64 // itemsize) %}
    __builtin_prefetch(place + (long){{ r }} * ldc + {{ j }}, 1);
{% endfor %}
    __builtin_prefetch(place + (long){{ r }} * ldc + {{ TC - 1 }}, 1);
{% endfor %}
{% endif %}
{% endmacro %}
{# C's tile at (row0, col) becomes alpha times the sums + `factor` times its old content; the tile stores its columns own .. end only #}
{% macro store(factor, split) %}
{% if not PLAIN_C %}
{{ store_elements(factor, split) }}
{%- else %}
{% if not TURN %}
    __global {{ real }}* c = c_base + c_offset + (long)row0 * ldc + col{{ " + (long)get_group_id(1) * m * n" if split }};
    if (own == 0 && end == TC{{ {"c below": " && row0 + TR <= col + 1", "c above": " && col + TC <= row0 + 1"}.get(ZEROS, "") }}) {
{% for r in range(TR) %}
        if (row0 + {{ r }} < m) {
            __global {{ real }}* to = c + (long){{ r }} * ldc;
{% if split %}
{% for v in range(vectors) %}
            STORE(c{{ r }}_{{ v }}, to + {{ v * VL }});
{% endfor %}
{% else %}
            if ({{ factor }} == 0) {
{% for v in range(vectors) %}
                STORE(alpha * c{{ r }}_{{ v }}, to + {{ v * VL }});
{% endfor %}
            } else {
{% for v in range(vectors) %}
                STORE(alpha * c{{ r }}_{{ v }} + {{ factor }} * LOAD(to + {{ v * VL }}), to + {{ v * VL }});
{% endfor %}
            }
{% endif %}
        }
{% endfor %}
    } else {
{% else %}
    __global {{ real }}* c = c_base + c_offset + (long)col * ldc + row0{{ " + (long)get_group_id(1) * m * n" if split }};
    {
{% endif %}
        {{ real }} line[TC] __attribute__((aligned(64)));
{% for r in range(TR) %}
        if (row0 + {{ r }} < m) {
            __global {{ real }}* to = c + {{ r if TURN else "(long)%d * ldc" % r }};
{% for v in range(vectors) %}
            *({{ realv }}*)(line + {{ v * VL }}) = c{{ r }}_{{ v }};
{% endfor %}
            for (int j = {{ "max(own, row0 + %d - col)" % r if ZEROS == "c below" else "own" }}; j < {{ "min(end, row0 + %d - col)" % (r + 1) if ZEROS == "c above" else "end" }}; ++j)
{% set place = "to[(long)j * ldc]" if TURN else "to[j]" %}
                {{ place }} = {% if split %}line[j]{% else %}alpha * line[j] + ({{ factor }} == 0 ? 0 : {{ factor }} * {{ place }}){% endif %};
        }
{% endfor %}
    }
{% endif %}
{% endmacro %}
{# the same element by element, if more than a multiplication is needed: two rows and two columns of sums make a complex element #}
{% macro store_elements(factor, split) %}
{% set parts = 2 if COMPLEX else 1 %}
    __global {{ real if split else stored_c }}* c = c_base + c_offset + (long)(row0 / {{ parts }}) * ldc + col{{ " + (long)get_group_id(1) * (m / %d) * n" % parts if split }};
    {{ real }} lines[{{ parts }}][TC] __attribute__((aligned(64)));
{% for r in range(0, TR, parts) %}
    if (row0 + {{ r }} < m) {
        __global {{ real if split else stored_c }}* to = c + (long){{ r // parts }} * ldc;
{% for p in range(parts) %}
{% for v in range(vectors) %}
        *({{ realv }}*)(lines[{{ p }}] + {{ v * VL }}) = c{{ r + p }}_{{ v }};
{% endfor %}
{% endfor %}
{% if EIGHT_C and not split %}
        if (own == 0 && end == TC) {
{% for j in range(0, TC, 8) %}
            put_eight(to + {{ j }}, *(float8*)(lines[0] + {{ j }}), alpha, {{ factor }});
{% endfor %}
        } else
{% endif %}
        for (int j = {{ "max(own, row0 + %d - col)" % r if ZEROS == "c below" else "own" }}; j < {{ "min(end, row0 + %d - col)" % (r + 1) if ZEROS == "c above" else "end" }}; j += {{ parts }}) {
{% if COMPLEX %}
            const {{ real }}2 sum = ({{ real }}2)({{ combined("lines[0][j]", "lines[0][j + 1]", "lines[1][j]", "lines[1][j + 1]") }});
{% if split %}
            to[j] = sum.x;
            to[j + 1] = sum.y;
{% else %}
            put(to + j, sum.x, sum.y, alpha, {{ factor }}{{ ", row0 + %d == col + j" % r if REAL_DIAGONAL }});
{% endif %}
{% elif split %}
            to[j] = lines[0][j];
{% else %}
            put(to + j, lines[0][j], alpha, {{ factor }}{{ vectors_of("row0 + %d" % r, "col + j") }});
{% endif %}
        }
    }
{% endfor %}
{% endmacro %}
