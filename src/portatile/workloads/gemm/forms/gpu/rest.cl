{# The tiles of a triangle of C that another launch left, from number `first_tile` on. They have twice the side of the tiles here, so four
   work-groups compute each. The tiles off the diagonal come first, numbered as in quarters.cl, then those on it. A work-group whose tile
   lies in the other triangle or past C has no steps of k, and stores nothing. #}
{% set lower = ZEROS == "c above" %}
    const int across = (m - 1) / {{ 2 * bm }} + 1, beside = across * (across - 1) / 2, large = first_tile + group / 4;
{% set number = "(large < beside ? large : 0)" %}
{% include "triangle_tile.cl" %}
    if (large < beside)
        {{ "row0" if lower else "col0" }} += {{ 2 * bm }};
    else
        row0 = col0 = (large - beside) * {{ 2 * bm }};
    row0 += group % 4 / 2 * {{ bm }};
    col0 += group % 2 * {{ bn }};
    const int nowhere = row0 >= m || col0 >= n || {{ "col0 > row0" if lower else "row0 > col0" }};
    if (nowhere)
        {{ "col0" if lower else "row0" }} = 1 << 29;
