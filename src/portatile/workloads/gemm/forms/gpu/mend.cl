{# Replaces what a tile has beyond the triangle of an operand by zeros in local memory, before it is read. #}
{% from "tiles.cl" import spot with context %}
{# for a triangular operand that is not packed; with UNIT the diagonal becomes ones #}
{% set guarded = ZEROS[:1] if from_of[ZEROS[:1]] | default("panel") != "panel" else "" %}
{% macro mend(k_of) %}
{% if guarded %}
{% set from, wide, pitch, first, base = (A_FROM, bm, lda_tile, "row0", "read") if guarded == "a" else (B_FROM, bn, ldb_tile, "col0", "read + %d" % (KB * lda_tile)) %}
            const int mended = {{ k_of }} - {{ of_c(first) }};  // steps of k from the diagonal to the tile's first step
            if (mended < {{ wide // parts_c }} && mended > -{{ KB }}) {
#pragma unroll 1
                for (int at = item; at < {{ KB * wide }}; at += {{ items }}) {
                    const int i = at % {{ wide }}, kk = at / {{ wide }}, past = mended + kk - {{ of_c("i") }};
                    if (past {{ ">" if ZEROS in ("a above", "b below") else "<" }}{{ "=" if UNIT }} 0)
                        tiles[{{ base }} + {{ spot(from, pitch, "kk", "i", guarded) }}] = {{ ("past == 0 && i % 2 == 0" if COMPLEX else "past == 0 ? 1 : 0") if UNIT else "0" }};
                }
#ifdef PORTATILE_NVIDIA
                barrier(CLK_LOCAL_MEM_FENCE);
            }
#else
            }
            barrier(CLK_LOCAL_MEM_FENCE);  // unconditional, because PoCL 5 executes a conditional one wrongly
#endif
{% endif %}
{% endmacro %}
