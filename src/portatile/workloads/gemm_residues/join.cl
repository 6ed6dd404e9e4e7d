// C = alpha S + beta C of the sums S = op(A) op(B), which are put together from what they are modulo {{ moduli | length }} numbers.
//
// S 2^(2 keep - e_i - f_j) = V is an integer with |V| < {{ margin }} M, where M is the product of the moduli p_l, and
//
//   V = sum_l W_l y_l - Q M,   W_l = M / p_l,   y_l = V / W_l mod p_l,   Q = round(sum_l y_l / p_l)
//
// in limbs of 30 bits: exact integers, rounded once. An element is marked, and left to residues_mend, where rounding A and B to integers may
// have cost more than k u |A| |B|, where a row or column has an infinity or NaN, and where the sum is no normal number.
{% macro modulo(l) %}
{
        const int s = planes[{{ l }} * plane];
        const int s0 = (s << 20) >> 20, s1 = ((s - s0) << 8) >> 20, s2 = (s - s0 - (s1 << 12)) >> 24;
        const int r = s0 * {{ entry("inverses", l, 0) }} + s1 * {{ entry("inverses", l, 1) }} + s2 * {{ entry("inverses", l, 2) }};
        const float exact = as_float(MAGIC_BITS + r) - MAGIC;
        const float times = (exact * {{ entry("reciprocals", l) }} + MAGIC) - MAGIC;
        const float left = exact - times * {{ entry("divisors", l) }};
        const int y = as_int(left + MAGIC) - MAGIC_BITS;
        turns += left * {{ entry("reciprocals", l) }};
{% for t in range(wide) %}
        v{{ t }} += (long){{ entry("cofactors", l, t) }} * y;
{% endfor %}
    }
{%- endmacro %}
{% from "tables.cl" import tables, entry with context %}
{{ tables() }}
#pragma OPENCL EXTENSION cl_khr_fp64 : enable

#define MAGIC 12582912.0f
#define MAGIC_BITS 0x4B400000
#define LIMB 1073741823L

// 2^n, -1022 <= n <= 1023
double power(const int n)
{
    return as_double((ulong)(n + 1023) << 52);
}

REAL combined(const REAL alpha, const double sum, const REAL beta, __global const REAL* c)
{
    if (beta == (REAL)0)
        return (REAL)((double)alpha * sum);
    return (REAL)fma((double)alpha, sum, (double)beta * (double)*c);
}

__kernel __attribute__((reqd_work_group_size(WGS, 1, 1)))
void residues_join(const int m, const int n, const int k, const int keep, const int slack, const REAL alpha, const REAL beta, __global const int* restrict planes,
                   __global const int* restrict rows, __global const int* restrict columns, __global REAL* restrict c, const long offset,
                   const long ld, __global uchar* restrict marks)
{
    const int j = (int)get_global_id(0);
    const long i = (long)get_global_id(1);
    if (j >= n || i >= m)
        return;
    c += offset + i * ld + j;
    planes += i * n + j;
    marks += i * n + j;
    if (alpha == (REAL)0) {
        *c = combined(alpha, 0.0, beta, c);
        *marks = 0;
        return;
    }
    const long plane = (long)m * n;
    long {% for t in range(wide) %}v{{ t }} = 0{{ ", " if not loop.last }}{% endfor %};
    float turns = 0.0f;
{% if unrolled %}
{% for l in range(moduli | length) %}
    {{ modulo(l) }}
{% endfor %}
{% else %}
    for (int l = 0; l < {{ moduli | length }}; ++l) {{ modulo("l") }}
{% endif %}
    const int whole = as_int(turns + MAGIC) - MAGIC_BITS;
{% for t in range(wide) %}
    v{{ t }} -= (long){{ product[t] }} * whole;
{% endfor %}
{% for t in range(wide - 1) %}
    v{{ t + 1 }} += v{{ t }} >> 30;
    v{{ t }} &= LIMB;
{% endfor %}
    const int negative = v{{ wide - 1 }} < 0;
    if (negative) {
{% for t in range(wide) %}
        v{{ t }} = -v{{ t }};
{% endfor %}
{% for t in range(wide - 1) %}
        v{{ t + 1 }} += v{{ t }} >> 30;
        v{{ t }} &= LIMB;
{% endfor %}
    }
    ulong low = (ulong)v0 | (ulong)v1 << 30 | (ulong)v2 << 60;
    ulong high = (ulong)v2 >> 4{% if wide > 3 %} | (ulong)v3 << 26{% endif %};
    int scale = 0;  // the magnitude is high 2^scale, where the last bit of high stands for all that are lower
    if (high == 0) {
        high = low;
        low = 0;
        scale = -64;
    }
    const int up = high ? (int)clz(high) : 0;
    if (up) {
        high = high << up | low >> (64 - up);
        low <<= up;
    }
    high |= low != 0;
    const int e = rows[2 * i], f = columns[2 * (long)j], a = rows[2 * i + 1], b = columns[2 * (long)j + 1];
    scale += 64 - up + e + f - 2 * (LARGEST / 2 - 1) - 2 * keep;
    const int cost = (a < 0 ? (b < 0 ? ~b : b) : 0) + (b < 0 ? (a < 0 ? ~a : a) : 0) + (a < 0 && b < 0);
    const ulong terms = (ulong)(uint)planes[{{ moduli | length }} * plane] * (ulong)(uint)k;
    int marked = e == LARGEST || f == LARGEST || (ulong)(uint)cost << slack > terms;
#if LARGEST == 2047
    marked |= high != 0 && (scale + 63 < -1022 || scale + 64 > 1023);
#endif
    *marks = (uchar)(marked != 0);
    if (marked)
        return;
    const int half_scale = scale >> 1;
    const double sum = high ? (double)high * power(half_scale) * power(scale - half_scale) : 0.0;
    *c = combined(alpha, negative ? -sum : sum, beta, c);
}

#define TILE 16

// Marked elements, as a native product computes them: terms in the order of k, each a multiply-add that rounds once.
__kernel __attribute__((reqd_work_group_size(TILE, TILE, 1)))
void residues_mend(const int m, const int n, const int k, const REAL alpha, const REAL beta,
                   __global const REAL* restrict a, const long a_offset, const long lda,
                   __global const REAL* restrict b, const long b_offset, const long ldb,
                   __global REAL* restrict c, const long c_offset, const long ldc, __global const uchar* restrict marks)
{
    __local int some;
    __local REAL tile_a[TILE][TILE + 1], tile_b[TILE][TILE + 1];
    const int x = (int)get_local_id(0), y = (int)get_local_id(1);
    const long top = (long)get_group_id(1) * TILE, left = (long)get_group_id(0) * TILE, i = top + y, j = left + x;
    const int marked = i < m && j < n && marks[i * n + j];
    if (x == 0 && y == 0)
        some = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (marked)
        some = 1;
    barrier(CLK_LOCAL_MEM_FENCE);
    const int steps = some ? k : 0;
    double sum = 0.0;
    for (int start = 0; start < steps; start += TILE) {
#if TRANS_A
        tile_a[x][y] = top + x < m && start + y < k ? a[a_offset + (long)(start + y) * lda + top + x] : (REAL)0;
#else
        tile_a[y][x] = i < m && start + x < k ? a[a_offset + i * lda + start + x] : (REAL)0;
#endif
#if TRANS_B
        tile_b[x][y] = left + y < n && start + x < k ? b[b_offset + (left + y) * ldb + start + x] : (REAL)0;
#else
        tile_b[y][x] = j < n && start + y < k ? b[b_offset + (long)(start + y) * ldb + j] : (REAL)0;
#endif
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int h = 0; h < min(TILE, k - start); ++h)
            sum = fma((double)tile_a[y][h], (double)tile_b[h][x], sum);
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (marked) {
        c += c_offset + i * ldc + j;
        *c = combined(alpha, sum, beta, c);
    }
}
