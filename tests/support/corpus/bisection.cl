/* Eigenvalues of a symmetric tridiagonal matrix by bisection; counting function with a select, intervals updated in place.
   run: bisection --global 16 --local 16 32=random(-4,4) 16=random(-1,1) 15=random(0.1,1) 32
   tolerance: 1e-5 */
uint calNumEigenValuesLessThan(__global const float *diagonal, const uint width, __global const float *offDiagonal, const float x)
{
  uint count = 0;
  float prev_diff = (diagonal[0] - x);
  count += (prev_diff < 0) ? 1 : 0;
  for (uint i = 1; i < width; i += 1) {
    float diff = (diagonal[i] - x) - ((offDiagonal[i - 1] * offDiagonal[i - 1]) / prev_diff);
    count += select(0u, 1u, (uint)(diff < 0));
    prev_diff = diff;
  }
  return count;
}
__kernel void bisection(__global float *newIntervals, __global const float *diagonal, __global const float *offDiagonal, __global float *eigen)
{
  uint threadId = get_global_id(0), lowerId = 2 * threadId, upperId = lowerId + 1;
  float lower = -6.0f, upper = 6.0f;
  for (int n = 0; n < 12; n++) {
    float mid = (lower + upper) / 2.0f;
    if (calNumEigenValuesLessThan(diagonal, get_global_size(0), offDiagonal, mid) > threadId) upper = mid;
    else lower = mid;
  }
  newIntervals[lowerId] = lower;
  newIntervals[upperId] = upper;
  eigen[lowerId] = (lower + upper) * 0.5f;
  eigen[upperId] = ldexp(upper - lower, 10);
}
