// The second step of split k: C = alpha (sum of `parts` planes) + beta C; the planes are added in a fixed order, so that results are
// repeatable.
//
// Planes are m x n without padding. SHARES work-items reduce one column of some rows: each adds every SHARES-th plane, and the first one
// adds up their sums. Without planes (k = 0) the result is beta C.
{# with BATCH the third dimension of the launch counts the problems of the batch #}
{% if real == "double" %}
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
{% endif %}
{% from "elements.cl" import ending, epilogue_parameters, vectors_of with context %}
{% from "store.cl" import scaling with context %}
{% set sums = real ~ "2" if COMPLEX else real %}
{% if not PLAIN %}
{{ ending() }}
{%- endif %}
{% if TERMS > 1 %}
{{ scaling() }}
{%- endif %}

__kernel __attribute__((reqd_work_group_size(ITEMS, SHARES, 1)))
void gemm_reduce(const int m, const int n, const int parts, const {{ factor }} alpha, const {{ factor }} beta,
                 __global const {{ sums }}* restrict planes, __global {{ stored_c }}* restrict c_base, const long c_offset, const int ldc{{ ", const long c_batch" if BATCH }}{{ epilogue_parameters() }}{{ ", __global const int* restrict scales" if TERMS > 1 }})
{
{% if EARLY %}
    AFTER_PREVIOUS();
    NEXT_MAY_START();
{% endif %}
{% if BATCH %}
    planes += (long)get_group_id(2) * parts * m * n;
    c_base += (long)get_group_id(2) * c_batch;
{% endif %}
    const int x = (int)get_local_id(0), share = (int)get_local_id(1), j = (int)get_global_id(0);
    const long plane = (long)m * n;
#if SHARES > 1
    __local {{ sums }} sums[SHARES][ITEMS];
#endif
    for (int i = (int)get_group_id(1); i < m; i += (int)get_num_groups(1)) {
        {{ sums }} sum = 0;
        if (j < n) {
            __global const {{ sums }}* at = planes + (long)i * n + j;
#pragma unroll {{ AHEAD }}
            for (int part = share; part < parts; part += SHARES)  // unrolled, so that loads run ahead of the sums
                sum += at[part * plane];
        }
#if SHARES > 1
        sums[share][x] = sum;
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int other = 1; share == 0 && other < SHARES; ++other)
            sum += sums[other][x];
        barrier(CLK_LOCAL_MEM_FENCE);
#endif
        if (share == 0 && j < n) {
{% if TERMS > 1 %}
            __global const int* of_column = scales + 2 * (long)m + j;
            if (!scales[m + i] && !of_column[n])  // the native product stores the others
                put(c_base + c_offset + (long)i * ldc + j, unscaled(sum, scales[i] + *of_column), alpha, beta);
{% elif PLAIN %}
            __global {{ real }}* c = c_base + c_offset + (long)i * ldc + j;
            *c = beta == 0 ? alpha * sum : alpha * sum + beta * *c;
{% else %}
            put(c_base + c_offset + (long)i * ldc + j{{ " * 2, sum.x, sum.y" if COMPLEX else ", sum" }}, alpha, beta{{ vectors_of("i", "j") }});
{% endif %}
        }
    }
}
