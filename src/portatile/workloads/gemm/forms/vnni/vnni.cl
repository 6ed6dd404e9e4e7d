{#
   The register tile of a work-item, which is a work-group by itself: TR rows x TC columns of C, each row TC / 16 vectors of 16 sums.

                        B: a panel TC wide
                       +----------+----------+
        a word of k    | b0 (16)  | b1 (16)  |   16 words of two (bfloat16) or four (int8) neighbours along k
                       +----------+----------+
      A      +---+     +----------+----------+
      TR     | a |  x  |  c0_0    |  c0_1    |   lane j of c(r)_(v) += the sum of products of word r of A and word j of b(v);
      rows   | a |     |  c1_0    |  c1_1    |   a word of A is spread over a vector
             +---+     +----------+----------+

   Work-groups go down the rows of a band of RASTER tiles, then to the next columns, as in cpu.cl.
#}
// GEMM for processors with an instruction that adds the products of two bfloat16, or of four int8, to each lane of a vector.
//
// C = alpha op(A) op(B) + beta C, A and B in panels of pack.cl. The instructions are AVX512-BF16's vdpbf16ps and AVX512-VNNI's vpdpbusd.
// They are used through inline assembly, with registers zmm0 .. zmm31, even if the compiler does not know that the processor has them.
// vpdpbusd multiplies unsigned by signed bytes: A has 128 added, and the sums begin with the negated contribution of that. They are exact
// modulo 2**32. vpdpbf16ps rounds to nearest even after each product, but treats subnormal numbers as zeros, also in results. Products are
// multiples of 2^(i + j - 14) if exponents are at least i in A and j in B. For i + j >= -112 no sum can be subnormal, so the result equals
// that of float32 multiply-adds; below that, the tile is computed by these, from elements that are converted in registers.
{% set vectors = TC // 16 %}
{% from "elements.cl" import ending, vectors_of with context %}
{% if not SPLIT %}
{{ ending() }}
{%- endif %}
{# numbers of zmm registers: columns of B, two words of A in turn, sums #}
{% macro sum(r, v) %}%%zmm{{ vectors + 2 + r * vectors + v }}{% endmacro %}
{% macro spread(r) %}%%zmm{{ vectors + r % 2 }}{% endmacro %}
{% macro dots(u) %}
            {% for v in range(vectors) %}"vmovdqu32 {{ u * TC * 4 + v * 64 }}(%1), %%zmm{{ v }}\n\t" {% endfor %}

{% for r in range(TR) %}
            "vpbroadcastd {{ (u * TR + r) * 4 }}(%0), {{ spread(r) }}\n\t"{% for v in range(vectors) %} "{{ "vdpbf16ps %s, %%%%zmm%d" % (spread(r), v) if NEIGHBOURS == 2 else "vpdpbusd %%%%zmm%d, %s" % (v, spread(r)) }}, {{ sum(r, v) }}\n\t"{% endfor %}

{% endfor %}
{% endmacro %}
{# the same for one element of each word, converted to float32: `half` 1 is the upper one #}
{% macro widened(half) %}
            {% for v in range(vectors) %}"{{ "vpsrld" if half else "vpslld" }} $16, {{ v * 64 }}(%1), %%zmm{{ v }}\n\t" {% if half %}"vpslld $16, %%zmm{{ v }}, %%zmm{{ v }}\n\t" {% endif %}{% endfor %}

{% for r in range(TR) %}
            "{{ "vpsrld" if half else "vpslld" }} $16, {{ r * 4 }}(%0)%{1to16%}, {{ spread(r) }}\n\t"{% if half %} "vpslld $16, {{ spread(r) }}, {{ spread(r) }}\n\t"{% endif %}{% for v in range(vectors) %} "vfmadd231ps {{ spread(r) }}, %%zmm{{ v }}, {{ sum(r, v) }}\n\t"{% endfor %}

{% endfor %}
{% endmacro %}
{% macro loop(steps) %}
            "1:\n\t"
{{ caller() }}            "add ${{ steps * TR * 4 }}, %0\n\t" "add ${{ steps * TC * 4 }}, %1\n\t" "dec %2\n\t" "jnz 1b\n\t"
{%- endmacro %}
{% macro load_sums() %}
            {% for r in range(TR) %}{% for v in range(vectors) %}"vmovups {{ (r * TC + v * 16) * 4 }}(%3), {{ sum(r, v) }}\n\t" {% endfor %}{% endfor %}

{% endmacro %}
{% macro store_sums() %}
            {% for r in range(TR) %}{% for v in range(vectors) %}"vmovups {{ sum(r, v) }}, {{ (r * TC + v * 16) * 4 }}(%3)\n\t" {% endfor %}{% endfor %}"vzeroupper"
            : "+r"(a), "+r"(b), "+r"(count) : "r"(sums)  // the compiler does not know xmm16 and above
            : "memory", "cc"{% for i in range(16) %}, "xmm{{ i }}"{% endfor %});
{% endmacro %}

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
{% include "arguments.cl" %}
{
{% include "batch.cl" %}
{% include "bands.cl" %}
    const int words = (k - 1) / {{ NEIGHBOURS }} + 1, part = (int)get_group_id(1);
    const int first = part * (chunk / {{ NEIGHBOURS }}), last = min(words, first + chunk / {{ NEIGHBOURS }});
    __global const uint* a = (__global const uint*)a_base + (long)tile_row * (words + 1) * TR;
    __global const uint* b = (__global const uint*)b_base + (long)tile_col * (words + 1) * TC;
    {{ real }} sums[TR * TC] __attribute__((aligned(64)));
    for (int i = 0; i < TR * TC; ++i)
        sums[i] = {{ "alpha == 0 || part ? 0 : b[(long)words * TC + i % TC]" if NEIGHBOURS == 4 else 0 }};

    if (alpha != 0) {  // alpha = 0 must not read A or B
{% if NEIGHBOURS == 2 and ASSEMBLY %}
        const int i = ((__global const int*)a)[(long)words * TR], j = ((__global const int*)b)[(long)words * TC];
{% endif %}
        a += (long)first * TR;
        b += (long)first * TC;
{% if ASSEMBLY %}
{% if NEIGHBOURS == 2 %}
        if (i + j < 2 * 127 - 112) {
            long count = last - first;
            __asm__ volatile(
{{ load_sums() }}{% call loop(1) %}{{ widened(0) }}{{ widened(1) }}{% endcall %}

{{ store_sums() }}        } else {
{%- else %}
        {
{%- endif %}

            long count = (last - first) / {{ UNROLL }};
            if (count > 0)
                __asm__ volatile(
{{ load_sums() }}{% call loop(UNROLL) %}{% for u in range(UNROLL) %}{{ dots(u) }}{% endfor %}{% endcall %}

{{ store_sums() }}
{%- if UNROLL > 1 %}
            count = (last - first) % {{ UNROLL }};
            if (count > 0)
                __asm__ volatile(
{{ load_sums() }}{% call loop(1) %}{{ dots(0) }}{% endcall %}

{{ store_sums() }}
{%- endif %}
        }
{% else %}
        for (int s = first; s < last; ++s, a += TR, b += TC)
            for (int r = 0; r < TR; ++r)
                for (int c = 0; c < TC; ++c) {
{% if NEIGHBOURS == 2 %}
                    sums[r * TC + c] += as_float(a[r] << 16) * as_float(b[c] << 16);
                    sums[r * TC + c] += as_float(a[r] & 0xffff0000u) * as_float(b[c] & 0xffff0000u);
{% else %}
                    for (int e = 0; e < 32; e += 8)
                        sums[r * TC + c] += (a[r] >> e & 0xff) * (uint)((int)(b[c] << (24 - e)) >> 24);
{% endif %}
                }
{% endif %}
    }

    __global {{ real if SPLIT else stored_c }}* to = c_base + c_offset + (long)row0 * ldc + col0{{ " + (long)part * m * n" if SPLIT }};
    const int height_left = min(TR, m - row0), width_left = min(TC, n - col0);
    for (int r = 0; r < height_left; ++r, to += ldc)
        for (int c = 0; c < width_left; ++c)
            {{ "to[c] = sums[r * TC + c];" if SPLIT else "put(to + c, sums[r * TC + c], alpha, beta%s);" % vectors_of("row0 + r", "col0 + c") }}
}
