// C = alpha S + beta C of the sums S = op(A) op(B), which are put together from what they are modulo {{ count }} numbers.
//
// S 2^(2 keep - e_i - f_j) = V, where e_i and f_j bound the norms of a row of A and a column of B, is an integer with |V| < {{ margin }} M, where M is the product of the moduli p_l, and
//
//   V = sum_l W_l y_l - Q M,   W_l = M / p_l,   y_l = V / W_l mod p_l,   Q = round(sum_l y_l / p_l)
//
// in limbs of 30 bits: exact integers, rounded once. An element is marked, and left to residues_mend, where rounding A and B to integers may
// have cost more than k u |A| |B|, where a row or column has an infinity or NaN, and where the sum is no normal number.
{% if parts == 2 %}
// Complex numbers have three products modulo p: X = re re, Y = im im and Z of the sums of both; V is X - Y, and Z - X - Y.
{% endif %}
{% from "scalars.cl" import nothing with context %}
{% from "tables.cl" import tables, entry with context %}
{% set names = ["re", "im"][:parts] %}
{% macro modulo(l, name) %}
{
{% if parts == 1 %}
        const int s = products[{{ l }} * plane];
{% elif name == "re" %}
        const int s = products[3 * {{ l }} * plane] - products[(3 * {{ l }} + 1) * plane];
{% else %}
        const int s = products[(3 * {{ l }} + 2) * plane] - products[3 * {{ l }} * plane] - products[(3 * {{ l }} + 1) * plane];
{% endif %}
{% if reduced %}
        const int r = s * {{ entry("inverses", l, 0) }};  // of remainders, and at most three of them
{% else %}
        const int s0 = (s << 20) >> 20, s1 = ((s - s0) << 8) >> 20, s2 = (s - s0 - (s1 << 12)) >> 24;
        const int r = s0 * {{ entry("inverses", l, 0) }} + s1 * {{ entry("inverses", l, 1) }} + s2 * {{ entry("inverses", l, 2) }};
{% endif %}
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

// C from a sum, with each rounding written out, so that no compiler joins two of them or takes one apart.
{% if parts == 2 %}
void combine(const SCALAR alpha, const double re, const double im, const SCALAR beta, __global REAL* c)
{
    double x = (double)alpha.x * re, y = (double)alpha.x * im;
    if (alpha.y != 0) {
        x = fma(-(double)alpha.y, im, x);
        y = fma((double)alpha.y, re, y);
    }
    if (beta.x != 0 || beta.y != 0) {
        const double old = (double)c[0], other = (double)c[1];
        x = fma((double)beta.x, old, x);
        y = fma((double)beta.x, other, y);
        if (beta.y != 0) {
            x = fma(-(double)beta.y, other, x);
            y = fma((double)beta.y, old, y);
        }
    }
    c[0] = (REAL)x;
    c[1] = (REAL)y;
}
{% else %}
void combine(const SCALAR alpha, const double re, const SCALAR beta, __global REAL* c)
{
    if (beta == 0)
        *c = (REAL)((double)alpha * re);
    else
        *c = (REAL)fma((double)alpha, re, (double)beta * (double)*c);
}
{% endif %}

__kernel __attribute__((reqd_work_group_size(WGS, 1, 1)))
void residues_join(const int m, const int n, const int k, const int keep, const int slack, const SCALAR alpha, const SCALAR beta,
                   __global const {{ "char" if reduced else "int" }}* restrict products, __global const int* restrict terms, __global const int* restrict rows,
                   __global const int* restrict columns, __global REAL* restrict c, const long offset, const long ld,
                   __global uchar* restrict marks)
{
    const int j = (int)get_global_id(0);
    const long i = (long)get_global_id(1);
    if (j >= n || i >= m)
        return;
    c += {{ parts }} * (offset + i * ld + j);
    products += i * n + j;
    marks += i * n + j;
    if ({{ nothing("alpha") }}) {
        combine(alpha, 0.0, {{ "0.0, " if parts == 2 }}beta, c);
        *marks = 0;
        return;
    }
    const long plane = (long)m * n;
    const int e = rows[4 * i], f = columns[4 * (long)j], a = rows[4 * i + 2], b = columns[4 * (long)j + 2];
    const int up_a = rows[4 * i + 1], up_b = columns[4 * (long)j + 1];
    const ulong cost = ((ulong)(a < 0 ? (b < 0 ? ~b : b) : 0) << up_a) + ((ulong)(b < 0 ? (a < 0 ? ~a : a) : 0) << up_b)
        + ((ulong)(a < 0 && b < 0) << (up_a + up_b));
    const ulong known = (ulong)(uint)terms[i * n + j] * (ulong)(uint)k;
    int marked = e == LARGEST || f == LARGEST || cost << slack > known;
{% for name in names %}
    double {{ name }} = 0.0;
    {
        long {% for t in range(wide) %}v{{ t }} = 0{{ ", " if not loop.last }}{% endfor %};
        float turns = 0.0f;
{% if unrolled %}
{% for l in range(count) %}
        {{ modulo(l, name) }}
{% endfor %}
{% else %}
        for (int l = 0; l < {{ count }}; ++l) {{ modulo("l", name) }}
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
        scale += 64 - up + e + up_a + f + up_b - 2 * (LARGEST / 2 - 1) - 2 * keep;
#if LARGEST == 2047
        marked |= high != 0 && (scale + 63 < -1022 || scale + 64 > 1023);
#endif
        if (high != 0 && !marked) {
            const int part = scale >> 1;
            {{ name }} = (double)high * power(part) * power(scale - part);
            {{ name }} = negative ? -{{ name }} : {{ name }};
        }
    }
{% endfor %}
    *marks = (uchar)(marked != 0);
    if (!marked)
        combine(alpha, {{ names | join(", ") }}, beta, c);
}

#define TILE 16
#if TRANS_A
#define PLACE_A(i, h) ((h) * lda + (i))
#define AT_A(y, x) [x][y]
#else
#define PLACE_A(i, h) ((i) * lda + (h))
#define AT_A(y, x) [y][x]
#endif
#if TRANS_B
#define PLACE_B(h, j) ((j) * ldb + (h))
#define AT_B(y, x) [x][y]
#else
#define PLACE_B(h, j) ((h) * ldb + (j))
#define AT_B(y, x) [y][x]
#endif

// Marked elements, as a native product computes them: terms in the order of k, each a multiply-add that rounds once.
__kernel __attribute__((reqd_work_group_size(TILE, TILE, 1)))
void residues_mend(const int m, const int n, const int k, const SCALAR alpha, const SCALAR beta,
                   __global const REAL* restrict a, const long a_offset, const long lda,
                   __global const REAL* restrict b, const long b_offset, const long ldb,
                   __global REAL* restrict c, const long c_offset, const long ldc, __global const uchar* restrict marks)
{
    __local int some;
    __local REAL tile_a[{{ parts }}][TILE][TILE + 1], tile_b[{{ parts }}][TILE][TILE + 1];
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
    const long i_read = top + (TRANS_A ? x : y), j_read = left + (TRANS_B ? y : x);
    double re = 0.0{{ ", im = 0.0, re_im = 0.0, im_im = 0.0" if parts == 2 }};
    for (int start = 0; start < steps; start += TILE) {
        const long h_a = start + (TRANS_A ? y : x), h_b = start + (TRANS_B ? x : y);
{% for part in range(parts) %}
        tile_a[{{ part }}] AT_A(y, x) = i_read < m && h_a < k ? {{ "CONJUGATE_A * " if part }}a[{{ parts }} * (a_offset + PLACE_A(i_read, h_a)) + {{ part }}] : (REAL)0;
        tile_b[{{ part }}] AT_B(y, x) = j_read < n && h_b < k ? {{ "CONJUGATE_B * " if part }}b[{{ parts }} * (b_offset + PLACE_B(h_b, j_read)) + {{ part }}] : (REAL)0;
{% endfor %}
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int h = 0; h < min(TILE, k - start); ++h) {
            re = fma((double)tile_a[0][y][h], (double)tile_b[0][h][x], re);
{% if parts == 2 %}
            im_im = fma((double)tile_a[1][y][h], (double)tile_b[1][h][x], im_im);
            im = fma((double)tile_a[0][y][h], (double)tile_b[1][h][x], im);
            re_im = fma((double)tile_a[1][y][h], (double)tile_b[0][h][x], re_im);
{% endif %}
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (marked)
        combine(alpha, re{{ " - im_im, im + re_im" if parts == 2 }}, beta, c + {{ parts }} * (c_offset + i * ldc + j));
}
