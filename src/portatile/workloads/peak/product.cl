{#
   The fragments that a lane of a warp holds, lane = 4 g + t, g < 8, t < 4, for mma.m16n8k8 with float64 (PTX ISA):

          X: 16 x 8                        Y: 8 x 8                          V: 16 x 8
            columns t    t + 4               columns g                         columns 2 t and 2 t + 1
           +-------+-------+                +---------------+                 +---------------+
   rows g  |  a_0  |  a_2  |        rows t  |      b_0      |         rows g  |   v_0   v_1   |
           +-------+-------+                +---------------+                 +---------------+
   g + 8   |  a_1  |  a_3  |         t + 4  |      b_1      |         g + 8   |   v_2   v_3   |
           +-------+-------+                +---------------+                 +---------------+
#}
// Matrix products without memory traffic: V += X Y repeatedly, for tiles X of 16 x 8 and Y, the first 8 rows of X.
// Element i of out is element i of x after ROUNDS steps; tile i / 128 is padded with zeros beyond element n.
{% set mma = mad == "mma" %}
#ifdef DOUBLE
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif

// element `at` of tile t
#define X(t, at) ((t) * 128 + (at) < n ? x[x_offset + (t) * 128 + (at)] : (REAL)0)

__kernel __attribute__((reqd_work_group_size(WGS, 1, 1))) void peak(
    const int n, const int rounds, __global const REAL* restrict x, const int x_offset, __global REAL* restrict out, const int out_offset)
{
    const int item = (int)get_local_id(0);
{% if mma %}
    // A warp has ILP tiles. Of each a lane holds a_0 to a_3: X at row lane / 4 (+ 8) and column lane % 4 (+ 4); b_0 and b_1: Y at row lane
    // % 4 (+ 4) and column lane / 4; v_0 to v_3: V at row lane / 4 (+ 8) and columns 2 (lane % 4) (+ 1).
    const int lane = item % 32, row = lane / 4, column = lane % 4;
    const int first = ((int)get_group_id(0) * (WGS / 32) + item / 32) * {{ ilp }};
{% for j in range(ilp) %}
    const int tile{{ j }} = first + {{ j }};
    const REAL a{{ j }}_0 = X(tile{{ j }}, row * 8 + column), a{{ j }}_1 = X(tile{{ j }}, (row + 8) * 8 + column);
    const REAL a{{ j }}_2 = X(tile{{ j }}, row * 8 + column + 4), a{{ j }}_3 = X(tile{{ j }}, (row + 8) * 8 + column + 4);
    const REAL b{{ j }}_0 = X(tile{{ j }}, column * 8 + row), b{{ j }}_1 = X(tile{{ j }}, (column + 4) * 8 + row);
    REAL v{{ j }}_0 = X(tile{{ j }}, row * 8 + column * 2), v{{ j }}_1 = X(tile{{ j }}, row * 8 + column * 2 + 1);
    REAL v{{ j }}_2 = X(tile{{ j }}, (row + 8) * 8 + column * 2), v{{ j }}_3 = X(tile{{ j }}, (row + 8) * 8 + column * 2 + 1);
{% endfor %}
#pragma unroll {{ unroll }}
    for (int r = 0; r < rounds; r++) {
{% for j in range(ilp) %}
        asm volatile("mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 { %0, %1, %2, %3 }, { %4, %5, %6, %7 }, { %8, %9 }, { %0, %1, %2, %3 };"
            : "+d"(v{{ j }}_0), "+d"(v{{ j }}_1), "+d"(v{{ j }}_2), "+d"(v{{ j }}_3)
            : "d"(a{{ j }}_0), "d"(a{{ j }}_1), "d"(a{{ j }}_2), "d"(a{{ j }}_3), "d"(b{{ j }}_0), "d"(b{{ j }}_1));
{% endfor %}
    }
{% for j in range(ilp) %}
{% for e in range(4) %}
    {
        const int at = tile{{ j }} * 128 + (row + {{ 8 * (e // 2) }}) * 8 + column * 2 + {{ e % 2 }};
        if (at < n)
            out[out_offset + at] = v{{ j }}_{{ e }};
    }
{% endfor %}
{% endfor %}
{% else %}
    const int first = (int)get_group_id(0) * {{ ilp }} * WGS + item;
{% for j in range(ilp) %}
    const int at{{ j }} = first + {{ j }} * WGS, tile{{ j }} = at{{ j }} / 128, row{{ j }} = at{{ j }} % 128 / 8 * 8;
    REAL v{{ j }} = at{{ j }} < n ? x[x_offset + at{{ j }}] : (REAL)0;
{% for k in range(8) %}
    const REAL a{{ j }}_{{ k }} = X(tile{{ j }}, row{{ j }} + {{ k }}), b{{ j }}_{{ k }} = X(tile{{ j }}, {{ 8 * k }} + at{{ j }} % 8);
{% endfor %}
{% endfor %}
#pragma unroll {{ unroll }}
    for (int r = 0; r < rounds; r++) {
{% for k in range(8) %}
{% for j in range(ilp) %}
        v{{ j }} = fma(a{{ j }}_{{ k }}, b{{ j }}_{{ k }}, v{{ j }});
{% endfor %}
{% endfor %}
    }
{% for j in range(ilp) %}
    if (at{{ j }} < n)
        out[out_offset + at{{ j }}] = v{{ j }};
{% endfor %}
{% endif %}
}
