// What the tests of memory, launches and binaries run.
__kernel void scale(__global const float *x, __global float *y, const float a, const int n)
{
    const int i = get_global_id(0);
    if (i < n)
        y[i] = a * x[i];
}

__kernel void scalars(__global double *out, const int i, const uint u, const long l, const ulong w, const float f, const double d)
{
    if (get_global_id(0) == 0) {
        out[0] = i; out[1] = u; out[2] = l; out[3] = w; out[4] = f; out[5] = d;
    }
}

__kernel void reverse(__global int *x, __local int *first, const int unused, __local int *second)
{
    const int l = get_local_id(0), n = get_local_size(0), i = get_group_id(0) * n + l;
    first[l] = x[i];
    second[l] = -x[i];
    barrier(CLK_LOCAL_MEM_FENCE);
    x[i] = first[n - 1 - l] + 1000 * second[n - 1 - l];
}

__kernel __attribute__((reqd_work_group_size(8, 2, 1))) void fixed(__global int *x)
{
    __local int part[16];
    const int l = get_local_id(1) * 8 + get_local_id(0);
    part[l] = l;
    barrier(CLK_LOCAL_MEM_FENCE);
    x[l] = part[15 - l];
}

struct pair { int first; float second; };

__kernel void structure(__global float *out, const struct pair p)
{
    out[0] = p.first + p.second;
}

__kernel void increment(__global int *x)
{
    x[get_global_id(0)] += 1;
}
