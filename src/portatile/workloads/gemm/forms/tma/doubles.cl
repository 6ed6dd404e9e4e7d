{# How the tma form multiplies tiles of float64, by matrix instructions of 16 x 8 x 8, and stores the sums. tma.cl has the drawing. #}
{% set steps = KB // 8 %}
{% set xs, ys = (TCR, 2 * TRR) if FLIPPED else (TRR, 2 * TCR) %}
{% set apart = 4 if along[x] else 1 %}
{% set slots = xs * ys * 2 %}
{% set number = "(r * %d + j) * 2 + h" % ys %}
{% set sums = "(double2)(acc[r][j][h], acc[r][j][h + 2])" %}
{# the place of element q of eight of y #}
{% macro y_place(q) %}
{{ q if not along[y] else "((%s) %% 4 * 2 + (%s) / 4)" % (q, q) if apart == 4 else "((%s) %% 2 * 4 + (%s) / 2)" % (q, q) }}
{%- endmacro %}
{# The byte offset in a stage of a lane's first element of x, or of y. Its other elements lie at multiples of 128 bytes from there, with
   bits 4 to 6 of the address swizzled (these number the chunk in a line). #}
{% macro lane_of(name, per) %}
{% set blocks, warp = (xs, "x_warp") if name == x else (ys, "y_warp") %}
{{ first_of[name] * 8 }} + {{ warp }} * {{ blocks * per * 128 if along[name] else blocks * per // 16 * KB * 128 }} + {{ "%s * 128 + ((%s ^ %s %% 8) * 16)" % ("g * 2" if name == x else y_place("g"), "t" if apart == 1 else "t / 2", "g * 2" if name == x else y_place("g")) if along[name]
   else "t * 256 + ((%s ^ t * 2) * 16)" % ("g" if name == x else "g / 2") }}{{ " + t % 2 * 8" if along[name] and apart == 4 }}{{ " + g % 2 * 8" if name == y and not along[name] }}
{%- endmacro %}
{% macro load_one(to, at) %}
asm volatile("ld.shared.f64 %0, [%1];" : "=d"({{ to }}) : "r"({{ at }}));
{%- endmacro %}
{% macro load_two(to, then, at) %}
asm volatile("ld.shared.v2.f64 {% raw %}{%0, %1}{% endraw %}, [%2];" : "=d"({{ to }}), "=d"({{ then }}) : "r"({{ at }}));
{%- endmacro %}
{# loads both steps of block r of x #}
{% macro load_x(set, r, step) %}
{% if along[x] %}
{% for part in range(4) %}
                    {{ load_one("x[%s][%s * 4 + %d]" % (set, r, part), "(x_at ^ (%s %% 2 * 64 + %d)) + %d + %s * 2048 + %s / 2 * %d" % (step, part // 2 * 32 + part % 2 * 16, part % 2 * 128, r, step, wide_of[x] * 128)) }}
{% endfor %}
{% else %}
{% for part in range(2) %}
                    {{ load_two("x[%s][%s * 4 + %d]" % (set, r, part * 2), "x[%s][%s * 4 + %d]" % (set, r, part * 2 + 1), "(x_at ^ %d) + %d + %s * %d + %s * 1024" % (part * 16, part * 128, r, KB * 128, step)) }}
{% endfor %}
{% endif %}
{% endmacro %}
{% macro load_all_x(set, step) %}
#pragma unroll
                for (int r = 0; r < {{ xs }}; ++r) {
{{ load_x(set, "r", step) }}                }
{% endmacro %}
{% macro load_y(set, step) %}
#pragma unroll
                for (int j = 0; j < {{ ys }}; ++j) {
{% if along[y] and apart == 1 %}
                    {{ load_two("y[%s][j * 2]" % set, "y[%s][j * 2 + 1]" % set, "(y_at ^ (%s %% 2 * 64)) + j * 1024 + %s / 2 * %d" % (step, step, wide_of[y] * 128)) }}
{% elif along[y] %}
{% for part in range(2) %}
                    {{ load_one("y[%s][j * 2 + %d]" % (set, part), "(y_at ^ (%s %% 2 * 64 + %d)) + j * 1024 + %s / 2 * %d" % (step, part * 32, step, wide_of[y] * 128)) }}
{% endfor %}
{% else %}
{% for part in range(2) %}
                    {{ load_one("y[%s][j * 2 + %d]" % (set, part), "(y_at ^ (j %% 2 * 64 + %d)) + %d + j / 2 * %d + %s * 1024" % (part * 16, part * 128, KB * 128, step)) }}
{% endfor %}
{% endif %}
                }
{% endmacro %}
{# stores slot `slot` of a work-item's sums, two neighbours along x, to C, or to this work-group's plane #}
{% macro store(slot, sum) %}
{% set r, j, h = "(%s) / %d" % (slot, 2 * ys), "(%s) / 2 %% %d" % (slot, ys), "(%s) %% 2" % slot %}
{% set of_x, of_y = "(x_warp * %d + (%s)) * 16 + g * 2" % (xs, r), "(y_warp * %d + (%s)) * 8 + %s" % (ys, j, y_place("t * 2 + (%s)" % h)) %}
            {
                const int i = row0 + {{ of_y if FLIPPED else of_x }}, j_at = col0 + {{ of_x if FLIPPED else of_y }};
                const double2 pair = {{ sum }};
{% if FLIPPED and C_VECTORS %}
                if ({{ "i < m && j_at < n" if C_EDGE else "1" }}) {
                    __global double2* to = (__global double2*)(c_at + (long)i * ldc + j_at);
{% if BARE %}
                    *to = pair;
{% else %}
                    if (beta == 0)
                        *to = alpha * pair;
                    else
                        *to = alpha * pair + beta * *to;
{% endif %}
                }
{% else %}
{% for e in range(2) %}
{% set down, right = (0, e) if FLIPPED else (e, 0) %}
                if ({{ "i + %d < m && j_at + %d < n" % (down, right) if C_EDGE else "1" }}) {
                    __global double* to = c_at + (long)(i + {{ down }}) * ldc + j_at + {{ right }};
{% if BARE %}
                    *to = pair.s{{ e }};
{% else %}
                    if (beta == 0)
                        *to = alpha * pair.s{{ e }};
                    else
                        *to = alpha * pair.s{{ e }} + beta * *to;
{% endif %}
                }
{% endfor %}
{% endif %}
            }
{% endmacro %}
{% macro declare() %}
        double acc[{{ xs }}][{{ ys }}][4];
        double x[{{ 2 if DOUBLE == 2 else 1 }}][{{ xs * 4 }}], y[2][{{ ys * 2 }}];
#pragma unroll
        for (int r = 0; r < {{ xs }}; ++r)
#pragma unroll
            for (int j = 0; j < {{ ys }}; ++j)
#pragma unroll
                for (int e = 0; e < 4; ++e)
                    acc[r][j][e] = 0;
{% endmacro %}
{% macro each_slot() %}
#pragma unroll
        for (int r = 0; r < {{ xs }}; ++r)
#pragma unroll
            for (int j = 0; j < {{ ys }}; ++j)
#pragma unroll
                for (int h = 0; h < 2; ++h)
{% endmacro %}
{% macro add_to_sums(theirs) %}
                        acc[r][j][h] += {{ theirs }}.s0;
                        acc[r][j][h + 2] += {{ theirs }}.s1;
{% endmacro %}
{% macro lanes() %}
    const uint x_lane = first + {{ lane_of(x, 16) }}, y_lane = first + {{ lane_of(y, 8) }};
{% endmacro %}
{% macro load_first() %}
{{ load_all_x("0", "0") }}{{ load_y("0", "0") }}{% endmacro %}
{# loads the operands of step `next`, and multiplies those of step `step` #}
{% macro load_and_multiply() %}
{{ load_y("(step + 1) % 2", "next") }}
{% if DOUBLE == 2 %}
{{ load_all_x("(step + 1) % 2", "next") }}
{% endif %}
#pragma unroll
                for (int r = 0; r < {{ xs }}; ++r) {
#pragma unroll
                    for (int c = 0; c < {{ ys }}; ++c) {
                        const int j = r % 2 ? {{ ys - 1 }} - c : c;
                        asm volatile("mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 { %0, %1, %2, %3 }, { %4, %5, %6, %7 }, { %8, %9 }, { %0, %1, %2, %3 };"
                            : "+d"(acc[r][j][0]), "+d"(acc[r][j][1]), "+d"(acc[r][j][2]), "+d"(acc[r][j][3])
{% set now = "step % 2" if DOUBLE == 2 else "0" %}
                            : "d"(x[{{ now }}][r * 4]), "d"(x[{{ now }}][r * 4 + 1]), "d"(x[{{ now }}][r * 4 + 2]), "d"(x[{{ now }}][r * 4 + 3]),
                              "d"(y[step % 2][j * 2]), "d"(y[step % 2][j * 2 + 1]));
                    }
{% if DOUBLE == 1 %}
{{ load_x("0", "r", "next") }}
{% endif %}
                }
{% endmacro %}
