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
#pragma unroll 4
        for (int spot = item; spot < {{ "(unwanted ? 0 : %d)" % (block * bn) if STREAMED else block * bn }}; spot += {{ items }}) {
            const int i = spot / {{ bn }} + piece * {{ block }}, j = spot % {{ bn }};
            const {{ real }} sum = tiles[spot / {{ bn }} * {{ row_pitch }} + j];
            __global {{ real }}* to = c_at + (long)i * ldc + j;
{{ skip_outside("i", "j") }}{% if SPLIT %}
            *to = sum;
{% else %}
            if (beta == 0)
                *to = alpha * sum;
            else
                *to = alpha * sum + beta * {{ added("i", "j", real) }};
{% endif %}
        }
    }
{% if inside_first %}
#ifdef PORTATILE_NVIDIA
    }
#endif
{% endif %}
