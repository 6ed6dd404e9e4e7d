// C = alpha S + beta C of the sums S = op(A) op(B), which are put together from what they are modulo {{ count }} numbers.
//
// S 2^(2 keep - e_i - f_j) = V, where e_i and f_j bound the norms of a row of A and a column of B, is an integer with |V| < {{ margin }} M, where M is the product of the moduli p_l, and
//
//   V = sum_l W_l y_l - Q M,   W_l = M / p_l,   y_l = V / W_l mod p_l,   Q = round(sum_l y_l / p_l)
//
// in limbs of 30 bits: exact integers, rounded once. An element is marked, and left to residues_mend, where rounding A and B to integers may
// have cost more than k u |A| |B|, where a row or column has an infinity or NaN, and where the sum is no normal number.
{% if reduced %}
//
// Remainders r_l of V need no y_l: V = sum_l E_l r_l - Q M, where E_l is 1 modulo p_l and 0 modulo the others, and Q = round(sum_l r_l E_l / M),
// which integers give in units of 2^-{{ turn }}.
{% endif %}
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
        turns += s * {{ entry("shares", l, 0) }};
{% for t in range(wide) %}
        v{{ t }} += (long){{ entry("idempotents", l, t) }} * s;
{% endfor %}
{% else %}
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
{% endif %}
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
    const int apart = !(rows[4 * i + 3] & columns[4 * (long)j + 3]);  // then every term is 0
    int marked = e == LARGEST || f == LARGEST || (cost << slack > known && !apart);
{% for name in names %}
    double {{ name }} = 0.0;
    {
        long {% for t in range(wide) %}v{{ t }} = 0{{ ", " if not loop.last }}{% endfor %};
        {{ "int turns = 0" if reduced else "float turns = 0.0f" }};
{% if unrolled %}
{% for l in range(count) %}
        {{ modulo(l, name) }}
{% endfor %}
{% else %}
        for (int l = 0; l < {{ count }}; ++l) {{ modulo("l", name) }}
{% endif %}
        const int whole = {{ "(turns + %d) >> %d" % (2 ** (turn - 1), turn) if reduced else "as_int(turns + MAGIC) - MAGIC_BITS" }};
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

// Of a tile of {{ tile[0] }} x {{ tile[1] }} elements, item (x, y) of 16 x 16 has rows 2 y + 32 r + {0, 1} and columns 2 x + 32 c + {0, 1}.
#define DEPTH 16
#define STRETCH {{ stretch }}
#define BIT(step, k) ((step) / STRETCH >> ((k) > 32 * STRETCH))  // of facts[4 i + 3]; see cut.cl
{% set unroll = "#pragma unroll" if unrolled else "" %}
{% set sums = ["re", "im", "re_im", "im_im"] if parts == 2 else ["re"] %}
{% macro whole(at) %}{% if parts == 2 %}positive(re_{{ at }}) - positive(im_im_{{ at }}), positive(im_{{ at }}) + positive(re_im_{{ at }}){% else %}positive(re_{{ at }}){% endif %}{% endmacro %}
{% set heights, widths = tile[0] // 16, tile[1] // 16 %}
{# this item's share of the next steps of k of an operand: with k fast it lies along a line, else across #}
{% macro read(x, side, k_fast, first, end) %}
{{ unroll }}
            for (int s = 0; s < {{ side // 16 }}; ++s) {
                const int at = item + s * 256, line = {{ "at / DEPTH" if k_fast else "at %% %d" % side }}, h = next + {{ "at % DEPTH" if k_fast else "at / %d" % side }};
                const long across = min({{ first }} + line, (long){{ end }} - 1);
                const int inside = h < k;
{% for part in range(parts) %}
                {{ x }}_next[{{ part }}][s] = inside ? {{ "CONJUGATE_%s * " % x.upper() if part }}{{ x }}[{{ parts }} * ({{ x }}_offset + {{ "across * ld%s + h" % x if k_fast else "(long)h * ld%s + across" % x }}) + {{ part }}] : (REAL)0;
{% endfor %}
            }
{% endmacro %}
{% macro put(x, side, k_fast) %}
{{ unroll }}
            for (int s = 0; s < {{ side // 16 }}; ++s) {
                const int at = item + s * 256;
{% for part in range(parts) %}
                tile_{{ x }}[{{ part }}][{{ "at % DEPTH" if k_fast else "at / %d" % side }}][{{ "at / DEPTH" if k_fast else "at %% %d" % side }}] = (double){{ x }}_next[{{ part }}][s];
{% endfor %}
            }
{% endmacro %}

// Zero without a sign: which zeros are left out depends on where an element lies.
double positive(const double x)
{
    return x == 0 ? 0.0 : x;
}

// The first step of k, from `step` on, that lies in a stretch where rows and columns of the tile both have elements.
int following(int step, const int k, const uint held)
{
    while (step < k && !(held >> BIT(step, k) & 1))
        step = (step / STRETCH + 1) * STRETCH;
    return step;
}

// Marked elements, as a native product computes them: terms in the order of k, each a multiply-add that rounds once. Zeros may be left out.
__kernel __attribute__((reqd_work_group_size(16, 16, 1))) MIN_GROUPS(2) void residues_mend(const int m, const int n, const int k, const SCALAR alpha, const SCALAR beta,
                   __global const REAL* restrict a, const long a_offset, const long lda,
                   __global const REAL* restrict b, const long b_offset, const long ldb,
                   __global REAL* restrict c, const long c_offset, const long ldc, __global const uchar* restrict marks,
                   __global const int* restrict rows, __global const int* restrict columns)
{
    __local double tile_a[{{ parts }}][DEPTH][{{ tile[0] + 2 }}] __attribute__((aligned(16)));
    __local double tile_b[{{ parts }}][DEPTH][{{ tile[1] + 2 }}] __attribute__((aligned(16)));
    __local int some, special;
    __local uint held_a, held_b;
    const int x = (int)get_local_id(0), y = (int)get_local_id(1), item = y * 16 + x;
    const long top = (long)get_group_id(1) * {{ tile[0] }}, left = (long)get_group_id(0) * {{ tile[1] }};
    if (item == 0) {
        some = special = 0;
        held_a = held_b = 0;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    uint mine = 0;  // a bit for each of this item's elements
{{ unroll }}
    for (int r = 0; r < {{ heights }}; ++r) {
{{ unroll }}
        for (int s = 0; s < {{ widths }}; ++s) {
            const long i = top + 2 * y + r / 2 * 32 + r % 2, j = left + 2 * x + s / 2 * 32 + s % 2;
            mine |= (uint)(i < m && j < n && marks[i * n + j] != 0) << (r * {{ widths }} + s);
        }
    }
    if (mine)
        some = 1;
    if (item < {{ tile[0] }} && top + item < m) {
        atomic_or(&held_a, (uint)rows[4 * (top + item) + 3]);
        if (rows[4 * (top + item)] == LARGEST)
            special = 1;
    }
    if (item < {{ tile[1] }} && left + item < n) {
        atomic_or(&held_b, (uint)columns[4 * (left + item) + 3]);
        if (columns[4 * (left + item)] == LARGEST)
            special = 1;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    const int end = some ? k : 0;
    const uint held = special ? ~0u : held_a & held_b;  // products with infinities count wherever they stand
{% for r in range(heights) %}
    double {% for s in range(widths) %}{% for name in sums %}{{ name }}_{{ r }}_{{ s }} = 0.0{{ ", " if not (loop.last and s == widths - 1) }}{% endfor %}{% endfor %};
{% endfor %}
    REAL a_next[{{ parts }}][{{ heights }}], b_next[{{ parts }}][{{ widths }}];
    int start = following(0, end, held);
    if (start < end) {
        const int next = start;
{{ read("a", tile[0], a_fast, "top", "m") }}{{ read("b", tile[1], b_fast, "left", "n") }}    }
    while (start < end) {
{{ put("a", tile[0], a_fast) }}{{ put("b", tile[1], b_fast) }}        barrier(CLK_LOCAL_MEM_FENCE);
        const int next = following(start + DEPTH, end, held);
        if (next < end) {
{{ read("a", tile[0], a_fast, "top", "m") }}{{ read("b", tile[1], b_fast, "left", "n") }}        }
        if (mine) {
{{ "#pragma unroll 4" if unrolled else "" }}
            for (int h = 0; h < DEPTH; ++h) {
{% for r in range(0, heights, 2) %}
                const double2 {% for part in range(parts) %}a{{ part }}_{{ r }} = *(__local const double2*)&tile_a[{{ part }}][h][2 * y + {{ 16 * r }}]{{ ", " if not loop.last }}{% endfor %};
{% endfor %}
{% for s in range(0, widths, 2) %}
                const double2 {% for part in range(parts) %}b{{ part }}_{{ s }} = *(__local const double2*)&tile_b[{{ part }}][h][2 * x + {{ 16 * s }}]{{ ", " if not loop.last }}{% endfor %};
{% endfor %}
{% for r in range(heights) %}
{% for s in range(widths) %}
{% for name in sums %}
                {{ name }}_{{ r }}_{{ s }} = fma(a{{ loop.index0 // 2 }}_{{ r - r % 2 }}.s{{ r % 2 }}, b{{ loop.index0 % 2 }}_{{ s - s % 2 }}.s{{ s % 2 }}, {{ name }}_{{ r }}_{{ s }});
{% endfor %}
{% endfor %}
{% endfor %}
            }
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        start = next;
    }
{% for r in range(heights) %}
{% for s in range(widths) %}
    if (mine >> {{ r * widths + s }} & 1)
        combine(alpha, {{ whole("%d_%d" % (r, s)) }}, beta, c + {{ parts }} * (c_offset + (top + 2 * y + {{ r // 2 * 32 + r % 2 }}) * ldc + left + 2 * x + {{ s // 2 * 32 + s % 2 }}));
{% endfor %}
{% endfor %}
}
