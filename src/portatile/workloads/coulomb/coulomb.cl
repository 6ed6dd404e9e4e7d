// Direct Coulomb summation: potential[z][y][x] = the sum over n of q_n / |r - r_n| on a regular grid.
// A work-group computes WGX * PX * VL points along x and WGY * PY rows of one plane; its SPLIT slices share the atoms.
// A work-item's PX vectors of VL points lie WGX vectors apart, so that neighbours write neighbouring points.
{% set real = "float" ~ (vl if vl > 1 else "") %}
{% set bits = "int" ~ (vl if vl > 1 else "") %}

#define LANES (WGX * WGY)
#define ITEMS (LANES * SPLIT)

#if FMA
#define MAD(a, b, c) fma(a, b, c)
#else
#define MAD(a, b, c) ((a) * (b) + (c))
#endif

{% if poly %}
// 1 / sqrt(s) without the special-function unit: halving the exponent, and a cubic that mends the 4 % that this leaves.
// The cubic is the minimax fit of 1 / sqrt(h) for h in [0.921, 1.053]; relative error 6.5e-7. As RSQRT_APPROX it takes
// denormal s for zero.
{{ real }} inverse_root(const {{ real }} s)
{
    const {{ real }} y = as_{{ real }}(0x5f360000 - (as_{{ bits }}(s) >> 1));
    const {{ real }} h = s * y * y;
    const {{ real }} root = y * MAD(MAD(MAD(h, ({{ real }})(-0.32844715f), ({{ real }})(1.36123887f)), h, ({{ real }})(-2.23710611f)), h, ({{ real }})(2.20431393f));
{% if vl > 1 %}
    return s < ({{ real }})(FLT_MIN) ? ({{ real }})(INFINITY) : root;
{% else %}
    return s < FLT_MIN ? INFINITY : root;
{% endif %}
}
{% endif %}

__kernel __attribute__((reqd_work_group_size(WGX, WGY, SPLIT))) void coulomb(
    const int n, const int nx, const int ny, const int nz,
    __global const float* restrict atoms, const INDEX atoms_offset, const INDEX atoms_ld,
    __global float* restrict potential, const INDEX potential_offset, const INDEX potential_ld,
    const float x0, const float y0, const float z0, const float dx, const float dy, const float dz,
    const float y_first, const float z_first)
{
    const int lx = (int)get_local_id(0), ly = (int)get_local_id(1), slice = (int)get_local_id(2);
{% if chunk %}
    __local float4 tile[CHUNK];
    const int item = slice * LANES + ly * WGX + lx;
{% endif %}
{% if split > 1 %}
    __local float part[SPLIT - 1][PX * PY][LANES];
    const int lane = ly * WGX + lx;
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

{% if chunk %}
    for (int base = 0; base < n; base += CHUNK) {
        const int count = min(CHUNK, n - base);
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int i = item; i < count; i += ITEMS) {
            float4 atom = vload4(0, atoms + atoms_offset + (base + i) * atoms_ld);
            atom.z = (z - atom.z) * (z - atom.z);  // the same for the whole plane
            tile[i] = atom;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll {{ unroll }}
        for (int i = slice; i < count; i += SPLIT) {
            const float4 atom = tile[i];
            const float square = atom.z;
{% else %}
    {
#pragma unroll {{ unroll }}
        for (int i = slice; i < n; i += SPLIT) {
            const float4 atom = vload4(0, atoms + atoms_offset + i * atoms_ld);
            const float square = (z - atom.z) * (z - atom.z);
{% endif %}
            const {{ real }} q = atom.w;
{% for r in range(py) %}
            const {{ real }} rest{{ r }} = MAD(ys{{ r }} - atom.y, ys{{ r }} - atom.y, square);
{% endfor %}
{% for p in range(px) %}
            const {{ real }} along{{ p }} = xs{{ p }} - atom.x;
{% for r in range(py) %}
{% set square = "MAD(along" ~ p ~ ", along" ~ p ~ ", rest" ~ r ~ ")" %}
            sum{{ r }}_{{ p }} = MAD(q, {{ "inverse_root" if p < poly else function }}({{ square }}), sum{{ r }}_{{ p }});
{% endfor %}
{% endfor %}
        }
    }

{% if split > 1 %}
    barrier(CLK_LOCAL_MEM_FENCE);
    if (slice > 0) {
{% for r in range(py) %}
{% for p in range(px) %}
        part[slice - 1][{{ r * px + p }}][lane] = sum{{ r }}_{{ p }};
{% endfor %}
{% endfor %}
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (slice > 0)
        return;
    for (int s = 0; s < SPLIT - 1; s++) {
{% for r in range(py) %}
{% for p in range(px) %}
        sum{{ r }}_{{ p }} += part[s][{{ r * px + p }}][lane];
{% endfor %}
{% endfor %}
    }
{% endif %}
{% for r in range(py) %}
    if (top + {{ r }} * WGY < ny) {
        __global float* row = potential + potential_offset + (plane * (INDEX)ny + top + {{ r }} * WGY) * potential_ld;
{% for p in range(px) %}
{% for v in range(vl) %}
        if (left + {{ p }} * WGX * VL + {{ v }} < nx)
            row[left + {{ p }} * WGX * VL + {{ v }}] = sum{{ r }}_{{ p }}{{ ".s%x" % v if vl > 1 }};
{% endfor %}
{% endfor %}
    }
{% endfor %}
}
