{# The end of gpu.cl if the work-groups of a cluster share a tile's k. Each leaves its sums in its own local memory; then each adds up, in
   order, a share of the tile from all of them, and stores it. With JOIN several clusters share the tile's k: each leaves its sums in
   `planes`, and of each share the work-group that finishes last adds up what all clusters left there. #}
{% from "cluster.cl" import sum_of_cluster, wait_for_cluster %}
{% from "join.cl" import last %}
{% from "slots.cl" import store_slot with context %}
{% set slots = rows * cols // VL %}
{% set realv = real ~ VL %}
    barrier(CLK_LOCAL_MEM_FENCE);
{% if KG > 1 %}
    if (part == 0)
{% endif %}
#pragma unroll
        for (int r = 0; r < {{ rows }}; ++r)
#pragma unroll
            for (int c = 0; c < {{ cols }}; c += {{ VL }})
                *(__local {{ realv }}*)(tiles + ((r * {{ cols }} + c) * {{ team }} + item % {{ team }} * {{ VL }})) = ({{ realv }})({% for e in range(VL) %}acc[r][c + {{ e }}]{{ ", " if not loop.last }}{% endfor %});
    {{ wait_for_cluster() }}
{% set takers = CLUSTER * KG %}
    const int mine = {{ rank }}{{ " * %d + part" % KG if KG > 1 }};
{% if JOIN %}
    const int parts = (int)get_num_groups(1), joined = ((int)get_group_id(2) * (int)get_num_groups(0) / {{ CLUSTER }} + group) * {{ CLUSTER }} + {{ rank }};
    __global {{ real }}* left = planes + (long)(joined / {{ CLUSTER }}) * parts * {{ bm * bn }} + item % {{ team }} * {{ VL }};
{% endif %}
    const uint here = LOCAL_ADDRESS(tiles) + item % {{ team }} * {{ VL * itemsize }};
#pragma unroll
    for (int turn = 0; turn < {{ (slots + takers - 1) // takers }}; ++turn) {
        const int slot = mine + turn * {{ takers }};
{% if slots % takers %}
        if (slot >= {{ slots }})
            break;
{% endif %}
{{ sum_of_cluster(CLUSTER, "here + slot * %d" % (team * VL * itemsize), real, VL, itemsize) }}{% if JOIN %}
        *(__global {{ realv }}*)(left + (int)get_group_id(1) * {{ bm * bn }} + slot * {{ team * VL }}) = total;
    }
{% else %}
{{ store_slot("slot", "total") }}    }
{% endif %}
    // no work-group may end while others still read its local memory
    {{ wait_for_cluster() }}
{% if JOIN %}
{{ last("tiles", "is_last") }}
    if (!is_last)
        return;
#pragma unroll
    for (int turn = 0; turn < {{ (slots + takers - 1) // takers }}; ++turn) {
        const int slot = mine + turn * {{ takers }};
{% if slots % takers %}
        if (slot >= {{ slots }})
            break;
{% endif %}
        {{ realv }} total = ({{ realv }})(0);
#pragma unroll 4
        for (int from = 0; from < parts; ++from)
            total += *(__global const {{ realv }}*)(left + from * {{ bm * bn }} + slot * {{ team * VL }});
{{ store_slot("slot", "total") }}    }
{% endif %}
