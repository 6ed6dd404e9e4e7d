{#
   A group of TBR + 1 warp groups: the last one has the copy engine bring tiles, the others multiply, 64 TRR rows each.

              bn = 16 TCR columns
             +-------------------+        local memory: STAGES tiles of A, bm rows of 128 bytes, and of B, bn rows; with k slow: blocks of
             |   warp group 0    |        64 across, of each the rows of 64 steps of k
       bm =  +-------------------+
       64    |   warp group 1    |        STAGES times:  copies --full--> products --free--> copies
       TRR   +-------------------+
       TBR                                registers: sums[TRR][8 TCR], as a warp group's products have them: warp w rows 16 w .., lane
                                          4 g + t rows g, g + 8, columns 2t, 2t + 1 of every eight
#}
// GEMM for Hopper: a warp keeps the copy engine busy STAGES tiles ahead, warp groups multiply straight from local memory, and groups
// go on to their next tile of C while the last one is stored.
//
// C = alpha op(A) op(B) + beta C, every operand row-major, rows aligned to 16 bytes. Group (x, y) owns tiles x, x + groups, ... in the
// order of RASTER and k from start + y chunk on, `chunk` steps; with SPLIT bare sums go to plane y of `c`.
{% set bm = 64 * TRR * TBR %}
{% set bn = 16 * TCR %}
{% set items = 128 * (TBR + 1) %}
{% set depth = 128 // itemsize %}
{% set stage = 128 * (bm + bn) %}
{% set steps = 4 %}
{% set local_argument = ", __global uchar* maps" ~ (", __local uchar* space" if LOCAL_ARGUMENT) %}
{% set pitch = 40 %}
{% set spaces = STAGES * stage + TBR * 4 * 16 * pitch * 4 %}
{% set type = {"F16": "f16", "BF16": "bf16", "TF32": "tf32", "S8": "s8"}[KIND] %}
{% set count = bn // 2 %}
{% from "store.cl" import store with context %}
{% macro operand(x, along, at, step) %}
{% if along %}
wgmma_operand({{ at }} + {{ step }} * 32, 16, 1024)
{%- else %}
wgmma_operand({{ at }} + {{ step }} * 2048, 8192, 1024)
{%- endif %}
{% endmacro %}
{% macro multiply(r) %}
                asm volatile("{ .reg .pred p; setp.ne.b32 p, %{{ count + 2 }}, 0; wgmma.mma_async.sync.aligned.m64n{{ bn }}k{{ 32 // itemsize }}.{{ "s32" if KIND == "S8" else "f32" }}.{{ type }}.{{ type }} {% raw %}{{% endraw %}{% for e in range(count) %}%{{ e }}{{ ", " if not loop.last }}{% endfor %}}, %{{ count }}, %{{ count + 1 }}, p{{ ", 1, 1" if KIND != "S8" }}{{ ", %d, %d" % (0 if A_ALONG else 1, 0 if B_ALONG else 1) if itemsize == 2 }}; }"
                    : {% for e in range(count) %}"+{{ "r" if KIND == "S8" else "f" }}"(sums[{{ r }}][{{ e }}]){{ ", " if not loop.last }}{% endfor %}

                    : "l"({{ operand("a", A_ALONG, "a_tile + %d" % (r * 8192), "step") }}), "l"({{ operand("b", B_ALONG, "b_tile", "step") }}), "r"(tile + step));
{% endmacro %}
{# copies of one tile: boxes of the whole tile along k, of 64 across it else #}
{% macro fetch(x, along, wide, to, at) %}
{% if along %}
                tensor_copy({{ to }}, {{ x }}_map, k_next, {{ at }}, full + slot * 8);
{% else %}
{% for block in range(wide // 64) %}
                tensor_copy({{ to }} + {{ block * 8192 }}, {{ x }}_map, {{ at }} + {{ block * 64 }}, k_next, full + slot * 8);
{% endfor %}
{% endif %}
{% endmacro %}
{% macro tile_of() %}
{% if RASTER == 0 %}
        const int row0 = at % down * {{ bm }}, col0 = at / down * {{ bn }};
{% elif RASTER == 1 %}
        const int row0 = at / across * {{ bm }}, col0 = at % across * {{ bn }};
{% else %}
        const int band = at / ({{ RASTER }} * across), within = at - band * ({{ RASTER }} * across);
        const int height = min({{ RASTER }}, down - band * {{ RASTER }});
        const int row0 = (band * {{ RASTER }} + within % height) * {{ bm }}, col0 = within / height * {{ bn }};
{% endif %}
{% endmacro %}

MIN_GROUPS(1)
__kernel __attribute__((reqd_work_group_size({{ items }}, 1, 1)))
{% include "arguments.cl" %}
{
{% if not LOCAL_ARGUMENT %}
    __local uchar space[{{ local_bytes }}];
{% endif %}
{% include "batch.cl" %}
    const int item = (int)get_local_id(0), lane = item % 32, team = item / 128;
    // the copy engine and the products exchange chunks by the address, so tiles begin at a multiple of 1024
    __local uchar* tiles = space + (-LOCAL_ADDRESS(space) & 1023);
    const uint first = LOCAL_ADDRESS(tiles), full = first + {{ spaces + 256 }}, empty = full + {{ STAGES * 8 }};
    const int across = (n - 1) / {{ bn }} + 1, down = (m - 1) / {{ bm }} + 1;
    const int k0 = start + (int)get_group_id(1) * chunk;
    const int k1 = alpha == 0 ? k0 : min(k, k0 + chunk);  // alpha = 0 must not read A or B
    const int count = (k1 - k0 + {{ depth - 1 }}) / {{ depth }};

    if (count == 0) {
        for (int at = (int)get_group_id(0); at < down * across; at += (int)get_num_groups(0)) {
{{ tile_of() }}
            for (int place = item; place < {{ bm * bn }}; place += {{ items }}) {
                const int i = row0 + place / {{ bn }}, j = col0 + place % {{ bn }};
                __global {{ real if SPLIT else stored_c }}* to = c_base + c_offset + (long)i * ldc + j;
                if (i < m && j < n)
{% if SPLIT %}
                    to[(long)get_group_id(1) * m * n] = 0;
{% elif OUT in ("F16", "BF16") %}
                    *to = beta == 0 ? 0 : ({{ stored_c }})MATRIX_PAIR_{{ OUT }}(beta * MATRIX_LOW_{{ OUT }}((uint)*to), 0.0f);
{% else %}
                    *to = beta == 0 ? 0 : beta * *to;
{% endif %}
            }
        }
        return;
    }
    if (item == 0) {
        for (int s = 0; s < {{ STAGES }}; ++s) {
            mbarrier_init(full + s * 8, 1);
            mbarrier_init(empty + s * 8, {{ 4 * TBR }});
        }
        mbarrier_init_done();
    }
    barrier(CLK_LOCAL_MEM_FENCE);

    if (team == {{ TBR }}) {
{% if TBR == 2 %}
        warp_registers_less();
{% endif %}
        if (item < {{ TBR * 128 + 32 }}) {
            __global uchar* a_map = maps + ((((long)get_group_id(2) * get_num_groups(1) + get_group_id(1)) * get_num_groups(0) + get_group_id(0)) << 8);
            __global uchar* b_map = a_map + 128;
            // what lies past the last step of this group's k is zeros, too
            tensor_map(first + {{ spaces }}, a_map, a_base + a_offset, {{ itemsize }}, {{ "k1, m" if A_ALONG else "m, k1" }}, (ulong)lda * {{ itemsize }}, {{ "%d, %d" % (depth, bm) if A_ALONG else "64, %d" % depth }});
            tensor_map(first + {{ spaces + 128 }}, b_map, b_base + b_offset, {{ itemsize }}, {{ "k1, n" if B_ALONG else "n, k1" }}, (ulong)ldb * {{ itemsize }}, {{ "%d, %d" % (depth, bn) if B_ALONG else "64, %d" % depth }});
            if (lane == 0) {
                int slot = 0, phase = 1;
                for (int at = (int)get_group_id(0); at < down * across; at += (int)get_num_groups(0)) {
            {{ tile_of() }}
                    for (int k_next = k0; k_next < k1; k_next += {{ depth }}) {
                        mbarrier_wait(empty + slot * 8, phase);
                        mbarrier_expect(full + slot * 8, {{ stage }});
{{ fetch("a", A_ALONG, bm, "first + slot * %d" % stage, "row0") }}{{ fetch("b", B_ALONG, bn, "first + slot * %d + %d" % (stage, bm * 128), "col0") }}
                        phase ^= slot == {{ STAGES - 1 }};
                        slot = slot == {{ STAGES - 1 }} ? 0 : slot + 1;
                    }
                }
            }
        }
        return;
    }

{% if TBR == 2 %}
    warp_registers_more();
{% endif %}
    __local {{ real }}* exchange = (__local {{ real }}*)(tiles + {{ STAGES * stage }}) + item / 32 * {{ 16 * pitch }};
    int slot = 0, phase = 0;
    for (int at = (int)get_group_id(0); at < down * across; at += (int)get_num_groups(0)) {
{{ tile_of() }}
        {{ real }} sums[{{ TRR }}][{{ count }}];
#pragma unroll
        for (int i = 0; i < {{ TRR }}; ++i)
#pragma unroll
            for (int e = 0; e < {{ count }}; ++e)
                sums[i][e] = 0;
        int before = 0;
        int tile = 0;
#pragma unroll 1
        do {
            mbarrier_wait(full + slot * 8, phase);
            const uint a_tile = first + slot * {{ stage }} + team * {{ TRR * 8192 }}, b_tile = first + slot * {{ stage }} + {{ bm * 128 }};
            wgmma_fence();
#pragma unroll
            for (int step = 0; step < {{ steps }}; ++step) {
{% for r in range(TRR) %}
{{ multiply(r) }}{% endfor %}
            }
            wgmma_commit();
            WGMMA_WAIT(1);
            if (tile > 0 && lane == 0)  // the products of the tile before this one have ended
                mbarrier_arrive(empty + before * 8);
            before = slot;
            phase ^= slot == {{ STAGES - 1 }};
            slot = slot == {{ STAGES - 1 }} ? 0 : slot + 1;
        } while (++tile < count);
        WGMMA_WAIT(0);
        // sums stay where they are until here
{% for r in range(TRR) %}
        asm volatile("" : {% for e in range(count) %}"+{{ "r" if KIND == "S8" else "f" }}"(sums[{{ r }}][{{ e }}]){{ ", " if not loop.last }}{% endfor %});
{% endfor %}
        if (lane == 0)
            mbarrier_arrive(empty + before * 8);

        __global {{ real if SPLIT else stored_c }}* c_at = c_base + c_offset + (long)row0 * ldc + col0{{ " + (long)get_group_id(1) * m * n" if SPLIT }};
#pragma unroll
        for (int r = 0; r < {{ TRR }}; ++r)
#pragma unroll
            for (int c = 0; c < {{ bn }}; c += 32) {
                WARP_BARRIER();
#pragma unroll
                for (int e = 0; e < 16; e += 2)
                    *(__local {{ real }}2*)(exchange + (lane / 4 + e / 2 % 2 * 8) * {{ pitch }} + e / 4 * 8 + lane % 4 * 2) = ({{ real }}2)(sums[r][c / 2 + e], sums[r][c / 2 + e + 1]);
                WARP_BARRIER();
#pragma unroll
                for (int place = lane * {{ WIDE }}; place < 512; place += {{ 32 * WIDE }}) {
                    const int i = team * {{ 64 * TRR }} + r * 64 + item / 32 % 4 * 16 + place / 32, j = c + place % 32;
                    if ({{ "row0 + i < m && col0 + j < n" if C_EDGE else "1" }}) {
                        __local const {{ real }}* from = exchange + place / 32 * {{ pitch }} + place % 32;
                        __global {{ real if SPLIT else stored_c }}* to = c_at + (long)i * ldc + j;
{{ store() }}
                    }
                }
            }
    }
}
