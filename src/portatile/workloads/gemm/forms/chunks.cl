{# Loads 16 bytes of an operand that begin anywhere: `asked` loads the two aligned chunks of 16 bytes around them, for all loads of a
   work-item, and `cut` then extracts the 16 bytes. `first` points to the operand's first byte; `end` is the offset of the operand's end,
   and `place` that of the 16 bytes, of which `left` are wanted (none if it is not positive); the others become zeros. Memory outside the
   operand is not read: if the operand begins or ends within the chunks, its elements are loaded one by one. #}
{% set element = {1: "uchar", 2: "ushort", 4: "uint"}[itemsize] %}
{# four words of {{ 4 // itemsize }} elements each, as one vector #}
{% macro joined(value) %}
(uint4)({% for w in range(4) %}{% for e in range(4 // itemsize) %}{{ value(w * (4 // itemsize) + e) }}{{ " << %d" % (8 * itemsize * e) if e }}{{ " | " if not loop.last }}{% endfor %}{{ ", " if not loop.last }}{% endfor %})
{%- endmacro %}
{% macro asked(low, high, first, place, end, left) %}
            {
                const long place = {{ place }}, end = {{ end }};
                const int left = {{ left }}, skew = (int)((size_t)({{ first }} + place) & 15);
                __global const uint4* from = (__global const uint4*)({{ first }} + (place - skew));
                {{ low }} = (uint4)(0);
                {{ high }} = (uint4)(0);
                if (left > 0 && place >= skew && place - skew + 16 <= end)
                    {{ low }} = from[0];
                if (left > 0 && skew + left > 16 && place - skew + 32 <= end)
                    {{ high }} = from[1];
            }
{% endmacro %}
{% macro one(e) %}({{ e * itemsize }} < left ? (uint)from[{{ e }}] : 0){% endmacro %}
{% macro cut(chunk, low, high, first, place, end, left) %}
            {
                const long place = {{ place }}, end = {{ end }};
                const int left = {{ left }}, skew = (int)((size_t)({{ first }} + place) & 15);
                {{ chunk }} = shifted({{ low }}, {{ high }}, skew, {{ 4 if itemsize == 4 else 1 }});
                if (left > 0 && (place < skew || place - skew + (skew + left > 16 ? 32 : 16) > end)) {
                    __global const {{ element }}* from = (__global const {{ element }}*)({{ first }} + place);
                    {{ chunk }} = {{ joined(one) }};
                }
{% for x in "xyzw" %}
                {{ chunk }}.{{ x }} &= left >= {{ 4 * loop.index }} ? 0xffffffff : left <= {{ 4 * loop.index0 }} ? 0 : (1u << 8 * (left - {{ 4 * loop.index0 }})) - 1;
{% endfor %}
            }
{% endmacro %}
