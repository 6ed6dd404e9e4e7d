// C = alpha (X - Y + i (Z - X - Y)) + beta C, from the three real products X, Y and Z, which lie in three planes.
//
// A work-item takes WIDE neighbouring columns of some rows. With beta = 0 C is not read.
{% from "scalars.cl" import functions, nothing with context %}
#ifdef DOUBLE
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif
{{ functions() }}

__kernel __attribute__((reqd_work_group_size(WGS, 1, 1)))
void gemm3m_combine(const int rows, const int columns, const REAL alpha, const REAL beta, __global const PART* restrict planes,
                    const long plane, const long pitch, __global REAL* restrict c, const long c_offset, const long ldc)
{
    const int column = (int)get_global_id(0) * {{ WIDE }};
    if (column >= columns)
        return;
    planes += column;
    c += c_offset + column;
    for (int row = (int)get_global_id(1); row < rows; row += (int)get_global_size(1)) {
        __global const PART* from = planes + row * pitch;
        __global {{ ELEMENTS }}* to = (__global {{ ELEMENTS }}*)(c + row * ldc);
        const {{ PARTS }} x = *(__global const {{ PARTS }}*)from, y = *(__global const {{ PARTS }}*)(from + plane), z = *(__global const {{ PARTS }}*)(from + 2 * plane);
        const {{ PARTS }} real = x - y, imaginary = z - x - y;
{% for e in range(WIDE) %}
{% set of = ".s%d" % e if WIDE > 1 %}
        REAL sum_{{ e }} = times(alpha, (REAL)(real{{ of }}, imaginary{{ of }}));
{% endfor %}
        if (!{{ nothing("beta") }}) {
            const {{ ELEMENTS }} old = *to;
{% for e in range(WIDE) %}
            sum_{{ e }} += times(beta, (REAL)(old.s{{ 2 * e }}, old.s{{ 2 * e + 1 }}));
{% endfor %}
        }
        *to = ({{ ELEMENTS }})({% for e in range(WIDE) %}sum_{{ e }}{{ ", " if not loop.last }}{% endfor %});
    }
}
