// GEMM for processors with vector registers: a work-item keeps a register tile of TR rows x TC columns over all of its k.
//
// C = alpha op(A) op(B) + beta C, every operand row-major. The compiler sees one work-item per group, explicit vectors of VL
// and scalars only, so the tile stays in registers; neighbouring groups move down the rows and share the columns of B in
// cache. With PACK_A, PACK_B the operand is in panels of pack.cl, TR rows or TC columns wide, zeros where it ends; without,
// it is read in place: rows past m repeat row m - 1, and a tile of columns past n moves back over its neighbour and stores
// only its own part. Group (x, y): tile x, counted down the columns of bands of RASTER rows of tiles (0: one band), and k from
// start + y chunk on, `chunk` steps; with SPLIT bare sums go to plane y of `c`. KB is the host's: the steps of one launch.
{# with BATCH, group (x, y, z) works on problem z of the batch, whose operands lie z times *_batch elements on #}
{% set vectors = TC // VL %}
{% set realv = real if VL == 1 else real ~ VL %}
{% if real == "double" %}
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
{% endif %}
{% if MAD == "fma" %}
#define MULTIPLY_ADD(x, y, z) fma(({{ realv }})(x), (y), (z))
{% elif MAD == "mad" %}
#define MULTIPLY_ADD(x, y, z) mad(({{ realv }})(x), (y), (z))
{% else %}
#define MULTIPLY_ADD(x, y, z) ((x) * (y) + (z))
{% endif %}
#if defined(PORTATILE_CUDA)
#define LOAD(p) {{ "(*(p))" if VL == 1 else "vload%d(0, p)" % VL }}
#define STORE(x, p) {{ "(*(p) = (x))" if VL == 1 else "vstore%d(x, 0, p)" % VL }}
#else  // not vload: some compilers call it as a function, and some do not survive its 512-bit forms
typedef {{ realv }} loose __attribute__((aligned({{ 4 if real == "float" else 8 }})));
#define LOAD(p) (*(__global const loose*)(p))
#define STORE(x, p) (*(__global loose*)(p) = (x))
#endif

{% macro step(u) %}
        {
            const {{ realv }} {% for v in range(vectors) %}b{{ v }} = {% if PACK_B %}*(__global const {{ realv }}*)(b + {{ u * TC + v * VL }}){% else %}LOAD(b + {{ v * VL }}{{ " + (long)%d * b_step" % u if u }}){% endif %}{{ ", " if not loop.last }}{% endfor %};
{% for r in range(TR) %}
            {
{% if PACK_A %}
                const {{ real }} a = a_at[{{ u * TR + r }}];
{% elif TRANS_A %}
                const {{ real }} a = a_at[r{{ r }}{{ " + (long)%d * a_step" % u if u }}];
{% else %}
                const {{ real }} a = a{{ r }}[kk{{ " + %d" % u if u }}];
{% endif %}
{% for v in range(vectors) %}
                c{{ r }}_{{ v }} = MULTIPLY_ADD(a, b{{ v }}, c{{ r }}_{{ v }});
{% endfor %}
            }
{% endfor %}
        }
{% endmacro %}
{% macro advance(steps) %}
        b += {{ steps * TC if PACK_B else "(long)%d * b_step" % steps }};
{% if PACK_A %}
        a_at += {{ steps * TR }};
{% elif TRANS_A %}
        a_at += (long){{ steps }} * a_step;
{% endif %}
{% endmacro %}
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void gemm(const int m, const int n, const int k, const int start, const int chunk, const {{ real }} alpha, const {{ real }} beta,
          __global const {{ real }}* restrict a_base, const long a_offset, const int lda,
          __global const {{ real }}* restrict b_base, const long b_offset, const int ldb,
          __global {{ real }}* restrict c_base, const long c_offset, const int ldc{{ ", const long a_batch, const long b_batch, const long c_batch" if BATCH }})
{
{% if BATCH %}
    a_base += (long)get_group_id(2) * a_batch;
    b_base += (long)get_group_id(2) * b_batch;
    c_base += (long)get_group_id(2) * c_batch;
{% endif %}
    const int down = (m - 1) / TR + 1, across = (n - 1) / TC + 1, group = (int)get_group_id(0);
{% if RASTER == 0 %}
    const int tile_row = group % down, tile_col = group / down;
{% else %}
    const int band = group / (RASTER * across), within = group - band * (RASTER * across);
    const int height = min(RASTER, down - band * RASTER);
    const int tile_row = band * RASTER + within % height, tile_col = within / height;
{% endif %}
    const int row0 = tile_row * TR, col0 = tile_col * TC;
    const int k0 = start + (int)get_group_id(1) * chunk;
    const int k1 = alpha == 0 ? k0 : min(k, k0 + chunk);  // alpha = 0 must not read A or B
{% if PACK_B %}
    __global const {{ real }}* b = b_base + ((long)tile_col * k + k0) * TC;
    const int own = 0;
    const int col = col0;
{% else %}
    const int col = min(col0, n - TC), own = col0 - col;
    __global const {{ real }}* b = b_base + b_offset + (long)k0 * ldb + col;
    const int b_step = ldb;
{% endif %}
{% if PACK_A %}
    __global const {{ real }}* a_at = a_base + ((long)tile_row * k + k0) * TR;
{% elif TRANS_A %}
    __global const {{ real }}* a_at = a_base + a_offset + (long)k0 * lda + row0;
    const int a_step = lda;
    const int {% for r in range(TR) %}r{{ r }} = min({{ r }}, m - 1 - row0){{ ", " if not loop.last }}{% endfor %};
{% else %}
{% for r in range(TR) %}
    __global const {{ real }}* a{{ r }} = a_base + a_offset + (long)min(row0 + {{ r }}, m - 1) * lda;
{% endfor %}
{% endif %}
{% for r in range(TR) %}
    {{ realv }} {% for v in range(vectors) %}c{{ r }}_{{ v }} = ({{ realv }})(0){{ ", " if not loop.last }}{% endfor %};
{% endfor %}

    int kk = k0;
{% if UNROLL > 1 %}
    for (; kk + {{ UNROLL }} <= k1; kk += {{ UNROLL }}) {
{% for u in range(UNROLL) %}
{{ step(u) }}{% endfor %}
{{ advance(UNROLL) }}    }
{% endif %}
    for (; kk < k1; ++kk) {
{{ step(0) }}
{{ advance(1) }}    }

    __global {{ real }}* c = c_base + c_offset + (long)row0 * ldc + col{{ " + (long)get_group_id(1) * m * n" if SPLIT }};
    if (own == 0 && col + TC <= n) {
{% for r in range(TR) %}
        if (row0 + {{ r }} < m) {
            __global {{ real }}* to = c + (long){{ r }} * ldc;
{% if SPLIT %}
{% for v in range(vectors) %}
            STORE(c{{ r }}_{{ v }}, to + {{ v * VL }});
{% endfor %}
{% else %}
            if (beta == 0) {
{% for v in range(vectors) %}
                STORE(alpha * c{{ r }}_{{ v }}, to + {{ v * VL }});
{% endfor %}
            } else {
{% for v in range(vectors) %}
                STORE(alpha * c{{ r }}_{{ v }} + beta * LOAD(to + {{ v * VL }}), to + {{ v * VL }});
{% endfor %}
            }
{% endif %}
        }
{% endfor %}
    } else {
        {{ real }} line[TC] __attribute__((aligned(64)));
        const int end = min(TC, n - col);
{% for r in range(TR) %}
        if (row0 + {{ r }} < m) {
            __global {{ real }}* to = c + (long){{ r }} * ldc;
{% for v in range(vectors) %}
            *({{ realv }}*)(line + {{ v * VL }}) = c{{ r }}_{{ v }};
{% endfor %}
            for (int j = own; j < end; ++j)
                to[j] = {% if SPLIT %}line[j]{% else %}alpha * line[j] + (beta == 0 ? 0 : beta * to[j]){% endif %};
        }
{% endfor %}
    }
}
