{# How the hopper form's work-items copy tiles of operands whose rows the TMA does not take, those of LOADED; hopper.cl has the drawing.

   Lines of 128 bytes come to local memory as the TMA would put them there. A work-item has one chunk of 16 bytes of every sixteenth line: it reads
   the aligned chunk in which its own begins, and the next one, and shifts the two by `skew` bytes, which are the same for all its lines:

        memory   | . . . a b c d ...  | e f g h ... |        X_WORD: what divides the skew of every line, 8, 4 or 1
        chunk    |       a b c d ...    e f |

   It stores what it read of a stage, and reads the same of the next one, by turns: so loads of a whole stage are under way. A chunk that lies past
   its line's end is zeros, and past the operand's end nothing is read. #}
{% from "copies.cl" import copies, tile_of with context %}
{# functions of the text: an aligned chunk of which so many bytes are the operand's; the first bytes of a chunk #}
{% macro loading() %}
static inline uint4 chunk_at(__global const uchar* at, const long left)
{
    if (left >= 16)
        return *(__global const uint4*)at;
    uint4 found = (uint4)(0);
#pragma unroll 1
    for (int i = (int)left - 1; i >= 0; --i)
        found = (uint4)(found.x << 8 | at[i], found.y << 8 | found.x >> 24, found.z << 8 | found.y >> 24, found.w << 8 | found.z >> 24);
    return found;
}
static inline uint first_bytes(const uint word, const int count)
{
    return count >= 4 ? word : count <= 0 ? 0 : word & ((1u << 8 * count) - 1);
}
static inline uint4 first_of(const uint4 chunk, const int count)
{
    return (uint4)(first_bytes(chunk.x, count), first_bytes(chunk.y, count - 4), first_bytes(chunk.z, count - 8), first_bytes(chunk.w, count - 12));
}
{% endmacro %}
{# what stays the same of an operand for all stages #}
{% macro begun(x, along, end) %}
        __global const uchar* {{ x }}_lines = (__global const uchar*)({{ x }}_base + {{ x }}_offset + (long)line * ld{{ x }});
        const int {{ x }}_skew = (int)((size_t){{ x }}_lines & 15);
        __global const uchar* {{ x }}_end = (__global const uchar*)({{ x }}_base + {{ x }}_offset + (long)({{ end if along else "k" }} - 1) * ld{{ x }} + {{ "k" if along else end }});
        {{ x }}_lines += chunk * 16 - {{ x }}_skew;
        uint4 {{ x }}_low[{{ (bm if x == "a" else bn) // 16 }}], {{ x }}_high[{{ (bm if x == "a" else bn) // 16 }}];
        int {{ x }}_bytes = 0;  // of this work-item's lines that are copied, from the first of its chunks on
{% endmacro %}
{# stores a stage's chunks of an operand, and reads those of the next one, as far as these are there #}
{% macro turn(x, along, word, first, end) %}
{% set wide = bm if x == "a" else bn %}
{% set place = 0 if x == "a" else bm * 128 %}
            {
{% if along %}
                __global const uchar* from = {{ x }}_lines + ((long){{ first }} * ld{{ x }} + k_next) * {{ itemsize }};
                const int bytes = (k1 - k_next) * {{ itemsize }} - chunk * 16;
{% else %}
                __global const uchar* from = {{ x }}_lines + ((long)k_next * ld{{ x }} + {{ first }}) * {{ itemsize }};
                const int bytes = ({{ end }} - {{ first }}) * {{ itemsize }} - chunk * 16;
{% endif %}
                const long jump = (long)ld{{ x }} * {{ 16 * itemsize }};
                __local uchar* to = tiles + slot * {{ stage }} + {{ place }} + line * 128 + ((chunk ^ line) & 7) * 16;
#pragma unroll
                for (int p = 0; p < {{ wide // 16 }}; ++p) {
{% if along %}
                    const int box = 0;
                    const int there = more && {{ first }} + line + p * 16 < {{ end }};
                    __global const uchar* at = from + p * jump;
{% else %}
                    const int box = p * 16 / {{ depth }} * 128;
                    const int there = more && k_next + line + p * 16 % {{ depth }} < k1;
                    __global const uchar* at = from + (p * 16 % {{ depth }} / 16) * jump + box;
{% endif %}
                    if (begun >= 0) {
                        uint4 v = shifted({{ x }}_low[p], {{ x }}_high[p], {{ x }}_skew, {{ word }});
                        if ({{ x }}_bytes - box < 16)
                            v = first_of(v, {{ x }}_bytes - box);
                        *(__local uint4*)(to + p * 2048) = v;
                    }
                    {{ x }}_low[p] = there && bytes - box > 0 ? chunk_at(at, (long)({{ x }}_end - at)) : (uint4)(0);
                    {{ x }}_high[p] = there && {{ x }}_skew && bytes - box > 16 - {{ x }}_skew ? chunk_at(at + 16, (long)({{ x }}_end - at) - 16) : (uint4)(0);
                }
                {{ x }}_bytes = bytes;
            }
{% endmacro %}
{# the warp group that copies: all of its work-items, and one that has the TMA copy the other operand #}
{% macro loader() %}
        const int line = item % 128 / 8, chunk = item % 8;
{% if "a" in LOADED %}
{{ begun("a", A_ALONG, "m") }}
{%- endif %}
{% if "b" in LOADED %}
{{ begun("b", B_ALONG, "n") }}
{%- endif %}
        const int stages = ((down * across - tile0 - 1) / tiles_on + 1) * count;
        int slot = 0, phase = 1, at = tile0, step = 0;
{% if by_tma %}
        int by_tma_row = 0, by_tma_k = 0;
{% endif %}
#pragma unroll 1
        for (int begun = -1; begun < stages; ++begun) {
            const int more = begun + 1 < stages;  // whether a stage follows, whose tile and step are `at` and `step`
{{ tile_of() }}
            const int k_next = k0 + step * {{ depth }};
            if (begun >= 0) {
                mbarrier_wait(empty + slot * 8, phase);
{% if by_tma %}
                if (item == {{ 128 * TBR }}) {
                    const uint to = first + slot * {{ stage }};
                    const int k_next = by_tma_k;
                    mbarrier_expect(full + slot * 8, {{ (bm if by_tma == "a" else bn) * 128 }});
{{ copies("a", A_ALONG, bm, 0, "by_tma_row") if by_tma == "a" else copies("b", B_ALONG, bn, bm * 128, "by_tma_row") }}                }
{% endif %}
            }
{% if "a" in LOADED %}
{{ turn("a", A_ALONG, A_WORD, "row0", "m") }}
{%- endif %}
{% if "b" in LOADED %}
{{ turn("b", B_ALONG, B_WORD, "col0", "n") }}
{%- endif %}
            if (begun >= 0) {
                local_written();
                WARP_BARRIER();
                if (lane == 0)
                    mbarrier_arrive(full + slot * 8);
                phase ^= slot == {{ STAGES - 1 }};
                slot = slot == {{ STAGES - 1 }} ? 0 : slot + 1;
            }
{% if by_tma %}
            by_tma_row = {{ "row0" if by_tma == "a" else "col0" }};
            by_tma_k = k_next;
{% endif %}
            at += step + 1 == count ? tiles_on : 0;
            step = step + 1 == count ? 0 : step + 1;
        }
{% endmacro %}
