// Copies an operand to rows along k, `pitch` elements each, zeros past its k: what the forms on matrix units copy 16 bytes at a time.
//
// The operand is `across` x k in storage with K_FAST, else k x `across`. A group of 64 x 4 work-items copies a square of 64 x 64. alpha = 0
// must not read the operand.
{# with BATCH, groups of the third dimension are problems of the batch #}

__kernel __attribute__((reqd_work_group_size(64, 4, 1)))
void gemm_lines(const int across, const int k, const int pitch, const {{ factor }} alpha, __global const {{ stored }}* restrict base, const long offset,
                const int ld, __global {{ stored }}* restrict lines{{ ", const long base_batch, const long lines_batch" if BATCH }})
{
{% if not K_FAST %}
    __local {{ stored }} square[64][{{ 64 + 4 // itemsize }}];
{% endif %}
    const int x = (int)get_local_id(0), y = (int)get_local_id(1);
    const int k0 = (int)get_group_id(0) * 64, first = (int)get_group_id(1) * 64;
    __global const {{ stored }}* at = base + offset{{ " + (long)get_group_id(2) * base_batch" if BATCH }};
    __global {{ stored }}* to = lines{{ " + (long)get_group_id(2) * lines_batch" if BATCH }};
{% if EARLY %}
    AFTER_PREVIOUS();
    NEXT_MAY_START();
{% endif %}
    if (alpha == 0)
        return;
{% if K_FAST %}
    for (int i = first + y; i < min(first + 64, across); i += 4)
        if (k0 + x < pitch)
            to[(long)i * pitch + k0 + x] = k0 + x < k ? at[(long)i * ld + k0 + x] : 0;
{% else %}
    for (int kk = y; kk < 64; kk += 4)
        square[kk][x] = k0 + kk < k && first + x < across ? at[(long)(k0 + kk) * ld + first + x] : 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int i = y; i < min(64, across - first); i += 4)
        if (k0 + x < pitch)
            to[(long)(first + i) * pitch + k0 + x] = square[x][i];
{% endif %}
}
