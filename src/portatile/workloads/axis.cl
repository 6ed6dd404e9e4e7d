{# Where the convolutions find the points of an axis (see axis.py). #}
{% macro positions(periodic, once) %}
// What stands for position p, and for the position d further on.
{% if periodic and once %}
// The axis is so long that one turn is enough: unsigned minima wait for nothing, and from rows on p - rows is the smaller one.
#define START(p) ((p) < 0 ? (p) + rows : (p) >= rows ? (p) - rows : (p))
#define DOWN(p, d) ((int)min((uint)((p) + (d)), (uint)((p) + (d) - rows)))
{% else %}
#define START(p) (p)
#define DOWN(p, d) ((p) + (d))
{% endif %}
{% endmacro %}
{# The function `name` gives the place of such a position in what is read, or -1 where there is nothing but zeros. #}
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
{# The function `name` gives the place of value o in what is written. #}
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
