// The second step of split k: C = alpha (sum of `parts` planes) + beta C, the planes added in order, so that results repeat.
//
// Planes are m x n without padding. A work-item takes one column of some rows. No planes at all (k = 0) leaves beta C.
{# with BATCH, groups of the third dimension are problems of the batch #}
{% if real == "double" %}
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
{% endif %}

__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1)))
void gemm_reduce(const int m, const int n, const int parts, const {{ real }} alpha, const {{ real }} beta,
                 __global const {{ real }}* restrict planes, __global {{ real }}* restrict c_base, const long c_offset, const int ldc{{ ", const long c_batch" if BATCH }})
{
{% if BATCH %}
    planes += (long)get_group_id(2) * parts * m * n;
    c_base += (long)get_group_id(2) * c_batch;
{% endif %}
    const int j = (int)get_global_id(0);
    if (j >= n)
        return;
    const long plane = (long)m * n;
    for (int i = (int)get_global_id(1); i < m; i += (int)get_global_size(1)) {
        __global const {{ real }}* at = planes + (long)i * n + j;
        {{ real }} sum = 0;
        for (int part = 0; part < parts; ++part)
            sum += at[part * plane];
        __global {{ real }}* c = c_base + c_offset + (long)i * ldc + j;
        *c = beta == 0 ? alpha * sum : alpha * sum + beta * *c;
    }
}
