{# How work-groups that share a tile's k detect which of them finishes last; that one adds up the sums that all left in `planes`.

   `counters` holds zeros before and after a launch. What a work-group wrote before `last` is visible to the last work-group: a barrier
   orders its writes before the atomic of its first work-item, which releases them for the device and acquires what the others released
   before. On NVIDIA this needs compute capability 7.0. #}
{% macro arrival() %}
static inline int arrives_last(volatile __global uint* counter, const uint groups)
{
#ifdef PORTATILE_NVIDIA
    uint before;  // inc wraps to zero at its limit
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
{# Declares `whether`: true in the last work-group. `flag` is a place in local memory that is no longer in use. If barriers follow, do not
   return under this condition: processors' compilers that run a work-group as a loop were seen to go wrong. #}
{% macro last(flag, whether) %}
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    if (item == 0)
        *(volatile __local int*)({{ flag }}) = arrives_last(counters + joined, get_num_groups(1));
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    const int {{ whether }} = *(volatile __local int*)({{ flag }});
{% endmacro %}
