{#
   The tile of C of a work-group, here with TRR = 2 and TCR = 2: blocks of (TBR TR) x (TBC TC), of each of which a work-item has TR x TC, as
   in generic.cl. But a warp of 32 work-items is a patch of 32 / LANES rows and LANES columns, so that all its loads touch few rows of the
   tiles.

        B's tiles in local memory    [STAGES][KB][bn]:  |stage 0|stage 1|stage 2|   filled by asynchronous copies,
        A's tiles beside them        [STAGES][KB][bm]   STAGES - 1 ahead of the one that is multiplied

              bn = TBC TC TCR columns
             +--------+--------+--------+--------+
             | warp 0 | warp 1 | warp 0 | warp 1 |    LANES columns of work-items, TC elements each, are a warp's
             +--------+--------+--------+--------+    part of a block
       bm =  | warp 2 | warp 3 | warp 2 | warp 3 |
       TBR   +--------+--------+--------+--------+    registers of a work-item: acc[TRR TR][TCR TC],
       TR    | warp 0 | warp 1 | warp 0 | warp 1 |    a[TRR TR] and b[TCR TC] of a step of k, twice with DOUBLE
       TRR   +--------+--------+--------+--------+
             | warp 2 | warp 3 | warp 2 | warp 3 |    KG such teams of warps share a stage: part p has steps
             +--------+--------+--------+--------+    p KB / KG .. (p + 1) KB / KG of the stage

   With MMA a warp multiplies squares of 16 x 16. Of each, lane 4 g + t (with eight LANES the same with rows and columns exchanged) holds

             4t 4t+1 4t+2 4t+3
        2g    c   c    c    c        C: two rows of four columns
        2g+1  c   c    c    c        A: rows 2g, 2g + 1 of steps 2t, 2t + 1; B: the same steps of columns 2g, 2g + 1
#}
// GEMM for GPUs: asynchronous copies bring tiles of both operands to a pipeline of STAGES in local memory; each work-item keeps a register
// tile and, with DOUBLE, loads the next operands from local memory while it multiplies the current ones (double buffering).
//
// C = alpha op(A) op(B) + beta C, every operand row-major. A_FROM and B_FROM name the source of each tile, which determines its layout in
// local memory; tiles.cl fills it.
// Work-group (x, y) computes tile x, in the order of RASTER, over `chunk` steps of k from start + y chunk on; with SPLIT it stores bare
// sums to plane y of `c`. The KG parts of a work-group divide the k of each stage, and add up their sums in the end, in order. LANES
// work-items of a warp lie along columns. With MMA (float64 on NVIDIA) a warp multiplies 16 x 8 x 8 blocks: with g = lane / 4 and t = lane
// % 4, a work-item owns rows 2g, 2g + 1 and columns 4t .. 4t + 3 of every 16 x 16 block, and loads steps 2t, 2t + 1 of k. So every load of
// an operand is 16 bytes: two neighbours across k, or along it if the tile keeps k fast. With eight LANES rows and columns change places.
// The instruction needs its A as pairs across k and its B as pairs along k; loaded in this way they need no moves between registers.
{% if JOIN %}
// With SPLIT the sums go to `planes` here, tile by tile, and the last work-group of a tile adds them up for C: see join.cl.
{% endif %}
{% if MMA_SHAPE == "16x8x16" %}
// Each instruction of this shape multiplies such a block and that of the next eight steps, `far`.
{% elif MMA_SHAPE != "16x8x8" %}
// Of this shape, a block takes {{ "2 instructions of 16 x 8 x 4" if MMA_SHAPE == "16x8x4" else "4 instructions of 8 x 8 x 4" }}.
{% endif %}
{% set rows = TRR * TR %}
{% set cols = TCR * TC %}
{% set bm = TBR * rows %}
{% set bn = TBC * cols %}
{# rows (columns) of a tile for each row (column) of C: a complex element is a square of 2 x 2 reals #}
{% set parts_c = 2 if COMPLEX else 1 %}
{% set team = TBR * TBC %}
{% set items = team * KG %}
{# sources whose tiles have rows along k, of reals and of complex elements; with the latter a lane's two steps of k lie four apart #}
{% set lines = ("lines", "dots", "dot_pairs") %}
{% set complex_lines = ("complexes", "mirrored") if MMA and COMPLEX else () %}
{% set spread = A_FROM in complex_lines or B_FROM in complex_lines %}
{% set lane_k = "lane % 4" if spread else "lane % 4 * 2" %}
{% set depth = VL if MMA or A_FROM in lines or B_FROM in lines else 1 %}
{% set halves = 2 if MMA_SHAPE == "16x8x16" else 1 %}
{% set unit = 8 * halves if MMA else depth %}
{% set steps = KB // KG // unit %}
{# steps of k that are unrolled, and the indices of the current and of the next set of operands #}
{% set turns = steps if UNROLL * KG >= KB else UNROLL // unit %}
{% set now, later = ("step % 2", "(step + 1) % 2") if turns == steps else ("within % 2", "(within + 1) % 2") %}
{% set vector = 16 // itemsize %}
{% set lda_tile = bm + (PAD if A_FROM in ("columns", "complexes", "mirrored") else vector if A_FROM == "shifted" else 0) %}
{% set ldb_tile = bn + (PAD if B_FROM in ("columns", "complexes", "mirrored") else vector if B_FROM == "shifted" else 0) %}
{% set stage = KB * (lda_tile + ldb_tile) %}
{# x is the operand of which a few rows are loaded at a time, y the one that all of them meet; for matrix instructions, A and B #}
{% set flipped = MMA and LANES == 8 %}
{% set x, y = ("b", "a") if flipped else ("a", "b") %}
{% set from_of = {"a": A_FROM, "b": B_FROM} %}
{% set shift_of = {"a": A_SHIFT, "b": B_SHIFT} if SHIFT else {} %}
{% set pitch_of = {"a": lda_tile, "b": ldb_tile} %}
{% set block_of = {"a": TR, "b": TC} %}
{# the distance between a work-item's blocks; with QUARTERS all blocks of a warp lie in one quarter of the tile #}
{% set jump_of = {"a": TBR * TR // (2 if QUARTERS else 1), "b": TBC * TC // (2 if QUARTERS else 1)} %}
{% set xs = cols if flipped else rows %}
{% set ys = (rows if flipped else cols) // (2 if MMA else 1) %}
{% set space = [STAGES * stage, bm * bn if KG > 1 or CLUSTER > 1 or DOUBLED else 0] | max %}
{# the row pitch in local memory if C is stored through it #}
{% set row_pitch = bn + VL %}
{# ZEROS names the triangle that whole tiles skip: "a above" is zero above A's diagonal, and so on; "c above" is not wanted of C #}
{% set triangle = ZEROS[:1] == "c" %}
{% set vectors = C_VECTORS and not triangle %}
{% set inside_first = triangle and C_VECTORS and not SPLIT and not STREAMED %}
{% set through = PLAIN and not vectors and not JOIN and CLUSTER == 1 and not QUARTERS and TBR * TR * row_pitch <= space %}
{% set wanted = {"c above": "col0 + %s <= row0 + %s", "c below": "col0 + %s >= row0 + %s"}.get(ZEROS, "") %}
{# the condition under which element (i, j) of the tile belongs to C; empty if all do #}
{% macro belongs(i, j) %}
{{ "row0 + %s < m && col0 + %s < n" | format(i, j) if C_EDGE }}{{ " && " if C_EDGE and triangle }}{{ wanted | format(j, i) if triangle }}
{%- endmacro %}
{# what beta multiplies: the old element of C at `to`, or with ADDED the vector of D at (i, j) of the tile #}
{% macro added(i, j, vector) %}
{{ "*(__global const %s*)(d_at + (long)(%s) * ldd + %s)" % (vector, i, j) if ADDED else "*to" }}
{%- endmacro %}
{% macro skip_outside(i, j) %}
{% if triangle %}
            if (!({{ belongs(i, j) }}))
                continue;
{% elif C_EDGE %}
            if (row0 + {{ i }} >= m || col0 + {{ j }} >= n)
                continue;
{% endif %}
{% endmacro %}
{% set local_argument = ", __local %s* tiles" % real if LOCAL_ARGUMENT else "" %}
{# the work-groups of a cluster, which share a tile's k, are neighbours along the first axis #}
{% set tile_group = "(int)get_group_id(0) / %d" % CLUSTER if CLUSTER > 1 else "(int)get_group_id(0)" %}
{% set rank = "(int)get_group_id(0) %% %d" % CLUSTER %}
{% set k_group = "(int)get_group_id(1)" if CLUSTER == 1 else "((int)get_group_id(1) * %d + %s)" % (CLUSTER, rank) if JOIN else rank %}
{% if real == "double" %}
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
{% endif %}
{% from "elements.cl" import combined, ending, nothing, vectors_of with context %}
{% from "tiles.cl" import place, fetch, held, settle, stride, turn, skew, shift, begins, spot with context %}
{% set held_any = held(A_FROM) or held(B_FROM) %}
{% macro settle_a() %}{{ settle("a", A_FROM, bm, lda_tile, A_EDGE, "lda", "row0", "m") }}{% endmacro %}
{% macro settle_b() %}{{ settle("b", B_FROM, bn, ldb_tile, B_EDGE, "ldb", "col0", "n") }}{% endmacro %}
{% macro settle_both() %}{{ settle_a() }}{{ settle_b() }}{% endmacro %}
{# the row or column of C (or k on the diagonal of a triangular operand) for a row or column of tiles #}
{% macro of_c(at) %}{{ "(%s) / 2" % at if COMPLEX else at }}{% endmacro %}
{% macro fetch_a() %}{{ fetch("a", A_FROM, bm, lda_tile, A_EDGE, "lda", "row0", "m") }}{% endmacro %}
{% macro fetch_b() %}{{ fetch("b", B_FROM, bn, ldb_tile, B_EDGE, "ldb", "col0", "n") }}{% endmacro %}
{# before stage number `stage` is copied: after the stages of the first product, A and B change places for the second #}
{% macro turn_over(stage) %}
{% if DOUBLED %}
        if ({{ stage }} == each) {
            const size_t other = (size_t)(b_base + b_offset) - (size_t)(a_base + a_offset);
            a_at = (__global const {{ real }}*)((size_t)(a_at - each * {{ stride(A_FROM, bm, "lda") }}) + other);
            b_at = (__global const {{ real }}*)((size_t)(b_at - each * {{ stride(B_FROM, bn, "ldb") }}) - other);
            k_next = k0;
        }
{% endif %}
{% endmacro %}
{# Between two products with factors alpha and conj(alpha): multiplies the sums of the first by alpha / conj(alpha). Of the four sums of a
   complex element, those that are then redundant become zero. #}
{% set hermitian = DOUBLED and REAL_DIAGONAL %}
{% macro rescale_sums() %}
#pragma unroll
            for (int r = 0; r < {{ rows }}; r += 2)
#pragma unroll
                for (int c = 0; c < {{ cols }}; c += 2) {
                    const {{ real }}2 sum = ({{ real }}2)({{ combined("acc[r][c]", "acc[r][c + 1]", "acc[r + 1][c]", "acc[r + 1][c + 1]") }});
                    acc[r][c] = turn.x * sum.x - turn.y * sum.y;
                    acc[r + 1][c] = {{ "-" if "a" in conjugated }}(turn.x * sum.y + turn.y * sum.x);
                    acc[r][c + 1] = acc[r + 1][c + 1] = 0;
                }
{% endmacro %}
{% macro advance() %}
            a_at += {{ stride(A_FROM, bm, "lda") }};
            b_at += {{ stride(B_FROM, bn, "ldb") }};
            k_next += {{ KB }};
            write = write == {{ (STAGES - 1) * stage }} ? 0 : write + {{ stage }};
{% endmacro %}
{% from "mend.cl" import mend with context %}
{% from "loads.cl" import load_all_x, load_x, load_y, sources with context %}
{% from "multiply.cl" import multiply with context %}
{# leaves the loop over steps as soon as all further ones lie past the end of k; tested every eight steps of k #}
{% macro end_early() %}
{% if K_REST %}
#ifdef PORTATILE_NVIDIA  // else the barrier of the last step would be conditional, which PoCL 5 executes wrongly
            if ({{ "step > 0 && " if KG == 1 }}step % {{ [8 // unit, 1] | max }} == 0 && left <= step * {{ unit }})
                break;
#endif
{% endif %}
{% endmacro %}
{# what streamed.cl keeps in local memory #}
{% set kept_names = ("origin", "end", "at", "row0", "col0", "number") %}
{% macro kept(name) %}kept[{{ kept_names.index(name) }}]{% endmacro %}

{% if not PLAIN and (JOIN or not SPLIT) %}
{{ ending() }}
{%- endif %}
{% if JOIN or STREAMED %}
{% from "join.cl" import arrival %}
{{ arrival() }}
{%- endif %}
{% if CLUSTER > 1 %}
CLUSTER({{ CLUSTER }})
{% endif %}
__kernel __attribute__((reqd_work_group_size({{ items }}, 1, 1)))
{% include "arguments.cl" %}
{
    AFTER_PREVIOUS();  // without NEXT_MAY_START, which made consecutive products slower
{% if not LOCAL_ARGUMENT %}
    __local {{ real }} tiles[{{ space }}] __attribute__((aligned(128)));
{% endif %}
{% include "batch.cl" %}
    const int item = (int)get_local_id(0), part = item / {{ team }};
    const int warp = item % {{ team }} / 32, lane = item % 32;
{% if spread %}
    const int apart = lane / 4 % 2 ? -8 : 8;  // the distance between the two steps of k of a lane, in rows of complex elements
{% endif %}
{% if QUARTERS %}
{# the warps of a quarter, down and across #}
{% set warps_down, warps_across = TBR * LANES // 64, TBC // LANES // 2 %}
    const int quarter = warp / {{ 2 * warps_across * warps_down }} * 2 + warp % {{ 2 * warps_across }} / {{ warps_across }};
    const int warp_row = warp / {{ 2 * warps_across }} % {{ warps_down }}, warp_col = warp % {{ warps_across }};
{% else %}
    const int warp_row = warp / {{ TBC // LANES }}, warp_col = warp % {{ TBC // LANES }};
{% endif %}
    const int tr = warp_row * {{ 32 // LANES }} + {{ "lane % 4" if flipped else "lane / %d" % LANES }}, tc = warp_col * {{ LANES }} + {{ "lane / 4" if flipped else "lane %% %d" % LANES }};

{% if STREAMED %}
{% include "streamed.cl" %}
{% else %}
{% if triangle %}
    const int group = {{ tile_group }};
{% set number = "group" %}
{% if QUARTERS %}
{% include "quarters.cl" %}
{% elif REST %}
{% include "rest.cl" %}
{% elif DOUBLED %}
{% include "doubled.cl" %}
{% else %}
{% include "triangle_tile.cl" %}
{% endif %}
{% else %}
{% include "raster.cl" %}
{% endif %}
{% set least = {"a below": of_c("row0"), "b above": of_c("col0")}.get(ZEROS, "") %}
{% set most = {"a above": of_c("row0 + %d" % bm), "b below": of_c("col0 + %d" % bn)}.get(ZEROS, "") %}
    const int k0 = {{ "max(" if least }}start + {{ k_group }} * chunk{{ ", %s / %d * %d)" % (least, KB, KB) if least }};
    const int k1 = {{ nothing("alpha") }}{{ " || nowhere" if REST }} ? k0 : {{ "max(k0, " if least or most }}min({{ "min(k, %s)" % most if most else "k" }}, {{ "start + (%s + 1) * chunk" % k_group if least else "k0 + chunk" }}){{ ")" if least or most }};  // alpha = 0 must not read A or B
{% if DOUBLED %}
    const int each = (k1 - k0 + {{ KB - 1 }}) / {{ KB }}, count = row0 == col0 ? each : 2 * each;
{% if hermitian %}
    const {{ factor }} direction = {{ nothing("alpha") }} ? alpha : alpha / hypot(alpha.x, alpha.y);  // alpha / conj(alpha) is its square
    const {{ factor }} turn = ({{ factor }})(direction.x * direction.x - direction.y * direction.y, 2 * direction.x * direction.y);
{% endif %}
{% else %}
    const int count = (k1 - k0 + {{ KB - 1 }}) / {{ KB }};
{% endif %}
{% endif %}

{% for piece in range(PIECES) %}
{% if STREAMED %}
{% include "streamed_piece.cl" %}
{% endif %}
{{ place("a", A_FROM, bm, lda_tile, A_EDGE, "lda", "row0", "m") }}{{ place("b", B_FROM, bn, ldb_tile, B_EDGE, "ldb", "col0", "n") }}
{% if not STREAMED %}
    {{ real }} acc[{{ rows }}][{{ cols }}];
{% endif %}
#pragma unroll
    for (int r = 0; r < {{ rows }}; ++r)
#pragma unroll
        for (int c = 0; c < {{ cols }}; ++c)
            acc[r][c] = 0;
    {{ real }} {{ x }}[{{ 2 if DOUBLE == 2 else 1 }}][{{ xs * depth * halves }}], {{ y }}[{{ 2 if DOUBLE else 1 }}][{{ ys * depth * halves }}];

    int k_next = k0, read = 0, write = 0;
{% if STAGES > 1 %}
#pragma unroll
    for (int early = 0; early < {{ STAGES - 1 }}; ++early) {
{{ turn_over("early") }}        if (early < count) {
            __local {{ real }}* a_to = tiles + write;
            __local {{ real }}* b_to = tiles + write + {{ KB * lda_tile }};
{{ fetch_a() }}{{ fetch_b() }}{{ settle_both() }}{{ advance() }}        }
        COPY_ASYNC_COMMIT();
    }
{% if DOUBLE %}
    COPY_ASYNC_WAIT({{ STAGES - 2 }});
    barrier(CLK_LOCAL_MEM_FENCE);
    {
{{ mend("k0") }}{{ sources("0") }}{{ load_all_x("0") }}{{ load_y("0") }}    }
{% endif %}
{% endif %}
{% if hermitian %}
    int tile = 0;
    for (int past = each; tile < count; past = count) {
        if (tile == each && alpha.y != 0)
            {{ rescale_sums() }}
    for (; tile < past; ++tile) {
{% else %}
    for (int tile = 0; tile < count; ++tile) {
{% endif %}
{{ turn_over("tile + %d" % (STAGES - 1)) }}        __local {{ real }}* a_to = tiles + write;
        __local {{ real }}* b_to = tiles + write + {{ KB * lda_tile }};
{% if STAGES == 1 %}
        barrier(CLK_LOCAL_MEM_FENCE);
{{ fetch_a() }}{{ fetch_b() }}{{ settle_both() }}{{ advance() }}        COPY_ASYNC_COMMIT();
        COPY_ASYNC_WAIT(0);
        barrier(CLK_LOCAL_MEM_FENCE);
{{ mend("k0 + tile * %d" % KB) }}{% elif not DOUBLE %}
        COPY_ASYNC_WAIT({{ STAGES - 2 }});
        barrier(CLK_LOCAL_MEM_FENCE);
{{ mend("k0 + tile * %d" % KB) }}        if (tile + {{ STAGES - 1 }} < count) {
{{ fetch_a() }}{{ fetch_b() }}{{ advance() }}        }
        COPY_ASYNC_COMMIT();
{% endif %}
{% if K_REST %}
        const int left = k1 - k0 - tile * {{ KB }}{{ " - part * %d" % (KB // KG) if KG > 1 }};  // steps of k that are left
{% endif %}
{% if turns == steps %}
#pragma unroll
        for (int step = 0; step < {{ steps }}; ++step) {
{% else %}
#pragma unroll 1
        for (int first = 0; first < {{ steps }}; first += {{ turns }})
#pragma unroll
        for (int within = 0; within < {{ turns }}; ++within) {
            const int step = first + within;
{% endif %}
{{ end_early() }}{% if DOUBLE %}
{% if K_REST %}
#ifdef PORTATILE_NVIDIA
            if (step == {{ steps - 1 }} && tile + 1 < count) {
#else
            if (step == {{ steps - 1 }}) {
#endif
{% else %}
            if (step == {{ steps - 1 }}) {
{% endif %}
{% if held_any %}
                if (tile + {{ STAGES - 1 }} < count) {
{{ settle_both() }}                }
{% endif %}
                // all work-items have loaded this stage, so it may be overwritten; and the next stage is complete
                COPY_ASYNC_WAIT({{ STAGES - 2 }});
                barrier(CLK_LOCAL_MEM_FENCE);
                read = read == {{ (STAGES - 1) * stage }} ? 0 : read + {{ stage }};
{{ mend("k0 + (tile + 1) * %d" % KB) }}            }
{{ sources("(step + 1) %% %d" % steps) }}
{{ load_y(later) }}
{% if DOUBLE == 2 %}
{{ load_all_x(later) }}
{% endif %}
            if (step == 0 && tile + {{ STAGES - 1 }} < count) {
{{ fetch_a() }}            }
            if (step == {{ 1 if steps > 2 else 0 }}) {
                if (tile + {{ STAGES - 1 }} < count) {
{{ fetch_b() }}{{ advance() }}                }
                COPY_ASYNC_COMMIT();
            }
#pragma unroll
            for (int r = 0; r < {{ xs }}; r += {{ VL }}) {
{{ multiply(now if DOUBLE == 2 else "0", now) }}
{% if DOUBLE == 1 %}
{{ load_x("0", "r") }}
{% endif %}
            }
{% else %}
{{ sources("step") }}{{ load_all_x("0") }}{{ load_y("0") }}
#pragma unroll
            for (int r = 0; r < {{ xs }}; r += {{ VL }}) {
{{ multiply("0", "0") }}            }
{% endif %}
        }
{% if not DOUBLE and STAGES > 1 %}
{% if held_any %}
        if (tile + {{ STAGES - 1 }} < count) {
{{ settle_both() }}        }
{% endif %}
        read = read == {{ (STAGES - 1) * stage }} ? 0 : read + {{ stage }};
{% endif %}
    }
{% if hermitian %}
    }
{% endif %}

{% if KG > 1 %}
{% include "team_sums.cl" %}
{% endif %}

{% if STREAMED %}
{% include "streamed_sums.cl" %}
{% endif %}
{% if DOUBLED %}
{% include "folded.cl" %}
{% endif %}
{% if QUARTERS %}
    {
    const int row0 = quarter_row, col0 = quarter_col;
{% endif %}
    __global {{ real if SPLIT and not JOIN else stored_c }}* c_at = c_base + c_offset + (long){{ "(row0 / 2)" if COMPLEX else "row0" }} * ldc + col0{{ " + (long)get_group_id(1) * %s * n" % ("(m / 2)" if COMPLEX else "m") if SPLIT and not JOIN }};
{% if ADDED %}
    __global const {{ real }}* d_at = d_base + d_offset + (long){{ "(row0 / 2)" if COMPLEX else "row0" }} * ldd + col0;
{% endif %}
{% set w = VL if vectors and PLAIN else 1 %}
{% set realw = real if w == 1 else real ~ w %}
{% set paired = MMA and w == 2 and not flipped %}
{% if paired %}
{% include "exchange.cl" %}
{% endif %}
{% if CLUSTER > 1 %}
{% include "clustered.cl" %}
{% elif JOIN %}
{% include "joined.cl" %}
{% elif not PLAIN %}
#pragma unroll
    for (int r = 0; r < {{ rows }}; r += {{ parts_c }}) {
        const int i = r / {{ TR }} * {{ jump_of["a"] }} + r % {{ TR }} + tr * {{ TR }};
#pragma unroll
        for (int c = 0; c < {{ cols }}; c += {{ parts_c }}) {
            const int j = c / {{ TC }} * {{ jump_of["b"] }} + c % {{ TC }} + tc * {{ TC }};
            __global {{ real if SPLIT else stored_c }}* to = c_at + (long){{ "(i / 2)" if COMPLEX else "i" }} * ldc + j;
{{ skip_outside("i", "j") }}{% if COMPLEX %}
            const {{ real }}2 sum = ({{ real }}2)({{ combined("acc[r][c]", "acc[r][c + 1]", "acc[r + 1][c]", "acc[r + 1][c + 1]") }});
{{ "            to[0] = sum.x;\n            to[1] = sum.y;" if SPLIT else "            put(to, sum.x, sum.y, %s, beta%s%s);" % ("(%s)(alpha.x, -alpha.y)" % factor if hermitian else "alpha", ", d_at + (long)(i / 2) * ldd + j" if ADDED, ", row0 + i == col0 + j" if REAL_DIAGONAL) }}
{% else %}
{{ "            *to = acc[r][c];" if SPLIT else "            put(to, acc[r][c], alpha, beta%s);" % vectors_of("row0 + i", "col0 + j") }}
{% endif %}
        }
    }
{% elif through %}
{% if inside_first %}
{% include "store_inside.cl" %}
{% endif %}
{% include "store_rows.cl" %}
{% else %}
{% if QUARTERS and C_VECTORS %}
{% include "store_inside.cl" %}
{% endif %}
{% include "store_vectors.cl" %}
{% if QUARTERS and C_VECTORS %}
#ifdef PORTATILE_NVIDIA
    }
#endif
{% endif %}
{% endif %}
{% if QUARTERS %}
    }
{% endif %}
{% if STREAMED %}
{% include "streamed_end.cl" %}
{% endif %}
{% endfor %}
}
