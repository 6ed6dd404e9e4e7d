{# Each work-group (or cluster) that shares a tile's k has left its sums in `planes`; the last one to finish adds them up for C, always in
   the same order: all sums of the tile, or in a cluster this work-group's share of them. #}
        group_wait({{ team }});
        if (item == 0)
            *(volatile __local int*)tiles = arrives_last(counters + at_tile{{ " * %d + %s" % (CLUSTER, rank) if CLUSTER > 1 }}, shared);
        group_wait({{ team }});
        const int is_last = *(volatile __local int*)tiles;
        if (!is_last)
            return;
{% set mine = slots // CLUSTER if slots % CLUSTER == 0 else 1 %}
{% set together = 8 if mine % 8 == 0 else 4 if mine % 4 == 0 else 1 %}
#pragma unroll 1
        for (int slot0 = {{ rank if CLUSTER > 1 else 0 }}; slot0 < {{ slots }}; slot0 += {{ together * CLUSTER }}) {
            {{ realv }} total[{{ together }}];
#pragma unroll
            for (int s = 0; s < {{ together }}; ++s)
                total[s] = ({{ realv }})(0);
#pragma unroll 2
            for (int from = 0; from < shared; ++from)
#pragma unroll
                for (int s = 0; s < {{ together }}; ++s)
                    total[s] += *(__global const {{ realv }}*)(left + from * {{ bm * bn }} + (slot0 + s * {{ CLUSTER }}) * {{ team * vector }});
#pragma unroll
            for (int s = 0; s < {{ together }}; ++s) {
                const int slot_ = slot0 + s * {{ CLUSTER }};
{{ store("slot_", "total[s]") }}            }
        }
