{# The end of gpu.cl if the last work-group of a tile adds up the sums of all. They lie in `planes` as vectors, those of neighbouring
   work-items side by side, so that edges matter only when C is stored. Each of the KG parts of the work-group adds some of the vectors,
   with loads of 16 vectors in flight. The order of the sums, and so their rounding, is that of reduce.cl. #}
{% from "join.cl" import last %}
{% from "slots.cl" import store_slot with context %}
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
{{ store_slot("(first + t * %s)" % helpers, "total[t][0]") }}        }
    }
