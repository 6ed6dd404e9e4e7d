{# The place (row0, col0) of tile `number` of a triangle of C. The tiles are numbered in bands of several rows of tiles; in an upper
   triangle of columns, with rows and columns exchanged. In a band the tiles at the diagonal come first, row by row, then the others, column
   by column. Here a band has two rows of square tiles:

         0                     So work-groups that run at once read few rows of A and of B, which stay in the last-level cache.
         1  2
         6  8  3
         7  9  4  5

   A band ends at whole tiles on both sides. It covers BAND elements of C, or slightly more; four times as many for the sum of a product and
   its transpose. #}
{% set lower = ZEROS == "c above" %}
{% set larger = 2 if REST else 1 %}
{% set shorter = " - %d" % (larger * bm) if QUARTERS or DOUBLED or REST else "" %}
{% set along, across_it = (larger * bm, larger * bn) if lower else (larger * bn, larger * bm) %}
{% set even = [] %}
{% for tiles in range(1, across_it + 1) if tiles * along % across_it == 0 %}
{% set _ = even.append(tiles) %}
{% endfor %}
{% set deep = ((BAND * (4 if DOUBLED else 1) - 1) // (even[0] * along) + 1) * even[0] %}
{% set wide = deep * along // across_it %}
{% set at_diagonal = [] %}
{% for i in range(deep) %}
{% set _ = at_diagonal.append((i * along + along - 1) // across_it + 1) %}
{% endfor %}
    int row0, col0;
    {
    int band = 0, left = {{ number }};
    for (int size; left >= (size = band * {{ wide * deep }} + {{ at_diagonal | sum }}); ++band)
        left -= size;
    const int high = min({{ deep }}, ({{ ("m" if lower else "n") ~ shorter }} - 1) / {{ along }} + 1 - band * {{ deep }});  // of a last band, too
    const int there = ({{ ("n" if lower else "m") ~ shorter }} - 1) / {{ across_it }} + 1 - band * {{ wide }};
    int i = 0;
    for (int of_row; i < high && left >= (of_row = min((i * {{ along }} + {{ along - 1 }}) / {{ across_it }} + 1, there)); ++i)
        left -= of_row;
    const int first_of_tile = (band * {{ deep }} + (i < high ? i : left % high)) * {{ along }};
    const int second_of_tile = (i < high ? band * {{ wide }} + left : left / high) * {{ across_it }};
    row0 = {{ "first_of_tile" if lower else "second_of_tile" }};
    col0 = {{ "second_of_tile" if lower else "first_of_tile" }};
    }

