// Packs an operand into panels of words: for every NEIGHBOURS steps of k in turn, WIDTH words across k, with zeros where the operand ends.
//
//      panel (depth rows)      w = 0         w = 1               a word: k, k + 1 (bfloat16) or k .. k + 3 (int8)
//      words 0                 [k k+1 ..]    [k k+1 ..]  ...
//      words 1                 [...     ]    [...     ]
//      ...
//      the last row            what the panel says of itself, an int each
//
// The operand is stored as `across` x k with K_FAST (contiguous along k), else as k x `across`. A work-item packs SPAN neighbouring panels.
// The last row of a panel of bfloat16 has in place 0 the panel's least exponent, as its bits (1 .. 254), or a value far below if the panel
// has subnormal numbers. int8 of A are stored with 128 added, as unsigned bytes; the last row of B has the negated contribution of these
// 128 to the sum of each column. With alpha = 0 the operand must not be read, and nothing is written.
{# with BATCH the third dimension of the launch counts the problems of the batch #}
{% set SHIFTED = A_KIND == "int8" and SIDE == "a" %}
{% set bits = 32 // NEIGHBOURS %}
{% set element = "ushort" if NEIGHBOURS == 2 else "uchar" %}
{# the elements of NEIGHBOURS steps in a word, the first in its lowest bits #}
{% macro interleaved(read, type) %}({% for e in range(NEIGHBOURS) %}{{ read % ("w" if e == 0 else "(long)ld + w" if e == 1 else "(long)ld * %d + w" % e) }}{{ " << %s(%d)" % (type, e * bits) if e }}{{ " | " if not loop.last }}{% endfor %}){% endmacro %}
{% set FAR = 8 %}
#define SLICE 64  // words along k that are packed before their exponents are examined, so that a slice of a panel stays in the first-level cache
{% if ASSEMBLY %}  // on x86 processors, which allow unaligned loads
typedef uint word __attribute__((aligned({{ 4 // NEIGHBOURS }})));
typedef {{ element }}8 elements8 __attribute__((aligned({{ 4 // NEIGHBOURS }})));
typedef uint8 words8 __attribute__((aligned(4)));
#define WORD(p) (*(__global const word*)(p))
#define WIDEN(p) __builtin_convertvector(*(__global const elements8*)(p), uint8)  // PoCL's convert_uint8 converts them one by one
{% else %}
#define WORD(p) gather(p, 1, {{ NEIGHBOURS }})
{% endif %}

// {{ NEIGHBOURS }} elements `step` apart, the first in the lowest bits; those from `known` on are zeros.
static inline uint gather(__global const {{ element }}* from, const long step, const int known)
{
    uint found = 0;
    for (int e = 0; e < known; ++e)
        found |= (uint)from[e * step] << e * {{ bits }};
    return found;
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void gemm_pack(const int across, const int k, const int depth, const {{ factor }} alpha, __global const {{ stored }}* restrict base, const long offset,
               const int ld, __global {{ real }}* restrict panels{{ ", const long base_batch, const long panels_batch" if BATCH }})
{
{% if BATCH %}
    base += (long)get_group_id(2) * base_batch;
    panels += (long)get_group_id(2) * panels_batch;
{% endif %}
    if (alpha == 0)
        return;
    const int first = (int)get_group_id(0) * SPAN, count = min(SPAN, (across - 1) / WIDTH + 1 - first);
    const int words = depth - 1, whole = k / {{ NEIGHBOURS }};
    const long panel_size = (long)depth * WIDTH;
    __global const {{ element }}* from = (__global const {{ element }}*)base + offset;
    __global uint* to = (__global uint*)panels + first * panel_size;
{% if A_KIND == "bfloat16" %}
    ushort16 least[SPAN];  // bits of magnitudes minus one, so that zeros become the largest
    for (int p = 0; p < SPAN; ++p)
        least[p] = (ushort16)(0xffff);
{% elif SIDE == "b" %}
    int8 sums[SPAN][WIDTH / 8];
    for (int p = 0; p < SPAN; ++p)
        for (int w = 0; w < WIDTH / 8; ++w)
            sums[p][w] = (int8)(0);
{% endif %}
    for (int start = 0; start < words; start += SLICE) {
        const int end = min(start + SLICE, words), full = min(end, whole);
{% if K_FAST %}
        for (int p = 0; p < count; ++p) {
            const int i0 = (first + p) * WIDTH;
            __global uint* panel = to + p * panel_size;
            if (i0 + WIDTH <= across) {
                __global const {{ element }}* line = from + (long)i0 * ld;
                int s = start;
                for (; s + 16 <= full; s += 16)
                    for (int w = 0; w < WIDTH; ++w) {
                        __global const {{ element }}* row = line + (long)w * ld + s * {{ NEIGHBOURS }};
                        __global uint* column = panel + (long)s * WIDTH + w;
#pragma unroll
                        for (int u = 0; u < 16; ++u)
                            column[u * WIDTH] = WORD(row + u * {{ NEIGHBOURS }}){{ " ^ 0x80808080u" if SHIFTED }};
                    }
                for (; s < full; ++s)
                    for (int w = 0; w < WIDTH; ++w)
                        panel[(long)s * WIDTH + w] = WORD(line + (long)w * ld + s * {{ NEIGHBOURS }}){{ " ^ 0x80808080u" if SHIFTED }};
            }
            for (int s = i0 + WIDTH <= across ? max(full, start) : start; s < end; ++s)
                for (int w = 0; w < WIDTH; ++w)
                    panel[(long)s * WIDTH + w] = i0 + w < across ? gather(from + (long)(i0 + w) * ld + s * {{ NEIGHBOURS }}, 1, min({{ NEIGHBOURS }}, k - s * {{ NEIGHBOURS }})){{ " ^ 0x80808080u" if SHIFTED }} : 0;
        }
{% else %}
        for (int s = start; s < end; ++s) {
            const int known = min({{ NEIGHBOURS }}, k - s * {{ NEIGHBOURS }});
            __global const {{ element }}* line = from + (long)s * {{ NEIGHBOURS }} * ld + first * WIDTH;
            for (int p = 0; p < count; ++p, line += WIDTH) {
                const int left = across - (first + p) * WIDTH;
                __global uint* panel = to + p * panel_size + (long)s * WIDTH;
                if (known == {{ NEIGHBOURS }} && left >= WIDTH) {
                    int w = 0;
{% if ASSEMBLY %}
{% for e in range(NEIGHBOURS) %}
                    __builtin_prefetch(line + (long)ld * {{ FAR * NEIGHBOURS + e }});  // the hardware does not prefetch lines that are so far apart
{% endfor %}
#pragma unroll
                    for (; w + 8 <= WIDTH; w += 8)
                        *(__global words8*)(panel + w) = {{ interleaved("WIDEN(line + %s)", "(uint8)") }}{{ " ^ (uint8)(0x80808080u)" if SHIFTED }};
{% endif %}
                    for (; w < WIDTH; ++w)
                        panel[w] = {{ interleaved("(uint)line[%s]", "") }}{{ " ^ 0x80808080u" if SHIFTED }};
                }
                else
                    for (int w = 0; w < WIDTH; ++w)
                        panel[w] = w < left ? gather(line + w, ld, known){{ " ^ 0x80808080u" if SHIFTED }} : 0;
            }
        }
{% endif %}
{% if A_KIND == "bfloat16" %}
        for (int p = 0; p < count; ++p) {
            __global const ushort* part = (__global const ushort*)(to + p * panel_size + (long)start * WIDTH);
            const int size = (end - start) * WIDTH * 2;
            ushort16 found = least[p];
            int at = 0;
            for (; at + 16 <= size; at += 16)
                found = min(found, (vload16(0, part + at) & (ushort16)(0x7fff)) - (ushort16)(1));
            for (; at < size; ++at)
                found.s0 = min(found.s0, (ushort)((part[at] & 0x7fff) - 1));
            least[p] = found;
        }
{% elif SIDE == "b" %}
        for (int p = 0; p < count; ++p)
            for (int s = start; s < end; ++s) {
                __global const int8* row = (__global const int8*)(to + p * panel_size + (long)s * WIDTH);
#pragma unroll
                for (int w = 0; w < WIDTH / 8; ++w)
                    sums[p][w] += (row[w] << 24 >> 24) + (row[w] << 16 >> 24) + (row[w] << 8 >> 24) + (row[w] >> 24);
            }
{% endif %}
    }
    for (int p = 0; p < count; ++p) {
        __global int* last = (__global int*)(to + p * panel_size + (long)words * WIDTH);
{% if A_KIND == "bfloat16" %}
        const ushort8 eight = min(least[p].lo, least[p].hi);
        const ushort4 four = min(eight.lo, eight.hi);
        const ushort2 two = min(four.lo, four.hi);
        const int exponent = ((int)min(two.x, two.y) + 1) >> 7;
        last[0] = exponent == 0 ? -1024 : exponent;
{% elif SIDE == "b" %}
        for (int w = 0; w < WIDTH / 8; ++w)
            ((__global uint8*)last)[w] = (uint8)(0) - (as_uint8(sums[p][w]) << 7);
{% endif %}
    }
}
