{# How gpu.cl multiplies the operands that loads.cl loaded: by multiply-adds, or with MMA by matrix instructions of float64. #}
{# A product by instructions of another shape than 16 x 8 x 8: for each instruction the rows of the pair and the steps of k that it covers,
   and its registers of C, A and B. #}
{% macro other_shape(x_set, y_set) %}
{% set name = "mma.sync.aligned.m%sn%sk%s.row.col.f64.f64.f64.f64" | format(*MMA_SHAPE.split("x")) %}
{% set pairs = ((0,), (1,)) if MMA_SHAPE == "8x8x4" else ((0, 1),) %}
{% set deep = ((0, 1, 2, 3),) if halves > 1 else ((0,), (1,)) %}
{% for some in deep %}
{% for pair in pairs %}
{% set c_count, a_count = 2 * pair | length, some | length * pair | length %}
                    asm volatile("{{ name }} { {{ numbered(0, c_count) }} }, { {{ numbered(c_count, a_count) }} }, { {{ numbered(c_count + a_count, some | length) }} }, { {{ numbered(0, c_count) }} };"
                        : {% for e in pair %}{% for place in ("q", "q + 2") %}"+d"(acc[{{ place if flipped else "r + %d" % e }}][{{ "r + %d" % e if flipped else place }}]){{ ", " if not loop.last }}{% endfor %}{{ ", " if not loop.last }}{% endfor %}

                        : {% for k in some %}{% for e in pair %}"d"({{ x }}[{{ x_set }}][{{ k * xs }} + r + {{ e }}]), {% endfor %}{% endfor %}{% for k in some %}"d"({{ y }}[{{ y_set }}][{{ k * ys }} + j]){{ ", " if not loop.last }}{% endfor %});
{% endfor %}
{% endfor %}
{% endmacro %}
{% macro numbered(first, count) %}{% for i in range(first, first + count) %}%{{ i }}{{ ", " if not loop.last }}{% endfor %}{% endmacro %}
{# the products of VL rows of x from row r on, for all k of a step; the columns run back and forth, so that consecutive products share an
   operand #}
{% macro multiply(x_set, y_set) %}
{% if MMA %}
#pragma unroll
                for (int c = 0; c < {{ ys }}; ++c) {
                    const int j = r / 2 % 2 ? {{ ys - 1 }} - c : c, q = j / 2 * 4 + j % 2;
{% if MMA_SHAPE != "16x8x8" %}
{{ other_shape(x_set, y_set) }}
{%- else %}
                    asm volatile("mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 { %0, %1, %2, %3 }, { %4, %5, %6, %7 }, { %8, %9 }, { %0, %1, %2, %3 };"
{% if flipped %}
                        : "+d"(acc[q][r]), "+d"(acc[q + 2][r]), "+d"(acc[q][r + 1]), "+d"(acc[q + 2][r + 1])
{% else %}
                        : "+d"(acc[r][q]), "+d"(acc[r][q + 2]), "+d"(acc[r + 1][q]), "+d"(acc[r + 1][q + 2])
{% endif %}
                        : "d"({{ x }}[{{ x_set }}][r]), "d"({{ x }}[{{ x_set }}][r + 1]), "d"({{ x }}[{{ x_set }}][{{ xs }} + r]), "d"({{ x }}[{{ x_set }}][{{ xs }} + r + 1]),
                          "d"({{ y }}[{{ y_set }}][j]), "d"({{ y }}[{{ y_set }}][{{ ys }} + j]));
{% endif %}
                }
{% else %}
{% set left = "a[%s][next * %d + i]" % (x_set, rows) %}
{% set right = "b[%s][next * %d + j]" % (y_set, cols) %}
#pragma unroll
                for (int next = 0; next < {{ depth }}; ++next)
#pragma unroll
                    for (int e = 0; e < {{ VL }}; ++e)
#pragma unroll
                        for (int c = 0; c < {{ cols }}; ++c) {
                            const int i = r + e, j = i % 2 ? {{ cols - 1 }} - c : c;
                            acc[i][j] = {{ "%s * %s + acc[i][j]" % (left, right) if MAD == "a*b+c" or real == "uint" else "%s(%s, %s, acc[i][j])" % (MAD, left, right) }};
                        }
{% endif %}
{% endmacro %}
