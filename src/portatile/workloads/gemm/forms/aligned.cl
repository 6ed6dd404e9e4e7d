// Copies the rows of operands, 16 bytes at a time and without a change of order, to rows aligned to 128 bytes, `pitch` elements apart.
//
// The operand's rows are aligned to 16 bytes. The last 16 bytes of a row are read element by element, not past its end. Each work-item
// copies one column of 16 bytes in four rows. With alpha = 0 the operands must not be read.
{# NAMES are the operands, one or two; the third dimension of the launch counts them #}
{% set wide = 16 // itemsize %}

__kernel __attribute__((reqd_work_group_size(64, 4, 1)))
void gemm_aligned(const {{ factor }} alpha{% for x in NAMES %},
                  const int {{ x }}_rows, const int {{ x }}_columns, const int {{ x }}_pitch, __global const {{ stored }}* restrict {{ x }}_base,
                  const long {{ x }}_offset, const int ld{{ x }}, __global {{ stored }}* restrict {{ x }}_aligned{% endfor %})
{
{% for kind, name, of in (("int", "rows", "_rows"), ("int", "columns", "_columns"), ("int", "pitch", "_pitch"), ("long", "offset", "_offset")) %}
    const {{ kind }} {{ name }} = {{ "get_group_id(2) ? b%s : a%s" % (of, of) if NAMES | length > 1 else NAMES[0] ~ of }};
{% endfor %}
    const int ld = {{ "get_group_id(2) ? ldb : lda" if NAMES | length > 1 else "ld" ~ NAMES[0] }};
    __global const {{ stored }}* base = {{ "get_group_id(2) ? b_base : a_base" if NAMES | length > 1 else NAMES[0] ~ "_base" }};
    __global {{ stored }}* aligned = {{ "get_group_id(2) ? b_aligned : a_aligned" if NAMES | length > 1 else NAMES[0] ~ "_aligned" }};
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
