{# The beginning of a piece: its tile, from where its group has come in the row of steps. #}
{% set lower = ZEROS == "c above" %}
{% set first_tile = "0" if lower else "row_tile * %d / %d" % (bm, bn) %}
{% set wide = "min(across, (row_tile * %d + %d) / %d + 1)" % (bm, bm - 1, bn) if lower else "across - %s" % first_tile %}
    {{ "do" if LOOPED else "if (%s < %s)" % (kept("at"), kept("end")) if piece }} {
    const int at = {{ kept("at") }}, number = at / steps;
    int row_tile = 0, of_row = number;
    for (int wide; of_row >= (wide = {{ wide }}); ++row_tile)
        of_row -= wide;
    const int row0 = row_tile * {{ bm }}, col0 = ({{ first_tile }} + of_row) * {{ bn }};
    const int first_step = at - number * steps, last_step = min({{ kept("end") }} - number * steps, steps), k0 = first_step * {{ KB }};
    const int k1 = {{ nothing("alpha") }} ? k0 : min(k, last_step * {{ KB }});  // alpha = 0 must not read A or B
    const int count = (k1 - k0 + {{ KB - 1 }}) / {{ KB }};
    if (item == 0) {
        {{ kept("row0") }} = row0;
        {{ kept("col0") }} = col0;
        {{ kept("number") }} = number;
    }
