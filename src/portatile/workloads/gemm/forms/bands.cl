{# Work-group x has a tile of TR rows x TC columns, counted down the columns of bands of RASTER rows of tiles (0: one band). #}
    const int down = (m - 1) / TR + 1, across = (n - 1) / TC + 1, group = (int)get_group_id(0);
{% if RASTER == 0 %}
    const int tile_row = group % down, tile_col = group / down;
{% else %}
    const int band = group / (RASTER * across), within = group - band * (RASTER * across);
    const int height = min(RASTER, down - band * RASTER);
    const int tile_row = band * RASTER + within % height, tile_col = within / height;
{% endif %}
    const int row0 = tile_row * TR, col0 = tile_col * TC;
