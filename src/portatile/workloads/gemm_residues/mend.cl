// Marked elements of C, as a native product computes them: terms in the order of k, each a multiply-add that rounds once, by matrix units
// of float64 where there are some, which round in the same way.
//
{% if units %}
{% set blocks, strips = tile[0] // 64, tile[1] // 32 %}
// A tile of {{ tile[0] }} x {{ tile[1] }} elements belongs to 4 x 4 warps of {{ 16 * blocks }} x {{ 8 * strips }}. Of a product of 16 x 8 elements lane 4 g + t has rows g and
// g + 8, columns 2 t and 2 t + 1; of its four steps of k rows g and g + 8 and column g of step t.
{% else %}
// Of a tile of {{ tile[0] }} x {{ tile[1] }} elements, item (x, y) of 16 x 16 has rows 2 y + 32 r + {0, 1} and columns 2 x + 32 c + {0, 1}.
{% endif %}
{% include "combine.cl" %}
#define DEPTH 16
{% if units == "16x8x4" %}
#define MULTIPLY(c, a, b) asm volatile("mma.sync.aligned.m16n8k4.row.col.f64.f64.f64.f64 { %0, %1, %2, %3 }, { %4, %5 }, { %6 }, { %0, %1, %2, %3 };" \
    : "+d"(c##_0), "+d"(c##_1), "+d"(c##_2), "+d"(c##_3) : "d"(a##_0), "d"(a##_1), "d"(b))
{% elif units %}
#define MULTIPLY_HALF(c0, c1, a, b) asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 { %0, %1 }, { %2 }, { %3 }, { %0, %1 };" \
    : "+d"(c0), "+d"(c1) : "d"(a), "d"(b))
#define MULTIPLY(c, a, b) MULTIPLY_HALF(c##_0, c##_1, a##_0, b); MULTIPLY_HALF(c##_2, c##_3, a##_1, b)
{% endif %}
#define STRETCH {{ stretch }}
#define BIT(step, k) ((step) / STRETCH >> ((k) > 32 * STRETCH))  // of a line's `held`; see facts.cl
{% set unroll = "#pragma unroll" if unrolled else "" %}
{% set sums = ["re", "im", "re_im", "im_im"] if parts == 2 else ["re"] %}
{% macro whole(at) %}{% if parts == 2 %}positive(re_{{ at }}) - positive(im_im_{{ at }}), positive(im_{{ at }}) + positive(re_im_{{ at }}){% else %}positive(re_{{ at }}){% endif %}{% endmacro %}
{# of each element of this item: its row and column in the tile, and how its sums are called #}
{% set places = [] %}
{% if units %}
{% for b in range(blocks) %}{% for s in range(strips) %}{% for i in range(4) %}
{% set _ = places.append(("warp / 4 * %d + lane / 4 + %d" % (16 * blocks, 16 * b + i // 2 * 8), "warp %% 4 * %d + lane %% 4 * 2 + %d" % (8 * strips, 8 * s + i % 2), "%d_%d_%d" % (b, s, i))) %}
{% endfor %}{% endfor %}{% endfor %}
{% else %}
{% set heights, widths = tile[0] // 16, tile[1] // 16 %}
{% for r in range(heights) %}{% for s in range(widths) %}
{% set _ = places.append(("2 * y + %d" % (r // 2 * 32 + r % 2), "2 * x + %d" % (s // 2 * 32 + s % 2), "%d_%d" % (r, s))) %}
{% endfor %}{% endfor %}
{% endif %}
{# real lines of an operand with k fast are permuted by fours where fragments are read, so that none meet in one bank when they are stored #}
{% set permuted = units and parts == 1 %}
{% set pad, group = (4, 512) if units else (2, 256) %}
{# this item's share of the next steps of k of an operand: with k fast it lies along a line, else across #}
{% macro place(side, k_fast) %}
const int line = {{ "item / DEPTH + s * %d" % (group // 16) if k_fast else "item %% %d" % side }}, step = {{ "item % DEPTH" if k_fast else "item / %d + s * %d" % (side, group // side) }};
{% endmacro %}
{% macro read(x, side, k_fast, first, end) %}
{{ unroll }}
            for (int s = 0; s < {{ side * 16 // group }}; ++s) {
                {{ place(side, k_fast) }}
                const int inside = next + step < k && {{ first }} + line < {{ end }};
                __global const REAL* at = {{ x }} + {{ parts }} * ({{ x }}_offset + {{ "(%s + line) * ld%s + next + step" % (first, x) if k_fast else "(long)(next + step) * ld%s + %s + line" % (x, first) }});
{% for part in range(parts) %}
                {{ x }}_next[{{ part }}][s] = inside ? {{ "CONJUGATE_%s * " % x.upper() if part }}at[{{ part }}] : (REAL)0;
{% endfor %}
            }
{% endmacro %}
{% macro put(x, side, k_fast) %}
{{ unroll }}
            for (int s = 0; s < {{ side * 16 // group }}; ++s) {
                {{ place(side, k_fast) }}
{% for part in range(parts) %}
                tile_{{ x }}[{{ part }}][step][line{{ " ^ step / 4" if permuted and k_fast }}] = (double){{ x }}_next[{{ part }}][s];
{% endfor %}
            }
{% endmacro %}

// Zero without a sign: which zeros are left out depends on where an element lies.
double positive(const double x)
{
    return x == 0 ? 0.0 : x;
}

// The first step of k, from `step` on, that lies in a stretch where rows and columns of the tile both have elements.
int following(int step, const int k, const uint held)
{
    while (step < k && !(held >> BIT(step, k) & 1))
        step = (step / STRETCH + 1) * STRETCH;
    return step;
}

// Marked elements, as a native product computes them: terms in the order of k, each a multiply-add that rounds once. Zeros may be left out.
__kernel __attribute__((reqd_work_group_size(16, {{ group // 16 }}, 1))) MIN_GROUPS({{ 512 // group }}) void residues_mend(const int m, const int n, const int k, const SCALAR alpha, const SCALAR beta,
                   __global const REAL* restrict a, const long a_offset, const long lda,
                   __global const REAL* restrict b, const long b_offset, const long ldb,
                   __global REAL* restrict c, const long c_offset, const long ldc, __global uchar* restrict marks,
                   __global const line_facts* restrict rows, __global const line_facts* restrict columns,
                   __global int* restrict flags)
{
    __local double tile_a[{{ parts }}][DEPTH][{{ tile[0] + pad }}] __attribute__((aligned(16)));
    __local double tile_b[{{ parts }}][DEPTH][{{ tile[1] + pad }}] __attribute__((aligned(16)));
    __local int special;
    __local uint held_a, held_b;
    const int x = (int)get_local_id(0), y = (int)get_local_id(1), item = y * 16 + x{{ ", lane = item % 32, warp = item / 32" if units }};
    const long top = (long)get_group_id(1) * {{ tile[0] }}, left = (long)get_group_id(0) * {{ tile[1] }};
    const int own = (int)(get_group_id(1) * get_num_groups(0) + get_group_id(0));
    if (!flags[own])  // nothing is marked
        return;
    if (item == 0) {
        special = 0;
        held_a = held_b = 0;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
{% if not units %}
    uint mine = 0;  // a bit for each of this item's elements
{% for row, column, _ in places %}
    mine |= (uint)(top + {{ row }} < m && left + {{ column }} < n && marks[(top + {{ row }}) * n + left + {{ column }}] != 0) << {{ loop.index0 }};
{% endfor %}
{% endif %}
    if (item < {{ tile[0] }} && top + item < m) {
        atomic_or(&held_a, (uint)rows[top + item].held);
        if (rows[top + item].peak == LARGEST)
            special = 1;
    }
    if (item < {{ tile[1] }} && left + item < n) {
        atomic_or(&held_b, (uint)columns[left + item].held);
        if (columns[left + item].peak == LARGEST)
            special = 1;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (item == 0)
        flags[own] = 0;
    const uint held = special ? ~0u : held_a & held_b;  // products with infinities count wherever they stand
{% for _, _, at in places %}
    double {% for name in sums %}{{ name }}_{{ at }} = 0.0{{ ", " if not loop.last }}{% endfor %};
{% endfor %}
    REAL a_next[{{ parts }}][{{ tile[0] * 16 // group }}], b_next[{{ parts }}][{{ tile[1] * 16 // group }}];
    int start = following(0, k, held);
    if (start < k) {
        const int next = start;
{{ read("a", tile[0], a_fast, "top", "m") }}{{ read("b", tile[1], b_fast, "left", "n") }}    }
    while (start < k) {
{{ put("a", tile[0], a_fast) }}{{ put("b", tile[1], b_fast) }}        barrier(CLK_LOCAL_MEM_FENCE);
        const int next = following(start + DEPTH, k, held);
        if (next < k) {
{{ read("a", tile[0], a_fast, "top", "m") }}{{ read("b", tile[1], b_fast, "left", "n") }}        }
{% if units %}
#pragma unroll
        for (int h = 0; h < DEPTH; h += 4) {
{% for b in range(blocks) %}
            const double {% for part in range(parts) %}{% for i in range(2) %}a{{ part }}_{{ b }}_{{ i }} = tile_a[{{ part }}][h + lane % 4][warp / 4 * {{ 16 * blocks }} + {{ 16 * b + 8 * i }} + {{ "(lane / 4 ^ h / 4)" if permuted and a_fast else "lane / 4" }}]{{ ", " if not (loop.last and part == parts - 1) }}{% endfor %}{% endfor %};
{% endfor %}
{% for s in range(strips) %}
            const double {% for part in range(parts) %}b{{ part }}_{{ s }} = tile_b[{{ part }}][h + lane % 4][warp % 4 * {{ 8 * strips }} + {{ 8 * s }} + {{ "(lane / 4 ^ h / 4)" if permuted and b_fast else "lane / 4" }}]{{ ", " if not loop.last }}{% endfor %};
{% endfor %}
{% for name in sums %}
{% for b in range(blocks) %}
{% for s in range(strips) %}
{% set at = "%s_%d_%d" % (name, b, s) %}
            MULTIPLY({{ at }}, a{{ sums.index(name) // 2 }}_{{ b }}, b{{ sums.index(name) % 2 }}_{{ s }});
{% endfor %}
{% endfor %}
{% endfor %}
        }
{% else %}
        if (mine) {
{{ "#pragma unroll 4" if unrolled else "" }}
            for (int h = 0; h < DEPTH; ++h) {
{% for r in range(0, heights, 2) %}
                const double2 {% for part in range(parts) %}a{{ part }}_{{ r }} = *(__local const double2*)&tile_a[{{ part }}][h][2 * y + {{ 16 * r }}]{{ ", " if not loop.last }}{% endfor %};
{% endfor %}
{% for s in range(0, widths, 2) %}
                const double2 {% for part in range(parts) %}b{{ part }}_{{ s }} = *(__local const double2*)&tile_b[{{ part }}][h][2 * x + {{ 16 * s }}]{{ ", " if not loop.last }}{% endfor %};
{% endfor %}
{% for r in range(heights) %}
{% for s in range(widths) %}
{% for name in sums %}
                {{ name }}_{{ r }}_{{ s }} = fma(a{{ loop.index0 // 2 }}_{{ r - r % 2 }}.s{{ r % 2 }}, b{{ loop.index0 % 2 }}_{{ s - s % 2 }}.s{{ s % 2 }}, {{ name }}_{{ r }}_{{ s }});
{% endfor %}
{% endfor %}
{% endfor %}
            }
        }
{% endif %}
        barrier(CLK_LOCAL_MEM_FENCE);
        start = next;
    }
{% for row, column, at in places %}
    if ({{ "top + %s < m && left + %s < n && marks[(top + %s) * n + left + %s]" % (row, column, row, column) if units else "mine >> %d & 1" % loop.index0 }}) {
        combine(alpha, {{ whole(at) }}, beta, c + {{ parts }} * (c_offset + (top + {{ row }}) * ldc + left + {{ column }}));
        marks[(top + {{ row }}) * n + left + {{ column }}] = 0;
    }
{% endfor %}
}
