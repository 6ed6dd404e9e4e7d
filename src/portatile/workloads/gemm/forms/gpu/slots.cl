{# How gpu.cl stores sums that work-groups shared: the register tile consists of slots of VL neighbouring sums; stores slot `slot`, with sum
   `total`. #}
{% macro store_slot(slot, total) %}
{% set realv = real ~ VL %}
            const int r = {{ slot }} * {{ VL }} / {{ cols }}, c = {{ slot }} * {{ VL }} % {{ cols }};
            const int i = r / {{ TR }} * {{ jump_of["a"] }} + r % {{ TR }} + tr * {{ TR }};
            const int j = c / {{ TC }} * {{ jump_of["b"] }} + c % {{ TC }}{{ " * 2 - odd * 2" if paired }} + tc * {{ TC }};
{% if w == 1 %}
{% for e in range(VL) %}
{% if not PLAIN %}
            {{ "if (row0 + i < m && col0 + j + %d < n)" % e if C_EDGE }}
                put(c_at + (long)i * ldc + j + {{ e }}, {{ total }}.s{{ e }}, alpha, beta{{ vectors_of("row0 + i", "col0 + j + %d" % e) }});
{% else %}
            {{ "if (%s)" % belongs("i", "j + %d" % e) if C_EDGE or triangle }} {
                __global {{ real }}* to = c_at + (long)i * ldc + j + {{ e }};
                if (beta == 0)
                    *to = alpha * {{ total }}.s{{ e }};
                else
                    *to = fma(alpha, {{ total }}.s{{ e }}, beta * {{ added("i", "j + %d" % e, real) }});
            }
{% endif %}
{% endfor %}
{% else %}
            {{ "if (row0 + i < m && col0 + j < n)" if C_EDGE }} {
                __global {{ realv }}* to = (__global {{ realv }}*)(c_at + (long)i * ldc + j);
                if (beta == 0)
                    *to = alpha * {{ total }};
                else
                    *to = fma(({{ realv }})(alpha), {{ total }}, beta * {{ added("i", "j", realv) }});
            }
{% endif %}
{% endmacro %}
