// A complex matrix as three real ones, row by row: its real parts, its imaginary parts, and their sums.
//
//     matrix, row stride ld        planes, row stride `pitch`, `plane` elements from one to the next
//     re im | re im | ...    ->    re re ...     im im ...     re+im re+im ...
//
{% if TRANSPOSED %}
// The planes are transposed. A group of 32 x 8 work-items takes a square of 32 x 32.
{% else %}
// A work-item takes one column of some rows.
{% endif %}
// With alpha = 0 the matrix is not read, and the planes are zeros.
{% from "scalars.cl" import nothing with context %}
#ifdef DOUBLE
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif

{% macro value(column) %}
        REAL value = (REAL)(0, 0);
        if (!{{ nothing("alpha") }})
            value = matrix[(long)row * ld{{ column }}];
{% if CONJUGATED %}
        value.y = -value.y;
{% endif %}
{% endmacro %}
{% macro taken_apart() %}
        to[0] = value.x;
        to[plane] = value.y;
        to[2 * plane] = value.x + value.y;
{% endmacro %}
__kernel __attribute__((reqd_work_group_size({{ "32, 8" if TRANSPOSED else "WGS, 1" }}, 1)))
void gemm3m_planes(const int rows, const int columns, const REAL alpha, __global const REAL* restrict matrix, const long offset,
                   const long ld, __global PART* restrict planes, const long plane, const long pitch)
{
{% if TRANSPOSED %}
    __local REAL square[32][33];
    const int x = (int)get_local_id(0), y = (int)get_local_id(1), across = (columns + 31) / 32;
    const int row0 = (int)get_group_id(0) / across * 32, column0 = (int)get_group_id(0) % across * 32;
    matrix += offset + column0;
    planes += column0 * pitch + row0;
    for (int i = y; i < min(32, rows - row0); i += 8) {
        const int row = row0 + i;
        if (column0 + x < columns) {
{{ value(" + x") }}            square[i][x] = value;
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int i = y; i < min(32, columns - column0); i += 8)
        if (row0 + x < rows) {
            const REAL value = square[x][i];
            __global PART* to = planes + i * pitch + x;
{{ taken_apart() }}        }
{% else %}
    const int column = (int)get_global_id(0);
    if (column >= columns)
        return;
    matrix += offset + column;
    planes += column;
    for (int row = (int)get_global_id(1); row < rows; row += (int)get_global_size(1)) {
{{ value("") }}        __global PART* to = planes + row * pitch;
{{ taken_apart() }}    }
{% endif %}
}
