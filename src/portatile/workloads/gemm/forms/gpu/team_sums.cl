{# The KG parts of a work-group have summed their shares of k. Part 0 adds the sums of the others, in order, through local memory. #}
#pragma unroll
    for (int other = 1; other < {{ KG }}; ++other) {
        barrier(CLK_LOCAL_MEM_FENCE);
        if (part == other) {
#pragma unroll
            for (int r = 0; r < {{ rows }}; ++r)
#pragma unroll
                for (int c = 0; c < {{ cols }}; ++c)
                    tiles[(r * {{ cols }} + c) * {{ team }} + item % {{ team }}] = acc[r][c];
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        if (part == 0) {
#pragma unroll
            for (int r = 0; r < {{ rows }}; ++r)
#pragma unroll
                for (int c = 0; c < {{ cols }}; ++c)
                    acc[r][c] += tiles[(r * {{ cols }} + c) * {{ team }} + item % {{ team }}];
        }
    }
{% if not JOIN and not through and CLUSTER == 1 %}
    if (part > 0)
        return;
{% endif %}
