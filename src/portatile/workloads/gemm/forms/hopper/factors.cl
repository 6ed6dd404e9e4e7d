{# How factors of blocks of k come to local memory beside the tiles of a stage, for the hopper form; hopper.cl has the drawing.

   The three warps that have nothing to copy by the TMA take them: STAGES times bm factors of rows and bn of columns, `factors`. #}
{% from "copies.cl" import tile_of with context %}
{% from "elements.cl" import block_factor with context %}
{% set of_stage = bm + bn %}
{% macro factor_copier() %}
        if (item >= {{ 128 * TBR + 32 }}) {
            int slot = 0, phase = 1;
            for (int at = tile0; at < {{ tiles }}; at += tiles_on) {
{{ tile_of() }}
                for (int k_next = k0; k_next < k1; k_next += {{ depth }}) {
                    const int block = k_next / {{ BLOCK }};
                    __local float* to = factors + slot * {{ of_stage }};
                    mbarrier_wait(empty + slot * 8, phase);
#pragma unroll
                    for (int place = item - {{ 128 * TBR + 32 }}; place < {{ bm }}; place += 96)
                        COPY_ASYNC_4(to + place, &{{ block_factor("a", "min(row0 + place, m - 1)", "block") }});
#pragma unroll
                    for (int place = item - {{ 128 * TBR + 32 }}; place < {{ bn }}; place += 96)
                        COPY_ASYNC_4(to + {{ bm }} + place, &{{ block_factor("b", "min(col0 + place, n - 1)", "block") }});
                    mbarrier_arrive_copied(full + slot * 8);
                    phase ^= slot == {{ STAGES - 1 }};
                    slot = slot == {{ STAGES - 1 }} ? 0 : slot + 1;
                }
            }
        }
{% endmacro %}
