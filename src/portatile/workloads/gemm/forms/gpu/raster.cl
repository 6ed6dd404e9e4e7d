{# The tile of a work-group if all tiles of C are wanted: work-groups run along rows of tiles, down columns of them, or through bands of
   RASTER rows. For a triangular operand the tiles with the longest sums come first. #}
    const int across = (n - 1) / {{ bn }} + 1, group = {{ tile_group }};
{% set first_row = "row_tile" if ZEROS == "a above" else "row0" %}
{% if ZEROS[:1] == "b" or RASTER == 0 %}
    const int down = (m - 1) / {{ bm }} + 1, {{ first_row }} = group % down * {{ bm }}, {{ "col_tile" if ZEROS == "b below" else "col0" }} = group / down * {{ bn }};
{% elif RASTER == 1 %}
    const int {{ first_row }} = group / across * {{ bm }}, col0 = group % across * {{ bn }};
{% else %}
    const int band = group / ({{ RASTER }} * across), within = group - band * ({{ RASTER }} * across);
    const int height = min({{ RASTER }}, (m - 1) / {{ bm }} + 1 - band * {{ RASTER }});
    const int {{ first_row }} = (band * {{ RASTER }} + within % height) * {{ bm }}, col0 = within / height * {{ bn }};
{% endif %}
{% if ZEROS == "a above" %}
    const int row0 = ((m - 1) / {{ bm }} - row_tile / {{ bm }}) * {{ bm }};  // the longest sums first
{% endif %}
{% if ZEROS == "b below" %}
    const int col0 = (across - 1) * {{ bn }} - col_tile;  // the longest sums first
{% endif %}
