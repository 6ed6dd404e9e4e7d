// Copies operands to rows along k, of `pitch` elements each, with zeros past k, as the forms on matrix units read them, 16 bytes at a time.
//
// An operand is stored as `across` x k with k fast, else as k x `across`; its rows begin anywhere. A work-group of 256 work-items copies a
// square of {{ 128 // itemsize }} rows of 128 bytes (with k fast at most 64 rows) in chunks of 16 bytes. Each work-item issues all its
// loads before it stores. With alpha = 0 the operands must not be read.
{# NAMES are the operands, one or two: the first work-groups copy squares of A, the others of B. With BATCH the third dimension counts the
   problems of the batch. FAST are the operands with k fast. With k slow a work-group transposes its square in local memory. Row s of the
   square is a step of k; its chunk c lies at c ^ (s / piece), so that eight work-items find chunks of eight times `piece` rows in different
   banks (no bank conflicts). Each of them reads four bytes of `piece` rows: 16 bytes along k for the {{ 4 // itemsize }} rows of the copy
   that these contain. #}
{% set side = 128 // itemsize %}
{% set piece = 16 // itemsize %}
{% set count = 4 // itemsize %}
{% set bits = 8 * itemsize %}
{% from "chunks.cl" import asked, cut, element, joined with context %}
{% include "funnel_shift.cl" %}
{% macro transposed(e) %}(words[{{ e }}]{{ " >> %d * j & %d" % (bits, 2 ** bits - 1) if count > 1 }}){% endmacro %}

__kernel __attribute__((reqd_work_group_size(256, 1, 1)))
void gemm_lines(const int k, const int pitch, const {{ factor }} alpha{% for x in NAMES %},
                const int {{ x }}_across, __global const {{ stored }}* restrict {{ x }}_base, const long {{ x }}_offset, const int ld{{ x }},
                __global {{ stored }}* restrict {{ x }}_lines{% endfor %}{{ ", const long base_batch, const long lines_batch" if BATCH }})
{
{% if FAST != NAMES %}
    __local uint4 square[{{ side * 8 }}];
{% endif %}
    const int item = (int)get_local_id(0), deep = pitch / {{ side }};
    const int k0 = (int)get_group_id(0) % deep * {{ side }}, number = (int)get_group_id(0) / deep;
{% if EARLY %}
    AFTER_PREVIOUS();
    NEXT_MAY_START();
{% endif %}
    if (alpha == 0)
        return;
{% if NAMES | length > 1 %}
{% set tall = [side, 64] | min if "a" in FAST else side %}
    const int of_a = (a_across + {{ tall - 1 }}) / {{ tall }};
{% endif %}
{% for name in NAMES %}
{% set fast = name in FAST %}
{% set tall = [side, 64] | min if fast else side %}
{% set chunks = tall // 32 %}
{% set chunk = ("at", "((long)(row + 32 * r) * ld%s + column) * %d" % (name, itemsize), "end_of_last", "row + 32 * r < rows ? within : 0") %}
    {{ "if (number %s of_a) " % ("<" if loop.first else ">=") if NAMES | length > 1 }}{
        const int first = (number{{ " - of_a" if not loop.first }}) * {{ tall }};
        const int rows = {{ "%s_across" % name if fast else "k" }}, columns = {{ "k" if fast else "%s_across" % name }};  // of the stored operand
        const int row = {{ "first" if fast else "k0" }} + item / 8, column = {{ "k0" if fast else "first" }} + item % 8 * {{ piece }};
        const long end_of_last = ((long)(rows - 1) * ld{{ name }} + columns) * {{ itemsize }};
        const int within = min((columns - column) * {{ itemsize }}, 16);  // bytes of a chunk that belong to the operand
        __global const uchar* at = (__global const uchar*)({{ name }}_base + {{ name }}_offset{{ " + (long)get_group_id(2) * base_batch" if BATCH }});
        __global {{ element }}* to = (__global {{ element }}*){{ name }}_lines{{ " + (long)get_group_id(2) * lines_batch" if BATCH }};
        uint4 low[{{ chunks }}], high[{{ chunks }}];
#pragma unroll
        for (int r = 0; r < {{ chunks }}; ++r)
{{ asked("low[r]", "high[r]", *chunk) }}
#pragma unroll
        for (int r = 0; r < {{ chunks }}; ++r) {
            uint4 chunk;
{{ cut("chunk", "low[r]", "high[r]", *chunk) }}
{%- if fast %}
            if (row + 32 * r < rows)
                *(__global uint4*)(to + (long)(row + 32 * r) * pitch + column) = chunk;
{% else %}
            square[(item / 8 + 32 * r) * 8 + (item % 8 ^ (item / 8 + 32 * r) / {{ piece }})] = chunk;
{% endif %}
        }
{% if not fast %}
        barrier(CLK_LOCAL_MEM_FENCE);
        uint words[{{ piece }}];
#pragma unroll
        for (int e = 0; e < {{ piece }}; ++e)
            words[e] = ((__local const uint*)square)[(item % 8 * {{ piece }} + e) * 32 + (item / 32 ^ item % 8) * 4 + item / 8 % 4];
#pragma unroll
        for (int j = 0; j < {{ count }}; ++j)
            if (first + item / 8 * {{ count }} + j < {{ name }}_across)
                *(__global uint4*)(to + (long)(first + item / 8 * {{ count }} + j) * pitch + k0 + item % 8 * {{ piece }}) = {{ joined(transposed) }};
{% endif %}
    }
{% endfor %}
}
