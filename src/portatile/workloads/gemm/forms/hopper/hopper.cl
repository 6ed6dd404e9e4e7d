{#
   A group of TBR + 1 warp groups: the last one has the TMA bring tiles, the others multiply, 64 TRR rows each.

              bn = 16 TCR columns
             +-------------------+        local memory: STAGES tiles of A, bm rows of 128 bytes, and of B, bn rows; with k slow: blocks of
             |   warp group 0    |        64 across, of each the rows of 64 steps of k
       bm =  +-------------------+
       64    |   warp group 1    |        STAGES times:  copies --full--> products --free--> copies
       TRR   +-------------------+
       TBR                                registers: sums[TRR][8 TCR], as a warp group's products have them: warp w rows 16 w .., lane
                                          4 g + t rows g, g + 8, columns 2t, 2t + 1 of every eight

   With TURN the product is C^T = B^T A^T, of which a warp group puts 64 columns of C and 32 rows into local memory at a time.

   With TERMS = 2 an operand is the sum of two: high + 2^-11 low, of which a stage has both tiles, and C = A_high B_high
   + 2^-11 (A_low B_high + A_high B_low). Products of the high terms leave the units after each tile, to be added to nearest, while those
   with low terms are formed, whose sums stay in the units.

   With ALTERNATE two warp groups compute whole tiles of 64 TRR rows by turns, of which one is stored while the other is multiplied:

        warp group 0   tile 0  | store |          | tile 2 | store ...
        warp group 1           | tile 1 | store |          | tile 3 ...

   With JOIN groups that share a tile's k leave their sums in `planes`, and the last to be done adds them.

   With PROMOTE the products of a tile are summed apart for each block of 64 rows, in part[8 TCR], and then added to sums; with BLOCK
   by the factors of a block of k, which a stage has in local memory beside its tiles (factors.cl).

   Operands of LOADED, whose rows may begin anywhere, are copied by the work-items of the last warp group (loaded.cl).

#}
// GEMM for Hopper: a warp keeps the TMA busy STAGES tiles ahead, warp groups multiply straight from local memory, and groups
// go on to their next tile of C while the last one is stored.
//
// C = alpha op(A) op(B) + beta C, every operand row-major, rows aligned to 16 bytes. Group (x, y) owns tiles x, x + groups, ... in the
// order of RASTER and k from start + y chunk on, `chunk` steps; with SPLIT bare sums go to plane y of `c`.
{% set sharing = 1 if ALTERNATE else TBR %}
{% set within = "0" if ALTERNATE else "team" %}
{% set bm = 64 * TRR * sharing %}
{% set SPLIT = SPLIT and not JOIN %}
{% set bn = 16 * TCR %}
{% set items = 128 * (TBR + 1) %}
{% set depth = 128 // itemsize %}
{% set stage = TERMS * 128 * (bm + bn) %}
{% set steps = 4 %}
{% set by_tma = "ab" if LOADED == "none" else "ab" | replace(LOADED, "") %}
{% set LOADED = "" if LOADED == "none" else LOADED %}
{% set HOSTED = MAPS and by_tma %}
{% set spans_batch = BATCH and MAPS %}
{% set problem_of_c = " + (long)problem * c_batch" if spans_batch else "" %}
{% set tiles = "down * across" ~ (" * problems" if spans_batch) %}
{% set local_argument = (", const int problems" if spans_batch) ~ ((", tensor_map_t a_map" if "a" in by_tma) ~ (", tensor_map_t b_map" if "b" in by_tma) if HOSTED else ", __global uchar* maps") ~ (", __local uchar* space" if LOCAL_ARGUMENT) %}
{% set fragments = itemsize == 4 and not A_ALONG %}
{% set pitch = 68 if TURN else 40 %}
{% set halves = 144 %}
{% set exchanged = 640 %}
{% set spaces = STAGES * stage + TBR * 4 * exchanged * 4 %}
{% set helped = LOADED or BLOCK %}
{% set type = {"F16": "f16", "BF16": "bf16", "TF32": "tf32", "S8": "s8", "E4M3": "e4m3", "E5M2": "e5m2"}[KIND] %}
{% set count = bn // 2 %}
{% from "store.cl" import ahead, endings, scaling, store, vectors with context %}
{% from "elements.cl" import number, vector_at, vectors_of with context %}
{% from "join.cl" import arrival with context %}
{% from "copies.cl" import copier, tile_of with context %}
{% if LOADED %}
{% from "loaded.cl" import loader, loading with context %}
{% endif %}
{% if BLOCK %}
{% from "factors.cl" import factor_copier with context %}
{% endif %}
{% from "products.cl" import by_fragments, free, freed, multiply, multiply_terms, promoted, row_of with context %}
{# the sum e + x of a block of rows as an element of C, where C is not read #}
{% macro fragment(x) %}
{% if ENDS %}
ended(sums[r][e + {{ x }}], alpha, 0, 0{% for name, along in vectors %}, {{ "%s_rows.s%d" % (name, x // 2 % 2) if along == "rows" else "%s_%d.s%d" % (name, x // 4, x % 2) }}{% endfor %})
{%- else %}
alpha * sums[r][e{{ " + %d" % x if x }}]
{%- endif %}
{% endmacro %}
{# whether row i and column j of the tile are C's; columns are taken so many at a time #}
{% macro inside(i, j, width) %}
{{ "row0 + %s < m && col0 + %s < n" % (i, j) if C_EDGE else "1" }}{{ " && %s < %d" % (j, bn) if bn % width }}
{%- endmacro %}
{# barriers of the group's tiles #}
{% macro barriers() %}
        for (int s = 0; s < {{ STAGES }}; ++s) {
            mbarrier_init(full + s * 8, {{ (4 if LOADED else 96 if BLOCK else 0) + (1 if by_tma else 0) }});
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
{% if LOADED or HALVES in (2, 4) %}
{% include "shifted.cl" %}
{% endif %}
{% if LOADED %}
{{ loading() }}
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
    const int item = (int)get_local_id(0), lane = item % 32, team = item / 128;
    // the TMA and the products exchange chunks by the address, so tiles begin at a multiple of 1024
    __local uchar* tiles = space + (-LOCAL_ADDRESS(space) & 1023);
    const uint first = LOCAL_ADDRESS(tiles), full = first + {{ spaces + 256 }}, empty = full + {{ STAGES * 8 }};
{% if BLOCK %}
    __local float* factors = (__local float*)(tiles + {{ spaces + 256 + 16 * STAGES }});
{% endif %}
    const int across = (n - 1) / {{ bn }} + 1, down = (m - 1) / {{ bm * CLUSTER }} + 1;
{% if CLUSTER > 1 %}
    const uint rank = cluster_rank();
{% endif %}
    const int tile0 = (int)get_group_id(0){{ " / %d" % CLUSTER if CLUSTER > 1 }}, tiles_on = (int)get_num_groups(0){{ " / %d" % CLUSTER if CLUSTER > 1 }};
    const int k0 = start + (int)get_group_id(1) * chunk;
    const int k1 = alpha == 0 ? k0 : min(k, k0 + chunk);  // alpha = 0 must not read A or B
    const int count = (k1 - k0 + {{ depth - 1 }}) / {{ depth }};

    if ({{ tiles }} <= tiles_on)  // else the next kernel's groups would lie on multiprocessors as these end, and neighbours share less
        NEXT_MAY_START();
{% set early = MAPS and CLUSTER == 1 and not helped %}
{% if HOSTED %}
    const tensor_at_t {% for x in by_tma %}{{ x }}_at = TENSOR_AT({{ x }}_map, {{ loop.index0 }}){{ ", " if not loop.last }}{% endfor %};
{% endif %}
{% if early %}
    if (item == {{ 128 * TBR }}) {
        tensor_prefetch(a_at);
        tensor_prefetch(b_at);
{{ barriers() }}    }
{% else %}
    if (item == 0) {
{{ barriers() }}    }
{% if HOSTED and by_tma == "ab" %}
    if (item == {{ 128 * TBR }} || item == {{ 128 * TBR + 32 }})
        tensor_prefetch(item == {{ 128 * TBR }} ? a_at : b_at);
{% elif HOSTED %}
    if (item == {{ 128 * TBR }})
        tensor_prefetch({{ by_tma }}_at);
{% endif %}
{% endif %}
    AFTER_PREVIOUS();
    if (count == 0) {
        for (int at = {{ "get_group_id(1) > 0 ? %s : tile0" % tiles if JOIN else "tile0" }}; at < {{ tiles }}; at += tiles_on) {
{{ tile_of() }}
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
{% if not MAPS and by_tma %}
    // what lies past the last step of this group's k is zeros, too
    __global uchar* map = maps + ((((long)get_group_id(2) * get_num_groups(1) + get_group_id(1)) * get_num_groups(0) + get_group_id(0)) << 8);
{% if "a" in by_tma %}
    if (item / 32 == {{ 4 * TBR }})
        tensor_map(first + {{ spaces }}, map, a_base + a_offset, {{ itemsize }}, {{ "k1, m%s" % (" * 2" if TERMS > 1) if A_ALONG else "m, k1" }}, (ulong)lda * {{ itemsize }}, {{ "%d, %d" % (depth, bm) if A_ALONG else "%d, %d" % (128 // itemsize, depth) }});
{% endif %}
{% if "b" in by_tma %}
    if (item / 32 == {{ 4 * TBR + 1 }})
        tensor_map(first + {{ spaces + 128 }}, map + 128, b_base + b_offset, {{ itemsize }}, {{ "k1, n%s" % (" * 2" if TERMS > 1) if B_ALONG else "n, k1" }}, (ulong)ldb * {{ itemsize }}, {{ "%d, %d" % (depth, bn // CLUSTER) if B_ALONG else "%d, %d" % (128 // itemsize, depth // CLUSTER) }});
{% endif %}
{% endif %}
{% if not early %}
    {{ "cluster_barrier()" if CLUSTER > 1 else "barrier(CLK_LOCAL_MEM_FENCE)" }};
{% endif %}

    if (team == {{ TBR }}) {
{% if TBR == 2 %}
        warp_registers_less();
{% endif %}
{% if early %}
        if (item / 32 != {{ 4 * TBR }})
            return;
        WARP_BARRIER();
        group_arrive({{ 128 * TBR + 32 }});
{% endif %}
{% if LOADED %}
{{ loader() }}
{%- else %}
{{ copier() }}
{%- endif %}
{% if BLOCK %}
{{ factor_copier() }}
{%- endif %}
        return;
    }

{% if TBR == 2 %}
    warp_registers_more();
{% endif %}
{% if early %}
    group_wait({{ 128 * TBR + 32 }});
{% endif %}
    __local {{ real }}* exchange = (__local {{ real }}*)(tiles + {{ STAGES * stage }}) + {{ "team * %d" % (4 * exchanged) if TURN else "item / 32 * %d" % exchanged }};
    int slot = 0, phase = 0{{ ", turn = 1" if ALTERNATE }};
    for (int at = tile0; at < {{ tiles }}; at += tiles_on) {
{% if ALTERNATE %}
        turn ^= 1;
        if (turn != team) {  // the other warp group's tile
            slot += count;
            phase ^= slot / {{ STAGES }} & 1;
            slot %= {{ STAGES }};
            continue;
        }
        if (at > tile0)
            turn_wait(team);  // until the other's last tile is there: a barrier tells a phase from the one before it only
{% endif %}
{{ tile_of() }}
        {{ real }} sums[{{ TRR }}][{{ count }}];
#pragma unroll
        for (int i = 0; i < {{ TRR }}; ++i)
#pragma unroll
            for (int e = 0; e < {{ count }}; ++e)
                sums[i][e] = 0;
{% if TERMS > 1 %}
        float high[{{ TRR }}][{{ count }}], low[{{ TRR }}][{{ count }}];
#pragma unroll
        for (int i = 0; i < {{ TRR }}; ++i)
#pragma unroll
            for (int e = 0; e < {{ count }}; ++e)
                high[i][e] = low[i][e] = 0;
{% endif %}
{% if PROMOTE %}
        float part[{{ count }}];
#pragma unroll
        for (int e = 0; e < {{ count }}; ++e)
            part[e] = 0;
{% endif %}
{% if fragments %}
        uint a[{{ steps }}][{{ TRR }}][4];
        // of this work-item, within the rows of 128 bytes of eight steps of k: the first of two rows, four steps apart, and of two columns
        const int fragment = item / 64 % 2 * 4096 + lane % 4 * 128 + ((item / 32 % 2 * 2 + lane / 16 * 4 ^ lane % 4) * 16 + lane / 4 % 4 * 4);
{% endif %}
        int before = 0;
        int tile = 0;
#pragma unroll 1
        do {
            mbarrier_wait(full + slot * 8, phase);
            const uint a_tile = first + slot * {{ stage }} + {{ within }} * {{ TRR * 8192 }}, b_tile = first + slot * {{ stage }} + {{ TERMS * bm * 128 }};
{% if PROMOTE %}
{{ promoted() }}
{%- elif fragments %}
{{ by_fragments() }}            before = slot;
{%- else %}
            wgmma_fence();
{% if TERMS > 1 %}
{{ multiply_terms() }}
{%- else %}
#pragma unroll
            for (int step = 0; step < {{ steps }}; ++step) {
{% for r in range(TRR) %}
{{ multiply(r) }}{% endfor %}
            }
            wgmma_commit();
            WGMMA_WAIT(1);
{% endif %}
            if (tile > 0{{ freed() }})  // the products of the tile before this one have ended
                {{ free() }};
            before = slot;
{% endif %}
            phase ^= slot == {{ STAGES - 1 }};
            slot = slot == {{ STAGES - 1 }} ? 0 : slot + 1;
        } while (++tile < count);
{% if ALTERNATE %}
        if (at + tiles_on < {{ tiles }})
            turn_over(1 - team);
{% endif %}
{% if not PROMOTE %}
        WGMMA_WAIT(0);
        // sums stay where they are until here
{% for r in range(TRR) %}
        asm volatile("" : {% for e in range(count) %}"+{{ "r" if KIND == "S8" else "f" }}"({{ "low" if TERMS > 1 else "sums" }}[{{ r }}][{{ e }}]){{ ", " if not loop.last }}{% endfor %});
{% endfor %}
{% if TERMS > 1 %}
#pragma unroll
        for (int i = 0; i < {{ TRR }}; ++i)
#pragma unroll
            for (int e = 0; e < {{ count }}; ++e)
                sums[i][e] += low[i][e] * 0.00048828125f;
{% endif %}
        if (1{{ freed() }})
            {{ free() }};
{% endif %}

{% if JOIN %}
{% include "joined.cl" %}
{% endif %}
{% include "stored.cl" %}
    }
{% if CLUSTER > 1 %}
    cluster_barrier();  // another group may still tell this one something
{% endif %}
}
