{# The tile of a work-group if C is the sum of a product and its transpose: first the tiles off the diagonal, which need both products, then
   those on it, which take half as long. They are numbered as in quarters.cl. #}
    const int across = (m - 1) / {{ bm }} + 1, beside = across * (across - 1) / 2;
{% set number = "(group < beside ? group : 0)" %}
{% include "triangle_tile.cl" %}
    if (group < beside)
        {{ "row0" if ZEROS == "c above" else "col0" }} += {{ bm }};
    else
        row0 = col0 = (group - beside) * {{ bm }};
