{# The end of gpu.cl for a tile that lies within a triangle of C: stores from registers, in vectors. The text after it is for all other
   tiles. #}
{% set realv = real ~ VL %}
{% set high, wide = (bm // 2, bn // 2) if QUARTERS else (bm, bn) %}
{% set in_triangle = "col0 + %d <= row0" % (wide - 1) if ZEROS == "c above" else "row0 + %d <= col0" % (high - 1) %}
#ifdef PORTATILE_NVIDIA  // PoCL 5 executes conditional barriers wrongly
    if ({{ in_triangle }}{{ " && row0 + %d <= m && col0 + %d <= n" % (high, wide) if C_EDGE }}) {
#pragma unroll
        for (int r = 0; r < {{ rows }}; ++r) {
            const int i = r / {{ TR }} * {{ jump_of["a"] }} + r % {{ TR }} + tr * {{ TR }};
#pragma unroll
            for (int c = 0; c < {{ cols }}; c += {{ VL }}) {
                const int j = c / {{ TC }} * {{ jump_of["b"] }} + c % {{ TC }} + tc * {{ TC }};
                const {{ realv }} sum = ({{ realv }})({% for e in range(VL) %}acc[r][c + {{ e }}]{{ ", " if not loop.last }}{% endfor %});
                __global {{ realv }}* to = (__global {{ realv }}*)(c_at + (long)i * ldc + j);
{% if KG > 1 %}
                if (part > 0)
                    continue;
{% endif %}
                if (beta == 0)
                    *to = alpha * sum;
                else
                    *to = alpha * sum + beta * *to;
            }
        }
    } else {
#endif
