// Copies the rows of an operand as they are, 16 bytes at a time, to rows that begin where memory reads begin, `pitch` elements apart.
//
// Rows of the operand are aligned to 16 bytes; what lies past their end, within the last 16, is not read. Each work-item copies one column
// of four rows. alpha = 0 must not read the operand.
{% set wide = 16 // itemsize %}

__kernel __attribute__((reqd_work_group_size(64, 4, 1)))
void gemm_aligned(const int rows, const int columns, const int pitch, const {{ factor }} alpha, __global const {{ stored }}* restrict base,
                  const long offset, const int ld, __global {{ stored }}* restrict aligned)
{
    const int x = (int)get_global_id(0) * {{ wide }}, first = (int)get_group_id(1) * 16 + (int)get_local_id(1);
{% if EARLY %}
    AFTER_PREVIOUS();
    NEXT_MAY_START();
{% endif %}
    if (alpha == 0 || x >= columns)
        return;
    __global const {{ stored }}* at = base + offset + x;
    if (x + {{ wide }} <= columns) {
        uint4 chunk[4];
#pragma unroll
        for (int i = 0; i < 4; ++i)
            if (first + 4 * i < rows)
                chunk[i] = *(__global const uint4*)(at + (long)(first + 4 * i) * ld);
#pragma unroll
        for (int i = 0; i < 4; ++i)
            if (first + 4 * i < rows)
                *(__global uint4*)(aligned + (long)(first + 4 * i) * pitch + x) = chunk[i];
        return;
    }
    for (int i = first; i < min(first + 16, rows); i += 4)
        for (int j = 0; j < columns - x; ++j)
            aligned[(long)i * pitch + x + j] = at[(long)i * ld + j];
}
