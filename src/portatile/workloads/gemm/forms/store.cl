{# How the forms on matrix units store C: WIDE neighbouring sums at `from`, in local memory, go to `to` in C. OUT is the type that is
   stored: F16, BF16, or empty for 32 bits. With ENDS an epilogue turns a sum into an element, or integers become floats: `put` stores one
   element, `ended` returns one (see elements.cl). ALIGNED names the vectors that can be read four elements at a time. #}
{% from "elements.cl" import ended, ending, number, vector_at, vectors_of with context %}
{% set vectors = EPILOGUE.items() | rejectattr(1, "equalto", "none") | selectattr(0, "in", ("bias", "scale_a", "scale_b")) | list %}
{# the functions of the epilogue #}
{% macro endings() %}
{% if ENDS %}
{{ ending() }}
{% if (WIDE > 1 or HALVES) and not MODULI %}
{{ ended() }}
{% endif %}
{% endif %}
{% endmacro %}
{# the arguments of `ended` from the vectors; `ahead` has loaded those along columns to NAME_part #}
{% macro taken(part, component) %}
{% for name, along in vectors %}
, {{ name ~ "_row" if along == "rows" else "%s_%d.s%d" % (name, part, component) }}
{%- endfor %}
{% endmacro %}
{# loads `count` elements of each vector along the columns, from column j on #}
{% macro ahead(part, j, count) %}
{% for name, along in vectors if along == "columns" %}
            const float{{ count }} {{ name }}_{{ part }} = {% if name in ALIGNED %}*(__global const float{{ count }}*)({{ name }} + {{ name }}_offset + {{ j }}){% else %}(float{{ count }})({% for e in range(count) %}{{ vector_at(name, "%s + %d" % (j, e)) }}{{ ", " if not loop.last }}{% endfor %}){% endif %};
{% endfor %}
{% endmacro %}
{# element e of the WIDE ones at `from` #}
{% macro element(e, old) %}ended(sums_{{ e // 4 }}.s{{ e % 4 }}, alpha, beta, {{ old }}{{ taken(e // 4, e % 4) }}){% endmacro %}
{# with TERMS: a sum times 2^-scale, rounded at most once; and the scales of rows and columns of C (see terms.cl) #}
{% macro scaling() %}
static inline float unscaled(const float sum, const int scale)
{
    const int half_of = -scale >> 1;
    return sum * as_float((uint)(127 + half_of) << 23) * as_float((uint)(127 - scale - half_of) << 23);
}
{% endmacro %}
{% macro store() %}
{% if TERMS > 1 and not SPLIT %}
            const int row = row0 + i, column = col0 + j, scale = scales[row];
            __global const int* of_columns = scales + 2 * (long)m + column;
            float v[{{ WIDE }}];
            int kept = !scales[m + row];
#pragma unroll
            for (int e = 0; e < {{ WIDE }}; ++e) {
                v[e] = alpha * unscaled(from[e], scale + of_columns[e]);
                kept &= !of_columns[n + e];
            }
{% if WIDE == 4 %}
            if (kept) {
                const float4 all = (float4)(v[0], v[1], v[2], v[3]);
                *(__global float4*)to = beta == 0 ? all : all + beta * *(__global const float4*)to;
            } else
{% endif %}
#pragma unroll
            for (int e = 0; e < {{ WIDE }}; ++e)
                if (!scales[m + row] && !of_columns[n + e])  // the native product stores the others
                    to[e] = beta == 0 ? v[e] : v[e] + beta * to[e];
{% elif SPLIT %}
{% if WIDE == 1 %}
            *to = *from;
{% else %}
{% for e in range(WIDE // 4) %}
            ((__global {{ real }}4*)to)[{{ e }}] = ((__local const {{ real }}4*)from)[{{ e }}];
{% endfor %}
{% endif %}
{% elif MODULI and WIDE == 4 %}
            *(__global char4*)to = (char4)({% for e in range(4) %}reduced(from[{{ e }}], {{ number() }}){{ ", " if not loop.last }}{% endfor %});
{% elif ENDS and WIDE == 1 %}
            put(to, *from, alpha, beta{{ vectors_of("row0 + i", "col0 + j") }});
{% elif ENDS %}
{% for part in range(WIDE // 4) %}
            const {{ real }}4 sums_{{ part }} = *(__local const {{ real }}4*)(from + {{ 4 * part }});
{{ ahead(part, "col0 + j + %d" % (4 * part), 4) }}
{%- endfor %}
{% for name, along in vectors if along == "rows" %}
            const float {{ name }}_row = {{ vector_at(name, "row0 + i") }};
{% endfor %}
{% if OUT %}
            uint4 old = (uint4)(0);
            if (beta != 0)
                old = *(__global const uint4*)to;
            *(__global uint4*)to = (uint4)({% for w in range(4) %}MATRIX_PAIR_{{ OUT }}({{ element(2 * w, "MATRIX_LOW_%s(old.s%d)" % (OUT, w)) }}, {{ element(2 * w + 1, "MATRIX_HIGH_%s(old.s%d)" % (OUT, w)) }}){{ ", " if not loop.last }}{% endfor %});
{% else %}
            float4 old = (float4)(0);
            if (beta != 0)
                old = *(__global const float4*)to;
            *(__global float4*)to = (float4)({% for e in range(4) %}{{ element(e, "old.s%d" % e) }}{{ ", " if not loop.last }}{% endfor %});
{% endif %}
{% elif OUT in ("F16", "BF16") and WIDE == 1 %}
            float v = alpha * *from;
            if (beta != 0)
                v += beta * MATRIX_LOW_{{ OUT }}((uint)*to);
            *to = ({{ stored_c }})MATRIX_PAIR_{{ OUT }}(v, 0.0f);
{% elif OUT in ("F16", "BF16") %}
            float4 low = alpha * *(__local const float4*)from, high = alpha * *(__local const float4*)(from + 4);
            if (beta != 0) {
                const uint4 old = *(__global const uint4*)to;
                low += beta * (float4)(MATRIX_LOW_{{ OUT }}(old.x), MATRIX_HIGH_{{ OUT }}(old.x), MATRIX_LOW_{{ OUT }}(old.y), MATRIX_HIGH_{{ OUT }}(old.y));
                high += beta * (float4)(MATRIX_LOW_{{ OUT }}(old.z), MATRIX_HIGH_{{ OUT }}(old.z), MATRIX_LOW_{{ OUT }}(old.w), MATRIX_HIGH_{{ OUT }}(old.w));
            }
            *(__global uint4*)to = (uint4)(MATRIX_PAIR_{{ OUT }}(low.x, low.y), MATRIX_PAIR_{{ OUT }}(low.z, low.w), MATRIX_PAIR_{{ OUT }}(high.x, high.y), MATRIX_PAIR_{{ OUT }}(high.z, high.w));
{% elif WIDE == 1 %}
            *to = beta == 0 ? alpha * *from : alpha * *from + beta * *to;
{% else %}
            const {{ real }}4 v = alpha * *(__local const {{ real }}4*)from;
            if (beta == 0)
                *(__global {{ real }}4*)to = v;
            else
                *(__global {{ real }}4*)to = v + beta * *(__global const {{ real }}4*)to;
{% endif %}
{% endmacro %}
