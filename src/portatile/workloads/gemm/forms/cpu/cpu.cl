{#
   The register tile of a work-item, which is a work-group by itself: TR rows x TC columns, each row TC / VL vectors, kept in registers for
   all k.

                        B: a panel TC wide (PACK_B), or k x n in place
                       +----------+----------+
               step kk | b0 (VL)  | b1 (VL)  |   loaded once for each step of k, for all rows
                       +----------+----------+
      A      +---+     +----------+----------+
      TR     | a |  x  |  c0_0    |  c0_1    |   row r of the tile: c(r)_(v) += a b(v); a is one element,
      rows   | a |     |  c1_0    |  c1_1    |   spread over a vector. With PACK_A the TR elements of a step
             | a |     |  c2_0    |  c2_1    |   are neighbours in a panel.
             +---+     +----------+----------+

   Work-groups go down the rows of a band of RASTER tiles, then to the next columns: the B that they share stays in the first-level cache,
   the A that they share in the second.

        band 0   1  4  7        band 1 follows with the tiles below
                 2  5  8
                 3  6  9
#}
// GEMM for processors with vector registers: a work-item keeps a register tile of TR rows x TC columns over all of its k.
//
// C = alpha op(A) op(B) + beta C, every operand row-major. A work-group has one work-item, and the text uses only explicit vectors of VL
// and scalars, so that the tile stays in registers. With PACK_A, PACK_B the operand is in panels of pack.cl, TR rows or TC columns wide,
// with zeros where it ends. Otherwise it is read in place: rows past m repeat row m - 1, and a tile of columns past n moves back over its
// neighbour and stores only its own part. Work-group (x, y): tile x, counted down the columns of bands of RASTER rows of tiles (0: one
// band), over `chunk` steps of k from start + y chunk on; with SPLIT it stores bare sums to plane y of `c`. KB is used by the host: the
// steps of k of one launch. With TURN C is computed transposed (see registers.cl).
// ZEROS names the triangle that whole tiles skip: "a below" is zero below A's diagonal, and so on; "c below" is not wanted of C and stays
// as it is. With FETCH the cache lines of C that a tile overwrites are prefetched while its sums are computed: otherwise the stores wait
// for them. made: the stores would wait for them.
{% from "registers.cl" import fetch, multiply, store, realv with context %}
{% set panel = "__global" if PACK_B else "" %}
{% if real == "double" %}
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
{% endif %}
{% include "vectors.cl" %}
{% from "elements.cl" import eight_narrowed, ending, nothing with context %}
{% if not PLAIN_C and not SPLIT %}
{{ ending() }}
{%- endif %}
{% if EIGHT_C %}
{{ eight_narrowed() }}
{%- endif %}

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
{% include "arguments.cl" %}
{
{% include "batch.cl" %}
{% include "bands.cl" %}
{% if ZEROS == "c below" %}
    if (row0 >= col0 + TC)
        return;
{% elif ZEROS == "c above" %}
    if (col0 >= row0 + TR)
        return;
{% endif %}
{# the row or column of C that belongs to one of tiles: a complex element is a square of 2 x 2 reals #}
{% set of_c = "(%s) / 2" if COMPLEX else "%s" %}
    const int k0 = {{ {"a below": of_c % "row0", "b above": of_c % "col0"}.get(ZEROS, "start + (int)get_group_id(1) * chunk") }};
    const int k1 = {{ nothing("alpha") }} ? k0 : min(k, {{ {"a above": of_c % "row0 + TR", "b below": of_c % "col0 + TC"}.get(ZEROS, "k0 + chunk" if not ZEROS or ZEROS[0] == "c" else "k") }});  // alpha = 0 must not read A or B
{% if PACK_B %}
    __global const {{ real }}* b = b_base + ((long)tile_col * k + k0) * TC;
    const int own = 0;
    const int col = col0;
{% else %}
    const int col = min(col0, n - TC), own = col0 - col;
    __global const {{ real }}* b = b_base + b_offset + (long)k0 * ldb + col;
    const int b_step = ldb;
{% endif %}
{{ fetch(SPLIT) }}{{ multiply("k0", "k1", panel) }}
    const int end = min(TC, n - col);
{{ store("beta", SPLIT) }}}
