// Rows of op(A), or columns of op(B), as integers, and these modulo each of {{ count }} numbers, a byte each, with k fast.
//
// Element a of a row whose largest one is below 2^e, and whose norm is at most 2^(e + gap), is rounded to the integer x = a 2^(keep - e - gap).
// So the norm of the integers is at most 2^keep, and that of all their products with another such row 4^keep (Cauchy and Schwarz).
// Elements are taken apart by their bits, so that no device rounds them otherwise and none needs arithmetic of their type. What is written:
//
//   planes, plane l:  x mod p_l, in -p_l/2 .. p_l/2; of complex numbers three planes: real part, imaginary part, their sum
//   tops:             |a| 2^(7 - e), rounded down: 0 .. 127; of every fourth step of k where `sampled`; of a complex number its larger part
//
// Of each row sums[] has what |a| 2^(7 - e), rounded up, adds up to, all bits flipped where some x is not exact.
// One row of `sums` belongs to a slab of `length` steps of k.
{% from "scalars.cl" import nothing with context %}
{% from "tables.cl" import tables, entry with context %}
{% set names = ["re", "im"][:parts] %}
{% set unroll = "#pragma unroll" if unrolled else "" %}
{% set kinds = ["re", "im", "both"] if parts == 2 else ["re"] %}
{# of four steps the remainders of parts and of their sum, as floats that are integers; then as bytes of a word #}
{% macro modulo(l) %}
{
{% for q in range(4) %}
{% for name in names %}
                const float exact_{{ name }}{{ q }} = {% for t in range(limbs) %}{{ " + " if not loop.first }}{{ name }}{{ q }}_{{ t }} * {{ entry("weights", l, t) }}{% endfor %};
                const float times_{{ name }}{{ q }} = (exact_{{ name }}{{ q }} * {{ entry("reciprocals", l) }} + MAGIC) - MAGIC;
                const float left_{{ name }}{{ q }} = exact_{{ name }}{{ q }} - times_{{ name }}{{ q }} * {{ entry("divisors", l) }};
{% endfor %}
{% if parts == 2 %}
                const float sum{{ q }} = left_re{{ q }} + left_im{{ q }}, times{{ q }} = (sum{{ q }} * {{ entry("reciprocals", l) }} + MAGIC) - MAGIC;
                const float left_both{{ q }} = sum{{ q }} - times{{ q }} * {{ entry("divisors", l) }};
{% endif %}
{% endfor %}
{% for name in kinds %}
                out[{{ "(%d * %s + %d)" % (kinds | length, l, loop.index0) if parts == 2 else l }} * plane] = {{ "WORD" if not unrolled or l == 0 else "PAIRED" }}(left_{{ name }}0, left_{{ name }}1, left_{{ name }}2, left_{{ name }}3);
{% endfor %}
            }
{%- endmacro %}
{{ tables() }}
#if PRECISION == 53
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#define BITS ulong
#define EXPONENT(bits) ((int)((bits) >> 52) & 2047)
#else
#define BITS uint
#define EXPONENT(bits) ((int)((bits) >> 23) & 255)
#endif
#define FRACTION (((BITS)1 << (PRECISION - 1)) - 1)
#define STEPS (4 * LANES)  // of k in a tile
#define PITCH (4 * (LANES + 4) + 1)  // so that neither rows nor steps of k meet in one bank
#define MAGIC 12582912.0f  // 1.5 * 2^23: the last bits of a float near it are an integer
#define MAGIC_BITS 0x4B400000
#define FLOAT(x) (as_float(MAGIC_BITS + (x)) - MAGIC)  // of an integer below 2^22
#define BYTE(x) (as_uint((x) + MAGIC) & 255)
#define WORD(a, b, c, d) (BYTE(a) | BYTE(b) << 8 | BYTE(c) << 16 | BYTE(d) << 24)
// The same of bytes from -127 to 127: with 128 more they do not borrow from each other, and two together are exact as a float.
#define PAIR(a, b) (as_uint(((b) * 256.0f + (a)) + (MAGIC + 32896.0f)) & 65535)
#define PAIRED(a, b, c, d) ((PAIR(a, b) | PAIR(c, d) << 16) ^ 0x80808080)

// An element's bits; zero past the edges.
#if K_FAST
#define PLACE(i, h) ((i) * ld + (h))
#else
#define PLACE(i, h) ((h) * ld + (i))
#endif
#define READ(i, h, part) ((i) < across && (h) < k ? source[{{ parts }} * (offset + PLACE(i, h)) + part] : (BITS)0)

// |a| 2^(7 - e) of a mantissa below 2^e by `below` powers of two, rounded down; `last` bits are cut off.
#define LAST(below) min((below) + PRECISION - 7, PRECISION + 1)

// Of each row within a stretch of {{ stretch }} steps of k, whatever the work-group: the largest exponent e, at least that of the smallest
// normal number, and the sum of squares of |a| 2^(7 - e), rounded up.
__kernel __attribute__((reqd_work_group_size(LANES, ROWS, 1)))
void residues_scan(const int across, const int k, const SCALAR alpha, __global const BITS* restrict source, const long offset,
                   const long ld, __global int* restrict peaks, __global uint* restrict squares)
{
    __local int found[ROWS][LANES];
    __local uint added[ROWS][LANES];
    const int lane = (int)get_local_id(0), row = (int)get_local_id(1), first = (int)get_group_id(0) * {{ stretch }};
#if K_FAST
    const int r = row, h = lane;
#else
    const int id = row * LANES + lane, r = id % ROWS, h = id / ROWS;  // neighbours read neighbouring rows
#endif
    const long corner = (long)get_group_id(1) * ROWS;
    const int end = {{ nothing("alpha") }} ? 0 : min(first + {{ stretch }}, k);  // then nothing is read
    BITS kept[{{ parts }}][{{ stretch }} / LANES];
    int peak = 1;
{{ unroll }}
    for (int s = 0; s < {{ stretch }} / LANES; ++s) {
        const int step = first + h + s * LANES;
{% for part in range(parts) %}
        kept[{{ part }}][s] = step < end ? READ(corner + r, (long)step, {{ part }}) : (BITS)0;
        peak = max(peak, EXPONENT(kept[{{ part }}][s]));
{% endfor %}
    }
    found[r][h] = peak;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int t = 0; t < LANES; ++t)
        peak = max(peak, found[r][t]);
    uint sum = 0;
{{ unroll }}
    for (int s = 0; s < {{ stretch }} / LANES; ++s) {
{% for part in range(parts) %}
        {
            const BITS bits = kept[{{ part }}][s];
            const int exponent = EXPONENT(bits);
            const BITS mantissa = (bits & FRACTION) | (exponent ? FRACTION + 1 : (BITS)0);
            const int last = LAST(peak - max(exponent, 1));
            const uint top = (uint)(mantissa >> last), up = top + (((BITS)top << last) != mantissa);
            sum += up * up;
        }
{% endfor %}
    }
    added[r][h] = sum;
    barrier(CLK_LOCAL_MEM_FENCE);
    const long i = corner + row;
    if (lane == 0 && i < across) {
        int most = 1;
        uint total = 0;
        for (int t = 0; t < LANES; ++t) {
            most = max(most, found[row][t]);
            total += added[row][t];
        }
        peaks[(long)get_group_id(0) * across + i] = most;
        squares[(long)get_group_id(0) * across + i] = total;
    }
}

// facts[4 i], facts[4 i + 1]: the exponent e of a row's largest element, and the least gap >= 0 such that its norm is at most 2^(e + gap).
// facts[4 i + 3]: bit s is set where stretch s has elements other than 0; of more than 32 stretches two share a bit.
__kernel __attribute__((reqd_work_group_size(LANES * ROWS, 1, 1)))
void residues_norm(const int across, const int stretches, __global const int* restrict peaks, __global const uint* restrict squares,
                   __global int* restrict facts)
{
    const int i = (int)get_global_id(0);
    if (i >= across)
        return;
    int peak = 1;
    for (int s = 0; s < stretches; ++s)
        peak = max(peak, peaks[(long)s * across + i]);
    ulong sum = 0;
    uint held = 0;
    for (int s = 0; s < stretches; ++s) {
        const int down = min(2 * (peak - peaks[(long)s * across + i]), 32);
        sum += ((ulong)squares[(long)s * across + i] + ((1UL << down) - 1)) >> down;  // each rounded up by itself: the order does not count
        held |= (uint)(squares[(long)s * across + i] != 0) << (s >> (stretches > 32));
    }
    const int bits = sum > 1 ? 64 - (int)clz(sum - 1) : 0;  // sum <= 2^bits
    facts[4 * (long)i] = peak;
    facts[4 * (long)i + 1] = max((bits + 1) / 2 - 7, 0);
    facts[4 * (long)i + 3] = (int)held;
}

__kernel __attribute__((reqd_work_group_size(LANES, ROWS, 1)))
void residues_cut(const int across, const int k, const int depth, const int length, const int keep, const int sampled,
                  const int conjugate, const SCALAR alpha, __global const BITS* restrict source, const long offset, const long ld,
                  __global const int* restrict facts, __global int* restrict sums, __global uint* restrict planes, __global uint* restrict tops)
{
    __local BITS tile[{{ parts }}][ROWS][PITCH];
    __local int added[ROWS][LANES];
    __local int cut[ROWS][LANES];
    const int lane = (int)get_local_id(0), row = (int)get_local_id(1), slab = (int)get_group_id(0);
    const int id = row * LANES + lane;
    const long corner = (long)get_group_id(1) * ROWS, i = corner + row;
    const int peak = i < across ? facts[4 * i] : 1, gap = i < across ? facts[4 * i + 1] : 0;
    const int end = {{ nothing("alpha") }} ? 0 : min(slab * length + length, depth);
    int sum = 0, inexact = 0;
    for (int start = slab * length; start < end; start += STEPS) {
        for (int s = 0; s < 4; ++s) {
#if K_FAST
            const int r = row, h = lane + s * LANES;
#else
            const int r = id % ROWS, h = id / ROWS + s * LANES;
#endif
{% for part in range(parts) %}
            tile[{{ part }}][r][(h & 3) * (LANES + 4) + (h >> 2)] = READ(corner + r, (long)start + h, {{ part }});
{% endfor %}
        }
        barrier(CLK_LOCAL_MEM_FENCE);
{% for name in names %}
        float {% for q in range(4) %}{% for t in range(limbs) %}{{ name }}{{ q }}_{{ t }}{{ ", " if not (loop.last and q == 3) }}{% endfor %}{% endfor %};
{% endfor %}
        uint leading = 0;
{% for q in range(4) %}
        {
            uint largest = 0;
{% for name in names %}
            {
                const BITS bits = tile[{{ loop.index0 }}][row][{{ q }} * (LANES + 4) + lane];
                const int exponent = EXPONENT(bits);
                const BITS mantissa = (bits & FRACTION) | (exponent ? FRACTION + 1 : (BITS)0);
                const int below = peak - max(exponent, 1);  // powers of two below the row's largest
                const int drop = below + gap + PRECISION - keep, down = min(max(drop, 1), PRECISION + 1);
                // half to even, so that no bias adds up
                const long size = drop <= 0 ? (long)mantissa << min(-drop, 11) : (long)((mantissa + ((BITS)1 << (down - 1)) - 1 + ((mantissa >> down) & 1)) >> down);
                inexact |= drop > 0 && (drop > PRECISION ? mantissa != 0 : ((BITS)size << down) != mantissa);
                const int last = LAST(below);
                const BITS top = mantissa >> last;
                sum += (int)top + ((top << last) != mantissa);
                largest = max(largest, (uint)top);
                long x = (int)(bits >> (8 * sizeof(BITS) - 1)) {{ "^ conjugate " if name == "im" }}? -size : size;
{% for t in range(limbs) %}
{% if loop.last %}
                {{ name }}{{ q }}_{{ t }} = FLOAT((int)x);
{% else %}
                const int digit{{ t }} = ((int)x << 20) >> 20;  // twelve bits with their sign
                {{ name }}{{ q }}_{{ t }} = FLOAT(digit{{ t }});
                x = (x - digit{{ t }}) >> 12;
{% endif %}
{% endfor %}
            }
{% endfor %}
            leading |= largest << {{ 8 * q }};
        }
{% endfor %}
        const int h = start + 4 * lane;
        if (i < across && h < depth) {
            __global uint* out = planes + ((i * depth + h) >> 2);
            const long plane = ((long)across * depth) >> 2;
{% if unrolled %}
{% for l in range(count) %}
            {{ modulo(l) }}
{% endfor %}
{% else %}
            for (int l = 0; l < {{ count }}; ++l) {{ modulo("l") }}
{% endif %}
            if (sampled)
                ((__global uchar*)tops)[(i * depth + h) >> 2] = (uchar)leading;
            else
                tops[(i * depth + h) >> 2] = leading;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    added[row][lane] = sum;
    cut[row][lane] = inexact;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (lane == 0 && i < across) {
        for (int t = 1; t < LANES; ++t) {
            sum += added[row][t];
            inexact |= cut[row][t];
        }
        sums[(long)slab * across + i] = inexact ? ~sum : sum;
    }
}

// facts[4 i + 2]: what the slabs of a row add up to, all bits flipped where some x is not exact.
__kernel __attribute__((reqd_work_group_size(LANES * ROWS, 1, 1)))
void residues_fold(const int across, const int slabs, __global const int* restrict sums, __global int* restrict facts)
{
    const int i = (int)get_global_id(0);
    if (i >= across)
        return;
    int sum = 0, inexact = 0;
    for (int s = 0; s < slabs; ++s) {
        const int found = sums[(long)s * across + i];
        sum += found < 0 ? ~found : found;
        inexact |= found < 0;
    }
    facts[4 * (long)i + 2] = inexact ? ~sum : sum;
}
