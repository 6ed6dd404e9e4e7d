// Rows of op(A), or columns of op(B), as integers, and these modulo each of {{ count }} numbers, a byte each, with k fast.
//
// An element a of a row is rounded to the integer x = a / factor. The factor is a whole number below 2^9 times a power of two, the least for
// which the norm of the integers is at most L, where L^2 = {{ margin }} times the product of the moduli: so all their products with another
// such row add up to less than half that product (Cauchy and Schwarz). Where a power of two leaves every integer exact, it is one.
// What is written:
//
//   planes, plane l:  x mod p_l, in -p_l/2 .. p_l/2; of complex numbers three planes: real part, imaginary part, their sum
//   tops:             |a| 2^(7 - e), rounded down: 0 .. 127, where the row's largest one is below 2^e; of one of 2^spacing steps of k;
//                     of a complex number its larger part
{% from "scalars.cl" import nothing with context %}
{% from "tables.cl" import tables, entry with context %}
{% set names = ["re", "im"][:parts] %}
{% set unroll = "#pragma unroll" if unrolled else "" %}
{% set kinds = ["re", "im", "both"] if parts == 2 else ["re"] %}
{% macro plane_of(l, place) %}{{ "(%d * %s + %d)" % (kinds | length, l, place) if parts == 2 else l }} * plane{% endmacro %}
{# Sums of a modulus start at a multiple of it and of 256 that is as a float an integer in its last bits, so that the last byte of a
   remainder and this is the remainder's. The quotient of a sum, and 1.5 * 2^23; and what is left of the sum, nearest to 0, and where it
   started. All but the quotient is exact, fused or not. #}
{% macro start(l) %}as_float({{ entry("starts", l, 0) }}){% endmacro %}
{% macro quotient(x, l) %}
{%- if unrolled %}fma({{ x }}, {{ entry("reciprocals", l) }}, {{ entry("shifts", l) }}){% else %}(({{ x }} - {{ start(l) }}) * {{ entry("reciprocals", l) }} + MAGIC){% endif %}
{%- endmacro %}
{% macro left(x, l) %}FUSED(-({{ quotient(x, l) }} - MAGIC), {{ entry("divisors", l) }}, {{ x }}){% endmacro %}
{# of four steps the remainders of parts and of their sum; then as bytes of a word. Of real numbers every other modulus takes the quotient's
   product by integers, so that neither these units nor those of floats wait. Where units multiply doubles they tell the quotients: of such
   that may be off by one where remainders are still bytes. #}
{% macro modulo(l) %}
{% set by_doubles = l is number and l in doubles %}
{% set by_integers = by_doubles or (parts == 1 and l is number and l % 2 == 1) %}
{
{% for q in range(4) %}
{% if by_doubles %}
{% for name in kinds %}
                const uint left_{{ name }}{{ q }} = last_{{ name }}{{ q }} - (uint)as_ulong(fma(whole_{{ name }}{{ q }}, {{ doubles[l] }}, WIDE_MAGIC)) * {{ numbers["starts"][l][1] }}U;
{% endfor %}
{% else %}
{% for name in names %}
                const float exact_{{ name }}{{ q }} = as_float({{ "DOT4(%s%d_high, %s, " % (name, q, entry("weights", l, 1)) if words > 1 }}DOT4({{ name }}{{ q }}_low, {{ entry("weights", l, 0) }}, {{ entry("starts", l, 0) }}){{ ")" if words > 1 }});
{% if by_integers %}
                const uint left_{{ name }}{{ q }} = as_uint(exact_{{ name }}{{ q }}) - as_uint({{ quotient("exact_%s%d" % (name, q), l) }}) * {{ numbers["starts"][l][1] }}U;
{% else %}
                const float left_{{ name }}{{ q }} = {{ left("exact_%s%d" % (name, q), l) }};
{% endif %}
{% endfor %}
{% if parts == 2 %}
                const float sum{{ q }} = left_re{{ q }} + (left_im{{ q }} - {{ start(l) }}), left_both{{ q }} = {{ left("sum%d" % q, l) }};
{% endif %}
{% endif %}
{% endfor %}
{% for name in kinds %}
                out[{{ plane_of(l, loop.index0) }}] = BYTES({% for q in range(4) %}{{ "left_%s%d" % (name, q) if by_integers else "as_uint(left_%s%d)" % (name, q) }}{{ ", " if not loop.last }}{% endfor %});
{% endfor %}
            }
{%- endmacro %}
{{ tables() }}
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
{% include "facts.cl" %}
#if PRECISION == 53
#define BITS ulong
#define VALUE(bits) as_double(bits)
#define HEAD(bits) ((uint)((bits) >> 32))  // what has the exponent and the first {{ head }} bits
#define TAIL(bits) ((uint)(bits))
#else
#define BITS uint
#define VALUE(bits) (double)as_float(bits)
#define HEAD(bits) (bits)
#define TAIL(bits) 0U
#endif
#define FRACTION_BITS {{ head - 1 }}  // of a head
#define EXPONENT(head) ((int)((head) >> FRACTION_BITS) & LARGEST)
#define MANTISSA(head, exponent) (((head) & (1U << FRACTION_BITS) - 1) | (uint)((exponent) != 0) << FRACTION_BITS)
#define SHARES {{ shares }}  // of a row: steps of k that are so far apart are looked at one after the other
#define OWN ((SHARES - 1) / LANES + 1)  // shares of an item
#define AHEAD {{ 8 // parts }}  // steps of a share that are read together
#define LOTS 8  // what shares have found is added up in so many places
#define STEPS (4 * LANES)  // of k in a tile
#define PITCH (4 * (LANES + 4) + 1)  // so that neither rows nor steps of k meet in one bank
#define MAGIC 12582912.0f  // 1.5 * 2^23: the last bits of a float near it are an integer
{% if unrolled %}
#define FUSED(a, b, c) fma(a, b, c)
{% else %}
#define FUSED(a, b, c) ((a) * (b) + (c))
{% endif %}
// Signed digits of eight bits, a byte each; the last one has what is left of a number below 2^31.
#define DIGITS(x) (((x) + 0x00808080) ^ 0x00808080)
#ifdef PORTATILE_NVIDIA
static inline int DOT4(const int a, const int b, const int c)
{
    int sum;
    asm("dp4a.s32.s32 %0, %1, %2, %3;" : "=r"(sum) : "r"(a), "r"(b), "r"(c));
    return sum;
}
static inline uint BYTES(const uint a, const uint b, const uint c, const uint d)  // the last byte of each
{
    uint low, high, all;
    asm("prmt.b32 %0, %1, %2, 0x0040;" : "=r"(low) : "r"(a), "r"(b));
    asm("prmt.b32 %0, %1, %2, 0x0040;" : "=r"(high) : "r"(c), "r"(d));
    asm("prmt.b32 %0, %1, %2, 0x5410;" : "=r"(all) : "r"(low), "r"(high));
    return all;
}
#else
#define BYTE_OF(x, s) (((x) << (24 - (s))) >> 24)
#define DOT4(a, b, c) ((c) + BYTE_OF(a, 0) * BYTE_OF(b, 0) + BYTE_OF(a, 8) * BYTE_OF(b, 8) + BYTE_OF(a, 16) * BYTE_OF(b, 16) + BYTE_OF(a, 24) * BYTE_OF(b, 24))
#define BYTES(a, b, c, d) (((a) & 255) | ((b) & 255) << 8 | ((c) & 255) << 16 | (d) << 24)
#endif
#define WIDE_MAGIC 6755399441055744.0  // 1.5 * 2^52
#define INTEGER(sum) ((int)as_ulong(sum))  // of a double near it, below 2^31
// An element's bits; zero past the edges.
#if K_FAST
#define PLACE(i, h) ((i) * ld + (h))
#else
#define PLACE(i, h) ((h) * ld + (i))
#endif
#define READ(i, h, part) ((i) < across && (h) < k ? source[{{ parts }} * (offset + PLACE(i, h)) + part] : (BITS)0)

// |a| 2^(7 - e) of a mantissa below 2^e by `below` powers of two, rounded down.
#define TOP(mantissa, below) ((mantissa) >> min((below) + FRACTION_BITS - 6, 31))

// Of some elements of a row: 2^(peak - {{ one - 1 }}) is above all of them, the sums of |a| 2^(7 - e) and of its square, each element and each sum
// of fewer rounded up; the least place that a bit has in any of them; a bit for each stretch of {{ stretch }} steps that has some.
typedef struct {
    int peak, last;
    uint sum, square, held;
} found_t;

// What was found, in units of a larger peak.
found_t below(found_t one, const int peak)
{
    const int down = min(peak - one.peak, 16), twice = 2 * min(down, 15);
    one.square = (one.square + ((1U << twice) - 1)) >> twice;
    one.sum = (one.sum + ((1U << down) - 1)) >> down;
    one.peak = peak;
    return one;
}

// One element more.
found_t with(found_t one, const uint head, const uint tail, const uint stretch)
{
    const int exponent = EXPONENT(head), e = max(exponent, 1);
    const uint mantissa = MANTISSA(head, exponent), some = (mantissa | tail) != 0;
    if (e > one.peak)
        one = below(one, e);
    const uint up = TOP(mantissa, one.peak - e) + some;
    one.sum += up;
    one.square += up * up;
    if (some && e < one.last) {
        const uint word = tail ? tail : mantissa;
        one.last = min(one.last, e + {{ "(tail ? 31 : 63)" if precision == 53 else "31" }} - (int)clz(word & -word));
    }
    one.held |= some << stretch;
    return one;
}

// What is known of a row, of all that was found.
line_facts together(const found_t all, const int stretches)
{
    const int peak = all.peak, last = all.last;
    const uint square = all.square, sum = all.sum;
    // r 2^y, where r is the least with r^2 {{ limit[0] }} 4^y 4^{{ limit[1] }} / 2^16 >= square 4^(e - 7)
    const int up = square ? (int)clz(square) / 2 : 0, above = peak - {{ one - 1 }};  // |a| < 2^above
    const ulong goal = (ulong)square << 2 * up;
    int r = 0, y = max(above + 1 - up - {{ limit[1] }}, -1017);
    for (int bit = 256; bit; bit >>= 1)
        if ((ulong)(r + bit - 1) * (ulong)(r + bit - 1) * {{ limit[0] }} < goal)
            r += bit;
    r = max(r, 1);
    const int whole = 32 - (int)clz((uint)(r - 1));  // r <= 2^whole
    const int exact = !square || last - {{ one + precision - 1 }} >= y + whole;
    if (exact)
        r = 1 << whole;
    line_facts one;
    one.factor = (double)r * power(y);
    one.inverse = 1.0 / one.factor;
    const float up_to = 1.00000095f;  // times 1 + 2^-20, for what is rounded here
    const float cost = exact ? 0.0f : (float)r * as_float((uint)(y - above + {{ precision + 6 }} + 127) << 23) * up_to;
    one.cost = cost;
    one.sum = fma(cost, (float)stretches * {{ stretch * 0.5 ** precision }}f, (float)sum + 1.0f) * up_to;
    one.peak = peak;
    one.held = (int)all.held;
    return one;
}


MIN_GROUPS({{ groups }})
__kernel __attribute__((reqd_work_group_size(LANES, ROWS, 1)))
void residues_cut(const int across, const int k, const int depth, const int spacing, const int conjugate, const SCALAR alpha,
                  __global const BITS* restrict source, const long offset, const long ld, __global line_facts* restrict facts,
                  __global uint* restrict planes, __global uint* restrict tops)
{
    __local BITS tile[{{ parts }}][ROWS][PITCH];
    __local int peaks[ROWS][LOTS], lasts[ROWS][LOTS];
    __local uint sums[ROWS][LOTS], squares[ROWS][LOTS], helds[ROWS][LOTS];
    __local line_facts known[ROWS];
    const int lane = (int)get_local_id(0), row = (int)get_local_id(1);
#if K_FAST
    const int r = row, h = lane;
#else
    const int id = row * LANES + lane, r = id % ROWS, h = id / ROWS;  // neighbours read neighbouring rows
#endif
    const long corner = (long)get_group_id(1) * ROWS, i = corner + row;
    const int end = {{ nothing("alpha") }} ? 0 : k, stretches = (k - 1) / {{ stretch }} + 1;  // of alpha = 0 nothing is read

    // What each share of a row has, whatever the work-group: the steps of k that are the same modulo SHARES, in their order.
    if (lane < LOTS) {
        peaks[row][lane] = 1;
        lasts[row][lane] = {{ never }};
        sums[row][lane] = squares[row][lane] = helds[row][lane] = 0;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    found_t found[OWN];
{{ unroll }}
    for (int own = 0; own < OWN; ++own) {
        const int share = h + own * LANES;
        found_t one = { 1, {{ never }}, 0, 0, 0 };
        if (share < SHARES)
            for (int start = share; start < end; start += AHEAD * SHARES) {
                BITS kept[{{ parts }}][AHEAD];
{{ unroll }}
                for (int s = 0; s < AHEAD; ++s) {
{% for part in range(parts) %}
                    kept[{{ part }}][s] = start + s * SHARES < end ? READ(corner + r, (long)start + s * SHARES, {{ part }}) : (BITS)0;
{% endfor %}
                }
{{ unroll }}
                for (int s = 0; s < AHEAD; ++s) {
{% for part in range(parts) %}
                    one = with(one, HEAD(kept[{{ part }}][s]), TAIL(kept[{{ part }}][s]), (uint)(start + s * SHARES) / {{ stretch }} >> (stretches > 32));
{% endfor %}
                }
            }
        atomic_max(&peaks[r][h % LOTS], one.peak);
        found[own] = one;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    int most = 1;
    for (int lot = 0; lot < LOTS; ++lot)
        most = max(most, peaks[r][lot]);
{{ unroll }}
    for (int own = 0; own < OWN; ++own) {
        const found_t one = below(found[own], most);
        atomic_add(&sums[r][h % LOTS], one.sum);
        atomic_add(&squares[r][h % LOTS], one.square);
        atomic_min(&lasts[r][h % LOTS], one.last);
        atomic_or(&helds[r][h % LOTS], one.held);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (lane == 0) {
        found_t all = { 1, {{ never }}, 0, 0, 0 };
        for (int lot = 0; lot < LOTS; ++lot) {
            all.peak = max(all.peak, peaks[row][lot]);
            all.last = min(all.last, lasts[row][lot]);
            all.sum += sums[row][lot];
            all.square += squares[row][lot];
            all.held |= helds[row][lot];
        }
        known[row] = together(all, stretches);
        if (i < across)
            facts[i] = known[row];
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    const int peak = known[row].peak;
    const double inverse_re = known[row].inverse{{ ", inverse_im = conjugate ? -inverse_re : inverse_re" if parts == 2 }};

    // The elements are read again, which are still near: a group's rows are few.
    BITS next[{{ parts }}][4];
    for (int s = 0; s < 4; ++s) {
{% for part in range(parts) %}
        next[{{ part }}][s] = h + s * LANES < end ? READ(corner + r, (long)h + s * LANES, {{ part }}) : (BITS)0;
{% endfor %}
    }
    for (int start = 0; start < (end ? depth : 0); start += STEPS) {
{{ unroll }}
        for (int s = 0; s < 4; ++s) {
            const int step = h + s * LANES;
{% for part in range(parts) %}
            tile[{{ part }}][r][(step & 3) * (LANES + 4) + (step >> 2)] = next[{{ part }}][s];
{% endfor %}
        }
        barrier(CLK_LOCAL_MEM_FENCE);
{{ unroll }}
        for (int s = 0; s < 4; ++s) {
            const long step = (long)start + STEPS + h + s * LANES;
{% for part in range(parts) %}
            next[{{ part }}][s] = READ(corner + r, step, {{ part }});
{% endfor %}
        }
{% for name in names %}
        int {% for q in range(4) %}{{ name }}{{ q }}_low{{ ", %s%d_high" % (name, q) if words > 1 }}{{ ", " if not loop.last }}{% endfor %};
        uint {% for q in range(4) %}last_{{ name }}{{ q }}{{ ", " if not loop.last }}{% endfor %};
{% if doubles %}
        double {% for q in range(4) %}whole_{{ name }}{{ q }}{{ ", " if not loop.last }}{% endfor %};
{% endif %}
{% endfor %}
        uint leading = 0;
{% for q in range(4) %}
        {
            uint largest = 0;
{% for name in names %}
            {
                const BITS bits = tile[{{ loop.index0 }}][row][{{ q }} * (LANES + 4) + lane];
                const uint head = HEAD(bits);
                const int exponent = EXPONENT(head);
                largest = max(largest, TOP(MANTISSA(head, exponent), peak - max(exponent, 1)));
{% if words > 1 %}
                const double scaled = VALUE(bits) * inverse_{{ name }};
                // the last {{ digit }} bits, rounded half to even, apart from those above them
                const double high_sum = fma(scaled, {{ 0.5 ** digit }}, WIDE_MAGIC), high = high_sum - WIDE_MAGIC;
                const double low_sum = fma(high, -{{ 2.0 ** digit }}, scaled) + WIDE_MAGIC;
                const int part = INTEGER(low_sum), high_part = INTEGER(high_sum);
                {{ name }}{{ q }}_high = DIGITS(high_part);
                last_{{ name }}{{ q }} = (uint)part + ((uint)high_part << {{ digit }});
{% if doubles %}
                whole_{{ name }}{{ q }} = fma(high, {{ 2.0 ** digit }}, low_sum - WIDE_MAGIC);
{% endif %}
{% else %}
                const double low_sum = fma(VALUE(bits), inverse_{{ name }}, WIDE_MAGIC);
                const int part = INTEGER(low_sum);
                last_{{ name }}{{ q }} = (uint)part;
{% if doubles %}
                whole_{{ name }}{{ q }} = low_sum - WIDE_MAGIC;
{% endif %}
{% endif %}
                {{ name }}{{ q }}_low = DIGITS(part);
            }
{% endfor %}
            leading |= largest << {{ 8 * q }};
        }
{% endfor %}
{% if parts == 2 %}
        const uint {% for q in range(4) %}last_both{{ q }} = last_re{{ q }} + last_im{{ q }}{{ ", " if not loop.last }}{% endfor %};
{% if doubles %}
        const double {% for q in range(4) %}whole_both{{ q }} = whole_re{{ q }} + whole_im{{ q }}{{ ", " if not loop.last }}{% endfor %};
{% endif %}
{% endif %}
        const int h = start + 4 * lane;
        if (i < across && h < depth) {
            __global uint* out = planes + ((i * depth + h) >> 2);
            const long plane = ((long)across * depth) >> 2;
            // modulo 256: the last byte
{% for name in names %}
            out[{{ plane_of(0, loop.index0) }}] = BYTES({% for q in range(4) %}last_{{ name }}{{ q }}{{ ", " if not loop.last }}{% endfor %});
{% endfor %}
{% if parts == 2 %}
            out[{{ plane_of(0, 2) }}] = BYTES({% for q in range(4) %}last_both{{ q }}{{ ", " if not loop.last }}{% endfor %});
{% endif %}
{% if unrolled %}
{% for l in range(1, count) %}
            {{ modulo(l) }}
{% endfor %}
{% else %}
            for (int l = 1; l < {{ count }}; ++l) {{ modulo("l") }}
{% endif %}
            if (spacing == 0) {
                tops[(i * depth + h) >> 2] = leading;
            } else {  // the step of each few that lies where multiples of the golden ratio say, so that no pattern along k is missed
                const uint few = (uint)h >> spacing, step = few * 2654435769U >> (32 - spacing);
                if ((h & ((1 << spacing) - 1)) == (int)(step & ~3U))
                    ((__global uchar*)tops)[((i * depth) >> spacing) + few] = (uchar)(leading >> (8 * (step & 3)));
            }
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
}
