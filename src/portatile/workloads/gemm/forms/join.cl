{# How the work-groups that share a tile's sums tell which of them is the last, which adds up what all of them left in `planes`.

   `counters` holds zeros before a launch and after it. What a group wrote before `last` is seen by the work-items of the group that
   goes on behind it: a group's barrier orders its writes before those of its first work-item, whose atomic releases them for the device,
   and acquires what the groups before it released; on NVIDIA that takes compute capability 7.0. #}
{% macro arrival() %}
static inline int arrives_last(volatile __global uint* counter, const uint groups)
{
#ifdef PORTATILE_NVIDIA
    uint before;  // inc begins anew behind its limit
    asm volatile("atom.acq_rel.gpu.global.inc.u32 %0, [%1], %2;" : "=r"(before) : "l"(counter), "r"(groups - 1) : "memory");
    return before == groups - 1;
#else
    const int last = __atomic_fetch_add(counter, 1u, __ATOMIC_ACQ_REL) == groups - 1;
    if (last)
        *counter = 0;
    return last;
#endif
}

{% endmacro %}
{# `whether` it is the last group; `flag` is a place in local memory that nobody reads any more. Who has barriers behind it had better go on
   without a return: processors' compilers that run a group as a loop took wrong turns there. #}
{% macro last(flag, whether) %}
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    if (item == 0)
        *(volatile __local int*)({{ flag }}) = arrives_last(counters + joined, get_num_groups(1));
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    const int {{ whether }} = *(volatile __local int*)({{ flag }});
{% endmacro %}
