// A complex matrix as three real ones, row by row: its real parts, its imaginary parts, and their sums.
//
//     matrix, row stride ld        planes, row stride `pitch`, `plane` elements from one to the next
//     re im | re im | ...    ->    re re ...     im im ...     re+im re+im ...
//
// A work-item takes one column of some rows. With alpha = 0 the matrix is not read, and the planes are zeros.
{% from "scalars.cl" import nothing with context %}
#ifdef DOUBLE
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif

__kernel __attribute__((reqd_work_group_size(WGS, 1, 1)))
void gemm3m_planes(const int rows, const int columns, const REAL alpha, __global const REAL* restrict matrix, const long offset,
                   const long ld, __global PART* restrict planes, const long plane, const long pitch)
{
    const int column = (int)get_global_id(0);
    if (column >= columns)
        return;
    matrix += offset + column;
    planes += column;
    for (int row = (int)get_global_id(1); row < rows; row += (int)get_global_size(1)) {
        REAL value = (REAL)(0, 0);
        if (!{{ nothing("alpha") }})
            value = matrix[row * ld];
{% if CONJUGATED %}
        value.y = -value.y;
{% endif %}
        __global PART* to = planes + row * pitch;
        to[0] = value.x;
        to[plane] = value.y;
        to[2 * plane] = value.x + value.y;
    }
}
