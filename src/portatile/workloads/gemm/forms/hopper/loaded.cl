{# How the hopper form's work-items copy tiles of operands whose rows the TMA does not take, those of LOADED; hopper.cl has the drawing.

   Lines of 128 bytes go to local memory as the TMA would put them there, by asynchronous copies of X_WORD bytes. Where rows are not aligned to
   four bytes (X_WORD = 1), a warp copies the 33 words that hold the line to `words`, of LOADS stages by turns, and shifts them from there:

        memory   | . a b c | d e f g | h . . . |      a word of the tile: the upper bytes of one word, the lower ones of the next
        words    |   0     |   1     |   2     |      `skew`, 1 here: bytes of word 0 before the line; the same for all lines of a warp

   Copies run LAG stages ahead of the stage that is handed over. #}
{% from "copies.cl" import copies, tile_of with context %}
{% set LAG = LOADS - 1 %}
{% set raw = ("a" if A_WORD == 1 else "") ~ ("b" if B_WORD == 1 else "") %}
{% set raw_slot = 132 * ((bm if "a" in raw else 0) + (bn if "b" in raw else 0)) %}
{# where the words of an operand's lines begin #}
{% macro words_of(x) %}{{ 132 * bm if x == "b" and "a" in raw else 0 }}{% endmacro %}
{# starts the copies of a stage's lines of one operand: to the tile, or to the words #}
{% macro load(x, along, word, first, end) %}
{% set wide = bm if x == "a" else bn %}
{% set lanes = 32 if word == 1 else 128 // word %}
{% set jump = 128 // lanes %}
{% set place = 0 if x == "a" else bm * 128 %}
                {
                    const int line = item % 128 / {{ lanes }}, byte = item % {{ lanes }} * {{ 4 if word == 1 else word }};
{% if along %}
                    __global const uchar* from = (__global const uchar*)({{ x }}_base + {{ x }}_offset + (long)({{ first }} + line) * ld{{ x }} + k_next);
                    const int bytes = (k1 - k_next) * {{ itemsize }};
{% else %}
                    __global const uchar* from = (__global const uchar*)({{ x }}_base + {{ x }}_offset + (long)(k_next + line) * ld{{ x }} + {{ first }});
                    const int bytes = ({{ end }} - {{ first }}) * {{ itemsize }};
{% endif %}
                    const long jump = (long)ld{{ x }} * {{ jump * itemsize }};
{% if word == 1 %}
                    const int skew = (int)((size_t)from & 3);
                    skews |= (uint)skew << {{ 0 if x == "a" else 2 }};
                    from -= skew;
                    __local uchar* to = words + load_slot * {{ raw_slot }} + {{ words_of(x) }} + line * 132;
{% else %}
                    __local uchar* to = tiles + slot * {{ stage }} + {{ place }} + line * 128;
{% endif %}
#pragma unroll 8
                    for (int s = 0; s < {{ wide // jump }}; ++s) {
{% if along %}
                        const int far = byte, there = {{ first }} + line + s * {{ jump }} < {{ end }};
                        __global const uchar* at = from + s * jump + far;
{% else %}
                        const int far = byte + s * {{ jump }} / {{ depth }} * 128, there = k_next + line + s * {{ jump }} % {{ depth }} < k1;
                        __global const uchar* at = from + (s * {{ jump }} % {{ depth }} / {{ jump }}) * jump + far;
{% endif %}
                        const int part = there ? clamp(bytes{{ " + skew" if word == 1 }} - far, 0, {{ 4 if word == 1 else word }}) : 0;
{% if word == 1 %}
                        COPY_ASYNC_4_PART(to + s * {{ jump * 132 }} + byte, part > 0 ? at : (__global const uchar*)aligned_{{ x }}, part);
{% else %}
                        COPY_ASYNC_{{ word }}_PART(to + s * {{ jump * 128 }} + ((byte / 16 ^ (line + s * {{ jump }})) & 7) * 16 + byte % 16, part > 0 ? at : (__global const uchar*)aligned_{{ x }}, part);
{% endif %}
                    }
{% if word == 1 %}
                    // the last word of each line, by one work-item
                    for (int s = item % 32; s < {{ wide // 4 }}; s += 32) {
{% if along %}
                        const int far = 128, there = {{ first }} + line + s * 4 < {{ end }};
                        __global const uchar* at = from + s * jump + far;
{% else %}
                        const int far = 128 + s * 4 / {{ depth }} * 128, there = k_next + line + s * 4 % {{ depth }} < k1;
                        __global const uchar* at = from + (s * 4 % {{ depth }} / 4) * jump + far;
{% endif %}
                        const int part = there ? clamp(bytes + skew - far, 0, skew) : 0;
                        COPY_ASYNC_4_PART(to + s * {{ 4 * 132 }} + 128, part > 0 ? at : (__global const uchar*)aligned_{{ x }}, part);
                    }
{% endif %}
                }
{% endmacro %}
{# shifts the words of an operand's lines to its tile #}
{% macro shifted(x) %}
{% set wide = bm if x == "a" else bn %}
{% set place = 0 if x == "a" else bm * 128 %}
                    {
                        const int line = item % 128 / 32, skew = (int)(of_stage >> {{ 0 if x == "a" else 2 }} & 3) * 8;
                        __local const uint* from = (__local const uint*)(words + done_load * {{ raw_slot }} + {{ words_of(x) }} + line * 132) + lane;
                        __local uchar* to = tiles + done_slot * {{ stage }} + {{ place }} + line * 128;
#pragma unroll 8
                        for (int s = 0; s < {{ wide // 4 }}; ++s) {
                            const ulong two = (ulong)from[s * 132 + 1] << 32 | from[s * 132];
                            *(__local uint*)(to + s * 512 + ((lane / 4 ^ (line + s * 4)) & 7) * 16 + lane % 4 * 4) = (uint)(two >> skew);
                        }
                    }
{% endmacro %}
{# the warp group that copies: all of its work-items, and one that has the TMA copy the other operand #}
{% macro loader() %}
{% for x in LOADED %}
        __global const {{ stored }}* aligned_{{ x }} = {{ x }}_base;  // what is aligned: an address of which nothing is read
{% endfor %}
{% if raw %}
        __local uchar* words = tiles + {{ spaces + 256 + 16 * STAGES }};
        int load_slot = 0, done_load = 0;
        uint skews_of = 0;  // of the stages under way, four bits each
{% endif %}
        const int stages = ((down * across - tile0 - 1) / tiles_on + 1) * count;
        int slot = 0, phase = 1, done_slot = 0, at = tile0, step = 0;
#pragma unroll 1
        for (int begun = 0; begun < stages + {{ LAG }}; ++begun) {
            if (begun < stages) {
{{ tile_of() }}
                const int k_next = k0 + step * {{ depth }};
{% if raw %}
                uint skews = 0;
{% endif %}
                mbarrier_wait(empty + slot * 8, phase);
{% if by_tma %}
                if (item == {{ 128 * TBR }}) {
                    const uint to = first + slot * {{ stage }};
                    mbarrier_expect(full + slot * 8, {{ (bm if by_tma == "a" else bn) * 128 }});
{{ copies("a", A_ALONG, bm, 0, "row0") if by_tma == "a" else copies("b", B_ALONG, bn, bm * 128, "col0") }}                }
{% endif %}
{% if "a" in LOADED %}
{{ load("a", A_ALONG, A_WORD, "row0", "m") }}
{%- endif %}
{% if "b" in LOADED %}
{{ load("b", B_ALONG, B_WORD, "col0", "n") }}
{%- endif %}
                phase ^= slot == {{ STAGES - 1 }};
                slot = slot == {{ STAGES - 1 }} ? 0 : slot + 1;
                at += step + 1 == count ? tiles_on : 0;
                step = step + 1 == count ? 0 : step + 1;
{% if raw %}
                load_slot = load_slot == {{ LAG }} ? 0 : load_slot + 1;
                skews_of = skews_of << 4 | skews;
            } else {
                skews_of <<= 4;
{% endif %}
            }
            COPY_ASYNC_COMMIT();
            if (begun >= {{ LAG }}) {
                COPY_ASYNC_WAIT({{ LAG }});
{% if raw %}
                WARP_BARRIER();
                const uint of_stage = skews_of >> {{ 4 * LAG }};
{% for x in raw %}
{{ shifted(x) }}
{%- endfor %}
                done_load = done_load == {{ LAG }} ? 0 : done_load + 1;
{% endif %}
                local_written();
                WARP_BARRIER();
                if (lane == 0)
                    mbarrier_arrive(full + done_slot * 8);
                done_slot = done_slot == {{ STAGES - 1 }} ? 0 : done_slot + 1;
            }
        }
{% endmacro %}
