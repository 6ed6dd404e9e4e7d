{# How gpu.cl fills a tile in local memory. A tile has KB rows of neighbours across k, or, where noted, rows of KB neighbours along k:

     panel       copied from panels of pack.cl, which are as wide as the tile and have zeros where the operand ends
     vectors     k slow, copied 16 bytes at a time
     elements    k slow, copied element by element, for storage that is not aligned
     pairs       k slow, copied two elements at a time, for storage that is aligned to two
     shifted     k slow, rows begin anywhere: the aligned 16-byte vectors that contain a row are copied, so that row kk begins kk SHIFT
     elements
                 into its first vector, modulo the vector's length
     columns     k fast, copied element by element, transposed on the way
     complexes   the same for complex elements, whose real and imaginary part become neighbours across k; for matrix instructions the rows
                 run along k
     mirrored    one triangle of a symmetric matrix: each element is copied from its place or from its mirror image; complex elements stay
                 together
     transposed  k fast, loaded to registers 16 bytes at a time, and transposed on the way to local memory after a stage's multiply-adds
     lines       k fast, and rows of the tile run along k, copied 16 bytes at a time
     dots        the same, copied element by element
     dot_pairs   the same, copied two elements at a time

   With HELD, elements and pairs go through registers, too: they are loaded where the other copies start, and stored after a stage's
   multiply-adds. An asynchronous copy of 4 bytes for each work-item takes a multiprocessor as long as one of 16.

   Where stores or loads would cause bank conflicts, blocks within a row are swizzled (exchanged), but never parts of a 32-byte memory
   transaction: 32 bytes that are torn apart, or cross such a border, are copied at half the speed.
   In all macros `x` names the operand, `wide` is the width of its tile, `pitch` the row pitch in local memory, `ld` the row stride in
   memory; `first` and `end` are its range across k. With `edge` the tile extends past that range: the operand's last elements are copied
   there, and nothing computed from them is stored. With K_EDGE the last tile extends past k: copies from there bring zeros. #}
{% macro copy(bytes, to, from, condition) %}COPY_ASYNC_{{ bytes }}{{ "_IF" if condition }}({{ to }}, {{ from }}{{ ", " ~ condition if condition }}){% endmacro %}
{% macro width(source) %}{{ vector if source in ("panel", "vectors", "shifted", "lines", "transposed") else 2 if source in ("pairs", "dot_pairs", "complexes") else 1 }}{% endmacro %}
{% macro along(source) %}{{ "1" if source in ("columns", "complexes", "transposed") or source in lines }}{% endmacro %}
{% macro held(source) %}{{ "1" if source == "transposed" or (HELD and source in ("elements", "pairs")) }}{% endmacro %}
{# swizzles stay within what neighbouring work-items read together, because their other operands lie at the same distances again #}
{% set together = [128 // itemsize, jump_of["a"], jump_of["b"]] | min %}
{# the swizzle of the rows of a transposed tile that hold vector number `piece` along k, ... #}
{% macro turn(piece) %}({{ piece }} * {{ [vector, together // (KB // vector)] | max }} & {{ together - 1 }}){% endmacro %}
{# ... of row `kk` of a tile for matrix instructions, ... #}
{% macro skew(kk) %}{{ "((%s) & 3) * 4" % kk if spread else "((%s) & 6) * 2" % kk }}{% endmacro %}
{# ... and of line `i` of a tile with rows along k #}
{% macro shift(i) %}{{ "((%s) & 2) * 4" % i if MMA else "((%s) & %d)" % (i, ([KB, together] | min // vector - 1) * vector) }}{% endmacro %}
{# How far into its first vector row `kk` of a shifted tile begins; tiles start at a multiple of a vector's steps of k. These rows are a
   vector longer than the tile, so that pairs for matrix instructions lie in different banks without a swizzle. #}
{% macro begins(x, kk) %}(({{ kk }}) * {{ shift_of[x] }} & {{ vector - 1 }}){% endmacro %}
{# the place of element `i` across k, step `kk`, in the tile #}
{% macro spot(source, pitch, kk, i, x="") %}
{{ "(%s) * %d + (%s ^ %s)" % (i, KB, kk, shift(i)) if source in lines
   else "((%s) & -2) * %d + ((%s) * 2 ^ ((%s) & 2) * 4) + ((%s) & 1)" % (i, KB, kk, i, i) if source in complex_lines
   else "(%s) * %s + %s + %s" % (kk, pitch, i, begins(x, kk)) if source == "shifted"
   else "(%s) * %s + (%s ^ %s)" % (kk, pitch, i, skew(kk)) if MMA
   else "(%s) * %s + (%s ^ %s)" % (kk, pitch, i, turn("%s / %d" % (kk, vector))) if source == "transposed"
   else "(%s) * %s + %s" % (kk, pitch, i) }}
{%- endmacro %}
{# steps of k, and elements across k, that one copy brings #}
{% macro deep(source) %}{{ width(source) if along(source) and source != "complexes" else 1 }}{% endmacro %}
{% macro broad(source) %}{{ 2 if source == "complexes" else 1 if along(source) else width(source) }}{% endmacro %}
{# the number of copies for a row of the tile, or along its k if that is contiguous #}
{% macro per(source, wide) %}{{ KB // (deep(source) | int) if along(source) else wide // (width(source) | int) }}{% endmacro %}
{# whether every work-item copies at the same place of several rows #}
{% macro even(source, wide) %}
{% set per = per(source, wide) | int %}
{{- "1" if items % per == 0 and KB * wide // (width(source) | int) % items == 0 -}}
{% endmacro %}
{# the place in the tile and in the operand of a work-item's first copy #}
{% macro place(x, source, wide, pitch, edge, ld, first, end) %}
{% if source == "mirrored" %}
    __global const {{ real }}* {{ x }}_at = {{ x }}_base + {{ x }}_offset;
{% elif source == "shifted" %}
    __global const {{ real }}* {{ x }}_at = {{ x }}_base + {{ x }}_offset + (long)k0 * {{ ld }} + {{ first }};
{% if even(source, wide) %}
    const int {{ x }}_k = item / {{ wide // vector }}, {{ x }}_i = item % {{ wide // vector }} * {{ vector }};
{% endif %}
{% else %}
{% set width = width(source) | int %}
{% set per = per(source, wide) | int %}
{% set clamp = edge and even(source, wide) %}
{% if along(source) %}
{% set broad = broad(source) | int %}
    const int {{ x }}_k = item % {{ per }} * {{ deep(source) }}, {{ x }}_i = item / {{ per }}{{ " * %d" % broad if broad > 1 }};
    const int {{ x }}_first = {{ "min(%s + %s_i, %s - %d)" % (first, x, end, broad) if clamp else "%s + %s_i" % (first, x) }};
{% if clamp %}
    const int {{ x }}_last = ({{ end }} - 1 - {{ x }}_first) / {{ items // per * broad }};
{% endif %}
    __global const {{ real }}* {{ x }}_at = {{ x }}_base + {{ x }}_offset + (long){{ "(%s_first / 2)" % x if broad > 1 else x ~ "_first" }} * {{ ld }} + {{ "2 * (k0 + %s_k)" % x if broad > 1 else "k0 + %s_k" % x }};
{% else %}
    const int {{ x }}_k = item / {{ per }}, {{ x }}_i = item % {{ per }} * {{ width }};
{% if source == "panel" %}
    __global const {{ real }}* {{ x }}_at = {{ x }}_base + {{ x }}_offset + (long){{ first }} * ((k + {{ KB - 1 }}) / {{ KB }} * {{ KB }}) + (long)k0 * {{ wide }} + item * {{ vector }};
{% else %}
    __global const {{ real }}* {{ x }}_at = {{ x }}_base + {{ x }}_offset + (long)(k0 + {{ x }}_k) * {{ ld }} + {{ "min(%s + %s_i, %s - %d)" % (first, x, end, width) if clamp else "%s + %s_i" % (first, x) }};
{% endif %}
{% endif %}
{% if source == "transposed" %}
    {{ real }}{{ vector }} {{ x }}_held[{{ (KB * wide // vector + items - 1) // items }}];
{% endif %}
{% if source != "transposed" and held(source) %}
    {{ real if width == 1 else real ~ width }} {{ x }}_held[{{ (KB * wide // width + items - 1) // items }}];
{% if noted(wide, width) %}
#ifdef PORTATILE_OPENCL
    uint {{ x }}_there = 0;  // bit s: whether element s is inside the operand, not a zero
#endif
{% endif %}
{% endif %}
{% if source != "transposed" and not MMA and source not in lines %}
    const int {{ x }}_spot = {{ spot(source, pitch, x ~ "_k", x ~ "_i") }};
{% endif %}
{% endif %}
{% endmacro %}
{# the copy of the aligned vector that contains element `i` of row `kk` of a shifted tile #}
{% macro copy_shifted(x, pitch, ld, first, end, kk, i) %}
                    const int from = {{ i }} - {{ begins(x, kk) }};
                    {{ copy(16, "%s_to + (%s) * %s + %s" % (x, kk, pitch, i), "%s_at + (long)(%s) * %s + from" % (x, kk, ld), "%s + from < %s && k_next + %s < k1" % (first, end, kk)) }};
{%- endmacro %}
{# the copies of a shifted tile: for each row one vector more than its elements fill #}
{% macro copies_shifted(x, wide, pitch, ld, first, end) %}
{% set per = wide // vector %}
{% if even("shifted", wide) %}
#pragma unroll
            for (int s = 0; s < {{ KB * per // items }}; ++s) {
                const int kk = {{ x }}_k + s * {{ items // per }};
{{ copy_shifted(x, pitch, ld, first, end, "kk", x ~ "_i") }}
            }
{% for later in range(0, KB, items) %}
            if (item < {{ KB - later }}) {
                const int kk = item + {{ later }};
{{ copy_shifted(x, pitch, ld, first, end, "kk", wide) }}
            }
{% endfor %}
{% else %}
{% set slots = KB * (per + 1) %}
#pragma unroll
            for (int s = 0; s < {{ (slots + items - 1) // items }}; ++s) {
                const int slot = item + s * {{ items }}, kk = slot / {{ per + 1 }}, i = slot % {{ per + 1 }} * {{ vector }};
                if (slot < {{ slots }}) {
{{ copy_shifted(x, pitch, ld, first, end, "kk", "i") }}
                }
            }
{% endif %}
{% endmacro %}
{# The copies of a mirrored tile. If the whole tile lies on the side that is stored in the tile's order, it is copied 16 bytes at a time.
   Otherwise a warp copies 8 steps of k of 4 rows, so that it reads few cache lines on either side. With matrix instructions that loop is
   unrolled by two only: all addresses together would take up to 60 registers, which another work-group needs. #}
{% macro copies_mirrored(x, wide, pitch, edge, ld, first, end) %}
{% set first_c, past_c = ("(%s) / 2" % first, "(%s + %d) / 2" % (first, wide)) if COMPLEX else (first, "%s + %d" % (first, wide)) %}
{% if MIRRORED_WHOLE %}
{% set slots, per = KB * wide // vector, wide // vector %}
            if ({{ "k_next + 1 >= %s" % past_c if MIRRORED == "above" else "%s + 1 >= k_next + %d" % (first_c, KB) }}) {
#pragma unroll
                for (int s = 0; s < {{ (slots + items - 1) // items }}; ++s) {
                    const int slot = item + s * {{ items }}, kk = slot / {{ per }}, i = slot % {{ per }} * {{ vector }};
{% if slots % items %}
                    if (slot < {{ slots }})
{% endif %}
                        {{ copy(16, "%s_to + %s" % (x, spot("mirrored", pitch, "kk", "i")), "%s_at + (long)(k_next + kk) * %s + %s + i" % (x, ld, first), "%s + i < %s && k_next + kk < k1" % (first, end) if edge or K_EDGE else "") }};
                }
            } else
{% endif %}
{% set slots = KB * wide // parts_c %}
#pragma unroll{{ " 2" if MMA }}
            for (int s = 0; s < {{ (slots + items - 1) // items }}; ++s) {
                const int slot = item + s * {{ items }}, kk = slot / 32 % {{ KB // 8 }} * 8 + slot % 8, i = (slot / {{ 4 * KB }} * 4 + slot / 8 % 4) * {{ parts_c }};
                const int across = {{ first_c }} + i{{ " / 2" if COMPLEX }}, along = k_next + kk;
                const int row = {{ "max" if MIRRORED == "above" else "min" }}(across, along), column = {{ "min" if MIRRORED == "above" else "max" }}(across, along);
{% if slots % items %}
                if (slot < {{ slots }})
{% endif %}
                    {{ copy(itemsize * parts_c, "%s_to + %s" % (x, spot("mirrored", pitch, "kk", "i")), "%s_at + (long)row * %s + column%s" % (x, ld, " * 2" if COMPLEX else ""), "%s + i < %s && along < k1" % (first, end) if edge or K_EDGE else "") }};
            }
{% endmacro %}
{# the slot `s` of a work-item's copies along a row of k, clamped to the operand #}
{% macro inside(x, edge) %}{{ "min(s, %s_last)" % x if edge else "s" }}{% endmacro %}
{# Elements outside the operand are zeros that go through registers. OpenCL's compiler turns a conditional load into a branch, and so waits
   for each element. There all elements are loaded, from an address that may be read, and a bit for each notes which of them become
   zeros. #}
{% macro noted(wide, width) %}{{ "1" if KB * wide // width <= 32 * items }}{% endmacro %}
{# what happens to one or several elements of a tile: an asynchronous copy, a load to registers, or the store of what was loaded #}
{% macro move(what, x, wide, width, to, from, condition) %}
{% set type = real if width == 1 else real ~ width %}
{% set bits = condition and noted(wide, width) %}
{% if what == "copy" %}
{{ copy(width * itemsize, to, from, condition) }}
{%- elif bits %}

#ifdef PORTATILE_OPENCL
{% if what == "load" %}
                {
                    const int there = {{ condition }};
                    {{ x }}_held[s] = *(__global const {{ type }}*)(there ? {{ from }} : {{ x }}_base + {{ x }}_offset);
                    {{ x }}_there = ({{ x }}_there & ~(1u << s)) | (uint)(there != 0) << s;
                }
{% else %}
                *(__local {{ type }}*)({{ to }}) = {{ x }}_there >> s & 1 ? {{ x }}_held[s] : ({{ type }})(0);
{% endif %}
#else
{% if what == "load" %}
                {{ x }}_held[s] = {{ condition }} ? *(__global const {{ type }}*)({{ from }}) : ({{ type }})(0);
{% else %}
                *(__local {{ type }}*)({{ to }}) = {{ x }}_held[s];
{% endif %}
#endif
{% elif what == "load" %}
{{ x }}_held[s] = {{ condition ~ " ? " if condition }}*(__global const {{ type }}*)({{ from }}){{ " : (%s)(0)" % type if condition }}
{%- else %}
*(__local {{ type }}*)({{ to }}) = {{ x }}_held[s]
{%- endif %}
{% endmacro %}
{# the copies of one tile, or their loads or stores, as `what` says #}
{% macro copies(x, source, wide, pitch, edge, ld, first, end, what="copy") %}
{% set width = width(source) | int %}
{% set broad = broad(source) | int %}
{% set slots = KB * wide // width %}
{% set per = per(source, wide) | int %}
{% set jump = items // per %}
{% set ends = K_EDGE and source != "panel" %}
#pragma unroll
            for (int s = 0; s < {{ (slots + items - 1) // items }}; ++s) {
{% if even(source, wide) %}
{% set to = spot(source, pitch, x ~ "_k", "%s_i + s * %d" % (x, jump * broad)) if source in lines or (MMA and source == "complexes")
       else spot(source, pitch, "%s_k + s * %d" % (x, jump), x ~ "_i") if MMA
       else "%s_spot + s * %d" % (x, jump * (1 if source == "columns" else 2 if source == "complexes" else pitch)) %}
{% set from = "%s_at + s * %d" % (x, items * width) if source == "panel"
         else "%s_at + (long)%s * (%s * %d)" % (x, inside(x, edge) if along(source) else "s", ld, jump) %}
{% set within = "k_next + %s_k%s < k1" % (x, "" if along(source) else " + s * %d" % jump) %}
                {{ move(what, x, wide, width, x ~ "_to + " ~ to, from, within if ends else "") }};
{% else %}
                const int slot = item + s * {{ items }};
{% if along(source) %}
                const int kk = slot % {{ per }} * {{ deep(source) }}, i = slot / {{ per }}{{ " * %d" % broad if broad > 1 }};
                __global const {{ real }}* from = {{ x }}_at + (long){{ "((i - %s_i) / 2)" % x if broad > 1 else "(i - %s_i)" % x }} * {{ ld }} + {{ "2 * " if broad > 1 }}(kk - {{ x }}_k);
{% else %}
                const int kk = slot / {{ per }}, i = slot % {{ per }} * {{ width }};
                __global const {{ real }}* from = {{ x }}_at + {{ "s * %d" % (items * width) if source == "panel" else "(long)(kk - %s_k) * %s + (i - %s_i)" % (x, ld, x) }};
{% endif %}
                if (slot < {{ slots }})
                    {{ move(what, x, wide, width, x ~ "_to + " ~ spot(source, pitch, "kk", "i"), "from", "%s + i < %s && k_next + kk < k1" % (first, end) if edge or ends else "") }};
{% endif %}
            }
{% endmacro %}
{# a transposed tile through registers: `loads` starts it, `settle` ends it; here k and the row stride are multiples of a vector #}
{% macro loads(x, wide, edge, ld, first, end) %}
{% set per = KB // vector %}
{% set slots = wide * per %}
{% set vectors = "(__global const %s%d*)" % (real, vector) %}
#pragma unroll
            for (int s = 0; s < {{ (slots + items - 1) // items }}; ++s) {
{% if even("transposed", wide) %}
{% set from = "*%s(%s_at + (long)%s * (%s * %d))" % (vectors, x, inside(x, edge), ld, items // per) %}
                {{ x }}_held[s] = {{ "k_next + %s_k < k1 ? %s : (%s%d)(0)" % (x, from, real, vector) if K_EDGE else from }};
{% else %}
                const int slot = item + s * {{ items }}, kk = slot % {{ per }} * {{ vector }}, i = slot / {{ per }};
                {{ x }}_held[s] = ({{ real }}{{ vector }})(0);
                if (slot < {{ slots }}{{ " && %s + i < %s && k_next + kk < k1" % (first, end) if edge or K_EDGE }})
                    {{ x }}_held[s] = *{{ vectors }}({{ x }}_at + (long)(i - {{ x }}_i) * {{ ld }} + (kk - {{ x }}_k));
{% endif %}
            }
{% endmacro %}
{% macro settle(x, source, wide, pitch, edge, ld, first, end) %}
{% if source != "transposed" and held(source) %}
{{ copies(x, source, wide, pitch, edge, ld, first, end, "store") }}
{%- elif source == "transposed" %}
{% set per = KB // vector %}
{% set slots = wide * per %}
#pragma unroll
            for (int s = 0; s < {{ (slots + items - 1) // items }}; ++s) {
                const int slot = item + s * {{ items }}, piece = slot % {{ per }}, i = slot / {{ per }} ^ {{ turn("piece") }};
{% if slots % items %}
                if (slot < {{ slots }})
{% endif %}
                {
{% for e in range(vector) %}
                    {{ x }}_to[(piece * {{ vector }} + {{ e }}) * {{ pitch }} + i] = {{ x }}_held[s].s{{ e }};
{% endfor %}
                }
            }
{% endif %}
{% endmacro %}
{% macro fetch(x, source, wide, pitch, edge, ld, first, end) %}
{{ loads(x, wide, edge, ld, first, end) if source == "transposed" else copies_mirrored(x, wide, pitch, edge, ld, first, end) if source == "mirrored" else copies_shifted(x, wide, pitch, ld, first, end) if source == "shifted" else copies(x, source, wide, pitch, edge, ld, first, end, "load" if held(source) else "copy") }}
{%- endmacro %}
{# the distance from one stage to the next in the operand #}
{% macro stride(source, wide, ld) %}{{ 0 if source == "mirrored" else wide * KB if source == "panel" else KB * (2 if source == "complexes" else 1) if along(source) else "(long)%s * %d" % (ld, KB) }}{% endmacro %}
