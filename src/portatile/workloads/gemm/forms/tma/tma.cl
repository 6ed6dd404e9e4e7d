{#
   A work-group has KG parts of TBR x TBC warps that multiply, and a warp that has the TMA copy tiles, STAGES of them ahead:

              bn = 16 TCR TBC columns
             +---------+---------+        local memory: STAGES times A's and B's tile of KB steps of k, in boxes with rows of 128 bytes: with
       bm =  | warp 0  | warp 1  |        k slow 16 elements across k, KB rows; with k fast 16 steps of k, and the rows of the whole tile
     16 TRR  +---------+---------+
       TBR   | warp 2  | warp 3  |        STAGES times:  copies --full--> products --free--> copies
             +---------+---------+        part p multiplies stages p, p + KG, ...

   Of the instruction 16 x 8 x 8, x is the operand that is its A (16 rows), y the other (8 columns). It needs x as pairs across k and y as
   pairs along k, in neighbouring registers. So x is B, and the lanes hold C's tile transposed, unless A has k slow and B has k fast. Lane
   4 g + t loads

        x  2 g, 2 g + 1 of every 16     k slow: 16 bytes for each of two steps;  k fast: 8 bytes for each of both
        y  Y(g) of every 8              k fast: 16 bytes for both steps, or, beside an x with k fast, 8 bytes each, as with k slow

   at the steps 2t, 2t + 1 of eight, or t, t + 4 if both have k fast. Y is chosen such that loads have no bank conflicts: the TMA swizzles
   the 16-byte chunks, so that chunk c of line l of a box lies at c ^ l % 8.
#}
// GEMM for float64 on Hopper: one warp keeps TMA copies STAGES tiles ahead; the others multiply by matrix instructions from local memory,
// each at its own pace, without barriers of the whole work-group.
//
// C = alpha op(A) op(B) + beta C, every operand row-major, rows aligned to 16 bytes. Work-group (x, y) computes tiles x, x + groups, ... in
// the order of RASTER, over `chunk` steps of k from start + y chunk on; with SPLIT it stores bare sums to plane y of `c`. With CLUSTER the
// work-groups that share a tile's k are neighbours along x.
{% set bm, bn = 16 * TRR * TBR, 16 * TCR * TBC %}
{% set team = 32 * TBR * TBC %}
{% set products = team * KG %}
{% set items = products + (32 if COPIER else 0) %}
{% set warps = TBR * TBC %}
{% set ring = STAGES // KG %}
{% set stage = KB * (bm + bn) %}
{% set x, y = ("b", "a") if FLIPPED else ("a", "b") %}
{% set along = {"a": A_ALONG, "b": B_ALONG} %}
{% set first_of = {"a": 0, "b": KB * bm} %}
{% set wide_of = {"a": bm, "b": bn} %}
{% set local_argument = ", tensor_map_t a_map, tensor_map_t b_map" ~ (", __local uchar* space" if LOCAL_ARGUMENT) %}
{% set rank = "(int)get_group_id(0) %% %d" % CLUSTER %}
{% set tile_group = "(int)get_group_id(0) / %d" % CLUSTER if CLUSTER > 1 else "(int)get_group_id(0)" %}
{% set vector = 16 // itemsize %}
{% set realv = real ~ vector %}
{% from "doubles.cl" import add_to_sums, declare, each_slot, lanes, load_and_multiply, load_first, number, slots, steps, store, sums with context %}
{% set k_group = "(int)get_group_id(1)" if CLUSTER == 1 else "((int)get_group_id(1) * %d + %s)" % (CLUSTER, rank) if JOIN else rank %}
{# the coordinates of tile number `at_tile` #}
{% macro tile_of() %}
{% if RASTER == 0 %}
        const int row0 = at_tile % down * {{ bm }}, col0 = at_tile / down * {{ bn }};
{% elif RASTER == 1 %}
        const int row0 = at_tile / across * {{ bm }}, col0 = at_tile % across * {{ bn }};
{% else %}
        const int band = at_tile / ({{ RASTER }} * across), within = at_tile - band * ({{ RASTER }} * across);
        const int height = min({{ RASTER }}, down - band * {{ RASTER }});
        const int row0 = (band * {{ RASTER }} + within % height) * {{ bm }}, col0 = within / height * {{ bn }};
{% endif %}
{% endmacro %}
{% macro copies(name, at, slot) %}
{% for box in range(KB // 16 if along[name] else wide_of[name] // 16) %}
                    tensor_copy_by(to + {{ first_of[name] * 8 + box * (wide_of[name] if along[name] else KB) * 128 }}, {{ name }}_at, {{ "(k_next + %d) * 2, %s" % (box * 16, at) if along[name] else "(%s + %d) * 2, k_next" % (at, box * 16) }}, full + {{ slot }} * 8);
{% endfor %}
{% endmacro %}
{# issues the copies of the stage from step k_next on, as soon as the stage's old content has been read #}
{% macro fill(slot, phase) %}
                    const uint to = first + {{ slot }} * {{ stage * itemsize }};
                    mbarrier_wait(empty + {{ slot }} * 8, {{ phase }});
                    mbarrier_expect(full + {{ slot }} * 8, {{ stage * itemsize }});
{{ copies("a", "row0", slot) }}{{ copies("b", "col0", slot) }}{% endmacro %}
{# issues the copies of this part's next stage; its warps do so in turn #}
{% macro fill_next() %}
                if (warp == filled % {{ warps }} && lane == 0) {
                    const int k_next = k0 + (part + filled * {{ KG }}) * {{ KB }};
{{ fill("fill_slot", "fill_phase") }}                }
                ++filled;
                fill_phase ^= fill_slot + {{ KG }} >= {{ STAGES }};
                fill_slot = fill_slot + {{ KG }} >= {{ STAGES }} ? fill_slot + {{ KG - STAGES }} : fill_slot + {{ KG }};
{% endmacro %}
{# leaves slot `slot` of the sums in `planes` #}
{% macro leave(slot, sum) %}
                    *(__global {{ realv }}*)(left + (int)get_group_id(1) * {{ bm * bn }} + ({{ slot }}) * {{ team * vector }}) = {{ sum }};
{% endmacro %}

#pragma OPENCL EXTENSION cl_khr_fp64 : enable
{% if JOIN %}
{% from "join.cl" import arrival %}
{{ arrival() }}
{%- endif %}
{% if CLUSTER > 1 %}
CLUSTER({{ CLUSTER }})
{% endif %}
MIN_GROUPS(1)
__kernel __attribute__((reqd_work_group_size({{ items }}, 1, 1)))
{% include "arguments.cl" %}
{
{% if not LOCAL_ARGUMENT %}
    __local uchar space[{{ local_bytes }}];
{% endif %}
    const int item = (int)get_local_id(0), lane = item % 32, g = lane / 4, t = lane % 4;
    // the TMA's swizzle depends on the address, so tiles begin at a multiple of 1024
    __local {{ real }}* tiles = (__local {{ real }}*)(space + (-LOCAL_ADDRESS(space) & 1023));
    const uint first = LOCAL_ADDRESS(tiles), full = first + {{ SPACE }}, empty = full + {{ STAGES * 8 }};
    const int across = (n - 1) / {{ bn }} + 1, down = (m - 1) / {{ bm }} + 1;
    const int k0 = start + {{ k_group }} * chunk;
    const int k1 = alpha == 0 ? k0 : min(k, k0 + chunk);  // alpha = 0 must not read A or B
    const int count = max(k1 - k0 + {{ KB - 1 }}, 0) / {{ KB }};
    const tensor_at_t a_at = TENSOR_AT(a_map, 0), b_at = TENSOR_AT(b_map, 1);
    const int tile0 = {{ tile_group }}, tiles_on = (int)get_num_groups(0) / {{ CLUSTER }};

    if (item == {{ items - 32 }}) {
        tensor_prefetch(a_at);
        tensor_prefetch(b_at);
        for (int s = 0; s < {{ STAGES }}; ++s) {
            mbarrier_init(full + s * 8, 1);
            mbarrier_init(empty + s * 8, {{ warps }});
        }
        mbarrier_init_done();
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    AFTER_PREVIOUS();
{% if COPIER %}
    if (item >= {{ products }}) {
        if (item == {{ products }}) {
            int slot = 0, phase = 1;
            for (int at_tile = tile0; at_tile < down * across; at_tile += tiles_on) {
{{ tile_of() }}
                for (int stage = 0; stage < count; ++stage) {
                    const int k_next = k0 + stage * {{ KB }};
{{ fill("slot", "phase") }}                    phase ^= slot == {{ STAGES - 1 }};
                    slot = slot == {{ STAGES - 1 }} ? 0 : slot + 1;
                }
            }
        }
        return;
    }
{% endif %}

    const int part = item / {{ team }}, warp = item % {{ team }} / 32;
    const int {{ "y_warp" if FLIPPED else "x_warp" }} = warp / {{ TBC }}, {{ "x_warp" if FLIPPED else "y_warp" }} = warp % {{ TBC }};
{{ lanes() }}    int slot = part, phase = 0;
    for (int at_tile = tile0; at_tile < down * across; at_tile += tiles_on) {
{{ tile_of() }}
{{ declare() }}        const int own = (count - part + {{ KG - 1 }}) / {{ KG }};
{% if not COPIER %}
        int filled = 0, fill_slot = part, fill_phase = 1;
        while (filled < min(own, {{ ring - 1 }})) {
{{ fill_next() }}        }
{% endif %}
        if (own > 0) {
            mbarrier_wait(full + slot * 8, phase);
            const uint x_at = x_lane + slot * {{ stage * itemsize }}, y_at = y_lane + slot * {{ stage * itemsize }};
{{ load_first() }}        }
#pragma unroll 1
        for (int turn = 0; turn < own; ++turn) {
            uint x_at = x_lane + slot * {{ stage * itemsize }}, y_at = y_lane + slot * {{ stage * itemsize }};
#pragma unroll
            for (int step = 0; step < {{ steps }}; ++step) {
                const int next = (step + 1) % {{ steps }};
                if (step == {{ steps - 1 }}) {  // the whole stage is in registers
{% if not COPIER %}
                    if (filled < own) {
{{ fill_next() }}                    }
{% endif %}
                    if (lane == 0)  // matrix instructions synchronise the lanes: all have read the stage
                        mbarrier_arrive(empty + slot * 8);
                    phase ^= slot + {{ KG }} >= {{ STAGES }};
                    slot = slot + {{ KG }} >= {{ STAGES }} ? slot + {{ KG - STAGES }} : slot + {{ KG }};
                    x_at = x_lane + slot * {{ stage * itemsize }};
                    y_at = y_lane + slot * {{ stage * itemsize }};
                    if (turn + 1 < own)
                        mbarrier_wait(full + slot * 8, phase);
                }
{{ load_and_multiply() }}            }
        }

{% if KG > 1 %}
{% include "parts.cl" %}
{% endif %}
{% if JOIN %}
        const int shared = (int)get_num_groups(1);
        __global {{ real }}* left = planes + (long)at_tile * shared * {{ bm * bn }} + item * {{ vector }};
{% endif %}
        __global {{ real }}* c_at = c_base + c_offset{{ " + (long)get_group_id(1) * m * n" if BARE }};
{% if CLUSTER > 1 %}
{% include "gathered.cl" %}
{% elif JOIN %}
{{ each_slot() }}{{ leave(number, sums) }}{% include "last.cl" %}
{% else %}
{{ each_slot() }}{{ store(number, sums) }}
{% endif %}
    }
}
