// Copies operands to rows along k, `pitch` elements each, zeros past their k: what the forms on matrix units copy 16 bytes at a time.
//
// An operand is `across` x k in storage with k fast, else k x `across`. A group of 32 x 8 work-items copies {{ 128 // itemsize }} steps of k of 64 rows,
// each work-item words of four bytes of eight rows; it asks for all that it reads before it writes. alpha = 0 must not read the operands.
{# NAMES are the operands, one or two, of which groups copy 64 rows of A first, then of B; with BATCH groups of the third dimension are
   problems of the batch. FAST and WORDS are those of NAMES with k fast, and those whose rows consist of words; with k slow a group turns a square in local memory. #}
{% set bits = {1: "uchar", 2: "ushort", 4: "uint"}[itemsize] %}
{% set count = 4 // itemsize %}
{% set deep = 128 // itemsize %}

__kernel __attribute__((reqd_work_group_size(32, 8, 1)))
void gemm_lines(const int k, const int pitch, const {{ factor }} alpha{% for x in NAMES %},
                const int {{ x }}_across, __global const {{ stored }}* restrict {{ x }}_base, const long {{ x }}_offset, const int ld{{ x }},
                __global {{ stored }}* restrict {{ x }}_lines{% endfor %}{{ ", const long base_batch, const long lines_batch" if BATCH }})
{
{% if FAST != NAMES %}
    __local {{ bits }} square[{{ deep }}][65];
{% endif %}
    const int x = (int)get_local_id(0), y = (int)get_local_id(1);
    const int k0 = (int)get_group_id(0) * {{ deep }}, step = k0 + x * {{ count }};
{% if EARLY %}
    AFTER_PREVIOUS();
    NEXT_MAY_START();
{% endif %}
    if (alpha == 0)
        return;
{% if NAMES | length > 1 %}
    const int of_a = (a_across + 63) / 64;
{% endif %}
{% for name in NAMES %}
    {{ "if ((int)get_group_id(1) %s of_a) " % ("<" if loop.first else ">=") if NAMES | length > 1 }}{
        const int first = ((int)get_group_id(1){{ " - of_a" if not loop.first }}) * 64;
        __global const {{ bits }}* at = (__global const {{ bits }}*){{ name }}_base + {{ name }}_offset{{ " + (long)get_group_id(2) * base_batch" if BATCH }};
        __global uint* to = (__global uint*)({{ name }}_lines{{ " + (long)get_group_id(2) * lines_batch" if BATCH }});
        uint word[8];
{% if name in FAST %}
        // groups whose words all lie within the operand read them without branches, so that all reads are under way together
        const long behind = ((long)({{ name }}_across - first - 64) * ld{{ name }} + k - k0 - {{ deep }}) * {{ itemsize }};  // bytes past them
        if (first + 64 <= {{ name }}_across && behind >= 4{{ "" if name in WORDS else " && first + k0 > 0" }}) {
            const int left = (k - step) * {{ itemsize }};
            const uint valid = left >= 4 ? 0xffffffff : left <= 0 ? 0 : (1u << 8 * left) - 1;
#pragma unroll
            for (int r = 0; r < 8; ++r) {
                __global const {{ bits }}* from = at + (long)(first + y + 8 * r) * ld{{ name }} + step;
{% if name in WORDS %}
                word[r] = *(__global const uint*)from;
{% else %}
                const int skew = (int)((size_t)from & 3);  // bytes from the aligned word before, of the two that hold this one
                __global const uint* words = (__global const uint*)((__global const uchar*)from - skew);
                word[r] = (uint)(((ulong)words[1] << 32 | words[0]) >> 8 * skew);
{% endif %}
            }
#pragma unroll
            for (int r = 0; r < 8; ++r)
                word[r] &= valid;
        } else {
#pragma unroll
            for (int r = 0; r < 8; ++r) {
                const int i = first + y + 8 * r;
                __global const {{ bits }}* from = at + (long)i * ld{{ name }} + step;
                word[r] = 0;
{% if name in WORDS %}
                if (i < {{ name }}_across && step + {{ count }} <= k)
                    word[r] = *(__global const uint*)from;
                else
{% elif itemsize == 1 %}
                const int skew = (int)((size_t)from & 3);  // bytes from the aligned word before, of the two that hold this one
                if (i < {{ name }}_across && step >= skew && step - skew + 8 <= k) {
                    __global const uint* words = (__global const uint*)(from - skew);
                    word[r] = skew ? words[0] >> 8 * skew | words[1] << (32 - 8 * skew) : words[0];
                } else
{% endif %}
                if (i < {{ name }}_across) {
{% for e in range(count) %}
                    if (step + {{ e }} < k)
                        word[r] |= (uint)from[{{ e }}]{{ " << %d" % (8 * itemsize * e) if e }};
{% endfor %}
                }
            }
        }
{% else %}
        {{ bits }} part[{{ deep // 4 }}];
#pragma unroll
        for (int p = 0; p < {{ deep // 4 }}; ++p) {
            const int s = k0 + y + p / 2 * 8, i = first + x + p % 2 * 32;
            part[p] = s < k && i < {{ name }}_across ? at[(long)s * ld{{ name }} + i] : 0;
        }
#pragma unroll
        for (int p = 0; p < {{ deep // 4 }}; ++p)
            square[y + p / 2 * 8][x + p % 2 * 32] = part[p];
        barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll
        for (int r = 0; r < 8; ++r)
            word[r] = {% for e in range(count) %}(uint)square[x * {{ count }}{{ " + %d" % e if e }}][y + 8 * r]{{ " << %d" % (8 * itemsize * e) if e }}{{ " | " if not loop.last }}{% endfor %};
{% endif %}
#pragma unroll
        for (int r = 0; r < 8; ++r)
            if (first + y + 8 * r < {{ name }}_across)
                to[((long)(first + y + 8 * r) * pitch + step) / {{ count }}] = word[r];
    }
{% endfor %}
}
