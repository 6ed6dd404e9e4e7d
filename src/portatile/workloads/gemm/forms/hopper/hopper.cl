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

   With PROMOTE the products of a tile are summed apart for each block of 64 rows, in part[8 TCR], and then added to sums; with BLOCK
   by the factors of a block of k.

#}
// GEMM for Hopper: a warp keeps the TMA busy STAGES tiles ahead, warp groups multiply straight from local memory, and groups
// go on to their next tile of C while the last one is stored.
//
// C = alpha op(A) op(B) + beta C, every operand row-major, rows aligned to 16 bytes. Group (x, y) owns tiles x, x + groups, ... in the
// order of RASTER and k from start + y chunk on, `chunk` steps; with SPLIT bare sums go to plane y of `c`.
{% set bm = 64 * TRR * TBR %}
{% set bn = 16 * TCR %}
{% set items = 128 * (TBR + 1) %}
{% set depth = 128 // itemsize %}
{% set stage = TERMS * 128 * (bm + bn) %}
{% set steps = 4 %}
{% set spans_batch = BATCH and MAPS %}
{% set problem_of_c = " + (long)problem * c_batch" if spans_batch else "" %}
{% set tiles = "down * across" ~ (" * problems" if spans_batch) %}
{% set local_argument = (", const int problems" if spans_batch) ~ (", tensor_map_t a_map, tensor_map_t b_map" if MAPS else ", __global uchar* maps") ~ (", __local uchar* space" if LOCAL_ARGUMENT) %}
{% set fragments = itemsize == 4 and not A_ALONG %}
{% set pitch = 68 if TURN else 40 %}
{% set halves = 144 %}
{% set exchanged = 640 %}
{% set spaces = STAGES * stage + TBR * 4 * exchanged * 4 %}
{% set type = {"F16": "f16", "BF16": "bf16", "TF32": "tf32", "S8": "s8", "E4M3": "e4m3", "E5M2": "e5m2"}[KIND] %}
{% set count = bn // 2 %}
{% from "store.cl" import ahead, endings, scaling, store, vectors with context %}
{% from "elements.cl" import number, vectors_of with context %}
{% from "products.cl" import by_fragments, free, freed, multiply, multiply_terms, promoted, row_of with context %}
{# the sum e + x of a block of rows as an element of C, where C is not read #}
{% macro fragment(x) %}
{% if ENDS %}
ended(sums[r][e + {{ x }}], alpha, 0, 0{% for name, along in vectors %}, {{ "%s_rows.s%d" % (name, x // 2 % 2) if along == "rows" else "%s_%d.s%d" % (name, x // 4, x % 2) }}{% endfor %})
{%- else %}
alpha * sums[r][e{{ " + %d" % x if x }}]
{%- endif %}
{% endmacro %}
{# the tile number `at`, of a cluster's as many below each other; by the host's maps groups go through all problems of a batch #}
{% macro tile_of() %}
{% set place = "within_problem" if spans_batch else "at" %}
{% if spans_batch %}
        const int problem = at / (down * across), within_problem = at - problem * (down * across);
{% endif %}
{% set own = " + (int)rank * %d" % bm if CLUSTER > 1 %}
{% set bm = bm * CLUSTER %}
{% if RASTER == 0 %}
        const int row0 = {{ place }} % down * {{ bm }}{{ own }}, col0 = {{ place }} / down * {{ bn }};
{% elif RASTER == 1 %}
        const int row0 = {{ place }} / across * {{ bm }}{{ own }}, col0 = {{ place }} % across * {{ bn }};
{% else %}
        const int band = {{ place }} / ({{ RASTER }} * across), within = {{ place }} - band * ({{ RASTER }} * across);
        const int height = min({{ RASTER }}, down - band * {{ RASTER }});
        const int row0 = (band * {{ RASTER }} + within % height) * {{ bm }}{{ own }}, col0 = within / height * {{ bn }};
{% endif %}
{% endmacro %}
{# an operand's tile of this step: boxes of a whole tile along k, of 128 bytes across it else #}
{% macro copies(x, along, wide, place, at) %}
{% set shared = x == "b" and CLUSTER > 1 %}
{% set boxes = 1 if along else wide * itemsize // 128 %}
{% set part = "(int)rank * %d" % ((wide if along else depth) // CLUSTER) if shared else "0" %}
{% set planes = spans_batch and (A_PLANES if x == "a" else B_PLANES) %}
{% for term in range(TERMS) %}
{% set far = " + %s" % ("m" if x == "a" else "n") if term else "" %}
{% for box in range(boxes) %}
                    {{ ("tensor_copy_by" if MAPS else "tensor_copy") ~ ("_3d" if planes) ~ ("_to_all" if shared) }}(to + ({{ part }}) * 128 + {{ place + box * depth * 128 + term * wide * 128 }}, {{ x ~ "_at" if MAPS else "map + 128" if x == "b" else "map" }}, {{ "k_next, %s + %s%s" % (at, part, far) if along else "%s + %d, k_next + %s" % (at, box * 128 // itemsize, part) }}{{ ", problem" if planes }}, full + slot * 8{{ ", %d" % (2 ** CLUSTER - 1) if shared }});
{% endfor %}
{% endfor %}
{% endmacro %}
{# the work-item that has tiles copied #}
{% macro copier() %}
        if (item == {{ 128 * TBR }}) {
            int slot = 0, phase = 1;
            for (int at = tile0; at < {{ tiles }}; at += tiles_on) {
{{ tile_of() }}
                for (int k_next = k0; k_next < k1; k_next += {{ depth }}) {
                    const uint to = first + slot * {{ stage }};
                    mbarrier_wait(empty + slot * 8, phase);
                    mbarrier_expect(full + slot * 8, {{ TERMS * (bm + bn) * 128 }});
{{ copies("a", A_ALONG, bm, 0, "row0") }}{{ copies("b", B_ALONG, bn, TERMS * bm * 128, "col0") }}                    phase ^= slot == {{ STAGES - 1 }};
                    slot = slot == {{ STAGES - 1 }} ? 0 : slot + 1;
                }
            }
        }
{% endmacro %}
{# barriers of the group's tiles #}
{% macro barriers() %}
        for (int s = 0; s < {{ STAGES }}; ++s) {
            mbarrier_init(full + s * 8, 1);
            mbarrier_init(empty + s * 8, {{ 4 * TBR * CLUSTER }});
        }
        mbarrier_init_done();
{% endmacro %}

{{ endings() }}
{% if TERMS > 1 %}
{{ scaling() }}
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
{% set early = MAPS and CLUSTER == 1 %}
{% if MAPS %}
    const tensor_at_t a_at = TENSOR_AT(a_map, 0), b_at = TENSOR_AT(b_map, 1);
{% endif %}
{% if early %}
    if (item == {{ 128 * TBR }}) {
        tensor_prefetch(a_at);
        tensor_prefetch(b_at);
{{ barriers() }}    }
{% else %}
    if (item == 0) {
{{ barriers() }}    }
{% if MAPS %}
    if (item == {{ 128 * TBR }} || item == {{ 128 * TBR + 32 }})
        tensor_prefetch(item == {{ 128 * TBR }} ? a_at : b_at);
{% endif %}
{% endif %}
    AFTER_PREVIOUS();
    if (count == 0) {
        for (int at = tile0; at < {{ tiles }}; at += tiles_on) {
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
{% if not MAPS %}
    // what lies past the last step of this group's k is zeros, too
    __global uchar* map = maps + ((((long)get_group_id(2) * get_num_groups(1) + get_group_id(1)) * get_num_groups(0) + get_group_id(0)) << 8);
    if (item / 32 == {{ 4 * TBR }})
        tensor_map(first + {{ spaces }}, map, a_base + a_offset, {{ itemsize }}, {{ "k1, m%s" % (" * 2" if TERMS > 1) if A_ALONG else "m, k1" }}, (ulong)lda * {{ itemsize }}, {{ "%d, %d" % (depth, bm) if A_ALONG else "%d, %d" % (128 // itemsize, depth) }});
    if (item / 32 == {{ 4 * TBR + 1 }})
        tensor_map(first + {{ spaces + 128 }}, map + 128, b_base + b_offset, {{ itemsize }}, {{ "k1, n%s" % (" * 2" if TERMS > 1) if B_ALONG else "n, k1" }}, (ulong)ldb * {{ itemsize }}, {{ "%d, %d" % (depth, bn // CLUSTER) if B_ALONG else "%d, %d" % (128 // itemsize, depth // CLUSTER) }});
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
{{ copier() }}        return;
    }

{% if TBR == 2 %}
    warp_registers_more();
{% endif %}
{% if early %}
    group_wait({{ 128 * TBR + 32 }});
{% endif %}
    __local {{ real }}* exchange = (__local {{ real }}*)(tiles + {{ STAGES * stage }}) + {{ "team * %d" % (4 * exchanged) if TURN else "item / 32 * %d" % exchanged }};
    int slot = 0, phase = 0;
    for (int at = tile0; at < {{ tiles }}; at += tiles_on) {
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
            const uint a_tile = first + slot * {{ stage }} + team * {{ TRR * 8192 }}, b_tile = first + slot * {{ stage }} + {{ TERMS * bm * 128 }};
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

        __global {{ real if SPLIT else stored_c }}* c_at = c_base + c_offset + (long){{ "col0 * ldc + row0" if TURN else "row0 * ldc + col0" }}{{ " + (long)get_group_id(1) * m * n" if SPLIT }}{{ problem_of_c }};
{% set fast = OUT in ("F16", "BF16") and WIDE == 8 and not TURN %}
{% if fast %}
        if (beta == 0) {  // fragments of 16 bits go through local memory as they are, 64 columns at a time
#pragma unroll
            for (int r = 0; r < {{ TRR }}; ++r) {
{% for name, along in vectors if along == "rows" %}
                const int {{ name }}_at = row0 + team * {{ 64 * TRR }} + r * 64 + {{ row_of("item / 32 % 4", "lane / 4") }};
                const float2 {{ name }}_rows = (float2)({{ name }}[{{ name }}_offset + min({{ name }}_at, m - 1)], {{ name }}[{{ name }}_offset + min({{ name }}_at + {{ 4 if fragments else 8 }}, m - 1)]);
{% endfor %}
#pragma unroll
                for (int c = 0; c < {{ bn }}; c += 64) {
                    __local uchar* halves = (__local uchar*)exchange;
                    WARP_BARRIER();
#pragma unroll
                    for (int e = c / 2; e < c / 2 + 32; e += 8) {
{% for part in (0, 1) %}
{{ ahead(part, "min(col0 + e / 4 * 8 + %d + lane %% 4 * 2, n - 2)" % (8 * part), 2) }}
{%- endfor %}
                        store_fragment(LOCAL_ADDRESS(halves) + lane % 16 * {{ halves }} + ((e - c / 2) / 4 + lane / 16) * 16,
                                       {% for x in range(0, 8, 2) %}MATRIX_PAIR_{{ OUT }}({{ fragment(x) }}, {{ fragment(x + 1) }}){{ ", " if not loop.last }}{% endfor %});
                    }
                    WARP_BARRIER();
#pragma unroll
                    for (int line = lane / 8; line < 16; line += 4) {
                        const int i = team * {{ 64 * TRR }} + r * 64 + {{ row_of("item / 32 % 4", "line") }}, j = c + lane % 8 * 8;
                        if ({{ "row0 + i < m && col0 + j < n" if C_EDGE else "1" }})
                            *(__global uint4*)(c_at + (long)i * ldc + j) = *(__local const uint4*)(halves + line * {{ halves }} + lane % 8 * 16);
                    }
                }
            }
            continue;
        }
{% endif %}
{% if MODULI and LINES and not SPLIT %}
{% set width = 128 if bn % 128 == 0 else 64 %}
{% set line_bytes = width + 16 %}
        // remainders go through local memory as bytes, {{ width }} columns at a time
        __local char* bytes = (__local char*)exchange;
#pragma unroll
        for (int r = 0; r < {{ TRR }}; ++r)
#pragma unroll
            for (int c = 0; c < {{ bn }}; c += {{ width }}) {
                WARP_BARRIER();
#pragma unroll
                for (int e = 0; e < {{ width // 2 }}; e += 2)
                    *(__local char2*)(bytes + (lane / 4 + e / 2 % 2 * 8) * {{ line_bytes }} + e / 4 * 8 + lane % 4 * 2) =
                        (char2)(reduced(sums[r][c / 2 + e], {{ number() }}), reduced(sums[r][c / 2 + e + 1], {{ number() }}));
                WARP_BARRIER();
#pragma unroll
                for (int line = lane / {{ width // 16 }}; line < 16; line += {{ 512 // width }}) {
                    const int i = team * {{ 64 * TRR }} + r * 64 + item / 32 % 4 * 16 + line, j = c + lane % {{ width // 16 }} * 16;
                    if ({{ "row0 + i < m && col0 + j < n" if C_EDGE else "1" }})
                        *(__global uint4*)(c_at + (long)i * ldc + j) = *(__local const uint4*)(bytes + line * {{ line_bytes }} + lane % {{ width // 16 }} * 16);
                }
            }
{% else %}
#pragma unroll
        for (int r = 0; r < {{ TRR }}; ++r)
#pragma unroll
            for (int c = 0; c < {{ bn }}; c += 32) {
{% if TURN %}
                // a warp group's 64 columns of C and 32 rows, one below the other
                WARP_GROUP_BARRIER(team);
#pragma unroll
                for (int e = 0; e < 16; ++e)
                    exchange[(e / 4 * 8 + lane % 4 * 2 + e % 2) * {{ pitch }} + {{ row_of("(item / 32 % 4)", "(lane / 4 + e / 2 % 2 * 8)") }}] = sums[r][c / 2 + e];
                WARP_GROUP_BARRIER(team);
#pragma unroll
                for (int place = item % 128 * {{ WIDE }}; place < 2048; place += {{ 128 * WIDE }}) {
                    const int i = c + place / 64, j = team * {{ 64 * TRR }} + r * 64 + place % 64;
                    if ({{ "row0 + j < m && col0 + i < n" if C_EDGE else "1" }}) {
                        __local const {{ real }}* from = exchange + place / 64 * {{ pitch }} + place % 64;
{% if ENDS %}
                        const int of_columns = row0, of_rows = col0;
                        { const int row0 = of_rows, col0 = of_columns;
{% endif %}
{% else %}
                WARP_BARRIER();
#pragma unroll
                for (int e = 0; e < 16; e += 2)
                    *(__local {{ real }}2*)(exchange + (lane / 4 + e / 2 % 2 * 8) * {{ pitch }} + e / 4 * 8 + lane % 4 * 2) = ({{ real }}2)(sums[r][c / 2 + e], sums[r][c / 2 + e + 1]);
                WARP_BARRIER();
#pragma unroll
                for (int place = lane * {{ WIDE }}; place < 512; place += {{ 32 * WIDE }}) {
                    const int i = team * {{ 64 * TRR }} + r * 64 + {{ row_of("item / 32 % 4", "place / 32") }}, j = c + place % 32;
                    if ({{ "row0 + i < m && col0 + j < n" if C_EDGE else "1" }}) {
                        __local const {{ real }}* from = exchange + place / 32 * {{ pitch }} + place % 32;
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
    }
{% if CLUSTER > 1 %}
    cluster_barrier();  // another group may still tell this one something
{% endif %}
}
