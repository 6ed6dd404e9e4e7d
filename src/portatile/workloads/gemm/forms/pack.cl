// Packs an operand into panels: panel p holds, for every k in turn, WIDTH neighbours across k, with zeros where the operand ends.
//
// The operand is stored as `across` x k with K_FAST (contiguous along k), else as k x `across`. panels[p][kk][w] is the element at p WIDTH
// + w across k and kk along k; a panel has `depth` >= k rows. With alpha = 0 the operand must not be read, and nothing is written.
// With TRIANGLE the operand is triangular: "below" keeps elements with kk <= i (i across k), "above" those with kk >= i; with UNIT its
// diagonal is ones. Zeros are written beside the diagonal up to WIDTH steps away; beyond that panels are undefined, and are not read.
{# with BATCH the third dimension of the launch counts the problems of the batch #}
{% from "elements.cl" import block_factor, block_parameters, eight_widened, nothing, operand, widening with context %}
{# the scale of an element's block of k #}
{% macro scaled(i, kk) %}{{ " * %s" % block_factor(NAME, i, "%s / %d" % (kk, BLOCK)) if BLOCK }}{% endmacro %}
{# the element i across k and kk along k; the rows of complex operands with k fast are real and imaginary parts in turn #}
{% macro at(i, kk) %}
{{ operand("from[(long)((%s) / 2) * ld + (long)%s * 2 + (%s) %% 2]" % (i, kk, i) if COMPLEX and K_FAST else "from[(long)%s * ld + %s]" % ((i, kk) if K_FAST else (kk, i))) }}{{ scaled(i, kk) }}
{%- endmacro %}
{# the row or column of the operand: the real and the imaginary part of a complex one are two lines #}
{% set line = "i / 2" if COMPLEX else "i" %}
{# the element with the triangle's zeros and ones: i across k and kk along k #}
{% macro kept(element) %}
{{ "kk %s %s ? %s : %s" % (("<" if TRIANGLE == "below" else ">") ~ ("" if UNIT else "="), line, element, "(%s)(kk == %s%s)" % (real, line, " && i % 2 == 0" if COMPLEX) if UNIT else "0") if TRIANGLE else element }}
{%- endmacro %}
{% if real == "double" %}
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
{% endif %}
{% if CONVERTED %}
{{ widening(A_KIND) }}
{%- endif %}
{% if EIGHT %}
{{ eight_widened() }}
{% endif %}

{% if SERIAL %}
// One work-item packs a slice of SLICE steps of k in SPAN neighbouring panels, so that it reads whole cache lines. Work-groups count
// slices, then spans.
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
{% else %}
// A work-group of 32 x 8 moves a square of 32 x 32; work-groups count squares across k, then along k.
__kernel __attribute__((reqd_work_group_size(32, 8, 1)))
{% endif %}
void gemm_pack(const int across, const int k, const int depth, const {{ factor }} alpha,
               __global const {{ stored }}* restrict base, const long offset, const int ld, __global {{ real }}* restrict panels{{ ", const long base_batch, const long panels_batch" if BATCH }}{{ block_parameters(NAME) if BLOCK }})
{
{% if EARLY %}
    AFTER_PREVIOUS();
{% endif %}
{% if BATCH %}
    base += (long)get_group_id(2) * base_batch;
    panels += (long)get_group_id(2) * panels_batch;
{% endif %}
    if ({{ nothing("alpha") }})
        return;
{% if SERIAL %}
    const int slices = (depth - 1) / SLICE + 1, first = (int)get_group_id(0) / slices * SPAN;
    const int start = (int)get_group_id(0) % slices * SLICE, end = min(start + SLICE, k);
{% if TRIANGLE == "below" %}
    if (start >= (first + SPAN) * WIDTH{{ " / 2" if COMPLEX }})
        return;
{% elif TRIANGLE == "above" %}
    if (end <= first * WIDTH{{ " / 2" if COMPLEX }})
        return;
{% endif %}
    const int whole = min(first + SPAN, across / WIDTH), last = min(first + SPAN, (across - 1) / WIDTH + 1);
    const long panel_size = (long)depth * WIDTH;
    __global const {{ stored }}* from = base + offset;
    panels += first * panel_size;
{% if K_FAST %}
    for (int panel = first; panel < whole; ++panel, panels += panel_size)
{% if EIGHT %}
    {
        int kk = start;
        for (; kk + 8 <= end; kk += 8) {
            __global float* to = panels + (long)kk * WIDTH;
#pragma unroll
            for (int w = 0; w < WIDTH; ++w) {
                const float8 wide = eight_float16(from + (long)(panel * WIDTH + w) * ld + kk);
{% for e in range(8) %}
                to[{{ e }} * WIDTH + w] = wide.s{{ e }};
{% endfor %}
            }
        }
        for (; kk < end; ++kk)
{% else %}
        for (int kk = start; kk < end; ++kk)
{% endif %}
#pragma unroll
            for (int w = 0; w < WIDTH; ++w)
                panels[(long)kk * WIDTH + w] = {{ at("(panel * WIDTH + w)", "kk") }};
{{ "    }\n" if EIGHT }}{% else %}
{% if EIGHT %}
    float wide[SPAN * WIDTH] __attribute__((aligned(32)));
{% endif %}
    for (int kk = start; kk < end; ++kk) {
        __global const {{ stored }}* line = from + (long)kk * ld + first * WIDTH;
        __global {{ real }}* to = panels + (long)kk * WIDTH;
{% if EIGHT %}
        const int count = (whole - first) * WIDTH;
        int j = 0;
        for (; j + 8 <= count; j += 8)
            *(float8*)(wide + j) = eight_float16(line + j);
        for (; j < count; ++j)
            wide[j] = {{ operand("line[j]") }};
{% endif %}
        for (int panel = first; panel < whole; ++panel, to += panel_size, line += WIDTH)
#pragma unroll
            for (int w = 0; w < WIDTH; ++w)
                to[w] = {{ "wide[(panel - first) * WIDTH + w]" if EIGHT else operand("line[w]") }}{{ scaled("(panel * WIDTH + w)", "kk") }};
    }
    panels += max(whole - first, 0) * panel_size;
{% endif %}
    for (int panel = max(whole, first); panel < last; ++panel, panels += panel_size)  // the one that goes past the operand's end
        for (int kk = start; kk < end; ++kk)
            for (int w = 0; w < WIDTH; ++w) {
                const int i = panel * WIDTH + w;
                panels[(long)kk * WIDTH + w] = i < across ? {{ at("i", "kk") }} : 0;
            }
    panels -= (last - first) * panel_size;
    for (int panel = first; panel < last; ++panel, panels += panel_size)  // what is deeper than k
        for (int kk = max(end, start); kk < min(start + SLICE, depth); ++kk)
            for (int w = 0; w < WIDTH; ++w)
                panels[(long)kk * WIDTH + w] = 0;
{% if TRIANGLE %}
    panels -= (last - first) * panel_size;
    for (int panel = first; panel < last; ++panel, panels += panel_size)
        for (int kk = max(panel * WIDTH{{ " / 2" if COMPLEX }}, start); kk < min((panel + 1) * WIDTH{{ " / 2" if COMPLEX }}, end); ++kk)
            for (int w = 0; w < WIDTH; ++w) {
                const int i = panel * WIDTH + w;
                if (kk {{ ">" if TRIANGLE == "below" else "<" }} {{ line }}{{ " || kk == %s" % line if UNIT }})
                    panels[(long)kk * WIDTH + w] = kk == {{ line }}{{ " && i % 2 == 0" if COMPLEX }};
            }
{% endif %}
{% else %}
    const int x = (int)get_local_id(0), y = (int)get_local_id(1);
    const int width = ((across - 1) / WIDTH + 1) * WIDTH, squares = (width - 1) / 32 + 1;
    const int across0 = (int)get_group_id(0) % squares * 32, k0 = (int)get_group_id(0) / squares * 32;
{% if TRIANGLE == "below" %}
    if (k0 >= ((across0 + 31) / WIDTH + 1) * WIDTH{{ " / 2 + 63" if COMPLEX else " + 31" }})
        return;
{% elif TRIANGLE == "above" %}
    if (k0 + {{ "95 < across0 / WIDTH * WIDTH / 2" if COMPLEX else "63 < across0 / WIDTH * WIDTH" }})
        return;
{% endif %}
    __global const {{ stored }}* from = base + offset;
{% if K_FAST %}
    __local {{ real }} square[32][33];
#pragma unroll
    for (int row = 0; row < 4; ++row) {
        const int i = across0 + y + 8 * row, kk = k0 + x, inside = i < across && kk < k;
        const {{ real }} there = {{ at("(inside ? i : 0)", "(inside ? kk : 0)") }};
        square[y + 8 * row][x] = inside ? there : 0;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
{% endif %}
    const int i = across0 + x;
    __global {{ real }}* to = panels + (long)(i / WIDTH) * depth * WIDTH + i % WIDTH;
{% if not K_FAST %}
    {{ real }} element[4];
#pragma unroll
    for (int row = 0; row < 4; ++row) {
        const int kk = k0 + y + 8 * row, inside = i < across && kk < k;
        const {{ real }} there = {{ at("(inside ? i : 0)", "(inside ? kk : 0)") }};
        element[row] = inside ? there : 0;
    }
{% endif %}
#pragma unroll
    for (int row = 0; row < 4; ++row) {
        const int kk = k0 + y + 8 * row;
        if (kk < depth && i < width)
            to[(long)kk * WIDTH] = {{ kept("square[x][y + 8 * row]" if K_FAST else "element[row]") }};
    }
{% endif %}
}
