// Copies an operand to an image for generic.cl with TXC: pixel (x, y) holds neighbours across k at step x of k, from y times a pixel's
// elements on; zeros where the operand ends.
//
// The operand is stored as `across` x k with K_FAST (contiguous along k: the copy transposes), else as k x `across`. A pixel is four
// floats, or two doubles as four 32-bit channels. With alpha = 0 the operand must not be read, and nothing is written.
{% if real == "double" %}
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
{% endif %}

__kernel __attribute__((reqd_work_group_size(16, 16, 1)))
void gemm_stage(const int across, const int k, const {{ real }} alpha, __global const {{ real }}* restrict base, const long offset,
                const int ld, __write_only image2d_t image)
{
{% if K_FAST %}
    const int kk = (int)get_global_id(0), y = (int)get_global_id(1), first = y * {{ pixel }};
{% else %}
    const int kk = (int)get_global_id(1), y = (int)get_global_id(0), first = y * {{ pixel }};
{% endif %}
    if (alpha == 0 || kk >= k || first >= across)
        return;
    __global const {{ real }}* at = base + offset + {{ "(long)first * ld + kk" if K_FAST else "(long)kk * ld + first" }};
    {{ real }}{{ pixel }} value;
{% for e in range(pixel) %}
    value.s{{ e }} = first + {{ e }} < across ? at[{{ "(long)%d * ld" % e if K_FAST else e }}] : 0;
{% endfor %}
{% if real == "float" %}
    write_imagef(image, (int2)(kk, y), value);
{% else %}
    write_imageui(image, (int2)(kk, y), as_uint4(value));
{% endif %}
}
