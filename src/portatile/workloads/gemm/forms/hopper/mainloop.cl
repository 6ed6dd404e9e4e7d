{# The main loop of the hopper form's consumers: how the tiles of a stage are multiplied by wgmma; hopper.cl has the drawing.

   With `fragments` A has k slow and elements of four bytes, which the units take from registers: for each step lane 4 g + t loads four
   elements, of rows g, g + 8 and steps t, t + 4. #}
{% macro operand(x, along, at, step) %}
{% if along %}
wgmma_operand({{ at }} + {{ step }} * 32, 16, 1024)
{%- else %}
wgmma_operand({{ at }} + {{ step }} * 2048, 8192, 1024)
{%- endif %}
{% endmacro %}
{# row `line` (0 .. 15) of a warp, within the 64 rows of its warp group. With `fragments` the rows alternate between the halves of 32, four
   at a time, so that a load of them has no bank conflicts. #}
{% macro row_of(warp, line) %}
{% if fragments %}
{{ warp }} / 2 * 32 + {{ warp }} % 2 * 8 + ({{ line }}) / 8 * 4 + ({{ line }}) % 4 + ({{ line }}) / 4 % 2 * 16
{%- else %}
{{ warp }} * 16 + {{ line }}
{%- endif %}
{% endmacro %}
{# the products of one step with A's fragments from registers #}
{% macro wgmma_of_registers(r) %}
                asm volatile(PORTATILE_LATER "{ .reg .pred p; setp.ne.b32 p, %{{ count + 5 }}, 0; wgmma.mma_async.sync.aligned.m64n{{ bn }}k8.f32.{{ type }}.{{ type }} {% raw %}{{% endraw %}{% for e in range(count) %}%{{ e }}{{ ", " if not loop.last }}{% endfor %}}, {% raw %}{{% endraw %}%{{ count }}, %{{ count + 1 }}, %{{ count + 2 }}, %{{ count + 3 }}}, %{{ count + 4 }}, p, 1, 1; }"
                    : {% for e in range(count) %}"+f"(sums[{{ r }}][{{ e }}]){{ ", " if not loop.last }}{% endfor %}

                    : {% for w in range(4) %}"r"(a[step][{{ r }}][{{ w }}]), {% endfor %}"l"({{ operand("b", B_ALONG, "b_tile", "step") }}), "r"(tile + step));
{% endmacro %}
{% macro wgmma(r, into="sums[%d]" % r, first="tile + step", a="a_tile", b="b_tile") %}
                asm volatile(PORTATILE_LATER "{ .reg .pred p; setp.ne.b32 p, %{{ count + 2 }}, 0; wgmma.mma_async.sync.aligned.m64n{{ bn }}k{{ 32 // itemsize }}.{{ "s32" if KIND == "S8" else "f32" }}.{{ type }}.{{ type }} {% raw %}{{% endraw %}{% for e in range(count) %}%{{ e }}{{ ", " if not loop.last }}{% endfor %}}, %{{ count }}, %{{ count + 1 }}, p{{ ", 1, 1" if KIND != "S8" }}{{ ", %d, %d" % (0 if A_ALONG else 1, 0 if B_ALONG else 1) if itemsize == 2 }}; }"
                    : {% for e in range(count) %}"+{{ "r" if KIND == "S8" else "f" }}"({{ into }}[{{ e }}]){{ ", " if not loop.last }}{% endfor %}

                    : "l"({{ operand("a", A_ALONG, "%s + %d" % (a, r * 8192), "step") }}), "l"({{ operand("b", B_ALONG, b, "step") }}), "r"({{ first }}));
{% endmacro %}
{# a warp tells the producers, in each work-group of a cluster, that it has read a tile #}
{% macro releases() %} && lane {{ "== 0" if CLUSTER == 1 else "< %d" % CLUSTER }}{% endmacro %}
{% macro release() %}{{ "mbarrier_arrive(empty + before * 8)" if CLUSTER == 1 else "mbarrier_arrive_at(empty + before * 8, lane)" }}{% endmacro %}
{# With PROMOTE: the products of a stage, one block of rows after the other, so that the units hold few sums; other warp groups multiply
   while this one adds. #}
{% macro mma_promoted() %}
{% if BLOCK %}
            __local const float* factors_of = factors + stage * {{ bm + bn }};
{% endif %}
{% set ahead = TCR <= 8 %}
{% for r in range(TRR) %}
            wgmma_fence();
#pragma unroll
            for (int step = 0; step < {{ steps }}; ++step) {
{{ wgmma(r, "part", "step") }}            }
            wgmma_commit();
{% if BLOCK %}
            const int row_{{ r }} = {{ within }} * {{ 64 * TRR }} + {{ r * 64 }} + item / 32 % 4 * 16 + lane / 4;
            const float above_{{ r }} = factors_of[row_{{ r }}], below_{{ r }} = factors_of[row_{{ r }} + 8];
{% if r == 0 and ahead %}
            float across_block[{{ count // 2 }}];
#pragma unroll
            for (int e = 0; e < {{ count // 2 }}; e += 2) {
                const float2 two = *(__local const float2*)(factors_of + {{ bm }} + e / 2 * 8 + lane % 4 * 2);
                across_block[e] = two.x;
                across_block[e + 1] = two.y;
            }
{% endif %}
{% endif %}
            WGMMA_WAIT(0);
            asm volatile("" : {% for e in range(count) %}"+f"(part[{{ e }}]){{ ", " if not loop.last }}{% endfor %});
{% set late = BLOCK and not ahead %}
{% if late %}
#pragma unroll
            for (int e = 0; e < {{ count }}; e += 4) {
                const float2 two = *(__local const float2*)(factors_of + {{ bm }} + e / 4 * 8 + lane % 4 * 2);
                sums[{{ r }}][e] += part[e] * (above_{{ r }} * two.x);
                sums[{{ r }}][e + 1] += part[e + 1] * (above_{{ r }} * two.y);
                sums[{{ r }}][e + 2] += part[e + 2] * (below_{{ r }} * two.x);
                sums[{{ r }}][e + 3] += part[e + 3] * (below_{{ r }} * two.y);
            }
            WARP_BARRIER();
{% endif %}
{% if loop.last %}
            before = stage;
            if (1{{ releases() }})
                {{ release() }};
{% endif %}
{% if not late %}
#pragma unroll
            for (int e = 0; e < {{ count }}; ++e)
                sums[{{ r }}][e] += part[e]{{ " * ((e / 2 %% %d ? below_%d : above_%d) * across_block[e / 4 * 2 + e %% 2])" % (2, r, r) if BLOCK }};
{% endif %}
{% endfor %}
{% endmacro %}
{# the products of a tile's terms: those of the high ones are added to the sums while the others are formed #}
{% macro mma_of_terms() %}
#pragma unroll
            for (int step = 0; step < {{ steps }}; ++step) {
{% for r in range(TRR) %}
{{ wgmma(r, "high[%d]" % r, "step") }}{% endfor %}
            }
            wgmma_commit();
#pragma unroll
            for (int step = 0; step < {{ steps }}; ++step) {
{% for r in range(TRR) %}
{{ wgmma(r, "low[%d]" % r, a="a_tile + %d" % (bm * 128)) }}{{ wgmma(r, "low[%d]" % r, "1", b="b_tile + %d" % (bn * 128)) }}{% endfor %}
            }
            wgmma_commit();
            WGMMA_WAIT(1);
{% for r in range(TRR) %}
            asm volatile("" : {% for e in range(count) %}"+f"(high[{{ r }}][{{ e }}]){{ ", " if not loop.last }}{% endfor %});
{% endfor %}
#pragma unroll
            for (int i = 0; i < {{ TRR }}; ++i)
#pragma unroll
                for (int e = 0; e < {{ count }}; ++e)
                    sums[i][e] += high[i][e];
{% endmacro %}
{# the products of a tile by fragments of A: those of a step are loaded while three others are multiplied #}
{% macro mma_of_registers() %}
#pragma unroll
            for (int step = 0; step < {{ steps }}; ++step) {
                WGMMA_WAIT(3);
                if (step == 3 && tile > 0{{ releases() }})  // the products of the tile before this one have ended
                    {{ release() }};
#pragma unroll
                for (int r = 0; r < {{ TRR }}; ++r)
#pragma unroll
                    for (int w = 0; w < 4; ++w)
                        a[step][r][w] = LDS((__local const uint*)(tiles + stage * {{ stage_bytes }} + ({{ within }} * {{ TRR }} + r) * 8192 + step * 1024 + w / 2 * 512 + (fragment ^ w % 2 * 16 ^ w / 2 * 64)));
                wgmma_fence();
{% for r in range(TRR) %}
{{ wgmma_of_registers(r) }}{% endfor %}
                wgmma_commit();
            }
{% endmacro %}
{# the sums in registers, and what else a work-item holds of a tile #}
{% macro accumulators() %}
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
{% endmacro %}
{# the stages of a tile of C, one after the other; a stage is given back when the products of the next one have begun #}
{% macro mainloop() %}
        int before = 0;
        int tile = 0;
#pragma unroll 1
        do {
            mbarrier_wait(full + stage * 8, phase);
            const uint a_tile = first + stage * {{ stage_bytes }} + {{ within }} * {{ TRR * 8192 }}, b_tile = first + stage * {{ stage_bytes }} + {{ TERMS * bm * 128 }};
{% if PROMOTE %}
{{ mma_promoted() }}
{%- elif fragments %}
{{ mma_of_registers() }}            before = stage;
{%- else %}
            wgmma_fence();
{% if TERMS > 1 %}
{{ mma_of_terms() }}
{%- else %}
#pragma unroll
            for (int step = 0; step < {{ steps }}; ++step) {
{% for r in range(TRR) %}
{{ wgmma(r) }}{% endfor %}
            }
            wgmma_commit();
            WGMMA_WAIT(1);
{% endif %}
            if (tile > 0{{ releases() }})  // the products of the tile before this one have ended
                {{ release() }};
            before = stage;
{% endif %}
            phase ^= stage == {{ STAGES - 1 }};
            stage = stage == {{ STAGES - 1 }} ? 0 : stage + 1;
        } while (++tile < count);
{% endmacro %}
{# the end of a tile's products #}
{% macro drained() %}
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
        if (1{{ releases() }})
            {{ release() }};
{% endmacro %}
