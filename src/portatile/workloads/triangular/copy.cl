// Copies m rows of n vectors from one matrix to another. For alpha = 0 it writes zeros: then the source must not be read, or holds results
// of operands that must have no effect. A work-item takes one vector of some rows.
// In a stack, the third dimension of the launch is the system's number.
{% from "scalars.cl" import nothing with context %}
#ifdef DOUBLE
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif

__kernel __attribute__((reqd_work_group_size(WGS, 1, 1)))
void triangular_copy(const int m, const int n, const REAL alpha, __global const VECTOR* restrict from, const long from_offset, const long from_row,
                     __global VECTOR* restrict to, const long to_offset, const long to_row{{ ", const long from_batch, const long to_batch" if BATCH }})
{
{% if BATCH %}
    from += (long)get_global_id(2) * from_batch;
    to += (long)get_global_id(2) * to_batch;
{% endif %}
    const int j = (int)get_global_id(0);
    if (j >= n)
        return;
    const int nothing = {{ nothing("alpha") }};
    for (int i = (int)get_global_id(1); i < m; i += (int)get_global_size(1))
        to[to_offset + i * to_row + j] = nothing ? (VECTOR)(0) : from[from_offset + i * from_row + j];
}
