{# The end of gpu.cl if each work-item stores its own sums, in vectors of `w` elements. #}
{{ "    if (!unwanted)\n" if STREAMED }}#pragma unroll
    for (int r = 0; r < {{ rows }}; ++r) {
        const int i = r / {{ TR }} * {{ jump_of["a"] }} + r % {{ TR }} + tr * {{ TR }};
#pragma unroll
        for (int c = 0; c < {{ cols }}; c += {{ w }}) {
            const int j = c / {{ TC }} * {{ jump_of["b"] }} + c % {{ TC }}{{ " * 2 - odd * 2" if paired }} + tc * {{ TC }};
            __global {{ realw }}* to = (__global {{ realw }}*)(c_at + (long)i * ldc + j);
{% if w == 1 %}
            const {{ real }} sum = acc[r][c];
{% else %}
            const {{ realw }} sum = ({{ realw }})({% for e in range(w) %}acc[r][c + {{ e }}]{{ ", " if not loop.last }}{% endfor %});
{% endif %}
{{ skip_outside("i", "j") }}{% if SPLIT %}
            *to = sum;
{% else %}
            if (beta == 0)
                *to = alpha * sum;
            else
                *to = alpha * sum + beta * {{ added("i", "j", realw) }};
{% endif %}
        }
    }
