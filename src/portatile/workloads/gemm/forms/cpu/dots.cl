{#
   A work-item has TR x TC sums, each a vector along k that is added up in the end:

        A, TR rows:   |----VL----|----VL----|...   along k, in place
        B, TC columns:|----VL----|----VL----|...   along k, in place or from panels one column wide

        v(r)_(c) += x(r) * y(c), UNROLL vectors of k at a time; sums[r][c] = v(r)_(c).s0 + v(r)_(c).s1 + ...
#}
// GEMM for processors if C has few rows or columns: a work-item multiplies TR rows of op(A) by TC columns of op(B), both read along k in
// vectors of VL, and adds up each vector of products in the end.
//
// C = alpha op(A) op(B) + beta C, every operand row-major. A is contiguous along k. B is contiguous along k, too (TRANS_B), or in panels of
// pack.cl one column wide. Rows and columns past the end repeat the last one. Work-group (x, y): tile x, counted down the columns, over
// `chunk` steps of k from start + y chunk on; with SPLIT it stores bare sums to plane y of `c`.
{% set realv = real if VL == 1 else real ~ VL %}
{% if real == "double" %}
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
{% endif %}
#if defined(PORTATILE_CUDA)
#define LOAD(p) {{ "(*(p))" if VL == 1 else "vload%d(0, p)" % VL }}
#else  // as in cpu.cl
typedef {{ realv }} loose __attribute__((aligned({{ itemsize }})));
#define LOAD(p) (*(__global const loose*)(p))
#endif

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
{% include "arguments.cl" %}
{
{% include "batch.cl" %}
    const int down = (m - 1) / TR + 1, group = (int)get_group_id(0);
    const int row0 = group % down * TR, col0 = group / down * TC;
    const int k0 = start + (int)get_group_id(1) * chunk;
    const int k1 = alpha == 0 ? k0 : min(k, k0 + chunk);  // alpha = 0 must not read A or B
{% for r in range(TR) %}
    __global const {{ real }}* a{{ r }} = a_base + a_offset + (long)min(row0 + {{ r }}, m - 1) * lda;
{% endfor %}
{% for c in range(TC) %}
    __global const {{ real }}* b{{ c }} = b_base + {{ "(long)min(col0 + %d, n - 1) * k" % c if PACK_B else "b_offset + (long)min(col0 + %d, n - 1) * ldb" % c }};
{% endfor %}
{% for r in range(TR) %}
    {{ realv }} {% for c in range(TC) %}v{{ r }}_{{ c }} = ({{ realv }})(0){{ ", " if not loop.last }}{% endfor %};
{% endfor %}

    int kk = k0;
    for (; kk + {{ UNROLL * VL }} <= k1; kk += {{ UNROLL * VL }}) {
{% for u in range(UNROLL) %}
        {
            const {{ realv }} {% for c in range(TC) %}y{{ c }} = LOAD(b{{ c }} + kk + {{ u * VL }}){{ ", " if not loop.last }}{% endfor %};
{% for r in range(TR) %}
            {
                const {{ realv }} x = LOAD(a{{ r }} + kk + {{ u * VL }});
{% for c in range(TC) %}
                v{{ r }}_{{ c }} += x * y{{ c }};
{% endfor %}
            }
{% endfor %}
        }
{% endfor %}
    }
    {{ real }} sums[TR][TC], parts[VL] __attribute__((aligned(64)));
{% for r in range(TR) %}
{% for c in range(TC) %}
    *({{ realv }}*)parts = v{{ r }}_{{ c }};
{% for width in (8, 4, 2, 1) if width < VL %}
    for (int i = 0; i < {{ width }}; ++i)
        parts[i] += parts[i + {{ width }}];
{% endfor %}
    sums[{{ r }}][{{ c }}] = parts[0];
{% endfor %}
{% endfor %}
    for (; kk < k1; ++kk) {
{% for r in range(TR) %}
{% for c in range(TC) %}
        sums[{{ r }}][{{ c }}] += a{{ r }}[kk] * b{{ c }}[kk];
{% endfor %}
{% endfor %}
    }

    __global {{ real }}* to = c_base + c_offset + (long)row0 * ldc + col0{{ " + (long)get_group_id(1) * m * n" if SPLIT }};
    for (int r = 0; r < min(TR, m - row0); ++r)
        for (int c = 0; c < min(TC, n - col0); ++c)
            to[(long)r * ldc + c] = {% if SPLIT %}sums[r][c]{% else %}alpha * sums[r][c] + (beta == 0 ? 0 : beta * to[(long)r * ldc + c]){% endif %};
}
