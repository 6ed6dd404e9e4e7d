{#
   The voxels of a work-group, WGS PV VL of them in a row; item `lane` of each of SPLIT slices has those marked #:

      <-   WGS VL    ->               PV times
      +---------------+---------------+
      | ##            | ##            |        registers: re and im of PV vectors of VL voxels, and their x, y, z
      +---------------+---------------+

     local memory: `tile`, CHUNK samples at a time (kx, ky, kz, weight), read for every voxel; slice s adds samples s, s + SPLIT, ...;
     in the end slice 0 adds the sums of the other slices, which they leave in `part`
#}
// Non-uniform inverse Fourier sums of magnetic resonance imaging: for every voxel (x, y, z) the sum over k-space samples of
// w exp(i e), e = 2 pi (kx x + ky y + kz z), where w is |phi|^2 (Q) or conj(phi) d (F^H d). A complex weight is split into its magnitude
// and an angle, which is added to the phase, once for each sample: so F^H d costs little more than Q.
{# On CPUs a work-group has few voxels, and computing the angle would cost more than the two multiply-adds that it saves for each of them. #}
// A work-group computes WGS * PV * VL voxels; its SPLIT slices divide the samples among them. Local memory holds CHUNK samples at a time.
{% set real = "float" ~ (vl if vl > 1 else "") %}

#define ITEMS (WGS * SPLIT)

#if FMA
#define MAD(a, b, c) fma(a, b, c)
#else
#define MAD(a, b, c) ((a) * (b) + (c))
#endif

// The fraction of a phase in turns, exactly: adding 1.5 * 2^23 rounds to an integer (below 2^22). This leaves the special-function unit
// free, which rint would use. Compilers that may reorder sums would remove the additions; NVRTC never does.
{# PoCL crashes on a function of 512 bits if its library was built for narrower registers than the processor has: hence two halves. #}
#if defined(__FAST_RELAXED_MATH__) && !defined(PORTATILE_CUDA)
#define FRACTION(e) ((e) - {{ "(float16)(rint((e).lo), rint((e).hi))" if vl == 16 else "rint(e)" }})
#else
#define FRACTION(e) ((e) - (((e) + 12582912.0f) - 12582912.0f))
#endif

{% if poly %}
// cos and sin of t turns, |t| <= 1/2, by minimax polynomials; absolute error 1.3e-6.
{{ real }} cosine(const {{ real }} t)
{
    const {{ real }} s = t * t;
    {{ real }} sum = -21.076782f;
{% for c in ("58.794041f", "-85.272400f", "64.928726f", "-19.738983f", "0.99999923f") %}
    sum = MAD(sum, s, ({{ real }})({{ c }}));
{% endfor %}
    return sum;
}

{{ real }} sine(const {{ real }} t)
{
    const {{ real }} s = t * t;
    {{ real }} sum = -12.271261f;
{% for c in ("41.205395f", "-76.580101f", "81.596184f", "-41.341423f", "6.2831826f") %}
    sum = MAD(sum, s, ({{ real }})({{ c }}));
{% endfor %}
    return sum * t;
}
{% endif %}

{% macro coordinate(name, p) %}
{% if vl > 1 %}
    const {{ real }} {{ name }}{{ p }} = ({{ real }})({% for v in range(vl) %}{{ name }}[min(first + {{ p }} * WGS * VL + {{ v }}, last) * (INDEX){{ name }}_ld]{{ ", " if not loop.last }}{% endfor %});
{% else %}
    const float {{ name }}{{ p }} = {{ name }}[min(first + {{ p }} * WGS, last) * (INDEX){{ name }}_ld];
{% endif %}
{% endmacro %}
{% macro onto(place) %}{{ "= (more ? image[" ~ place ~ "] : 0.0f) +" if constant else "=" }}{% endmacro %}
{% macro vector(name) %}__global const float* restrict {{ name }}, const INDEX {{ name }}_offset, const INDEX {{ name }}_ld{% endmacro %}

{% set second = "angles" if polar else "across" %}
{# Packs sample `start` + i into place i of `tile`, as the sums read it for every voxel. #}
{% macro packed(start) %}
            const INDEX s = {{ start }} + i;
            const float a = phi_r[s * phi_r_ld], b = phi_i[s * phi_i_ld];
{% if fhd and not polar %}
            const float c = d_r[s * d_r_ld], d = d_i[s * d_i_ld];
            tile[i] = (float4)(kx[s * kx_ld], ky[s * ky_ld], kz[s * kz_ld], a * c + b * d);
            across[i] = a * d - b * c;
{%- elif fhd %}
            const float c = d_r[s * d_r_ld], d = d_i[s * d_i_ld];
            const float along = a * c + b * d, across = a * d - b * c;
            tile[i] = (float4)(kx[s * kx_ld], ky[s * ky_ld], kz[s * kz_ld], hypot(along, across));
            angles[i] = 0.5f * atan2pi(across, along);  // in turns
{%- else %}
            tile[i] = (float4)(kx[s * kx_ld], ky[s * ky_ld], kz[s * kz_ld], a * a + b * b);
{%- endif %}
{% endmacro %}
{% if constant %}
// Packs the samples from `start` on into the arrays that one launch of the sums reads from constant memory, which is small.
__kernel __attribute__((reqd_work_group_size(GATHER, 1, 1))) void gather(
    const int start, const int count,
{% for name in inputs if name not in ("x", "y", "z") %}
    {{ vector(name) }},
{% endfor %}
    __global float4* restrict tile{{ ", __global float* restrict " ~ second if fhd }})
{
{% for name in inputs if name not in ("x", "y", "z") %}
    {{ name }} += {{ name }}_offset;
{% endfor %}
    const int i = (int)get_global_id(0);
    if (i < count) {
{{ packed("start") }}
    }
}

{% endif %}
__kernel __attribute__((reqd_work_group_size(WGS, SPLIT, 1))) {{ "MIN_GROUPS(" ~ resident ~ ") " if resident }}void mri(
    const int samples, const int voxels,
{% if constant %}
    const int more, __constant const float4* restrict tile,{{ " __constant const float* restrict " ~ second ~ "," if fhd }}
{% endif %}
{% for name in inputs if name in ("x", "y", "z") or not constant %}
    {{ vector(name) }},
{% endfor %}
    __global float* restrict image, const INDEX image_offset, const INDEX image_ld)
{
{% if not constant %}
    __local float4 tile[CHUNK];
{% if fhd %}
    __local float {{ second }}[CHUNK];
{% endif %}
{% endif %}
{% if split > 1 %}
    __local float part[SPLIT - 1][2 * PV][WGS];
{% endif %}
    const int lane = (int)get_local_id(0), slice = (int)get_local_id(1){{ ", item = slice * WGS + lane" if not constant }};
    const int first = ((int)get_group_id(0) * WGS * PV + lane) * VL, last = voxels - 1;
{% for name in inputs if name in ("x", "y", "z") or not constant %}
    {{ name }} += {{ name }}_offset;
{% endfor %}
{% for p in range(pv) %}
{{ coordinate("x", p) }}{{ coordinate("y", p) }}{{ coordinate("z", p) }}
    {{ real }} re{{ p }} = 0.0f, im{{ p }} = 0.0f;
{% endfor %}
{% if trig == "direct" %}
{% for p in range(poly, pv) %}
    const {{ real }} xr{{ p }} = 6.2831853f * x{{ p }}, yr{{ p }} = 6.2831853f * y{{ p }}, zr{{ p }} = 6.2831853f * z{{ p }};
{% endfor %}
{% endif %}

{% if constant %}
    {
        const int count = samples;
{% else %}
    for (int base = 0; base < samples; base += CHUNK) {
        const int count = min(CHUNK, samples - base);
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int i = item; i < count; i += ITEMS) {
{{ packed("base") }}
        }
        barrier(CLK_LOCAL_MEM_FENCE);
{% endif %}
#pragma unroll {{ unroll }}
        for (int i = slice; i < count; i += SPLIT) {
            const float4 sample = tile[i];
            const {{ real }} u = sample.x, v = sample.y, w = sample.z, weight = sample.w;
{% if fhd and not polar %}
            const {{ real }} imaginary = across[i];
{% elif fhd %}
            const {{ real }} angle = angles[i];
{% if trig == "direct" %}
            const float radians = 6.2831853f * angles[i];
{% endif %}
{% endif %}
{% for p in range(pv) %}
            {
{% if trig == "direct" and p >= poly %}
                const {{ real }} e = MAD(u, xr{{ p }}, MAD(v, yr{{ p }}, {{ "MAD(w, zr" ~ p ~ ", radians)" if fhd else "w * zr" ~ p }}));
                const {{ real }} c = native_cos(e), s = native_sin(e);
{% else %}
                const {{ real }} turns = MAD(u, x{{ p }}, MAD(v, y{{ p }}, {{ "MAD(w, z" ~ p ~ ", angle)" if fhd and polar else "w * z" ~ p }}));
                const {{ real }} t = FRACTION(turns);
{% if p < poly %}
                const {{ real }} c = cosine(t), s = sine(t);
{% elif trig == "native" %}
                const {{ real }} c = native_cos(t * 6.2831853f), s = native_sin(t * 6.2831853f);
{% else %}
                const {{ real }} c = cospi(t + t), s = sinpi(t + t);
{% endif %}
{% endif %}
                re{{ p }} = MAD(weight, c, re{{ p }});
                im{{ p }} = MAD(weight, s, im{{ p }});
{% if fhd and not polar %}
                re{{ p }} = MAD(-imaginary, s, re{{ p }});
                im{{ p }} = MAD(imaginary, c, im{{ p }});
{% endif %}
            }
{% endfor %}
        }
    }

{% if split > 1 %}
    barrier(CLK_LOCAL_MEM_FENCE);
    if (slice > 0) {
{% for p in range(pv) %}
        part[slice - 1][{{ 2 * p }}][lane] = re{{ p }};
        part[slice - 1][{{ 2 * p + 1 }}][lane] = im{{ p }};
{% endfor %}
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (slice > 0)
        return;
    for (int s = 0; s < SPLIT - 1; s++) {
{% for p in range(pv) %}
        re{{ p }} += part[s][{{ 2 * p }}][lane];
        im{{ p }} += part[s][{{ 2 * p + 1 }}][lane];
{% endfor %}
    }
{% endif %}
    image += image_offset;
{% for p in range(pv) %}
{% for v in range(vl) %}
    if (first + {{ p }} * WGS * VL + {{ v }} < voxels) {
        image[first + {{ p }} * WGS * VL + {{ v }}] {{ onto("first + " ~ p ~ " * WGS * VL + " ~ v) }} re{{ p }}{{ ".s%x" % v if vl > 1 }};
        image[image_ld + first + {{ p }} * WGS * VL + {{ v }}] {{ onto("image_ld + first + " ~ p ~ " * WGS * VL + " ~ v) }} im{{ p }}{{ ".s%x" % v if vl > 1 }};
    }
{% endfor %}
{% endfor %}
}
