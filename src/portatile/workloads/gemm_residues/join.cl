// C = alpha S + beta C of the sums S = op(A) op(B), which are put together from what they are modulo {{ count }} numbers.
//
// S over the factors of a row of A and a column of B is an integer V with |V| < M / 2, where M is the product of the moduli p_l, of which
// two and two are taken together:
//
//   s_t = V modulo p_2t p_2t+1, not reduced,   V = sum_t E_t s_t - Q M,   Q = round(sum_t E_t s_t / M)
//
// where E_t is 1 modulo its pair's product and 0 modulo the others, in limbs of 30 bits: exact integers, rounded twice where they become a
// double and once times the factors. An element is marked, and left to residues_mend, where rounding A and B to integers may have cost more
// than (k - {{ reserve }}) u |A| |B|, where a row or column has an infinity or NaN, and where the sum may be no normal number.
{% if parts == 2 %}
// Complex numbers have three products modulo p: X = re re, Y = im im and Z of the sums of both; V is X - Y, and Z - X - Y.
{% endif %}
{% from "scalars.cl" import nothing with context %}
{% from "tables.cl" import tables, entry with context %}
{% set names = ["re", "im"][:parts] %}
{% set kinds = ["x", "y", "z"] if parts == 2 else ["x"] %}
{% set items = range(wide_items) %}
{% set word = {1: "uchar", 2: "ushort", 4: "uint"}[wide_items] %}
{% set vector = (wide_items if wide_items > 1 else "") ~ "" %}
{% macro at(q) %}{{ ".s%d" % q if wide_items > 1 else "" }}{% endmacro %}
{# reads what there is of a modulus: the remainders of neighbours, as bytes of a word #}
{% macro read(moduli, own) %}
{% for l in moduli %}
{% set place = loop.index0 if own else l %}
{% for x in kinds %}
{% set from = "(from + %s * plane)" % ("(3 * (%s) + %d)" % (l, loop.index0) if parts == 2 else "(%s)" % l) %}
{% if reduced %}
            const uint {{ x }}{{ place }} = *(__global const {{ word }}*){{ from }};
{% else %}
            const int{{ vector }} sums_{{ x }}{{ place }} = *(__global const int{{ vector }}*){{ from }};
            const uint {{ x }}{{ place }} = {% for q in items %}{{ " | " if not loop.first }}(uint)(REMAINDER(sums_{{ x }}{{ place }}{{ at(q) }}, {{ entry("inverses", l, 0) }}, {{ entry("inverses", l, 1) }}) & 255) << {{ 8 * q }}{% endfor %};
{% endif %}
{% endfor %}
{% endfor %}
{% endmacro %}
{# what two moduli, or one, tell of each element: their remainders taken together, and their share of the sum #}
{% macro joined(moduli, own) %}
{% set pair = moduli[0] // 2 if moduli[0] is number else "t" %}
{% for x in kinds %}
{% set first, second = ("%s%s" % (x, 0 if own else moduli[0]), "%s%s" % (x, 1 if own else moduli[-1])) if moduli | length > 1 else ("%s%s" % (x, 0 if own else moduli[0]), "0U") %}
{% for half in range(0, wide_items, 2) %}
            const uint {{ x }}_bytes{{ half }} = BY_TURNS{{ half // 2 }}({{ first }}, {{ second }});
{% endfor %}
{% for q in items %}
            const int {{ x }}_sum{{ q }} = TOGETHER{{ q % 2 }}({{ entry("joined", pair, 0) }}, {{ x }}_bytes{{ q - q % 2 }});
{% endfor %}
{% endfor %}
{% for q in items %}
{% for name in names %}
{% set sum = "x_sum%d" % q if parts == 1 else "(x_sum%d - y_sum%d)" % (q, q) if name == "re" else "(z_sum%d - x_sum%d - y_sum%d)" % (q, q, q) %}
{% for t in range(wide) %}
            ADD_PRODUCT({{ name }}{{ q }}_limb{{ t }}, {{ sum }}, {{ entry("idempotents", pair, t) }});
{% endfor %}
{% endfor %}
{% endfor %}
{%- endmacro %}
{# V of an element as a double #}
{% macro value(v) %}
        {
{% set last = wide - 1 %}
            const double units = {{ "DOUBLE" if wide > 2 else "(double)" }}({{ v }}_limb{{ last }} + ({{ v }}_limb{{ last - 1 }} >> 30));
            const int turns = (int)as_ulong(fma(units, {{ turn }}, WIDE_MAGIC));
{% for t in range(wide) %}
            ADD_PRODUCT({{ v }}_limb{{ t }}, turns, {{ -product[t] }});
{% endfor %}
{% if wide == 2 %}
            {{ v }} = (double)(({{ v }}_limb1 << 30) + {{ v }}_limb0);
{% else %}
            long low = (({{ v }}_limb1 & LIMB) << 30) + {{ v }}_limb0, high = ({{ v }}_limb3 << 30) + {{ v }}_limb2 + ({{ v }}_limb1 >> 30);
            const long over = (low + (1L << 59)) >> 60;
            high += over;
            low -= over << 60;
            {{ v }} = fma(DOUBLE(high), {{ 2.0 ** 60 }}, (double)low);
{% endif %}
        }
{% endmacro %}
{{ tables() }}
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
{% include "combine.cl" %}
#define LIMB 1073741823L
#define WIDE_MAGIC 6755399441055744.0  // 1.5 * 2^52: the last bits of a double near it are an integer
#define DOUBLE(x) (as_double((x) + 0x4338000000000000L) - WIDE_MAGIC)  // of an integer below 2^51
#define ROWS {{ rows }}  // of an item
// sum += x y of 32 bits, which compilers for NVIDIA otherwise multiply in 64
#ifdef PORTATILE_NVIDIA
#define ADD_PRODUCT(sum, x, y) asm("mad.wide.s32 %0, %1, %2, %0;" : "+l"(sum) : "r"(x), "r"(y))
static inline uint BY_TURNS0(const uint x, const uint y)  // the two lowest bytes of each, by turns
{
    uint bytes;
    asm("prmt.b32 %0, %1, %2, 0x5140;" : "=r"(bytes) : "r"(x), "r"(y));
    return bytes;
}
static inline uint BY_TURNS1(const uint x, const uint y)  // the two highest
{
    uint bytes;
    asm("prmt.b32 %0, %1, %2, 0x7362;" : "=r"(bytes) : "r"(x), "r"(y));
    return bytes;
}
static inline int TOGETHER0(const int factors, const uint bytes)  // two factors of 16 bits times the two lowest bytes
{
    int sum;
    asm("dp2a.lo.s32.s32 %0, %1, %2, %3;" : "=r"(sum) : "r"(factors), "r"(bytes), "r"(0));
    return sum;
}
static inline int TOGETHER1(const int factors, const uint bytes)  // times the two highest
{
    int sum;
    asm("dp2a.hi.s32.s32 %0, %1, %2, %3;" : "=r"(sum) : "r"(factors), "r"(bytes), "r"(0));
    return sum;
}
#else
#define ADD_PRODUCT(sum, x, y) sum += (long)(x) * (long)(y)
#define BY_TURNS0(x, y) (((x) & 255) | ((y) & 255) << 8 | ((x) >> 8 & 255) << 16 | ((y) >> 8 & 255) << 24)
#define BY_TURNS1(x, y) BY_TURNS0((x) >> 16, (y) >> 16)
#define TOGETHER0(factors, bytes) ((short)(factors) * (char)(bytes) + ((int)(factors) >> 16) * (char)((bytes) >> 8))
#define TOGETHER1(factors, bytes) TOGETHER0(factors, (bytes) >> 16)
#endif
// Sums to four leading bits: the place of the first one and the three after it, or cut off.
{% if reduced %}
#define LEADING(x) ((x) < 8 ? (x) : (8 | ((x) & 7)) << (((x) >> 3) - 1))
{% else %}
#define LEADING(x) ((x) >> (28 - (int)clz((x) | 8)) << (28 - (int)clz((x) | 8)))
#define REMAINDER(sum, inverse, modulus) ((sum) - (int)(((long)(sum) * (long)(inverse) + (1L << 37)) >> 38) * (modulus))
{% endif %}

__kernel __attribute__((reqd_work_group_size(WGS, 1, 1)))
void residues_join(const int m, const int n, const int k, const SCALAR alpha, const SCALAR beta,
                   __global const {{ "char" if reduced else "int" }}* restrict products, __global const {{ "uchar" if reduced else "uint" }}* restrict terms,
                   __global const line_facts* restrict rows, __global const line_facts* restrict columns,
                   __global REAL* restrict c, const long offset, const long ld, __global uchar* restrict marks,
                   __global int* restrict flags)
{
    __local int found[WGS * {{ wide_items }} / {{ tile[1] }} + 1];  // whether something is marked in a tile of elements that are computed again
    const int item = (int)get_local_id(0), of_group = item * {{ wide_items }} / {{ tile[1] }};
    const int j = (int)get_global_id(0) * {{ wide_items }};
    if (item <= WGS * {{ wide_items }} / {{ tile[1] }})
        found[item] = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    const long plane = (long)m * n;
    const float allowed = (float)(k - {{ reserve }}) * 0.999999f;  // of u |A| |B|
{% for q in items %}
    const line_facts column{{ q }} = columns[min(j + {{ q }}, n - 1)];
{% endfor %}
    const int end = j < n ? min(m, ((int)get_global_id(1) + 1) * ROWS) : 0;
    int some = 0;
    for (int i = (int)get_global_id(1) * ROWS; i < end; ++i) {
        const long place = (long)i * n + j;
        __global REAL* to = c + {{ parts }} * (offset + (long)i * ld + j);
        int {% for q in items %}marked{{ q }} = 0{{ ", " if not loop.last }}{% endfor %};
        double {% for q in items %}{% for name in names %}{{ name }}{{ q }} = 0.0{{ ", " if not loop.last }}{% endfor %}{{ ", " if not loop.last }}{% endfor %};
        if (!({{ nothing("alpha") }})) {
            const line_facts row = rows[i];
            const {{ "uchar" if reduced else "uint" }}{{ vector }} first_bits = *(__global const {{ "uchar" if reduced else "uint" }}{{ vector }}*)(terms + place);
            __global const {{ "char" if reduced else "int" }}* from = products + place;
            long {% for q in items %}{% for name in names %}{% for t in range(wide) %}{{ name }}{{ q }}_limb{{ t }} = 0{{ ", " if not loop.last }}{% endfor %}{{ ", " if not loop.last }}{% endfor %}{{ ", " if not loop.last }}{% endfor %};
{% if unrolled %}
{{ read(range(count), false) }}{% for t in range(0, count, 2) %}
            {
{{ joined([t, t + 1] if t + 1 < count else [t], false) }}            }
{% endfor %}
{% else %}
            for (int t = 0; t < {{ count // 2 }}; ++t) {
{{ read(["2 * t", "2 * t + 1"], true) }}{{ joined(["2 * t", "2 * t + 1"], true) }}            }
{% if count % 2 %}
            {
{{ read([count - 1], true) }}{{ joined([count - 1], true) }}            }
{% endif %}
{% endif %}
{% for q in items %}
{% for name in names %}
{{ value("%s%d" % (name, q)) }}
{%- endfor %}
            {
                const double factor = row.factor * column{{ q }}.factor;
                const float cost = fma(row.cost, column{{ q }}.sum, column{{ q }}.cost * row.sum);
                const float known = (float)LEADING((uint)first_bits{{ at(q) }}) * allowed;
                marked{{ q }} = row.peak == LARGEST || column{{ q }}.peak == LARGEST || (cost > known && (row.held & column{{ q }}.held));
{% if precision == 53 %}
                // outside of these exponents the sum may be no normal number
                marked{{ q }} |= (((uint)(as_ulong(factor) >> 52)) - 64 > 1869) && ({% for name in names %}{{ name }}{{ q }} != 0{{ " || " if not loop.last }}{% endfor %});
{% endif %}
{% for name in names %}
                {{ name }}{{ q }} *= factor;
{% endfor %}
            }
{% endfor %}
        }
        const int any = {% for q in items %}marked{{ q }}{{ " | " if not loop.last }}{% endfor %};
        some |= any;
{% if wide_items > 1 and parts == 1 and pairs_of_c %}
        if (!any) {
{% for q in range(0, wide_items, 2) %}
            *(__global PAIR*)(to + {{ q }}) = (PAIR)(combined(alpha, re{{ q }}, beta, to + {{ q }}), combined(alpha, re{{ q + 1 }}, beta, to + {{ q + 1 }}));
{% endfor %}
            continue;
        }
{% endif %}
{% for q in items %}
        if (marked{{ q }})
            marks[place + {{ q }}] = 1;  // all others are 0
        else
            combine(alpha, {% for name in names %}{{ name }}{{ q }}, {% endfor %}beta, to + {{ q * parts }});
{% endfor %}
    }
    if (some)
        found[of_group] = 1;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (item * {{ wide_items }} % {{ tile[1] }} == 0 && found[of_group])
        flags[(int)get_global_id(1) * ROWS / {{ tile[0] }} * ((n - 1) / {{ tile[1] }} + 1) + j / {{ tile[1] }}] = 1;
}
