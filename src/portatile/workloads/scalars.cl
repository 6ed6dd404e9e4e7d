{# Arithmetic of elements that are real or, with COMPLEX, vectors of a real and an imaginary part. #}
{% macro nothing(x) %}{{ "(%s.x == 0 && %s.y == 0)" % (x, x) if COMPLEX else "%s == 0" % x }}{% endmacro %}
{% macro times(a, b) %}{{ "times(%s, %s)" % (a, b) if COMPLEX else "%s * %s" % (a, b) }}{% endmacro %}
{% macro one() %}{{ "(REAL)(1, 0)" if COMPLEX else "(REAL)1" }}{% endmacro %}
{# the element mirrored at the diagonal: unchanged, or with HERMITIAN its conjugate #}
{% macro mirrored(x) %}{{ "conjugate(%s)" % x if HERMITIAN else x }}{% endmacro %}
{# for a stack of matrices: the strides between them as further arguments of the kernel, and the step to the matrix that the third dimension
   of the launch selects #}
{% macro steps(names) %}{% if BATCH %}{% for name in names %}, const long {{ name }}_batch{% endfor %}{% endif %}{% endmacro %}
{% macro step(names) %}{% if BATCH %}{% for name in names %}    {{ name }} += (long)get_global_id(2) * {{ name }}_batch;
{% endfor %}{% endif %}{% endmacro %}
{% macro functions() %}
{% if COMPLEX %}
static inline REAL times(const REAL a, const REAL b) { return (REAL)(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x); }
// Smith's algorithm, which neither overflows nor underflows unless the quotient does.
static inline REAL quotient(const REAL a, const REAL b)
{
    if (fabs(b.x) >= fabs(b.y)) {
        const REAL part = (REAL)(b.y / b.x, b.x + b.y * (b.y / b.x));
        return (REAL)((a.x + a.y * part.x) / part.y, (a.y - a.x * part.x) / part.y);
    }
    const REAL part = (REAL)(b.x / b.y, b.y + b.x * (b.x / b.y));
    return (REAL)((a.x * part.x + a.y) / part.y, (a.y * part.x - a.x) / part.y);
}
static inline REAL conjugate(const REAL a) { return (REAL)(a.x, -a.y); }
{% endif %}
{% endmacro %}
