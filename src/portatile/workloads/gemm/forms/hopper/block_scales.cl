{# A second producer of the hopper form: it copies block scales to local memory, beside the tiles of a stage; hopper.cl has the drawing.

   The three warps of the producer warp group that issue no TMA copies do this: STAGES times bm scales of rows and bn of columns,
   `factors`. #}
{% from "producer.cl" import tile_coordinates with context %}
{% from "elements.cl" import block_factor with context %}
{% set of_stage = bm + bn %}
{% macro scale_producer() %}
        if (item >= {{ 128 * TBR + 32 }}) {
            int stage = 0, phase = 1;
            for (int at = first_tile; at < {{ tiles }}; at += tiles_at_once) {
{{ tile_coordinates() }}
                for (int k_next = k0; k_next < k1; k_next += {{ depth }}) {
                    const int block = k_next / {{ BLOCK }};
                    __local float* to = factors + stage * {{ of_stage }};
                    mbarrier_wait(empty + stage * 8, phase);
#pragma unroll
                    for (int place = item - {{ 128 * TBR + 32 }}; place < {{ bm }}; place += 96)
                        COPY_ASYNC_4(to + place, &{{ block_factor("a", "min(row0 + place, m - 1)", "block") }});
#pragma unroll
                    for (int place = item - {{ 128 * TBR + 32 }}; place < {{ bn }}; place += 96)
                        COPY_ASYNC_4(to + {{ bm }} + place, &{{ block_factor("b", "min(col0 + place, n - 1)", "block") }});
                    mbarrier_arrive_copied(full + stage * 8);
                    phase ^= stage == {{ STAGES - 1 }};
                    stage = stage == {{ STAGES - 1 }} ? 0 : stage + 1;
                }
            }
        }
{% endmacro %}
