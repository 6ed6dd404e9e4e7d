{#
   Local memory holds a work-item's columns of B for KB steps of k at a time; all tiles of a band, one below the other, are multiplied by
   them:

             local memory: panel[KB][TC]
                 +--------+
        k0..k1   |        |       written once for each stage, by the work-item itself
                 +--------+
                 +--------+
        tile 0   | TR x TC|       in registers for the stage, then added to C
                 +--------+
        tile 1   | TR x TC|
                 +--------+  ...  RASTER tiles, or all rows of C
#}
// GEMM for processors where each work-item has columns of its own: it copies TC columns of B, KB steps of k at a time, to local memory and
// multiplies them by all rows of A, or by those of its band.
//
// C = alpha op(A) op(B) + beta C, every operand row-major. Nothing is packed before, so there is one launch, and B is read once for each
// band; C is read and written once for each stage of k (the first stage reads it only if beta is not 0). Columns past n are zeros in local
// memory. Work-group x: the columns of bands of RASTER rows of tiles, one band after another (0: one band). A stage has `chunk` steps of k,
// at most KB. A is read as in cpu.cl, and TURN means what it means there.
{% from "registers.cl" import fetch, multiply, store, realv, vectors with context %}
{% if real == "double" %}
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
{% endif %}
{% include "vectors.cl" %}
{% if TRANS_B and TC % 4 == 0 %}
#if defined(PORTATILE_CUDA)
#define FOUR(p) vload4(0, p)
#else
typedef {{ real }}4 loose4 __attribute__((aligned({{ itemsize }})));
#define FOUR(p) (*(__global const loose4*)(p))
#endif
{% endif %}

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
{% include "arguments.cl" %}
{
    __local {{ real }} panel[KB * TC] __attribute__((aligned(64)));
{% include "batch.cl" %}
    const int down = (m - 1) / TR + 1, across = (n - 1) / TC + 1, group = (int)get_group_id(0);
{% if RASTER == 0 %}
    const int first = 0, last = down;
{% else %}
    const int first = group / across * RASTER, last = min(down, first + RASTER);
{% endif %}
    const int col = group % across * TC, own = 0, end = min(TC, n - col);
    const int known = alpha == 0 ? 0 : k;  // alpha = 0 must not read A or B
    int k0 = start;
    do {
        const int k1 = min(known, k0 + chunk);
        const {{ real }} factor = k0 == start ? beta : 1;  // later stages add to what the first one made of C
{% if TRANS_B %}
        __global const {{ real }}* from = b_base + b_offset + (long)col * ldb;
        if (end == TC) {
            const int steps = k1 - k0;
{% if TC % 4 == 0 %}
            for (int j = 0; j < TC; j += 4) {  // squares of four columns and steps, transposed in registers
                __global const {{ real }}* line = from + (long)j * ldb + k0;
                __local {{ real }}* to = panel + j;
                int l = 0;
                for (; l + 4 <= steps; l += 4, line += 4, to += 4 * TC) {
                    const {{ real }}4 w = FOUR(line), x = FOUR(line + ldb), y = FOUR(line + 2 * (long)ldb), z = FOUR(line + 3 * (long)ldb);
{% for e in range(4) %}
                    *(__local {{ real }}4*)(to + {{ e }} * TC) = ({{ real }}4)(w.s{{ e }}, x.s{{ e }}, y.s{{ e }}, z.s{{ e }});
{% endfor %}
                }
                for (; l < steps; ++l, ++line, to += TC)
                    for (int i = 0; i < 4; ++i)
                        to[i] = line[(long)i * ldb];
            }
{% else %}
            for (int l = 0; l < steps; ++l)
#pragma unroll
                for (int j = 0; j < TC; ++j)
                    panel[l * TC + j] = from[(long)j * ldb + k0 + l];
{% endif %}
        } else
            for (int j = 0; j < TC; ++j)
                for (int l = 0; l < k1 - k0; ++l)
                    panel[l * TC + j] = j < end ? from[(long)j * ldb + k0 + l] : 0;
{% else %}
        __global const {{ real }}* from = b_base + b_offset + (long)k0 * ldb + col;
        if (end == TC)
            for (int l = 0; l < k1 - k0; ++l, from += ldb) {
{% for v in range(vectors) %}
                *(__local {{ realv }}*)(panel + l * TC + {{ v * VL }}) = LOAD(from + {{ v * VL }});
{% endfor %}
            }
        else
            for (int l = 0; l < k1 - k0; ++l, from += ldb)
                for (int j = 0; j < TC; ++j)
                    panel[l * TC + j] = j < end ? from[j] : 0;
{% endif %}
        for (int tile_row = first; tile_row < last; ++tile_row) {
            const int row0 = tile_row * TR;
            __local const {{ real }}* b = panel;
{{ fetch(False) }}{{ multiply("k0", "k1", "__local") }}
{{ store("factor", False) }}        }
        k0 += chunk;
    } while (k0 < known);
}
