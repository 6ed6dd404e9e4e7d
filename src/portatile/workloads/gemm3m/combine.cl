// C = alpha (X - Y + i (Z - X - Y)) + beta C, of the three real products X, Y and Z, one plane after the other.
//
// A work-item takes one column of some rows. With beta = 0 C is not read.
{% from "scalars.cl" import functions, nothing with context %}
#ifdef DOUBLE
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif
{{ functions() }}

__kernel __attribute__((reqd_work_group_size(WGS, 1, 1)))
void gemm3m_combine(const int rows, const int columns, const REAL alpha, const REAL beta, __global const PART* restrict planes,
                    const long plane, const long pitch, __global REAL* restrict c, const long c_offset, const long ldc)
{
    const int column = (int)get_global_id(0);
    if (column >= columns)
        return;
    planes += column;
    c += c_offset + column;
    for (int row = (int)get_global_id(1); row < rows; row += (int)get_global_size(1)) {
        __global const PART* from = planes + row * pitch;
        __global REAL* to = c + row * ldc;
        const PART x = from[0], y = from[plane];
        const REAL sum = times(alpha, (REAL)(x - y, from[2 * plane] - x - y));
        *to = {{ nothing("beta") }} ? sum : sum + times(beta, *to);
    }
}
