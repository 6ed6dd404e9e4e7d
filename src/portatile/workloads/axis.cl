{# How the convolutions index the points of an axis (see axis.py). #}
{% macro positions(periodic, once) %}
// START represents position p of the axis; DOWN, of such a value, the position d further on.
{% if periodic and once %}
// The axis is so long that a position wraps around at most once. The unsigned minimum needs no branch: p - rows is smaller iff p >= rows.
#define START(p) ((p) < 0 ? (p) + rows : (p) >= rows ? (p) - rows : (p))
#define DOWN(p, d) ((int)min((uint)((p) + (d)), (uint)((p) + (d) - rows)))
{% else %}
#define START(p) (p)
#define DOWN(p, d) ((p) + (d))
{% endif %}
{% endmacro %}
{# Defines the function `name`: the index of such a position in the input, or -1 where the input counts as zero. #}
{% macro place_in(name, periodic, once) %}
int {{ name }}(int p, const int rows)
{
{% if not periodic %}
    if (p < 0 || p >= rows)
        return -1;
{% elif not once %}
    p %= rows;
    p = p < 0 ? p + rows : p;
{% endif %}
#if INTERLEAVE
    return (p >> 1) + ((p & 1) ? (rows + 1) >> 1 : 0);
#else
    return p;
#endif
}
{% endmacro %}
{# Defines the function `name`: the index of output o in the output. #}
{% macro place_out(name) %}
int {{ name }}(const int o, const int length)
{
#if SEPARATE
    return (o >> 1) + ((o & 1) ? (length + 1) >> 1 : 0);
#else
    return o;
#endif
}
{% endmacro %}
