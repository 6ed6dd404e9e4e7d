{# The end of gpu.cl if C cannot be stored in vectors: TBR TR rows of the tile at a time go through local memory, so that neighbouring
   work-items store neighbouring elements (coalesced). Stored from registers, elements would lie TC apart, and a transaction would hold few
   of them. #}
{% set block = TBR * TR %}
#pragma unroll
    for (int piece = 0; piece < {{ TRR }}; ++piece) {
        barrier(CLK_LOCAL_MEM_FENCE);
{% if KG > 1 %}
        if (part == 0)
{% endif %}
#pragma unroll
        for (int r = 0; r < {{ TR }}; ++r)
#pragma unroll
            for (int c = 0; c < {{ cols }}; c += {{ VL }})
                *(__local {{ real }}{{ VL }}*)(tiles + (tr * {{ TR }} + r) * {{ row_pitch }} + c / {{ TC }} * {{ TBC * TC }} + c % {{ TC }} + tc * {{ TC }}) = ({{ real }}{{ VL }})({% for e in range(VL) %}acc[piece * {{ TR }} + r][c + {{ e }}]{{ ", " if not loop.last }}{% endfor %});
        barrier(CLK_LOCAL_MEM_FENCE);
{# elements that a work-item reads before it stores the first of them: NVIDIA's OpenCL C would wait for each #}
{% set ahead = 4 if block * bn % (4 * items) == 0 else 2 if block * bn % (2 * items) == 0 else 1 %}
{% set limit = "(unwanted ? 0 : %d)" % (block * bn) if STREAMED else block * bn %}
{% macro store_ahead(factors) %}
#pragma unroll
            for (int next = 0; next < {{ ahead }}; ++next) {
                const int spot = first + next * {{ items }}, i = spot / {{ bn }} + piece * {{ block }}, j = spot % {{ bn }};
                __global {{ real }}* to = c_at + (long)i * ldc + j;
{{ skip_outside("i", "j") }}                *to = {{ factors }};
            }
{% endmacro %}
        for (int first = item; first < {{ limit }}; first += {{ ahead * items }}) {
            {{ real }} sum[{{ ahead }}];
#pragma unroll
            for (int next = 0; next < {{ ahead }}; ++next) {
                const int spot = first + next * {{ items }};
                sum[next] = tiles[spot / {{ bn }} * {{ row_pitch }} + spot % {{ bn }}];
            }
{% if SPLIT %}
{{ store_ahead("sum[next]") }}{% else %}
            if (beta == 0) {
{{ store_ahead("alpha * sum[next]") }}            } else {
{{ store_ahead("alpha * sum[next] + beta * " ~ added("i", "j", real)) }}            }
{% endif %}
        }
    }
{% if inside_first %}
#ifdef PORTATILE_NVIDIA
    }
#endif
{% endif %}
