{#
   An operand is `across` rows of op(A), or columns of op(B), of k elements. Row i is scaled by 2^s, so that its largest element lies in
   [2^14, 2^15), and an element x of it becomes two float16 terms:

        high = half(x 2^s)        low = half((x 2^s - high) 2^11)         x 2^s = high + low 2^-11, up to the rounding of `low`

   a_terms:  +---- pitch ----+
             | high          |  m rows                      scales:  scale of m rows, whether each is lost; the same of n columns;
             +---------------+                                       whether any is lost
             | low           |  m rows
             +---------------+                              maxima:  for each chunk of k that of m rows; then for each chunk of n columns
#}
// Splits float32 operands into two terms of 16 bits for matrix units: first the largest magnitude of each row, then its scale and terms.
//
// A row is lost if it holds an infinity, NaN, or an element whose high term has a relative error above {{ miss }}: the native product
// handles such a row. Group (x, y, z) has 64 rows from row 64 y, of A if z is 0, else of B. alpha = 0 must not read them.
{# the common beginning of both kernels #}
{% macro begin() %}
    const int x = (int)get_local_id(0), y = (int)get_local_id(1), item = y * 64 + x;
    const int second = (int)get_group_id(2), across = second ? n : m, first = (int)get_group_id(1) * 64;
    const int fast = second ? {{ B_FAST }} : {{ A_FAST }}, ld = second ? ldb : lda;
    __global const float* at = second ? b_base + b_offset : a_base + a_offset;
    __global int* scale_at = scales + (second ? 2 * (long)m : 0);
    if (first >= across)
        return;
    // of a square of 64 rows x 64 steps of k a work-item reads 16 elements, 4 ld apart, with its neighbours' elements beside them
    // (coalesced): its rows are y, y + 4, ... if k is the contiguous dimension, else its steps are
    const int beside = fast ? x : first + x, below = fast ? first + y : y;
{% endmacro %}
{# the address of its first element in the square that begins at step `start` #}
{% macro begins(start) %}at + (fast ? (long)below * ld + {{ start }} + x : (long)({{ start }} + y) * ld + beside){% endmacro %}
{# loads its elements of the square that begins at step `start` as `element_0` to `element_15`; steps from `end` on are zero. Compilers make
   a branch of a condition on a load, and some keep a loop: either waits for one element before it loads the next. So the loads are written
   out one below the other: without conditions for a whole square; otherwise with indices clamped to the last row or step #}
{% macro read_square(start, end) %}
        float {% for s in range(16) %}element_{{ s }}{{ ", " if not loop.last }}{% endfor %};
        if ({{ start }} + 64 <= {{ end }} && first + 64 <= across) {
            __global const float* from = {{ begins(start) }};
{% for s in range(16) %}
            element_{{ s }} = from[(long){{ 4 * s }} * ld];
{% endfor %}
        } else {
            const int row = fast ? below : {{ start }} + y, last = (fast ? across : {{ end }}) - 1;
            const int column = fast ? {{ start }} + x : beside, most = (fast ? {{ end }} : across) - 1;
            __global const float* down = at + min(column, most);
{% for s in range(16) %}
            element_{{ s }} = down[(long)min(row + {{ 4 * s }}, last) * ld];
{% endfor %}
{% for s in range(16) %}
            element_{{ s }} = row + {{ 4 * s }} <= last && column <= most ? element_{{ s }} : 0.0f;
{% endfor %}
        }
{% endmacro %}
{% macro operands() %}
__global const float* restrict a_base, const long a_offset, const int lda,
{{- " " }}__global const float* restrict b_base, const long b_offset, const int ldb
{%- endmacro %}

MIN_GROUPS(4)
__kernel __attribute__((reqd_work_group_size(64, 4, 1)))
void terms_maxima(const int m, const int n, const int k, const int chunk, const float alpha,
                  {{ operands() }},
                  __global uint* restrict maxima, __global int* restrict scales)
{
    __local uint found[64][65];
{{ begin() }}
    const int k0 = (int)get_group_id(0) * chunk, k1 = alpha == 0 ? 0 : min(k, k0 + chunk);
    if (k0 == 0 && item < 64 && first + item < across)
        scale_at[across + first + item] = 0;
    if (get_group_id(0) + get_group_id(1) + get_group_id(2) == 0 && item == 0)
        scales[2 * ((long)m + n)] = 0;
    uint {% for s in range(16) %}best_{{ s }} = 0{{ ", " if not loop.last }}{% endfor %};
#pragma unroll 1
    for (int start = k0; start < k1; start += 64) {
{{ read_square("start", "k1") }}{% for s in range(16) %}
        best_{{ s }} = max(best_{{ s }}, as_uint(element_{{ s }}) & 0x7fffffffu);
{% endfor %}
    }
{% for s in range(16) %}
    found[fast ? y + {{ 4 * s }} : x][fast ? x : y + {{ 4 * s }}] = best_{{ s }};
{% endfor %}
    barrier(CLK_LOCAL_MEM_FENCE);
    if (item < 64 && first + item < across) {
        uint most = 0;
        for (int i = 0; i < 64; ++i)
            most = max(most, found[item][i]);
        maxima[((long)(second ? m : 0)) * get_num_groups(0) + (long)get_group_id(0) * across + first + item] = most;
    }
}

__kernel __attribute__((reqd_work_group_size(64, 4, 1)))
void terms_split(const int m, const int n, const int k, const int pitch, const int chunks, const float alpha,
                 {{ operands() }},
                 __global const uint* restrict maxima, __global int* restrict scales, __global uint* restrict a_terms, __global uint* restrict b_terms)
{
    __local float square[64][65];
    __local int scale_of[64];
{{ begin() }}
    const int start = (int)get_group_id(0) * {{ DEPTH }}, end = min(pitch, start + {{ DEPTH }});
    if (item < 64) {
        uint most = 0;
        if (alpha != 0 && first + item < across)
            for (int c = 0; c < chunks; ++c)
                most = max(most, maxima[((long)(second ? m : 0)) * chunks + (long)c * across + first + item]);
        const int bad = most >= 0x7f800000u;
        const int scale = most == 0 || bad ? 0 : min(14 - ((int)(most >> 23) - 127), 126);
        scale_of[item] = bad ? -1000 : scale;
        if (start == 0 && first + item < across) {
            scale_at[first + item] = scale;
            if (bad) {
                scale_at[across + first + item] = 1;
                scales[2 * ((long)m + n)] = 1;
            }
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (alpha == 0)
        return;
    __global uint* to = second ? b_terms : a_terms;
    const long plane = (long)across * (pitch / 2);
    for (int k0 = start; k0 < end; k0 += 64) {
{{ read_square("k0", "k") }}{% for s in range(16) %}
        square[fast ? y + {{ 4 * s }} : x][fast ? x : y + {{ 4 * s }}] = element_{{ s }};
{% endfor %}
        barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll 2
        for (int s = 0; s < 64; s += 8) {  // 32 pairs of a row, 8 rows at a time
            const int row = item / 32 + s, pair = item % 32, scale = scale_of[row];
            const int bad = scale == -1000;
            const float by = bad ? 0.0f : as_float((127 + scale) << 23);
            const float u = square[row][2 * pair], v = square[row][2 * pair + 1];
            const float us = bad ? 0.0f : u * by, vs = bad ? 0.0f : v * by;
            const uint high = MATRIX_PAIR_F16(us, vs);
            const float u_rest = us - MATRIX_LOW_F16(high), v_rest = vs - MATRIX_HIGH_F16(high);
            const uint low = MATRIX_PAIR_F16(u_rest * 2048.0f, v_rest * 2048.0f);
            if (first + row < across) {
                const long place = (long)(first + row) * (pitch / 2) + (k0 / 2 + pair);
                to[place] = high;
                to[plane + place] = low;
                const int kept = fabs(u_rest) <= fabs(us) * {{ miss }}f && fabs(v_rest) <= fabs(vs) * {{ miss }}f;
                if (!bad && !(kept && (us != 0 || u == 0) && (vs != 0 || v == 0))) {
                    scale_at[across + first + row] = 1;
                    scales[2 * ((long)m + n)] = 1;
                }
            }
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
}
