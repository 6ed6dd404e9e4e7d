{# How the hopper form multiplies where its tile's sums are stored as remainders: in two halves of columns, `low` and `high`, one of which is
   multiplied while the other one is reduced and stored.

       low    0 1 | . | 2 .. c-3 | c-2 c-1 |         . | 0 1 of the next tile        tiles along k, c = count
       high     . | 0 1 | 2 .. c-3 |       c-2 c-1     | .
                ^ high of the tile before is stored  ^ low is stored

   So the first two tiles along k stay in local memory until high has multiplied them, as do the last two. Four or more are needed. #}
{% set half = bn // 4 %}
{# the products of one half of a tile along k, which is in stage `at`; `first` is 0 where sums begin #}
{% macro multiply(sums, at, first) %}
#pragma unroll
            for (int step = 0; step < {{ steps }}; ++step)
                asm volatile(PORTATILE_LATER "{ .reg .pred p; setp.ne.b32 p, %{{ half + 2 }}, 0; wgmma.mma_async.sync.aligned.m64n{{ bn // 2 }}k32.s32.s8.s8 {% raw %}{{% endraw %}{% for e in range(half) %}%{{ e }}{{ ", " if not loop.last }}{% endfor %}}, %{{ half }}, %{{ half + 1 }}, p; }"
                    : {% for e in range(half) %}"+r"({{ sums }}[{{ e }}]){{ ", " if not loop.last }}{% endfor %}

                    : "l"(wgmma_operand(first_a + {{ at }} * {{ stage }} + step * 32, 16, 1024)), "l"(wgmma_operand(first_b + {{ at }} * {{ stage }} + {{ bn // 2 * 128 if sums == "high" else 0 }} + step * 32, 16, 1024)), "r"({{ first }}));
{% endmacro %}
{# waits for the next tile along k, whose stage is `name` from then on #}
{% macro arrived(name) %}
            mbarrier_wait(full + slot * 8, phase);
            const int {{ name }} = slot;
            phase ^= slot == {{ STAGES - 1 }};
            slot = slot == {{ STAGES - 1 }} ? 0 : slot + 1;
{% endmacro %}
{# a warp has read a stage #}
{% macro read(at) %}
            if (lane {{ "== 0" if CLUSTER == 1 else "< %d" % CLUSTER }})
                {{ "mbarrier_arrive(empty + %s * 8)" % at if CLUSTER == 1 else "mbarrier_arrive_at(empty + %s * 8, lane)" % at }};
{% endmacro %}
{# sums stay where they are until here #}
{% macro complete(sums) %}
            asm volatile("" : {% for e in range(half) %}"+r"({{ sums }}[{{ e }}]){{ ", " if not loop.last }}{% endfor %});
{% endmacro %}
{# remainders of a half go through local memory as bytes #}
{% macro stored(sums, row0, col0, to, number, edge=C_EDGE) %}
{% set width = bn // 2 %}
{% set line_bytes = width + 16 %}
            WARP_BARRIER();
#pragma unroll
            for (int e = 0; e < {{ half }}; e += 2)
                *(__local char2*)(bytes + (lane / 4 + e / 2 % 2 * 8) * {{ line_bytes }} + e / 4 * 8 + lane % 4 * 2) =
                    (char2)(reduced({{ sums }}[e], {{ number }}), reduced({{ sums }}[e + 1], {{ number }}));
            WARP_BARRIER();
#pragma unroll
            for (int line = lane / {{ width // 16 }}; line < 16; line += {{ 512 // width }}) {
                const int i = team * 64 + item / 32 % 4 * 16 + line, j = {{ width if sums == "high" else 0 }} + lane % {{ width // 16 }} * 16;
                const uint4 chunk = *(__local const uint4*)(bytes + line * {{ line_bytes }} + lane % {{ width // 16 }} * 16);
                // no branch, over which compilers would have products end first
                asm volatile("{ .reg .pred p; setp.ne.b32 p, %5, 0; @p st.global.v4.b32 [%0], {% raw %}{%1, %2, %3, %4}{% endraw %}; }" :: "l"({{ to }} + (long)i * ldc + j),
                    "r"(chunk.x), "r"(chunk.y), "r"(chunk.z), "r"(chunk.w), "r"({{ "(int)(%s + i < m && %s + j < n)" % (row0, col0) if edge else "1" }}) : "memory");
            }
{% endmacro %}
{# all tiles of C of a warp group #}
{% macro by_halves(tile_of, number) %}
    const uint first_a = first + team * 8192, first_b = first + {{ bm * 128 }};
    __local char* bytes = (__local char*)exchange;
    uint low[{{ half }}], high[{{ half }}];
#pragma unroll
    for (int e = 0; e < {{ half }}; ++e)
        high[e] = 0;
    int row_before = m, col_before = n, number_before = 0;  // outside: there is no tile before the first one
    __global char* before = c_base;
    for (int at = tile0; at < {{ tiles }}; at += tiles_on) {
{{ tile_of }}
{{ arrived("tile_0") }}{{ arrived("tile_1") }}        wgmma_fence();
{{ multiply("low", "tile_0", "step") }}{{ multiply("low", "tile_1", "1") }}        wgmma_commit();
        WGMMA_WAIT(1);
{{ stored("high", "row_before", "col_before", "before", "number_before", true) }}        wgmma_fence();
{{ multiply("high", "tile_0", "step") }}{{ multiply("high", "tile_1", "1") }}        wgmma_commit();
        int last = tile_1;
#pragma unroll 1
        for (int tile = 2; tile < count - 2; ++tile) {
{{ arrived("tile_t") }}            wgmma_fence();
{{ multiply("low", "tile_t", "1") }}{{ multiply("high", "tile_t", "1") }}            wgmma_commit();
            WGMMA_WAIT(1);
{{ read("last") }}            if (tile == 2) {
{{ read("tile_0") }}            }
            last = tile_t;
        }
{{ arrived("tile_y") }}{{ arrived("tile_z") }}        wgmma_fence();
{{ multiply("low", "tile_y", "1") }}{{ multiply("low", "tile_z", "1") }}        wgmma_commit();
        WGMMA_WAIT(1);
{{ read("last") }}        if (count == 4) {
{{ read("tile_0") }}        }
        wgmma_fence();
{{ multiply("high", "tile_y", "1") }}{{ multiply("high", "tile_z", "1") }}        wgmma_commit();
        WGMMA_WAIT(1);
{{ complete("low") }}
        before = c_base + c_offset + (long)row0 * ldc + col0{{ problem_of_c }};
        row_before = row0;
        col_before = col0;
        number_before = {{ number }};
{{ stored("low", "row0", "col0", "before", "number_before") }}        WGMMA_WAIT(0);
{{ complete("high") }}{{ read("tile_y") }}{{ read("tile_z") }}    }
    if (tile0 < {{ tiles }}) {
{{ stored("high", "row_before", "col_before", "before", "number_before") }}    }
{% endmacro %}
