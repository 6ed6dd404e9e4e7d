// y += a x: the kernel of `portatile run examples/saxpy.cl saxpy --global 4096 4096=random 4096=index 2.5`.
__kernel void saxpy(__global float *y, __global const float *x, const float a)
{
    const size_t i = get_global_id(0);
    y[i] += a * x[i];
}
