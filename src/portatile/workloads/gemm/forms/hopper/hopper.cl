{#
   A persistent, warp-specialised kernel. Of the TBR + 1 warp groups of a work-group, the last one is the producer: one of its work-items
   has the TMA copy tiles of A and B. The others are consumers: they multiply straight from local memory (wgmma), 64 TRR rows each.

              bn = 16 TCR columns
             +-------------------+        local memory: STAGES tiles of A (bm rows of 128 bytes) and of B (bn rows), in the
             |   warp group 0    |        128-byte swizzle; with k slow in blocks of 64 elements across k, a row for each of 64 steps of k
       bm =  +-------------------+
       64    |   warp group 1    |        a ring of STAGES, each with two mbarriers:  TMA copies --full--> wgmma --empty--> TMA copies
       TRR   +-------------------+
       TBR                                registers: sums[TRR][8 TCR], in the layout of wgmma's accumulators: warp w has rows 16 w .., lane
                                          4 g + t has rows g, g + 8 and columns 2t, 2t + 1 of every eight

   Files: producer.cl (order of tiles, TMA copies), block_scales.cl, mainloop.cl (wgmma), fixup.cl (split k with JOIN), epilogue.cl (to C).

   With CLUSTER > 1, work-groups one below the other multicast their shares of B's tile to each other.

   With TURN the product is C^T = B^T A^T; a warp group transposes 64 columns and 32 rows of C at a time in local memory.

   With TERMS = 2 an operand is the sum of two: high + 2^-11 low. A stage has the tiles of both, and C = A_high B_high
   + 2^-11 (A_low B_high + A_high B_low). The sums of A_high B_high leave the units after each tile, and are added with rounding to nearest
   while the units compute the products with low terms, whose sums stay in the units.

   With ALTERNATE the schedule is ping-pong: two warp groups compute whole tiles of 64 TRR rows in turn, and the epilogue of one overlaps
   the main loop of the other. Otherwise it is cooperative: warp groups share a tile.

        warp group 0   tile 0  | store |          | tile 2 | store ...
        warp group 1           | tile 1 | store |          | tile 3 ...

   With JOIN the work-groups that share a tile's k leave their sums in `planes`, and the last one to finish adds them up.

   With PROMOTE the products of a stage are summed separately and then added to the sums; with BLOCK after multiplication by block scales,
   which a stage has in local memory beside its tiles.

#}
// GEMM for Hopper: a producer warp keeps TMA copies STAGES tiles ahead, consumer warp groups multiply straight from local memory, and
// persistent work-groups begin their next tile of C while the last one is stored.
//
// C = alpha op(A) op(B) + beta C, every operand row-major, rows aligned to 16 bytes. Work-group (x, y) computes tiles x, x + groups, ... in
// the order of RASTER, over `chunk` steps of k from start + y chunk on; with SPLIT it stores bare sums to plane y of `c`.
{% set sharing = 1 if ALTERNATE else TBR %}
{% set within = "0" if ALTERNATE else "warp_group" %}
{% set bm = 64 * TRR * sharing %}
{% set SPLIT = SPLIT and not JOIN %}
{% set bn = 16 * TCR %}
{% set items = 128 * (TBR + 1) %}
{% set depth = 128 // itemsize %}
{% set stage_bytes = TERMS * 128 * (bm + bn) %}
{% set steps = 4 %}
{% set spans_batch = BATCH and MAPS %}
{% set problem_of_c = " + (long)problem * c_batch" if spans_batch else "" %}
{% set tiles = "down * across" ~ (" * problems" if spans_batch) %}
{% set fragments = itemsize == 4 and not A_ALONG %}
{% set behind = SHIFTED or HALVES in (2, 4) %}
{% set halves = 160 if behind else 144 %}
{% set pitch = 68 if TURN else 40 %}
{% set exchanged = 640 %}
{% set spaces = STAGES * stage_bytes + TBR * 4 * exchanged * 4 %}
{% set type = {"F16": "f16", "BF16": "bf16", "TF32": "tf32", "S8": "s8", "E4M3": "e4m3", "E5M2": "e5m2"}[KIND] %}
{% set count = bn // 2 %}
{% set local_argument = (", const int problems" if spans_batch) ~ (", tensor_map_t a_map, tensor_map_t b_map" if MAPS else ", __global uchar* maps") ~ (", __local uchar* space" if LOCAL_ARGUMENT) %}
{% from "store.cl" import ahead, endings, scaling, store, vectors with context %}
{% from "elements.cl" import number, vector_at, vectors_of with context %}
{% from "join.cl" import arrival with context %}
{% from "producer.cl" import tma_producer, tile_coordinates with context %}
{% if BLOCK %}
{% from "block_scales.cl" import scale_producer with context %}
{% endif %}
{% from "mainloop.cl" import accumulators, drained, mainloop, row_of with context %}
{# sum e + x of a block of rows as an element of C, if C is not read #}
{% macro fragment(x) %}
{% if ENDS %}
ended(sums[r][e + {{ x }}], alpha, 0, 0{% for name, along in vectors %}, {{ "%s_rows.s%d" % (name, x // 2 % 2) if along == "rows" else "%s_%d.s%d" % (name, x // 4, x % 2) }}{% endfor %})
{%- else %}
alpha * sums[r][e{{ " + %d" % x if x }}]
{%- endif %}
{% endmacro %}
{# the condition that row i and column j of the tile belong to C; columns are processed `width` at a time #}
{% macro inside(i, j, width) %}
{{ "row0 + %s < m && col0 + %s < n" % (i, j) if C_EDGE else "1" }}{{ " && %s < %d" % (j, bn) if bn % width }}
{%- endmacro %}
{# initialises the mbarriers of the stages #}
{% macro barriers() %}
        for (int s = 0; s < {{ STAGES }}; ++s) {
            mbarrier_init(full + s * 8, {{ 97 if BLOCK else 1 }});
            mbarrier_init(empty + s * 8, {{ 4 * sharing * CLUSTER }});
        }
        mbarrier_init_done();
{% endmacro %}

{{ endings() }}
{% if JOIN %}
{{ arrival() }}
{% endif %}
{% if TERMS > 1 %}
{{ scaling() }}
{% endif %}
{% if HALVES in (2, 4) %}
{% include "funnel_shift.cl" %}
{% endif %}
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
{% if not spans_batch %}
{% include "batch.cl" %}
{% endif %}
    const int item = (int)get_local_id(0), lane = item % 32, warp_group = item / 128;
    // the swizzle of TMA and wgmma depends on the address, so tiles begin at a multiple of 1024
    __local uchar* tiles = space + (-LOCAL_ADDRESS(space) & 1023);
    const uint first = LOCAL_ADDRESS(tiles), full = first + {{ spaces + 256 }}, empty = full + {{ STAGES * 8 }};
{% if BLOCK %}
    __local float* factors = (__local float*)(tiles + {{ spaces + 256 + 16 * STAGES }});
{% endif %}
    const int across = (n - 1) / {{ bn }} + 1, down = (m - 1) / {{ bm * CLUSTER }} + 1;
{% if CLUSTER > 1 %}
    const uint rank = cluster_rank();
{% endif %}
    const int first_tile = (int)get_group_id(0){{ " / %d" % CLUSTER if CLUSTER > 1 }}, tiles_at_once = (int)get_num_groups(0){{ " / %d" % CLUSTER if CLUSTER > 1 }};
    const int k0 = start + (int)get_group_id(1) * chunk;
    const int k1 = alpha == 0 ? k0 : min(k, k0 + chunk);  // alpha = 0 must not read A or B
    const int count = (k1 - k0 + {{ depth - 1 }}) / {{ depth }};

    if ({{ tiles }} <= tiles_at_once)  // else the next kernel's work-groups would start wherever these end, and neighbours would share less
        NEXT_MAY_START();
{% set early = MAPS and CLUSTER == 1 and not BLOCK %}
{% if MAPS %}
    const tensor_at_t a_at = TENSOR_AT(a_map, 0), b_at = TENSOR_AT(b_map, 1);
{% endif %}
    if (item == {{ 128 * TBR if early else 0 }}) {
{% if MAPS %}
        tensor_prefetch(a_at);
        tensor_prefetch(b_at);
{% endif %}
{{ barriers() }}    }
    AFTER_PREVIOUS();
    if (count == 0) {
        for (int at = {{ "get_group_id(1) > 0 ? %s : first_tile" % tiles if JOIN else "first_tile" }}; at < {{ tiles }}; at += tiles_at_once) {
{{ tile_coordinates() }}
            for (int place = item; place < {{ bm * bn }}; place += {{ items }}) {
                const int i = row0 + place / {{ bn }}, j = col0 + place % {{ bn }};
                __global {{ real if SPLIT else stored_c }}* to = c_base + c_offset + (long){{ "j * ldc + i" if TURN else "i * ldc + j" }}{{ problem_of_c }};
                if (i < m && j < n)
{% if SPLIT %}
                    to[(long)get_group_id(1) * m * n] = 0;
{% elif ENDS %}
                    put(to, 0, alpha, beta{{ vectors_of("j", "i") if TURN else vectors_of("i", "j") }});
{% elif OUT in ("F16", "BF16") %}
                    *to = beta == 0 ? 0 : ({{ stored_c }})MATRIX_PAIR_{{ OUT }}(beta * MATRIX_LOW_{{ OUT }}((uint)*to), 0.0f);
{% else %}
                    *to = beta == 0 ? 0 : beta * *to;
{% endif %}
            }
        }
        return;
    }
{% if not MAPS %}
    // the map ends at k1, so that steps past this work-group's share of k are zeros
    __global uchar* map = maps + ((((long)get_group_id(2) * get_num_groups(1) + get_group_id(1)) * get_num_groups(0) + get_group_id(0)) << 8);
    if (item / 32 == {{ 4 * TBR }})
        tensor_map(first + {{ spaces }}, map, a_base + a_offset, {{ itemsize }}, {{ "k1, m%s" % (" * 2" if TERMS > 1) if A_ALONG else "m, k1" }}, (ulong)lda * {{ itemsize }}, {{ "%d, %d" % (depth, bm) if A_ALONG else "%d, %d" % (128 // itemsize, depth) }});
    if (item / 32 == {{ 4 * TBR + 1 }})
        tensor_map(first + {{ spaces + 128 }}, map + 128, b_base + b_offset, {{ itemsize }}, {{ "k1, n%s" % (" * 2" if TERMS > 1) if B_ALONG else "n, k1" }}, (ulong)ldb * {{ itemsize }}, {{ "%d, %d" % (depth, bn // CLUSTER) if B_ALONG else "%d, %d" % (128 // itemsize, depth // CLUSTER) }});
{% endif %}
{% if not early %}
    {{ "cluster_barrier()" if CLUSTER > 1 else "barrier(CLK_LOCAL_MEM_FENCE)" }};
{% endif %}

    if (warp_group == {{ TBR }}) {
{% if TBR > 1 %}
        WARP_REGISTERS_LESS({{ 40 if TBR == 2 else 32 }});
{% endif %}
{% if early %}
        if (item / 32 != {{ 4 * TBR }})
            return;
        WARP_BARRIER();
        group_arrive({{ 128 * TBR + 32 }});
{% endif %}
{{ tma_producer() }}
{% if BLOCK %}
{{ scale_producer() }}
{%- endif %}
        return;
    }

{% if TBR > 1 %}
    WARP_REGISTERS_MORE({{ 232 if TBR == 2 else 160 }});
{% endif %}
{% if early %}
    group_wait({{ 128 * TBR + 32 }});
{% endif %}
    __local {{ real }}* exchange = (__local {{ real }}*)(tiles + {{ STAGES * stage_bytes }}) + {{ "warp_group * %d" % (4 * exchanged) if TURN else "item / 32 * %d" % exchanged }};
    int stage = 0, phase = 0{{ ", turn = 1" if ALTERNATE }};
    for (int at = first_tile; at < {{ tiles }}; at += tiles_at_once) {
{% if ALTERNATE %}
        turn ^= 1;
        if (turn != warp_group) {  // this tile belongs to the other warp group
            stage += count;
            phase ^= stage / {{ STAGES }} & 1;
            stage %= {{ STAGES }};
            continue;
        }
        if (at > first_tile)
            turn_wait(warp_group);  // until the other's last tile has arrived: an mbarrier distinguishes only consecutive phases
{% endif %}
{{ tile_coordinates() }}
{{ accumulators() }}
{{ mainloop() }}
{% if ALTERNATE %}
        if (at + tiles_at_once < {{ tiles }})
            turn_over(1 - warp_group);
{% endif %}
{% if not PROMOTE %}
{{ drained() }}
{% endif %}

{% if JOIN %}
{% include "fixup.cl" %}
{% endif %}
{% include "epilogue.cl" %}
    }
{% if CLUSTER > 1 %}
    cluster_barrier();  // other work-groups of the cluster may still signal this one
{% endif %}
}
