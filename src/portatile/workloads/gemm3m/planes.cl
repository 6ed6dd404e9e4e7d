// Splits a complex matrix into three real ones, row-major: its real parts, its imaginary parts, and their sums.
//
//     matrix, row stride ld        planes, row stride `pitch`, `plane` elements from one to the next
//     re im | re im | ...    ->    re re ...     im im ...     re+im re+im ...
//
{% if TRANSPOSED %}
// The planes are transposed. A group of 32 x 8 work-items transposes a square of 32 x 32 in local memory.
{% else %}
// A work-item takes WIDE neighbouring columns of some rows.
{% endif %}
// With alpha = 0 the matrix is not read, and the planes are zeros.
{% from "scalars.cl" import nothing with context %}
#ifdef DOUBLE
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif

{% macro value() %}
        REAL value = (REAL)(0, 0);
        if (!{{ nothing("alpha") }})
            value = matrix[(long)row * ld + x];
{% if CONJUGATED %}
        value.y = -value.y;
{% endif %}
{% endmacro %}
{# real parts, or imaginary ones, of a work-item's elements #}
{% macro parts(which) %}{% if WIDE == 1 %}value.s{{ which }}{% else %}({{ PARTS }})({% for e in range(WIDE) %}value.s{{ 2 * e + which }}{{ ", " if not loop.last }}{% endfor %}){% endif %}{% endmacro %}
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
#pragma unroll
    for (int i = y; i < y + 32; i += 8) {
        const int row = row0 + i;
        if (row < rows && column0 + x < columns) {
{{ value() }}            square[i][x] = value;
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll
    for (int i = y; i < y + 32; i += 8)
        if (column0 + i < columns && row0 + x < rows) {
            const REAL value = square[x][i];
            __global PART* to = planes + i * pitch + x;
{{ taken_apart() }}        }
{% else %}
    const int column = (int)get_global_id(0) * {{ WIDE }};
    if (column >= columns)
        return;
    matrix += offset + column;
    planes += column;
    for (int row = (int)get_global_id(1); row < rows; row += (int)get_global_size(1)) {
        {{ ELEMENTS }} value = 0;
        if (!{{ nothing("alpha") }})
            value = *(__global const {{ ELEMENTS }}*)(matrix + (long)row * ld);
        const {{ PARTS }} real = {{ parts(0) }}, imaginary = {{ "-" if CONJUGATED }}{{ parts(1) }};
        __global {{ PARTS }}* to = (__global {{ PARTS }}*)(planes + row * pitch);
        *to = real;
        *(__global {{ PARTS }}*)((__global PART*)to + plane) = imaginary;
        *(__global {{ PARTS }}*)((__global PART*)to + 2 * plane) = real + imaginary;
    }
{% endif %}
}
