{#
   C, of which only one triangle may be touched (here the lower one), and its diagonal blocks, one after the other in `blocks`:

      +---+           +---+
      |\  |           |\ 0|  block 0, NB x NB
      |  \|     ->    |  \|
      +---+---+       +---+
      |   |\  |       |\ 0|  block 1
      |   |  \|       |  \|
      +---+---+       +---+
#}
// Copies the diagonal blocks of C for the products that accumulate into them: the triangle that may be touched, and zeros beside it.
//
// Block p, NB x NB, begins at element p NB^2 of `blocks`. A work-item takes one column of some rows. With beta = 0, C is not read.
{% from "scalars.cl" import nothing with context %}
#ifdef DOUBLE
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif

__kernel __attribute__((reqd_work_group_size(WGS, 1, 1)))
void syrk_take(const int order, const REAL beta, __global const REAL* restrict c, const long c_offset, const long ldc,
               __global REAL* restrict blocks)
{
    const int column = (int)get_global_id(0);
    c += c_offset;
    for (int i = (int)get_global_id(1); i < order; i += (int)get_global_size(1)) {
        const int start = i / NB * NB, j = start + column;
        if (column >= NB || j >= order)
            continue;
        REAL value = {{ nothing("beta") }} || (UPPER ? j < i : j > i) ? (REAL)(0) : c[i * ldc + j];
{% if HERMITIAN %}
        if (i == j)  // the imaginary part of the diagonal counts as zero
            value.y = 0;
{% endif %}
        blocks[(long)start * NB + (long)(i - start) * NB + column] = value;
    }
}
