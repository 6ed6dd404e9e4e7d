{# The end of gpu.cl where the last group of a tile adds up what all of them left: a work-item's sums as vectors, neighbours beside each
   other, so that nothing is asked of edges before C is stored. The KG parts of the group take some of the vectors each. Loads of 16 vectors
   are under way at a time; the order of the sums, and how they are rounded, are those of reduce.cl. #}
{% from "join.cl" import last %}
{% set slots = rows * cols // VL %}
{% set helpers = KG if slots % KG == 0 else 2 if slots % 2 == 0 and KG % 2 == 0 else 1 %}
{% set each = slots // helpers %}
{% set fitting = [1] %}
{% for count in (2, 3, 4, 6, 8) if each % count == 0 and count * SPLIT_K <= 16 %}
{% set _ = fitting.append(count) %}
{% endfor %}
{% set together = fitting | last %}
{% set ahead = [SPLIT_K, 16] | min %}
{% set realv = real ~ VL %}
    const long joined = (long)get_group_id(2) * get_num_groups(0) + group;
    const int parts = (int)get_num_groups(1), place = item % {{ team }} * {{ VL }};
    __global {{ real }}* sums = planes + joined * parts * {{ bm * bn }};
{% if KG > 1 %}
    if (part == 0)
{% endif %}
#pragma unroll
        for (int r = 0; r < {{ rows }}; ++r)
#pragma unroll
            for (int c = 0; c < {{ cols }}; c += {{ VL }})
                *(__global {{ realv }}*)(sums + (int)get_group_id(1) * {{ bm * bn }} + (r * {{ cols }} + c) * {{ team }} + place) = ({{ realv }})({% for e in range(VL) %}acc[r][c + {{ e }}]{{ ", " if not loop.last }}{% endfor %});
{{ last("tiles", "is_last") }}
    if (!is_last{{ " || part >= %d" % helpers if helpers < KG }})
        return;
#pragma unroll 1
    for (int first = {{ "part" if KG > 1 else "0" }}; first < {{ slots }}; first += {{ helpers * together }}) {
        {{ realv }} total[{{ together }}][{{ SHARES }}];
#pragma unroll
        for (int t = 0; t < {{ together }}; ++t)
#pragma unroll
            for (int share = 0; share < {{ SHARES }}; ++share)
                total[t][share] = ({{ realv }})(0);
{{ "#pragma unroll 1" if SPLIT_K > ahead else "#pragma unroll" }}
        for (int from = 0; from < {{ SPLIT_K }}; from += {{ ahead }})
#pragma unroll
            for (int next = 0; next < {{ ahead }}; ++next)
#pragma unroll
                for (int t = 0; t < {{ together }}; ++t) {
                    const {{ realv }} sum = *(__global const {{ realv }}*)(sums + min(from + next, parts - 1) * {{ bm * bn }} + (first + t * {{ helpers }}) * {{ team * VL }} + place);
                    total[t][next % {{ SHARES }}] += from + next < parts ? sum : ({{ realv }})(0);
                }
#pragma unroll
        for (int t = 0; t < {{ together }}; ++t) {
#pragma unroll
            for (int share = 1; share < {{ SHARES }}; ++share)
                total[t][0] += total[t][share];
            const int r = (first + t * {{ helpers }}) * {{ VL }} / {{ cols }}, c = (first + t * {{ helpers }}) * {{ VL }} % {{ cols }};
            const int i = r / {{ TR }} * {{ TBR * TR }} + r % {{ TR }} + tr * {{ TR }};
            const int j = c / {{ TC }} * {{ TBC * TC }} + c % {{ TC }}{{ " * 2 - odd * 2" if paired }} + tc * {{ TC }};
{% if w == 1 %}
{% for e in range(VL) %}
{% if not PLAIN %}
            {{ "if (row0 + i < m && col0 + j + %d < n)" % e if C_EDGE }}
                put(c_at + (long)i * ldc + j + {{ e }}, total[t][0].s{{ e }}, alpha, beta{{ vectors_of("row0 + i", "col0 + j + %d" % e) }});
{% else %}
            {{ "if (%s)" % belongs("i", "j + %d" % e) if C_EDGE or triangle }} {
                __global {{ real }}* to = c_at + (long)i * ldc + j + {{ e }};
                if (beta == 0)
                    *to = alpha * total[t][0].s{{ e }};
                else
                    *to = fma(alpha, total[t][0].s{{ e }}, beta * {{ added("i", "j + %d" % e, real) }});
            }
{% endif %}
{% endfor %}
{% else %}
            {{ "if (row0 + i < m && col0 + j < n)" if C_EDGE }} {
                __global {{ realv }}* to = (__global {{ realv }}*)(c_at + (long)i * ldc + j);
                if (beta == 0)
                    *to = alpha * total[t][0];
                else
                    *to = fma(({{ realv }})(alpha), total[t][0], beta * {{ added("i", "j", realv) }});
            }
{% endif %}
        }
    }
