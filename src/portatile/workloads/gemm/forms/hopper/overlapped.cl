{# The main loop of the hopper form with OVERLAP, where sums leave the units after each stage, for those of eight bits keep 14 bits: its
   products are formed in parts, of 64 rows and half of the tile's columns. While one is added to the sums in registers, with BLOCK times factors of rows
   and columns, the next one is multiplied; the last one of a stage is added beside the first one of the next stage:

        wgmma    | part 0 | part 1 | part 0 of the next stage | part 1 ...        in registers: part_0, even ones, and part_1, odd ones
        add               | part 0 | part 1                   | part 0 ...

   So the units are kept busy even where all warp groups add at the same time. Nothing is under way where the loop begins again, without
   which the assembler has products wait for each other. #}
{% from "mainloop.cl" import release, releases, wgmma with context %}
{% set of_half = bn // 4 %}
{% set number = 2 * TRR %}
{# begins the products of a part of the stage that is current #}
{% macro begin(part) %}
            wgmma_fence();
#pragma unroll
            for (int step = 0; step < {{ steps }}; ++step) {
                const uint a_tile = first + stage * {{ stage_bytes }} + {{ within }} * {{ TRR * 8192 }}, b_tile = first + stage * {{ stage_bytes }} + {{ bm * 128 + part % 2 * bn * 64 }};
{{ wgmma(part // 2, "part_%d" % (part % 2), "step", columns=bn // 2) }}            }
            wgmma_commit();
{% endmacro %}
{# waits until at most so many parts are under way that were begun later than this one #}
{% macro ended(part, later) %}
            WGMMA_WAIT({{ later }});
            asm volatile("" : {% for e in range(of_half) %}"+f"(part_{{ part % 2 }}[{{ e }}]){{ ", " if not loop.last }}{% endfor %});
{% endmacro %}
{# adds a part, of stage `before`, to the sums #}
{% macro add(part) %}
{% set half = part % 2 %}
            {
{% if BLOCK %}
                __local const float* of_stage = factors + before * {{ bm + bn }};
                __local const float* rows = of_stage + {{ within }} * {{ 64 * TRR }} + {{ part // 2 * 64 }} + item / 32 % 4 * 16 + lane / 4;
                const float above = rows[0], below = rows[8];
#pragma unroll
                for (int e = 0; e < {{ of_half }}; e += 4) {
                    const float2 two = *(__local const float2*)(of_stage + {{ bm + half * bn // 2 }} + e / 4 * 8 + lane % 4 * 2);
{% for x in range(4) %}
                    sums[{{ part // 2 }}][{{ half * of_half }} + e + {{ x }}] += part_{{ half }}[e + {{ x }}] * ({{ "below" if x > 1 else "above" }} * two.{{ "y" if x % 2 else "x" }});
{% endfor %}
                }
{% else %}
#pragma unroll
                for (int e = 0; e < {{ of_half }}; ++e)
                    sums[{{ part // 2 }}][{{ half * of_half }} + e] += part_{{ half }}[e];
{% endif %}
            }
{% endmacro %}
{# gives the stage back that was read before #}
{% macro given_back() %}
{% if BLOCK %}
            WARP_BARRIER();
{% endif %}
            if (1{{ releases() }})
                {{ release() }};
{% endmacro %}
{# the products of a stage, beside which the last part of the one before is added #}
{% macro of_stage(follows) %}
            mbarrier_wait(full + stage * 8, phase);
{{ begin(0) }}
{% if follows %}
{{ add(number - 1) }}{{ given_back() if BLOCK }}
{% endif %}
{{ begin(1) }}            before = stage;
{% for part in range(number - 1) %}
{{ ended(part, 1) }}{{ add(part) }}{{ begin(part + 2) if part + 2 < number }}{% endfor %}
{{ ended(number - 1, 0) }}{{ given_back() if not BLOCK }}            phase ^= stage == {{ STAGES - 1 }};
            stage = stage == {{ STAGES - 1 }} ? 0 : stage + 1;
{% endmacro %}
{% macro mainloop_overlapped() %}
        float part_0[{{ of_half }}], part_1[{{ of_half }}];
#pragma unroll
        for (int e = 0; e < {{ of_half }}; ++e)
            part_0[e] = part_1[e] = 0;
        int before = 0;
{{ of_stage(0) }}
#pragma unroll 1
        for (int tile = 1; tile < count; ++tile) {
{{ of_stage(1) }}
        }
{{ add(number - 1) }}{{ given_back() if BLOCK }}
{% endmacro %}
