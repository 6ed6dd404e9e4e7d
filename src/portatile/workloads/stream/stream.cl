{#
   The vectors of item i of work-group g: PER_ITEM vectors of VECTOR elements, here 3 for each of 4 items (WGS 4), by ORDER:

     item    | i0 i0 i0 | i1 i1 i1 | i2 i2 i2 | i3 i3 i3 | next group ...       contiguous for each item
     group   | i0 i1 i2 i3 | i0 i1 i2 i3 | i0 i1 i2 i3 | next group ...         WGS apart: coalesced
     grid    | g0: i0 i1 i2 i3 | g1: i0 i1 i2 i3 | ... | g0: i0 i1 ...          as far apart as there are items in the grid

   Group 0 also takes the remaining elements, fewer than a vector. For dot each item keeps one sum, and the group adds these in local
   memory.
#}
// Streams through memory: out = x, s x, x + y, x + s y, x y or y + s x x; or the sum of x y, first in each group, then over the groups.
// Vector v of an operand begins at element v VECTOR; an item has PER_ITEM vectors, `step` vectors apart.
{% set dot = operation == "dot" %}
{% set two = operation not in ("copy", "mul") %}
{% macro take() -%}
{% if dot %}
sum += VALUE(LOAD(x, v * VECTOR, ALIGNED_X), Y(v * VECTOR));
{%- else %}
const VEC value = VALUE(LOAD(x, v * VECTOR, ALIGNED_X), Y(v * VECTOR));
            STORE(value, out, v * VECTOR, ALIGNED_OUT);
{%- endif %}
{%- endmacro %}
{# stores the sum of `total` over the work-items of a group #}
{% macro store_sum(place) %}
{% if wgs > 1 %}
    __local REAL sums[WGS];
    sums[item] = total;
    for (int reach = WGS / 2; reach > 0; reach /= 2) {
        barrier(CLK_LOCAL_MEM_FENCE);
        if (item < reach)
            sums[item] += sums[item + reach];
    }
    if (item == 0)
        {{ place }} = sums[0];
{%- else %}
    {{ place }} = total;
{%- endif %}
{% endmacro %}
#ifdef DOUBLE
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif

{% if vector == 1 %}
#define LOAD(p, i, aligned) ((p)[i])
#define STORE(v, p, i, aligned) ((p)[i] = (v))
{% else %}
#define LOAD(p, i, aligned) ((aligned) ? *(__global const VEC*)((p) + (i)) : vload{{ vector }}(0, (p) + (i)))
#define STORE(v, p, i, aligned) do { if (aligned) *(__global VEC*)((p) + (i)) = (v); else vstore{{ vector }}(v, 0, (p) + (i)); } while (0)
{% endif %}
{% if operation == "copy" %}
#define VALUE(x, y) (x)
{% elif operation == "mul" %}
#define VALUE(x, y) (scalar * (x))
{% elif operation == "add" %}
#define VALUE(x, y) ((x) + (y))
{% elif operation == "triad" %}
#define VALUE(x, y) ((x) + scalar * (y))
{% elif operation == "square" %}
#define VALUE(x, y) ((y) + scalar * ((x) * (x)))
{% else %}
#define VALUE(x, y) ((x) * (y))
{% endif %}
#define Y(v) {{ "LOAD(y, v, ALIGNED_Y)" if two else "(VEC)(0)" }}

__kernel __attribute__((reqd_work_group_size(WGS, 1, 1))) void stream(
    const INDEX n, __global const REAL* restrict x_memory, const INDEX x_offset,
{% if two %}
    __global const REAL* restrict y_memory, const INDEX y_offset,
{% endif %}
    __global REAL* restrict out_memory, const INDEX out_offset{{ "" if dot else ", const REAL scalar" }})
{
    const INDEX item = (INDEX)get_local_id(0), group = (INDEX)get_group_id(0), whole = n / VECTOR;
    __global const REAL* x = x_memory + x_offset;
{% if two %}
    __global const REAL* y = y_memory + y_offset;
{% endif %}
{% if order == "item" %}
    const INDEX first = (group * WGS + item) * PER_ITEM, step = 1;
{% elif order == "group" %}
    const INDEX first = group * WGS * PER_ITEM + item, step = WGS;
{% else %}
    const INDEX first = group * WGS + item, step = (INDEX)get_num_groups(0) * WGS;
{% endif %}
{% if dot %}
    VEC sum = (VEC)(0);
{% else %}
    __global REAL* out = out_memory + out_offset;
{% endif %}
    const INDEX end = min(first + step * PER_ITEM, whole);
{% if 1 < per_item <= unrolled %}
    if (first + step * (PER_ITEM - 1) < whole) {  // no test between the loads, so that all are in flight together
#pragma unroll
        for (int p = 0; p < PER_ITEM; p++) {
            const INDEX v = first + p * step;
            {{ take() }}
        }
    } else
{% endif %}
    {
#pragma unroll 1
        for (INDEX v = first; v < end; v += step) {
            {{ take() }}
        }
    }
{% if dot %}
    REAL total = {% for lane in range(vector) %}{{ "sum.s%x" % lane if vector > 1 else "sum" }}{{ " + " if not loop.last }}{% endfor %};
{% endif %}
{% if vector > 1 %}
    if (group == 0) {  // the remaining elements
#pragma unroll 1
{% if wgs == 1 %}
        for (INDEX i = whole * VECTOR; i < n; i++)
{% else %}
        for (INDEX i = whole * VECTOR + item; i < n; i += WGS)
{% endif %}
            {{ "total +=" if dot else "out[i] =" }} VALUE(x[i], {{ "y[i]" if two else "0" }});
    }
{% endif %}
{% if dot %}
{{ store_sum("out_memory[out_offset + group]") }}
{% endif %}
}
{% if dot %}

__kernel __attribute__((reqd_work_group_size(WGS, 1, 1))) void stream_sum(
    const INDEX groups, __global const REAL* restrict partial, __global REAL* restrict out, const INDEX out_offset)
{
    const int item = (int)get_local_id(0);
    REAL total = 0;
    for (INDEX i = item; i < groups; i += WGS)
        total += partial[i];
{{ store_sum("out[out_offset]") }}
}
{% endif %}
