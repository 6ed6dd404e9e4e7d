{# The numbers of each modulus: written where they are used in an unrolled text, else in constant memory. #}
{% macro entry(name, l, t=none) %}
{% if unrolled %}({{ numbers[name][l] if t is none else numbers[name][l][t] }}){% else %}{{ name }}[{{ l }}]{% if t is not none %}[{{ t }}]{% endif %}{% endif %}
{% endmacro %}
{% macro tables() %}
{% if not unrolled %}
{% for name, rows in numbers.items() %}
{% if rows[0] is string %}
__constant float {{ name }}[{{ rows | length }}] = { {{ rows | join(", ") }} };
{% else %}
__constant int {{ name }}[{{ rows | length }}][{{ rows[0] | length }}] = {
{% for row in rows %}
    { {{ row | join(", ") }} },
{% endfor %}
};
{% endif %}
{% endfor %}
{% endif %}
{% endmacro %}
