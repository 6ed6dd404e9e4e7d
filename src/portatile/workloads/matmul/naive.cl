// C = A B, row-major, without local memory: one work-item for all of C, or one for each element.
// REAL is the element type, INDEX an integer type that can hold every index of the operands. The pointers are not restrict:
// a compiler that knew that C does not alias A or B would keep the sum in a register even with ACCUMULATE_IN_C.
#ifdef DOUBLE
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif

{% macro at(x, place) %}{{ "LDG(%s + %s)" % (x, place) if ldg else "%s[%s]" % (x, place) }}{% endmacro %}
// c[0] = the sum over p of a[p] b[p * ldb]
void element(const int k, __global const REAL* a, __global const REAL* b, const INDEX ldb, __global REAL* c)
{
#if ACCUMULATE_IN_C
    *c = 0;
#pragma unroll{{ unroll }}
    for (int p = 0; p < k; p++)
        *c += {{ at("a", "p") }} * {{ at("b", "p * ldb") }};
#else
    REAL sum = 0;
#pragma unroll{{ unroll }}
    for (int p = 0; p < k; p++)
        sum += {{ at("a", "p") }} * {{ at("b", "p * ldb") }};
    *c = sum;
#endif
}

{% if algorithm == "sequential" %}
__kernel void matmul_sequential(
    const int m, const int n, const int k,
    __global const REAL* a, const INDEX a_offset, const INDEX lda,
    __global const REAL* b, const INDEX b_offset, const INDEX ldb,
    __global REAL* c, const INDEX c_offset, const INDEX ldc)
{
    for (int row = 0; row < m; row++)
        for (int column = 0; column < n; column++)
            element(k, a + a_offset + row * lda, b + b_offset + column, ldb, c + c_offset + row * ldc + column);
}
{% else %}
__kernel __attribute__((reqd_work_group_size(BLOCK, BLOCK, 1))) void matmul_global(
    const int m, const int n, const int k,
    __global const REAL* a, const INDEX a_offset, const INDEX lda,
    __global const REAL* b, const INDEX b_offset, const INDEX ldb,
    __global REAL* c, const INDEX c_offset, const INDEX ldc)
{
    const int column = (int)get_global_id(0);
    for (int row = (int)get_global_id(1); row < m; row += (int)get_global_size(1))
        if (column < n)
            element(k, a + a_offset + row * lda, b + b_offset + column, ldb, c + c_offset + row * ldc + column);
}
{% endif %}
