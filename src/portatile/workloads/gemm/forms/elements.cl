{# Conversions of elements, and the epilogue. Plain float32 and float64 use nothing of this.

   `from_X` converts an element of type X to the type of the sums, `to_X` rounds to X, to nearest even. Types of 16 and 8 bits are held as
   the bits of unsigned integers, so that no device needs arithmetic in them. `put` turns a sum (a complex one: its real and imaginary part)
   into an element of C and stores it. #}
{% macro widening(kind) %}
{% if kind == "bfloat16" %}
static inline float from_bfloat16(const ushort x) { return as_float((uint)x << 16); }
{% elif kind == "float16" %}
static inline float from_float16(const ushort x)
{
    const uint sign = (uint)(x & 0x8000) << 16, rest = x & 0x7fff;
    const uint wide = rest < 0x400 ? as_uint((float)rest * 5.9604644775390625e-8f) : (rest << 13) + (rest < 0x7c00 ? 0x38000000u : 0x70000000u);
    return as_float(sign | wide);
}
{% elif kind == "float8_e4m3fn" %}
static inline float from_float8_e4m3fn(const uchar x)
{
    const uint sign = (uint)(x & 0x80) << 24, rest = x & 0x7f;
    const uint wide = rest < 8 ? as_uint((float)rest * 0.001953125f) : rest == 0x7f ? 0x7fc00000u : (rest << 20) + 0x3c000000u;
    return as_float(sign | wide);
}
{% elif kind == "float8_e5m2" %}
static inline float from_float8_e5m2(const uchar x)
{
    const uint sign = (uint)(x & 0x80) << 24, rest = x & 0x7f;
    const uint wide = rest < 4 ? as_uint((float)rest * 1.52587890625e-5f) : (rest << 21) + (rest < 0x7c ? 0x38000000u : 0x70000000u);
    return as_float(sign | wide);
}
{% elif kind == "int8" %}
static inline uint from_int8(const char x) { return (uint)(int)x; }
{% endif %}
{% endmacro %}
{# eight contiguous float16 by the processor's own conversion instruction, which drivers' compilers do not generate from OpenCL C; and
   back #}
{% macro eight_widened() %}
typedef ushort8 loose8 __attribute__((aligned(2)));
static inline float8 eight_float16(__global const ushort* from)
{
    const ushort8 bits = *(__global const loose8*)from;
    float8 wide;
    __asm__("vcvtph2ps %1, %0" : "=x"(wide) : "x"(bits));
    return wide;
}
{% endmacro %}
{% macro eight_narrowed() %}
{{ eight_widened() }}
static inline void put_eight(__global ushort* to, const float8 sums, const float alpha, const float beta)
{
    float8 value = alpha * sums;
    if (beta != 0)
        value += beta * eight_float16(to);
    ushort8 bits;
    __asm__("vcvtps2ph $0, %1, %0" : "=x"(bits) : "x"(value));  // 0: to nearest even
    *(__global loose8*)to = bits;
}
{% endmacro %}
{% macro narrowing(kind) %}
{% if kind == "bfloat16" %}
static inline ushort to_bfloat16(const float x)
{
    const uint bits = as_uint(x);
    return (bits & 0x7fffffffu) > 0x7f800000u ? (ushort)(bits >> 16 | 0x40) : (ushort)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
{% elif kind == "float16" %}
static inline ushort to_float16(const float x)
{
    const uint bits = as_uint(x), sign = bits >> 16 & 0x8000, rest = bits & 0x7fffffff;
    if (rest >= 0x47800000u)  // 65536 and more, infinity, NaN
        return (ushort)(sign | (rest > 0x7f800000u ? 0x7e00 : 0x7c00));
    if (rest < 0x38800000u)  // below the smallest normal number: adding 2^23 rounds to units of 2^-24
        return (ushort)(sign | (as_uint(as_float(rest) * 16777216.0f + 8388608.0f) & 0x7ff));
    return (ushort)(sign | ((rest - 0x38000000u + 0xfff + (rest >> 13 & 1)) >> 13));
}
{% endif %}
{% endmacro %}
{# the element `x` of A or B in the type of the sums #}
{% macro operand(x) %}{{ "from_%s(%s)" % (A_KIND, x) if CONVERTED else x }}{% endmacro %}
{# the condition that a factor is zero #}
{% macro nothing(name) %}{{ "(%s.x == 0 && %s.y == 0)" % (name, name) if COMPLEX else "%s == 0" % name }}{% endmacro %}
{# the four sums of a 2 x 2 block, combined to the real and the imaginary part of one element #}
{% macro combined(re_re, re_im, im_re, im_im) %}
{% set a, b = "a" in conjugated, "b" in conjugated %}
{{ re_re }} {{ "+" if a != b else "-" }} {{ im_im }}, {{ "-" if b }}{{ re_im }} {{ "-" if a else "+" }} {{ im_re }}
{%- endmacro %}
{% macro functions() %}
{% if CONVERTED %}
{{ widening(A_KIND) }}
{%- endif %}
{{ ending(A_KIND) }}
{%- endmacro %}
{# the kernel arguments for the epilogue, and those that `put` gets for the element in row i and column j: see epilogue.py #}
{% macro epilogue_parameters() %}
{% for name in ("bias", "scale_a", "scale_b") if EPILOGUE[name] != "none" %}
, __global const {{ stored_c if name in NARROW else factor }}* restrict {{ name }}, const long {{ name }}_offset
{%- endfor %}
{% endmacro %}
{# the kernel arguments for block scales, and the scale of row or column i of op(A) or op(B) in a block of k: see epilogue.py #}
{% macro block_parameters(x) %}
, __global const float* restrict scale_{{ x }}, const long scale_{{ x }}_offset, const int scale_{{ x }}_ld
{%- endmacro %}
{% macro block_factor(x, i, block) %}
scale_{{ x }}[scale_{{ x }}_offset + {{ "(long)(%s) * scale_a_ld + %s" % (i, block) if x == "a" else "(long)(%s) * scale_b_ld + %s" % (block, i) }}]
{%- endmacro %}
{# element `at` of a vector operand, in the type of the sums #}
{% macro vector_at(name, at) %}
{{ ("from_%s(%s[%s_offset + %s])" % (C_KIND, name, name, at)) if name in NARROW else "%s[%s_offset + %s]" % (name, name, at) }}
{%- endmacro %}
{% macro vectors_of(i, j) %}
{% for name in ("bias", "scale_a", "scale_b") if EPILOGUE[name] != "none" %}
, {{ vector_at(name, i if EPILOGUE[name] == "rows" else j) }}
{%- endfor %}
{% if MODULI %}
, {{ number() }}
{%- endif %}
{% endmacro %}
{# the statements that compute `value` from `sum`; `old` is the old element of C #}
{% macro value_of(old) %}
{% set value = "float" if real == "uint" and factor == "float" else real %}
    {{ value }} value = alpha * {{ "(float)(int)sum" if value != real else "sum" }}{% for name in ("scale_a", "scale_b") if EPILOGUE[name] != "none" %} * {{ name }}{% endfor %};
    if (beta != 0)
        value += beta * {{ old }};
{% if EPILOGUE["bias"] != "none" %}
    value += bias;
{% endif %}
{% if EPILOGUE["activation"] == "relu" %}
    value = value < 0 ? 0 : value;
{% elif EPILOGUE["activation"] == "gelu" %}
    value = ({{ value }})0.5 * value * (1 + erf(value * ({{ value }})0.70710678118654752440));
{% elif EPILOGUE["activation"] == "gelu_tanh" %}
    value = ({{ value }})0.5 * value * (1 + tanh(({{ value }})0.79788456080286535588 * (value + ({{ value }})0.044715 * value * value * value)));
{% elif EPILOGUE["activation"] == "silu" %}
    value = value / (1 + exp(-value));
{% endif %}
{% endmacro %}
{% macro vectors_declared() %}
{%- for name in ("bias", "scale_a", "scale_b") if EPILOGUE[name] != "none" %}, const {{ factor }} {{ name }}{% endfor %}
{% endmacro %}
{# as `put`, but returns the element, for texts that store several elements at once #}
{% macro ended() %}
static inline float ended(const {{ real }} sum, const {{ factor }} alpha, const {{ factor }} beta, const float old{{ vectors_declared() }})
{
{{ value_of("old") }}    return value;
}
{% endmacro %}
{# With MODULI the sums of product z of a batch become remainders modulo its modulus p, the nearest to 0: -p/2 .. p/2.
   Before it is rounded, the quotient is off by at most 2^-11, because a sum is below 2^28 and the reciprocal is off by 2^-39. For odd p no
   sum / p is nearer than 1 / (2 p) to the middle of two integers, and for p = 256 either integer gives the same byte.
   The modulus 0 stands for the leading bits of sums. #}
{# the number in its batch of the product that a kernel computes #}
{% macro number() %}{{ "problem" if spans_batch is defined and spans_batch else "(int)get_group_id(2)" }}{% endmacro %}
{% macro remainders() %}
{% if MODULI[0] == 0 %}
// The leading bits of a sum that is not negative: the place of its first bit and the three bits after it (an eighth, rounded down).
static inline char reduced(const uint sum, const int z)
{
    const int shift = 28 - (int)clz(sum | 8);
    return (char)(sum < 8 ? sum : (uint)(shift + 1) << 3 | (sum >> shift & 7));
}
{% else %}
__constant int modulus_of[{{ MODULI | length }}] = { {{ MODULI | join(", ") }} };
__constant int reciprocal_of[{{ MODULI | length }}] = { {% for p in MODULI %}{{ (2 ** 39 + p) // (2 * p) }}{{ ", " if not loop.last }}{% endfor %} };  // times 2^38
static inline char reduced(const uint sum, const int z)
{
    const int s = (int)sum;
    const int quotient = (int)(((long)s * (long)reciprocal_of[z] + (1L << 37)) >> 38);
    return (char)(s - quotient * modulus_of[z]);
}
{% endif %}
static inline void put(__global char* to, const uint sum, const int alpha, const int beta, const int z) { *to = reduced(sum, z); }
{% endmacro %}
{# the functions that turn sums into elements of C; `known` is a type whose conversion the text has already #}
{% macro ending(known="") %}
{% if C_KIND in ("float16", "bfloat16") %}
{% if C_KIND != known %}
{{ widening(C_KIND) }}
{%- endif %}
{{ narrowing(C_KIND) }}
{%- endif %}
{% if MODULI %}
{{ remainders() }}
{%- elif COMPLEX %}
{% set old = "old" if ADDED | default(false) else "to" %}
{% set real_diagonal = REAL_DIAGONAL | default(false) %}
static inline void put(__global {{ real }}* to, const {{ real }} re, const {{ real }} im, const {{ factor }} alpha, const {{ factor }} beta{{ ", __global const %s* old" % real if old == "old" }}{{ ", const int real" if real_diagonal }})
{
    {{ real }} x = alpha.x * re - alpha.y * im, y = alpha.x * im + alpha.y * re;
    if (!{{ nothing("beta") }}) {
{% if real_diagonal %}
        x += beta.x * to[0] - (real ? 0 : beta.y * to[1]);
{% else %}
        x += beta.x * {{ old }}[0] - beta.y * {{ old }}[1];
{% endif %}
        y += beta.x * {{ old }}[1] + beta.y * {{ old }}[0];
    }
    to[0] = x;
    to[1] = {{ "real ? 0 : y" if real_diagonal else "y" }};
}
{% else %}
{% set old = "from_%s(*to)" % C_KIND if stored_c not in ("float", "double", "uint") else "*to" %}
static inline void put(__global {{ stored_c }}* to, const {{ real }} sum, const {{ factor }} alpha, const {{ factor }} beta{{ vectors_declared() }})
{
{{ value_of(old) }}    *to = {{ "to_%s(value)" % C_KIND if stored_c not in ("float", "double", "uint") else "value" }};
}
{% endif %}
{% endmacro %}
