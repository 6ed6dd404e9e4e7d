{#
   The points of a work-group, in one plane of the grid; item (lx, ly) of each of SPLIT slices has those marked #:

       <-   WGX VL   ->                 PX times
      +----------------+----------------+
      | ##             | ##             |  WGY rows      sums in registers: PY x PX vectors of VL points
      +----------------+----------------+
      | ##             | ##             |  PY times      slice s adds atoms s, s + SPLIT, ...; in the end the slices' sums are
      +----------------+----------------+                added by halves in local memory

     local memory: `tile`, CHUNK atoms at a time (x, y, squared distance to the plane, charge); if CHUNK is negative the atoms are in
     constant memory, if it is 0 they are read from global memory
#}
// Direct Coulomb summation: potential[z][y][x] = the sum over n of q_n / |r - r_n| on a regular grid.
// A work-group computes WGX * PX * VL points along x and WGY * PY rows of one plane; its SPLIT slices divide the atoms among them.
// The PX vectors of a work-item lie WGX vectors apart, so that neighbouring work-items write neighbouring points.
{% set real = "float" ~ (vl if vl > 1 else "") %}
{% set bits = "int" ~ (vl if vl > 1 else "") %}

#define LANES (WGX * WGY)
#define ITEMS (LANES * SPLIT)
#define SUMS (SPLIT / 2 * PX * PY * LANES)
#define NEAR 1.2e-19f  // slightly above sqrt(FLT_MIN): an atom farther away than this along an axis lies on no point

#if FMA
#define MAD(a, b, c) fma(a, b, c)
#else
#define MAD(a, b, c) ((a) * (b) + (c))
#endif

{% if poly %}
// 1 / sqrt(s) without the special-function unit: halving the exponent gives y with an error of up to 6 %, which a polynomial in
// h = s y^2 corrects. It is the minimax fit of 1 / sqrt(h) for h in [0.75, 0.844]; the constant makes this interval as narrow as possible.
// Relative error including roundings: cubic 6.9e-7, quadratic 1.7e-5. s must be at least FLT_MIN.
{{ real }} quick_root(const {{ real }} s)
{
    const {{ real }} y = as_{{ real }}(0x5f200000 - (as_{{ bits }}(s) >> 1));
    const {{ real }} h = s * y * y;
{% if degree == 3 %}
    return y * MAD(MAD(MAD(h, ({{ real }})(-0.69411695f), ({{ real }})(2.3225865f)), h, ({{ real }})(-3.0821934f)), h, ({{ real }})(2.4527206f));
{% else %}
    return y * MAD(MAD(h, ({{ real }})(0.6631531f), ({{ real }})(-1.7609286f)), h, ({{ real }})(2.102355f));
{% endif %}
}

// The same for any s; like RSQRT_APPROX it treats a denormal s as zero.
{{ real }} inverse_root(const {{ real }} s)
{
{% if vl > 1 %}
    return s < ({{ real }})(FLT_MIN) ? ({{ real }})(INFINITY) : quick_root(s);
{% else %}
    return s < FLT_MIN ? INFINITY : quick_root(s);
{% endif %}
}
{% endif %}
{% set watch = poly and (chunk or constant) and gpu %}
{% if watch %}

// The distance of an atom from the grid's points along an axis: the least distance to the three points around (at - origin) / spacing.
// It is exact as long as the error of that quotient is less than one; for larger grids the result is 0, which is always safe.
float distance_to(const float at, const float origin, const float spacing, const float inverse, const float first, const int count)
{
    if (first + (float)count > 4194304.0f)
        return 0.0f;
    const float index = fmin(fmax(rint((at - origin) * inverse), first), first + (float)(count - 1));
    const float here = fabs(fma(index, spacing, origin) - at);
    return fmin(here, fmin(fabs(fma(index - 1.0f, spacing, origin) - at), fabs(fma(index + 1.0f, spacing, origin) - at)));
}
{% endif %}

{# Adds the term of `atom` to all sums of the work-item. #}
{% macro add_atom(root) %}
            const {{ real }} q = atom.w;
{% for r in range(py) %}
            const {{ real }} rest{{ r }} = MAD(ys{{ r }} - atom.y, ys{{ r }} - atom.y, square);
{% endfor %}
{% for p in range(px) %}
            const {{ real }} along{{ p }} = xs{{ p }} - atom.x;
{% for r in range(py) %}
{% set square = "MAD(along" ~ p ~ ", along" ~ p ~ ", rest" ~ r ~ ")" %}
            sum{{ r }}_{{ p }} = MAD(q, {{ root if p * py + r < poly else function }}({{ square }}), sum{{ r }}_{{ p }});
{% endfor %}
{% endfor %}
{% endmacro %}
{% macro add_chunk(root, unroll) %}
#pragma unroll {{ unroll }}
        for (int i = slice; i < count; i += SPLIT) {
            const float4 atom = tile[i];
            const float square = atom.z;
{{ add_atom(root) }}
        }
{% endmacro %}
{% macro add_charges(root, unroll) %}
#pragma unroll {{ unroll }}
    for (int i = slice; i < n; i += SPLIT) {
        const float4 atom = charges[i];
        const float square = (z - atom.z) * (z - atom.z);
{{ add_atom(root) }}
    }
{% endmacro %}

{% if constant %}
// Packs the atoms from `start` on into an array that one launch of the sums reads from constant memory, which is small.
__kernel __attribute__((reqd_work_group_size(GATHER, 1, 1))) void gather(
    const int start, const int count,{{ " const int nx, const int ny, const int nz," if watch }}
    __global const float* restrict atoms, const INDEX atoms_offset, const INDEX atoms_ld,
    __global float4* restrict packed{{ ", __global int* restrict near," if watch }}
{% if watch %}
    const float x0, const float y0, const float z0, const float dx, const float dy, const float dz,
    const float y_first, const float z_first
{% endif %}
)
{
    const int item = (int)get_local_id(0);
{% if watch %}
    __local int touching;  // whether an atom may lie on a point
    if (item == 0)
        touching = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
{% endif %}
    for (int i = item; i < count; i += GATHER) {
        const float4 atom = vload4(0, atoms + atoms_offset + (start + i) * atoms_ld);
        packed[i] = atom;
{% if watch %}
        if (!(distance_to(atom.x, x0, dx, 1.0f / dx, 0.0f, nx) > NEAR || distance_to(atom.y, y0, dy, 1.0f / dy, y_first, ny) > NEAR
              || distance_to(atom.z, z0, dz, 1.0f / dz, z_first, nz) > NEAR))
            touching = 1;
{% endif %}
    }
{% if watch %}
    barrier(CLK_LOCAL_MEM_FENCE);
    if (item == 0)
        *near = touching;
{% endif %}
}

{% endif %}
__kernel __attribute__((reqd_work_group_size(WGX, WGY, SPLIT))) {{ "MIN_GROUPS(" ~ resident ~ ") " if resident }}void coulomb(
    const int n, const int nx, const int ny, const int nz,
{% if constant %}
    const int more, __constant const float4* restrict charges,{{ " __global const int* restrict near," if watch }}
{% else %}
    __global const float* restrict atoms, const INDEX atoms_offset, const INDEX atoms_ld,
{% endif %}
    __global float* restrict potential, const INDEX potential_offset, const INDEX potential_ld,
    const float x0, const float y0, const float z0, const float dx, const float dy, const float dz,
    const float y_first, const float z_first)
{
    const int lx = (int)get_local_id(0), ly = (int)get_local_id(1), slice = (int)get_local_id(2);
{% if chunk %}
    const int item = slice * LANES + ly * WGX + lx;
{% endif %}
{% if chunk or split > 1 %}
    __local float4 tile[CHUNK * 4 > SUMS ? CHUNK : (SUMS + 3) / 4];  // atoms, at the end sums
{% endif %}
{% if watch and not constant %}
    __local int touching;  // 1 + the first atom of the latest chunk in which an atom may lie on a point
{% endif %}
    const int across = (nx + WGX * PX * VL - 1) / (WGX * PX * VL), down = (ny + WGY * PY - 1) / (WGY * PY);
    const int group = (int)get_group_id(0), plane = group / across / down;
    const int left = (group % across * WGX * PX + lx) * VL, top = group / across % down * WGY * PY + ly;
    const float z = fma((float)plane + z_first, dz, z0);
{% for p in range(px) %}
{% if vl > 1 %}
    const {{ real }} xs{{ p }} = ({{ real }})({% for v in range(vl) %}fma((float)(left + {{ p }} * WGX * VL + {{ v }}), dx, x0){{ ", " if not loop.last }}{% endfor %});
{% else %}
    const float xs{{ p }} = fma((float)(left + {{ p }} * WGX), dx, x0);
{% endif %}
{% endfor %}

{% for r in range(py) %}
    const float ys{{ r }} = fma((float)(top + {{ r }} * WGY) + y_first, dy, y0);
{% for p in range(px) %}
    {{ real }} sum{{ r }}_{{ p }} = 0.0f;
{% endfor %}
{% endfor %}

{% if watch and not constant %}
    // in chunks with an atom on a point, and only there, the polynomial must test its argument
    const float per_x = 1.0f / dx, per_y = 1.0f / dy;
    if (item == 0)
        touching = 0;
{% endif %}
{% if chunk %}
    for (int base = 0; base < n; base += CHUNK) {
        const int count = min(CHUNK, n - base);
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int i = item; i < count; i += ITEMS) {
            float4 atom = vload4(0, atoms + atoms_offset + (base + i) * atoms_ld);
            const float above = z - atom.z;
            atom.z = above * above;  // the same for the whole plane
            tile[i] = atom;
{% if watch %}
            if (!(fabs(above) > NEAR || distance_to(atom.x, x0, dx, per_x, 0.0f, nx) > NEAR
                  || distance_to(atom.y, y0, dy, per_y, y_first, ny) > NEAR))
                touching = base + 1;
{% endif %}
        }
        barrier(CLK_LOCAL_MEM_FENCE);
{% if watch %}
        if (touching != base + 1) {
{{ add_chunk("quick_root", unroll) }}
        } else
{% endif %}
        {
{{ add_chunk("inverse_root", 1 if watch else unroll) }}
        }
    }
{% elif constant %}
{% for way in (("quick_root", unroll), ("inverse_root", 1)) if watch %}
    {{ "if (!*near) {" if loop.first else "} else {" }}
{{ add_charges(*way) }}
{{ "    }" if loop.last }}
{% else %}
{{ add_charges("inverse_root", unroll) }}
{% endfor %}
{% else %}
#pragma unroll {{ unroll }}
    for (int i = slice; i < n; i += SPLIT) {
        const float4 atom = vload4(0, atoms + atoms_offset + i * atoms_ld);
        const float square = (z - atom.z) * (z - atom.z);
{{ add_atom("inverse_root") }}
    }
{% endif %}

{% for half in halves %}
    // slices from {{ half }} on leave their sums, which the slices before them add
    barrier(CLK_LOCAL_MEM_FENCE);
    {
        __local float* part = (__local float*)tile + slice % {{ half }} * (PX * PY * LANES) + ly * WGX + lx;
        if (slice >= {{ half }} && slice < {{ 2 * half }}) {
{% for r in range(py) %}
{% for p in range(px) %}
            part[{{ r * px + p }} * LANES] = sum{{ r }}_{{ p }};
{% endfor %}
{% endfor %}
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        if (slice < {{ half }}) {
{% for r in range(py) %}
{% for p in range(px) %}
            sum{{ r }}_{{ p }} += part[{{ r * px + p }} * LANES];
{% endfor %}
{% endfor %}
        }
    }
{% endfor %}
{% if split > 1 %}
    if (slice > 0)
        return;
{% endif %}
{% for r in range(py) %}
    if (top + {{ r }} * WGY < ny) {
        __global float* row = potential + potential_offset + (plane * (INDEX)ny + top + {{ r }} * WGY) * potential_ld;
{% for p in range(px) %}
{% for v in range(vl) %}
        if (left + {{ p }} * WGX * VL + {{ v }} < nx)
            row[left + {{ p }} * WGX * VL + {{ v }}] {{ "= (more ? row[left + " ~ p ~ " * WGX * VL + " ~ v ~ "] : 0.0f) +" if constant else "=" }} sum{{ r }}_{{ p }}{{ ".s%x" % v if vl > 1 }};
{% endfor %}
{% endfor %}
    }
{% endfor %}
}
