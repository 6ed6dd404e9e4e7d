// Arithmetic without memory traffic: ILP independent chains of one vector instruction in each work-item; or reads of local memory.
// Element i of out is element i of x after ROUNDS steps, whatever the shape of the work-groups.
{% set local = quantity == "local" %}
{% set fast = "native_" if native else "" %}
#ifdef DOUBLE
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif

#ifdef __clang__  // Clang warns of a loop that it does not unroll, and PoCL would print this on the caller's terminal
#pragma clang diagnostic ignored "-Wpass-failed"
#endif
{% if quantity == "fma" %}
#define STEP(v) {{ "fma(v, factor, summand)" if mad == "fma" else "((v) * factor + summand)" }}
{% elif quantity == "rsqrt" %}
{% if native and vector == 1 %}
#define STEP(v) RSQRT_APPROX(v)
{% else %}
#define STEP(v) {{ fast }}rsqrt(v)
{% endif %}
{% elif quantity == "cos" %}
#define STEP(v) {{ fast }}cos(v)
{% elif quantity == "sin" %}
#define STEP(v) {{ fast }}sin((v) + (REAL)1)
{% elif quantity == "exp2" %}
#define STEP(v) {{ fast }}exp2(-(v))
{% endif %}

__kernel __attribute__((reqd_work_group_size(WGS, 1, 1))) void peak(
    const int n, const int rounds, __global const REAL* restrict x, const int x_offset, __global REAL* restrict out, const int out_offset
    {{- ", const REAL a, const REAL b" if quantity == "fma" }})
{
    const int item = (int)get_local_id(0);
{% if local %}
    const int segment = (int)get_group_id(0) * SEGMENT;
    __local REAL tile[SEGMENT] __attribute__((aligned(64)));
    for (int i = item; i < SEGMENT; i += WGS)
        tile[i] = segment + i < n ? x[x_offset + segment + i] : (REAL)0;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int pass = 0; pass < SEGMENT; pass += WGS * VECTOR * ILP) {
{% for j in range(ilp) %}
        VEC v{{ j }} = (VEC)(0);
        const int at{{ j }} = pass + ({{ j }} * WGS + item) * VECTOR;
{% endfor %}
#pragma unroll {{ unroll }}
        for (int r = 0; r < rounds; r++) {
            const int turn = (r * STRIDE) & (SEGMENT - 1);
{% for j in range(ilp) %}
            v{{ j }} += *(__local const VEC*)(tile + (at{{ j }} ^ turn));
{% endfor %}
        }
{% for j in range(ilp) %}
{% for lane in range(vector) %}
        if (segment + at{{ j }} + {{ lane }} < n)
            out[out_offset + segment + at{{ j }} + {{ lane }}] = v{{ j }}{{ ".s%x" % lane if vector > 1 }};
{% endfor %}
{% endfor %}
    }
{% else %}
    const int first = ((int)get_group_id(0) * ILP * WGS + item) * VECTOR;
{% if quantity == "fma" %}
    const VEC factor = a, summand = b;
{% endif %}
{% for j in range(ilp) %}
    const int at{{ j }} = first + {{ j }} * WGS * VECTOR;
    VEC v{{ j }} = (VEC)(1);
{% for lane in range(vector) %}
    if (at{{ j }} + {{ lane }} < n)
        v{{ j }}{{ ".s%x" % lane if vector > 1 }} = x[x_offset + at{{ j }} + {{ lane }}];
{% endfor %}
{% endfor %}
#pragma unroll {{ unroll }}
    for (int r = 0; r < rounds; r++) {
{% for j in range(ilp) %}
        v{{ j }} = STEP(v{{ j }});
{% endfor %}
    }
{% for j in range(ilp) %}
{% for lane in range(vector) %}
    if (at{{ j }} + {{ lane }} < n)
        out[out_offset + at{{ j }} + {{ lane }}] = v{{ j }}{{ ".s%x" % lane if vector > 1 }};
{% endfor %}
{% endfor %}
{% endif %}
}
