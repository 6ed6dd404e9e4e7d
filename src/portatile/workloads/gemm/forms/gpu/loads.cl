{# How gpu.cl loads operands from local memory to registers for one step of k: a few rows of x at a time, and all of y. tiles.cl describes
   their layout in local memory. `x` and `y` are A and B, or with `flipped` B and A. #}
{% from "tiles.cl" import begins, shift, skew, turn with context %}
{# Loads vectors to registers, which hold all operands of one step of k, then those of the next step. `i` counts operands; `at` is their
   place in a row of the tile, or among its rows. #}
{% macro load(x, source, set, i, count, pitch, at) %}
{% if source == "shifted" %}
{{ load_shifted_pairs(x, set, i, count, pitch, at) if MMA else load_shifted(x, set, i, count, pitch, at) }}
{%- else %}
{% for place in ("from", "far")[:halves] %}
{% set past = " + %d" % (2 * count) if loop.index0 else "" %}
#pragma unroll
                for (int next = 0; next < {{ depth }}; ++next) {
{% if source in lines %}
                    const {{ real }}{{ VL }} v = LDS((__local const {{ real }}{{ VL }}*)({{ x }}_{{ place }} + ({{ at }} + next) * {{ KB }}));
{% for e in range(VL) %}
                    {{ x }}[{{ set }}][{{ e * count }} + {{ i }} + next{{ past }}] = v.s{{ e }};
{% endfor %}
{% else %}
                    const {{ real }}{{ VL }} v = LDS((__local const {{ real }}{{ VL }}*)({{ x }}_{{ place }} + next * {{ "apart" if source in complex_lines else pitch * (4 if spread else 1) }} + {{ "(%s) * %d" % (at, KB) if source in complex_lines else at }}));
{% for e in range(VL) %}
                    {{ x }}[{{ set }}][next * {{ count }} + {{ i }} + {{ e }}{{ past }}] = v.s{{ e }};
{% endfor %}
{% endif %}
                }
{% endfor %}
{% endif %}
{% endmacro %}
{# the same for rows that begin anywhere: since steps are unrolled, the compiler knows where a row begins, and so which loads are aligned #}
{% macro load_shifted(x, set, i, count, pitch, at) %}
#pragma unroll
                for (int next = 0; next < {{ depth }}; ++next) {
                    const int on = {{ begins(x, x ~ "_turn + next") }};
                    __local const float* row = {{ x }}_from + next * {{ pitch }} + {{ at }} + on;
                    if (on == 0) {
                        const float4 v = LDS((__local const float4*)row);
{{ taken(x, set, i, count, ("v.s0", "v.s1", "v.s2", "v.s3")) }}                    } else if (on == 2) {
                        const float2 v = LDS((__local const float2*)row), w = LDS((__local const float2*)(row + 2));
{{ taken(x, set, i, count, ("v.s0", "v.s1", "w.s0", "w.s1")) }}                    } else {
                        const float2 v = LDS((__local const float2*)(row + 1));
{{ taken(x, set, i, count, ("LDS(row)", "v.s0", "v.s1", "LDS(row + 3)")) }}                    }
                }
{% endmacro %}
{# The same for matrix instructions, whose lanes begin at an even step of k. If the two elements of a pair are loaded apart, half of the
   lanes load the second one first, so that the lanes of each half warp read from different banks. #}
{% macro load_shifted_pairs(x, set, i, count, pitch, at) %}
{% for place in ("from", "far")[:halves] %}
{% set past = " + %d" % (2 * count) if loop.index0 else "" %}
#pragma unroll
                for (int next = 0; next < 2; ++next) {
                    const int on = {{ begins(x, "next") }};
                    __local const double* row = {{ x }}_{{ place }} + next * {{ pitch }} + {{ at }} + on;
                    if (on == 0) {
                        const double2 v = LDS((__local const double2*)row);
{{ taken(x, set, i, count, ("v.s0", "v.s1"), past) }}                    } else {
                        const int second = lane / 8 % 2;
                        const double p = LDS(row + second), q = LDS(row + (1 - second));
{{ taken(x, set, i, count, ("second ? q : p", "second ? p : q"), past) }}                    }
                }
{% endfor %}
{% endmacro %}
{% macro taken(x, set, i, count, values, past="") %}
{% for value in values %}
                        {{ x }}[{{ set }}][next * {{ count }} + {{ i }} + {{ loop.index0 }}{{ past }}] = {{ value }};
{% endfor %}
{% endmacro %}
{% macro load_x(set, r) %}{{ load(x, from_of[x], set, r, xs, pitch_of[x], "%s / %d * %d + %s %% %d" % (r, block_of[x], jump_of[x], r, block_of[x])) }}{% endmacro %}
{% macro load_y(set) %}
#pragma unroll
            for (int c = 0; c < {{ ys }}; c += {{ VL }}) {
{{ load(y, from_of[y], set, "c", ys, pitch_of[y], "c / 2 * %d" % jump_of[y] if MMA else "c / %d * %d + c %% %d" % (block_of[y], jump_of[y], block_of[y])) }}            }
{% endmacro %}
{% macro load_all_x(set) %}
#pragma unroll
            for (int r = 0; r < {{ xs }}; r += {{ VL }}) {
{{ load_x(set, "r") }}            }
{% endmacro %}
{# the addresses of the operands of step `step`, in the stage at offset `read` #}
{% macro origin(source, base, pitch, k_of, at) %}
{% if source in lines %}
tiles + {{ base }} + ({{ at }}) * {{ KB }} + ({{ k_of }} ^ {{ shift(at) }}){{ " + lane % 4 * 2" if MMA }}
{%- elif source in complex_lines %}
tiles + {{ base }} + ({{ at }}) * {{ KB }} + ({{ k_of }}) * 2 + (lane % 4 * 2 ^ lane / 4 % 2 * 8)
{%- elif MMA and source == "shifted" %}
tiles + {{ base }} + ({{ k_of }} + {{ lane_k }}) * {{ pitch }} + {{ at }}
{%- elif MMA %}
tiles + {{ base }} + ({{ k_of }} + {{ lane_k }}) * {{ pitch }} + ({{ at }} ^ {{ skew(lane_k) }})
{%- elif source == "transposed" %}
tiles + {{ base }} + {{ k_of }} * {{ pitch }} + ({{ at }} ^ {{ turn("%s / %d" % (k_of, vector)) }})
{%- else %}
tiles + {{ base }} + {{ k_of }} * {{ pitch }} + {{ at }}
{%- endif %}
{% endmacro %}
{% macro sources(step) %}
{% set k_of = "(part * %d + (%s) * %d)" % (KB // KG, step, unit) %}
{% set at = {"a": "tr * %d" % TR, "b": "tc * %d" % TC} %}
{% if MMA %}
{% set _ = at.update({y: ("warp_row" if flipped else "warp_col") ~ " * 16 + lane / 4 * 2"}) %}
{% endif %}
{% set base_a = "read + a_panel" if QUARTERS else "read" %}
{% set base_b = "read + b_panel" if QUARTERS else "read + %d" % (KB * lda_tile) %}
            __local const {{ real }}* a_from = {{ origin(A_FROM, base_a, lda_tile, k_of, at["a"]) }};
            __local const {{ real }}* b_from = {{ origin(B_FROM, base_b, ldb_tile, k_of, at["b"]) }};
{% for name in ("a", "b") if from_of[name] == "shifted" and not MMA %}
            const int {{ name }}_turn = ({{ step }}) * {{ unit }};  // the step of k, modulo four
{% endfor %}
{% if halves > 1 %}
{% set k_of = "(%s + 8)" % k_of %}
            __local const {{ real }}* a_far = {{ origin(A_FROM, base_a, lda_tile, k_of, at["a"]) }};
            __local const {{ real }}* b_far = {{ origin(B_FROM, base_b, ldb_tile, k_of, at["b"]) }};
{% endif %}
{% endmacro %}
