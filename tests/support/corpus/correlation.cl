/* Mean and standard deviation of columns, with a floor under the deviation.
   run: std_kernel --global 16 --local 16 16=0.5 16 20x16=random 20.0 0.1 16 20 */
__kernel void std_kernel(__global float *mean, __global float *std, __global float *data, float float_n, float eps, int m, int n)
{
  int j = get_global_id(0);
  if (j < m) {
    std[j] = 0.0;
    for (int i = 0; i < n; i++) std[j] += (data[i * m + j] - mean[j]) * (data[i * m + j] - mean[j]);
    std[j] /= float_n;
    std[j] = sqrt(std[j]);
    std[j] = std[j] <= eps ? 1.0 : std[j];
  }
}
