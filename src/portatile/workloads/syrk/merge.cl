{#
   The product's diagonal blocks, one after the other, and C, of which only one triangle may be touched (here the lower one):

      +---+           +---+
      |\ -|           |\  |      each element of the triangle: C = block + beta C
      |  \|     ->    |  \|
      +---+           +---+---+
      |\ -|               |\  |
      |  \|               |  \|
      +---+               +---+
#}
// Updates the diagonal blocks of C, of which only one triangle may be touched: C = block + beta C there.
//
// Block p, NB x NB, begins at element p NB^2 of `blocks`. A work-item takes one column of some rows.
{% from "scalars.cl" import functions, nothing, step, steps, times with context %}
#ifdef DOUBLE
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif
{{ functions() }}

__kernel __attribute__((reqd_work_group_size(WGS, 1, 1)))
void syrk_merge(const int order, const REAL beta, __global const REAL* restrict blocks,
                __global REAL* restrict c, const long c_offset, const long ldc{{ steps(["blocks", "c"]) }})
{
{{ step(["blocks", "c"]) }}    const int column = (int)get_global_id(0);
    c += c_offset;
    for (int i = (int)get_global_id(1); i < order; i += (int)get_global_size(1)) {
        const int start = i / NB * NB, j = start + column;
        if (column >= NB || j >= order || (UPPER ? j < i : j > i))
            continue;
        const REAL value = blocks[(long)start * NB + (long)(i - start) * NB + column];
        __global REAL* to = c + i * ldc + j;
{% if COMPLEX %}
        REAL sum = {{ nothing("beta") }} ? value : value + {{ times("beta", "*to") }};
{% if HERMITIAN %}
        if (i == j)  // the imaginary part of the diagonal counts as zero, and is stored as zero
            sum = (REAL)({{ nothing("beta") }} ? value.x : value.x + beta.x * (*to).x, 0);
{% endif %}
        *to = sum;
{% else %}
        *to = beta == 0 ? value : value + beta * *to;
{% endif %}
    }
}
