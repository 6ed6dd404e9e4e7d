/* Resampling by search in a cumulated distribution, in double precision.
   run: find_index --global 32 --local 32 32=random 32=random 16=index 16=index 32 32 16 16 */
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
int find_index_bin(__global const double *CDF, int beginIndex, int endIndex, double value)
{
  int middleIndex;
  while (beginIndex < endIndex) {
    middleIndex = beginIndex + ((endIndex - beginIndex) / 2);
    if (CDF[middleIndex] >= value) endIndex = middleIndex;
    else beginIndex = middleIndex + 1;
  }
  return beginIndex;
}

__kernel void find_index(__global const double *arrayX, __global const double *u, __global const double *CDF, __global const double *arrayY,
                         __global double *xj, __global double *yj, int Nparticles, int n)
{
  int i = get_global_id(0);
  int index = find_index_bin(CDF, 0, n - 1, u[i] * n);
  if (index == -1) index = Nparticles - 1;
  xj[i] = arrayX[index];
  yj[i] = arrayY[index] + exp(-u[i]);
}
