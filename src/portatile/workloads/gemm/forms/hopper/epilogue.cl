{# The epilogue of hopper.cl: stores a tile of C. Sums pass through local memory, `exchange`, a part for each warp, so that neighbours in a
   row of C are stored together (coalesced): elements of 16 bits as fragments, remainders as bytes, all others as sums.

   Memory writes sectors of 32 bytes. If rows of C begin inside a sector (SHIFTED), a warp stores columns that are shifted back by as much,
   so that it writes whole sectors except at a tile's edges. For this, local memory keeps the last 32 bytes of the preceding columns in
   front of each line:

       tile            |  0 .. 63         |  64 .. 127       |            stored for a row that begins 2 columns into a sector:  -2 .. 61, 
       62 .. 125,  126, 127   #}
{# moves the last 32 bytes of each of 16 lines to its front; `pitch_bytes`: bytes of a line #}
{% macro kept(lines, pitch_bytes, from) %}
                    if (c > 0)
                        *(__local uint4*)({{ lines }} + lane / 2 * {{ pitch_bytes }} + lane % 2 * 16) = *(__local const uint4*)({{ lines }} + lane / 2 * {{ pitch_bytes }} + {{ from }} + lane % 2 * 16);
                    WARP_BARRIER();
{% endmacro %}
{# stores 16 lines of 64 halves: eight work-items store a line, 16 bytes each, or at an edge of the tile the halves that exist #}
{% macro store_shifted() %}
                    const int columns = {{ "min(n - col0, %d)" % bn if C_EDGE else bn }};
#pragma unroll
                    for (int lines = 0; lines < 16; lines += 4) {
                        const int line = lines + lane / 8, i = {{ within }} * {{ 64 * TRR }} + r * 64 + {{ row_of("item / 32 % 4", "line") }};
                        __global ushort* to = (__global ushort*)(c_at + (long)i * ldc);
                        const int back = (int)((size_t)to >> 1 & 15), j = c + lane % 8 * 8 - back, skew = 32 - 2 * back & 15;
                        __local const uchar* from = halves + line * {{ halves }} + lane % 8 * 16 + (32 - 2 * back & 48);
{% if HALVES == 16 %}
                        const uint4 chunk = *(__local const uint4*)from;
{% else %}
                        const uint4 chunk = shifted(*(__local const uint4*)from, *(__local const uint4*)(from + 16), skew, {{ 4 if HALVES == 4 else 1 }});
{% endif %}
{% if C_EDGE %}
                        if (row0 + i >= m)
                            continue;
{% endif %}
                        if (j >= 0 && j + 8 <= columns)
                            *(__global uint4*)(to + j) = chunk;
{% if HALVES != 16 %}
                        else
#pragma unroll
                            for (int e = 0; e < 8; ++e)
                                if (j + e >= 0 && j + e < columns)
                                    to[j + e] = *(__local const ushort*)(from + skew + 2 * e);
{% endif %}
                    }
{% endmacro %}
        __global {{ real if SPLIT else stored_c }}* c_at = c_base + c_offset + (long){{ "col0 * ldc + row0" if TURN else "row0 * ldc + col0" }}{{ " + (long)get_group_id(1) * m * n" if SPLIT }}{{ problem_of_c }};
{% if HALVES and not TURN %}
        if (beta == 0) {  // 16-bit fragments pass through local memory without conversion, 64 columns at a time
#pragma unroll
            for (int r = 0; r < {{ TRR }}; ++r) {
{% for name, along in vectors if along == "rows" %}
                const int {{ name }}_at = row0 + {{ within }} * {{ 64 * TRR }} + r * 64 + {{ row_of("item / 32 % 4", "lane / 4") }};
                const float2 {{ name }}_rows = (float2)({{ vector_at(name, "min(%s_at, m - 1)" % name) }}, {{ vector_at(name, "min(%s_at + %d, m - 1)" % (name, 4 if fragments else 8)) }});
{% endfor %}
#pragma unroll
                for (int c = 0; c < {{ bn + 15 if behind else bn }}; c += 64) {
                    __local uchar* halves = (__local uchar*)exchange;
                    WARP_BARRIER();
{% if behind %}
{{ kept("halves", halves, 128) }}
{%- endif %}
#pragma unroll
                    for (int e = c / 2; e < c / 2 + 32; e += 8) {
{% if bn % 64 or behind %}
                        if (e >= {{ count }})
                            break;
{% endif %}
{% for part in (0, 1) %}
{{ ahead(part, "min(col0 + e / 4 * 8 + %d + lane %% 4 * 2, n - 2)" % (8 * part), 2) }}
{%- endfor %}
                        store_fragment(LOCAL_ADDRESS(halves) + {{ "32 + " if behind }}lane % 16 * {{ halves }} + ((e - c / 2) / 4 + lane / 16) * 16,
                                       {% for x in range(0, 8, 2) %}MATRIX_PAIR_{{ OUT }}({{ fragment(x) }}, {{ fragment(x + 1) }}){{ ", " if not loop.last }}{% endfor %});
                    }
                    WARP_BARRIER();
{% if not behind %}
#pragma unroll
                    for (int line = lane / 8; line < 16; line += 4) {
                        const int i = {{ within }} * {{ 64 * TRR }} + r * 64 + {{ row_of("item / 32 % 4", "line") }}, j = c + lane % 8 * 8;
                        if ({{ inside("i", "j", 64) }})
                            *(__global uint4*)(c_at + (long)i * ldc + j) = *(__local const uint4*)(halves + line * {{ halves }} + lane % 8 * 16);
                    }
{% else %}
{{ store_shifted() }}
{%- endif %}
                }
            }
            continue;
        }
{% endif %}
{% if MODULI and LINES and not SPLIT %}
{% set width = 128 if bn % 128 == 0 else 64 %}
{% set line_bytes = width + 16 %}
        // remainders pass through local memory as bytes, {{ width }} columns at a time
        __local char* bytes = (__local char*)exchange;
#pragma unroll
        for (int r = 0; r < {{ TRR }}; ++r)
#pragma unroll
            for (int c = 0; c < {{ bn }}; c += {{ width }}) {
                WARP_BARRIER();
#pragma unroll
                for (int e = 0; e < {{ width // 2 }}{{ " && c / 2 + e < %d" % count if bn % width }}; e += 2)
                    *(__local char2*)(bytes + (lane / 4 + e / 2 % 2 * 8) * {{ line_bytes }} + e / 4 * 8 + lane % 4 * 2) =
                        (char2)(reduced(sums[r][c / 2 + e], {{ number() }}), reduced(sums[r][c / 2 + e + 1], {{ number() }}));
                WARP_BARRIER();
#pragma unroll
                for (int line = lane / {{ width // 16 }}; line < 16; line += {{ 512 // width }}) {
                    const int i = {{ within }} * {{ 64 * TRR }} + r * 64 + item / 32 % 4 * 16 + line, j = c + lane % {{ width // 16 }} * 16;
                    if ({{ inside("i", "j", width) }})
                        *(__global uint4*)(c_at + (long)i * ldc + j) = *(__local const uint4*)(bytes + line * {{ line_bytes }} + lane % {{ width // 16 }} * 16);
                }
            }
{% else %}
{% set back = SHIFTED and not TURN and (SPLIT or stored_c in ("float", "int", "uint")) %}
#pragma unroll
        for (int r = 0; r < {{ TRR }}; ++r)
#pragma unroll
            for (int c = 0; c < {{ bn + 7 if back else bn }}; c += 32) {
{% if TURN %}
                // 64 columns and 32 rows of C of a warp group
                WARP_GROUP_BARRIER(warp_group);
#pragma unroll
                for (int e = 0; e < 16{{ " && c / 2 + e < %d" % count if bn % 32 }}; ++e)
                    exchange[(e / 4 * 8 + lane % 4 * 2 + e % 2) * {{ pitch }} + {{ row_of("(item / 32 % 4)", "(lane / 4 + e / 2 % 2 * 8)") }}] = sums[r][c / 2 + e];
                WARP_GROUP_BARRIER(warp_group);
#pragma unroll
                for (int place = item % 128 * {{ WIDE }}; place < 2048; place += {{ 128 * WIDE }}) {
                    const int i = c + place / 64, j = {{ within }} * {{ 64 * TRR }} + r * 64 + place % 64;
                    if ({{ inside("j", "i", 32) }}) {
                        __local const {{ real }}* from = exchange + place / 64 * {{ pitch }} + place % 64;
{% if ENDS %}
                        const int of_columns = row0, of_rows = col0;
                        { const int row0 = of_rows, col0 = of_columns;
{% endif %}
{% else %}
                WARP_BARRIER();
{% if back %}
{{ kept("(__local uchar*)exchange", pitch * 4, 128) }}
{%- endif %}
#pragma unroll
                for (int e = 0; e < 16{{ " && c / 2 + e < %d" % count if bn % 32 or back }}; e += 2)
                    *(__local {{ real }}2*)(exchange + {{ "8 + " if back }}(lane / 4 + e / 2 % 2 * 8) * {{ pitch }} + e / 4 * 8 + lane % 4 * 2) = ({{ real }}2)(sums[r][c / 2 + e], sums[r][c / 2 + e + 1]);
                WARP_BARRIER();
#pragma unroll
                for (int place = lane * {{ WIDE }}; place < 512; place += {{ 32 * WIDE }}) {
                    const int i = {{ within }} * {{ 64 * TRR }} + r * 64 + {{ row_of("item / 32 % 4", "place / 32") }};
{% if back %}
                    const int back = (int)((size_t)(c_at + (long)i * ldc) >> 2 & 7), j = c + place % 32 - back;
                    if (j >= 0 && j < {{ bn }} && {{ inside("i", "j", 1) }}) {
                        __local const {{ real }}* from = exchange + place / 32 * {{ pitch }} + 8 - back + place % 32;
{% else %}
                    const int j = c + place % 32;
                    if ({{ inside("i", "j", 32) }}) {
                        __local const {{ real }}* from = exchange + place / 32 * {{ pitch }} + place % 32;
{% endif %}
{% endif %}
                        __global {{ real if SPLIT else stored_c }}* to = c_at + (long)i * ldc + j;
{{ store() }}
{% if TURN and ENDS %}
                        }
{% endif %}
                    }
                }
            }
{% endif %}
