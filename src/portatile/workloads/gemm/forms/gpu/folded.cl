{# C is the sum of a product and its transpose: for a tile on the diagonal only one product was computed, to which its own transpose is
   added through local memory. There, blocks within a row are swizzled against bank conflicts. For complex elements the sums of (j, i) are
   those of (i, j) with rows and columns of elements exchanged; if C is Hermitian, also with rows and columns of their parts, which
   conjugates them. #}
{% set row, column = ("(j & -2 | i & 1)", "(i & -2 | j & 1)") if COMPLEX and not hermitian else ("j", "i") %}
    if (row0 == col0) {
        barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll
        for (int r = 0; r < {{ rows }}; ++r)
#pragma unroll
            for (int c = 0; c < {{ cols }}; ++c) {
                const int i = r / {{ TR }} * {{ jump_of["a"] }} + r % {{ TR }} + tr * {{ TR }}, j = c / {{ TC }} * {{ jump_of["b"] }} + c % {{ TC }} + tc * {{ TC }};
                tiles[i * {{ bn }} + (j ^ i % 32)] = acc[r][c];
            }
        barrier(CLK_LOCAL_MEM_FENCE);
{% if hermitian %}
        if (alpha.y != 0)
            {{ rescale_sums() }}
{% endif %}
#pragma unroll
        for (int r = 0; r < {{ rows }}; ++r)
#pragma unroll
            for (int c = 0; c < {{ cols }}; ++c) {
                const int i = r / {{ TR }} * {{ jump_of["a"] }} + r % {{ TR }} + tr * {{ TR }}, j = c / {{ TC }} * {{ jump_of["b"] }} + c % {{ TC }} + tc * {{ TC }};
                acc[r][c] += tiles[{{ row }} * {{ bn }} + ({{ column }} ^ {{ row }} % 32)];
            }
    }
