{# The beginning of a piece: its tile, and the first of its steps, from how far its work-group has come in the sequence. #}
    {{ "do" if LOOPED else "if (%s < %s)" % (kept("at"), kept("end")) if piece }} {
    const int at = {{ kept("at") }}, number = at / steps;
{% set number = "number" %}
{% include "triangle_tile.cl" %}
    const int first_step = at - number * steps, last_step = min({{ kept("end") }} - number * steps, steps), k0 = first_step * {{ KB }};
    const int k1 = {{ nothing("alpha") }} ? k0 : min(k, last_step * {{ KB }});  // alpha = 0 must not read A or B
    const int count = (k1 - k0 + {{ KB - 1 }}) / {{ KB }};
    if (item == 0) {
        {{ kept("row0") }} = row0;
        {{ kept("col0") }} = col0;
        {{ kept("number") }} = number;
    }
