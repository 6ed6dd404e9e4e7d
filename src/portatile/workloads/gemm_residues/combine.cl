{% include "facts.cl" %}

// C from a sum, with each rounding written out, so that no compiler joins two of them or takes one apart.
{% if parts == 2 %}
void combine(const SCALAR alpha, const double re, const double im, const SCALAR beta, __global REAL* c)
{
    double x = (double)alpha.x * re, y = (double)alpha.x * im;
    if (alpha.y != 0) {
        x = fma(-(double)alpha.y, im, x);
        y = fma((double)alpha.y, re, y);
    }
    if (beta.x != 0 || beta.y != 0) {
        const double old = (double)c[0], other = (double)c[1];
        x = fma((double)beta.x, old, x);
        y = fma((double)beta.x, other, y);
        if (beta.y != 0) {
            x = fma(-(double)beta.y, other, x);
            y = fma((double)beta.y, old, y);
        }
    }
    c[0] = (REAL)x;
    c[1] = (REAL)y;
}
{% else %}
REAL combined(const SCALAR alpha, const double re, const SCALAR beta, __global const REAL* c)
{
    return beta == 0 ? (REAL)((double)alpha * re) : (REAL)fma((double)alpha, re, (double)beta * (double)*c);
}

void combine(const SCALAR alpha, const double re, const SCALAR beta, __global REAL* c)
{
    *c = combined(alpha, re, beta, c);
}
{% endif %}
