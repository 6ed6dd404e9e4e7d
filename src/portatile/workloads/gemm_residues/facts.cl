// What is known of a row of op(A) or a column of op(B).
typedef struct {
    double factor;   // an element is its integer times this
    double inverse;  // what elements are multiplied by before they are rounded to integers
    float cost;      // half of `factor` in units of 2^-{{ precision }} times those of `sum`, rounded up; 0 where every integer is exact
    float sum;       // the sum of all |a| in 128ths of 2^e, where 2^e is above the largest, and of what rounding may add; rounded up
    int peak;        // the largest exponent; {{ largest }} of infinities and NaN
    int held;        // bit s is set where stretch s of k has elements other than 0; of more than 32 stretches two share a bit
} line_facts;

// 2^n, -1022 <= n <= 1023
double power(const int n)
{
    return as_double((ulong)(n + 1023) << 52);
}
