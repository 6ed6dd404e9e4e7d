{#
   A group of KG parts of TBR x TBC warps that multiply, and a warp that has the copy engine bring tiles, STAGES of them ahead:

              bn = 16 TCR TBC columns
             +---------+---------+        local memory: STAGES times A's tile and B's tile of KB steps of k, in boxes of 128 bytes: with k slow
       bm =  | warp 0  | warp 1  |        16 across, of each KB rows; with k fast 16 along k, of each the rows of the whole tile
     16 TRR  +---------+---------+
       TBR   | warp 2  | warp 3  |        STAGES times:  copies --full--> products --free--> copies
             +---------+---------+        part p multiplies stages p, p + KG, ...

   Of the instruction 16 x 8 x 8, x is the operand that comes as its A, 16 at a time, y the other, 8 at a time. It wants x as pairs across k
   and y as pairs along it, in neighbouring registers. So x is B, and C's tile comes transposed between the lanes, unless A has k slow and B
   has it fast. Lane 4 g + t brings

        x  2 g, 2 g + 1 of every 16     k slow: 16 bytes for each of two steps;  k fast: 8 bytes for each of both
        y  Y(g) of every 8              k fast: 16 bytes for both steps, or, beside an x with k fast, 8 bytes each, as with k slow

   at the steps 2t, 2t + 1 of eight, or t, t + 4 where both have k fast. Y is such that the lanes of a load meet all banks of local memory:
   the copy engine exchanges the 16-byte chunks c of line l of a box for c ^ l % 8.
#}
// GEMM for float64 on Hopper: a warp keeps the copy engine busy STAGES tiles ahead, the others multiply by matrix instructions from local
// memory, at their own pace: nobody waits for a barrier of the whole group.
//
// C = alpha op(A) op(B) + beta C, every operand row-major, rows aligned to 16 bytes. Group (x, y) owns tiles x, x + groups, ... in the
// order of RASTER and k from start + y chunk on, `chunk` steps; with SPLIT bare sums go to plane y of `c`. With CLUSTER the groups that
// share a tile's k are neighbours along x.
{% set bm, bn = 16 * TRR * TBR, 16 * TCR * TBC %}
{% set team = 32 * TBR * TBC %}
{% set products = team * KG %}
{% set items = products + (32 if COPIER else 0) %}
{% set warps = TBR * TBC %}
{% set ring = STAGES // KG %}
{% set stage = KB * (bm + bn) %}
{% set steps = KB // 8 %}
{% set x, y = ("b", "a") if FLIPPED else ("a", "b") %}
{% set along = {"a": A_ALONG, "b": B_ALONG} %}
{% set first_of = {"a": 0, "b": KB * bm} %}
{% set wide_of = {"a": bm, "b": bn} %}
{% set xs, ys = (TCR, 2 * TRR) if FLIPPED else (TRR, 2 * TCR) %}
{% set apart = 4 if along[x] else 1 %}
{% set slots = xs * ys * 2 %}
{% set local_argument = ", tensor_map_t a_map, tensor_map_t b_map" ~ (", __local uchar* space" if LOCAL_ARGUMENT) %}
{% set rank = "(int)get_group_id(0) %% %d" % CLUSTER %}
{% set tile_group = "(int)get_group_id(0) / %d" % CLUSTER if CLUSTER > 1 else "(int)get_group_id(0)" %}
{% set k_group = "(int)get_group_id(1)" if CLUSTER == 1 else "((int)get_group_id(1) * %d + %s)" % (CLUSTER, rank) if JOIN else rank %}
{# the place of y's q-th of eight #}
{% macro y_place(q) %}
{{ q if not along[y] else "((%s) %% 4 * 2 + (%s) / 4)" % (q, q) if apart == 4 else "((%s) %% 2 * 4 + (%s) / 2)" % (q, q) }}
{%- endmacro %}
{# the bytes from a stage on where a lane finds its first element of x, and of y. Others of the same lane lie a multiple of 128 bytes on, with
   bits 4 to 6 of the address exchanged, which say the chunk in a line #}
{% macro lane_of(name, per) %}
{% set blocks, warp = (xs, "x_warp") if name == x else (ys, "y_warp") %}
{{ first_of[name] * 8 }} + {{ warp }} * {{ blocks * per * 128 if along[name] else blocks * per // 16 * KB * 128 }} + {{ "%s * 128 + ((%s ^ %s %% 8) * 16)" % ("g * 2" if name == x else y_place("g"), "t" if apart == 1 else "t / 2", "g * 2" if name == x else y_place("g")) if along[name]
   else "t * 256 + ((%s ^ t * 2) * 16)" % ("g" if name == x else "g / 2") }}{{ " + t % 2 * 8" if along[name] and apart == 4 }}{{ " + g % 2 * 8" if name == y and not along[name] }}
{%- endmacro %}
{% macro load_one(to, at) %}
asm volatile("ld.shared.f64 %0, [%1];" : "=d"({{ to }}) : "r"({{ at }}));
{%- endmacro %}
{% macro load_two(to, then, at) %}
asm volatile("ld.shared.v2.f64 {% raw %}{%0, %1}{% endraw %}, [%2];" : "=d"({{ to }}), "=d"({{ then }}) : "r"({{ at }}));
{%- endmacro %}
{# both steps of block r of x #}
{% macro load_x(set, r, step) %}
{% if along[x] %}
{% for part in range(4) %}
                    {{ load_one("x[%s][%s * 4 + %d]" % (set, r, part), "(x_at ^ (%s %% 2 * 64 + %d)) + %d + %s * 2048 + %s / 2 * %d" % (step, part // 2 * 32 + part % 2 * 16, part % 2 * 128, r, step, wide_of[x] * 128)) }}
{% endfor %}
{% else %}
{% for part in range(2) %}
                    {{ load_two("x[%s][%s * 4 + %d]" % (set, r, part * 2), "x[%s][%s * 4 + %d]" % (set, r, part * 2 + 1), "(x_at ^ %d) + %d + %s * %d + %s * 1024" % (part * 16, part * 128, r, KB * 128, step)) }}
{% endfor %}
{% endif %}
{% endmacro %}
{% macro load_all_x(set, step) %}
#pragma unroll
                for (int r = 0; r < {{ xs }}; ++r) {
{{ load_x(set, "r", step) }}                }
{% endmacro %}
{% macro load_y(set, step) %}
#pragma unroll
                for (int j = 0; j < {{ ys }}; ++j) {
{% if along[y] and apart == 1 %}
                    {{ load_two("y[%s][j * 2]" % set, "y[%s][j * 2 + 1]" % set, "(y_at ^ (%s %% 2 * 64)) + j * 1024 + %s / 2 * %d" % (step, step, wide_of[y] * 128)) }}
{% elif along[y] %}
{% for part in range(2) %}
                    {{ load_one("y[%s][j * 2 + %d]" % (set, part), "(y_at ^ (%s %% 2 * 64 + %d)) + j * 1024 + %s / 2 * %d" % (step, part * 32, step, wide_of[y] * 128)) }}
{% endfor %}
{% else %}
{% for part in range(2) %}
                    {{ load_one("y[%s][j * 2 + %d]" % (set, part), "(y_at ^ (j %% 2 * 64 + %d)) + %d + j / 2 * %d + %s * 1024" % (part * 16, part * 128, KB * 128, step)) }}
{% endfor %}
{% endif %}
                }
{% endmacro %}
{# tile number `at_tile` #}
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
{# the work-item that has a stage from step k_next on copied, when nobody reads the one before it any more #}
{% macro fill(slot, phase) %}
                    const uint to = first + {{ slot }} * {{ stage * 8 }};
                    mbarrier_wait(empty + {{ slot }} * 8, {{ phase }});
                    mbarrier_expect(full + {{ slot }} * 8, {{ stage * 8 }});
{{ copies("a", "row0", slot) }}{{ copies("b", "col0", slot) }}{% endmacro %}
{# the next stage of this part, by its warps in turn #}
{% macro fill_next() %}
                if (warp == filled % {{ warps }} && lane == 0) {
                    const int k_next = k0 + (part + filled * {{ KG }}) * {{ KB }};
{{ fill("fill_slot", "fill_phase") }}                }
                ++filled;
                fill_phase ^= fill_slot + {{ KG }} >= {{ STAGES }};
                fill_slot = fill_slot + {{ KG }} >= {{ STAGES }} ? fill_slot + {{ KG - STAGES }} : fill_slot + {{ KG }};
{% endmacro %}
{# the sums number `slot` of a work-item, `sum`, which are neighbours of x: to C, or to this group's plane #}
{% macro store(r, j, h, sum) %}
{% set of_x, of_y = "(x_warp * %d + (%s)) * 16 + g * 2" % (xs, r), "(y_warp * %d + (%s)) * 8 + %s" % (ys, j, y_place("t * 2 + (%s)" % h)) %}
            {
                const int i = row0 + {{ of_y if FLIPPED else of_x }}, j_at = col0 + {{ of_x if FLIPPED else of_y }};
                const double2 pair = {{ sum }};
{% if FLIPPED and C_VECTORS %}
                if ({{ "i < m && j_at < n" if C_EDGE else "1" }}) {
                    __global double2* to = (__global double2*)(c_at + (long)i * ldc + j_at);
{% if BARE %}
                    *to = pair;
{% else %}
                    if (beta == 0)
                        *to = alpha * pair;
                    else
                        *to = alpha * pair + beta * *to;
{% endif %}
                }
{% else %}
{% for e in range(2) %}
{% set down, right = (0, e) if FLIPPED else (e, 0) %}
                if ({{ "i + %d < m && j_at + %d < n" % (down, right) if C_EDGE else "1" }}) {
                    __global double* to = c_at + (long)(i + {{ down }}) * ldc + j_at + {{ right }};
{% if BARE %}
                    *to = pair.s{{ e }};
{% else %}
                    if (beta == 0)
                        *to = alpha * pair.s{{ e }};
                    else
                        *to = alpha * pair.s{{ e }} + beta * *to;
{% endif %}
                }
{% endfor %}
{% endif %}
            }
{% endmacro %}
{# the sums number `slot` to where groups leave what they share #}
{% macro leave(slot, sum) %}
                    *(__global double2*)(left + (int)get_group_id(1) * {{ bm * bn }} + ({{ slot }}) * {{ team * 2 }}) = {{ sum }};
{% endmacro %}
{% macro each_slot() %}
#pragma unroll
        for (int r = 0; r < {{ xs }}; ++r)
#pragma unroll
            for (int j = 0; j < {{ ys }}; ++j)
#pragma unroll
                for (int h = 0; h < 2; ++h)
{% endmacro %}
{% set number = "(r * %d + j) * 2 + h" % ys %}
{% set sums = "(double2)(acc[r][j][h], acc[r][j][h + 2])" %}

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
    // the copy engine and the products exchange chunks by the address, so tiles begin at a multiple of 1024
    __local double* tiles = (__local double*)(space + (-LOCAL_ADDRESS(space) & 1023));
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
    const uint x_lane = first + {{ lane_of(x, 16) }}, y_lane = first + {{ lane_of(y, 8) }};
    int slot = part, phase = 0;
    for (int at_tile = tile0; at_tile < down * across; at_tile += tiles_on) {
{{ tile_of() }}
        double acc[{{ xs }}][{{ ys }}][4];
        double x[{{ 2 if DOUBLE == 2 else 1 }}][{{ xs * 4 }}], y[2][{{ ys * 2 }}];
#pragma unroll
        for (int r = 0; r < {{ xs }}; ++r)
#pragma unroll
            for (int j = 0; j < {{ ys }}; ++j)
#pragma unroll
                for (int e = 0; e < 4; ++e)
                    acc[r][j][e] = 0;
        const int own = (count - part + {{ KG - 1 }}) / {{ KG }};
{% if not COPIER %}
        int filled = 0, fill_slot = part, fill_phase = 1;
        while (filled < min(own, {{ ring - 1 }})) {
{{ fill_next() }}        }
{% endif %}
        if (own > 0) {
            mbarrier_wait(full + slot * 8, phase);
            const uint x_at = x_lane + slot * {{ stage * 8 }}, y_at = y_lane + slot * {{ stage * 8 }};
{{ load_all_x("0", "0") }}{{ load_y("0", "0") }}        }
#pragma unroll 1
        for (int turn = 0; turn < own; ++turn) {
            uint x_at = x_lane + slot * {{ stage * 8 }}, y_at = y_lane + slot * {{ stage * 8 }};
#pragma unroll
            for (int step = 0; step < {{ steps }}; ++step) {
                const int next = (step + 1) % {{ steps }};
                if (step == {{ steps - 1 }}) {  // all of this stage is in registers
{% if not COPIER %}
                    if (filled < own) {
{{ fill_next() }}                    }
{% endif %}
                    if (lane == 0)
                        mbarrier_arrive(empty + slot * 8);
                    phase ^= slot + {{ KG }} >= {{ STAGES }};
                    slot = slot + {{ KG }} >= {{ STAGES }} ? slot + {{ KG - STAGES }} : slot + {{ KG }};
                    x_at = x_lane + slot * {{ stage * 8 }};
                    y_at = y_lane + slot * {{ stage * 8 }};
                    if (turn + 1 < own)
                        mbarrier_wait(full + slot * 8, phase);
                }
{{ load_y("(step + 1) % 2", "next") }}
{% if DOUBLE == 2 %}
{{ load_all_x("(step + 1) % 2", "next") }}
{% endif %}
#pragma unroll
                for (int r = 0; r < {{ xs }}; ++r) {
#pragma unroll
                    for (int c = 0; c < {{ ys }}; ++c) {
                        const int j = r % 2 ? {{ ys - 1 }} - c : c;
                        asm volatile("mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 { %0, %1, %2, %3 }, { %4, %5, %6, %7 }, { %8, %9 }, { %0, %1, %2, %3 };"
                            : "+d"(acc[r][j][0]), "+d"(acc[r][j][1]), "+d"(acc[r][j][2]), "+d"(acc[r][j][3])
{% set now = "step % 2" if DOUBLE == 2 else "0" %}
                            : "d"(x[{{ now }}][r * 4]), "d"(x[{{ now }}][r * 4 + 1]), "d"(x[{{ now }}][r * 4 + 2]), "d"(x[{{ now }}][r * 4 + 3]),
                              "d"(y[step % 2][j * 2]), "d"(y[step % 2][j * 2 + 1]));
                    }
{% if DOUBLE == 1 %}
{{ load_x("0", "r", "next") }}
{% endif %}
                }
            }
        }

{% if KG > 1 %}
{% include "parts.cl" %}
{% endif %}
{% if JOIN %}
        const int shared = (int)get_num_groups(1);
        __global double* left = planes + (long)at_tile * shared * {{ bm * bn }} + item * 2;
{% endif %}
        __global double* c_at = c_base + c_offset{{ " + (long)get_group_id(1) * m * n" if BARE }};
{% if CLUSTER > 1 %}
{% include "gathered.cl" %}
{% elif JOIN %}
{{ each_slot() }}{{ leave(number, sums) }}{% include "last.cl" %}
{% else %}
{{ each_slot() }}{{ store("r", "j", "h", sums) }}
{% endif %}
    }
}
