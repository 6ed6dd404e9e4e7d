{# What the engine form does with tiles of float32 whose operands have k slow: lane 4 g + t has rows 4 g .. 4 g + 3 of every 32 and of every
   32 columns 4 t .. 4 t + 3 and 16 + 4 t .. 16 + 4 t + 3. engine.cl has the drawing. #}
{% set steps = KB %}
{% set rows, cols = 2 * TRR, 4 * TCR %}
{% set slots = rows * TCR %}
{% set number = "r * %d + j" % TCR %}
{% set sums = "(float4)(acc[r][j * 4], acc[r][j * 4 + 1], acc[r][j * 4 + 2], acc[r][j * 4 + 3])" %}
{% macro load(to, at) %}
asm volatile("ld.shared.v4.f32 {% raw %}{%0, %1, %2, %3}{% endraw %}, [%4];" : {% for e in range(4) %}"=f"({{ to }} + {{ e }}]){{ ", " if not loop.last }}{% endfor %} : "r"({{ at }}));
{%- endmacro %}
{% macro load_step(set, step) %}
#pragma unroll
                for (int r = 0; r < {{ TRR // 2 }}; ++r)
                    {{ load("x[%s][r * 4" % set, "(x_at ^ %s %% 8 * 16) + %s * 128 + r * %d" % (step, step, KB * 128)) }}
#pragma unroll
                for (int j = 0; j < {{ TCR }}; ++j)
                    {{ load("y[%s][j * 4" % set, "(y_at ^ (%s %% 8 * 16 ^ j %% 2 * 64)) + %s * 128 + j / 2 * %d" % (step, step, KB * 128)) }}
{% endmacro %}
{% macro declare() %}
        float acc[{{ rows }}][{{ cols }}];
        float x[2][{{ rows }}], y[2][{{ cols }}];
#pragma unroll
        for (int r = 0; r < {{ rows }}; ++r)
#pragma unroll
            for (int j = 0; j < {{ cols }}; ++j)
                acc[r][j] = 0;
{% endmacro %}
{% macro each_slot() %}
#pragma unroll
        for (int r = 0; r < {{ rows }}; ++r)
#pragma unroll
            for (int j = 0; j < {{ TCR }}; ++j)
{% endmacro %}
{% macro add_to_sums(theirs) %}
{% for e in range(4) %}
                        acc[r][j * 4 + {{ e }}] += {{ theirs }}.s{{ e }};
{% endfor %}
{% endmacro %}
{% macro lanes() %}
    const uint x_lane = first + x_warp * {{ TRR // 2 * KB * 128 }} + g * 16, y_lane = first + {{ first_of["b"] * 4 }} + y_warp * {{ TCR // 2 * KB * 128 }} + t * 16;
{% endmacro %}
{% macro load_first() %}
{{ load_step("0", "0") }}{% endmacro %}
{# the operands of step `next`, and the products of step `step`; neighbouring products share an operand #}
{% macro load_and_multiply() %}
{{ load_step("(step + 1) % 2", "next") }}
#pragma unroll
                for (int i = 0; i < {{ rows }}; ++i)
#pragma unroll
                    for (int c = 0; c < {{ cols }}; ++c) {
                        const int j = i % 2 ? {{ cols - 1 }} - c : c;
                        acc[i][j] = x[step % 2][i] * y[step % 2][j] + acc[i][j];
                    }
{% endmacro %}
{# the sums number `slot` of a work-item, which are four neighbours of a row: to C, or to this group's plane #}
{% macro store(slot, sum) %}
            {
                const int i = row0 + (x_warp * {{ TRR // 2 }} + ({{ slot }}) / {{ TCR }} / 4) * 32 + g * 4 + ({{ slot }}) / {{ TCR }} % 4;
                const int j_at = col0 + y_warp * {{ TCR * 16 }} + ({{ slot }}) % {{ TCR }} * 16 + t * 4;
                const float4 four = {{ sum }};
                __global float* to = c_at + (long)i * ldc + j_at;
{% if C_VECTORS %}
                if ({{ "i < m && j_at < n" if C_EDGE else "1" }}) {
{% if BARE %}
                    *(__global float4*)to = four;
{% else %}
                    if (beta == 0)
                        *(__global float4*)to = alpha * four;
                    else
                        *(__global float4*)to = alpha * four + beta * *(__global float4*)to;
{% endif %}
                }
{% else %}
{% for e in range(4) %}
                if ({{ "i < m && j_at + %d < n" % e if C_EDGE else "1" }})
{% if BARE %}
                    to[{{ e }}] = four.s{{ e }};
{% else %}
                    to[{{ e }}] = beta == 0 ? alpha * four.s{{ e }} : alpha * four.s{{ e }} + beta * to[{{ e }}];
{% endif %}
{% endfor %}
{% endif %}
            }
{% endmacro %}
