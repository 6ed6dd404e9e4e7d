{# Split k with JOIN: each work-group leaves its sums in `planes` in the order of its registers, four at a time; the last one to finish adds
   up all of them, in the order of k, and stores the tile. #}
{% set sums4 = real ~ "4" %}
{% set tile_number = "(long)get_group_id(2) * (down * across) + at" %}
        const long joined = {{ "(%s) * %d + (int)rank" % (tile_number, CLUSTER) if CLUSTER > 1 else tile_number }};
        const int parts = (int)get_num_groups(1);
        __global {{ sums4 }}* left = (__global {{ sums4 }}*)planes + joined * parts * {{ bm * bn // 4 }} + {{ within }} * {{ 16 * TRR * bn }} + item % 128;
#pragma unroll
        for (int r = 0; r < {{ TRR }}; ++r)
#pragma unroll
            for (int e = 0; e < {{ count }}; e += 4)
                left[(int)get_group_id(1) * {{ bm * bn // 4 }} + (r * {{ count // 4 }} + e / 4) * 128] = ({{ sums4 }})(sums[r][e], sums[r][e + 1], sums[r][e + 2], sums[r][e + 3]);
{% set flag = "tiles + %d" % spaces ~ (" + warp_group * 4" if ALTERNATE) %}
{% set wait = "WARP_GROUP_BARRIER(warp_group)" if sharing == 1 else "group_wait(%d)" % (128 * TBR) %}
        {{ wait }};
        if (item % {{ 128 * sharing }} == 0)
            *(volatile __local int*)({{ flag }}) = arrives_last(counters + joined, parts);
        {{ wait }};
        if (!*(volatile __local int*)({{ flag }}))
            continue;
#pragma unroll
        for (int r = 0; r < {{ TRR }}; ++r)
#pragma unroll
            for (int e = 0; e < {{ count }}; ++e)
                sums[r][e] = 0;
#pragma unroll 1
        for (int part = 0; part < parts; ++part)
#pragma unroll
            for (int r = 0; r < {{ TRR }}; ++r)
#pragma unroll
                for (int e = 0; e < {{ count }}; e += 4) {
                    const {{ sums4 }} more = left[part * {{ bm * bn // 4 }} + (r * {{ count // 4 }} + e / 4) * 128];
{% for x in range(4) %}
                    sums[r][e + {{ x }}] += more.s{{ x }};
{% endfor %}
                }
