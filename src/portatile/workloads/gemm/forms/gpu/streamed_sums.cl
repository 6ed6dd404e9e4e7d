{# After a piece's steps: if other work-groups have parts of the tile, a work-group leaves its sums in `planes` (two for each work-group),
   unless it is the second of two. The last one to arrive adds up all parts in order; the sum of two parts is the same in any order.
   `unwanted`: another work-group stores the tile. #}
{% set realv = real ~ VL %}
{% set slot = "((r * %d + c) * %d + item * %d)" % (cols, team, VL) %}
    barrier(CLK_LOCAL_MEM_FENCE);
    {
    const int row0 = {{ kept("row0") }}, col0 = {{ kept("col0") }}, number = {{ kept("number") }}, begin = number * steps;
    const int group = (int)get_group_id(0);
    int unwanted = 0;
    if ({{ kept("origin") }} > begin || {{ kept("end") }} < begin + steps) {
        const int first_group = begin / share, parts = (begin + steps - 1) / share - first_group + 1, mine = group - first_group;
        volatile __local int* flag = (volatile __local int*)tiles;
        barrier(CLK_LOCAL_MEM_FENCE);
        if (item == 0) {
            uint arrived;
#ifdef PORTATILE_NVIDIA
            asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(arrived) : "l"(counters + number) : "memory");
#else
            arrived = __atomic_load_n(counters + number, __ATOMIC_ACQUIRE);
#endif
            *flag = parts == 2 && arrived == 1;
            if (*flag)
                counters[number] = 0;
        }
        barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
        int is_last = *flag;
        if (!is_last) {
            __global {{ real }}* left = planes + (long)(2 * group + (mine == 0)) * {{ bm * bn }};
#pragma unroll
            for (int r = 0; r < {{ rows }}; ++r)
#pragma unroll
                for (int c = 0; c < {{ cols }}; c += {{ VL }})
                    *(__global {{ realv }}*)(left + {{ slot }}) = ({{ realv }})({% for e in range(VL) %}acc[r][c + {{ e }}]{{ ", " if not loop.last }}{% endfor %});
            barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
            if (item == 0)
                *flag = arrives_last(counters + number, parts);
            barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
            is_last = *flag;
        }
        unwanted = !is_last;
        if (is_last && parts > 2)
#pragma unroll
            for (int r = 0; r < {{ rows }}; ++r)
#pragma unroll
                for (int c = 0; c < {{ cols }}; ++c)
                    acc[r][c] = 0;
#pragma unroll 1
        for (int part_of = 0; part_of < (is_last ? parts : 0); ++part_of) {
            if (parts == 2 && part_of == mine)
                continue;
            __global const {{ real }}* left = planes + (long)(2 * (first_group + part_of) + (part_of == 0)) * {{ bm * bn }};
#pragma unroll
            for (int r = 0; r < {{ rows }}; ++r)
#pragma unroll
                for (int c = 0; c < {{ cols }}; c += {{ VL }}) {
                    const {{ realv }} sums = *(__global const {{ realv }}*)(left + {{ slot }});
{% for e in range(VL) %}
                    acc[r][c + {{ e }}] += sums.s{{ e }};
{% endfor %}
                }
        }
    }
