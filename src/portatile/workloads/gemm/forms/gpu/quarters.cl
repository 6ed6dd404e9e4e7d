{# Of a square tile on the diagonal of C's triangle only three quarters are wanted, so a work-group computes four such quarters. The other
   tiles lie off the diagonal and are numbered as a triangle of their own.

       tiles 0 and 1 on the diagonal,    | 0 |   |           work-group h has quarters 4 h .. 4 h + 3, which lie in two tiles. The
       and how their quarters are        | 1 | 2 |           rows of both tiles fill the local memory of the rows and columns of one:
       numbered:                                 | 3 |   |
                                                 | 4 | 5 |   panels 0 and 1 are A's tile, 2 and 3 B's

   Each quarter is the work of certain warps, which find its rows at `a_panel` and its columns at `b_panel`; it goes to `quarter_row`,
   `quarter_col`. #}
{% set lower = ZEROS == "c above" %}
{% macro panel(number, source) %}({{ number }}) / 2 * {{ KB * lda_tile }} + ({{ number }}) % 2 * {{ bm // 2 * KB if source in lines + complex_lines else bm // 2 }}{% endmacro %}
    const int across = (m - 1) / {{ bm }} + 1, beside = across * (across - 1) / 2;
{% set number = "(group < beside ? group : 0)" %}
{% include "triangle_tile.cl" %}
    int quarter_row, quarter_col, row_panel = quarter / 2, column_panel = 2 + quarter % 2;
    if (group < beside) {
        {{ "row0" if lower else "col0" }} += {{ bm }};
        quarter_row = row0 + quarter / 2 * {{ bm // 2 }};
        quarter_col = col0 + quarter % 2 * {{ bm // 2 }};
    } else {
        const int number = (group - beside) * 4 + quarter, tile = (group - beside) * 4 / 3;
        const int near = (number / 3 - tile) * 2 + (number % 3 == 2), far = (number / 3 - tile) * 2 + (number % 3 > 0);
        row0 = tile * {{ bm }};
        col0 = min(tile + 1, across - 1) * {{ bm }};
        row_panel = {{ "far" if lower else "near" }};
        column_panel = {{ "near" if lower else "far" }};
        quarter_row = row0 + row_panel * {{ bm // 2 }};
        quarter_col = row0 + column_panel * {{ bm // 2 }};
        if (number >= 3 * across)
            {{ "quarter_col" if lower else "quarter_row" }} = 1 << 29;  // past the last quarter: nothing is stored
    }
    const int a_panel = {{ panel("row_panel", A_FROM) }}, b_panel = {{ panel("column_panel", B_FROM) }};
